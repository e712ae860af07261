"""Valid records: a model's answer to a question, as an output, a conversation or an agent that uses tools.

1. `compose` builds a record of the oldest schema version, with its fields in the order of the
   schema. The only possible warning is a wrong `sample_hash` now and then. Callers may change a
   record, except for `input.choices` and the values in `metadata`, which records share.
2. Variations are still valid: unknown keys, warnings, duplicates, conflicts.
3. An `Answer` writes a record, in a later version too, or variations of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fastrec.commands.generate.evaluation import Writer
from fastrec.commands.generate.producers import Producer, Question, Record, Reply, respelling
from fastrec.commands.generate.text import Rng
from fastrec.schemas.hashes import RECIPES
from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS
from fastrec.schemas.schema import MANY, ONE, Schema, Shape
from fastrec.schemas.upgrade import without_nulls

_WRONG_HASH: Final = "0123456789abcdef" * 4
_HALF: Final = re.compile(
    rb'("score": ?)0\.5(?=[,}])'
)  # never matches inside a string, where quotes are escaped
_ERRORS: Final = (
    "timeout after 60 s",
    "refusal",
    "API error 503: “overloaded”",
    "context length exceeded",
)


def compose(rng: Rng, writer: Writer, producer: Producer, question: Question) -> Record:
    name = question.evaluation.name
    record: Record = {
        "schema_version": DEFAULT_SCHEMA.label,
        "evaluation_id": f"{name}/{producer.run}",
        "model_id": producer.model_id,
        "evaluation_name": name,
        "sample_id": question.sample_id,
    }
    if "hashes" in producer.habits:
        record["sample_hash"] = _WRONG_HASH if rng.chance(0.002) else question.sample_hash
    record["interaction_type"] = question.evaluation.interaction_type
    record["input"] = _input(producer, question)
    reply = writer.reply(rng, producer, question)
    _answer(producer, question, reply, record)
    _measure(rng, producer, reply, record)
    if "metadata" in producer.habits:
        trial = {"seed": rng.bits(40), "temperature": round(rng.random(), 2)}
        record["metadata"] = {**question.metadata, "trial": trial}
    return record


def _input(producer: Producer, question: Question) -> Record:
    asked: Record = {"raw": question.raw}
    if "templates" in producer.habits:
        asked["formatted"] = f"<|system|>\nThink first.\n<|user|>\n{question.raw}\n<|assistant|>\n"
    asked["reference"] = question.reference
    if question.choices is not None:
        asked["choices"] = question.choices
    return asked


def _answer(producer: Producer, question: Question, reply: Reply, record: Record) -> None:
    """Add `output`, or `interactions`, the last of which is the answer.

    The attribution of the answer; the score.
    """
    nulls = "nulls" in producer.habits
    single = record["interaction_type"] == "single_turn"
    given: Record = {"raw": reply.text} if single else {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        given["reasoning_trace"] = reply.reasoning
    elif nulls:
        given |= (
            {"reasoning_trace": None} if single else {"reasoning_trace": None, "tool_calls": None}
        )
    if single or nulls:
        record["output"] = given if single else None
    turns = (
        []
        if single
        else [{"turn_idx": number, **turn} for number, turn in enumerate([*reply.turns, given])]
    )
    if turns or nulls:
        record["interactions"] = turns or None
    turn_idx = max(len(turns) - 1, 0)
    record["answer_attribution"] = [
        {
            "turn_idx": turn_idx,
            "source": f"interactions[{turn_idx}].content" if turn_idx else "output.raw",
            "extracted_value": reply.extracted,
            "extraction_method": question.evaluation.method,
            "is_terminal": True,
        }
    ]
    score = reply.score if question.evaluation.graded else producer.score(bool(reply.score))
    record["evaluation"] = {"score": score, "is_correct": score >= 0.5}
    if turns:
        calls = sum(len(turn.get("tool_calls") or ()) for turn in turns)
        record["evaluation"].update(num_turns=len(turns), tool_calls_count=calls)


def _measure(rng: Rng, producer: Producer, reply: Reply, record: Record) -> None:
    """Add token counts, times and an occasional error."""
    usage: Any = None
    if "tokens" in producer.habits and not rng.chance(0.02):
        # Some harnesses store counts as floats; draft-07 accepts 1.0 as an integer.
        number = float if rng.chance(0.005) else int
        read, written, _ = reply.usage or (rng.between(50, 4000), rng.between(1, 3000), 0)
        usage = {
            "input_tokens": number(read),
            "output_tokens": number(written),
            "total_tokens": number(read + written),
        }
        if "cached tokens" in producer.habits:
            usage["input_tokens_cache_write"] = rng.below(read) if rng.chance(0.7) else None
            usage["input_tokens_cache_read"] = 0
            usage["reasoning_tokens"] = (
                rng.below(written) if "reasoning" in producer.habits else None
            )
    performance: Any = None
    if "latency" in producer.habits and not rng.chance(0.02):
        latency = reply.usage[2] if reply.usage else round(rng.random() * 20_000, 3)
        first_token = None if "nulls" in producer.habits else round(latency / 16, 2)
        performance = {
            "latency_ms": latency,
            "time_to_first_token_ms": first_token,
            "generation_time_ms": int(latency),
        }
    error = reply.error
    if reply.usage is None:
        error = rng.choice(_ERRORS) if rng.chance(0.02) else None
    for key, value in (("token_usage", usage), ("performance", performance), ("error", error)):
        if value is not None or "nulls" in producer.habits:
            record[key] = value


# Variations. `add_unknown_keys` and the rows of `WARNINGS` change a record in place. The others
# return a second record and leave the first one unchanged.

# The last two sort differently by code point and by UTF-16 unit.
_UNKNOWN_KEYS: Final = (
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
_NULLABLE: Final = ("output", "interactions", "token_usage", "performance", "error")
_USAGE: Final = {"input_tokens": 30, "output_tokens": 12, "total_tokens": 43}


def _count_one_more_call(record: Record) -> None:
    record["evaluation"]["tool_calls_count"] += 1


# The interaction types that can have a warning, and the change of a record that causes it.
WARNINGS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Record], object]]]] = {
    "warn.num_turns_missing": (MANY, lambda record: record["evaluation"].pop("num_turns")),
    "warn.num_turns": (
        MANY,
        lambda record: record["evaluation"].update(num_turns=len(record["interactions"]) + 3),
    ),
    "warn.tool_calls_count": (MANY, _count_one_more_call),
    "warn.turn_idx": (
        MANY,
        lambda record: [
            turn.update(turn_idx=turn["turn_idx"] + 1) for turn in record["interactions"]
        ],
    ),
    "warn.attribution_turn": (
        MANY,
        lambda record: record["answer_attribution"][0].update(
            turn_idx=len(record["interactions"]) + 5
        ),
    ),
    "warn.tool_call_id": (
        ("agentic",),
        lambda record: record["interactions"][3].update(tool_call_id="call_nobody"),
    ),
    "warn.total_tokens": (ONE + MANY, lambda record: record.update(token_usage=dict(_USAGE))),
    "warn.sample_hash": (ONE + MANY, lambda record: record.update(sample_hash=_WRONG_HASH)),
    "version.unknown": (ONE + MANY, lambda record: record.update(schema_version="v2")),
    "version.mismatch": (ONE + MANY, lambda record: record.update(schema_version="0.3.0")),
}


def add_unknown_keys(rng: Rng, record: Record) -> None:
    """Add keys that the schema does not name to one to three objects of the record."""
    objects = [record, record["input"], record["evaluation"], record["answer_attribution"][0]]
    objects += [record[key] for key in ("output", "token_usage", "performance") if record.get(key)]
    for turn in (record.get("interactions") or ())[:6]:
        objects.append(turn)
        objects += turn.get("tool_calls") or ()
    for _ in range(rng.between(1, 3)):
        rng.choice(objects)[rng.choice(_UNKNOWN_KEYS)] = _any_value(rng, 3)
    if rng.chance(0.02):
        record['quote"d'] = _any_value(rng, 1)
    if rng.chance(0.2):  # the one unknown key that the schema has a rule for
        record["metrics"] = rng.choice(
            ({"num_turns": 1}, {"num_turns": "many", "b": 1, "a": 2}, [], None, 0.25)
        )


def _any_value(rng: Rng, depth: int) -> Any:
    kind = rng.below(9 if depth else 7)
    if kind == 7:
        return [_any_value(rng, depth - 1) for _ in range(rng.below(4))]
    if kind == 8:
        return {
            rng.choice(_UNKNOWN_KEYS): _any_value(rng, depth - 1) for _ in range(rng.between(1, 4))
        }
    return (
        None,
        True,
        rng.bits(80),
        -rng.below(100),
        round(rng.random(), 4),
        1.0,
        f"“{rng.bits(32):x}”",
    )[kind]


def _respelled(record: Record, question: Question) -> Record:
    """Make a record with the same normal form: with or without nulls and a hash, and `1.0` for `1`."""
    copy = {
        key: value for key, value in record.items() if value is not None or key not in _NULLABLE
    }
    if len(copy) == len(record):
        copy.update((key, None) for key in _NULLABLE if key not in record)
    if copy.get("sample_hash") == question.sample_hash:
        del copy["sample_hash"]
    elif "sample_hash" not in copy:
        copy["sample_hash"] = question.sample_hash
    return _with_float(copy)


def _with_float(record: Record) -> Record:
    first, *others = record["answer_attribution"]
    return {
        **record,
        "answer_attribution": [{**first, "turn_idx": float(first["turn_idx"])}, *others],
    }


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
    return {
        **record,
        "evaluation": {**record["evaluation"], "score": score(correct), "is_correct": correct},
    }


# Records of later schema versions. What a version expects is read from its `Schema`: whether
# references are arrays, whether unknown keys are allowed at the root, which fields may be null,
# what turns are called, and whether one answer can have several metrics. So this module names no
# version.
#
# Later versions differ from the oldest one in content, too, as real data does: producers label
# records with other versions, compute `sample_hash` by different recipes, and ask the same question
# in other words. One answer is scored by several metrics, one record each, and some evaluations ask
# every question more than once.

VERSIONS: Final = (*SCHEMAS, "mixed")
"""What `generate` can be asked for: one version, or all of them."""

_METRIC: Final = "evaluation_result_id"
_SHOTS: Final = "Answer like this.\n\nQuestion: 1 + 1?\nAnswer: 2\n\nQuestion: "


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
        return (
            _rewritten(self.record, self.question, self.author, self.schema)
            if self.is_later
            else self.record
        )

    def line(self) -> bytes:
        return self.author.spelling.line(self.written())

    def respelled(self, rng: Rng) -> bytes:
        """Another line with the same normal form."""
        is_later = self.is_later
        record = (
            _toggled(self.written(), self.schema)
            if is_later
            else _respelled(self.record, self.question)
        )
        return _HALF.sub(rb"\g<1>5E-1", respelling(rng).line(record))

    def conflict(self, rng: Rng, writer: Writer) -> Answer:
        """An answer with the same identity: another one, or in later versions, the same with another verdict."""
        if self.is_later and rng.chance(0.5):
            return replace(self, record=_contradicted(self.record))
        return replace(self, record=_answered_again(rng, writer, self.record, self.question))

    def records(self, rng: Rng, writer: Writer) -> Iterator[Answer]:
        """Yield its records: in a later version one per metric and epoch, in the form of the oldest version."""
        evaluation = self.question.evaluation
        metrics = evaluation.metrics if _METRIC in self.schema.shape.fields else {}
        for epoch in range(1, evaluation.epochs + 1 if self.is_later else 2):
            record = compose(rng, writer, self.author, self.question) if epoch > 1 else self.record
            if evaluation.epochs > 1 and self.is_later:
                record["metadata"] = {**(record.get("metadata") or {}), "epoch": epoch}
            if not metrics:
                yield replace(self, record=record)
            for number, (metric, highest) in enumerate(metrics.items()):
                verdict = dict(record["evaluation"])
                if number:
                    score = writer.further_score(rng, verdict["score"], highest)
                    verdict.update(score=score, is_correct=score >= (highest or 1) / 2)
                yield replace(self, record={**record, _METRIC: metric, "evaluation": verdict})


def new_answer(
    rng: Rng, writer: Writer, producer: Producer, question: Question, version: str
) -> Answer:
    """Compose an answer in the version that a producer writes.

    If versions are mixed, each producer has one of them.
    """
    schemas = list(SCHEMAS.values()) if version == "mixed" else [SCHEMAS[version]]
    return Answer(
        compose(rng, writer, producer, question),
        question,
        producer,
        schemas[producer.number % len(schemas)],
    )


def _rewritten(record: Record, question: Question, producer: Producer, schema: Schema) -> Record:
    """Rewrite a record in another version, as this producer would.

    The result may share values with the record.
    """
    result: Record = dict(record)
    result["schema_version"] = _label(record, producer, schema)
    result["input"] = _later_input(record["input"], question, producer)
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
    if "sample_hash" in record and record["sample_hash"] != _WRONG_HASH:
        recipe = list(RECIPES.values())[producer.number % len(RECIPES)]
        text = recipe(result["input"]["raw"], result["input"]["reference"])
        result["sample_hash"] = sha256(text).hexdigest()
    return arranged(result, schema.shape, nulls="nulls" in producer.habits)


def _toggled(record: Record, schema: Schema) -> Record:
    """Make a record with the same normal form: all nulls are left out, or if there are none, written."""
    without = without_nulls(record, schema.shape)
    return _with_float(without if without != record else arranged(record, schema.shape, nulls=True))


def _label(record: Record, producer: Producer, schema: Schema) -> str:
    if record["schema_version"] != DEFAULT_SCHEMA.label:
        return str(record["schema_version"])  # it is wrong on purpose
    labels = sorted(schema.labels)
    if "wrong labels" in producer.habits:
        labels = sorted(
            {label for other in SCHEMAS.values() for label in other.labels} - schema.labels
        )
    return labels[producer.number % len(labels)]


def _later_input(asked: Record, question: Question, producer: Producer) -> Record:
    """Ask the question as this producer does, with a list of references."""
    result = dict(asked)
    references = [question.reference]
    if question.also:
        references.append(question.also)
    elif question.evaluation.world and len(question.raw) % 3 == 0:
        references = []
    if "few-shot prompts" in producer.habits:
        result["raw"] = _SHOTS + question.raw + "\nAnswer:"
    elif "trailing white space" in producer.habits:
        result["raw"] = question.raw + "\n"
    if question.choices and "indexed references" in producer.habits:
        references = [str("ABCD".index(question.reference))]
    result["reference"] = references
    return result


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
        record["evaluation"] = {
            **record["evaluation"],
            "score": float(record["evaluation"]["score"]),
        }
    unknown = {key: record.pop(key) for key in list(record) if key not in schema.shape.fields}
    if unknown or record.get("metadata"):
        record["metadata"] = _texts({**unknown, **record.get("metadata", {})})


def _texts(values: Record) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }


def arranged(value: Record, shape: Shape, *, nulls: bool) -> Record:
    """Put known keys into the order of the schema, unknown ones after them.

    `nulls` writes absent fields as null.
    """
    result: Record = {}
    for key, field in shape.fields.items():
        if key in value:
            child = value[key]
            if field.shape and isinstance(child, list):
                child = [arranged(item, field.shape, nulls=nulls) for item in child]
            elif field.shape and child is not None:
                child = arranged(child, field.shape, nulls=nulls)
            result[key] = child
        elif nulls and field.drops_null:
            result[key] = None
    return {**result, **{key: child for key, child in value.items() if key not in result}}
