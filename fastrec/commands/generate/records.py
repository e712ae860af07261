"""Valid records: a model's answer to a question, as an output, a conversation or an agent that uses tools.

`compose` builds the fields in the order of the schema. The only possible warning is a wrong `sample_hash` now and
then. Callers may change a record, except for `input.choices` and the values in `metadata`, which records share.
"""

from __future__ import annotations

from typing import Any, Final

from fastrec.commands.generate.producers import Producer, Record
from fastrec.commands.generate.questions import Question
from fastrec.commands.generate.text import PhraseTables, Rng

__all__ = ["WRONG_HASH", "compose"]

VERSION: Final = "instance_level_eval_0.2.0"
WRONG_HASH: Final = "0123456789abcdef" * 4
TOOLS: Final = ("search", "lookup_item", "update_item", "run_command", "calculate")
ERRORS: Final = ("timeout after 60 s", "refusal", "API error 503: “overloaded”", "context length exceeded")


def compose(rng: Rng, tables: PhraseTables, producer: Producer, question: Question) -> Record:
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
    if kind == "single_turn":
        _answer(rng, producer, question, record)
    else:
        _converse(rng, tables, producer, question, record)
    _measure(rng, producer, record)
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


def _answer(rng: Rng, producer: Producer, question: Question, record: Record) -> None:
    """Add the fields of single_turn: `output`, the attribution of its answer, and the score."""
    size = question.evaluation.answer_size
    raw = question.table.write(rng, rng.long_tail(size, 12 * size))
    output: Record = {"raw": raw}
    if "reasoning" in producer.habits:
        output["reasoning_trace"] = question.table.write(rng, rng.long_tail(2 * size, 20 * size))
    elif "nulls" in producer.habits:
        output["reasoning_trace"] = None
    record["output"] = output
    if "nulls" in producer.habits:
        record["interactions"] = None
    if question.choices:
        extracted = rng.choice("ABCD")
    elif question.evaluation.graded:
        extracted = raw
    else:
        extracted = str(rng.below(1000))
    _evaluate(rng, producer, question, record, extracted)


def _converse(rng: Rng, tables: PhraseTables, producer: Producer, question: Question, record: Record) -> None:
    """Add the fields of multi_turn and agentic: `interactions`, the last of which is the answer, and their counts."""
    table, size = question.table, question.evaluation.answer_size
    turns: list[Record] = [{"turn_idx": 0, "role": "system", "content": question.reference}]
    calls = 0
    for number in range(rng.long_tail(4, 24)):
        asked = table.write(rng, rng.long_tail(size // 2, 200))
        turns.append({"turn_idx": len(turns), "role": "user", "content": asked})
        if number == 0 and question.evaluation.interaction_type == "agentic":
            calls = _use_tools(rng, tables, producer, question, turns)
        answer = table.write(rng, rng.long_tail(size, 20 * size))
        turn: Record = {"turn_idx": len(turns), "role": "assistant", "content": answer}
        if "reasoning" in producer.habits:
            turn["reasoning_trace"] = table.write(rng, rng.long_tail(size, 400))
        elif "nulls" in producer.habits:
            turn.update(reasoning_trace=None, tool_calls=None)
        turns.append(turn)
    if "nulls" in producer.habits:
        record["output"] = None
    record["interactions"] = turns
    _evaluate(rng, producer, question, record, str(rng.below(1000)))
    record["evaluation"].update(num_turns=len(turns), tool_calls_count=calls)


def _use_tools(rng: Rng, tables: PhraseTables, producer: Producer, question: Question, turns: list[Record]) -> int:
    """Add turns that call one or two tools and turns with their output; return the number of calls."""
    total = 0
    for _ in range(rng.long_tail(7, 90)):
        calls = [_call(rng, tables) for _ in range(2 if rng.chance(0.15) else 1)]
        total += len(calls)
        content = question.table.write(rng, rng.between(2, 30)) if rng.chance(0.5) else None
        turn: Record = {"turn_idx": len(turns), "role": "assistant"}
        if content is not None or "nulls" in producer.habits:
            turn["content"] = content
        turn["tool_calls"] = calls
        turns.append(turn)
        ids = [call["id"] for call in calls]
        content = tables.log.write(rng, rng.long_tail(50, 900))
        tool_call_id = ids[0] if len(ids) == 1 else ids
        turns.append({"turn_idx": len(turns), "role": "tool", "content": content, "tool_call_id": tool_call_id})
    return total


def _call(rng: Rng, tables: PhraseTables) -> Record:
    call: Record = {"id": f"call_{rng.bits(48):012x}", "name": rng.choice(TOOLS)}
    if rng.chance(0.9):
        call["arguments"] = {
            "query": tables.log.write(rng, rng.between(1, 12)),
            "limit": rng.between(1, 50),
            "options": {"strict": rng.chance(0.5), "after": None, "Weights": [round(rng.random(), 3), 1, 1.0]},
        }
    return call


def _evaluate(rng: Rng, producer: Producer, question: Question, record: Record, extracted: str) -> None:
    turn_idx = len(record.get("interactions") or "x") - 1
    record["answer_attribution"] = [
        {
            "turn_idx": turn_idx,
            "source": f"interactions[{turn_idx}].content" if turn_idx else "output.raw",
            "extracted_value": extracted,
            "extraction_method": question.evaluation.method,
            "is_terminal": True,
        },
    ]
    score: float
    if question.evaluation.graded:
        score = rng.choice((0, 0.5, 1.0, round(rng.random(), 4), round(rng.random(), 4)))
    else:
        score = producer.score(rng.chance(0.6))
    record["evaluation"] = {"score": score, "is_correct": score >= 0.5}


def _measure(rng: Rng, producer: Producer, record: Record) -> None:
    """Add token counts, times and an occasional error."""
    usage: Any = None
    if "tokens" in producer.habits and not rng.chance(0.02):
        # Some harnesses store counts as floats; draft-07 accepts 1.0 as an integer.
        number = float if rng.chance(0.005) else int
        read, written = rng.between(50, 4000), rng.between(1, 3000)
        usage = {"input_tokens": number(read), "output_tokens": number(written), "total_tokens": number(read + written)}
        if "cached tokens" in producer.habits:
            usage["input_tokens_cache_write"] = rng.below(read) if rng.chance(0.7) else None
            usage["input_tokens_cache_read"] = 0
            usage["reasoning_tokens"] = rng.below(written) if "reasoning" in producer.habits else None
    performance: Any = None
    if "latency" in producer.habits and not rng.chance(0.02):
        latency = round(rng.random() * 20_000, 3)
        first_token = None if "nulls" in producer.habits else round(latency / 16, 2)
        performance = {"latency_ms": latency, "time_to_first_token_ms": first_token, "generation_time_ms": int(latency)}
    error = rng.choice(ERRORS) if rng.chance(0.02) else None
    for key, value in (("token_usage", usage), ("performance", performance), ("error", error)):
        if value is not None or "nulls" in producer.habits:
            record[key] = value
