"""`fastrec cat`: the records of a corpus in order, byte for byte, with no part opened that cannot hold a wanted one."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.cli import cli
from fastrec.commands import cat as job
from fastrec.commands.cat.select import Finder, Ranges, Selection
from fastrec.commands.generate.stream import Recipe, lines
from fastrec.corpus import skim
from fastrec.corpus.documents import read_manifest
from fastrec.errors import CorpusError, ShardError, UsageError
from tests.normalize.normalizing import FIELDS, Corpus, normalized, place_of, write
from tests.samples import sample

ASKED = {"evaluation": "evaluation_name", "model": "model_id", "sample_id": "sample_id", "hash": "sample_hash"}


def reference(corpus: Corpus, *, limit: int | None = None, where_error: bool = False, **asked: Any) -> list[bytes]:
    """What is wanted of a corpus, by the stdlib: every line decoded, every condition looked at."""
    found = []
    for line, record in zip(corpus.lines, decoded(corpus), strict=True):
        fits = all(str(record[ASKED[name]]) == str(value) for name, value in asked.items() if value is not None)
        if fits and (record.get("error") or not where_error):
            found.append(line)
    return found[:limit]


@cache
def decoded(corpus: Corpus) -> list[dict[str, Any]]:
    return [json.loads(line) for line in corpus.lines]


def records(count: int = 480) -> list[bytes]:
    """Few evaluations, models and questions, so that many combinations exist; ids that are integers and strings."""
    made = []
    for number in range(count):
        question = number % 12
        record = sample(
            ("single_turn", "multi_turn", "agentic")[number % 3],
            evaluation_name=("sums", "sums é", 'a "b"', "z")[number % 4],
            model_id=f"org/{number % 5}",
            evaluation_id=f"run/{number // 60}",
            sample_id=question if number % 7 else str(question),
            error=("", "timeout: 3 s", None)[number % 3],
            input={"raw": f"question {question}", "reference": "42"},
            # What a search by bytes alone would take for the record's own fields.
            metadata={"model_id": "org/0", "evaluation_name": "sums", "sample_id": 5, "error": "no", "n": number},
        )
        if number % 2:
            record["zz"] = {"a": {}, "error": "inner", "text": '"model_id":"org/1","evaluation_name":"z"},"error":"x"'}
        made.append(json.dumps(record).encode())
    return made


@pytest.fixture(scope="module", params=[(), ("model_id",), ("sample_id", "evaluation_id")])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus of many small parts, in the default order and in others; not to be changed."""
    directory = tmp_path_factory.mktemp("cat")
    write(directory / "a.jsonl", records())
    found = normalized(directory / "a.jsonl", directory / "corpus", part_size=8_000, sort_by=request.param)
    assert len(found.parts) > 5
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The same in the default order alone; not to be changed."""
    directory = tmp_path_factory.mktemp("plain")
    write(directory / "a.jsonl", records())
    return normalized(directory / "a.jsonl", directory / "corpus", part_size=8_000)


@pytest.fixture
def damaged(plain: Corpus, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(plain.path, tmp_path / "corpus"))


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["cat", *map(str, arguments)])


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "fastrec", "cat", *map(os.fspath, arguments)]
    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60} | options
    done = subprocess.run(command, check=False, **settings)
    assert b"Traceback" not in (done.stdout or b"") + (done.stderr or b"")
    return done


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the parts that are opened from now on."""
    names: list[str] = []
    shard_at = job.shard_at

    def spy(path: str) -> Any:
        names.append(Path(path).name)
        return shard_at(path)

    monkeypatch.setattr(job, "shard_at", spy)
    return names


# What is found


def test_without_conditions_it_is_the_text_of_all_parts(corpus: Corpus) -> None:
    """All lines, byte for byte, in order."""
    done = invoke(corpus.path)
    assert (done.exit_code, done.stdout_bytes, done.stderr) == (0, corpus.text, "")
    assert list(fastrec.cat(corpus.path)) == corpus.lines


