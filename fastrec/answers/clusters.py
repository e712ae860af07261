"""Clusters of questions, such as those about one passage (`statistics.clusters`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from fastrec.answers.codes import Array, distinct_of, ranks_of
from fastrec.errors import counted


class Clusters:
    """Questions whose first records have the same value of a field are a cluster.

    A question without the field is a cluster of its own, and so is each if no field is given.
    """

    def __init__(self, field: str | None = None, codes: Array | None = None) -> None:
        self.field = field
        self._codes = codes  # by number of a record: that of its value, or 0
        self._several: dict[Hashable, int] = {}  # by scope: questions with several values

    def of_questions(self, scope: Hashable, number: Array, question: Array, first: Array) -> Array:
        """The cluster of each question of a scope, in the order of first questions.

        Given are the numbers and questions of records, and the first record of each question.
        """
        if self._codes is None:
            return np.arange(len(first))
        codes = self._codes[number]
        own = codes[first]
        self._several[scope] = len(np.unique(question[codes != own[question]]))
        found = distinct_of(own, np.where(own > 0, 0, np.arange(len(first))))
        return ranks_of(np.argsort(found.first))[found.place]

    def note(self, notice: Callable[[str], None] | None) -> None:
        """Say how many questions have records with several values, of the scopes so far."""
        several = sum(self._several.values())
        if notice and several:
            text = f"{counted(several, 'question')} with several values of {self.field}"
            notice(f"{text}: that of the first record counts")
