"""Line counts: every line is kept, a duplicate, rejected or blank, checked against a slow and simple count."""

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
from tests.normalize.normalizing import Corpus, check_locations, normalized, raw_of, sort_position, write
from tests.samples import sample
from tests.strategies import dice, records, respelled

BROKEN = [
    b"{",
    b"nonsense",
    b'{"nonsense": true}',
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    b'{"a": 1, "a": 1}',
    b"[1e999]",
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
    """Shards of lines of every kind: few identities, so that there are copies and conflicts within and between them."""
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
        kind, value = rng.random(), None
        if kind < 0.1:
            raw = rng.choice(BLANK)
        elif kind < 0.25:
            raw = rng.choice(BROKEN)
        else:
            value = json.loads(json.dumps(rng.choice(bases)))
            if kind > 0.65:  # another answer to the same question
                value["zz"] = rng.randint(0, 2)
            if kind > 0.85:  # another question by the same name
                value["input"]["raw"] = rng.choice(["", "other"])
            raw = respelled(value, rng).encode()
        shard = rng.randrange(len(shards))
        shards[shard].append(Line(raw, value, shard, len(shards[shard]) + 1))
    return shards


def xxh3(record: dict[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest((record["input"]["raw"] + record["input"]["reference"]).encode())


def normal_of(value: dict[str, Any], algorithm: str, mode: str) -> str | None:
    """A spelling that is equal for equal normal forms; None if the hash is to be verified and is wrong."""
    computed = reference.sample_hash(value) if algorithm == "sha256" else xxh3(value)
    given = value.get("sample_hash", computed)
    if mode == "verify" and given not in (computed, reference.sample_hash(value)):  # right by some recipe
        return None
    normal = reference.normal_record(value)
    normal["sample_hash"] = given if mode == "fill" else computed
    return json.dumps(normal)


def spelling(line: bytes) -> str:
    return json.dumps(json.loads(line))


def identity(line: bytes | str) -> tuple[Any, ...]:
    record = json.loads(line)
    return (*(record[key] for key in ("evaluation_id", "evaluation_name", "model_id")), repr(record["sample_id"]))


def write_pile(folder: Path, pile: list[list[Line]]) -> list[Path]:
    formats = [Format.PLAIN, Format.ZSTD, Format.GZIP]
    return [
        write(folder / f"{number}.jsonl", [line.raw for line in some], formats[number])
        for number, some in enumerate(pile)
    ]


IN_PIECES = Limits(small_input=0, task_bytes=500, decompressed_chunk_bytes=1_000, run_bytes=2_000, window_bytes=100)
"""Read, spill and merge a few lines at a time: ranges of plain files, chunks of the others, many runs."""


choices = st.fixed_dictionaries(
    {
        "conflicts": st.sampled_from(["keep", "first", "reject"]),
        "sample_hash": st.sampled_from(["replace", "fill", "verify"]),
        "hash": st.sampled_from(["sha256", "xxh3_128"]),
        "sort_by": st.sampled_from([(), ("model_id",), ("sample_id", "sample_hash"), tuple(reversed(FIELDS))]),
    }
)


@settings(max_examples=80)
@given(piles(), choices, st.booleans())
def test_every_line_is_accounted_for(pile: list[list[Line]], options: dict[str, Any], pieces: bool) -> None:
    """For any lines and options: distinct records are kept, duplicates dropped, invalid lines rejected unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        shards = write_pile(Path(folder), pile)
        limits = IN_PIECES if pieces else LIMITS
        with patch.object(module, "make_engine", lambda *_: SerialEngine()):
            corpus = normalized(
                shards, Path(folder) / "out", part_size=1_024, jobs=1 + pieces, limits=limits, **options
            )
        check_locations(corpus)
        lines = [line for some in pile for line in some]
        bad = [line for line in lines if line.raw.strip(b" \t\r") and line.value is None]
        first: dict[str, Line] = {}
        for line in lines:
            if line.value is not None:
                normal = normal_of(line.value, options["hash"], options["sample_hash"])
                if normal is None:
                    bad.append(line)
                else:
                    first.setdefault(normal, line)
        check_rejects(corpus, shards, bad)
        left_out = check_conflicts(corpus, shards, first, options["conflicts"])
        kept = [line for normal, line in first.items() if normal not in left_out]
        check_account(corpus, pile, len(bad) + len(left_out), kept)


def check_rejects(corpus: Corpus, shards: Sequence[Path], bad: list[Line]) -> None:
    """Invalid lines are rejected unchanged, with their location; a byte order mark is not part of a line."""
    found = [reject for reject in corpus.rejects if not reject["code"].startswith("conflict.")]
    raws = [line.raw.removeprefix(b"\xef\xbb\xbf") if line.number == 1 else line.raw for line in bad]
    places = [(str(shards[line.shard]), line.number, raw) for line, raw in zip(bad, raws, strict=True)]
    assert [(reject["source"], reject["line"], raw_of(reject)) for reject in found] == sorted(places)


def check_conflicts(corpus: Corpus, shards: Sequence[Path], first: dict[str, Line], conflicts: str) -> set[str]:
    """Records left out by the option are rejected once, at their first location; return them."""
    left = [reject for reject in corpus.rejects if reject["code"].startswith("conflict.")]
    everything = [*corpus.lines, *map(raw_of, left)]
    assert Counter(map(spelling, everything)) == Counter(first.keys())
    groups: dict[tuple[Any, ...], list[bytes]] = {}
    for line in everything:
        groups.setdefault(identity(line), []).append(line)
    several = [group for group in groups.values() if len(group) > 1]
    assert corpus.summary["repeats"]["identities"] == len(several)
    assert corpus.summary["repeats"]["records"] == sum(map(len, several))
    order = corpus.manifest["sort_fields"]
    if conflicts == "keep":
        expected = set()
    elif conflicts == "first":
        expected = {
            line for group in several for line in sorted(group, key=lambda line: sort_position(line, order))[1:]
        }
    else:
        expected = {line for group in several for line in group}
    assert {raw_of(reject) for reject in left} == expected
    code = "conflict.not_first" if conflicts == "first" else "conflict.rejected"
    for reject in left:
        line = first[spelling(raw_of(reject))]
        assert (reject["source"], reject["line"]) == (str(shards[line.shard]), line.number)
        assert (reject["code"], reject["offset"]) == (code, None)
    return set(map(spelling, expected))


def check_account(corpus: Corpus, pile: list[list[Line]], rejected: int, kept: list[Line]) -> None:
    """Line counts of each shard: of duplicates, the first in the order of inputs is kept."""
    by_shard = Counter(line.shard for line in kept)
    assert (corpus.line_counts["kept"], corpus.line_counts["rejected"]) == (len(kept), rejected)
    for number, (some, entry) in enumerate(zip(pile, corpus.manifest["inputs"], strict=True)):
        assert entry["lines"] == len(some)
        assert entry["blank"] == sum(not line.raw.strip(b" \t\r") for line in some)
        assert entry["kept"] == by_shard[number]


# Conflicts, by example


def conflicting(*changes: dict[str, Any]) -> list[bytes]:
    return [
        json.dumps(sample(sample_hash=None, **change)).replace('"sample_hash": null, ', "").encode()
        for change in changes
    ]


def twice(count: int) -> list[bytes]:
    """Two records for each of several identities."""
    changes = [{"sample_id": number, "error": error} for number in range(count) for error in ("x", "y")]
    return conflicting(*changes)


ONE_KEY = conflicting({"error": "b"}, {"error": "a"}, {"error": "b"}, {"sample_id": "alone"})
TWO_KEYS = conflicting({}, {"input": {"raw": "other", "reference": "42"}}, {"sample_id": "alone"})
BOTH = conflicting(
    {"error": "b"},
    {"error": "a"},
    {"input": {"raw": "1", "reference": ""}},
    {"input": {"raw": "2", "reference": ""}, "error": "x"},
)


@pytest.mark.parametrize("lines", [ONE_KEY, TWO_KEYS, BOTH])
@pytest.mark.parametrize("part_size", [1_024, 10**6])
def test_the_record_that_sorts_first_wins_a_conflict(lines: list[bytes], part_size: int, tmp_path: Path) -> None:
    """The order of lines does not matter, even if the records differ in sample_hash."""
    everything = normalized(write(tmp_path / "in.jsonl", lines), tmp_path / "keep").lines
    best: dict[tuple[Any, ...], bytes] = {}
    for line in everything:
        best.setdefault(identity(line), line)
    for name, order in (("forwards", lines), ("backwards", lines[::-1])):
        shard = write(tmp_path / f"{name}.jsonl", order)
        corpus = normalized(shard, tmp_path / name, conflicts="first", part_size=part_size)
        assert sorted(corpus.lines) == sorted(best.values())
        assert {reject["code"] for reject in corpus.rejects} == {"conflict.not_first"}
        assert corpus.summary["rejected_by_code"] == {"conflict.not_first": len(everything) - len(best)}


@pytest.mark.parametrize("lines", [ONE_KEY[:3], TWO_KEYS[:2], BOTH])
def test_all_records_may_be_in_conflict(lines: list[bytes], tmp_path: Path) -> None:
    """If all records are rejected as conflicts, the corpus has no part."""
    corpus = normalized(write(tmp_path / "in.jsonl", lines), tmp_path / "out", conflicts="reject")
    assert corpus.parts == []
    assert corpus.summary["evaluations"] == []
    assert corpus.summary["rejected_by_code"] == {"conflict.rejected": corpus.line_counts["rejected"]}
    assert corpus.line_counts["rejected"] == len(lines) - corpus.line_counts["duplicates"]
    assert corpus.summary["repeats"]["identities"] == 1


def test_an_empty_part_leaves_no_gap(tmp_path: Path) -> None:
    """Parts without records are left out, and the others are numbered without a gap."""
    several = twice(300)
    several += conflicting(*({"sample_id": str(number), "evaluation_name": "z"} for number in range(300)))
    corpus = normalized(write(tmp_path / "in.jsonl", several), tmp_path / "out", conflicts="reject", part_size=1_024)
    assert [part.name for part in corpus.parts] == [
        f"part-{number:05d}.jsonl.zst" for number in range(len(corpus.parts))
    ]
    assert (corpus.line_counts["kept"], corpus.line_counts["rejected"]) == (300, 600)


def test_the_summary_has_examples_of_conflicts(tmp_path: Path) -> None:
    """The summary counts all identities with several records, and lists the first hundred."""
    several = twice(150)
    corpus = normalized(write(tmp_path / "in.jsonl", several), tmp_path / "out")
    found = corpus.summary["repeats"]
    assert (found["identities"], found["records"], len(found["examples"])) == (150, 300, 100)
    assert [example["sample_id"] for example in found["examples"]] == list(range(100))
    hashes = [reference.sample_hash(sample())]
    assert all((one["records"], one["sample_hashes"]) == (2, hashes) for one in found["examples"])