@settings(max_examples=150)
@given(
    asked=st.fixed_dictionaries(
        {},
        optional={
            "evaluation": st.sampled_from(["sums", "sums é", 'a "b"', "z", "none"]),
            "model": st.sampled_from(["org/0", "org/1", "org/4", "org", "org/9"]),
            "sample_id": st.sampled_from([0, 5, "5", 11, "11", 12, "05", "-0", "5.0", -5]),
            "hash": st.sampled_from(
                [fastrec.sample_hash(f"question {number}", "42") for number in (0, 3, 11, 99)] + ["0", "f" * 64]
            ),
            "where_error": st.booleans(),
            "limit": st.integers(1, 40),
        },
    )
)
def test_any_conditions_find_what_a_look_at_every_record_finds(corpus: Corpus, asked: dict[str, Any]) -> None:
    """Against the stdlib, in every order of the corpus, for any combination of conditions."""
    assert list(fastrec.cat(corpus.path, **asked)) == reference(corpus, **asked)


@pytest.mark.parametrize(
    "asked", [{"model": "org/1"}, {"sample_id": 5, "limit": 7}, {"where_error": True}, {"model": "x"}, {"limit": 3}]
)
def test_a_pool_finds_the_same_in_the_same_order(
    corpus: Corpus, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Parts are searched in parallel and handed on in turn; no scratch file stays."""
    monkeypatch.setattr("fastrec.engine.jobs.SMALL", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert list(fastrec.cat(corpus.path, **asked, jobs=2)) == reference(corpus, **asked)
    assert not list(tmp_path.iterdir())


def test_generated_records_of_every_kind(tmp_path: Path) -> None:
    """Unknown keys, conflicts, ids of both kinds: every value that occurs is found, and nothing else."""
    recipe = Recipe(records=300, seed=5, unknown_keys=0.3, conflicts=0.1, duplicates=0.1)
    write(tmp_path / "a.jsonl", list(lines(recipe)))
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", part_size=200_000)
    for name, field in ASKED.items():
        for value in sorted({str(record[field]) for record in decoded(corpus)})[:25]:
            assert list(fastrec.cat(corpus.path, **{name: value})) == reference(corpus, **{name: value})
    assert list(fastrec.cat(corpus.path, where_error=True)) == reference(corpus, where_error=True)


def test_an_integer_and_the_string_that_spells_it_are_found_alike(tmp_path: Path) -> None:
    """`--sample-id 5` is 5 and "5", huge integers too; `05` is a string alone."""
    huge = int("9" * 4_400) if sys.set_int_max_str_digits(0) is None else 0
    ids = [5, "5", "05", 10**30, str(10**30), -5, "-5", huge]
    write(tmp_path / "a.jsonl", [json.dumps(sample(sample_id=each)).encode() for each in ids])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus")
    counts = [len(list(fastrec.cat(corpus.path, sample_id=each))) for each in ("5", "05", str(10**30), "-5", "6")]
    assert counts == [2, 1, 2, 2, 0]
    assert len(list(fastrec.cat(corpus.path, evaluation="arithmetic"))) == len(ids)


# What is read


def test_only_the_parts_of_a_range_are_opened(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and last keys in the manifest decide, in whichever order the corpus is."""
    order = corpus.manifest["sort_fields"]
    names = opened(monkeypatch)
    for name in (name for name, field in ASKED.items() if field == order[0]):
        for part, text in zip(corpus.parts, corpus.texts, strict=True):
            value = json.loads(text.split(b"\n")[0])[order[0]]
            names.clear()
            assert list(fastrec.cat(corpus.path, **{name: value})) == reference(corpus, **{name: value})
            holding = {
                part.name
                for part, text in zip(corpus.parts, corpus.texts, strict=True)
                if any(str(json.loads(line)[order[0]]) == str(value) for line in text.split(b"\n")[:-1])
            }
            assert part.name in names
            # A part that ends before and one that begins behind are not opened; an id has two places in the order.
            assert set(names) == holding or name == "sample_id"
            assert len(names) < len(corpus.parts)


def test_nothing_is_opened_for_what_cannot_be_there(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of the first field that is beyond all parts."""
    names = opened(monkeypatch)
    name = next(name for name, field in ASKED.items() if field == corpus.manifest["sort_fields"][0])
    assert list(fastrec.cat(corpus.path, **{name: "\U0010ffff"})) == []
    assert names == []


def test_reading_stops_where_no_wanted_record_can_follow(tmp_path: Path) -> None:
    """Behind the last wanted record a part may be broken: nobody looks."""
    texts = [
        json.dumps(sample(evaluation_name=name, sample_id=n, error="x" * 9_999)) for name in "ab" for n in range(200)
    ]
    write(tmp_path / "a.jsonl", [text.encode() for text in texts])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", compression="none")
    assert len(corpus.parts) == 1
    data = corpus.parts[0].read_bytes()
    corpus.parts[0].write_bytes(data[: len(data) * 3 // 4].ljust(len(data), b"x"))
    assert list(fastrec.cat(corpus.path, evaluation="a")) == corpus.lines[:200]
    assert list(fastrec.cat(corpus.path, limit=250)) == corpus.lines[:250]
    for asked in ({"evaluation": "b"}, {}):
        with pytest.raises(CorpusError, match="does not end with a newline"):
            list(fastrec.cat(corpus.path, **asked))


def test_a_limit_stops_the_reading(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part is enough for a few lines."""
    names = opened(monkeypatch)
    assert list(fastrec.cat(corpus.path, limit=2)) == corpus.lines[:2]
    assert names == [corpus.parts[0].name]


places = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))


