"""The filters of all commands: the same records as a naive filter in Python, and what there is if
none matches.
"""

from __future__ import annotations

import json
import shutil
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.selection import select
from fastrec.corpus.manifest import read_manifest, read_summary
from fastrec.errors import NoMatchError, UsageError
from fastrec.filters import Filters, make_filters, matches_any
from fastrec.limits import Limits, use_limits
from tests.normalize.normalizing import Corpus, write
from tests.running import run_command
from tests.samples import question, sample_of
from tests.sizes import examples

MODELS = ("org/a", "org/b", "lab/c", "lab/[d]", 'é "quoted"')
EVALUATIONS = ("sums", "sums hard", "zoo")

PATTERNS = st.lists(st.text("ab[]!^-*?\\\n|(", max_size=6), min_size=1, max_size=4)


@given(st.text("ab[]!^-*?\\\n|(", max_size=5), PATTERNS)
def test_names_match_patterns_or_are_the_same(name: str, patterns: list[str]) -> None:
    expected = any(name == one or fnmatchcase(name, one) for one in patterns)
    assert matches_any(name, patterns) == expected
    assert matches_any(patterns[0], patterns)


def lines() -> list[bytes]:
    """Few names, all outcomes, and text that looks like the fields that are searched for."""
    made = []
    for number in range(180):
        record = sample_of("0.3.0", ("single_turn", "multi_turn", "agentic")[number % 3])
        record |= {
            "model_id": MODELS[number % 5],
            "evaluation_name": EVALUATIONS[number % 7 % 3],
            "sample_id": str(number % 12),
            "error": ("", "broken", "")[number % 11 % 3],
            "metadata": {
                "error": '},"error":"x"',
                "n": str(number),
                "is_correct": '"is_correct":false',
            },
        }
        record["input"] |= {"raw": question(number % 12)["raw"]}
        record["evaluation"] |= {"is_correct": number % 4 == 0, "score": float(number % 4 == 0)}
        if number % 13 % 2:
            record["evaluation_result_id"] = ("acc", "f1")[number % 2]
        else:
            del record["evaluation_result_id"]
        if number % 5 == 0:
            del record["error"]
        if "messages" in record and number % 2:
            calls = [
                {"id": "1", "name": "f", "arguments": {"is_correct": "false", "error": "none"}}
            ]
            record["messages"][-1 if number % 3 == 1 else 0]["tool_calls"] = calls
        made.append(json.dumps(record).encode())
    return made


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("filters")
    write(folder / "in.jsonl", lines())
    fastrec.normalize(folder / "in.jsonl", folder / "corpus", part_size=20_000)
    return Corpus(folder / "corpus")


@cache
def decoded(corpus: Corpus) -> list[dict[str, Any]]:
    return [json.loads(line) for line in corpus.lines]


def naive(corpus: Corpus, filters: Filters) -> list[bytes]:
    """The lines that match: every line decoded, every filter checked."""
    found = []
    for line, record in zip(corpus.lines, decoded(corpus), strict=True):
        values = {
            "evaluation": record["evaluation_name"],
            "metric": record.get("evaluation_result_id", ""),
            "model": record["model_id"],
            "sample_id": record["sample_id"],
            "hash": record["sample_hash"],
        }
        outcome = (
            "errors"
            if record.get("error")
            else "right"
            if record["evaluation"]["is_correct"]
            else "wrong"
        )
        if (
            all(
                any(value == one or fnmatchcase(value, one) for one in getattr(filters, name))
                or not getattr(filters, name)
                for name, value in values.items()
            )
            and not any(
                value == one or fnmatchcase(value, one)
                for name, value in values.items()
                for one in getattr(filters, f"exclude_{name}", ())
            )
            and (
                getattr(filters, outcome) or not (filters.right or filters.wrong or filters.errors)
            )
        ):
            found.append(line)
    return found


