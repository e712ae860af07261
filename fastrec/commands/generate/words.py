"""Bulk text for benchmarks: random words at high speed, with lengths and scripts as in real data.

Nothing in it means anything. `words.toml` has the words, `text` makes phrases of them.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from fastrec.commands.generate.producers import Producer, Record
from fastrec.commands.generate.text import PhraseTable, PhraseTables, Rng, phrase_tables
from fastrec.commands.generate.writer import Evaluation, Question, Reply

__all__ = ["Words"]

TOOLS: Final = ("search", "lookup_item", "update_item", "run_command", "calculate")


class Words:
    """Writes questions and answers of random words."""

    def __init__(self, seed: int) -> None:
        self.tables = phrase_tables(seed)

    def question(self, rng: Rng, evaluation: Evaluation, number: int) -> Question:
        """Return a new question."""
        table = rng.choice(self.tables.world if evaluation.world else self.tables.latin)
        raw = table.write(rng, rng.long_tail(evaluation.question_size, 8 * evaluation.question_size)) + "?"
        choices = [table.write(rng, rng.between(1, 5)) for _ in range(4)] if evaluation.choices else None
        if choices:
            reference = rng.choice("ABCD")
        elif evaluation.graded:
            reference = table.write(rng, rng.long_tail(evaluation.answer_size, 4 * evaluation.answer_size))
        else:
            reference = f"{table.write(rng, rng.between(4, 30))} #### {rng.below(1000)}"
        metadata = {  # nested, and its keys are not sorted
            "subject": table.write(rng, 1),
            "row": number,
            "difficulty": rng.choice((1, 2.5, "hard", None)),
            "tags": [table.write(rng, 1) for _ in range(rng.below(4))],
            "Source": {"split": rng.choice(("test", "dev")), "licence": None, "checked": rng.chance(0.5)},
        }
        sample_hash = sha256((raw + reference).encode()).hexdigest()
        also = reference.partition(" ")[0] if evaluation.graded else ""
        sample_id = evaluation.sample_id(number)
        return Question(evaluation, sample_id, raw, reference, choices, sample_hash, metadata, table, also)

    def reply(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        """Return a random answer."""
        single = question.evaluation.interaction_type == "single_turn"
        reply = (_answer if single else self._conversation)(rng, producer, question)
        score: float
        if question.evaluation.graded:
            score = rng.choice((0, 0.5, 1.0, round(rng.random(), 4), round(rng.random(), 4)))
        else:
            score = rng.chance(0.6)
        return reply._replace(score=score)

    def another_answer(self, rng: Rng, question: Question, *, correct: bool) -> tuple[str, Record]:  # noqa: ARG002
        """Return another random text; `correct` changes nothing."""
        return f"{question.source.write(rng, rng.long_tail(40, 400))} ({rng.bits(32):08x})", {}

    def further_score(self, rng: Rng, first: float, highest: float) -> float:  # noqa: ARG002
        """Return any score."""
        return round(rng.random() * highest, 4) if highest else rng.below(2)

    def _conversation(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        table: PhraseTable = question.source
        size = question.evaluation.answer_size
        turns: list[Record] = [{"role": "system", "content": question.reference}]
        for number in range(rng.long_tail(4, 24)):
            turns.append({"role": "user", "content": table.write(rng, rng.long_tail(size // 2, 200))})
            if number == 0 and question.evaluation.interaction_type == "agentic":
                _use_tools(rng, self.tables, producer, table, turns)
            turn: Record = {"role": "assistant", "content": table.write(rng, rng.long_tail(size, 20 * size))}
            if "reasoning" in producer.habits:
                turn["reasoning_trace"] = table.write(rng, rng.long_tail(size, 400))
            elif "nulls" in producer.habits:
                turn.update(reasoning_trace=None, tool_calls=None)
            turns.append(turn)
        last = turns.pop()
        return Reply(last["content"], str(rng.below(1000)), 0, last.get("reasoning_trace"), turns)


def _answer(rng: Rng, producer: Producer, question: Question) -> Reply:
    table: PhraseTable = question.source
    size = question.evaluation.answer_size
    raw = table.write(rng, rng.long_tail(size, 12 * size))
    reasoning = table.write(rng, rng.long_tail(2 * size, 20 * size)) if "reasoning" in producer.habits else None
    if question.choices:
        extracted = rng.choice("ABCD")
    elif question.evaluation.graded:
        extracted = raw
    else:
        extracted = str(rng.below(1000))
    return Reply(raw, extracted, 0, reasoning)


def _use_tools(rng: Rng, tables: PhraseTables, producer: Producer, table: PhraseTable, turns: list[Record]) -> None:
    """Add turns that call one or two tools and turns with their output."""
    for _ in range(rng.long_tail(7, 90)):
        calls = [_call(rng, tables) for _ in range(2 if rng.chance(0.15) else 1)]
        content = table.write(rng, rng.between(2, 30)) if rng.chance(0.5) else None
        turn: Record = {"role": "assistant"}
        if content is not None or "nulls" in producer.habits:
            turn["content"] = content
        turn["tool_calls"] = calls
        turns.append(turn)
        ids = [call["id"] for call in calls]
        content = tables.log.write(rng, rng.long_tail(50, 900))
        turns.append({"role": "tool", "content": content, "tool_call_id": ids[0] if len(ids) == 1 else ids})


def _call(rng: Rng, tables: PhraseTables) -> Record:
    call: Record = {"id": f"call_{rng.bits(48):012x}", "name": rng.choice(TOOLS)}
    if rng.chance(0.9):
        call["arguments"] = {
            "query": tables.log.write(rng, rng.between(1, 12)),
            "limit": rng.between(1, 50),
            "options": {"strict": rng.chance(0.5), "after": None, "Weights": [round(rng.random(), 3), 1, 1.0]},
        }
    return call
