"""What a line costs is bounded by its size, and what is kept of its errors by a constant."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import jsonschema
import pytest

from fastrec.judge.arbiter import errors_of
from fastrec.judge.batch import Batch
from fastrec.judge.findings import (
    MOST_ERRORS,
    NO_VALUE,
    Errors,
    Finding,
    InvalidRecordError,
    first_errors,
    json_path,
)
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, SCHEMAS
from fastrec.schemas.schema import Schema
from fastrec.schemas.widen import LearningDecoder
from tests.judge.growth import KINDS, hostile
from tests.judge.helpers import judge
from tests.judge.test_oracle import random_mutations
from tests.sizes import LONG, examples
from tests.timing import grows_linearly, processor_seconds

MEMORY_FACTOR = (
    100  # bytes of memory per byte of a line; JSON as Python objects alone takes up to 50
)
LINE_FACTOR = (
    300  # the same for lines of one or two bytes, each of which is an object with several fields
)
LINES = {"short invalid lines", "short lines without JSON"}
MEMORY = """
import gc, sys
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from tests.judge.growth import KINDS, hostile

def peak():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))

gc.disable()  # as in a task
for kind in KINDS:
    lines = hostile(kind, 5_000 if kind in sys.argv[2:] else int(sys.argv[1]))
    for data in (hostile(kind, 1000), lines):
        open("/proc/self/clear_refs", "w").write("5")  # start the peak again
        before = peak()
        Judge(JudgeSettings(warnings=True)).judge_chunk(data, bytearray())
    print(kind, (peak() - before) / len(lines), sep="\\t")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to measure memory")
def test_memory_grows_with_the_size_of_a_line_by_a_small_factor() -> None:
    """No long line takes more than a hundred times its size.

    For a list of all errors it was a thousand.
    """
    run = [sys.executable, "-c", MEMORY, str(examples(40_000, 80_000)), *LINES]
    out = subprocess.run(
        run, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    ).stdout
    factors = {
        kind: float(factor) for kind, factor in (line.split("\t") for line in out.splitlines())
    }
    assert factors.keys() == KINDS.keys()
    allowed = {kind: LINE_FACTOR if kind in LINES else MEMORY_FACTOR for kind in KINDS}
    assert {kind: factor for kind, factor in factors.items() if factor > allowed[kind]} == {}


def judge_kind(kind: str, size: int, schema: str | None = None) -> Batch:
    settings = (
        JudgeSettings(warnings=True)
        if schema is None
        else JudgeSettings(schema=schema, warnings=True)
    )
    return Judge(settings).judge_chunk(_hostile(kind, size), bytearray())


_hostile = cache(hostile)


@pytest.mark.parametrize("kind", KINDS)
def test_time_grows_linearly(kind: str) -> None:
    """Eight times as much text takes about eight times as long."""
    assert grows_linearly(
        partial(judge_kind, kind), 400 if kind in LINES else examples(2_000, 5_000)
    )


def test_a_line_lists_a_hundred_errors_and_counts_the_others() -> None:
    """The listed errors are the first ones; the counts by code add up to all errors."""
    batch, _ = judge(hostile("empty turns", 30_000))
    (invalid,) = batch.rejected
    assert len(invalid.findings) == MOST_ERRORS
    assert {finding.code for finding in invalid.findings} == {"schema.required"}
    assert {"$.interactions[0].role", "$.interactions[49].turn_idx"} <= {
        finding.path for finding in invalid.findings
    }
    assert invalid.unlisted == {"schema.required": 2 * 10_001 - MOST_ERRORS}


def test_the_most_fundamental_error_is_listed_first_however_many_come_before() -> None:
    """A line counts under its first code, so it must not depend on where in the line the error is."""
    turns = (
        b'[{"role":0},'
        + hostile("empty turns", 3_000).partition(b'"interactions":[')[2].partition(b"]")[0]
        + b"]"
    )
    line = (
        json.dumps({"interactions": "@"}).encode().replace(b'"@"', turns)[:-1]
        + b',"metadata":{"a":1,"a":1}}'
    )
    (invalid,) = judge(line)[0].rejected
    assert [finding.code for finding in invalid.findings[:3]] == [
        "json.duplicate_key",
        "schema.type",
        "schema.required",
    ]
    assert len(invalid.findings) == MOST_ERRORS


def test_errors_beyond_the_limit_are_counted_by_code() -> None:
    """Errors that are cut from the list count like those that were never kept."""
    reports = [
        (code, ["a", n], "wrong", NO_VALUE)
        for n in range(5)
        for code in ("schema.enum", "schema.type")
    ]
    found = first_errors(reports, most=3)
    assert found == Errors(
        tuple(Finding("schema.type", f"$.a[{n}]", "wrong") for n in range(3)),
        {"schema.type": 2, "schema.enum": 5},
    )
    error = InvalidRecordError(found.findings[:1], unlisted=found.unlisted)
    assert (
        str(error)
        == "$.a[0]: wrong [schema.type]; and 2 more [schema.type]; and 5 more [schema.enum]"
    )


