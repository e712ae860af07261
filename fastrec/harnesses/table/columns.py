"""What the columns of a table mean: the options of `import`.

A column is a path into a row: `metadata.task` is the key `task` of the object `metadata`, and
`output.0` the first item of a list. Further columns are the same for all rows of a file:

    @key      the key of a row, in an object of rows
    ^model    the value of `model` beside the list of rows, which `rows` names
    model     if `from_path` has `{model}`: that part of the path of the file
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from fastrec.errors import UsageError, check_choice, shown
from fastrec.harnesses.metadata import chosen_names
from fastrec.harnesses.values import JsonObject, Texts, number_of, value_at
from fastrec.toml_file import parse_toml

KEY = "@key"
BESIDE = "^"
EMPTY = (None, "")  # cells without a value
NOTHING = ("", "none", "null", "n/a")  # texts that stand for no value, in lower case

_TRUE = "true yes y t 1 1.0 correct right pass passed success resolved ✓ ✔ ✅"
_FALSE = "false no n f 0 0.0 -0.0 incorrect wrong fail failed failure unresolved ✗ ✘ ❌"
TRUTH = dict.fromkeys(_TRUE.split(), 1.0) | dict.fromkeys(_FALSE.split(), 0.0)

_MOST_KEYS = 100  # of an object whose members become metadata of their own
_DEEPEST = 8
_RUN_PARTS = ("id", "trial")  # names of a pattern that tell files of one run apart

_METRICS = ("correct_column", "score_column")
_SERVED = ("evaluation", "model", "id")
_NEEDED = (
    ("--evaluation", "--evaluation-column"),
    ("--model", "--model-column"),
    ("--input-column", "--id-column with --question-by id"),
    ("--correct-column", "--score-column", "--output-column"),
)

Getter = Callable[[JsonObject], Any]


class TableColumns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What the columns of a table mean. `score_column` may name several, with commas."""

    evaluation: str = ""
    evaluation_column: str = ""
    model: str = ""
    model_column: str = ""
    id_column: str = ""
    input_column: str = ""
    output_column: str = ""
    reference_column: str = ""
    choices_column: str = ""
    correct_column: str = ""
    score_column: str = ""
    error_column: str = ""
    rows: str = ""  # the path of the rows in a document
    from_path: str = ""
    scale: str = ""
    null_verdict: str = ""  # error or wrong
    question_by: str = ""  # input or id
    run: str = ""
    metadata: str = "all"  # the columns without a meaning to keep, as in `chosen_names`

    def resolved(self) -> TableColumns:
        """Check the options, and let names of `from_path` serve what no other option says."""
        chosen_names(self.metadata)
        check_choice("question_by", self.question_by or "input", ("input", "id"))
        check_choice("null_verdict", self.null_verdict or "error", ("error", "wrong"))
        bounds_of(self.scale)
        served = {
            f"{name}_column": name
            for name in _pattern_of(self.from_path).groupindex
            if name in _SERVED
            and not getattr(self, f"{name}_column")
            and not getattr(self, name, "")
        }
        columns = replace(self, **served)
        given = {option_of(name) for name in self.__struct_fields__ if getattr(columns, name)}
        if columns.id_column and columns.by_id:
            given.add(_NEEDED[2][1])
        if missing := [" or ".join(either) for either in _NEEDED if given.isdisjoint(either)]:
            raise UsageError(f"a table needs {', '.join(missing)}; --guess proposes them")
        return columns

    @property
    def by_id(self) -> bool:
        return self.question_by == "id"

    @property
    def metrics(self) -> list[str]:
        return [name for name in (self.correct_column, *self.score_column.split(",")) if name]

    @property
    def named(self) -> list[str]:
        fields = [name for name in self.__struct_fields__ if name.endswith("_column")]
        own = [getattr(self, name) for name in fields if name not in _METRICS]
        return [name for name in (*own, *self.metrics) if name]

    @property
    def needed(self) -> list[str]:
        """What identifies an answer."""
        question = self.id_column if self.by_id else self.input_column
        return [name for name in (question, self.model_column, self.evaluation_column) if name]

    @property
    def answers(self) -> list[str]:
        return [name for name in (*self.metrics, self.output_column) if name]

    @property
    def has_keys(self) -> bool:
        return KEY in self.named

    def in_path(self, path: str) -> Texts | None:
        """What the path of a file says by `from_path`; None if it does not match."""
        match = _pattern_of(self.from_path).search(path)
        return match.groupdict() if match else None

    def run_in(self, in_path: Texts) -> str:
        """The name of the run of a file; empty if neither an option nor its path says it."""
        has_parts = not in_path.keys().isdisjoint(_RUN_PARTS)
        names = [name for name in in_path if name not in (*_SERVED, *_RUN_PARTS)]
        return self.run or "/".join(in_path[name] for name in names) or "files" * has_parts

    @property
    def scales(self) -> dict[str, tuple[float, float]]:
        """The bounds of each metric that has some."""
        bounds = bounds_of(self.scale)
        scored = self.score_column.split(",") if len(self.metrics) > 1 else [""]
        return dict.fromkeys(scored, bounds) if bounds and self.score_column else {}


