"""Evaluations and their questions, which every model answers.

The number of questions is bounded: more records mean more models, not more questions. So memory stays flat, and each
question occurs many times in a corpus, as in real data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.text import PhraseTable, PhraseTables, Rng

__all__ = ["MIXES", "Question", "QuestionBank"]


class Evaluation(NamedTuple):
    """One evaluation: its name, its interaction type, and the shape of its questions (sizes in phrases)."""

    name: str
    interaction_type: str
    method: str
    question_size: int
    answer_size: int
    world: bool = False
    choices: bool = False
    graded: bool = False
    integer_ids: bool = False
    metrics: Mapping[str, float] = {}
    """In versions that have metrics: each with the highest score of a graded one, or 0 if scores are 0 and 1. The score
    of the first one is that of the evaluation."""
    epochs: int = 1
    """How often every question is asked, in versions after the oldest one."""


EVALUATIONS: Final = (
    Evaluation("trivia_choice", "single_turn", "regex", 25, 60, choices=True, metrics={"acc": 0, "acc_norm": 0}),
    Evaluation("word_problems", "single_turn", "exact_match", 30, 70, integer_ids=True, epochs=2),
    Evaluation(
        "open_answers", "single_turn", "llm_judge", 20, 130, graded=True, metrics={"judge": 1, "bleu": 100, "rouge": 1}
    ),
    Evaluation("world_tongues", "single_turn", "custom", 20, 50, world=True, metrics={"exact_match:strict": 0}),
    Evaluation("help_desk", "multi_turn", "llm_judge", 30, 40, graded=True, metrics={"helpful": 1, "polite": 0}),
    Evaluation("small_talk_world", "multi_turn", "llm_judge", 20, 25, world=True, integer_ids=True),
    Evaluation("booking_agent", "agentic", "custom", 50, 35, integer_ids=True),
    Evaluation("shell_agent", "agentic", "exact_match", 60, 30),
)

# Weights that add up to 25.
MIXES: Final = {
    "mixed": {"single_turn": 20, "multi_turn": 3, "agentic": 2},
    "single_turn": {"single_turn": 25},
    "agentic": {"agentic": 25},
}
MOST_QUESTIONS: Final = 2_500
RECORDS_PER_QUESTION: Final = 16


class Question(NamedTuple):
    """One question, with everything that its records have in common."""

    evaluation: Evaluation
    table: PhraseTable
    sample_id: int | str
    raw: str
    reference: str
    choices: list[str] | None
    sample_hash: str
    metadata: dict[str, Any]


class QuestionBank:
    """The questions by interaction type. The first model answers all of them, then the second, and so on."""

    def __init__(self, rng: Rng, tables: PhraseTables, records: int, mix: str) -> None:
        total = max(25, min(MOST_QUESTIONS, records // RECORDS_PER_QUESTION))
        self._questions: dict[str, list[Question]] = {}
        self._asked: Counter[str] = Counter()
        for kind in MIXES["mixed"]:
            # Types outside the mix get a few questions too, because some invalid lines need them.
            count = max(2, total * MIXES[mix].get(kind, 1) // 25)
            evaluations = [row for row in EVALUATIONS if row.interaction_type == kind]
            self._questions[kind] = [
                _question(rng, tables, evaluations[number % len(evaluations)], number // len(evaluations))
                for number in range(count)
            ]
        self.weighted_types = [kind for kind, weight in MIXES[mix].items() for _ in range(weight)]

    def next(self, kind: str) -> tuple[int, Question]:
        """Return the number of the next model and its question; no pair occurs twice."""
        questions = self._questions[kind]
        model, place = divmod(self._asked[kind], len(questions))
        self._asked[kind] += 1
        return model, questions[place]


def _question(rng: Rng, tables: PhraseTables, evaluation: Evaluation, number: int) -> Question:
    table = rng.choice(tables.world if evaluation.world else tables.latin)
    raw = table.write(rng, rng.long_tail(evaluation.question_size, 8 * evaluation.question_size)) + "?"
    choices = [table.write(rng, rng.between(1, 5)) for _ in range(4)] if evaluation.choices else None
    if choices:
        reference = rng.choice("ABCD")
    elif evaluation.graded:
        reference = table.write(rng, rng.long_tail(evaluation.answer_size, 4 * evaluation.answer_size))
    else:
        reference = f"{table.write(rng, rng.between(4, 30))} #### {rng.below(1000)}"
    sample_id = number if evaluation.integer_ids else f"{evaluation.name}_{number:05d}"
    metadata = {  # nested, and its keys are not sorted
        "subject": table.write(rng, 1),
        "row": number,
        "difficulty": rng.choice((1, 2.5, "hard", None)),
        "tags": [table.write(rng, 1) for _ in range(rng.below(4))],
        "Source": {"split": rng.choice(("test", "dev")), "licence": None, "checked": rng.chance(0.5)},
    }
    sample_hash = sha256((raw + reference).encode()).hexdigest()
    return Question(evaluation, table, sample_id, raw, reference, choices, sample_hash, metadata)
