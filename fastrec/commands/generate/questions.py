"""Evaluations and their questions: asked once, answered by every model in the same words.

The bank is bounded however large the corpus: more records mean more models, not more questions, so memory
stays flat and the same question really does come back hundreds of times, as it does in the world.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.dice import Dice
from fastrec.commands.generate.prose import Library, Table

__all__ = ["EVALUATIONS", "MIXES", "Bank", "Evaluation", "Question"]


class Evaluation(NamedTuple):
    """One evaluation: its name, how it is played, and what its questions look like (sizes in phrases)."""

    name: str
    interaction_type: str
    method: str
    question_size: int
    answer_size: int
    world: bool = False
    choices: bool = False
    graded: bool = False
    integer_ids: bool = False


EVALUATIONS: Final = (
    Evaluation("trivia_choice", "single_turn", "regex", 25, 60, choices=True),
    Evaluation("word_problems", "single_turn", "exact_match", 30, 70, integer_ids=True),
    Evaluation("open_answers", "single_turn", "llm_judge", 20, 130, graded=True),
    Evaluation("world_tongues", "single_turn", "custom", 20, 50, world=True),
    Evaluation("help_desk", "multi_turn", "llm_judge", 30, 40, graded=True),
    Evaluation("small_talk_world", "multi_turn", "llm_judge", 20, 25, world=True, integer_ids=True),
    Evaluation("booking_agent", "agentic", "custom", 50, 35, integer_ids=True),
    Evaluation("shell_agent", "agentic", "exact_match", 60, 30),
)

# Of 25 records of a mixed corpus 20 are single_turn, 3 multi_turn and 2 agentic.
MIXES: Final = {
    "mixed": {"single_turn": 20, "multi_turn": 3, "agentic": 2},
    "single_turn": {"single_turn": 25},
    "agentic": {"agentic": 25},
}
MOST_QUESTIONS: Final = 2_500
RECORDS_A_QUESTION: Final = 16


class Question(NamedTuple):
    """What all models are asked, with all that a record repeats of it."""

    evaluation: Evaluation
    table: Table
    sample_id: int | str
    raw: str
    reference: str
    choices: list[str] | None
    sample_hash: str
    metadata: dict[str, Any]


class Bank:
    """The questions by interaction type, and whose turn it is: one model answers them all, then the next."""

    def __init__(self, dice: Dice, library: Library, records: int, mix: str) -> None:
        total = max(25, min(MOST_QUESTIONS, records // RECORDS_A_QUESTION))
        self._questions: dict[str, list[Question]] = {}
        self._given = dict.fromkeys(MIXES["mixed"], 0)
        for kind in MIXES["mixed"]:
            # Types outside the mix get a handful of questions too: rejects may need them.
            count = max(2, total * MIXES[mix].get(kind, 1) // 25)
            evaluations = [row for row in EVALUATIONS if row.interaction_type == kind]
            self._questions[kind] = [
                _question(dice, library, evaluations[number % len(evaluations)], number // len(evaluations))
                for number in range(count)
            ]
        self._wheel = [kind for kind, weight in MIXES[mix].items() for _ in range(weight)]

    def spin(self, dice: Dice) -> str:
        """An interaction type, in the proportions of the mix."""
        return dice.pick(self._wheel)

    def next(self, kind: str) -> tuple[int, Question]:
        """The number of the model that answers next, and its question: no pair comes twice."""
        questions = self._questions[kind]
        model, place = divmod(self._given[kind], len(questions))
        self._given[kind] += 1
        return model, questions[place]


def _question(dice: Dice, library: Library, evaluation: Evaluation, number: int) -> Question:
    table = dice.pick(library.world if evaluation.world else library.latin)
    raw = table.write(dice, dice.tail(evaluation.question_size, 8 * evaluation.question_size)) + "?"
    choices = [table.write(dice, dice.between(1, 5)) for _ in range(4)] if evaluation.choices else None
    if choices:
        reference = dice.pick("ABCD")
    elif evaluation.graded:
        reference = table.write(dice, dice.tail(evaluation.answer_size, 4 * evaluation.answer_size))
    else:
        reference = f"{table.write(dice, dice.between(4, 30))} #### {dice.below(1000)}"
    return Question(
        evaluation,
        table,
        number if evaluation.integer_ids else f"{evaluation.name}_{number:05d}",
        raw,
        reference,
        choices,
        sha256((raw + reference).encode()).hexdigest(),
        _metadata(dice, table, number),
    )


def _metadata(dice: Dice, table: Table, number: int) -> dict[str, Any]:
    """Free-form, nested, and in no order."""
    return {
        "subject": table.write(dice, 1),
        "row": number,
        "difficulty": dice.pick((1, 2.5, "hard", None)),
        "tags": [table.write(dice, 1) for _ in range(dice.below(4))],
        "Source": {"split": dice.pick(("test", "dev")), "licence": None, "checked": dice.chance(0.5)},
    }
