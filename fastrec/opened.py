"""`fastrec.open`: a corpus as an object. Commands are its methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from types import MethodType
from typing import TYPE_CHECKING, Any, Unpack

from fastrec.corpus.reader import CorpusReader
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.notebook import html_table
from fastrec.pages import render_template
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.summary.present_choice import choose, names_of
from fastrec.summary.present_ranking import facts_of, rank

if TYPE_CHECKING:
    from fastrec.answers.arrays import Columns
    from fastrec.answers.selection import Selection
    from fastrec.api import read as _read
    from fastrec.commands.calibration import calibration as _calibration
    from fastrec.commands.cat import cat as _cat
    from fastrec.commands.compare import compare as _compare
    from fastrec.commands.corrected import corrected as _corrected
    from fastrec.commands.costs import costs as _costs
    from fastrec.commands.diff import diff as _diff
    from fastrec.commands.export import export as _export
    from fastrec.commands.export.tables import batches as _batches
    from fastrec.commands.export.tables import connect as _connect
    from fastrec.commands.export.tables import table as _table
    from fastrec.commands.items import items as _items
    from fastrec.commands.leaderboard import leaderboard as _leaderboard
    from fastrec.commands.overlap import overlap as _overlap
    from fastrec.commands.questions import questions as _questions
    from fastrec.commands.rejects import rejects as _rejects
    from fastrec.commands.report import report as _report
    from fastrec.commands.score import score as _score
    from fastrec.commands.show import show as _show
    from fastrec.commands.stats import stats as _stats
    from fastrec.commands.trend import trend as _trend
    from fastrec.commands.verify import verify as _verify
    from fastrec.commands.view import view as _view


class Corpus(CorpusReader):
    """A corpus that is open. Functions take it in the place of a path, and read its documents once.

    Its methods are the functions of the same names, with this corpus as their first argument.
    """

    _selected: tuple[Filters, Selection] | None = None

    if TYPE_CHECKING:
        batches = _batches
        calibration = _calibration
        cat = _cat
        compare = _compare
        connect = _connect
        corrected = _corrected
        costs = _costs
        diff = _diff
        export = _export
        items = _items
        leaderboard = _leaderboard
        overlap = _overlap
        questions = _questions
        read = _read
        rejects = _rejects
        report = _report
        score = _score
        show = _show
        stats = _stats
        table = _table
        trend = _trend
        verify = _verify
        view = _view

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

    def columns(
        self,
        *names: str,
        parts: Iterable[int] | None = None,
        jobs: int = CORES,
        progress: Progress | None = None,
        **filters: Unpack[FilterArguments],
    ) -> Columns:
        """Read columns as numpy arrays.

        An array cannot hold every integer: then it has the nearest number, and `Columns.exact` has
        the integer.

        >>> columns = corpus.columns("model", "score", evaluation="arithmetic")  # doctest: +SKIP
        >>> columns["score"].mean()  # doctest: +SKIP
        >>> columns["model"].values[columns["model"].codes[0]]  # doctest: +SKIP

        Args:
            *names: Names of columns; all by default. docs/files.md lists them. `metadata.KEY` is a
                key of metadata.
            parts: Only records of these parts, by number, such as `range(2)`. In a corpus that is
                larger than memory, read one part after another: there are `len(corpus.parts)`.
            jobs: Processes to use if a filter needs the text of records.
            progress: Receives the progress of reading it.
            **filters: Only records that match these (`FilterArguments`).

        Raises:
            UsageError: There is no such column or part, or no record of the corpus matches.
            CorpusError: A file of the corpus is damaged.
        """
        from fastrec.answers.arrays import read_columns  # noqa: PLC0415 - needs numpy

        return read_columns(self._select(make_filters(**filters), jobs, progress), names, parts)

    def lines(self, numbers: Iterable[int]) -> Iterator[bytes]:
        """Yield lines of records without newlines, given their numbers in ascending order.

        The number of a record is its position in the corpus, from 0 on: `Columns.number`.

        Raises:
            UsageError: A number is not one of a record, or is less than the one before.
            CorpusError: A file of the corpus is damaged.
        """
        from fastrec.answers.selection import Selection, check_numbers  # noqa: PLC0415 - needs numpy

        selection = Selection(self)
        return selection.lines(check_numbers(selection, numbers))

    def _select(self, filters: Filters, jobs: int, progress: Progress | None) -> Selection:
        """Select the matching records.

        The last selection is kept: a loop over parts needs the same one again.
        """
        from fastrec.answers.selection import select  # noqa: PLC0415 - needs numpy

        if self._selected is None or self._selected[0] != filters:
            self._selected = filters, select(self, filters, jobs=jobs, progress=progress)
        return self._selected[1]

    def __repr__(self) -> str:
        counts = len(self.evaluations), len(self.models), self.summary.line_counts.kept
        return "fastrec.open({!r}): {:,} evaluations, {:,} models, {:,} records".format(
            self.path, *counts
        )

    def _repr_html_(self) -> str:
        """A page about the corpus.

        It must be instant, so it only needs the summary: models are not tested.
        """
        stats = rank(choose(self.summary.evaluations), facts_of(self.summary))
        return render_template(
            "opened.html",
            about=repr(self),
            table=html_table(stats.rows()),
            counts=self.summary.line_counts,
        )


# The functions of the package that are methods.
METHODS = (
    "batches", "calibration", "cat", "compare", "connect", "corrected", "costs", "diff", "export",
    "items", "leaderboard", "overlap", "questions", "read", "rejects", "report", "score", "show",
    "stats",
    "table", "trend", "verify", "view",
)  # fmt: skip


class _Method:
    """A function of the package as a method.

    It is imported when it is used, because it may need numpy.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, corpus: Corpus | None, _: type[Corpus]) -> Any:
        function = getattr(import_module("fastrec"), self._name)
        return function if corpus is None else MethodType(function, corpus)


for _name in METHODS:
    setattr(Corpus, _name, _Method(_name))


def open(corpus: AnyPath) -> Corpus:  # noqa: A001 - the name in the package
    """Open a corpus that `normalize` published.

    Raises:
        UsageError: The directory is not a corpus.
        CorpusError: The manifest is damaged.
    """
    return Corpus(corpus)
