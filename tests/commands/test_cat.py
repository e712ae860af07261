"""`fastrec cat`: matching records in order, byte for byte.

Parts that cannot have one are not opened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.cli import cli
from fastrec.commands import cat as module
from fastrec.commands.generate import Recipe, lines
from fastrec.corpus import reader, scan
from fastrec.corpus.manifest import read_manifest
from fastrec.errors import CorpusError, ShardError, UsageError
from fastrec.filters import Filters
from fastrec.limits import Limits, use_limits
from tests.normalize.normalizing import Corpus, normalized, sort_position, without_long, write
from tests.running import run_command
from tests.samples import sample, sample_of
from tests.sizes import examples, few_of

FILTERS = {
    "evaluation": "evaluation_name",
    "model": "model_id",
    "sample_id": "sample_id",
    "hash": "sample_hash",
}


def reference(
    corpus: Corpus, *, limit: int | None = None, errors: bool = False, **asked: Any
) -> list[bytes]:
    """The matching lines of a corpus, found with the stdlib: every line decoded, every filter
    checked.
    """
    found = []
    for line, record in zip(corpus.lines, decoded(corpus), strict=True):
        matches = all(
            str(record[FILTERS[name]])
            in (map(str, value) if isinstance(value, list) else [str(value)])
            for name, value in asked.items()
        )
        if matches and (record.get("error") or not errors):
            found.append(line)
    return found[:limit]


@cache
def decoded(corpus: Corpus) -> list[dict[str, Any]]:
    return [json.loads(line) for line in corpus.lines]


def records(count: int = 240) -> list[bytes]:
    """Few evaluations, models and questions, so that many combinations exist.

    Ids are integers and strings.
    """
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
            # A search by bytes alone would take these for the record's own fields.
            metadata={
                "model_id": "org/0",
                "evaluation_name": "sums",
                "sample_id": 5,
                "error": "no",
                "n": number,
            },
        )
        if number % 2:
            record["zz"] = {
                "a": {},
                "error": "inner",
                "text": '"model_id":"org/1","evaluation_name":"z"},"error":"x"',
            }
        made.append(json.dumps(record).encode())
    return made


@pytest.fixture(scope="module", params=[(), ("model_id",), ("sample_id", "evaluation_id")])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus of many small parts, in the default sort order and in others; read only."""
    directory = tmp_path_factory.mktemp("cat")
    write(directory / "a.jsonl", records())
    found = normalized(
        directory / "a.jsonl", directory / "corpus", part_size=20_000, sort_by=request.param
    )
    assert len(found.parts) > 5
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The same, only in the default sort order; read only."""
    directory = tmp_path_factory.mktemp("plain")
    write(directory / "a.jsonl", records())
    return normalized(directory / "a.jsonl", directory / "corpus", part_size=20_000)


@pytest.fixture
def damaged(plain: Corpus, tmp_path: Path) -> Path:
    """A copy of `plain` to damage."""
    return Path(shutil.copytree(plain.path, tmp_path / "corpus"))


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["cat", *map(str, arguments)])


run = partial(run_command, "cat")


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that gets the name of every part that is opened."""
    names: list[str] = []
    skim_lines = scan.skim_lines

    def spy(part: Any) -> Any:
        names.append(Path(part.path).name)
        return skim_lines(part)

    monkeypatch.setattr(module, "skim_lines", spy)
    monkeypatch.setattr(reader, "skim_lines", spy)
    return names


# Which records match


def test_without_filters_all_lines_are_printed(corpus: Corpus) -> None:
    """In order, byte for byte."""
    done = invoke(corpus.path)
    assert (done.exit_code, done.stdout_bytes, done.stderr) == (0, corpus.text, "")
    assert list(fastrec.cat(corpus.path)) == corpus.lines


def one_or_several(values: list[Any]) -> st.SearchStrategy[Any]:
    """A filter with one of these values, or with some of them."""
    return st.sampled_from(values) | st.lists(st.sampled_from(values), min_size=1, max_size=3)


@settings(max_examples=examples(18, 450))
@given(
    asked=st.fixed_dictionaries(
        {},
        optional={
            "evaluation": one_or_several(["sums", "sums é", 'a "b"', "z", "none"]),
            "model": one_or_several(["org/0", "org/1", "org/4", "org", "org/9"]),
            "sample_id": one_or_several([0, 5, "5", 11, "11", 12, "05", "-0", "5.0", -5]),
            "hash": one_or_several(
                [fastrec.sample_hash(f"question {number}", "42") for number in (0, 3, 11, 99)]
                + ["0", "f" * 64]
            ),
            "errors": st.booleans(),
            "limit": st.integers(1, 40),
        },
    )
)
def test_any_filters_agree_with_decoding_every_record(
    corpus: Corpus, asked: dict[str, Any]
) -> None:
    """For any combination of filters, with one value or several, and every sort order."""
    assert list(fastrec.cat(corpus.path, **asked)) == reference(corpus, **asked)


