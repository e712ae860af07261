"""Line counts: every line is kept, a duplicate, rejected or blank, checked against a slow and
simple count.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.engine.base import SerialEngine
from fastrec.limits import LIMITS, Limits
from fastrec.normalize import run as module
from fastrec.sorting.keys import FIELDS
from fastrec.sources.formats import Format
from tests import reference
from tests.normalize.leaving_out import leave_out
from tests.normalize.normalizing import Corpus, check_locations, normalized, raw_of, write
from tests.samples import sample
from tests.sizes import examples
from tests.strategies import dice, records, respelled

BROKEN = [
    b"{",
    b"nonsense",
    b'{"nonsense": true}',
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    b'{"a": 1, "a": 1}',
    b'{"a": [1e999]}',
    b"{" + b'"a":[' * 300,
    json.dumps(sample(output=None)).encode(),
    json.dumps(sample(sample_id=1.5)).encode(),
]
BLANK = [b"", b" ", b"\t\r", b"\r"]


class Line(NamedTuple):
    """A line, and what it means; None where it is broken or blank."""

    raw: bytes
    value: dict[str, Any] | None
    shard: int
    number: int


@st.composite
def piles(draw: Any) -> list[list[Line]]:
    """Shards of lines of every kind: few identities, so that there are copies and repeats within
    and between them.
    """
    rng = draw(dice)
    bases = draw(st.lists(records, min_size=1, max_size=4))
    for base in bases:
        base["model_id"] = rng.choice("mn")
        base["evaluation_name"] = base["evaluation_id"] = rng.choice("ab")
        base["sample_id"] = rng.choice([1, "1"])
        if "sample_hash" in base and rng.random() < 0.5:
            base["sample_hash"] = rng.choice([reference.sample_hash(base), xxh3(base)])
    shards: list[list[Line]] = [[] for _ in range(rng.randint(1, 3))]
    for _ in range(draw(st.integers(0, 25))):
        kind = rng.random()
        value = None
        if kind < 0.1:
            raw = rng.choice(BLANK)
        elif kind < 0.25:
            raw = rng.choice(BROKEN)
        else:
            value = json.loads(json.dumps(rng.choice(bases)))
            if kind > 0.5:  # other side values of the same answer
                value["zz"] = rng.randint(0, 1)
            if kind > 0.6:  # another verdict: 1, 1.0 and true are the same
                value["evaluation"] |= rng.choice(
                    [{"score": 1}, {"score": 1.0}, {"score": True}, {"is_correct": True}]
                )
            if kind > 0.7:  # another run or label
                value["evaluation_id"] = rng.choice("ab")
                value["schema_version"] = rng.choice(["0.2.0", "instance_level_eval_0.2.0"])
            if kind > 0.8:  # another trial
                value.setdefault("metadata", {})["epoch"] = rng.choice([1, 2])
            if kind > 0.9:  # another question by the same name
                value["input"]["raw"] = rng.choice(["", "other"])
            raw = respelled(value, rng).encode()
        shard = rng.randrange(len(shards))
        shards[shard].append(Line(raw, value, shard, len(shards[shard]) + 1))
    return shards


def xxh3(record: dict[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(
        (record["input"]["raw"] + record["input"]["reference"]).encode()
    )


def normal_of(value: dict[str, Any], algorithm: str, mode: str) -> str | None:
    """A spelling that is equal for equal normal forms.

    None if the hash is to be verified and is wrong.

    A SHA-256 is right by its recipe, also if the corpus has other hashes.
    """
    computed = reference.sample_hash(value) if algorithm == "sha256" else xxh3(value)
    given = value.get("sample_hash", computed)
    if mode == "verify" and given not in (
        computed,
        reference.sample_hash(value),
    ):  # right by some recipe
        return None
    normal = reference.normal_record(value)
    normal["sample_hash"] = given if mode == "fill" else computed
    return json.dumps(normal)


def compact(spelled: str) -> bytes:
    return json.dumps(json.loads(spelled), ensure_ascii=False, separators=(",", ":")).encode()


def spelling(line: bytes) -> str:
    return json.dumps(json.loads(line))


def identity(line: bytes | str) -> tuple[Any, ...]:
    record = json.loads(line)
    return (
        *(record[key] for key in ("evaluation_id", "evaluation_name", "model_id")),
        repr(record["sample_id"]),
    )


def write_pile(folder: Path, pile: list[list[Line]]) -> list[Path]:
    formats = [Format.PLAIN, Format.ZSTD, Format.GZIP]
    return [
        write(folder / f"{number}.jsonl", [line.raw for line in some], formats[number])
        for number, some in enumerate(pile)
    ]


IN_PIECES = Limits(
    small_input=0, task_bytes=500, decompressed_chunk_bytes=1_000, run_bytes=2_000, window_bytes=100
)
"""Read, spill and merge a few lines at a time: ranges of plain files, chunks of the others, many runs."""


choices = st.fixed_dictionaries(
    {
        "same_run": st.sampled_from(["keep", "ignore"]),
        "conflicts": st.sampled_from(["keep", "first", "reject"]),
        "repeats": st.sampled_from(["keep", "first", "reject"]),
        "sample_hash": st.sampled_from(["replace", "fill", "verify"]),
        "hash_algorithm": st.sampled_from(["sha256", "xxh3_128"]),
        "sort_by": st.sampled_from(
            [(), ("model_id",), ("sample_id", "sample_hash"), tuple(reversed(FIELDS))]
        ),
    }
)


@settings(max_examples=examples(4, 320))
@given(piles(), choices, st.booleans())
def test_every_line_is_accounted_for(
    pile: list[list[Line]], options: dict[str, Any], pieces: bool
) -> None:
    """For any lines and options: distinct records are kept, duplicates dropped, invalid lines
    rejected unchanged.
    """
    with tempfile.TemporaryDirectory() as folder:
        shards = write_pile(Path(folder), pile)
        limits = IN_PIECES if pieces else LIMITS
        with patch.object(module, "make_engine", lambda *_: SerialEngine()):
            corpus = normalized(
                shards,
                Path(folder) / "out",
                part_size=4_096,
                jobs=1 + pieces,
                limits=limits,
                **options,
            )
        check_locations(corpus)
        lines = [line for some in pile for line in some]
        bad = [line for line in lines if line.raw.strip(b" \t\r") and line.value is None]
        first: dict[str, Line] = {}
        for line in lines:
            if line.value is not None:
                normal = normal_of(line.value, options["hash_algorithm"], options["sample_hash"])
                if normal is None:
                    bad.append(line)
                else:
                    first.setdefault(normal, line)
        check_rejects(corpus, shards, bad)
        left_out, dropped = check_left_out(corpus, shards, first, options)
        kept = [line for normal, line in first.items() if normal not in left_out | dropped]
        check_account(corpus, pile, len(bad) + len(left_out), kept)


def check_rejects(corpus: Corpus, shards: Sequence[Path], bad: list[Line]) -> None:
    """Invalid lines are rejected unchanged, with their location.

    A byte order mark is not part of a line.
    """
    found = [
        reject
        for reject in corpus.rejects
        if not reject["code"].startswith(("conflict.", "repeat."))
    ]
    raws = [
        line.raw.removeprefix(b"\xef\xbb\xbf") if line.number == 1 else line.raw for line in bad
    ]
    places = [
        (str(shards[line.shard]), line.number, raw) for line, raw in zip(bad, raws, strict=True)
    ]
    assert [(reject["source"], reject["line"], raw_of(reject)) for reject in found] == sorted(
        places
    )


def check_left_out(
    corpus: Corpus, shards: Sequence[Path], first: dict[str, Line], options: dict[str, Any]
) -> tuple[set[str], set[str]]:
    """Records left out by options are rejected once, at their first location, and counted in the
    summary.

    Returns them, and the records that were dropped as duplicates because only their runs differ.
    """
    order = corpus.manifest["sort_fields"]
    left = [
        reject for reject in corpus.rejects if reject["code"].startswith(("conflict.", "repeat."))
    ]
    spelled = {spelling(line): line for line in (*corpus.lines, *map(raw_of, left))}
    everything = [spelled.get(normal) or compact(normal) for normal in first]
    choices = {name: options[name] for name in ("same_run", "conflicts", "repeats")}
    same_run, codes, summary = leave_out(everything, order, **choices)
    dropped = set(map(spelling, same_run))
    rejected = {spelling(line): code for line, code in codes.items()}
    assert Counter(map(spelling, corpus.lines)) == Counter(first.keys() - dropped - rejected.keys())
    assert {name: corpus.summary[name] for name in summary} == summary
    assert {spelling(raw_of(reject)): reject["code"] for reject in left} == rejected
    assert len(left) == len(rejected)
    for reject in left:
        line = first[spelling(raw_of(reject))]
        assert (reject["source"], reject["line"], reject["offset"]) == (
            str(shards[line.shard]),
            line.number,
            None,
        )
    return set(rejected), dropped


def check_account(corpus: Corpus, pile: list[list[Line]], rejected: int, kept: list[Line]) -> None:
    """Line counts of each shard: of duplicates, the first in the order of inputs is kept."""
    by_shard = Counter(line.shard for line in kept)
    assert (corpus.line_counts["kept"], corpus.line_counts["rejected"]) == (len(kept), rejected)
    for number, (some, entry) in enumerate(zip(pile, corpus.manifest["inputs"], strict=True)):
        assert entry["lines"] == len(some)
        assert entry["blank"] == sum(not line.raw.strip(b" \t\r") for line in some)
        assert entry["kept"] == by_shard[number]


# Contradictions and repeats, by example


def records_of(*changes: dict[str, Any]) -> list[bytes]:
    return [
        json.dumps(sample(sample_hash=None, **change)).replace('"sample_hash": null, ', "").encode()
        for change in changes
    ]


def twice(count: int) -> list[bytes]:
    """Two records for each of several identities: the same output with different verdicts."""
    changes = [
        {"sample_id": number, "error": error} for number in range(count) for error in ("x", "y")
    ]
    return records_of(*changes)


WRONG = {"score": 0, "is_correct": False}
ONE_KEY = records_of({"error": "b"}, {"error": "a"}, {"error": "b"}, {"sample_id": "alone"})
TWO_KEYS = records_of({}, {"input": {"raw": "other", "reference": "42"}}, {"sample_id": "alone"})
BOTH = records_of(
    {"error": "b"},
    {"error": "a"},
    {"input": {"raw": "1", "reference": ""}},
    {"input": {"raw": "2", "reference": ""}, "error": "x"},
)
BY_OUTPUT = records_of({"output": {"raw": "41"}, "evaluation": WRONG}, {"output": {"raw": "42"}})
BY_TRIAL = records_of({"metadata": {"trial": 0}}, {"metadata": {"trial": 1}, "evaluation": WRONG})


@pytest.mark.each_value
@pytest.mark.parametrize("lines", [ONE_KEY, TWO_KEYS, BOTH, BY_OUTPUT, BY_TRIAL])
@pytest.mark.parametrize("part_size", [1_024, 10**6])
def test_the_record_that_sorts_first_wins(
    lines: list[bytes], part_size: int, tmp_path: Path
) -> None:
    """The order of lines does not matter, even if the records differ in sample_hash."""
    everything = normalized(write(tmp_path / "in.jsonl", lines), tmp_path / "keep").lines
    best: dict[tuple[Any, ...], bytes] = {}
    for line in everything:
        best.setdefault(identity(line), line)
    for name, order in (("forwards", lines), ("backwards", lines[::-1])):
        shard = write(tmp_path / f"{name}.jsonl", order)
        corpus = normalized(
            shard, tmp_path / name, conflicts="first", repeats="first", part_size=part_size
        )
        assert sorted(corpus.lines) == sorted(best.values())
        codes = Counter(reject["code"] for reject in corpus.rejects)
        assert codes == corpus.summary["rejected_by_code"]
        assert codes.total() == len(everything) - len(best)
        assert codes["conflict.not_first"] == (lines in (ONE_KEY, BOTH))


def verdicts(*scores: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"evaluation": {"score": score, "is_correct": True}, **more} for score in scores]


CASES: dict[str, tuple[list[dict[str, Any]], int, int]] = {
    "another score": (verdicts(0, 1), 2, 0),
    "the same score, spelled in three ways": (verdicts(1, 1.0, True), 0, 3),
    "another is_correct": ([{}, {"evaluation": {"score": 1, "is_correct": False}}], 2, 0),
    "an error": ([{}, {"error": "timeout"}], 2, 0),
    "another error": ([{"error": "timeout"}, {"error": "refused"}], 2, 0),
    "an empty error is none": ([{"error": None}, {"error": ""}], 0, 2),
    "another latency": ([{"performance": {"latency_ms": ms}} for ms in (1, 2)], 0, 2),
    "another output": ([{}, {"output": {"raw": "x"}, "evaluation": WRONG}], 0, 2),
    "another trial in metadata": (
        [{"metadata": {"epoch": 1}, **verdicts(0)[0]}, {"metadata": {"epoch": 2}, **verdicts(1)[0]}], 0, 2,
    ),
    "another trial at the root": ([{"seed": 1, **verdicts(0)[0]}, {"seed": 2, **verdicts(1)[0]}], 0, 2),
    "other metadata": (
        [{"metadata": {"host": "a"}, **verdicts(0)[0]}, {"metadata": {"host": "b"}, **verdicts(1)[0]}], 2, 0,
    ),
    "a repeat beside a contradiction": ([*verdicts(0, 1), {"output": {"raw": "x"}}], 2, 1),
    "two contradictions": ([*verdicts(0, 1), *verdicts(0, 1, output={"raw": "x"})], 4, 0),
    "another question": ([*verdicts(0), *verdicts(1, input={"raw": "other", "reference": "42"})], 0, 2),
    "contradictions about two questions": (
        [*verdicts(0, 1), *verdicts(0, 1, input={"raw": "other", "reference": "42"})], 4, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_contradictions_and_repeats_are_told_apart(case: str, tmp_path: Path) -> None:
    """The same output with two verdicts is a contradiction; anything else is a repeat."""
    changes, contradicting, repeated = CASES[case]
    corpus = normalized(
        write(tmp_path / "in.jsonl", records_of(*changes)), tmp_path / "out", part_size=1_024
    )
    found = corpus.summary["contradictions"], corpus.summary["repeats"]
    for one, count in zip(found, (contradicting, repeated), strict=True):
        assert (one["identities"], one["records"]) == (int(count > 0), count)
        assert [example["records"] for example in one["examples"]] == [count] * (count > 0)


def test_options_act_on_contradictions_and_repeats_separately(tmp_path: Path) -> None:
    """A contradiction beside a repeat: each option leaves out its own kind."""
    changes = [*verdicts(0, 1), {"output": {"raw": "x"}}]
    shard = write(tmp_path / "in.jsonl", records_of(*changes))
    expected = {
        ("keep", "first"): {"repeat.not_first": 1},  # the first answer and its contradiction stay
        ("keep", "reject"): {"repeat.rejected": 3},
        ("first", "keep"): {"conflict.not_first": 1},
        ("first", "first"): {"conflict.not_first": 1, "repeat.not_first": 1},
        ("first", "reject"): {"conflict.not_first": 1, "repeat.rejected": 2},
        ("reject", "keep"): {"conflict.rejected": 2},
        ("reject", "first"): {"conflict.rejected": 2},  # what is left is no repeat
        ("reject", "reject"): {"conflict.rejected": 2},
    }
    for (conflicts, repeats), codes in expected.items():
        corpus = normalized(
            shard, tmp_path / f"{conflicts}-{repeats}", conflicts=conflicts, repeats=repeats
        )
        assert corpus.summary["rejected_by_code"] == codes
        counts = [corpus.summary[kind]["records"] for kind in ("contradictions", "repeats")]
        assert counts == [2, 1], "records that were left out count, too"


@pytest.mark.parametrize("lines", [ONE_KEY[:3], TWO_KEYS[:2], BOTH])
def test_all_records_may_be_left_out(lines: list[bytes], tmp_path: Path) -> None:
    """If all records are rejected, the corpus has no part."""
    shard = write(tmp_path / "in.jsonl", lines)
    corpus = normalized(shard, tmp_path / "out", conflicts="reject", repeats="reject")
    assert corpus.parts == []
    assert corpus.summary["evaluations"] == []
    contradicting = corpus.summary["contradictions"]["records"]
    assert contradicting == (0 if lines == TWO_KEYS[:2] else 2)
    left = corpus.line_counts["rejected"] - contradicting
    codes = {"conflict.rejected": contradicting, "repeat.rejected": left}
    assert corpus.summary["rejected_by_code"] == {
        code: count for code, count in codes.items() if count
    }
    assert corpus.line_counts["rejected"] == len(lines) - corpus.line_counts["duplicates"]


def test_an_empty_part_leaves_no_gap(tmp_path: Path) -> None:
    """Parts without records are left out, and the others are numbered without a gap."""
    several = twice(300)
    several += records_of(
        *({"sample_id": str(number), "evaluation_name": "z"} for number in range(300))
    )
    corpus = normalized(
        write(tmp_path / "in.jsonl", several), tmp_path / "out", conflicts="reject", part_size=1_024
    )
    assert [part.name for part in corpus.parts] == [
        f"part-{number:05d}.jsonl.zst" for number in range(len(corpus.parts))
    ]
    assert (corpus.line_counts["kept"], corpus.line_counts["rejected"]) == (300, 600)


def test_the_summary_has_examples_of_contradictions(tmp_path: Path) -> None:
    """The summary counts all identities with contradictions, and lists the first hundred."""
    several = twice(150)
    corpus = normalized(write(tmp_path / "in.jsonl", several), tmp_path / "out")
    assert corpus.summary["repeats"] == {"identities": 0, "records": 0, "examples": []}
    found = corpus.summary["contradictions"]
    assert (found["identities"], found["records"], len(found["examples"])) == (150, 300, 100)
    assert [example["sample_id"] for example in found["examples"]] == list(range(100))
    hashes = [reference.sample_hash(sample())]
    assert all((one["records"], one["sample_hashes"]) == (2, hashes) for one in found["examples"])


# Runs that were scraped or converted again, by example


def same_run(corpus: Corpus) -> list[tuple[Any, ...]]:
    found = corpus.summary["same_run"]
    return [
        found["records"],
        *((run["kept"], run["dropped"], run["records"]) for run in found["runs"]),
    ]


@pytest.mark.parametrize("sort_by", [(), ("evaluation_id",)])
@pytest.mark.parametrize("part_size", [1_024, 10**6])
def test_a_run_that_was_scraped_again_is_dropped(
    sort_by: tuple[str, ...], part_size: int, tmp_path: Path
) -> None:
    """Its records are duplicates of their shards; the summary says which run they equal."""
    first = records_of(*({"sample_id": number, "evaluation_id": "run/1"} for number in range(40)))
    again = records_of(
        *(
            {"sample_id": number, "evaluation_id": "run/2", "schema_version": "0.2.0"}
            for number in range(39)
        ),
        {"sample_id": 39, "evaluation_id": "run/2", "error": "timeout"},
    )
    shards = [write(tmp_path / "2.jsonl", again), write(tmp_path / "1.jsonl", first)]
    options: dict[str, Any] = {"part_size": part_size, "sort_by": sort_by}
    corpus = normalized(shards, tmp_path / "out", same_run="ignore", **options)
    assert (corpus.line_counts["kept"], corpus.line_counts["duplicates"]) == (41, 39)
    by_shard = {
        Path(entry["path"]).name: entry["duplicates"] for entry in corpus.manifest["inputs"]
    }
    assert by_shard == {"1.jsonl": 0, "2.jsonl": 39}
    assert same_run(corpus) == [39, ("run/1", "run/2", 39)]
    kept = normalized(shards, tmp_path / "keep", **options)
    assert (kept.line_counts["kept"], same_run(kept)) == (80, [0])


def test_a_label_is_no_difference(tmp_path: Path) -> None:
    """Records of one run that differ only in their label are equal but for their run, too."""
    lines = records_of(
        {"schema_version": "0.2.0"}, {}, {"schema_version": "0.2.0", "error": "timeout"}
    )
    corpus = normalized(
        write(tmp_path / "in.jsonl", lines), tmp_path / "out", same_run="ignore", conflicts="reject"
    )
    run = sample()["evaluation_id"]
    assert same_run(corpus) == [1, (run, run, 1)]
    assert json.loads(raw_of(corpus.rejects[0]))["schema_version"] == "0.2.0"
    assert (corpus.line_counts["duplicates"], corpus.line_counts["rejected"]) == (1, 2)
