"""Valid records: a model's answer to a question, as an output, a conversation or an agent's work with tools.

`compose` builds the fields in the order of the schema, with nothing to warn about except a `sample_hash` that
is wrong now and then. All that a caller might change is made afresh, save `input.choices` and what is inside
`metadata`.
"""

from __future__ import annotations

from typing import Any, Final

from fastrec.commands.generate.dice import Dice
from fastrec.commands.generate.producers import Producer, Record
from fastrec.commands.generate.prose import Library
from fastrec.commands.generate.questions import Question

__all__ = ["WRONG_HASH", "compose"]

VERSION: Final = "instance_level_eval_0.2.0"
WRONG_HASH: Final = "0123456789abcdef" * 4
WRONG_HASHES: Final = 0.002
FLOAT_INTEGERS: Final = 0.005
GAPS: Final = 0.02
TOOLS: Final = ("search", "lookup_item", "update_item", "run_command", "calculate")
ERRORS: Final = ("timeout after 60 s", "refusal", "API error 503: “overloaded”", "context length exceeded")


def compose(dice: Dice, library: Library, producer: Producer, question: Question) -> Record:
    """A valid record."""
    evaluation = question.evaluation
    kind = evaluation.interaction_type
    record: Record = {
        "schema_version": VERSION,
        "evaluation_id": f"{evaluation.name}/{producer.run}",
        "model_id": producer.model_id,
        "evaluation_name": evaluation.name,
        "sample_id": question.sample_id,
    }
    if producer.hashes:
        record["sample_hash"] = WRONG_HASH if dice.chance(WRONG_HASHES) else question.sample_hash
    record["interaction_type"] = kind
    record["input"] = _input(producer, question)
    if kind == "single_turn":
        _answer(dice, producer, question, record)
    else:
        _converse(dice, library, producer, question, record)
    _measure(dice, producer, record)
    if producer.annotates:
        metadata = dict(question.metadata)
        metadata["trial"] = {"seed": dice.bits(40), "temperature": round(dice.roll(), 2)}
        record["metadata"] = metadata
    return record


def _input(producer: Producer, question: Question) -> Record:
    asked: Record = {"raw": question.raw}
    if producer.templates:
        asked["formatted"] = f"<|system|>\nThink first.\n<|user|>\n{question.raw}\n<|assistant|>\n"
    asked["reference"] = question.reference
    if question.choices is not None:
        asked["choices"] = question.choices
    return asked


def _answer(dice: Dice, producer: Producer, question: Question, record: Record) -> None:
    """The fields of single_turn: `output`, where its answer was found and what it is worth."""
    size = question.evaluation.answer_size
    raw = question.table.write(dice, dice.tail(size, 12 * size))
    output: Record = {"raw": raw}
    if producer.reasons:
        output["reasoning_trace"] = question.table.write(dice, dice.tail(2 * size, 20 * size))
    elif producer.says_null:
        output["reasoning_trace"] = None
    record["output"] = output
    if producer.says_null:
        record["interactions"] = None
    if question.choices:
        extracted = dice.pick("ABCD")
    elif question.evaluation.graded:
        extracted = raw
    else:
        extracted = str(dice.below(1000))
    _judge(dice, producer, question, record, extracted)


