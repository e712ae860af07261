"""`fastrec.open`: a corpus as an object, for a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, Unpack

from fastrec.commands.compare import compare as _compare
from fastrec.commands.export.tables import connect, table
from fastrec.commands.leaderboard import leaderboard as _leaderboard
from fastrec.commands.questions import questions as _questions
from fastrec.commands.report import report as _report
from fastrec.commands.show import show as _show
from fastrec.commands.stats import stats as _stats
from fastrec.corpus.manifest import Manifest, read_manifest, read_summary
from fastrec.filters import FilterArguments
from fastrec.html import tag
from fastrec.notebook import html_table
from fastrec.summary.document import Summary
from fastrec.summary.present_choice import names_of

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _with_path(function: Callable[Concatenate[str, _P], _R]) -> Callable[Concatenate[OpenCorpus, _P], _R]:
    """Make a method of a function whose first argument is a corpus; both have the same other arguments."""

    @wraps(function)
    def method(self: OpenCorpus, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return function(self.path, *args, **kwargs)

    return method


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

    stats = _with_path(_stats)
    leaderboard = _with_path(_leaderboard)
    questions = _with_path(_questions)
    compare = _with_path(_compare)
    show = _with_path(_show)
    report = _with_path(_report)

    def table(self, columns: list[str] | None = None, **filters: Unpack[FilterArguments]) -> pa.Table:
        return table(self.path, columns=columns, **filters)

    def connect(self, *, locked: bool = False) -> DuckDBPyConnection:
        return connect(self.path, locked=locked)

    def __repr__(self) -> str:
        counts = len(self.evaluations), len(self.models), self.summary.line_counts.kept
        return "fastrec.open({!r}): {:,} evaluations, {:,} models, {:,} records".format(self.path, *counts)

    def _repr_html_(self) -> str:
        """A page about the corpus. It must be instant, so it has no ranks, which need the index."""
        counts = self.summary.line_counts
        lines = (f"{counts.lines:,} lines: {counts.kept:,} kept, {counts.duplicates:,} duplicates, "
                 f"{counts.rejected:,} rejected, {counts.blank:,} blank")  # fmt: skip
        return tag("div", tag("p", repr(self)), html_table(self.stats(no_ranks=True).rows()), tag("p", lines))


def open(corpus: str | os.PathLike[str]) -> OpenCorpus:  # noqa: A001 - the name in the package
    """Open a corpus that `normalize` published.

    Raises:
        UsageError: The directory is not a corpus.
    """
    return OpenCorpus(corpus)