def test_a_repeated_option_means_any_of_its_values(plain: Corpus) -> None:
    """The last one does not replace the others."""
    arguments = [
        "--model",
        "org/0",
        "--model",
        "org/3",
        "--evaluation",
        "z",
        "--evaluation",
        "sums",
    ]
    asked = {"model": ["org/0", "org/3"], "evaluation": ["z", "sums"]}
    done = invoke(plain.path, *arguments)
    assert done.stdout_bytes.splitlines() == reference(plain, **asked)
    assert {record["model_id"] for record in map(json.loads, done.stdout_bytes.splitlines())} == {
        "org/0",
        "org/3",
    }
    arguments = ["--sample-id", "5", "--sample-id", "6"]
    assert invoke(plain.path, *arguments).stdout_bytes.splitlines() == reference(
        plain, sample_id=[5, 6]
    )


@pytest.mark.each_value
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("value", [5.0, None, ["org/0", 1.5], True, [b"org/0"], b"org/0"])
def test_a_filter_of_another_type_is_refused(name: str, value: Any, plain: Corpus) -> None:
    """A filter that no record could match is not an empty result."""
    with pytest.raises(UsageError, match=f"{name} must be a string or a list of strings, not "):
        list(fastrec.cat(plain.path, **{name: value}))


@pytest.mark.each_value
@pytest.mark.parametrize(
    "asked",
    [
        {"model": "org/1"},
        {"sample_id": 5, "limit": 7},
        {"errors": True},
        {"model": "x"},
        {"limit": 3},
    ],
)
def test_a_pool_prints_the_same_in_the_same_order(
    corpus: Corpus, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Parts are searched in parallel and printed in order; no temporary file stays."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with use_limits(Limits(small_input=0)):
        assert list(fastrec.cat(corpus.path, **asked, jobs=2)) == reference(corpus, **asked)
    assert not list(tmp_path.iterdir())


def test_every_value_of_generated_records_is_found(tmp_path: Path) -> None:
    """With unknown keys, repeats, and ids of both types."""
    recipe = Recipe(records=300, seed=5, unknown_keys=0.3, conflicts=0.1, duplicates=0.1)
    write(tmp_path / "a.jsonl", without_long(lines(recipe)))
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", part_size=100_000)
    for name, field in FILTERS.items():
        for value in sorted({str(record[field]) for record in decoded(corpus)})[:25]:
            assert list(fastrec.cat(corpus.path, **{name: value})) == reference(
                corpus, **{name: value}
            )
    assert list(fastrec.cat(corpus.path, errors=True)) == reference(corpus, errors=True)


@pytest.fixture
def long_integers() -> Iterator[None]:
    """Python reads integers of any length."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(limit)


@pytest.mark.usefixtures("long_integers")
def test_a_sample_id_matches_the_integer_and_the_string(tmp_path: Path) -> None:
    """`--sample-id 5` matches 5 and "5", also for huge integers; `05` matches only the string."""
    huge = int("9" * 4_400)
    ids = [5, "5", "05", 10**30, str(10**30), -5, "-5", huge]
    write(tmp_path / "a.jsonl", [json.dumps(sample(sample_id=each)).encode() for each in ids])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus")
    counts = [
        len(list(fastrec.cat(corpus.path, sample_id=each)))
        for each in ("5", "05", str(10**30), "-5", "6")
    ]
    assert counts == [2, 1, 2, 2, 0]
    assert len(list(fastrec.cat(corpus.path, evaluation="arithmetic"))) == len(ids)


# Which parts are read


def test_only_parts_that_may_match_are_opened(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and last keys in the manifest decide, in every sort order."""
    order = corpus.manifest["sort_fields"]
    names = opened(monkeypatch)
    for name in (name for name, field in FILTERS.items() if field == order[0]):
        for part, text in zip(corpus.parts, corpus.texts, strict=True):
            value = json.loads(text.split(b"\n")[0])[order[0]]
            names.clear()
            assert list(fastrec.cat(corpus.path, **{name: value})) == reference(
                corpus, **{name: value}
            )
            holding = {
                part.name
                for part, text in zip(corpus.parts, corpus.texts, strict=True)
                if any(
                    str(json.loads(line)[order[0]]) == str(value) for line in text.split(b"\n")[:-1]
                )
            }
            assert part.name in names
            # An id may be an integer or a string, so it has two positions in the sort order.
            assert set(names) == holding or name == "sample_id"
            assert len(names) < len(corpus.parts)


def test_nothing_is_opened_if_no_part_can_match(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value of the first sort field is after all parts."""
    names = opened(monkeypatch)
    name = next(
        name for name, field in FILTERS.items() if field == corpus.manifest["sort_fields"][0]
    )
    assert list(fastrec.cat(corpus.path, **{name: "\U0010ffff"})) == []
    assert names == []


def test_reading_stops_where_no_match_can_follow(tmp_path: Path) -> None:
    """Damage after the last match is not noticed."""
    texts = [
        json.dumps(sample(evaluation_name=name, sample_id=n, error="x" * 9_999))
        for name in "ab"
        for n in range(200)
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
    """The first part has enough lines."""
    names = opened(monkeypatch)
    assert list(fastrec.cat(corpus.path, limit=2)) == corpus.lines[:2]
    assert names == [corpus.parts[0].name]


@pytest.mark.usefixtures("long_integers")
def test_a_huge_integer_as_first_key_hides_nothing(tmp_path: Path) -> None:
    """In the manifest it is a hexadecimal string, which would sort after all integers."""
    huge = int("7" * 4_400)
    ids = [huge, huge + 1, "a", "b"]
    texts = [json.dumps(sample(sample_id=each, error="e" * 3_000)).encode() for each in ids]
    write(tmp_path / "a.jsonl", texts)
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", sort_by=("sample_id",))
    manifest = read_manifest(tmp_path / "corpus")
    assert str(manifest.parts[0].first.sample_id).startswith("0x")
    assert len(list(fastrec.cat(tmp_path / "corpus", sample_id=str(huge)))) == 1


@pytest.mark.parametrize("size", few_of(range(1, 40), 8, "test_buffers_may_end_anywhere"))
def test_buffers_may_end_anywhere(plain: Corpus, size: int) -> None:
    """A line that does not fit into a buffer is found once, completely."""
    limits = Limits(skim_bytes=size if size > 20 else size * 97)
    for asked in ({"model": "org/1"}, {"evaluation": "sums"}, {"sample_id": 5, "errors": True}):
        with use_limits(limits):
            assert list(fastrec.cat(plain.path, **asked)) == reference(plain, **asked)


@pytest.mark.parametrize("jobs", [1, 2])
def test_blocks_are_whole_lines(plain: Corpus, jobs: int) -> None:
    """Whatever their length: joining pieces of lines would take quadratic time."""
    limits = Limits(skim_bytes=100, cat_block_bytes=100, small_input=0)
    for filters in (Filters(), Filters(model=("org/1",)), Filters(errors=True)):
        with use_limits(limits):
            blocks = list(module.cat_blocks(plain.path, filters, jobs=jobs))
        assert len(blocks) > len(plain.parts)
        assert all(block.endswith(b"\n") for block in blocks)


def test_the_corpus_has_its_sort_order(corpus: Corpus) -> None:
    """The lines that these tests compare with are sorted as the manifest says."""
    assert corpus.lines == sorted(
        corpus.lines, key=lambda line: sort_position(line, corpus.manifest["sort_fields"])
    )


# Bad input


def test_wrong_usage_is_exit_code_2(plain: Corpus, tmp_path: Path) -> None:
    """A missing directory, one without a manifest, and invalid arguments."""
    done = run(tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"none is not a corpus: there is no such directory" in done.stderr
    done = run(tmp_path)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(
        f"error: {tmp_path} is not a corpus: it holds no manifest.json\n"
    )
    for options, message in (
        (["--limit", "0"], b"--limit"),
        (["--limit", "ten"], b"--limit"),
        (["--evaluations", "x"], b"--evaluation"),
        (["--jobs", "0"], b"--jobs"),
    ):
        done = run(plain.path, *options)
        assert (done.returncode, done.stdout) == (2, b"")
        assert message in done.stderr
    with pytest.raises(UsageError, match="at least one"):
        next(fastrec.cat(plain.path, limit=0))
    with pytest.raises(UsageError, match="not valid UTF-8"):
        list(fastrec.cat(plain.path, model="\udcff"))


def test_a_damaged_manifest_is_reported(damaged: Path) -> None:
    """With the file, the reason and exit code 3; nothing is printed."""
    good = json.loads((damaged / "manifest.json").read_bytes())
    for changes, message in (
        ({"format": 99}, b"its format is 99"),
        ({"schema": "instance_level_eval_9"}, b"its records have schema instance_level_eval_9"),
        ({"sort_fields": ["model_id"]}, b"sort_fields must name evaluation_name"),
        (
            {"parts": [{**good["parts"][0], "file": "../other"}]},
            b"names a file outside the corpus: '../other'",
        ),
    ):
        (damaged / "manifest.json").write_text(json.dumps(good | changes))
        done = run(damaged)
        assert (done.returncode, done.stdout) == (3, b"")
        assert b"manifest.json: " in done.stderr
        assert message in done.stderr


@pytest.mark.parametrize("options", [[], ["--model", "org/1"]])
def test_a_missing_or_damaged_part_is_reported(damaged: Path, options: list[str]) -> None:
    """With exit code 3. Records of earlier parts may be printed, but none of later ones."""
    part = sorted(damaged.glob("part-*.jsonl*"))[3]
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


def test_a_worker_reports_a_damaged_part(damaged: Path) -> None:
    """The error of a task is raised in the driver."""
    part = sorted(damaged.glob("part-*.jsonl*"))[3]
    part.write_bytes(part.read_bytes()[:-6])
    with use_limits(Limits(small_input=0)), pytest.raises(ShardError, match="ends inside"):
        list(fastrec.cat(damaged, model="org/1", jobs=2))


def test_a_part_that_was_edited_is_an_error(tmp_path: Path) -> None:
    """Another size is always an error; another line is one unless adjacent lines are copied."""
    write(tmp_path / "a.jsonl", records(12))
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", compression="none")
    for text in (
        b"".join(line + b"\n" for line in corpus.lines[:-1]),
        corpus.text[:-5],
        corpus.text * 2,
    ):
        corpus.parts[0].write_bytes(text)
        for asked in ({}, {"evaluation": "sums"}, {"model": "org/1"}):
            with pytest.raises(
                CorpusError, match=rf"has {len(text):,} bytes of text, but the manifest says"
            ):
                list(fastrec.cat(corpus.path, **asked))
    corpus.parts[0].write_bytes(b'{"a": 1}\n' + b"\n" * (len(corpus.text) - 9))
    with pytest.raises(CorpusError, match="does not have the line that its columns describe"):
        list(fastrec.cat(corpus.path, model="org/1"))


@pytest.mark.parametrize("options", [[], ["--model", "org/1"], ["--model", "nobody"]])
def test_a_closed_pipe_is_no_error(plain: Corpus, options: list[str]) -> None:
    """Only notices are written to stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(plain.path, *options, stdout=writer)
    finally:
        os.close(writer)
    assert done.returncode == 0
    assert done.stderr == b"" or done.stderr.startswith(b"note: no record matches")


def test_head_ends_cat_quietly(plain: Corpus) -> None:
    """`fastrec cat corpus | head -2` prints two lines and no error."""
    command = f"{sys.executable} -m fastrec cat {plain.path} | head -2"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"".join(line + b"\n" for line in plain.lines[:2])
    assert done.stderr == b""


def test_no_match_is_a_notice_on_stderr(plain: Corpus) -> None:
    """A mistyped name gives exit code 0 and a notice that says where the names are."""
    done = invoke(plain.path, "--evaluation", "no such")
    note = "note: no record matches --evaluation 'no such'; evaluations: a \"b\", sums, sums é, z; "
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith(note)


def test_no_match_of_a_metric_names_the_metrics(tmp_path: Path) -> None:
    """The notice lists each evaluation and each metric once."""
    made = [
        sample_of("0.3.0", evaluation_name="e", evaluation_result_id=metric, sample_id=number)
        for metric in ("acc", "f1")
        for number in "12"
    ]
    write(tmp_path / "a.jsonl", [json.dumps(one).encode() for one in made])
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    done = invoke(tmp_path / "corpus", "--metric", "no such")
    assert (
        "no record matches --metric 'no such'; evaluations: e; metrics: acc, f1; models: "
        in done.stderr
    )


def test_an_empty_corpus_has_no_lines(tmp_path: Path) -> None:
    """Without parts there is no output."""
    write(tmp_path / "a.jsonl", [])
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", allow_empty=True)
    assert list(fastrec.cat(tmp_path / "corpus")) == []
    assert list(fastrec.cat(tmp_path / "corpus", hash="0")) == []


def test_help_fits_a_terminal() -> None:
    """It has examples, explains `--sample-id 5`, and has at most 100 columns."""
    text = invoke("--help").stdout
    assert "Examples:" in text
    assert 'the integer 5 and the string "5"' in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