HASHES = [fastrec.sample_hash(question(number)["raw"], ["42"]) for number in range(12)]
CASES: dict[str, dict[str, Any]] = {
    "an evaluation": {"evaluation": "sums"},
    "evaluations": {"evaluation": ["sums*", "none"]},
    "a metric": {"metric": "acc"},
    "no metric": {"metric": ""},
    "a metric or none": {"metric": ["f?", ""]},
    "a model": {"model": "org/a"},
    "models": {"model": "org/*"},
    "a model with brackets": {"model": "lab/[d]"},
    "a model with quotes": {"model": 'é "q*'},
    "a sample": {"sample_id": 5},
    "samples": {"sample_id": "1*"},
    "any sample": {"sample_id": "*1"},
    "a hash": {"hash": HASHES[0]},
    "some hashes": {"hash": [HASHES[3], "[0-7]*"]},
    "the start of a hash": {"hash": f"{HASHES[3][:6]}*"},
    "without a model": {"exclude_model": "org/a"},
    "without models": {"exclude_model": ["org/*", "lab/[d]"]},
    "without an evaluation": {"exclude_evaluation": "sums*"},
    "right": {"right": True},
    "wrong": {"wrong": True},
    "errors": {"errors": True},
    "right or wrong": {"right": True, "wrong": True},
    "wrong or errors": {"wrong": True, "errors": True},
    "all outcomes": {"right": True, "wrong": True, "errors": True},
    "all kinds": {
        "evaluation": "s*", "metric": ["acc", ""], "model": "*/*", "sample_id": ["?", "10"], "hash": "*",
        "exclude_model": "org/b", "exclude_evaluation": "*hard", "wrong": True,
    },
}  # fmt: skip

BOTH: dict[str, Any] = {
    name: CASES[name] for name in ("without models", "wrong or errors", "all kinds", "no metric")
}
"""Cases for the commands that all work on one scratch corpus."""

ALIKE = (
    "evaluations",
    "a metric or none",
    "models",
    "a model with quotes",
    "any sample",
    "some hashes",
)
ALIKE += (
    "without models",
    "without an evaluation",
    "right",
    "errors",
    "right or wrong",
    "all outcomes",
)
"""Cases whose kinds of filters others have, too: the slower commands try them with `make test-long` only."""
KINDS = [
    pytest.param(name, marks=pytest.mark.long_only) if name in ALIKE else name for name in CASES
]

some = {
    "evaluation": ["sums", "sums*", "*", "x", "z[o]o"],
    "metric": ["acc", "", "*", "f[1]", "x"],
    "model": [*MODELS, "org/*", "lab/?", "*", "x", "["],
    "sample_id": ["5", "1*", "*", "1[01]", "05", "?"],
    "hash": [HASHES[0], f"{HASHES[1][:3]}*", "[0-9]*", "x*", "*"],
    "exclude_evaluation": ["sums", "z*", "*"],
    "exclude_model": ["org/a", "org/*", "lab/[d]", "x"],
}
filters = st.fixed_dictionaries(
    {},
    optional={name: st.lists(st.sampled_from(values), max_size=3) for name, values in some.items()}
    | {name: st.booleans() for name in ("right", "wrong", "errors")},
)


@pytest.mark.parametrize("case", CASES)
def test_cat_finds_what_a_naive_filter_finds(case: str, corpus: Corpus) -> None:
    expected = naive(corpus, make_filters(**CASES[case]))
    assert expected
    assert list(fastrec.cat(corpus.path, **CASES[case])) == expected


@settings(max_examples=examples(12, 450))
@given(filters, st.sampled_from([200, 5_000, 1 << 20]))
def test_cat_agrees_with_decoding_every_record(
    corpus: Corpus, asked: dict[str, Any], skim_bytes: int
) -> None:
    """For any filters, and wherever buffers end."""
    expected = naive(corpus, make_filters(**asked))
    with use_limits(Limits(skim_bytes=skim_bytes)):
        assert list(fastrec.cat(corpus.path, **asked)) == expected


