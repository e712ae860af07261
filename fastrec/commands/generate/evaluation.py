"""Text that reads like an evaluation: questions with references, and answers that are right or wrong for a reason.

Every model has an ability, every question a difficulty. Together they give the probability of a right answer, so
models differ as in real results, and some questions are hard for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from fastrec.commands.generate.producers import Producer, Record
from fastrec.commands.generate.tasks.chats import small_talk
from fastrec.commands.generate.tasks.desk import help_desk
from fastrec.commands.generate.tasks.explanations import explanation
from fastrec.commands.generate.tasks.problems import word_problem
from fastrec.commands.generate.tasks.shell import shell
from fastrec.commands.generate.tasks.task import STYLES, Given, Task, TaskMaker, Trial
from fastrec.commands.generate.tasks.tongues import tongue
from fastrec.commands.generate.tasks.travel import booking
from fastrec.commands.generate.tasks.trivia import trivia
from fastrec.commands.generate.text import Rng
from fastrec.commands.generate.writer import Evaluation, Question, Reply, Usage

__all__ = ["TASKS", "EvaluationText"]

TASKS: Final[Mapping[str, TaskMaker]] = {
    "trivia_choice": trivia,
    "word_problems": word_problem,
    "open_answers": explanation,
    "world_tongues": tongue,
    "help_desk": help_desk,
    "small_talk_world": small_talk,
    "booking_agent": booking,
    "shell_agent": shell,
}
FAILURES: Final = (  # the error, and what the model had written until then
    ("timeout after 60 s", ""),
    ("refusal", "I am sorry, but I cannot help with that."),
    ("API error 503: “overloaded”", ""),
    ("context length exceeded", ""),
)
FAILED: Final = 0.02
GUESSED: Final = 0.2
"""How often a model that does not know the answer chooses the right one."""
TRIES: Final = 100
BYTES_PER_TOKEN: Final = 4


class EvaluationText:
    """Writes questions and answers from templates."""

    def __init__(self, seed: int) -> None:
        self._shift = seed % 97  # other seeds begin with other questions
        self._asked: set[str] = set()

    def question(self, rng: Rng, evaluation: Evaluation, number: int) -> Question:
        """Return a question that was not asked before, as far as that is possible."""
        make = TASKS[evaluation.name]
        for _ in range(TRIES):
            task = make(rng, number + self._shift)
            if task.raw not in self._asked:
                break
        self._asked.add(task.raw)
        difficulty = rng.random()
        metadata = {  # nested, and its keys are not sorted
            "subject": task.subject,
            "row": number,
            "difficulty": (1, 2.5, "hard", None)[int(difficulty * 3) if rng.chance(0.8) else 3],
            "tags": list(task.tags),
            "Source": {"split": rng.choice(("test", "dev")), "licence": None, "checked": rng.chance(0.5)},
        }
        return Question(
            evaluation=evaluation,
            sample_id=evaluation.sample_id(number),
            raw=task.raw,
            reference=task.reference,
            choices=task.choices,
            sample_hash=sha256((task.raw + task.reference).encode()).hexdigest(),
            metadata=metadata,
            source=(task, difficulty),
            also=task.also,
        )

    def reply(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        """Return an answer that is right with a probability, or nothing because of an error."""
        task, difficulty = question.source
        chance = _chance(producer.ability, difficulty)
        if task.choices:
            chance += GUESSED * (1 - chance)
        given = task.answer(Trial(rng, chance, producer.number % STYLES))
        error = None
        if rng.chance(FAILED):
            error, text = rng.choice(FAILURES)
            given = given._replace(text=text, extracted="", score=0.0)
        usage = _usage(rng, producer, question.raw, given)
        reasoning = given.reasoning if "reasoning" in producer.habits else None
        return Reply(given.text, given.extracted, given.score, reasoning, given.turns, error, usage)

    def another_answer(self, rng: Rng, question: Question, *, correct: bool) -> tuple[str, Record]:
        """Return a right or a wrong answer, in any style, and the seed of the trial that gave it."""
        task: Task = question.source[0]
        given = task.answer(Trial(rng, float(correct), rng.below(STYLES)))
        trial = {"seed": rng.bits(40), "temperature": round(rng.random(), 2)}
        return given.text, {"metadata": {**question.metadata, "trial": trial}}

    def further_score(self, rng: Rng, first: float, highest: float) -> float:
        """Return a score near the first one."""
        if highest:
            return round(highest * (0.2 + 0.6 * first + 0.2 * rng.random()), 4)
        return int((first >= 0.5) != rng.chance(0.1))


def _chance(ability: float, difficulty: float) -> float:
    """Return the probability of a right answer. It uses plain arithmetic, which is the same on every platform."""
    lead = 7 * (ability - difficulty)
    return 0.5 + 0.5 * lead / (1 + abs(lead))


def _usage(rng: Rng, producer: Producer, raw: str, given: Given) -> Usage:
    """Return token counts and a time that fit the lengths of the texts."""
    texts = [turn.get("content") or "" for turn in given.turns]
    own = [text for turn, text in zip(given.turns, texts, strict=True) if turn["role"] == "assistant"]
    read = 20 + sum(len(text.encode()) for text in texts or [raw]) // BYTES_PER_TOKEN
    reasoning = given.reasoning if "reasoning" in producer.habits else ""
    written = 1 + sum(len(text.encode()) for text in (*own, given.text, reasoning)) // BYTES_PER_TOKEN
    latency = round(120 + written * (8 + 4 * producer.ability) * (0.7 + 0.6 * rng.random()), 3)
    return Usage(read, written, latency)
