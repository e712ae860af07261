"""The logic of the benchmarks: comparing, storing and formatting. No test measures time."""

import json
import re
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("psutil", reason="needs the dependencies of the benchmarks")

from bench import core_seconds, corpora, figures, peer_tables, trials
from bench.contenders import CONTENDERS, strict_loads
from bench.core_seconds import by_category, parse_report, profile_table
from bench.figures import FIGURES, Value, stage_values, trial_values
from bench.history import HistoryLine, Machine, append, compare, line_of, machine, read, worse
from bench.measure import Job, Measured, measure
from bench.peer_tables import Row, Sheet, blocks_of, put_block
from bench.real import shard_lines
from bench.report import page
from bench.shapes import SHAPES, shards_of
from bench.tables import comparison_table, number
from bench.templates import template
from bench.trials import Trial, better, run_trials
from fastrec.judge.judge import Judge
from tests.docs.reference import ROOT
from tests.normalize.normalizing import write
from tests.samples import sample

HERE = Machine("a processor", 2)


def value(
    relative: float | None, *, better: str = "lower", of: str = "mixed-1", name: str = "figure"
) -> Value:
    return Value(name=name, value=relative, unit="×", better=better, relative=relative, of=of)


def lines_of(*values: Value, where: Machine = HERE) -> list[HistoryLine]:
    return [msgspec.structs.replace(line_of([each], 1.0, 0.0), machine=where) for each in values]


BY_NAME = {figure.name: figure for figure in FIGURES}


def run(**fields: Any) -> Measured:
    return Measured(**{"seconds": 1.0, "cpu_seconds": 1.0, "peak_bytes": 1, **fields})


@pytest.mark.parametrize(
    ("direction", "before", "now", "is_worse"),
    [
        ("lower", 1.0, 1.14, False),
        ("lower", 1.0, 1.16, True),
        ("lower", 1.0, 0.5, False),
        ("higher", 2.0, 1.75, False),
        ("higher", 2.0, 1.7, True),
        ("higher", 2.0, 4.0, False),
    ],
)
def test_worse_means_more_than_15_percent(direction, before, now, is_worse) -> None:
    history = lines_of(value(before, better=direction))
    assert bool(worse(compare([value(now, better=direction)], history, HERE))) is is_worse


def test_figures_are_compared_with_the_best_earlier_run() -> None:
    history = lines_of(value(1.4), value(1.0), value(1.3))
    assert compare([value(1.2)], history, HERE)[0].change == pytest.approx(0.2)


def test_figures_of_another_corpus_are_not_compared() -> None:
    """A new version of a corpus starts a new history."""
    assert compare([value(9.0)], lines_of(value(1.0, of="mixed-2")), HERE)[0].best is None


def test_earlier_runs_on_this_machine_take_precedence() -> None:
    elsewhere = Machine("another", 64)
    history = lines_of(value(0.5), where=elsewhere) + lines_of(value(1.0))
    assert compare([value(1.0)], history, HERE)[0].best == 1.0
    assert compare([value(1.0)], history, Machine("a third", 4))[0].best == 0.5


def test_a_figure_that_fails_now_but_not_before_is_worse() -> None:
    assert worse(compare([value(None)], lines_of(value(1.0)), HERE))
    assert not worse(compare([value(None)], [], HERE))


def test_throughput_is_compared_relative_to_the_calibration() -> None:
    """A machine of half the speed gives the same relative figure."""
    (fast,) = stage_values([{"split": {"MB/s": 1000.0}}], 0.1)
    (slow,) = stage_values([{"split": {"MB/s": 500.0}}], 0.2)
    assert fast.relative == slow.relative
    assert fast.value != slow.value


def test_seconds_are_relative_to_the_calibration_and_ratios_are_not() -> None:
    ten = BY_NAME["ten lines"]
    floor = BY_NAME["normalize / recompression, mixed"]
    results = {
        ten.trials[0]: run(seconds=0.3),
        floor.trials[0]: run(seconds=3.5),
        floor.trials[1]: run(seconds=2.0),
    }
    ten_lines, ratio = trial_values([ten, floor], results, 0.1)
    assert (ten_lines.value, ten_lines.relative) == (0.3, pytest.approx(3.0))
    assert (ratio.value, ratio.relative) == (1.75, 1.75)
    assert ten_lines.reached is True
    assert ratio.reached is False


