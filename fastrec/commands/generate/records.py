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
from fastrec.commands.generate.text import Rng, table
from fastrec.schemas.hashes import RECIPES, sample_hash
from fastrec.schemas.registry import SCHEMAS
from fastrec.schemas.schema import Field, Schema, Shape, without_nulls

_WRONG_HASH = "0123456789abcdef" * 4
_TEMPLATE = """\
<|system|>
Think first.
<|user|>
{}
<|assistant|>
"""
_SHOTS = """\
Answer like this.

Question: 1 + 1?
Answer: 2

Question: {}
Answer:"""
_BYTES_PER_TOKEN = 4


def compose(rng: Rng, question: Question, author: Producer) -> "Answer":
    """Compose the record of an answer. The order of its keys is that of the random numbers."""
    habits = author.habits
    evaluation = question.evaluation
    asked = _input(question, author)
    record: Record = {
        "schema_version": _label(author),
        "evaluation_id": f"{evaluation.name}/{author.run}",
        "model_id": author.model_id,
        "evaluation_name": evaluation.name,
        "sample_id": question.sample_id,
    }

    if "hashes" in habits:
        record["sample_hash"] = _WRONG_HASH if rng.chance(0.002) else _hash_of(asked, author)

    reply = answer_of(rng, author, question)
    record |= {
        "interaction_type": evaluation.interaction_type,
        "input": asked,
        **_answered(author, question, reply),
        **_measured(rng, author, question.raw, reply),
        "error": reply.error,
    }
    if "nulls" not in habits:
        record = without_nulls(record)
    if "metadata" in habits:
        record["metadata"] = question.with_trial(rng)
    return Answer(record, question, author)


def _label(author: Producer) -> str:
    """The label of a record; in later versions, each producer has one, which may be wrong."""
    if not author.is_later:
        return author.schema.label
    labels = author.schema.labels
    if "wrong labels" in author.habits:
        everyone = frozenset().union(*(other.labels for other in SCHEMAS.values()))
        labels = everyone - labels
    return sorted(labels)[author.number % len(labels)]


def _input(question: Question, author: Producer) -> Record:
    """The question as this producer asks it, with one reference or, in later versions, several."""
    facts = question.facts
    habits = author.habits
    asked = {
        "raw": question.raw,
        "formatted": _TEMPLATE.format(question.raw) if "templates" in habits else None,
        "reference": facts["reference"],
        "choices": facts.get("choices"),
    }
    if author.is_later:
        asked["reference"] = _references(question, author)
        if "few-shot prompts" in habits:
            asked["raw"] = _SHOTS.format(question.raw)
        elif "trailing white space" in habits:
            asked["raw"] += "\n"
    return without_nulls(asked)


def _references(question: Question, author: Producer) -> list[str]:
    """The references in later versions: the index of a choice, two, none, or one."""
    facts = question.facts
    reference = facts["reference"]
    if "choices" in facts and "indexed references" in author.habits:
        return [str("ABCD".index(reference))]
    if facts["also"]:
        return [reference, facts["also"]]
    if question.evaluation.world and len(question.raw) % 3 == 0:
        return []
    return [reference]


def _hash_of(asked: Record, author: Producer) -> str:
    """The hash of a question: in later versions, each producer has one of the recipes."""
    reference = asked["reference"]
    if isinstance(reference, str):
        return sample_hash(asked["raw"], reference)
    recipe = [*RECIPES.values()][author.number % len(RECIPES)]
    return sha256(recipe(asked["raw"], reference)).hexdigest()


def _answered(author: Producer, question: Question, reply: Reply) -> Record:
    """The output, or turns that end with the answer; where it comes from; its score."""
    evaluation = question.evaluation
    score = reply.score if evaluation.graded else author.score(bool(reply.score))
    verdict = {"score": score, "is_correct": score >= 0.5}
    has_nulls = reply.reasoning is None and "nulls" in author.habits
    trace = {"reasoning_trace": reply.reasoning}
    if not has_nulls:
        trace = without_nulls(trace)
    turns_field = author.schema.turns_field
    turn_idx = len(reply.turns)

    if evaluation.interaction_type == "single_turn":
        source = "output.raw"
        answer: Record = {
            "output": {"raw": reply.text, **trace},
            turns_field: None,
        }
    else:
        source = f"{turns_field}[{turn_idx}].content"
        last = {"role": "assistant", "content": reply.text, **trace}
        if has_nulls:
            last["tool_calls"] = None
        turns = enumerate([*reply.turns, last])
        answer = {
            "output": None,
            turns_field: [{"turn_idx": number, **turn} for number, turn in turns],
        }
        verdict |= {
            "num_turns": turn_idx + 1,
            "tool_calls_count": sum(len(turn.get("tool_calls", ())) for turn in reply.turns),
        }

    attribution = {
        "turn_idx": turn_idx,
        "source": source,
        "extracted_value": reply.extracted,
        "extraction_method": evaluation.method,
        "is_terminal": True,
    }
    return {
        **answer,
        "answer_attribution": [attribution],
        "evaluation": verdict,
    }