@pytest.mark.parametrize("case", KINDS)
def test_cat_does_not_need_the_summary(case: str, corpus: Corpus, tmp_path: Path) -> None:
    """Without it, or with another one, patterns are compared with every record."""
    copy = shutil.copytree(corpus.path, tmp_path / "copy")
    text = (copy / "summary.json").read_bytes()
    for damaged in (b"{", text.replace(b"org/a", b"org/x")):
        (copy / "summary.json").write_bytes(damaged)
        assert list(fastrec.cat(copy, **CASES[case])) == naive(corpus, make_filters(**CASES[case]))


@pytest.mark.parametrize("case", KINDS)
def test_normalize_keeps_what_a_naive_filter_finds(
    case: str, corpus: Corpus, tmp_path: Path
) -> None:
    """Also from a corpus, whose order and hashes stay."""
    expected = naive(corpus, make_filters(**CASES[case]))
    fastrec.normalize(corpus.path, tmp_path / "out", **CASES[case])
    made = Corpus(tmp_path / "out")
    assert made.lines == expected
    assert made.manifest["filtered"] == len(corpus.lines) - len(expected)
    assert fastrec.verify(tmp_path / "out").ok


@pytest.mark.parametrize("case", KINDS)
def test_selected_records_are_those_that_a_naive_filter_finds(case: str, corpus: Corpus) -> None:
    selection = select(str(corpus.path), make_filters(**CASES[case]))
    codes = np.concatenate([selection.scope_codes(part) for part in range(len(selection.parts))])
    assert list(selection.lines(np.flatnonzero(codes >= 0))) == naive(
        corpus, make_filters(**CASES[case])
    )


