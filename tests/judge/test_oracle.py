"""The judge agrees with an independent draft-07 validator on seeded mutations of records."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from fastrec.judge.judge import Judge
from fastrec.schemas.registry import DEFAULT_SCHEMA
from tests import reference
from tests.samples import AGENTIC, MULTI_TURN, SINGLE_TURN

ABSENT = object()
RECORDS = {"single_turn": SINGLE_TURN, "multi_turn": MULTI_TURN, "agentic": AGENTIC}
BOUNDARIES = [
    -1,
    0,
    -0.0,
    0.0,
    1.0,
    1.5,
    1e2,
    -1.0,
    2**53 + 1,
    2**64,
    10**30,
    -(10**30),
    1e300,
    5e-324,
    9007199254740993.0,
]
JSON_TYPES = [
    None,
    True,
    False,
    "",
    "text",
    [],
    ["x"],
    [1],
    [None],
    [[]],
    {},
    {"raw": "x"},
    {"num_turns": 1},
    [{}],
]
ENUMS = ["single_turn", "multi_turn", "agentic", "Single_turn", "single_turn "]
VALUES = [ABSENT, *BOUNDARIES, *JSON_TYPES, *ENUMS]
RANDOM_MUTATIONS = 16_000

Path = tuple[str | int, ...]


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """List every path in a record, and in each object the path of a key that does not exist."""
    if at:
        yield at
    if isinstance(value, dict):
        yield (*at, "unknown")
        for key, child in value.items():
            yield from paths(child, (*at, key))
    elif isinstance(value, list):
        yield (*at, len(value))
        for index, child in enumerate(value):
            yield from paths(child, (*at, index))


def put(record: Any, path: Path, new: Any) -> None:
    """Set, append or remove the value at a path, unless an earlier mutation removed the path."""
    *way, last = path
    if new is not ABSENT:
        new = copy.deepcopy(new)
    for step in way:
        try:
            record = record[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(record, list) and isinstance(last, int):
        if last < len(record):
            record[last : last + 1] = [] if new is ABSENT else [new]
        elif new is not ABSENT:
            record.append(new)
    elif isinstance(record, dict) and isinstance(last, str):
        if new is ABSENT:
            record.pop(last, None)
        else:
            record[last] = new


def single_mutations() -> Iterator[Any]:
    for record in RECORDS.values():
        for path, value in itertools.product([*paths(record), ("metrics",), ("output",), ("interactions",)], VALUES):
            mutated = copy.deepcopy(record)
            put(mutated, path, value)
            yield mutated


def crossed_branches() -> Iterator[Any]:
    """Yield records for each rule, with output and interactions present, null, absent, empty and wrong."""
    outputs = [ABSENT, None, {}, {"raw": "x"}, {"raw": 1}, [], "x", 0]
    interactions = [ABSENT, None, [], [{}], [{"turn_idx": 0, "role": "user"}], {}, "x", False]
    metrics = [ABSENT, None, {}, {"num_turns": None}, {"other": 1}, [], "num_turns"]
    kinds = ["single_turn", "multi_turn", "agentic", "other", ABSENT, None]
    for kind, output, turns, metric in itertools.product(kinds, outputs, interactions, metrics):
        record = copy.deepcopy(SINGLE_TURN)
        for key, value in [
            ("interaction_type", kind),
            ("output", output),
            ("interactions", turns),
            ("metrics", metric),
        ]:
            put(record, (key,), value)
        yield record


def random_mutations(seed: int) -> Iterator[Any]:
    rng = random.Random(seed)
    places = {name: [*paths(record), ("metrics",)] for name, record in RECORDS.items()}
    harmless: list[Any] = [ABSENT, None, 1.0, "text", [], {}, {"zz": {"b": 1, "a": [2]}}]
    for _ in range(RANDOM_MUTATIONS):
        name = rng.choice(list(RECORDS))
        record = copy.deepcopy(RECORDS[name])
        for _ in range(rng.randint(1, 3)):
            put(record, rng.choice(places[name]), rng.choice(harmless if rng.random() < 0.7 else VALUES))
        yield record


def spelled(value: Any, rng: random.Random) -> bytes:
    """Encode in one of the spellings that producers use."""
    separators = rng.choice([(",", ":"), (", ", ": "), (" , ", " :\t")])
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, separators=separators)
    if rng.random() < 0.1:
        text = text.replace("/", "\\/")
    return text.encode()


def disagreements(mutations: Iterator[Any], seed: int) -> tuple[int, int, list[str]]:
    """Judge mutations in chunks of several lines, and compare each verdict and each normal form with the reference."""
    judge, rng = Judge(DEFAULT_SCHEMA), random.Random(seed)
    wrong: list[str] = []
    judged = valid = 0
    for chunk in iter(lambda: list(itertools.islice(mutations, 50)), []):
        lines = [spelled(value, rng) for value in chunk]
        out = bytearray()
        batch = judge.judge_chunk(b"\n".join(lines), out)
        assert batch.lines == len(lines) == len(batch.records) + len(batch.rejected)
        rejected = {invalid.line for invalid in batch.rejected}
        starts = iter([0, *batch.ends])
        for number, (value, line) in enumerate(zip(chunk, lines, strict=True), 1):
            judged += 1
            expected = reference.is_valid(value)
            if (number not in rejected) != expected:
                wrong.append(f"{'valid' if expected else 'invalid'} by the oracle: {line!r}")
            if number not in rejected:
                valid += 1
                start = next(starts)
                end = batch.ends[valid_so_far(number, rejected) - 1]
                normal = bytes(out[start:end])
                if not reference.same(json.loads(normal), reference.normal_record(json.loads(line))):
                    wrong.append(f"normal form differs: {line!r} became {normal!r}")
    return judged, valid, wrong


def valid_so_far(number: int, rejected: set[int]) -> int:
    return number - sum(1 for line in rejected if line <= number)


@pytest.mark.parametrize(
    ("name", "least"),
    [("single", 5_000), ("crossed", 2_500), ("random-1", RANDOM_MUTATIONS), ("random-2", RANDOM_MUTATIONS)],
)
def test_verdict_and_normal_form_equal_the_oracle(name: str, least: int) -> None:
    """jsonschema and the reference implementation give the same verdict and normal form for every mutation."""
    mutations = {
        "single": single_mutations,
        "crossed": crossed_branches,
        "random-1": lambda: random_mutations(1),
        "random-2": lambda: random_mutations(2),
    }[name]()
    judged, valid, wrong = disagreements(mutations, seed=len(name))
    assert not wrong, f"{len(wrong)} of {judged}: " + "\n".join(wrong[:5])
    assert judged >= least
    assert judged * 0.01 < valid < judged * 0.99  # both verdicts really occur
