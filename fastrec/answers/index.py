"""The index of a corpus: a SQLite file with one row per question and metric, kept in the user's cache directory.

It is found by the checksum of the manifest, so it is never stale, and two copies of a corpus share it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Self

from fastrec.answers.answer import Answer
from fastrec.answers.table import Outcome, Page, Query, QuestionRow, Scope
from fastrec.corpus.manifest import Manifest
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress

__all__ = ["Index", "open_index"]


class Index:
    """The index of a corpus. May be used by several threads."""

    corpus: str
    manifest: Manifest
    scopes: list[Scope]
    """By evaluation, then metric."""
    models: list[str]
    """All models, in order of their ids."""

    def page(self, query: Query, offset: int = 0, limit: int = 100) -> Page:
        """Return some of the questions that a query chooses, in its order."""
        raise NotImplementedError

    def find(self, text: str) -> list[QuestionRow]:
        """Return the questions whose `sample_hash` begins with some text, or else whose `sample_id` is that text."""
        raise NotImplementedError

    def row(self, query: Query, sample_hash: str) -> QuestionRow | None:
        """Return one question of a scope, as the models of the query have answered it; None if there is none."""
        raise NotImplementedError

    def neighbours(self, query: Query, sample_hash: str) -> tuple[QuestionRow | None, QuestionRow | None]:
        """Return the questions before and after one, in the order of the query; None at both ends."""
        raise NotImplementedError

    def next_disagreement(self, query: Query, sample_hash: str) -> QuestionRow | None:
        """Return the next question on which the models of the query disagree, in the order of the query."""
        raise NotImplementedError

    def outcomes(self, query: Query, sample_hash: str) -> dict[str, Outcome]:
        """Return what each model of a scope made of a question."""
        raise NotImplementedError

    def values(self, query: Query, models: Sequence[str]) -> dict[str, list[float | None]]:
        """Return, for each question (by `sample_hash`), the mean value of each of some models; None without an answer.

        The value is the share of right answers, or the score if the metric is graded.
        """
        raise NotImplementedError

    def answers(self, row: QuestionRow, models: Sequence[str] = ()) -> list[Answer]:
        """Read the answers to a question from the parts, in the order of the corpus; of some models, or of all."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_index(
    corpus: str | os.PathLike[str],
    *,
    jobs: int = 1,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
) -> Index:
    """Open the index of a corpus; build it first if there is none in the cache directory.

    Args:
        corpus: A directory or URL that `normalize` published.
        jobs: Processes to use for building.
        cache: The cache directory; by default `FASTREC_CACHE`, or `fastrec` in the user's cache directory.
        progress: Receives the progress of building.
        limits: Sizes of buffers.

    Raises:
        UsageError: The directory is not a corpus.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    raise NotImplementedError
