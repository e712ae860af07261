"""Evaluations and their questions, which every model answers.

The number of questions is bounded: more records mean more models, not more questions. So memory stays flat, and each
question occurs many times in a corpus, as in real data.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from fastrec.commands.generate.text import Rng
from fastrec.commands.generate.writer import Evaluation, Question, Writer

__all__ = ["MIXES", "QuestionBank"]

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


class QuestionBank:
    """The questions by interaction type. The first model answers all of them, then the second, and so on."""

    def __init__(self, rng: Rng, writer: Writer, records: int, mix: str) -> None:
        total = max(25, min(MOST_QUESTIONS, records // RECORDS_PER_QUESTION))
        self._questions: dict[str, list[Question]] = {}
        self._asked: Counter[str] = Counter()
        for kind in MIXES["mixed"]:
            # Types outside the mix get a few questions too, because some invalid lines need them.
            count = max(2, total * MIXES[mix].get(kind, 1) // 25)
            evaluations = [row for row in EVALUATIONS if row.interaction_type == kind]
            self._questions[kind] = [
                writer.question(rng, evaluations[number % len(evaluations)], number // len(evaluations))
                for number in range(count)
            ]
        self.weighted_types = [kind for kind, weight in MIXES[mix].items() for _ in range(weight)]

    def next(self, kind: str) -> tuple[int, Question]:
        """Return the number of the next model and its question; no pair occurs twice."""
        questions = self._questions[kind]
        model, place = divmod(self._asked[kind], len(questions))
        self._asked[kind] += 1
        return model, questions[place]