def test_long_keys_and_paths_are_shortened() -> None:
    """A path has at most a few hundred characters, so that a hundred findings stay small."""
    assert json_path(["k" * 100_000, 3]) == '$["kkkkkkkkkkkkkkkkkkkk…"][3]'
    deep = json_path(["level"] * 250 + ["last"])
    assert (len(deep), deep[:8], deep[-5:]) == (241, "$.level.", ".last")
    assert json_path(["k" * 100_000], whole=True) == "$." + "k" * 100_000


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_the_explained_errors_are_those_of_an_independent_validator(schema: Schema) -> None:
    """Same paths, same keywords; and draft-07 refuses a value exactly if there is an error."""
    document = dict(schema.document)
    del document["allOf"]  # rules have codes of their own
    oracle = jsonschema.Draft7Validator(document)
    streams = [random_mutations(3, name) for name in SCHEMAS]
    values = [next(stream) for _ in range(examples(40, 100)) for stream in streams]
    for value in values:
        expected = sorted(pair for error in oracle.iter_errors(value) for pair in _errors_of(error))
        found = [(json_path(steps), code) for code, steps, _, _ in errors_of(value, schema)]
        assert sorted(error for error in found if not error[1].startswith("rule.")) == expected


def _errors_of(error: jsonschema.ValidationError) -> list[tuple[str, str]]:
    """Return the paths and codes of an error of the other validator, which has one for all unknown
    keys together.
    """
    keys: list[list[str]] = [[]]
    if error.validator == "required":
        keys = [[error.message.split("'")[1]]]
    elif error.validator == "additionalProperties":
        keys = [[key] for key in error.instance if key not in error.schema["properties"]]
    code = {"oneOf": "one_of", "additionalProperties": "unknown_key"}.get(
        str(error.validator), str(error.validator)
    )
    return [(json_path([*error.absolute_path, *key]), f"schema.{code}") for key in keys]


@pytest.mark.parametrize(
    ("kind", "code", "size"),
    [
        ("unknown keys of a closed root", "schema.unknown_key", 12),
        ("numbers for texts in metadata", "schema.type", 10),
        ("objects for texts in arguments", "schema.type", 23),
    ],
)
def test_many_errors_of_a_closed_object_are_counted_in_linear_time(
    kind: str, code: str, size: int
) -> None:
    """One line with many unknown keys or wrong values lists a hundred errors and counts the others."""
    errors = examples(10_000, 200_000)
    (invalid,) = judge(hostile(kind, errors * size))[0].rejected
    assert grows_linearly(partial(judge_kind, kind), errors * size // 8)
    assert invalid.version == NEWEST_SCHEMA.name
    assert len(invalid.findings) == MOST_ERRORS
    assert {finding.code for finding in invalid.findings} == invalid.unlisted.keys() == {code}
    assert invalid.unlisted[code] > errors * 0.95


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_version_bounds_the_time_of_a_line(schema: str) -> None:
    """Judged by one version alone, no hostile line takes much longer than when its version is told
    by its shape.

    `make test` tries each kind of line with one version, `make test-long` with all.
    """
    versions = list(SCHEMAS)
    kinds = [
        kind
        for number, kind in enumerate(KINDS)
        if LONG or versions[number % len(versions)] == schema
    ]
    assert kinds
    for kind in kinds:
        batch = judge_kind(kind, 2_000, schema)
        limit = 15 * processor_seconds(partial(judge_kind, kind, 2_000), attempts=1)
        judging = partial(judge_kind, kind, 2_000, schema)
        assert any(processor_seconds(judging, attempts=1) < limit for _ in range(3)), kind
        assert batch.lines == len(batch.records) + len(batch.rejected) + batch.blank


def test_judging_leaves_nothing_for_the_collector() -> None:
    """Tasks switch the collector off, so a cycle for each invalid line would fill the memory."""
    subject = Judge(JudgeSettings(warnings=True))
    lines = b"\n".join([b"x", b"{}", b'{"a":1e999,"a":0}', hostile("integral floats", 500)] * 50)
    subject.judge_chunk(lines, bytearray())
    while gc.collect():  # what earlier tests left may need several rounds
        pass
    gc.disable()
    try:
        subject.judge_chunk(lines, bytearray())
        assert gc.collect() < 20
    finally:
        gc.enable()


def test_unknown_keys_of_every_line_are_not_remembered() -> None:
    """A decoder that has learned enough keys, or waits, holds no more keys than it can learn."""
    decoder = LearningDecoder(DEFAULT_SCHEMA.record)
    for number in range(examples(500, 2_000)):
        decoder.learn({"": {f"key{number}", f"other{number}"}})
    assert len(decoder._seen) <= 256
