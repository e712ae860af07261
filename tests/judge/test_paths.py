"""Both paths of the judge agree: on the version of a line, its verdict, its normal form, and all
that is counted.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.judge.batch import Batch
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from tests import reference
from tests.judge.test_oracle import LABELS, random_mutations, spelled
from tests.samples import sample_of
from tests.sizes import examples
from tests.strategies import dice

OPTIONS: dict[str, dict[str, Any]] = {
    "own version": {},
    "to the newest version": {"target": NEWEST_SCHEMA.name},
    "to the default version": {"target": DEFAULT_SCHEMA.name},
    "verify hashes": {"sample_hash": "verify", "target": NEWEST_SCHEMA.name},
    "keep hashes": {"sample_hash": "fill"},
}


def mixed_records(rng: random.Random, most: int) -> list[dict[str, Any]]:
    """Return records of all versions in any order: some mutated, some with lying labels, right
    hashes or odd keys.
    """
    streams = {
        version: random_mutations(rng.randrange(1 << 32), version) for version in reference.VERSIONS
    }
    records = []
    version = "0.2.0"
    for _ in range(most):
        if rng.random() < 0.5:
            version = rng.choice(reference.VERSIONS)
        kind = rng.choice(["single_turn", "multi_turn", "agentic"])
        record = next(streams[version]) if rng.random() < 0.4 else sample_of(version, kind)
        if rng.random() < 0.3:
            record["schema_version"] = rng.choice(LABELS)
        if rng.random() < 0.3:
            key = rng.choice(
                ["zz", "messages", "interactions", "evaluation_result_id", "metadata", "a b"]
            )
            record[key] = rng.choice([None, "x", 1, {}, {"a": "b"}, {"a": 1}])
        if rng.random() < 0.3:
            record["sample_hash"] = rng.choice([None, "00", _digest(record, version)])
        if rng.random() < 0.3:
            record.pop("sample_hash", None)
        if rng.random() < 0.1 and isinstance(record.get("performance"), dict):
            record["performance"]["price: $"] = None
        records.append(record)
    return records


def _digest(record: dict[str, Any], version: str) -> Any:
    try:
        return reference.sample_hash(record, version)
    except (KeyError, TypeError, AttributeError):
        return "none"


def judge_slowly(lines: list[bytes], **options: Any) -> tuple[Batch, bytes]:
    """Judge lines by the slow path alone."""
    batch = Batch()
    out = bytearray()
    for number, line in enumerate(lines, 1):
        Judge(JudgeSettings(warnings=True, **options))._judge_slow(line, out, batch, number, 0)
    return batch, bytes(out)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@given(dice)
@settings(max_examples=examples(2, 32))
def test_both_paths_agree_on_every_line_of_mixed_versions(
    options: dict[str, Any], rng: random.Random
) -> None:
    """What a judge has seen before changes nothing: neither line by line, nor in one chunk, nor the
    second time.
    """
    records = mixed_records(rng, 25)
    lines = [spelled(record, rng) for record in records]
    subject = Judge(JudgeSettings(warnings=True, **options))
    for line in lines:
        out = bytearray()
        assert counted(subject.judge_chunk(line, out), bytes(out)) == counted(
            *judge_slowly([line], **options)
        ), line
    for _ in range(2):
        out = bytearray()
        batch = subject.judge_chunk(b"\n".join(lines), out)
        assert counted(batch, bytes(out)) == counted(*judge_slowly(lines, **options))


def counted(batch: Batch, out: bytes) -> dict[str, Any]:
    """Return what a batch says about its lines, whichever path they took."""
    return {
        "normal forms": out,
        "ends": batch.ends,
        "numbers": batch.numbers,
        "versions": +batch.versions,
        "notes": +batch.notes,
        "recipes": batch.count_recipes(Counter()),
        "replaced": batch.replaced,
        "warnings": batch.warnings,
        "rejected": [
            (invalid.line, invalid.version, invalid.findings, invalid.raw)
            for invalid in batch.rejected
        ],
        "records": [record.sample_id for record in batch.records],
    }


@given(dice)
@settings(max_examples=examples(3, 40))
def test_a_line_has_the_version_of_the_reference_whatever_came_before(rng: random.Random) -> None:
    """Line by line, with one judge: the version is that of an independent implementation."""
    subject = Judge()
    for record in mixed_records(rng, 25):
        batch = subject.judge_chunk(json.dumps(record).encode(), bytearray())
        expected = reference.version_of(record)
        assert +batch.versions == ({expected: 1} if expected else {}), record


def test_a_repeated_shape_takes_the_fast_path() -> None:
    """Whatever its version and label are, at most the first lines of a shard take the slow path."""
    nulls = {"sample_hash": None, "metadata": None}
    shapes = [
        *(
            sample_of(each, kind)
            for each in reference.VERSIONS
            for kind in ("single_turn", "agentic")
        ),
        # Without performance: before 0.2.1, `additional_details` are an unknown key that only the
        # slow path upgrades.
        *(
            sample_of(each, schema_version=label, performance={})
            for each in reference.VERSIONS
            for label in LABELS
        ),
        *(
            sample_of(each, "agentic", schema_version=label)
            for each in reference.VERSIONS
            for label in LABELS
        ),
        sample_of("0.2.0-released", schema_version="0.2.2", metadata={"n": 1}),
        sample_of("0.2.0-released", schema_version="0.2.2", zz=1),
        sample_of("0.2.0", evaluation_result_id="x", zz=1),
        *(sample_of("0.2.1", schema_version=label, **nulls) for label in LABELS),
    ]
    for record in shapes:
        for options in ({}, {"target": NEWEST_SCHEMA.name}):
            batch = Judge(JudgeSettings(**options)).judge_chunk(
                b"\n".join([json.dumps(record).encode()] * 5), bytearray()
            )
            assert len(batch.records) == 5
            assert batch.slow <= 1, record


def test_a_duplicate_key_is_seen_in_an_upgraded_record() -> None:
    """The upgrade changes the number of colons; a dropped key is noticed all the same."""
    for version in reference.VERSIONS:
        line = json.dumps(sample_of(version)).encode()
        twice = line[:-1] + b',"error":"once more"}'
        for options in ({}, {"target": NEWEST_SCHEMA.name}):
            batch = Judge(JudgeSettings(**options)).judge_chunk(
                b"\n".join([line, twice, line]), bytearray()
            )
            assert len(batch.records) == 2
            assert [(invalid.line, invalid.findings[0].code) for invalid in batch.rejected] == [
                (2, "json.duplicate_key")
            ]


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 3), max_size=6))
def test_recipes_are_counted_by_evaluation_and_model(values: list[tuple[str, str, str]]) -> None:
    """Also if all records of a chunk have the same ones, which is counted at once."""
    batch = Batch()
    for evaluation, model, recipe in values:
        batch.records.append(SimpleNamespace(evaluation_name=evaluation, model_id=model))
        batch.recipe_names.append(recipe)
    assert batch.count_recipes(Counter()) == Counter(values)