@pytest.fixture(scope="module", params=BOTH)
def matching(
    request: pytest.FixtureRequest, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """Some filters, and a corpus of only the records that match, made without filters."""
    folder = tmp_path_factory.mktemp("matching")
    expected = naive(corpus, make_filters(**BOTH[request.param]))
    write(folder / "in.jsonl", expected)
    fastrec.normalize(folder / "in.jsonl", folder / "corpus", schema="0.3.0")
    return BOTH[request.param], folder / "corpus", expected


def test_results_of_selected_records_are_those_of_their_corpus(
    matching: Any, corpus: Corpus
) -> None:
    """To the last bit, although columns are counted here, and rows of statistics there."""
    filters, expected, _ = matching
    index = open_index(corpus.path, make_filters(**filters))
    assert (
        index.evaluations == read_summary(str(expected), read_manifest(str(expected))).evaluations
    )


@pytest.mark.each_value
@pytest.mark.parametrize("form", ["csv", "matrix"])
def test_export_has_only_matching_records(
    form: str, matching: Any, corpus: Corpus, tmp_path: Path
) -> None:
    """The tables are those of a corpus of the matching records.

    README and export.json name the filters.
    """
    asked, alone, expected = matching
    done = fastrec.export(corpus.path, tmp_path / "out", format=form, **asked)
    fastrec.export(alone, tmp_path / "alone", format=form)
    tables = [path.name for path in sorted((tmp_path / "alone").glob("*.csv"))]
    assert tables
    for name in tables:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert done.rows == len(expected)
    assert (
        f"only records that match {make_filters(**asked)}"
        in (tmp_path / "out" / "README.md").read_text()
    )
    about = json.loads((tmp_path / "out" / "export.json").read_bytes())
    assert make_filters(**about["filters"]) == make_filters(**asked)


def test_report_is_about_matching_records(matching: Any, corpus: Corpus, tmp_path: Path) -> None:
    asked, alone, expected = matching
    fastrec.report(corpus.path, tmp_path / "out.html", **asked)
    page = (tmp_path / "out.html").read_text()
    assert f"{len(expected):,} records of " in page
    assert "only records that match --" in page
    assert "fastrec-" not in page  # no path of the scratch corpus
    assert corpus.path.name in page
    fastrec.report(alone, tmp_path / "alone.html")
    assert "only records that match" not in (tmp_path / "alone.html").read_text()


def test_diff_compares_matching_records(matching: Any, corpus: Corpus) -> None:
    """Two corpora of the matching records have the same numbers of changes."""
    asked, alone, expected = matching
    found = fastrec.diff(corpus.path, corpus.path, **asked)
    assert found.counts.unchanged + found.counts.repeats_old == len(expected) == found.old.records
    assert (found.old.corpus, found.filters) == (str(corpus.path), str(make_filters(**asked)))
    half = fastrec.diff(alone, corpus.path, **asked)
    assert half.counts == found.counts


def test_stats_of_samples_and_outcomes(corpus: Corpus, tmp_path: Path) -> None:
    """They are those of a corpus of the matching records.

    Names choose rows, and leave numbers as they are.
    """
    asked: dict[str, Any] = {"sample_id": "1*", "wrong": True, "errors": True}
    write(tmp_path / "in.jsonl", naive(corpus, make_filters(**asked)))
    for paths in (corpus.path, [str(path) for path in corpus.parts]):
        assert (
            fastrec.stats(paths, **asked).evaluations
            == fastrec.stats(tmp_path / "in.jsonl").evaluations
        )
    every = fastrec.stats(corpus.path)
    without = fastrec.stats(corpus.path, exclude_model="lab/*", exclude_evaluation="zoo")
    assert [(one.evaluation_name, one.metric) for one in without.evaluations] == [
        (one.evaluation_name, one.metric)
        for one in every.evaluations
        if one.evaluation_name != "zoo"
    ]
    for one in without.evaluations:
        (whole,) = [
            other
            for other in every.evaluations
            if (other.evaluation_name, other.metric) == (one.evaluation_name, one.metric)
        ]
        rows = {
            model.model_id: model.accuracy
            for model in whole.by_model
            if not model.model_id.startswith("lab/")
        }
        assert {model.model_id: model.accuracy for model in one.by_model} == rows
    with pytest.raises(
        UsageError,
        match="the hashes of producers are counted for all records of a model: leave out --wrong",
    ):
        fastrec.overlap(corpus.path, by="hashes", wrong=True)


WHAT_THERE_IS = (
    "evaluations: sums, sums hard, zoo; metrics: acc, f1; models: lab/[d], lab/c, "
    'org/a, org/b, é "quoted"'
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["normalize", "CORPUS", "-o", "OUT"],
        ["export", "CORPUS", "-o", "OUT", "--format", "csv"],
        ["report", "CORPUS", "-o", "OUT"],
        ["diff", "CORPUS", "CORPUS"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_matches_nothing_says_what_there_is(
    arguments: list[str], corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, nothing is written, and no temporary file stays."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    words = [
        {"CORPUS": str(corpus.path), "OUT": str(tmp_path / "out")}.get(word, word)
        for word in arguments
    ]
    done = run_command(*words, "--model", "none", "--exclude-evaluation", "zoo")
    assert (done.returncode, done.stdout) == (2, b"")
    error = f"error: no record matches --model none --exclude-evaluation zoo; {WHAT_THERE_IS}\n"
    assert done.stderr.decode() == error.replace(
        "--model none --exclude-evaluation zoo",
        str(Filters(model=("none",), exclude_evaluation=("zoo",))),
    )
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["tmp"]


def test_stats_say_what_there_is(corpus: Corpus) -> None:
    for arguments, said in (
        (
            ["--model", "none"],
            "error: no model matches 'none'; available: lab/[d], lab/c, org/a, org/b, é",
        ),
        (
            ["--exclude-model", "*"],
            (
                "error: no record matches --exclude-model '*'; evaluations: sums, sums hard, zoo; "
                "models: lab/[d], lab/c"
            ),
        ),
        (["--hash", "none"], f"error: no record matches --hash none; {WHAT_THERE_IS}"),
    ):
        done = run_command("stats", corpus.path, *arguments)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode().startswith(said)


def test_one_side_of_a_diff_may_be_empty(corpus: Corpus, tmp_path: Path) -> None:
    """A model that only one corpus has is missing in the other one, which is no error of the
    command line.
    """
    fastrec.normalize(corpus.path, tmp_path / "without", exclude_model="org/a")
    found = fastrec.diff(corpus.path, tmp_path / "without", model="org/a", fail_on=1)
    assert (found.new.records, {failure.reason for failure in found.failures}) == (0, {"missing"})
    assert fastrec.diff(tmp_path / "without", corpus.path, model="org/a").old.records == 0


def test_many_names_are_cut(tmp_path: Path) -> None:
    write(
        tmp_path / "in.jsonl",
        [json.dumps(sample_of("0.3.0", model_id=f"m{n:02}")).encode() for n in range(30)],
    )
    with pytest.raises(
        NoMatchError, match=r"models: m00, m01, m02, m03, m04, m05, m06, m07, m08, m09, …$"
    ):
        use_limits(Limits(small_input=0, task_bytes=2_000))(fastrec.normalize)(
            tmp_path / "in.jsonl", tmp_path / "out", model="x", jobs=2
        )


@pytest.mark.parametrize(
    "pattern",
    [
        "[",
        "[]",
        "[!",
        "***" * 50,
        "*a" * 30,
        "[z-a]",
        "\\",
        "\u202e*",
        "\0",
        "a" * 5_000,
        "[[:x:]]",
    ],
)
def test_hostile_patterns(pattern: str, corpus: Corpus, tmp_path: Path) -> None:
    """They match what they match, quickly, and never end in a traceback."""
    for name in ("evaluation", "metric", "model", "sample_id", "hash"):
        expected = naive(corpus, make_filters(**{name: pattern}))
        assert list(fastrec.cat(corpus.path, **{name: pattern})) == expected
    done = run_command(
        "normalize",
        corpus.path,
        "-o",
        tmp_path / "out",
        "--exclude-model",
        pattern.replace("\0", "?"),
    )
    assert done.returncode == 0 or "no record matches" in done.stderr.decode()


def test_patterns_that_are_not_utf8(corpus: Corpus) -> None:
    for command in ("cat", "stats"):
        done = run_command(command, corpus.path, "--model", b"\xff")
        assert done.returncode == 2
        assert b"it is not valid UTF-8" in done.stderr


@pytest.mark.parametrize("damage", [b"{}\n", b"\n"])
def test_a_damaged_corpus_is_an_error(damage: bytes, corpus: Corpus, tmp_path: Path) -> None:
    """A line that is no record is not simply left out."""
    fastrec.normalize(corpus.path, tmp_path / "plain", compression="none")
    part = tmp_path / "plain" / "part-00000.jsonl"
    part.write_bytes(part.read_bytes() + damage)
    done = run_command(
        "export", tmp_path / "plain", "-o", tmp_path / "out", "--format", "csv", "--wrong"
    )
    assert (done.returncode, (tmp_path / "out").exists()) == (3, False)
    assert b"part-00000.jsonl" in done.stderr


def test_hash_is_a_filter_in_normalize_too(corpus: Corpus, tmp_path: Path) -> None:
    """The algorithm has another name."""
    options = ["--hash-algorithm", "xxh3_128", "--hash", "[0-7]*"]
    done = run_command("normalize", corpus.path, "-o", tmp_path / "out", *options)
    assert done.returncode == 0
    made = Corpus(tmp_path / "out")
    assert made.manifest["options"]["hash"] == "xxh3_128"
    assert made.manifest["options"]["filters"] == {"hash": ["[0-7]*"]}
    assert {len(json.loads(line)["sample_hash"]) for line in made.lines} == {32}
    assert f" {made.manifest['filtered']:,} filtered out; ".encode() in done.stderr