def _measured(rng: Rng, author: Producer, raw: str, reply: Reply) -> Record:
    """Token counts and times that fit the lengths of the texts."""
    habits = author.habits
    own = [turn for turn in reply.turns if turn["role"] == "assistant"]
    read = 20 + _tokens(reply.turns or [{"content": raw}])
    written = 1 + _tokens([*own, {"content": reply.text + (reply.reasoning or "")}])
    pace = 0.7 + 0.6 * rng.random()
    latency = round(120 + written * (8 + 4 * author.ability) * pace, 3)
    usage: Record | None = None
    performance = None

    if "tokens" in habits and not rng.chance(0.02):
        # Some harnesses store counts as floats; draft-07 accepts 1.0 as an integer.
        number = float if rng.chance(0.005) else int
        usage = {
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

    if "latency" in habits and not rng.chance(0.02):
        performance = {
            "latency_ms": latency,
            "time_to_first_token_ms": None if "nulls" in habits else round(latency / 16, 2),
            "generation_time_ms": int(latency),
        }
    return {
        "token_usage": usage,
        "performance": performance,
    }


def _tokens(turns: list[Record]) -> int:
    """About how many tokens the texts of some turns have."""
    text = "".join(turn.get("content", "") for turn in turns)
    return len(text.encode()) // _BYTES_PER_TOKEN


def add_unknown_keys(rng: Rng, answer: "Answer") -> None:
    """Add keys that the schema does not name to one to three objects of the record."""
    record = answer.record
    objects = [
        record,
        record["input"],
        record["evaluation"],
        record["answer_attribution"][0],
    ]
    objects += filter(None, map(record.get, ("output", "token_usage", "performance")))
    for turn in (record.get(answer.author.schema.turns_field) or ())[:6]:
        objects += [turn, *(turn.get("tool_calls") or ())]
    unknown = table("unknown_keys")
    for _ in range(rng.between(1, 3)):
        rng.choice(objects)[rng.choice(unknown["keys"])] = _any_value(rng, 3)
    if rng.chance(0.02):
        record['quote"d'] = _any_value(rng, 1)
    if rng.chance(0.2):
        record["metrics"] = json.loads(rng.choice(unknown["metrics"]))


def _any_value(rng: Rng, depth: int) -> Any:
    """A list or an object with up to `depth` levels, or a scalar."""
    kind = rng.below(9 if depth else 7)
    if kind == 7:
        return [_any_value(rng, depth - 1) for _ in range(rng.below(4))]
    if kind == 8:
        keys = table("unknown_keys")["keys"]
        return {rng.choice(keys): _any_value(rng, depth - 1) for _ in range(rng.between(1, 4))}
    scalars = (
        None,
        True,
        rng.bits(80),
        -rng.below(100),
        round(rng.random(), 4),
        1.0,
        f"“{rng.bits(32):x}”",
    )
    return scalars[kind]


# Records of later schema versions. What a version expects is read from its `Schema`: whether
# references are arrays, whether unknown keys are allowed at the root, which fields may be null,
# what turns are called, and whether one answer can have several metrics. So this module names no
# version.
#
# Later versions differ from the oldest one in content, too, as real data does: producers label
# records with other versions, compute `sample_hash` by different recipes, and ask the same question
# in other words. One answer is scored by several metrics, one record each, and some evaluations ask
# every question more than once.

_NULLABLE = (
    "output",
    "interactions",
    "token_usage",
    "performance",
    "error",
)
# Never matches inside a string, where quotes are escaped.
_HALF = re.compile(rb'("score": ?)0\.5(?=[,}])')

_METRIC = "evaluation_result_id"


class Answer(Struct, frozen=True):
    """A record as composed, with what is needed to write it."""

    record: Record
    question: Question
    author: Producer

    def written(self) -> Record:
        """The record in its version, as its producer would write it; it may share values."""
        author = self.author
        if not author.is_later:
            return self.record
        return arranged(self.record, author.schema, nulls="nulls" in author.habits or None)

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
        author = self.author
        if author.is_later:
            without = arranged(record, author.schema, nulls=False)
            return without if without != record else arranged(record, author.schema, nulls=True)

        copy = {
            key: value for key, value in record.items() if value is not None or key not in _NULLABLE
        }
        if copy == record:
            copy = dict.fromkeys(_NULLABLE) | record
        computed = _hash_of(record["input"], author)
        if copy.setdefault("sample_hash", computed) == record.get("sample_hash") == computed:
            del copy["sample_hash"]
        return copy

    def conflict(self, rng: Rng) -> Self:
        """Another answer with the same identity, or in later versions, another verdict."""
        record = deepcopy(self.record)
        correct = not record["evaluation"]["is_correct"]
        score = int(correct)

        if not self.author.is_later or not rng.chance(0.5):
            score = correct
            reply = self.question.answer(rng, float(correct), rng.below(STYLES))
            record["metadata"] = self.question.with_trial(rng)
            if record["interaction_type"] == "single_turn":
                record["output"]["raw"] = reply.text
            else:
                record[self.author.schema.turns_field][-1]["content"] = reply.text

        record["evaluation"] |= {
            "score": score,
            "is_correct": correct,
        }
        return replace(self, record=record)

    def records(self, rng: Rng) -> Iterator[Self]:
        """Yield its records: in a later version one per metric and epoch."""
        evaluation = self.question.evaluation
        author = self.author
        epochs = evaluation.epochs if author.is_later else 1
        metrics = evaluation.metrics if _METRIC in author.schema.shape.fields else {"": 0.0}
        record = self.record

        for epoch in range(1, epochs + 1):
            if epoch > 1:
                record = compose(rng, self.question, author).record
            if epochs > 1:
                record["metadata"] = {**record.get("metadata", {}), "epoch": epoch}
            for number, (metric, highest) in enumerate(metrics.items()):
                scored = {**record, _METRIC: metric} if metric else record
                if number:
                    scored["evaluation"] = _further_verdict(rng, record["evaluation"], highest)
                yield replace(self, record=scored)


def _further_verdict(rng: Rng, first: Record, highest: float) -> Record:
    """The verdict by a further metric; `highest` is 0 if its scores are 0 and 1."""
    score = first["score"]
    if highest:
        score = round(highest * (0.2 + 0.6 * score + 0.2 * rng.random()), 4)
    else:
        score = int((score >= 0.5) != rng.chance(0.1))
    return {
        **first,
        "score": score,
        "is_correct": score >= (highest or 1) / 2,
    }


def arranged(record: Record, schema: Schema, *, nulls: bool | None = None) -> Record:
    """Put known keys into the order of the schema, unknown ones after them or into `metadata`.

    A text becomes a list where the schema has one. `nulls` says whether a null is written where it
    means the same as absence; by default it stays.
    """

    def arrange(value: Record, shape: Shape) -> Record:
        result = {}
        for key, field in shape.fields.items():
            child = value.get(key)
            if child is not None:
                result[key] = convert(child, key, field)
            elif field.drops_null and (key in value if nulls is None else nulls):
                result[key] = None
        return result | {key: child for key, child in value.items() if key not in shape.fields}

    def convert(child: Any, key: str, field: Field) -> Any:
        if field.shape and isinstance(child, list):
            return [arrange(item, field.shape) for item in child]
        if field.shape:
            return arrange(child, field.shape)
        if schema.closed and key in _CLOSED:
            return _CLOSED[key](child)
        may_be_text = key == "tool_call_id" and not schema.closed
        if field.is_list and isinstance(child, str) and not may_be_text:
            return [child]
        return child

    return arrange(_closed(record, schema) if schema.closed else record, schema.shape)


def _closed(record: Record, schema: Schema) -> Record:
    """Move unknown keys to `metadata`, which has only text."""
    known = dict(record)
    unknown = {key: known.pop(key) for key in record if key not in schema.shape.fields}
    metadata = unknown | (known.get("metadata") or {})
    if metadata:
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
