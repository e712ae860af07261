"""What a text of records must provide: questions, and the answers of models to them.

There are two writers: `words.Words` writes long random text for benchmarks, `evaluation.EvaluationText` writes what an
evaluation could contain. Everything else about a record is the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from fastrec.commands.generate.producers import Producer, Record
from fastrec.commands.generate.text import Rng

__all__ = ["Evaluation", "Question", "Reply", "Usage", "Writer"]


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

    def sample_id(self, number: int) -> int | str:
        """Return the `sample_id` of the question with this number."""
        return number if self.integer_ids else f"{self.name}_{number:05d}"


class Question(NamedTuple):
    """One question, with everything that its records have in common."""

    evaluation: Evaluation
    sample_id: int | str
    raw: str
    reference: str
    choices: list[str] | None
    sample_hash: str
    metadata: dict[str, Any]
    source: Any
    """What the writer needs to answer the question."""
    also: str = ""
    """A second reference, which versions with lists of references have."""


class Usage(NamedTuple):
    """How much a model read and wrote, in tokens, and how long it took."""

    read: int
    written: int
    latency_ms: float


class Reply(NamedTuple):
    """A model's answer to a question."""

    text: str
    extracted: str
    score: float
    """A boolean if the evaluation is not graded."""
    reasoning: str | None = None
    turns: Sequence[Record] = ()
    """The turns before the answer, without `turn_idx`. Only conversations have them."""
    error: str | None = None
    usage: Usage | None = None
    """None: any numbers will do."""


class Writer(Protocol):
    """Makes questions and answers."""

    def question(self, rng: Rng, evaluation: Evaluation, number: int) -> Question:
        """Return the question of an evaluation with this number."""

    def reply(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        """Return an answer of a producer's model."""

    def another_answer(self, rng: Rng, question: Question, *, correct: bool) -> tuple[str, Record]:
        """Return another text for an answer, right or wrong, and fields of the record that change with it."""

    def further_score(self, rng: Rng, first: float, highest: float) -> float:
        """Return the score by a further metric, given the first score; `highest` is 0 if scores are 0 and 1."""