def test_the_error_of_a_failed_peer_replaces_the_figure() -> None:
    figure = BY_NAME["normalize vs Polars, mixed"]
    runs = (run(), run(error="ComputeError"))
    values = trial_values([figure], dict(zip(figure.trials, runs, strict=True)), 1.0)
    assert values[0].value is None
    assert values[0].error == "Polars: ComputeError"
    assert line_of(values, 1.0, 0.0).figures == {}
    assert "ComputeError" in comparison_table(compare(values, [], HERE))


def test_the_better_of_two_runs_of_a_stage_counts() -> None:
    slow = {"split": {"MB/s": 1.0}, "duplicate_key_check": {"ratio": 0.1}}
    fast = {"split": {"MB/s": 2.0}, "duplicate_key_check": {"ratio": 0.2}}
    values = {value.name: value.value for value in stage_values([slow, fast], 1.0)}
    assert values == {"split": 2.0, "duplicate_key_check": 0.1}


def test_names_of_figures_are_unique() -> None:
    assert len(FIGURES) == len(BY_NAME)


def test_every_contender_of_a_table_is_defined() -> None:
    contenders = peer_tables._TABLE["contenders"].values()
    assert {label for labels in contenders for label in labels} <= set(CONTENDERS)


def test_every_corpus_of_a_figure_is_defined() -> None:
    assert {trial.corpus for figure in FIGURES for trial in figure.trials} <= set(corpora.CORPORA)


def test_the_history_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    line = line_of([value(1.5)], 0.1, 0.2)
    append(line, path)
    append(line, path)
    assert read(path) == [line, line]
    assert read(tmp_path / "none") == []


def test_the_history_does_not_name_the_machine() -> None:
    assert set(msgspec.to_builtins(machine())) == {"cpu", "cores"}


def test_the_shorter_times_and_the_larger_memory_of_two_runs_count() -> None:
    first = run(seconds=2.0, cpu_seconds=3.0, peak_bytes=5)
    second = run(seconds=1.0, cpu_seconds=4.0, peak_bytes=4)
    assert better(first, second) == run(seconds=1.0, cpu_seconds=3.0, peak_bytes=5)


def test_measurements_include_child_processes() -> None:
    child = (
        "import time; held = bytearray(100_000_000); time.sleep(1.5)\nwhile "
        "time.process_time() < 0.4: pass"
    )
    measured = measure(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])",
        ]
    )
    assert measured.error is None
    assert measured.cpu_seconds >= 0.4
    assert measured.peak_bytes > 100_000_000


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ValueError('no')", "ValueError"),
        ("import no_such_module", "not installed"),
        ("import sys; sys.exit(7)", "exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", "killed"),
    ],
)
def test_a_failure_has_a_short_reason(code: str, reason: str) -> None:
    assert measure([sys.executable, "-c", code]).error == reason


