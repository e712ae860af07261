"""Tables of answers, with names of columns from the user.

A table is a log of its own kind: its rows may be of several models and evaluations, and nothing
about it is recognised by its content.

    rows       where rows come from: cells by the name of their column
    columns    what the columns mean
    samples    what a row becomes

A row is a sample; each column of scores is a metric. Columns without a meaning become metadata. A
row that does not fit is left out, with its line and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, Final

from msgspec import UNSET

from fastrec.errors import LogError, listed
from fastrec.harnesses.log import Log, LogPlan, RunInfo, Sample, Score
from fastrec.harnesses.metadata import chosen_names, own_names
from fastrec.harnesses.table.columns import EMPTY, TRUTH, TableColumns, columns_from, proposal
from fastrec.harnesses.table.rows import pieces_of, rows_of
from fastrec.harnesses.values import as_list, number_of, spell
from fastrec.schemas.newest import Input, Output
from fastrec.storage import hash_of_file

__all__ = ["TableColumns", "columns_from", "guess", "plan", "samples"]

_FIRST_ROWS: Final = 100  # that tell the columns


def guess(path: str, output: str) -> str:
    """Propose the command line that imports a table."""
    return proposal(path, output, _first_rows(path))


def _first_rows(path: str) -> list[dict[str, Any]]:
    _, rows = rows_of(path)
    return [cells for _, cells in islice(rows, _FIRST_ROWS) if isinstance(cells, dict)]


def plan(log: Log) -> LogPlan:
    """Check the names of the columns in the first rows, and cut the table into pieces."""
    columns = log.columns
    path = log.files[0].path
    first = _first_rows(path)
    if not first:
        raise LogError(path, "has no rows that can be read")
    known = list(dict.fromkeys(name for cells in first for name in cells))
    wanted = [*columns.named, *sorted(chosen_names(columns.metadata) or ())]
    if unknown := [name for name in wanted if name not in known]:
        raise LogError(
            path, f"has no column {listed(unknown)}; its columns are {listed(known, 30)}"
        )
    started = columns.run or hash_of_file(path)[1][:16]
    return LogPlan(
        run=RunInfo(task=columns.evaluation, model=columns.model, started=started),
        slices=pieces_of(path),
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample | str]:
    sample_of = _sample_maker(log.columns, run.started)
    word, rows = rows_of(log.files[0].path, log_slice)
    for number, cells in rows:
        if isinstance(cells, str):
            yield f"{word} {number:,}: {cells}"
            continue
        try:
            yield sample_of(cells)
        except ValueError as exc:
            yield f"{word} {number:,}: {exc}"


def _sample_maker(columns: TableColumns, started: str) -> Callable[[dict[str, Any]], Sample]:
    named = frozenset(columns.named)
    chosen = chosen_names(columns.metadata)
    own = own_names("table")
    metrics = columns.metrics
    names = {column: "" if len(metrics) == 1 else column for column in metrics}
    run_of = cache(lambda evaluation, model: RunInfo(task=evaluation, model=model, started=started))

    def metadata_name(column: str) -> str | None:
        """The name of a column in metadata; None if it does not become metadata."""
        if column in named or (chosen is not None and column not in chosen):
            return None
        return f"table.{column}" if column in own else column

    names_in_metadata: dict[str, str | None] = {}

    def sample_of(cells: dict[str, Any]) -> Sample:
        # Columns that the table lacks are not looked for: each call takes time in every row.
        evaluation = columns.evaluation or _required(cells, columns.evaluation_column)
        model = columns.model or _required(cells, columns.model_column)
        question = _required(cells, columns.input_column)
        reference = _texts(cells, columns.reference_column) if columns.reference_column else []
        choices = _texts(cells, columns.choices_column) if columns.choices_column else []
        error = " ".join(_texts(cells, columns.error_column)) if columns.error_column else ""
        metadata = {}
        for column, value in cells.items():
            if column not in names_in_metadata:
                names_in_metadata[column] = metadata_name(column)
            name = names_in_metadata[column]
            if name is not None and value not in EMPTY:
                metadata[name] = value if value.__class__ is str else spell(value)
        return Sample(
            run=run_of(evaluation, model),
            # Without ids, equal questions have equal ids, whatever the model and the order of the
            # rows.
            sample_id=_required(cells, columns.id_column) if columns.id_column else None,
            input=Input(raw=question, reference=reference, choices=choices or UNSET),
            output=Output(raw=_texts(cells, columns.output_column)),
            scores=[
                _score(cells, column, names[column], is_truth=column == columns.correct_column)
                for column in metrics
            ],
            error=error,
            metadata=metadata,
        )

    return sample_of


def _texts(cells: dict[str, Any], column: str) -> list[str]:
    """The texts in a cell: a list has several, an empty cell none.

    Numbers are spelled as in JSON.
    """
    value = cells.get(column) if column else None
    if value.__class__ is str:
        return [value] if value else []
    texts = as_list(value)
    if any(isinstance(text, list | dict) for text in texts):
        raise ValueError(f"{column!r} is neither text nor a list of texts")
    return [spell(text) for text in texts if text is not None]


def _required(cells: dict[str, Any], column: str) -> str:
    value = cells.get(column)
    if value.__class__ is str and value:
        return value
    texts = _texts(cells, column)
    if len(texts) != 1:
        raise ValueError(f"{column!r} {'is empty' if not texts else 'has several texts'}")
    return texts[0]


def _score(cells: dict[str, Any], column: str, metric: str, *, is_truth: bool) -> Score:
    value = cells.get(column)
    if value in EMPTY:
        return Score(metric=metric, value=None, problem=f"{column!r} is empty")
    number = TRUTH.get(str(value).lower()) if is_truth else number_of(value)
    if number is None:
        expected = "true or false" if is_truth else "a number"
        raise ValueError(f"{column!r} is not {expected}: {spell(value)[:40]!r}")
    return Score(metric=metric, value=number)