def columns_from(document: bytes, path: str) -> TableColumns:
    try:
        return convert(parse_toml(document, path, "the columns"), TableColumns)
    except ValidationError as exc:
        raise UsageError(f"{shown(path)}: {exc}") from exc


def option_of(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def bounds_of(scale: str) -> tuple[float, float] | None:
    """The lowest and the highest score of a scale such as `1:10`.

    >>> bounds_of("1:10"), bounds_of("")
    ((1.0, 10.0), None)
    """
    if not scale:
        return None
    low, high = (number_of(end) for end in scale.partition(":")[::2])
    if low is None or high is None or low >= high:
        raise UsageError(
            f"scale must be the lowest and the highest score, like 1:10, not {scale!r}"
        )
    return low, high


@lru_cache
def _pattern_of(from_path: str) -> re.Pattern[str]:
    """Compile a pattern of the end of a path. A name matches as little as it can.

    >>> _pattern_of("{date}_{model}/*.json").search("logs/2026-01-02_a_b/x.json").groupdict()
    {'date': '2026-01-02', 'model': 'a_b'}
    """
    names = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+?)", re.escape(from_path))
    text = names.replace(r"\*\*", ".*?").replace(r"\*", "[^/]*?")
    try:
        pattern = re.compile(f"(?:^|/){text}$" if from_path else "")
    except re.error as exc:
        raise UsageError(f"from_path {from_path!r} is no pattern: {exc}") from exc
    if from_path and not pattern.groups:
        raise UsageError(f"from_path {from_path!r} has no name in braces, such as {{model}}")
    return pattern


def getter(column: str, constants: JsonObject) -> Getter:
    """A function that gets the value of a column from a row; made once for all rows.

    >>> get = getter("a.b.1", {})
    >>> get({"a": {"b": [1, 2]}}), get({"a.b.1": 3}), get({"a": [1]}), get({})
    (2, 3, None, None)
    """
    if column in constants or not column:
        value = constants.get(column)
        return lambda _: value
    if "." not in column:
        return lambda cells: cells.get(column)

    def get(cells: JsonObject) -> Any:
        return cells[column] if column in cells else value_at(cells, column)

    return get


def leaves(name: str, value: Any, depth: int = _DEEPEST) -> Iterator[tuple[str, Any]]:
    """The values in a cell, each with its path.

    Lists stay as they are, and so do objects with very many keys.

    >>> list(leaves("a", {"b": {"c": 1}, "d": [{"e": 2}]}))
    [('a.b.c', 1), ('a.d', [{'e': 2}])]
    """
    if value.__class__ is not dict or len(value) > _MOST_KEYS or not depth:
        yield name, value
        return
    for key, inner in value.items():
        yield from leaves(f"{name}.{key}", inner, depth - 1)


def paths_in(rows: Iterable[JsonObject]) -> dict[str, None]:
    """The paths of all values of some rows, in order."""
    cells = chain.from_iterable(row.items() for row in rows)
    return dict.fromkeys(path for cell in cells for path, _ in leaves(*cell))
