"""Valid records: a model's answer to a question, as an output, a conversation or an agent that uses tools.

`compose` builds the fields in the order of the schema. The only possible warning is a wrong `sample_hash` now and
then. Callers may change a record, except for `input.choices` and the values in `metadata`, which records share.
"""

from __future__ import annotations

from typing import Any, Final

from fastrec.commands.generate.producers import Producer, Record
from fastrec.commands.generate.text import Rng
from fastrec.commands.generate.writer import Question, Reply, Usage, Writer

__all__ = ["WRONG_HASH", "compose"]

VERSION: Final = "instance_level_eval_0.2.0"
WRONG_HASH: Final = "0123456789abcdef" * 4
ERRORS: Final = ("timeout after 60 s", "refusal", "API error 503: “overloaded”", "context length exceeded")


def compose(rng: Rng, writer: Writer, producer: Producer, question: Question) -> Record:
    """Return a valid record."""
    name, kind = question.evaluation.name, question.evaluation.interaction_type
    record: Record = {
        "schema_version": VERSION,
        "evaluation_id": f"{name}/{producer.run}",
        "model_id": producer.model_id,
        "evaluation_name": name,
        "sample_id": question.sample_id,
    }
    if "hashes" in producer.habits:
        record["sample_hash"] = WRONG_HASH if rng.chance(0.002) else question.sample_hash
    record["interaction_type"] = kind
    record["input"] = _input(producer, question)
    reply = writer.reply(rng, producer, question)
    (_answer if kind == "single_turn" else _converse)(producer, question, reply, record)
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
    """Add the fields of single_turn: `output`, the attribution of its answer, and the score."""
    output: Record = {"raw": reply.text}
    if reply.reasoning is not None:
        output["reasoning_trace"] = reply.reasoning
    elif "nulls" in producer.habits:
        output["reasoning_trace"] = None
    record["output"] = output
    if "nulls" in producer.habits:
        record["interactions"] = None
    _evaluate(producer, question, reply, record)


def _converse(producer: Producer, question: Question, reply: Reply, record: Record) -> None:
    """Add the fields of multi_turn and agentic: `interactions`, the last of which is the answer, and their counts."""
    last: Record = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        last["reasoning_trace"] = reply.reasoning
    elif "nulls" in producer.habits:
        last.update(reasoning_trace=None, tool_calls=None)
    if "nulls" in producer.habits:
        record["output"] = None
    turns = record["interactions"] = [{"turn_idx": number, **turn} for number, turn in enumerate([*reply.turns, last])]
    _evaluate(producer, question, reply, record)
    calls = sum(len(turn.get("tool_calls") or ()) for turn in turns)
    record["evaluation"].update(num_turns=len(turns), tool_calls_count=calls)


def _evaluate(producer: Producer, question: Question, reply: Reply, record: Record) -> None:
    turn_idx = len(record.get("interactions") or "x") - 1
    record["answer_attribution"] = [
        {
            "turn_idx": turn_idx,
            "source": f"interactions[{turn_idx}].content" if turn_idx else "output.raw",
            "extracted_value": reply.extracted,
            "extraction_method": question.evaluation.method,
            "is_terminal": True,
        },
    ]
    score = reply.score if question.evaluation.graded else producer.score(bool(reply.score))
    record["evaluation"] = {"score": score, "is_correct": score >= 0.5}


def _measure(rng: Rng, producer: Producer, reply: Reply, record: Record) -> None:
    """Add token counts, times and an occasional error."""
    usage: Any = None
    if "tokens" in producer.habits and not rng.chance(0.02):
        # Some harnesses store counts as floats; draft-07 accepts 1.0 as an integer.
        number = float if rng.chance(0.005) else int
        used = reply.usage or Usage(rng.between(50, 4000), rng.between(1, 3000), 0)
        read, written = used.read, used.written
        usage = {"input_tokens": number(read), "output_tokens": number(written), "total_tokens": number(read + written)}
        if "cached tokens" in producer.habits:
            usage["input_tokens_cache_write"] = rng.below(read) if rng.chance(0.7) else None
            usage["input_tokens_cache_read"] = 0
            usage["reasoning_tokens"] = rng.below(written) if "reasoning" in producer.habits else None
    performance: Any = None
    if "latency" in producer.habits and not rng.chance(0.02):
        latency = reply.usage.latency_ms if reply.usage else round(rng.random() * 20_000, 3)
        first_token = None if "nulls" in producer.habits else round(latency / 16, 2)
        performance = {"latency_ms": latency, "time_to_first_token_ms": first_token, "generation_time_ms": int(latency)}
    error = reply.error
    if reply.usage is None:
        error = rng.choice(ERRORS) if rng.chance(0.02) else None
    for key, value in (("token_usage", usage), ("performance", performance), ("error", error)):
        if value is not None or "nulls" in producer.habits:
            record[key] = value
