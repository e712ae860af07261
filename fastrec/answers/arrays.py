"""`Corpus.columns`: a column of many parts as one numpy array, with codes that mean the same in all parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from fastrec.answers.selection import Array, Selection
from fastrec.corpus.columns import CODES, COLUMNS, METADATA, PartColumns
from fastrec.errors import UsageError, listed

if TYPE_CHECKING:
    import pandas as pd

_FLAGS: Final = ("correct", "error", "has_tokens")


class CodedColumn(NamedTuple):
    """A column of values that repeat: each record has the code of its value."""

    codes: Array
    """Of each record, the position of its value in `values`."""
    values: list[Any]
    """All values of these records, each once; None stands for records that have none."""

    def decoded(self) -> Array:
        """The value of each record."""
        values = np.empty(len(self.values), dtype=object)
        values[:] = self.values
        found: Array = values[self.codes]
        return found


class Columns(Mapping[str, Any]):
    """Columns of some records, in the order of the corpus: by name, an array, or codes with their values.

    An array has the nearest number to an integer that it cannot hold. `exact` has the integer
    itself.
    """

    def __init__(
        self,
        columns: Mapping[str, Array | CodedColumn],
        number: Array,
        exact: Mapping[str, dict[int, int]],
    ) -> None:
        self._columns = columns
        self.number = number
        """Of each record, its position in the corpus, as `Corpus.lines` takes it."""
        self.exact = exact
        """Integers that an array cannot hold: by column, and by position in the array."""

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Columns of {len(self.number):,} records: {', '.join(self)}"

    def to_pandas(self) -> pd.DataFrame:
        """A row for each record; its index is `number`.

        Columns with codes of texts become categories.
        """
        import pandas as pd  # noqa: PLC0415 - an optional package

        found = {
            name: _categories(one) if isinstance(one, CodedColumn) else one
            for name, one in self.items()
        }
        return pd.DataFrame(found, index=self.number)


def _categories(column: CodedColumn) -> Any:
    """The values of a column for pandas, where categories are distinct, and none of them is None."""
    import pandas as pd  # noqa: PLC0415 - an optional package

    known = {code: value for code, value in enumerate(column.values) if value is not None}
    if not all(isinstance(value, str) for value in known.values()):
        return column.decoded()
    codes = np.full(len(column.values), -1, dtype=np.int32)
    codes[list(known)] = np.arange(len(known))
    return pd.Categorical.from_codes(codes[column.codes], list(known.values()))


def read_columns(
    selection: Selection, names: Sequence[str], parts: Iterable[int] | None
) -> Columns:
    """Read columns of the selected records: some by name or all, of some parts or all.

    Raises:
        UsageError: There is no such column or part, or a part has too many values of a key of
            metadata for a column.
        CorpusError: A file of the corpus is damaged.
    """
    numbers = range(len(selection.parts))
    wanted_parts = set(numbers if parts is None else parts)
    for part in wanted_parts:
        if part not in numbers:
            raise UsageError(
                f"there is no part {part!r}; the corpus has {len(numbers):,} parts, from 0 on"
            )
    known = {part: _chosen(selection, part) for part in sorted(wanted_parts)}
    chosen = {part: positions for part, positions in known.items() if len(positions)}
    opened = [selection.columns(part) for part in chosen]
    wanted = list(dict.fromkeys(names)) or [*COLUMNS, *_metadata_columns(opened)]
    found: dict[str, Array | CodedColumn] = {}
    exact: dict[str, dict[int, int]] = {}
    for name in wanted:
        if name in CODES or name.startswith(METADATA):
            found[name] = _coded(selection, name, chosen)
        elif name in COLUMNS:
            found[name] = _numbers(selection, name, chosen)
            exact[name] = _exact(selection, name, chosen)
        else:
            raise UsageError(
                f"there is no column {name!r}; the columns are {listed(list(COLUMNS))}, "
                "metadata.KEY"
            )
    starts = [positions + selection.starts[part] for part, positions in chosen.items()]
    number = np.concatenate([np.array([], dtype=np.int64), *starts])
    return Columns(found, number, {name: some for name, some in exact.items() if some})


_Chosen = Mapping[int, Array]  # by part: the positions of the chosen records


def _chosen(selection: Selection, part: int) -> Array:
    if selection.is_whole:
        return np.arange(selection.parts[part].entry.records)
    return np.flatnonzero(selection.scope_codes(part) >= 0)


def _metadata_columns(opened: Sequence[PartColumns]) -> list[str]:
    """The columns of keys of metadata that each part has, or has no record with."""
    keys = dict.fromkeys(key for columns in opened for key in columns.metadata_keys)
    return [METADATA + key for key in keys if all(_has(columns, key) for columns in opened)]


def _has(columns: PartColumns, key: str) -> bool:
    return METADATA + key in columns.frames or columns.lacks(key)


def _numbers(selection: Selection, name: str, chosen: _Chosen) -> Array:
    kind = np.dtype(np.bool_ if name in _FLAGS else f"<{COLUMNS[name].type}")
    found = [np.array([], dtype=kind)]
    for part, positions in chosen.items():
        found.append(selection.columns(part).numbers(name)[positions].astype(kind))
    return np.concatenate(found)


def _exact(selection: Selection, name: str, chosen: _Chosen) -> dict[int, int]:
    found: dict[int, int] = {}
    before = 0
    for part, positions in chosen.items():
        for position, value in selection.columns(part).exact(name).items():
            place = int(np.searchsorted(positions, position))
            if place < len(positions) and positions[place] == position:
                found[before + place] = value
        before += len(positions)
    return found


def _coded(selection: Selection, name: str, chosen: _Chosen) -> CodedColumn:
    numbers: dict[
        Any, int
    ] = {}  # of values; those of metadata as they are spelled, because 1, 1.0 and true are equal
    found = [np.array([], dtype=np.int32)]
    for part, positions in chosen.items():
        columns = selection.columns(part)
        values = _values(columns, name)
        if values is None:
            raise UsageError(
                f"{selection.parts[part].path}: {name} has too many values, or too long ones, for "
                "a column; "
                "choose other parts, or read the lines"
            )
        codes = (
            columns.numbers(name)[positions]
            if name in columns.frames
            else np.zeros(len(positions), np.uint8)
        )
        new = np.zeros(len(values), dtype=np.int32)
        for code in np.flatnonzero(np.bincount(codes, minlength=len(values))).tolist():
            new[code] = numbers.setdefault(values[code], len(numbers))
        found.append(new[codes])
    spelled = name.startswith(METADATA)
    return CodedColumn(np.concatenate(found), [_decode(one) if spelled else one for one in numbers])


def _values(columns: PartColumns, name: str) -> Sequence[Any] | None:
    """What the codes of a column stand for.

    None if the part has a key of metadata without a column.
    """
    if not name.startswith(METADATA):
        return columns.values(name)
    if name in columns.frames:
        return list(
            map(
                bytes,
                msgspec.json.decode(columns.content(f"values.{name}"), type=list[msgspec.Raw]),
            )
        )
    return [b"null"] if columns.lacks(name.removeprefix(METADATA)) else None


_decode = msgspec.json.Decoder().decode
