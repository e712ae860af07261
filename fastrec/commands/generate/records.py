"""Valid records: a model's answer to a question, as an output, a conversation or an agent's turns.

1. `compose` builds a record of the oldest schema version, with its fields in the order of the
   schema. The only possible warning is a wrong `sample_hash` now and then. Callers may change a
   record, except for `input.choices` and the values in `metadata`, which records share.
2. Variations are still valid: unknown keys, duplicates, conflicts.
3. An `Answer` writes a record, in a later version too, or variations of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from fastrec.commands.generate.evaluation import ERRORS, Writer, with_trial
from fastrec.commands.generate.producers import Producer, Question, Record, Reply, respelling
from fastrec.commands.generate.text import Rng
from fastrec.schemas.hashes import RECIPES
from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS
from fastrec.schemas.schema import Schema, Shape
from fastrec.schemas.upgrade import without_nulls

_WRONG_HASH = "0123456789abcdef" * 4
_TEMPLATE = "<|system|>\nThink first.\n<|user|>\n{}\n<|assistant|>\n"


def compose(rng: Rng, writer: Writer, producer: Producer, question: Question) -> Record:
    habits = producer.habits
    evaluation = question.evaluation
    record: Record = {
        "schema_version": DEFAULT_SCHEMA.label,
        "evaluation_id": f"{evaluation.name}/{producer.run}",
        "model_id": producer.model_id,
        "evaluation_name": evaluation.name,
        "sample_id": question.sample_id,
    }
    if "hashes" in habits:
        record["sample_hash"] = _WRONG_HASH if rng.chance(0.002) else question.sample_hash
    record["interaction_type"] = evaluation.interaction_type
    record["input"] = asked = {"raw": question.raw}
    if "templates" in habits:
        asked["formatted"] = _TEMPLATE.format(question.raw)
    asked["reference"] = question.reference
    if question.choices is not None:
        record["input"]["choices"] = question.choices
    reply = writer.reply(rng, producer, question)
    turns = _add_answer(producer, reply, record)
    _add_verdict(producer, question, reply, turns, record)
    _add_measures(rng, producer, reply, record)
    if "metadata" in habits:
        record["metadata"] = with_trial(rng, question)
    return record


def _add_answer(producer: Producer, reply: Reply, record: Record) -> list[Record]:
    """Add `output`, or `interactions`, the last of which is the answer; return the turns."""
    nulls = "nulls" in producer.habits
    is_single = record["interaction_type"] == "single_turn"
    key = "raw" if is_single else "content"
    answer: Record = {} if is_single else {"role": "assistant"}
    answer[key] = reply.text
    if reply.reasoning is not None or nulls:
        answer["reasoning_trace"] = reply.reasoning
    if reply.reasoning is None and nulls and not is_single:
        answer["tool_calls"] = None
    turns: list[Record] = []
    if not is_single:
        turns = [{"turn_idx": number, **turn} for number, turn in enumerate([*reply.turns, answer])]
    if is_single or nulls:
        record["output"] = answer if is_single else None
    if turns or nulls:
        record["interactions"] = turns or None
    return turns


def _add_verdict(
    producer: Producer, question: Question, reply: Reply, turns: list[Record], record: Record
) -> None:
    """Add where the answer comes from, and its score."""
    turn_idx = max(len(turns) - 1, 0)
    attribution = {
        "turn_idx": turn_idx,
        "source": f"interactions[{turn_idx}].content" if turn_idx else "output.raw",
        "extracted_value": reply.extracted,
        "extraction_method": question.evaluation.method,
        "is_terminal": True,
    }
    record["answer_attribution"] = [attribution]
    score = reply.score if question.evaluation.graded else producer.score(bool(reply.score))
    record["evaluation"] = {"score": score, "is_correct": score >= 0.5}
    if turns:
        calls = sum(len(turn.get("tool_calls") or ()) for turn in turns)
        record["evaluation"] |= {"num_turns": len(turns), "tool_calls_count": calls}


def _add_measures(rng: Rng, producer: Producer, reply: Reply, record: Record) -> None:
    """Add token counts, times and an occasional error."""
    habits = producer.habits
    measures: Record = {"token_usage": None, "performance": None, "error": reply.error}
    if "tokens" in habits and not rng.chance(0.02):
        # Some harnesses store counts as floats; draft-07 accepts 1.0 as an integer.
        number = float if rng.chance(0.005) else int
        read, written, _ = reply.usage or (rng.between(50, 4000), rng.between(1, 3000), 0)
        usage: Record = {
            "input_tokens": number(read),
            "output_tokens": number(written),
            "total_tokens": number(read + written),
        }
        if "cached tokens" in habits:
            cached = rng.below(read) if rng.chance(0.7) else None
            thought = rng.below(written) if "reasoning" in habits else None
            usage |= {"input_tokens_cache_write": cached, "input_tokens_cache_read": 0}
            usage["reasoning_tokens"] = thought
        measures["token_usage"] = usage
    if "latency" in habits and not rng.chance(0.02):
        latency = reply.usage[2] if reply.usage else round(rng.random() * 20_000, 3)
        measures["performance"] = {
            "latency_ms": latency,
            "time_to_first_token_ms": None if "nulls" in habits else round(latency / 16, 2),
            "generation_time_ms": int(latency),
        }
    if reply.usage is None and rng.chance(0.02):
        measures["error"] = rng.choice(ERRORS)
    for key, value in measures.items():
        if value is not None or "nulls" in habits:
            record[key] = value


# Variations. `add_unknown_keys` changes a record in place. The others return a second record and
# leave the first one unchanged.

# The last two sort differently by code point and by UTF-16 unit.
_UNKNOWN_KEYS = (
    "harness",
    "Zone",
    "_private",
    "a b",
    "",
    "ключ",
    "raw_score",
    "\uff5a",
    "😀",
)
_METRICS: tuple[Any, ...] = (
    {"num_turns": 1},
    {"num_turns": "many", "b": 1, "a": 2},
    [],
    None,
    0.25,
)
_NULLABLE = ("output", "interactions", "token_usage", "performance", "error")
# Never matches inside a string, where quotes are escaped.
_HALF = re.compile(rb'("score": ?)0\.5(?=[,}])')


def add_unknown_keys(rng: Rng, record: Record) -> None:
    """Add keys that the schema does not name to one to three objects of the record."""
    objects = [record, record["input"], record["evaluation"], record["answer_attribution"][0]]
    objects += [record[key] for key in ("output", "token_usage", "performance") if record.get(key)]
    for turn in (record.get("interactions") or ())[:6]:
        objects += [turn, *(turn.get("tool_calls") or ())]
    for _ in range(rng.between(1, 3)):
        rng.choice(objects)[rng.choice(_UNKNOWN_KEYS)] = _any_value(rng, 3)
    if rng.chance(0.02):
        record['quote"d'] = _any_value(rng, 1)
    if rng.chance(0.2):  # the one unknown key that the schema has a rule for
        record["metrics"] = rng.choice(_METRICS)


def _any_value(rng: Rng, depth: int) -> Any:
    kind = rng.below(9 if depth else 7)
    if kind == 7:
        return [_any_value(rng, depth - 1) for _ in range(rng.below(4))]
    if kind == 8:
        count = rng.between(1, 4)
        return {rng.choice(_UNKNOWN_KEYS): _any_value(rng, depth - 1) for _ in range(count)}
    whole = rng.bits(80)
    small = -rng.below(100)
    share = round(rng.random(), 4)
    return (None, True, whole, small, share, 1.0, f"“{rng.bits(32):x}”")[kind]


def _respelled(answer: Answer) -> Record:
    """Make a record with the same normal form: with or without nulls and a hash."""
    record = answer.record
    sample_hash = answer.question.sample_hash
    copy = {
        key: value for key, value in record.items() if value is not None or key not in _NULLABLE
    }
    if len(copy) == len(record):
        copy |= {key: None for key in _NULLABLE if key not in record}
    if "sample_hash" not in copy:
        copy["sample_hash"] = sample_hash
    elif copy["sample_hash"] == sample_hash:
        del copy["sample_hash"]
    return copy


def _toggled(answer: Answer) -> Record:
    """Make a record with the same normal form: without nulls, or if there are none, with them."""
    record = answer.written()
    shape = answer.schema.shape
    without = without_nulls(record, shape)
    return without if without != record else arranged(record, shape, nulls=True)


def _answered_again(rng: Rng, writer: Writer, record: Record, question: Question) -> Record:
    """Make a record with the same identity and another answer: a conflict."""
    correct = not record["evaluation"]["is_correct"]
    answer, changes = writer.another_answer(rng, question, correct=correct)
    copy = {**record, **changes}
    if record["interaction_type"] == "single_turn":
        copy["output"] = {**record["output"], "raw": answer}
    else:
        *turns, last = record["interactions"]
        copy["interactions"] = [*turns, {**last, "content": answer}]
    return _contradicted(copy, bool)


def _contradicted(record: Record, score: Callable[[bool], float] = int) -> Record:
    """Make a record with the same answer and another verdict."""
    correct = not record["evaluation"]["is_correct"]
    verdict = {**record["evaluation"], "score": score(correct), "is_correct": correct}
    return {**record, "evaluation": verdict}


# Records of later schema versions. What a version expects is read from its `Schema`: whether
# references are arrays, whether unknown keys are allowed at the root, which fields may be null,
# what turns are called, and whether one answer can have several metrics. So this module names no
# version.
#
# Later versions differ from the oldest one in content, too, as real data does: producers label
# records with other versions, compute `sample_hash` by different recipes, and ask the same question
# in other words. One answer is scored by several metrics, one record each, and some evaluations ask
# every question more than once.

# What `generate` can be asked for: one version, or all of them.
VERSIONS = (*SCHEMAS, "mixed")

_METRIC = "evaluation_result_id"
_SHOTS = "Answer like this.\n\nQuestion: 1 + 1?\nAnswer: 2\n\nQuestion: {}\nAnswer:"


class Answer(msgspec.Struct, frozen=True):
    """A record as composed, in the oldest version, with what is needed to write it."""

    record: Record
    question: Question
    author: Producer
    schema: Schema

    @property
    def is_later(self) -> bool:
        return self.schema is not DEFAULT_SCHEMA

    def written(self) -> Record:
        return _rewritten(self) if self.is_later else self.record

    def line(self) -> bytes:
        return self.author.spelling.line(self.written())

    def respelled(self, rng: Rng) -> bytes:
        """Another line with the same normal form, with `1.0` for `1` and `5E-1` for `0.5`."""
        record = _toggled(self) if self.is_later else _respelled(self)
        first, *others = record["answer_attribution"]
        first = {**first, "turn_idx": float(first["turn_idx"])}
        line = respelling(rng).line({**record, "answer_attribution": [first, *others]})
        return _HALF.sub(rb"\g<1>5E-1", line)

    def conflict(self, rng: Rng, writer: Writer) -> Answer:
        """Another answer with the same identity, or in later versions, another verdict."""
        if self.is_later and rng.chance(0.5):
            return replace(self, record=_contradicted(self.record))
        return replace(self, record=_answered_again(rng, writer, self.record, self.question))

    def records(self, rng: Rng, writer: Writer) -> Iterator[Answer]:
        """Yield its records: in a later version one per metric and epoch."""
        evaluation = self.question.evaluation
        epochs = evaluation.epochs if self.is_later else 1
        metrics = evaluation.metrics if _METRIC in self.schema.shape.fields else {}
        record = self.record
        for epoch in range(1, epochs + 1):
            if epoch > 1:
                record = compose(rng, writer, self.author, self.question)
            if epochs > 1:
                record["metadata"] = {**(record.get("metadata") or {}), "epoch": epoch}
            if not metrics:
                yield replace(self, record=record)
            for number, (metric, highest) in enumerate(metrics.items()):
                verdict = dict(record["evaluation"])
                if number:
                    score = writer.further_score(rng, verdict["score"], highest)
                    verdict |= {"score": score, "is_correct": score >= (highest or 1) / 2}
                yield replace(self, record={**record, _METRIC: metric, "evaluation": verdict})


def new_answer(
    rng: Rng, writer: Writer, producer: Producer, question: Question, version: str
) -> Answer:
    """Compose an answer in the version that a producer writes.

    If versions are mixed, each producer has one of them.
    """
    schemas = list(SCHEMAS.values()) if version == "mixed" else [SCHEMAS[version]]
    schema = schemas[producer.number % len(schemas)]
    return Answer(compose(rng, writer, producer, question), question, producer, schema)


def _rewritten(answer: Answer) -> Record:
    """Rewrite a record in another version, as its producer would.

    The result may share values with the record.
    """
    record = answer.record
    schema = answer.schema
    result: Record = dict(record)
    result["schema_version"] = _label(answer)
    result["input"] = _later_input(answer)
    (attribution,) = record["answer_attribution"]
    source = attribution["source"].replace(DEFAULT_SCHEMA.turns_field, schema.turns_field)
    result["answer_attribution"] = [{**attribution, "source": source}]
    if record.get("output"):
        output = result["output"] = {**record["output"], "raw": [record["output"]["raw"]]}
        if output.get("reasoning_trace"):
            output["reasoning_trace"] = [output["reasoning_trace"]]
        elif not schema.shape.fields["output"].shape.fields["reasoning_trace"].drops_null:  # type: ignore[union-attr]
            output.pop("reasoning_trace", None)
    if DEFAULT_SCHEMA.turns_field in record:
        turns = result.pop(DEFAULT_SCHEMA.turns_field)
        if turns and schema.closed:
            turns = [_closed_turn(turn) for turn in turns]
        result[schema.turns_field] = turns
    if schema.closed:
        _close(result, schema)
    number = answer.author.number
    if record.get("sample_hash", _WRONG_HASH) != _WRONG_HASH:
        recipe = list(RECIPES.values())[number % len(RECIPES)]
        text = recipe(result["input"]["raw"], result["input"]["reference"])
        result["sample_hash"] = sha256(text).hexdigest()
    arranged_result: Record = arranged(result, schema.shape, nulls="nulls" in answer.author.habits)
    return arranged_result


def _label(answer: Answer) -> str:
    given: str = answer.record["schema_version"]
    if given != DEFAULT_SCHEMA.label:
        return given  # it is wrong on purpose
    labels = set(answer.schema.labels)
    if "wrong labels" in answer.author.habits:
        labels = set().union(*(schema.labels for schema in SCHEMAS.values())) - labels
    return sorted(labels)[answer.author.number % len(labels)]


def _later_input(answer: Answer) -> Record:
    """Ask the question as this producer does, with a list of references."""
    question = answer.question
    habits = answer.author.habits
    result = dict(answer.record["input"])
    references = [question.reference]
    if question.also:
        references.append(question.also)
    elif question.evaluation.world and len(question.raw) % 3 == 0:
        references = []
    if "few-shot prompts" in habits:
        result["raw"] = _SHOTS.format(question.raw)
    elif "trailing white space" in habits:
        result["raw"] += "\n"
    if question.choices and "indexed references" in habits:
        references = [str("ABCD".index(question.reference))]
    result["reference"] = references
    return result


def _closed_turn(turn: Record) -> Record:
    result = dict(turn)
    if isinstance(turn.get("tool_call_id"), str):
        result["tool_call_id"] = [turn["tool_call_id"]]
    if turn.get("tool_calls"):
        result["tool_calls"] = [
            {**call, "arguments": _texts(call["arguments"])} if "arguments" in call else call
            for call in turn["tool_calls"]
        ]
    return result


def _close(record: Record, schema: Schema) -> None:
    """Make a record fit a version without unknown keys, and with only text in `metadata`."""
    record["sample_id"] = str(record["sample_id"])
    score = record["evaluation"]["score"]
    if isinstance(score, bool):
        record["evaluation"] = {**record["evaluation"], "score": float(score)}
    unknown = {key: record.pop(key) for key in list(record) if key not in schema.shape.fields}
    if unknown or record.get("metadata"):
        record["metadata"] = _texts({**unknown, **record.get("metadata", {})})


def _texts(values: Record) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }


def arranged(value: Any, shape: Shape, *, nulls: bool) -> Any:
    """Put known keys into the order of the schema, unknown ones after them.

    `nulls` writes absent fields as null.
    """
    if isinstance(value, list):
        return [arranged(item, shape, nulls=nulls) for item in value]
    if value is None:
        return None
    result: Record = {}
    for key, field in shape.fields.items():
        if key in value and field.shape:
            result[key] = arranged(value[key], field.shape, nulls=nulls)
        elif key in value or (nulls and field.drops_null):
            result[key] = value.get(key)
    return result | {key: child for key, child in value.items() if key not in result}
