"""Tables of answers, with names of columns from the user.

A table is a log of its own kind: its rows may be of several models and evaluations, and nothing
about it is recognised by its content.

    rows       where rows come from: cells by the name of their column
    columns    what the columns mean
    samples    what a row becomes
    guess      what the columns may mean, by their names and first values

A row is a sample; each column of scores is a metric. Columns without a meaning become metadata, and
so do values in the path of the file or beside the rows. A row that does not fit is left out, with
its line and the reason.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import islice
from math import inf
from typing import Any, TypeVar

from msgspec import UNSET

from fastrec.errors import LogError, NotATableError, listed
from fastrec.harnesses.log import Log, LogPlan, RunInfo, Sample, Samples, Score
from fastrec.harnesses.metadata import LONGEST, chosen_names, own_names
from fastrec.harnesses.recognise import head_of
from fastrec.harnesses.table.columns import (
    BESIDE,
    EMPTY,
    NOTHING,
    TRUTH,
    TableColumns,
    columns_from,
    getter,
    leaves,
    paths_in,
)
from fastrec.harnesses.table.rows import NO_OBJECT, is_table, open_table, pieces_of
from fastrec.harnesses.values import JsonObject, OptionalText, Texts, as_list, number_of, spell
from fastrec.schemas.newest import Input, Output
from fastrec.storage import hash_of_file

__all__ = ["TableColumns", "columns_from", "plan", "samples"]

_T = TypeVar("_T")

_MOST_COLUMNS = 10_000  # whose names in metadata are remembered

_FIRST_ROWS = 100  # that tell the columns
_OBJECT = "metadata."  # an object that is metadata by its name
NAMED = "named"  # the role of a file that the user named; others may be no tables


def plan(log: Log) -> LogPlan:
    """Check the names of the columns in the first rows, and cut the table into pieces."""
    columns = log.columns
    path = log.path
    is_named = log.files[0].role == NAMED
    if not is_named and not is_table(path, head_of(path)):
        raise NotATableError(path, "no tables")
    try:
        table = open_table(path, columns)
    except NotATableError as exc:
        if is_named:
            raise LogError(path, f"has {exc.reason}") from exc
        raise
    seen = [cells for _, cells in islice(table.rows, _FIRST_ROWS)]
    first = [cells for cells in seen if isinstance(cells, dict)]
    if not first and not is_named and {*seen} <= {NO_OBJECT}:
        raise NotATableError(path, "no tables")
    if not first:
        raise LogError(path, "has no rows that can be read")
    known = paths_in([*first, table.beside])
    wanted = [*columns.named, *sorted(chosen_names(columns.metadata) or ())]
    constants = _constants(log, table.beside)
    names = {*known}
    for column in known:
        path_in_row = column.removeprefix(BESIDE)
        names |= {path_in_row.removeprefix(_OBJECT), path_in_row.partition(".")[0]}
    absent = [
        name
        for name in wanted
        if name not in names and all(value is None for value in map(getter(name, constants), first))
    ]
    problem = f"has no column {listed(absent)}; its columns are {listed(known, 30)}"
    # A table without what identifies an answer, or without any answers, is another one.
    lacking = [name for name in columns.needed if name in absent] or columns.answers
    if {*lacking} <= {*absent}:
        if is_named:
            raise LogError(path, problem)
        raise NotATableError(path, f"tables that lack columns: {listed(lacking)}")
    return LogPlan(
        run=RunInfo(
            task=columns.evaluation,
            model=columns.model,
            started=columns.run_in(log.in_path) or hash_of_file(path)[1][:16],
            metadata=_shared_metadata(log, table.beside),
            scales=columns.scales,
        ),
        slices=pieces_of(path, columns),
        absent=dict.fromkeys(absent, problem),
    )


def _constants(log: Log, beside: JsonObject) -> JsonObject:
    """The columns that have one value in all rows of a file."""
    named = (name for name in log.columns.named if name.startswith(BESIDE))
    return log.in_path | {name: getter(name, {})(beside) for name in named}


def _shared_metadata(log: Log, beside: JsonObject) -> Texts:
    """The metadata of all rows of a file; values beside the rows are cut if they are long."""
    columns = log.columns
    name_of = _namer(columns, ())
    values = list(log.in_path.items())
    for item in beside.items():
        values += [leaf for leaf in leaves(*item) if leaf[0] not in columns.named]
    metadata = {"question_by": "id"} if columns.by_id else {}
    for path, value in values:
        name = name_of(path.removeprefix(BESIDE))
        if name is not None and value not in EMPTY:
            metadata[f"table.{name}" if name in metadata else name] = spell(value)[:LONGEST]
    return metadata


def _namer(columns: TableColumns, taken: Iterable[str]) -> Callable[[str], OptionalText]:
    """A function that names a column in metadata; None if it is left out."""
    named = frozenset(columns.named)
    chosen = chosen_names(columns.metadata)
    own = own_names("table").union(taken)

    @lru_cache(_MOST_COLUMNS)
    def name_of(path: str) -> OptionalText:
        name = path.removeprefix(_OBJECT)
        if path in named:
            return None
        if chosen is not None and chosen.isdisjoint((path, name, path.partition(".")[0])):
            return None
        return f"table.{name}" if name in own else name

    return name_of


def samples(log: Log, run: RunInfo, log_slice: Any) -> Samples:
    table = open_table(log.path, log.columns, log_slice)
    sample_of = _sample_maker(log.columns, run, _constants(log, table.beside))
    for number, cells in table.rows:
        if isinstance(cells, str):
            yield f"{table.word} {number:,}: {cells}"
            continue
        try:
            yield sample_of(cells)
        except ValueError as exc:
            yield f"{table.word} {number:,}: {exc}"
        except RecursionError:
            yield f"{table.word} {number:,}: it is nested too deeply"


def _sample_maker(
    columns: TableColumns, run: RunInfo, constants: JsonObject
) -> Callable[[JsonObject], Sample]:
    name_of = _namer(columns, run.metadata)
    run_of = cache(
        lambda evaluation, model: RunInfo(task=evaluation, model=model, started=run.started)
    )
    by_id = columns.by_id
    named = frozenset(columns.named)

    def reader(read: Callable[[Any, str], _T], column: str) -> Callable[[JsonObject], _T]:
        get = getter(column, constants)
        return lambda cells: read(get(cells), column)

    evaluation_of = reader(_text, columns.evaluation_column)
    model_of = reader(_text, columns.model_column)
    id_of = reader(_text, columns.id_column)
    question_of = reader(_text, columns.input_column)
    references_of = reader(_texts, columns.reference_column)
    outputs_of = reader(_texts, columns.output_column)
    choices_of = reader(_texts, columns.choices_column)
    errors_of = reader(_texts, columns.error_column)
    scorers = [_scorer(columns, column, constants) for column in columns.metrics]

    def sample_of(cells: JsonObject) -> Sample:
        evaluation = columns.evaluation or evaluation_of(cells)
        model = columns.model or model_of(cells)
        # Without ids, equal questions have equal ids, whatever the model and the order of rows.
        sample_id = id_of(cells) if columns.id_column else None
        question = question_of(cells) if columns.input_column else ""
        asked = Input(raw=question, reference=references_of(cells))
        if by_id:
            asked.raw = sample_id or ""
            asked.formatted = question or UNSET
        asked.choices = choices_of(cells) or UNSET
        errors = [text for text in errors_of(cells) if text.lower() not in NOTHING]
        metadata = {}
        nested = []
        for column, value in cells.items():
            if column in named or value in EMPTY:
                continue
            if value.__class__ is dict:
                nested.append(column)
            elif (name := name_of(column)) is not None:
                metadata[name] = value if value.__class__ is str else spell(value)
        for column in nested:
            for path, value in leaves(column, cells[column]):
                own_name = name_of(path)
                if own_name is not None and value not in EMPTY:
                    while own_name in metadata:
                        own_name = f"{column}.{own_name}"
                    metadata[own_name] = spell(value)
        return Sample(
            run=run_of(evaluation, model),
            sample_id=sample_id,
            input=asked,
            output=Output(raw=outputs_of(cells)),
            scores=[score_of(cells) for score_of in scorers],
            error=" ".join(errors),
            metadata=metadata,
        )

    return sample_of


def _texts(value: Any, column: str) -> list[str]:
    """The texts in a cell: a list has several, an empty cell none.

    Numbers are spelled as in JSON.
    """
    if value.__class__ is str:
        return [value] if value else []
    texts = as_list(value)
    if any(isinstance(text, list | dict) for text in texts):
        raise ValueError(f"{column!r} is neither text nor a list of texts")
    return [spell(text) for text in texts if text is not None]


def _text(value: Any, column: str) -> str:
    if value.__class__ is str and value:
        return value
    texts = _texts(value, column)
    if len(texts) != 1:
        raise ValueError(f"{column!r} {'has several texts' if texts else 'is empty'}")
    return texts[0]


def _scorer(
    columns: TableColumns, column: str, constants: JsonObject
) -> Callable[[JsonObject], Score]:
    """A function that makes the score of a row."""
    get = getter(column, constants)
    metric = "" if len(columns.metrics) == 1 else column
    low, high = columns.scales.get(metric, (-inf, inf))
    is_truth = column == columns.correct_column
    expected = "true or false" if is_truth else "a number"
    if low > -inf:
        expected = f"on the scale {columns.scale}"
    empty = Score(metric, None, f"{column!r} is empty")
    if columns.null_verdict == "wrong":
        empty = Score(metric, low if low > -inf else 0.0)

    def score_of_value(value: Any) -> Score:
        text = str(value).strip().lower()
        if text in NOTHING:
            return empty
        number = TRUTH.get(text) if is_truth else number_of(value)
        if number is None or not low <= number <= high:
            raise ValueError(f"{column!r} is not {expected}: {spell(value)[:40]!r}")
        return Score(metric, number)

    score_of_text = lru_cache(score_of_value)  # most texts come again

    def score_of(cells: JsonObject) -> Score:
        value = get(cells)
        return score_of_text(value) if value.__class__ is str else score_of_value(value)

    return score_of
