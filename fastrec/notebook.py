"""Results as data frames, and as tables in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from fastrec.errors import need

if TYPE_CHECKING:
    import pandas as pd

    from fastrec.pages.html import Html

Rows = list[dict[str, Any]]
_MOST_ROWS = 200  # in a notebook
_SKIPPED = (list, dict, tuple, Struct)


class Framed(Struct):
    """The base class of results, which become a data frame: of one row, unless they have rows."""

    def _rows(self) -> Rows:
        return [flat(self)]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas data frame."""
        need("to_pandas", "pandas")
        import pandas as pd  # noqa: PLC0415 - an optional package

        return pd.DataFrame(self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())


class Tabular(Framed):
    """The base class of results that are tables: rows of one kind."""

    def rows(self) -> Rows:
        """The rows, each with the same columns: of the first list, unless a class has others."""
        lists = (getattr(self, name) for name in self.__struct_fields__)
        return list(map(flat, next(value for value in lists if isinstance(value, list))))

    def _rows(self) -> Rows:
        return self.rows()


def flat(value: Struct, before: Mapping[str, Any] = {}) -> dict[str, Any]:
    """A row: the values before, then the fields of a Struct that hold a single value.

    Those of its inner Structs are `field.name`.
    """
    row = dict(before)
    for name in value.__struct_fields__:
        inner = getattr(value, name)
        if isinstance(inner, Struct):
            row |= {
                f"{name}.{key}": cell
                for key, cell in asdict(inner).items()
                if not isinstance(cell, _SKIPPED)
            }
        elif not isinstance(inner, _SKIPPED):
            row[name] = inner
    return row


def html_table(rows: Sequence[Mapping[str, Any]]) -> Html:
    """The first rows as a table; columns without any value are left out."""
    from fastrec.pages import render_template  # noqa: PLC0415 - commands need no templates

    names = [name for name in rows[0] if any(row[name] is not None for row in rows)] if rows else []
    cells = [[_cell(row[name]) for name in names] for row in rows[:_MOST_ROWS]]
    left_out = len(rows) - len(cells)
    return render_template("notebook.html", names=names, rows=cells, left_out=left_out)


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