def _converse(dice: Dice, library: Library, producer: Producer, question: Question, record: Record) -> None:
    """The fields of multi_turn and agentic: `interactions`, the last of which answers, and their counts."""
    table, size = question.table, question.evaluation.answer_size
    turns: list[Record] = [{"turn_idx": 0, "role": "system", "content": question.reference}]
    calls = 0
    rounds = dice.tail(4, 24)
    for number in range(rounds):
        turns.append({"turn_idx": len(turns), "role": "user", "content": table.write(dice, dice.tail(size // 2, 200))})
        if number == 0 and question.evaluation.interaction_type == "agentic":
            calls = _work(dice, library, producer, question, turns)
        turn: Record = {"turn_idx": len(turns), "role": "assistant"}
        turn["content"] = table.write(dice, dice.tail(size, 20 * size))
        if producer.reasons:
            turn["reasoning_trace"] = table.write(dice, dice.tail(size, 400))
        elif producer.says_null:
            turn.update(reasoning_trace=None, tool_calls=None)
        turns.append(turn)
    if producer.says_null:
        record["output"] = None
    record["interactions"] = turns
    _judge(dice, producer, question, record, str(dice.below(1000)))
    evaluation = record["evaluation"]
    evaluation["num_turns"] = rounds if producer.counts_user_turns else len(turns)
    evaluation["tool_calls_count"] = calls


def _work(dice: Dice, library: Library, producer: Producer, question: Question, turns: list[Record]) -> int:
    """An agent's turns: calls of one or two tools and what they print; gives back the number of calls."""
    total = 0
    for _ in range(dice.tail(7, 90)):
        calls = [_call(dice, library) for _ in range(2 if dice.chance(0.15) else 1)]
        total += len(calls)
        content = question.table.write(dice, dice.between(2, 30)) if dice.chance(0.5) else None
        turn: Record = {"turn_idx": len(turns), "role": "assistant"}
        if content is not None or producer.says_null:
            turn["content"] = content
        turn["tool_calls"] = calls
        turns.append(turn)
        ids = [call["id"] for call in calls]
        told = library.log.write(dice, dice.tail(50, 900))
        turns.append(
            {
                "turn_idx": len(turns),
                "role": "tool",
                "content": told,
                "tool_call_id": ids[0] if len(ids) == 1 else ids,
            },
        )
    return total


def _call(dice: Dice, library: Library) -> Record:
    call: Record = {"id": f"call_{dice.bits(48):012x}", "name": dice.pick(TOOLS)}
    if dice.chance(0.9):
        call["arguments"] = {
            "query": library.log.write(dice, dice.between(1, 12)),
            "limit": dice.between(1, 50),
            "options": {
                "strict": dice.chance(0.5),
                "after": None,
                "Weights": [round(dice.roll(), 3), 1, 1.0],
            },
        }
    return call


def _judge(dice: Dice, producer: Producer, question: Question, record: Record, extracted: str) -> None:
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
    score: bool | float
    if question.evaluation.graded:
        score = dice.pick((0, 0.5, 1.0, round(dice.roll(), 4), round(dice.roll(), 4)))
    else:
        score = {"boolean": bool, "integer": int, "float": float}[producer.score](dice.chance(0.6))
    record["evaluation"] = {"score": score, "is_correct": score >= 0.5}


def _measure(dice: Dice, producer: Producer, record: Record) -> None:
    """Tokens, times and the occasional error."""
    usage: Any = None
    if producer.counts_tokens and not dice.chance(GAPS):
        # Some harnesses keep their counts in tables of floats: 1.0 is an integer too for draft-07.
        number = float if dice.chance(FLOAT_INTEGERS) else int
        spent = dice.between(50, 4000)
        said = dice.between(1, 3000)
        usage = {
            "input_tokens": number(spent),
            "output_tokens": number(said),
            "total_tokens": number(spent + said),
        }
        if producer.counts_caches:
            usage["input_tokens_cache_write"] = dice.below(spent) if dice.chance(0.7) else None
            usage["input_tokens_cache_read"] = 0
            usage["reasoning_tokens"] = dice.below(said) if producer.reasons else None
    performance: Any = None
    if producer.measures and not dice.chance(GAPS):
        latency = round(dice.roll() * 20_000, 3)
        performance = {
            "latency_ms": latency,
            "time_to_first_token_ms": None,
            "generation_time_ms": int(latency),
        }
        if not producer.says_null:
            performance["time_to_first_token_ms"] = round(latency / 16, 2)
    error = dice.pick(ERRORS) if dice.chance(0.02) else None
    for key, value in (("token_usage", usage), ("performance", performance), ("error", error)):
        if value is not None or producer.says_null:
            record[key] = value
