"""Choices of models: the facts about some models of a scope, for all questions.

Of few models, most questions have the same marks as another one. So SQL cuts the marks of these models out of the
packed columns, and finds those that differ. Their facts are computed once, and kept in a temporary table. What is
selected from `marks` and this table together has the columns of the table `question`, so that the same SQL works on
both. Graded scores hardly repeat: then the table has the facts of each question.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from fastrec.answers.marks import Facts, Marks, facts_of, mean_length

__all__ = ["Choices", "Cut"]

_KEPT: Final = 4
_MOST_RUNS: Final = 8
_WIDTHS: Final = {"flags": 1, "shares": 8, "scores": 8, "lengths": 8}
_PACKED: Final = ["flags", "shares", "scores"]
_FACTS: Final = ", ".join(Facts._fields)


class Cut:
    """How SQL cuts the marks of some models, in ascending order, out of packed columns.

    >>> Cut([0, 1, 4]).column("scores")
    "coalesce(CAST(substr(m.scores, 1, 16) || substr(m.scores, 33, 8) AS BLOB), x'')"
    """

    models: list[int]
    """The positions of these models in what is cut. Many models have others between them, which are cut too."""

    def __init__(self, models: Sequence[int]) -> None:
        gaps = [at for at in range(1, len(models)) if models[at] - models[at - 1] > 1]
        widest = sorted(gaps, key=lambda at: models[at - 1] - models[at])[: _MOST_RUNS - 1]
        bounds = pairwise([0, *sorted(widest), len(models)])
        self._runs = [range(models[first], models[end - 1] + 1) for first, end in bounds] if models else []
        positions = {model: at for at, model in enumerate(model for run in self._runs for model in run)}
        self.models = [positions[model] for model in models]

    def column(self, name: str) -> str:
        """Return what cuts a column of the table `m`."""
        width = _WIDTHS[name]
        pieces = [f"substr(m.{name}, {run.start * width + 1}, {len(run) * width})" for run in self._runs]
        # A piece of an empty column is NULL.
        return f"coalesce(CAST({' || '.join(pieces)} AS BLOB), x'')" if pieces else "x''"


class Choices:
    """The last choices of models."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, tuple[int, ...]], tuple[str, str]] = OrderedDict()
        self._made = 0

    def facts(self, connection: sqlite3.Connection, scope: int, models: tuple[int, ...], *, graded: bool) -> str:
        """Return what selects the facts about some models of a scope."""
        key = scope, models
        if key not in self._kept:
            self._made += 1
            name = f"choice_{self._made}"
            self._kept[key] = name, _choose(connection, name, scope, models, graded=graded)
            if len(self._kept) > _KEPT:
                _, (oldest, _) = self._kept.popitem(last=False)
                connection.execute(f"DROP TABLE temp.{oldest}")
                connection.create_function(f"length_{oldest}", 2, None)
        self._kept.move_to_end(key)
        return self._kept[key][1]


def _choose(connection: sqlite3.Connection, name: str, scope: int, models: Sequence[int], *, graded: bool) -> str:
    """Make the table of the facts that follow from the marks of some models."""
    cut = Cut(models)
    flags, *_ = packed = [cut.column(column) for column in _PACKED]
    names, keys = (["id"], ["m.id"]) if graded else (_PACKED, packed)
    columns = ", ".join([*keys, *packed] if graded else packed)
    different = connection.execute(f"SELECT DISTINCT {columns} FROM marks m WHERE scope = {scope}")  # noqa: S608
    places = ", ".join("?" * (len(keys) + len(Facts._fields)))
    connection.execute("BEGIN")
    with connection:
        key = ", ".join(names)
        typed = ", ".join(f"{column} {'INTEGER' if graded else 'BLOB'}" for column in names)  # as in `marks`
        connection.execute(f"CREATE TABLE temp.{name} ({typed}, {_FACTS}, PRIMARY KEY ({key})) WITHOUT ROWID")
        connection.executemany(
            f"INSERT INTO temp.{name} VALUES ({places})",  # noqa: S608 - a name of ours
            (
                (*row[: len(keys)], *facts_of(Marks(*row[-len(packed) :]), cut.models, graded=graded))
                for row in different
            ),
        )
    connection.create_function(
        f"length_{name}", 2, lambda kinds, packed: mean_length(kinds, packed, cut.models), deterministic=True
    )
    same = " AND ".join(f"c.{column} = {value}" for column, value in zip(names, keys, strict=True))
    # The join must begin with `marks`: the other table may have no id.
    return (
        f"(SELECT m.id, {_FACTS}, length_{name}({flags}, {cut.column('lengths')}) AS output_chars, "  # noqa: S608
        "(SELECT a.input_chars FROM asked a WHERE a.id = m.id) AS input_chars "
        f"FROM marks m CROSS JOIN temp.{name} c ON {same} WHERE m.scope = {scope})"
    )