@settings(max_examples=300)
@given(
    ends=st.lists(places, min_size=2, max_size=2).map(sorted),
    fixed=st.dictionaries(st.integers(0, 4), st.lists(st.integers(0, 2), min_size=1, max_size=2), max_size=3),
)
def test_ranges_leave_out_nothing_that_is_wanted(ends: list[Any], fixed: dict[int, list[int]]) -> None:
    """If any key between two places fits, the ranges say so; if the conditions are on leading fields, only then."""
    ranges = Ranges(Selection(), FIELDS)
    ranges._allowed = [sorted(fixed[depth]) if depth in fixed else None for depth in range(5)]
    between = [key for key in itertools.product(range(3), repeat=5) if ends[0] <= key <= ends[1]]
    fits = any(all(key[depth] in values for depth, values in fixed.items()) for key in between)
    says = ranges.meets(*ends)
    assert says or not fits
    if sorted(fixed) == list(range(len(fixed))):
        assert says == fits


def test_a_huge_integer_as_first_key_hides_nothing(tmp_path: Path) -> None:
    """The manifest has it in hexadecimal, as a string, which would stand behind all integers."""
    sys.set_int_max_str_digits(0)
    huge = int("7" * 4_400)
    ids = [huge, huge + 1, "a", "b"]
    texts = [json.dumps(sample(sample_id=each, error="e" * 3_000)).encode() for each in ids]
    write(tmp_path / "a.jsonl", texts)
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", part_size=1_024, sort_by=("sample_id",))
    manifest = read_manifest(tmp_path / "corpus")
    assert str(manifest.parts[0].first.sample_id).startswith("0x")
    ranges = Ranges(Selection(sample_id=str(10**5000)), manifest.sort_fields)
    assert ranges.holds(manifest.parts[0])


def found(selection: Selection, text: bytes) -> list[bytes]:
    return list(Finder(selection).lines(bytearray(text), len(text)))


