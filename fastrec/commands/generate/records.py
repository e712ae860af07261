"""Valid records: a model's answer to a question, as an output, a conversation or an agent's turns.

1. `compose` builds a record with the content that its producer and schema version give it, and the
   field order and types of the oldest version. The only possible warning is a wrong `sample_hash`
   now and then. Callers may change a record, except for `input.choices` and the values in
   `metadata`, which records share.
2. Variations are still valid: unknown keys, duplicates, conflicts.
3. An `Answer` writes a record, or variations of it, with the order and types of its version.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from hashlib import sha256
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from fastrec.commands.generate.evaluation import Question, answer_of
from fastrec.commands.generate.producers import Producer, Record, respelling
from fastrec.commands.generate.tasks import STYLES, Reply
from fastrec.commands.generate.text import Rng
from fastrec.schemas.hashes import RECIPES, sample_hash
from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS
from fastrec.schemas.schema import Schema, Shape, without_nulls

_WRONG_HASH = "0123456789abcdef" * 4
_TEMPLATE = "<|system|>\nThink first.\n<|user|>\n{}\n<|assistant|>\n"
_BYTES_PER_TOKEN = 4


def compose(rng: Rng, question: Question, author: Producer, schema: Schema) -> "Answer":
    """Compose the record of an answer."""
    habits = author.habits
    evaluation = question.evaluation
    asked = _input(question, author, schema)
    record: Record = {
        "schema_version": _label(author, schema),
        "evaluation_id": f"{evaluation.name}/{author.run}",
        "model_id": author.model_id,
        "evaluation_name": evaluation.name,
        "sample_id": question.sample_id,
    }
    if "hashes" in habits:
        record["sample_hash"] = _WRONG_HASH if rng.chance(0.002) else _hash_of(asked, author)
    record["interaction_type"] = evaluation.interaction_type
    record["input"] = asked
    reply = answer_of(rng, author, question)
    _add_answer(author, question, reply, schema.turns_field, record)
    _add_measures(rng, author, question.task.raw, reply, record)
    record["error"] = reply.error
    if "nulls" not in habits:
        record = without_nulls(record)
    if "metadata" in habits:
        record["metadata"] = question.with_trial(rng)
    return Answer(record, question, author, schema)


def _label(author: Producer, schema: Schema) -> str:
    if schema is DEFAULT_SCHEMA:
        return schema.label
    labels = schema.labels
    if "wrong labels" in author.habits:
        everyone = frozenset().union(*(other.labels for other in SCHEMAS.values()))
        labels = everyone - labels
    return sorted(labels)[author.number % len(labels)]


def _input(question: Question, author: Producer, schema: Schema) -> Record:
    """The question as this producer asks it, with one reference or, in later versions, several."""
    task = question.task
    habits = author.habits
    asked: Record = {"raw": task.raw}
    if "templates" in habits:
        asked["formatted"] = _TEMPLATE.format(task.raw)
    asked["reference"] = task.reference
    if task.choices:
        asked["choices"] = task.choices
    if schema is DEFAULT_SCHEMA:
        return asked
    references = [task.reference]
    if task.choices and "indexed references" in habits:
        references = [str("ABCD".index(task.reference))]
    elif task.also:
        references.append(task.also)
    elif question.evaluation.world and len(task.raw) % 3 == 0:
        references.clear()
    asked["reference"] = references
    if "few-shot prompts" in habits:
        asked["raw"] = _SHOTS.format(task.raw)
    elif "trailing white space" in habits:
        asked["raw"] += "\n"
    return asked


def _hash_of(asked: Record, author: Producer) -> str:
    """The hash of a question: in later versions, each producer has one of the recipes."""
    reference = asked["reference"]
    if isinstance(reference, str):
        return sample_hash(asked["raw"], reference)
    recipe = [*RECIPES.values()][author.number % len(RECIPES)]
    return sha256(recipe(asked["raw"], reference)).hexdigest()


def _add_answer(
    producer: Producer, question: Question, reply: Reply, turns_field: str, record: Record
) -> None:
    """Add `output`, or turns that end with the answer; where it comes from; its score."""
    evaluation = question.evaluation
    score = reply.score if evaluation.graded else producer.score(bool(reply.score))
    verdict = {"score": score, "is_correct": score >= 0.5}
    is_single = evaluation.interaction_type == "single_turn"
    answer: Record = {"raw": reply.text}
    if not is_single:
        answer = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        answer["reasoning_trace"] = reply.reasoning
    elif "nulls" in producer.habits:
        answer["reasoning_trace"] = None
        if not is_single:
            answer["tool_calls"] = None
    turn_idx = len(reply.turns)
    if is_single:
        record |= {"output": answer, turns_field: None}
        source = "output.raw"
    else:
        turns = [{"turn_idx": number, **turn} for number, turn in enumerate([*reply.turns, answer])]
        record |= {"output": None, turns_field: turns}
        source = f"{turns_field}[{turn_idx}].content"
        calls = sum(len(turn.get("tool_calls", ())) for turn in reply.turns)
        verdict |= {"num_turns": len(turns), "tool_calls_count": calls}
    attribution = {
        "turn_idx": turn_idx,
        "source": source,
        "extracted_value": reply.extracted,
        "extraction_method": evaluation.method,
        "is_terminal": True,
    }
    record |= {"answer_attribution": [attribution], "evaluation": verdict}


def _add_measures(rng: Rng, producer: Producer, raw: str, reply: Reply, record: Record) -> None:
    """Add token counts and times that fit the lengths of the texts."""
    habits = producer.habits
    said = [(turn["role"], turn.get("content", "")) for turn in reply.turns]
    own = [text for role, text in said if role == "assistant"]
    read = 20 + _tokens([text for _, text in said] or [raw])
    written = 1 + _tokens([*own, reply.text, reply.reasoning or ""])
    latency = round(120 + written * (8 + 4 * producer.ability) * (0.7 + 0.6 * rng.random()), 3)
    record |= {"token_usage": None, "performance": None}
    if "tokens" in habits and not rng.chance(0.02):
        # Some harnesses store counts as floats; draft-07 accepts 1.0 as an integer.
        number = float if rng.chance(0.005) else int
        usage: Record = {
            "input_tokens": number(read),
            "output_tokens": number(written),
            "total_tokens": number(read + written),
        }
        if "cached tokens" in habits:
            usage |= {
                "input_tokens_cache_write": rng.below(read) if rng.chance(0.7) else None,
                "input_tokens_cache_read": 0,
                "reasoning_tokens": rng.below(written) if "reasoning" in habits else None,
            }
        record["token_usage"] = usage
    if "latency" in habits and not rng.chance(0.02):
        record["performance"] = {
            "latency_ms": latency,
            "time_to_first_token_ms": None if "nulls" in habits else round(latency / 16, 2),
            "generation_time_ms": int(latency),
        }


def _tokens(texts: list[str]) -> int:
    return len("".join(texts).encode()) // _BYTES_PER_TOKEN


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


def add_unknown_keys(rng: Rng, answer: "Answer") -> None:
    """Add keys that the schema does not name to one to three objects of the record."""
    record = answer.record
    objects = [record, record["input"], record["evaluation"], record["answer_attribution"][0]]
    objects += filter(None, map(record.get, ("output", "token_usage", "performance")))
    for turn in (record.get(answer.schema.turns_field) or ())[:6]:
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
    numbers = (rng.bits(80), -rng.below(100), round(rng.random(), 4), 1.0)
    return (None, True, *numbers, f"“{rng.bits(32):x}”")[kind]


# Records of later schema versions. What a version expects is read from its `Schema`: whether
# references are arrays, whether unknown keys are allowed at the root, which fields may be null,
# what turns are called, and whether one answer can have several metrics. So this module names no
# version.
#
# Later versions differ from the oldest one in content, too, as real data does: producers label
# records with other versions, compute `sample_hash` by different recipes, and ask the same question
# in other words. One answer is scored by several metrics, one record each, and some evaluations ask
# every question more than once.

_NULLABLE = ("output", "interactions", "token_usage", "performance", "error")
# Never matches inside a string, where quotes are escaped.
_HALF = re.compile(rb'("score": ?)0\.5(?=[,}])')
_METRIC = "evaluation_result_id"
_SHOTS = "Answer like this.\n\nQuestion: 1 + 1?\nAnswer: 2\n\nQuestion: {}\nAnswer:"


class Answer(Struct, frozen=True):
    """A record as composed, with what is needed to write it."""

    record: Record
    question: Question
    author: Producer
    schema: Schema

    @property
    def is_later(self) -> bool:
        return self.schema is not DEFAULT_SCHEMA

    def written(self) -> Record:
        """The record in its version, as its producer would write it; it may share values."""
        if not self.is_later:
            return self.record
        return arranged(self.record, self.schema, nulls="nulls" in self.author.habits or None)

    def line(self) -> bytes:
        return self.author.spelling.line(self.written())

    def respelled(self, rng: Rng) -> bytes:
        """Another line with the same normal form, with `1.0` for `1` and `5E-1` for `0.5`."""
        record = deepcopy(self._toggled())
        attribution = record["answer_attribution"][0]
        attribution["turn_idx"] = float(attribution["turn_idx"])
        return _HALF.sub(rb"\g<1>5E-1", respelling(rng).line(record))

    def _toggled(self) -> Record:
        """The record without nulls or, if there are none, with them.

        In the oldest version, also without its hash, or with it.
        """
        record = self.written()
        if self.is_later:
            without = arranged(record, self.schema, nulls=False)
            return without if without != record else arranged(record, self.schema, nulls=True)
        copy = {
            key: value for key, value in record.items() if value is not None or key not in _NULLABLE
        }
        if copy == record:
            copy = dict.fromkeys(_NULLABLE) | record
        computed = _hash_of(record["input"], self.author)
        if copy.setdefault("sample_hash", computed) == record.get("sample_hash") == computed:
            del copy["sample_hash"]
        return copy

    def conflict(self, rng: Rng) -> Self:
        """Another answer with the same identity, or in later versions, another verdict."""
        record = deepcopy(self.record)
        correct = not record["evaluation"]["is_correct"]
        score = int(correct)
        if not self.is_later or not rng.chance(0.5):
            score = correct
            reply = self.question.task.answer(rng, float(correct), rng.below(STYLES))
            record["metadata"] = self.question.with_trial(rng)
            if record["interaction_type"] == "single_turn":
                record["output"]["raw"] = reply.text
            else:
                record[self.schema.turns_field][-1]["content"] = reply.text
        record["evaluation"] |= {"score": score, "is_correct": correct}
        return replace(self, record=record)

    def records(self, rng: Rng) -> Iterator[Self]:
        """Yield its records: in a later version one per metric and epoch."""
        evaluation = self.question.evaluation
        epochs = evaluation.epochs if self.is_later else 1
        has_metrics = evaluation.metrics and _METRIC in self.schema.shape.fields
        metrics = evaluation.metrics if has_metrics else {"": 0.0}
        record = self.record
        for epoch in range(1, epochs + 1):
            if epoch > 1:
                record = compose(rng, self.question, self.author, self.schema).record
            if epochs > 1:
                record["metadata"] = {**(record.get("metadata") or {}), "epoch": epoch}
            for number, (metric, highest) in enumerate(metrics.items()):
                scored = {**record, _METRIC: metric} if metric else record
                if number:
                    verdict = _further_verdict(rng, record["evaluation"], highest)
                    scored["evaluation"] = verdict
                yield replace(self, record=scored)


def _further_verdict(rng: Rng, first: Record, highest: float) -> Record:
    """The verdict by a further metric; `highest` is 0 if its scores are 0 and 1."""
    score = first["score"]
    if highest:
        score = round(highest * (0.2 + 0.6 * score + 0.2 * rng.random()), 4)
    else:
        score = int((score >= 0.5) != rng.chance(0.1))
    return {**first, "score": score, "is_correct": score >= (highest or 1) / 2}


def arranged(record: Record, schema: Schema, *, nulls: bool | None = None) -> Record:
    """Put known keys into the order of the schema, unknown ones after them or into `metadata`.

    A text becomes a list where the schema has one. `nulls` says whether a null is written where it
    means the same as absence; by default it stays.
    """

    def arrange(value: Any, shape: Shape) -> Any:
        if isinstance(value, list):
            return [arrange(item, shape) for item in value]
        result: Record = {}
        for key, field in shape.fields.items():
            child = value.get(key)
            if child is None:
                if field.drops_null and (key in value if nulls is None else nulls):
                    result[key] = None
            elif field.shape:
                result[key] = arrange(child, field.shape)
            elif schema.closed and key in _CLOSED:
                result[key] = _CLOSED[key](child)
            elif field.is_list and isinstance(child, str):
                result[key] = child if key == "tool_call_id" and not schema.closed else [child]
            else:
                result[key] = child
        return result | {key: child for key, child in value.items() if key not in shape.fields}

    arranged: Record = arrange(_closed(record, schema) if schema.closed else record, schema.shape)
    return arranged


def _closed(record: Record, schema: Schema) -> Record:
    """Move unknown keys to `metadata`, which has only text."""
    known = dict(record)
    unknown = {key: known.pop(key) for key in record if key not in schema.shape.fields}
    if metadata := unknown | (known.get("metadata") or {}):
        known["metadata"] = _texts(metadata)
    return known


def _texts(values: Record) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }


# What becomes of known fields in versions without unknown keys.
_CLOSED: Mapping[str, Callable[[Any], Any]] = {
    "sample_id": str,
    "score": lambda score: float(score) if isinstance(score, bool) else score,
    "arguments": _texts,
}
