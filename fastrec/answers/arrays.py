"""`Corpus.columns`: a column of many parts as one numpy array, with the same codes in all parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fastrec.answers.codes import NO_NUMBERS, Array, CodedColumn
from fastrec.answers.selection import Selection, has_column
from fastrec.corpus.columns import CODES, COLUMNS, METADATA
from fastrec.errors import UsageError, listed, need

if TYPE_CHECKING:
    import pandas as pd

_FLAGS = ("correct", "error", "has_tokens")


class Columns(dict[str, Any]):
    """Columns of some records, in the order of the corpus, by name: arrays, or codes with values.

    An array has the nearest number to an integer that it cannot hold. `exact` has the integer
    itself.
    """

    def __init__(
        self,
        columns: Mapping[str, Array | CodedColumn],
        number: Array,
        exact: Mapping[str, dict[int, int]],
    ) -> None:
        super().__init__(columns)
        # Of each record, its position in the corpus, as `Corpus.lines` takes it.
        self.number = number
        # Integers that an array cannot hold: by column, and by position in the array.
        self.exact = exact

    def __repr__(self) -> str:
        return f"Columns of {len(self.number):,} records: {', '.join(self)}"

    def to_pandas(self) -> pd.DataFrame:
        """A row for each record; its index is `number`.

        Columns with codes of texts become categories.
        """
        need("to_pandas", "pandas")
        import pandas as pd  # noqa: PLC0415 - an optional package

        columns = {
            name: _categories(column) if isinstance(column, CodedColumn) else column
            for name, column in self.items()
        }
        return pd.DataFrame(columns, index=self.number)


def _categories(column: CodedColumn) -> Any:
    """The values of a column for pandas, whose categories are distinct and never None."""
    import pandas as pd  # noqa: PLC0415 - an optional package

    _, values = column
    known = [value for value in values if value is not None]
    if not all(isinstance(value, str) for value in known):
        return column.decoded()
    return pd.Categorical(column.decoded(), categories=known)


def read_columns(
    selection: Selection, names: Sequence[str], parts: Iterable[int] | None
) -> Columns:
    """Read columns of the selected records: some by name or all, of some parts or all.

    Raises:
        UsageError: There is no such column or part, or a part has too many values of a key of
            metadata for a column.
        CorpusError: A file of the corpus is damaged.
    """
    known_parts = range(len(selection.parts))
    wanted_parts = sorted(set(known_parts if parts is None else parts))
    for part in wanted_parts:
        if part not in known_parts:
            raise UsageError(
                f"there is no part {part!r}; the corpus has {len(known_parts):,} parts, from 0 on"
            )
    number = np.concatenate([NO_NUMBERS, *map(selection.numbers, wanted_parts)])
    wanted = list(dict.fromkeys(names)) or [*COLUMNS, *_metadata_columns(selection, number)]
    columns: dict[str, Array | CodedColumn] = {}
    exact = {}
    for name in wanted:
        if name in CODES or name.startswith(METADATA):
            columns[name] = _coded(selection, name, number)
        elif name in COLUMNS:
            kind = np.dtype(np.bool_ if name in _FLAGS else f"<{COLUMNS[name].type}")
            columns[name] = selection.gather(name, number).astype(kind)
            if integers := selection.exact(name, number):
                exact[name] = integers
        else:
            raise UsageError(
                f"there is no column {name!r}; the columns are {listed(COLUMNS)}, metadata.KEY"
            )
    return Columns(columns, number, exact)


def _metadata_columns(selection: Selection, number: Array) -> list[str]:
    """The columns of keys of metadata that each part has, or has no record with."""
    opened = [selection.columns(part) for part, _ in selection.by_part(number)]
    names = dict.fromkeys(METADATA + key for columns in opened for key in columns.metadata_keys)
    return [name for name in names if all(has_column(columns, name) for columns in opened)]


def _coded(selection: Selection, name: str, number: Array) -> CodedColumn:
    for part, _ in selection.by_part(number):
        if not has_column(selection.columns(part), name):
            raise UsageError(
                f"{selection.parts[part].path}: {name} has too many values, or too long ones, for "
                "a column; choose other parts, or read the lines"
            )
    codes, values = selection.codes(name, number)
    if name.startswith(METADATA):
        values = list(map(msgspec.json.decode, values))
    return CodedColumn(codes.astype(np.int32), values)