def test_needles_in_strings_are_not_taken_for_fields() -> None:
    """What looks like a field inside of a string or of an inner object is a candidate at most."""
    line = fastrec.judge(records()[1]).normal + b"\n"
    assert found(Selection(model="org/1"), line) == [line]
    assert found(Selection(model="org/0"), line) == []
    assert found(Selection(evaluation="z"), line) == []
    silent = fastrec.judge(json.dumps(sample(error=None, zz=[{}, {"error": "inner"}])).encode()).normal + b"\n"
    assert b'"error":"inner"' in silent
    assert found(Selection(where_error=True), silent) == []


@pytest.mark.parametrize("size", range(1, 40))
def test_blocks_may_be_cut_anywhere(plain: Corpus, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that two or many blocks share are found, whole and once."""
    monkeypatch.setattr(skim, "SKIM_BYTES", size if size > 20 else size * 97)
    for asked in ({"model": "org/1"}, {"evaluation": "sums"}, {"sample_id": 5, "where_error": True}):
        assert list(fastrec.cat(plain.path, **asked)) == reference(plain, **asked)


@pytest.mark.parametrize("jobs", [1, 2])
def test_blocks_are_whole_lines(plain: Corpus, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a line is: nobody has to put it together, which would take quadratic time."""
    monkeypatch.setattr(skim, "SKIM_BYTES", 100)
    monkeypatch.setattr(job, "_BLOCK", 100)
    monkeypatch.setattr("fastrec.engine.jobs.SMALL", 0)
    for selection in (Selection(), Selection(model="org/1"), Selection(where_error=True)):
        blocks = list(job.cat_blocks(plain.path, selection, jobs=jobs))
        assert len(blocks) > len(plain.parts)
        assert all(block.endswith(b"\n") for block in blocks)


def test_the_order_of_the_reference_is_that_of_the_corpus(corpus: Corpus) -> None:
    """The lines that tests compare with are sorted as the manifest says."""
    assert corpus.lines == sorted(corpus.lines, key=lambda line: place_of(line, corpus.manifest["sort_fields"]))


# Bad input


def test_what_is_no_corpus_is_wrong_usage(plain: Corpus, tmp_path: Path) -> None:
    """A directory that is not there, one without a manifest, and arguments without sense: exit code 2."""
    done = run(tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"none is not a corpus: there is no such directory" in done.stderr
    done = run(tmp_path)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"error: {tmp_path} is not a corpus: it holds no manifest.json\n")
    for options, said in (
        (["--limit", "0"], b"--limit"),
        (["--limit", "ten"], b"--limit"),
        (["--evaluations", "x"], b"--evaluation"),
        (["--jobs", "0"], b"--jobs"),
    ):
        done = run(plain.path, *options)
        assert (done.returncode, done.stdout) == (2, b"")
        assert said in done.stderr
    with pytest.raises(UsageError, match="at least one"):
        next(fastrec.cat(plain.path, limit=0))
    with pytest.raises(UsageError, match="not UTF-8"):
        list(fastrec.cat(plain.path, model="\udcff"))


def test_a_damaged_manifest_is_named(damaged: Path) -> None:
    """Exit code 3, the file and the reason; nothing is printed."""
    good = json.loads((damaged / "manifest.json").read_bytes())
    for changes, said in (
        ({"format": 99}, b"its format is 99"),
        ({"schema": "instance_level_eval_9"}, b"its records are of schema instance_level_eval_9"),
        ({"sort_fields": ["model_id"]}, b"sort_fields must name evaluation_name"),
        (
            {"parts": [{**good["parts"][0], "file": "../other"}]},
            b"names a part that does not lie beside it: '../other'",
        ),
    ):
        (damaged / "manifest.json").write_text(json.dumps(good | changes))
        done = run(damaged)
        assert (done.returncode, done.stdout) == (3, b"")
        assert b"manifest.json: " in done.stderr
        assert said in done.stderr


@pytest.mark.parametrize("options", [[], ["--model", "org/1"]])
def test_a_part_that_is_missing_or_broken_is_named(damaged: Path, options: list[str]) -> None:
    """Exit code 3; what was read before it may have been printed, nothing of what follows."""
    part = sorted(damaged.glob("part-*"))[3]
    data = part.read_bytes()
    part.write_bytes(data[:-6])
    done = run(damaged, *options)
    assert done.returncode == 3
    assert f"{part}: ends inside the zstd frame".encode() in done.stderr
    part.write_bytes(data[:200] + bytes([data[200] ^ 255]) + data[201:])
    assert run(damaged, *options).returncode == 3
    part.unlink()
    done = run(damaged, *options)
    assert done.returncode == 3
    assert f"{part}: cannot be found: No such file or directory".encode() in done.stderr


def test_a_broken_part_is_named_by_a_worker_too(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task raises arrives here, and no scratch file stays."""
    monkeypatch.setattr("fastrec.engine.jobs.SMALL", 0)
    part = sorted(damaged.glob("part-*"))[3]
    part.write_bytes(part.read_bytes()[:-6])
    with pytest.raises(ShardError, match="ends inside"):
        list(fastrec.cat(damaged, where_error=True, jobs=2))


def test_a_part_that_was_edited_is_an_error(tmp_path: Path) -> None:
    """Whoever edits a part by hand hears of it: by its size, whatever is asked, and by lines that are not ours."""
    write(tmp_path / "a.jsonl", records(12))
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", compression="none")
    for text in (b"".join(line + b"\n" for line in corpus.lines[:-1]), corpus.text[:-5], corpus.text * 2):
        corpus.parts[0].write_bytes(text)
        for asked in ({}, {"evaluation": "sums"}, {"model": "org/1"}):
            with pytest.raises(CorpusError, match=rf"holds {len(text):,} bytes of text, and its manifest says"):
                list(fastrec.cat(corpus.path, **asked))
    corpus.parts[0].write_bytes(b'{"a": 1}\n' + b"\n" * (len(corpus.text) - 9))
    with pytest.raises(CorpusError, match="line that is not what fastrec writes"):
        list(fastrec.cat(corpus.path, evaluation="sums"))


@pytest.mark.parametrize("options", [[], ["--model", "org/1"], ["--model", "nobody"]])
def test_a_reader_that_leaves_is_no_error(plain: Corpus, options: list[str]) -> None:
    """Behind a closed pipe nothing is said but what belongs on stderr anyway."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(plain.path, *options, stdout=writer)
    finally:
        os.close(writer)
    assert done.returncode == 0
    assert done.stderr == b"" or done.stderr.startswith(b"note: no record is like that")


def test_the_head_of_a_pipe(plain: Corpus) -> None:
    """`fastrec cat corpus | head -2` prints two lines and no complaint."""
    command = f"{sys.executable} -m fastrec cat {plain.path} | head -2"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"".join(line + b"\n" for line in plain.lines[:2])
    assert done.stderr == b""


def test_nothing_found_is_said_on_stderr(plain: Corpus) -> None:
    """A mistyped name gives no output, exit code 0, and a note that says where the names are."""
    done = invoke(plain.path, "--evaluation", "no such")
    note = f"note: no record is like that; `fastrec stats {plain.path}` lists evaluations and models\n"
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", note)


def test_an_empty_corpus_has_no_lines(tmp_path: Path) -> None:
    """No parts, no output."""
    write(tmp_path / "a.jsonl", [])
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    assert list(fastrec.cat(tmp_path / "corpus")) == []
    assert list(fastrec.cat(tmp_path / "corpus", hash="0")) == []


def test_help_fits_a_terminal() -> None:
    """Help has examples, says what `--sample-id 5` means, and has lines of no more than 100 columns."""
    text = invoke("--help").stdout
    assert "Examples:" in text
    assert 'the integer 5 and the string "5"' in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
