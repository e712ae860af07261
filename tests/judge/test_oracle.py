"""The judge agrees with an independent draft-07 validator on seeded mutations of records, by every
schema version.

`make test` judges 5,600 mutations, 3,200 of them by version 0.2.0. `make test-long` judges 40,000
by each.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas.registry import SCHEMAS
from tests import reference
from tests.samples import sample_of
from tests.sizes import examples

ABSENT = object()
KINDS = ("single_turn", "multi_turn", "agentic")
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
    {"a": "x", "b": "y"},
    [{}],
]
ENUMS = ["single_turn", "multi_turn", "agentic", "Single_turn", "single_turn "]
VALUES = [ABSENT, *BOUNDARIES, *JSON_TYPES, *ENUMS]
FURTHER = [("metrics",), ("output",), ("interactions",), ("messages",), ("evaluation_result_id",)]
LABELS = [
    "0.2.0",
    "instance_level_eval_0.2.0",
    "0.2.1",
    "instance_level_eval_0.2.1",
    "0.2.2",
    "0.3.0",
    "banana",
    "",
]
PARTS = 4
EXAMPLES = examples(300, 10_000)
"""Of each part."""
FEWER_EXAMPLES = examples(120, 40_000)

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
    if isinstance(new, (dict, list)):
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


Mutation = list[tuple[Path, Any]]
"""Paths and their new values."""


def single_mutations(version: str) -> Iterator[tuple[str, Mutation]]:
    for kind in KINDS:
        for path, value in itertools.product([*paths(sample_of(version, kind)), *FURTHER], VALUES):
            yield kind, [(path, value)]


def crossed_branches(version: str) -> Iterator[tuple[str, Mutation]]:
    """Yield mutations for each rule, with output and turns present, null, absent, empty and wrong."""
    outputs = [ABSENT, None, {}, {"raw": "x"}, {"raw": ["x"]}, {"raw": 1}, [], "x", 0]
    turns = [ABSENT, None, [], [{}], [{"turn_idx": 0, "role": "user"}], {}, "x", False]
    metrics = [ABSENT, None, {}, {"num_turns": None}, {"other": 1}, [], "num_turns"]
    kinds = [*KINDS, "other", ABSENT, None]
    fields = [("interaction_type",), ("output",), (SCHEMAS[version].turns_field,), ("metrics",)]
    for values in itertools.product(kinds, outputs, turns, metrics):
        yield "single_turn", list(zip(fields, values, strict=True))


def random_mutations(seed: int, version: str = "0.2.0") -> Iterator[Any]:
    """Yield records with one to three mutations, without end."""
    rng = random.Random(seed)
    places = {kind: [*paths(sample_of(version, kind)), *FURTHER] for kind in KINDS}
    harmless: list[Any] = [ABSENT, None, 1.0, "text", [], {}, ["x"], {"zz": {"b": 1, "a": [2]}}]
    while True:
        kind = rng.choice(KINDS)
        record = sample_of(version, kind)
        for _ in range(rng.randint(1, 3)):
            put(
                record,
                rng.choice(places[kind]),
                rng.choice(harmless if rng.random() < 0.7 else VALUES),
            )
        if rng.random() < 0.2:
            record["schema_version"] = rng.choice(LABELS)
        yield record


def mutations(version: str, most: int, part: int = 0, parts: int = 1) -> Iterator[Any]:
    """Yield mutated records of a version: of each kind a share, or all if there are not as many."""
    rng = random.Random(version)
    single = list(single_mutations(version))
    crossed = list(crossed_branches(version))
    rng.shuffle(single)
    rng.shuffle(crossed)
    chosen = [*single[part::parts][: most // 3], *crossed[part::parts][: most // 6]]
    for kind, mutation in chosen:
        record = sample_of(version, kind)
        for path, value in mutation:
            put(record, path, value)
        yield record
    yield from itertools.islice(random_mutations(1 + part, version), most - len(chosen))


def spelled(value: Any, rng: random.Random) -> bytes:
    """Encode in one of the spellings that producers use."""
    separators = rng.choice([(",", ":"), (", ", ": "), (" , ", " :\t")])
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, separators=separators)
    if rng.random() < 0.1:
        text = text.replace("/", "\\/")
    return text.encode()


def disagreements(
    judge: Judge, values: Iterator[Any], version_of: Callable[[Any], str | None]
) -> tuple[int, int, str]:
    """Judge values in chunks of several lines, and compare versions, verdicts and normal forms with
    the reference.

    Return the number of values and of valid ones, and the disagreements as text.
    """
    rng = random.Random(7)
    wrong: list[str] = []
    judged = valid = 0
    for chunk in iter(lambda: list(itertools.islice(values, 50)), []):
        lines = [spelled(value, rng) for value in chunk]
        out = bytearray()
        batch = judge.judge_chunk(b"\n".join(lines), out)
        assert batch.lines == len(lines) == len(batch.records) + len(batch.rejected)
        versions = [version_of(value) for value in chunk]
        if +batch.versions != Counter(filter(None, versions)):
            wrong.append(f"other versions: {batch.versions} of {lines!r}")
        normal = dict(zip(batch.numbers, bytes(out).splitlines(), strict=True))
        for number, (version, line) in enumerate(zip(versions, lines, strict=True), 1):
            judged += 1
            if (number in normal) != (version is not None):
                wrong.append(f"{'valid' if version else 'invalid'} by the oracle: {line!r}")
            elif version:
                valid += 1
                if not reference.same(
                    json.loads(normal[number]), reference.normal_record(json.loads(line), version)
                ):
                    wrong.append(f"normal form differs: {line!r} became {normal[number]!r}")
    return judged, valid, "\n".join([f"{len(wrong)} disagreements", *wrong[:5]]) if wrong else ""


def agrees_with_the_oracle(version: str, values: Iterator[Any], most: int) -> None:
    def version_of(value: Any) -> str | None:
        return version if reference.is_valid(value, version) else None

    judged, valid, wrong = disagreements(Judge(JudgeSettings(schema=version)), values, version_of)
    assert not wrong
    assert judged == most
    assert judged * 0.01 < valid < judged * 0.99  # both verdicts really occur


@pytest.mark.parametrize("part", range(PARTS))
def test_verdict_and_normal_form_equal_the_oracle(part: int) -> None:
    """jsonschema and the reference implementation give the same verdict and normal form for every
    mutation.
    """
    agrees_with_the_oracle("0.2.0", mutations("0.2.0", EXAMPLES, part, PARTS), EXAMPLES)


@pytest.mark.parametrize("version", reference.VERSIONS[1:])
def test_verdict_and_normal_form_of_later_versions_equal_the_oracle(version: str) -> None:
    """They do for later versions, too."""
    agrees_with_the_oracle(version, mutations(version, FEWER_EXAMPLES), FEWER_EXAMPLES)


@pytest.mark.parametrize("version", reference.VERSIONS)
def test_the_version_of_a_mutation_is_that_of_the_oracle(version: str) -> None:
    """A record is of the version that the reference implementation tells by its shape, or it is
    rejected.
    """
    judged, valid, wrong = disagreements(
        Judge(), mutations(version, FEWER_EXAMPLES), reference.version_of
    )
    assert not wrong
    assert judged == FEWER_EXAMPLES
    assert judged * 0.01 < valid < judged * 0.99


def test_versions_in_any_order_do_not_change_a_verdict() -> None:
    """A judge that sees mutations of all versions by turns agrees with the oracle, too."""
    streams = [
        random_mutations(number, version) for number, version in enumerate(reference.VERSIONS)
    ]
    rng = random.Random(5)
    values = (next(rng.choice(streams)) for _ in range(FEWER_EXAMPLES))
    _, _, wrong = disagreements(Judge(), values, reference.version_of)
    assert not wrong


@pytest.mark.parametrize("version", reference.VERSIONS)
def test_a_record_is_accepted_exactly_if_some_version_accepts_it(version: str) -> None:
    """Turns, labels and spellings of several versions in one record: valid by one version is valid,
    else rejected.
    """
    rng = random.Random(version)
    values = []
    for record in itertools.islice(random_mutations(9, version), FEWER_EXAMPLES):
        field = rng.choice(("interactions", "messages", "evaluation_result_id", "zz"))
        record.setdefault(field, rng.choice(([], [{"turn_idx": 0, "role": "user"}], "x", None, {})))
        values.append({**record, "schema_version": rng.choice(LABELS)})
    both = [
        value for value in values if None not in (value.get("interactions"), value.get("messages"))
    ]
    accepted = [
        value for value in both if any(reference.is_valid(value, one) for one in reference.VERSIONS)
    ]
    assert 0 < len(accepted) < len(both)
    _, _, wrong = disagreements(Judge(), iter(values), reference.version_of)
    assert not wrong
    upgrading = Judge(JudgeSettings(target="0.3.0"))
    for value in accepted:
        first = bytearray()
        again = bytearray()
        batch = upgrading.judge_chunk(json.dumps(value).encode(), first)
        assert (len(batch.records), batch.notes["version.other_turns"]) == (1, 1)
        assert reference.is_valid(json.loads(first), "0.3.0")
        assert "messages" in json.loads(first)["metadata"]  # no unknown key is dropped
        upgrading.judge_chunk(bytes(first), again)
        assert first == again
