"""Records of later schema versions: a record is composed in the oldest version, then rewritten for another one.

What a version expects is read from its `Schema`: whether references are arrays, whether unknown keys are allowed at the
root, which fields may be null, what turns are called, and whether one answer can have several metrics. So this module
names no version.

Later versions differ from the oldest one in content, too, as real data does: producers label records with other
versions, compute `sample_hash` by different recipes, and ask the same question in other words. One answer is scored by
several metrics, one record each, and some evaluations ask every question more than once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from fastrec.commands.generate.producers import Producer, Record
from fastrec.commands.generate.records import WRONG_HASH
from fastrec.commands.generate.text import Rng
from fastrec.commands.generate.writer import Question, Writer
from fastrec.schemas.recipes import RECIPES
from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS
from fastrec.schemas.schema import Schema
from fastrec.schemas.shape import Shape

__all__ = [
    "VERSIONS",
    "contradicted",
    "is_later",
    "later_records",
    "rewritten",
    "schema_of",
    "toggled",
    "with_nulls",
]

MIXED: Final = "mixed"
VERSIONS: Final = (*SCHEMAS, MIXED)
"""What `generate` can be asked for: one version, or all of them."""

METRIC: Final = "evaluation_result_id"
SHOTS: Final = "Answer like this.\n\nQuestion: 1 + 1?\nAnswer: 2\n\nQuestion: "


def is_later(schema: str) -> bool:
    """Return whether this is another version than the oldest one."""
    return schema != DEFAULT_SCHEMA.name


def schema_of(version: str, producer: Producer) -> Schema:
    """Return the version that a producer writes. If versions are mixed, each producer has one of them."""
    if version == MIXED:
        return list(SCHEMAS.values())[producer.number % len(SCHEMAS)]
    return SCHEMAS[version]


def later_records(
    rng: Rng, writer: Writer, record: Record, question: Question, schema: Schema, *, epoch: int
) -> Iterator[Record]:
    """Yield one record per metric of the evaluation; all of them are in the form of the oldest version."""
    if question.evaluation.epochs > 1:
        record["metadata"] = {**(record.get("metadata") or {}), "epoch": epoch}
    metrics = question.evaluation.metrics if METRIC in schema.shape.fields else {}
    if not metrics:
        yield record
    for number, (metric, highest) in enumerate(metrics.items()):
        evaluation = dict(record["evaluation"])
        if number:
            score = writer.further_score(rng, evaluation["score"], highest)
            evaluation.update(score=score, is_correct=score >= (highest or 1) / 2)
        yield {**record, METRIC: metric, "evaluation": evaluation}


def contradicted(record: Record) -> Record:
    """Return a record with the same answer and another verdict."""
    correct = not record["evaluation"]["is_correct"]
    return {**record, "evaluation": {**record["evaluation"], "score": int(correct), "is_correct": correct}}


def rewritten(record: Record, question: Question, producer: Producer, schema: Schema) -> Record:
    """Return the record in another version, as this producer would write it; it may share values with the record."""
    result: Record = dict(record)
    result["schema_version"] = _label(record, producer, schema)
    result["input"] = _input(record["input"], question, producer)
    result["answer_attribution"] = [
        {**found, "source": found["source"].replace(DEFAULT_SCHEMA.turns_field, schema.turns_field)}
        for found in record["answer_attribution"]
    ]
    if record.get("output"):
        output = result["output"] = {**record["output"], "raw": [record["output"]["raw"]]}
        if output.get("reasoning_trace"):
            output["reasoning_trace"] = [output["reasoning_trace"]]
        elif not schema.shape.fields["output"].shape.fields["reasoning_trace"].drops_null:  # type: ignore[union-attr]
            output.pop("reasoning_trace", None)
    if DEFAULT_SCHEMA.turns_field in record:
        turns = result.pop(DEFAULT_SCHEMA.turns_field)
        result[schema.turns_field] = turns and [_turn(turn, schema) for turn in turns]
    if schema.closed:
        _close(result, schema)
    if "sample_hash" in record and record["sample_hash"] != WRONG_HASH:
        result["sample_hash"] = _hash(producer, result["input"])
    return with_nulls(result, schema) if "nulls" in producer.habits else _arranged(result, schema.shape)


def with_nulls(record: Record, schema: Schema) -> Record:
    """Return the record with null for every absent field that may be null, as many producers write it."""
    return _arranged(record, schema.shape, nulls=True)


def toggled(record: Record, schema: Schema) -> Record:
    """Return a record with the same normal form: all nulls are left out, or if there are none, written."""
    without = _without_nulls(record, schema.shape)
    copy = without if without != record else with_nulls(record, schema)
    first, *others = record["answer_attribution"]
    copy["answer_attribution"] = [{**first, "turn_idx": float(first["turn_idx"])}, *others]
    return copy


def _label(record: Record, producer: Producer, schema: Schema) -> str:
    if record["schema_version"] != DEFAULT_SCHEMA.label:
        return str(record["schema_version"])  # it is wrong on purpose
    labels = sorted(schema.labels)
    if "wrong labels" in producer.habits:
        labels = sorted({label for other in SCHEMAS.values() for label in other.labels} - schema.labels)
    return labels[producer.number % len(labels)]


def _input(asked: Record, question: Question, producer: Producer) -> Record:
    """Ask the question as this producer asks it, with a list of references."""
    result = dict(asked)
    references = [question.reference]
    if question.also:
        references.append(question.also)
    elif question.evaluation.world and len(question.raw) % 3 == 0:
        references = []
    if "few-shot prompts" in producer.habits:
        result["raw"] = SHOTS + question.raw + "\nAnswer:"
    elif "trailing white space" in producer.habits:
        result["raw"] = question.raw + "\n"
    if question.choices and "indexed references" in producer.habits:
        references = [str("ABCD".index(question.reference))]
    result["reference"] = references
    return result


def _hash(producer: Producer, asked: Record) -> str:
    text = list(RECIPES.values())[producer.number % len(RECIPES)](asked["raw"], asked["reference"])
    return sha256(text).hexdigest()


def _turn(turn: Record, schema: Schema) -> Record:
    result = dict(turn)
    if schema.closed:
        if isinstance(turn.get("tool_call_id"), str):
            result["tool_call_id"] = [turn["tool_call_id"]]
        if turn.get("tool_calls"):
            result["tool_calls"] = [
                {**call, "arguments": _texts(call["arguments"])} if "arguments" in call else call
                for call in turn["tool_calls"]
            ]
    return result


def _close(record: Record, schema: Schema) -> None:
    """Make a record fit a version that allows no unknown keys at the root, and only text in `metadata`."""
    record["sample_id"] = str(record["sample_id"])
    if isinstance(record["evaluation"]["score"], bool):
        record["evaluation"] = {**record["evaluation"], "score": float(record["evaluation"]["score"])}
    unknown = {key: record.pop(key) for key in list(record) if key not in schema.shape.fields}
    if unknown or record.get("metadata"):
        record["metadata"] = _texts({**unknown, **record.get("metadata", {})})


def _texts(values: Record) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}


def _arranged(value: Record, shape: Shape, *, nulls: bool = False) -> Record:
    """Put known keys into the order of the schema, and unknown ones after them; write absent fields as null."""
    result: Record = {}
    for key, field in shape.fields.items():
        if key in value:
            child = value[key]
            if field.shape and isinstance(child, list):
                child = [_arranged(item, field.shape, nulls=nulls) for item in child]
            elif field.shape and child is not None:
                child = _arranged(child, field.shape, nulls=nulls)
            result[key] = child
        elif nulls and field.drops_null:
            result[key] = None
    return {**result, **{key: child for key, child in value.items() if key not in result}}


def _without_nulls(value: Any, shape: Shape | None) -> Any:
    if shape is None or value is None:
        return value
    if isinstance(value, list):
        return [_without_nulls(item, shape) for item in value]
    fields = shape.fields
    return {
        key: _without_nulls(child, fields[key].shape) if key in fields else child
        for key, child in value.items()
        if child is not None or key not in fields or not fields[key].drops_null
    }