def test_a_command_is_killed_after_the_time_limit() -> None:
    assert (
        measure([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.5).error
        == "over 0 s"
    )


def test_only_the_text_between_the_markers_is_replaced() -> None:
    text = "before\n<!-- peers -->\nold\n<!-- /peers -->\nafter\n"
    new = put_block(text, "new")
    assert new == "before\n<!-- peers -->\nnew\n<!-- /peers -->\nafter\n"
    assert put_block(new, "new") == new
    with pytest.raises(ValueError, match="peers"):
        put_block("no markers", "new")


def test_the_report_is_self_contained() -> None:
    history = lines_of(value(1.5, name="a <figure>"), value(1.2, name="a <figure>"))
    html = page(history)
    assert "<svg" in html
    assert "a &lt;figure&gt;" in html
    assert "http" not in html
    assert "src=" not in html


@pytest.mark.parametrize("values", [[0.0], [1.0], [-0.1, 0.2], [3.0, 2.0, 1.0]])
def test_all_values_can_be_plotted(values: list[float]) -> None:
    drawn = template("report.html").plot([(each, "run") for each in values], None)
    heights = re.findall(r'cy="([^"]*)"', drawn)
    assert len(heights) == len(values)
    assert all(0 <= float(height) <= 120 for height in heights)


@pytest.mark.parametrize(
    ("each", "unit", "shown"),
    [
        (1234.5, "MB/s", "1,234 MB/s"),
        (1.234, "×", "1.23 ×"),
        (0.0123, "×", "0.012 ×"),
        (None, "s", "failed"),
    ],
)
def test_numbers_are_short(each: float | None, unit: str, shown: str) -> None:
    assert number(each, unit) == shown


@pytest.mark.parametrize(
    "line", [b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": Infinity}', b'"\xff"', b"{"]
)
def test_the_parser_of_the_peers_is_strict(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict_loads(line)


def test_a_corpus_is_cached_until_its_plan_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "OUT", tmp_path)
    first = corpora.corpus("ten-lines")
    assert first.lines == 10
    assert sum(len(list(shard_lines(path))) for path in first.paths()) == 10
    assert corpora.corpus("ten-lines") == first
    changed = {**corpora.CORPORA["ten-lines"], "records": 11}
    monkeypatch.setitem(corpora.CORPORA, "ten-lines", changed)
    assert corpora.corpus("ten-lines").lines == 11
    assert not first.directory.exists()


SIZES = {"many-evaluations": (700, 30_000), "transcripts": (30_000, 600_000)}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_have_valid_records_of_the_newest_version(shape: str) -> None:
    judge = Judge()
    (low, high) = SIZES[shape]
    for _, shard in islice(shards_of(shape, 1), 4):
        lines = list(shard)
        batch = judge.judge_chunk(b"\n".join(lines) + b"\n", bytearray())
        assert (batch.versions["0.3.0"], batch.slow, batch.rejected) == (len(lines), 0, [])
        assert all(low < len(line) < high for line in lines)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_text_of_a_shape_depends_on_the_seed_alone(shape: str) -> None:
    """The shards can be made in any order."""

    def made(seed: int, step: int = 1) -> list[list[bytes]]:
        shards = [shard for _, shard in islice(shards_of(shape, seed), 2)]
        return [list(shard) for shard in shards[::step]]

    assert made(1) == made(1) == made(1, -1)[::-1]
    assert made(1) != made(2)


REPORT = """\
# Samples: 1K of event 'cpu-clock:pppH'
#
#      Samples|Shared Object                              |Symbol
 165        |backend_c.cpython-311-aarch64-linux-gnu.so |[.] ZSTD_compressBlock_doubleFast
 86         |backend_c.cpython-311-aarch64-linux-gnu.so |[.] ZSTD_decompressBlock_internal.part.0
 52         |libc.so.6                                  |[.] __memcpy_generic
 47         |[kernel.kallsyms]                          |[k] __arch_copy_from_user
 29         |_core.cpython-313-x86_64-linux-gnu.so      |[.] json_encode_str
 25         |python3.13                                 |[.] _PyEval_EvalFrameDefault
 2          |libcrypto.so.3                             |[.] 0x00000000002642a8
 1          |ld-linux-aarch64.so.1                      |[.] _dl_relocate_object

"""


def test_samples_of_perf_are_counted_by_category() -> None:
    samples = list(parse_report(REPORT))
    assert samples[0] == (
        165,
        "backend_c.cpython-311-aarch64-linux-gnu.so",
        "ZSTD_compressBlock_doubleFast",
    )
    assert by_category(samples) == {
        "zstd: compress": 165,
        "zstd: decompress": 86,
        "copy bytes": 52,
        "kernel: copy and clear pages": 47,
        "msgspec: encode": 29,
        "Python: interpreter": 25,
        "SHA-256": 2,
        "other": 1,
    }


def test_the_profile_shows_seconds_and_shares() -> None:
    table = profile_table("bare", 4.0, parse_report(REPORT))
    rows = [line.split() for line in table.splitlines()]
    assert rows[0] == ["bare", "core-seconds", "share"]
    assert rows[2] == ["zstd:", "compress", "1.62", "40.5%"]
    assert rows[-1] == ["total", "4.00", "100.0%"]


def test_there_is_no_profile_without_perf(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(core_seconds.shutil, "which", lambda _: None)
    assert core_seconds.main([]) == 1
    assert "`perf` is not installed" in capsys.readouterr().out


def test_a_large_corpus_is_compared_with_real_x10_just_before_and_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The large one runs at 20 MB/s.

    Real-x10 takes 10, 20, 10 and 20 s, of which the mean counts.
    """
    figure = BY_NAME["MB/s of normalize / real-x10, shuffled-20GB"]
    sizes = {"real-x10": 300_000_000, "shuffled-20GB": 2_000_000_000}
    for module in (trials, figures):
        monkeypatch.setattr(
            module, "corpus", lambda name: corpora.Corpus(name, "", (), 1, sizes[name], 1)
        )
    ran: list[Trial] = []
    seconds = [10.0, 20.0, 100.0, 10.0, 20.0]
    monkeypatch.setattr(
        trials, "_run", lambda trial: ran.append(trial) or run(seconds=seconds.pop(0))
    )
    results = run_trials(figure.trials, rounds=2)
    around = ["real-x10"] * 2
    assert [trial.corpus for trial in ran] == [*around, "shuffled-20GB", *around]
    assert {trial.group for trial in ran} == {"shuffled-20GB"}
    (value,) = trial_values([figure], results, 1.0)
    assert value.value == pytest.approx(20 / (300 / 15))


@pytest.fixture
def blocks() -> dict[str, str]:
    """The blocks of all pages, for three contenders on one corpus."""
    results = {
        "fastrec normalize": run(seconds=2.0),
        "DuckDB": run(seconds=5.0),
        "Polars": run(error="ComputeError"),
    }
    rows = [Row(Trial(label, "real-x10"), result, 10**8) for label, result in results.items()]
    size = corpora.Corpus("real-x10", "", ("a", "b"), 10, 10**8, 1)
    return blocks_of(Sheet("2026-11-15", "a processor", "3", "abc", rows, {"real-x10": size}))


def test_the_pages_say_how_peers_were_measured(blocks: dict[str, str]) -> None:
    """Both pages say which models are real; README.md says which tools had a memory limit."""
    models = "lines from three evaluations and 240 models, of which 24 are real and 216 were made"
    for name, block in blocks.items():
        text = (ROOT / name).read_text()
        assert models in text
        assert models in block
    short, full = blocks.values()
    method = short[short.index("Each tool ran") : short.index("such as DuckDB, has")]
    assert method in (ROOT / "README.md").read_text()
    assert "such as DuckDB, has no memory limit" in short
    assert "Each tool ran" not in full


def test_the_tables_of_peers_show_times_failures_and_what_is_left_out(
    blocks: dict[str, str],
) -> None:
    short, full = blocks.values()
    assert "| **fastrec normalize** | 2.00 s | 0 MB | 0 MB | nothing |" in short
    assert "| DuckDB | 5.00 | 20 |" in full
    assert "| Polars | fails: ComputeError |" in short
    assert "| Polars | fails: ComputeError |" in full


def test_duckdb_with_the_memory_limit_of_fastrec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One contender has the limit that fastrec has, and its name says so."""
    duckdb = pytest.importorskip("duckdb")
    lines = [json.dumps(sample(sample_id=number)).encode() for number in range(3)]
    write(tmp_path / "a.jsonl", lines)
    database = duckdb.connect()
    monkeypatch.setattr(duckdb, "connect", lambda config: database)
    folder = str(tmp_path)
    run_duckdb = CONTENDERS["DuckDB, 512 MiB per job"]
    run_duckdb(Job(inputs=(folder,), output=folder, scratch=folder, jobs=2))
    assert database.execute("SELECT current_setting('memory_limit')").fetchone() == ("1.0 GiB",)
    assert (tmp_path / "corpus.jsonl.zst").exists()
