"""`fastrec.open`: a corpus as an object, for a notebook."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from fastrec.commands.compare import Comparison, compare
from fastrec.commands.export.tables import connect, table
from fastrec.commands.leaderboard import leaderboard
from fastrec.commands.questions import Questions, questions
from fastrec.commands.show import Shown, show
from fastrec.commands.stats import stats
from fastrec.corpus.manifest import Manifest, read_manifest, read_summary
from fastrec.filters import FilterArguments
from fastrec.html import tag
from fastrec.notebook import html_table
from fastrec.summary.document import Summary
from fastrec.summary.present_choice import names_of
from fastrec.summary.present_ranking import Stats

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from fastrec.answers.leaderboard import Leaderboard


class OpenCorpus:
    """A corpus. Its methods are the functions of the same names, with this corpus as their first argument."""

    def __init__(self, corpus: str | os.PathLike[str]) -> None:
        self.path = os.fspath(corpus)
        self.manifest: Manifest = read_manifest(self.path)

    @cached_property
    def summary(self) -> Summary:
        """The document `summary.json`."""
        return read_summary(self.path, self.manifest)

    @property
    def evaluations(self) -> list[str]:
        return names_of(self.summary.evaluations).evaluations

    @property
    def models(self) -> list[str]:
        return sorted(names_of(self.summary.evaluations).models)

    @property
    def metrics(self) -> list[str]:
        """Their names; records without a metric have none."""
        return [name for name in names_of(self.summary.evaluations).metrics if name is not None]

    def stats(self, **options: Any) -> Stats:
        return stats(self.path, **options)

    def leaderboard(self, **options: Any) -> Leaderboard:
        return leaderboard(self.path, **options)

    def questions(self, **options: Any) -> Questions:
        return questions(self.path, **options)

    def compare(self, a: str, b: str, **options: Any) -> Comparison:
        return compare(self.path, a, b, **options)

    def show(self, question: int | str, **options: Any) -> Shown:
        return show(self.path, question, **options)

    def table(self, columns: list[str] | None = None, **filters: Unpack[FilterArguments]) -> pa.Table:
        return table(self.path, columns=columns, **filters)

    def connect(self, **options: Any) -> DuckDBPyConnection:
        return connect(self.path, **options)

    def __repr__(self) -> str:
        counts = len(self.evaluations), len(self.models), self.summary.line_counts.kept
        return "fastrec.open({!r}): {:,} evaluations, {:,} models, {:,} records".format(self.path, *counts)

    def _repr_html_(self) -> str:
        counts = self.summary.line_counts
        lines = (f"{counts.lines:,} lines: {counts.kept:,} kept, {counts.duplicates:,} duplicates, "
                 f"{counts.rejected:,} rejected, {counts.blank:,} blank")  # fmt: skip
        return tag("div", tag("p", repr(self)), html_table(self.stats().rows()), tag("p", lines))


def open(corpus: str | os.PathLike[str]) -> OpenCorpus:  # noqa: A001 - the name in the package
    """Open a corpus that `normalize` published.

    Raises:
        UsageError: The directory is not a corpus.
    """
    return OpenCorpus(corpus)
