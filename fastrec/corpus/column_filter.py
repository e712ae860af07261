"""Filters on the columns of a part: which records match, without reading their lines.

Each distinct value of a column is looked at once. A column does not tell everything: `true` is 1
among scores, and 1 and 1.0 are the same number. So a value stands for all of its spellings. If they
give different verdicts, the record has to be read, and so it has for a condition on a field without
a column.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress
from math import isnan
from typing import Any, NamedTuple

from fastrec.corpus.columns import METADATA, TOKENS, PartColumns, new_codes
from fastrec.corpus.part_records import KEY_COLUMNS
from fastrec.filters import Filters
from fastrec.judge.parse import parse
from fastrec.sorting.keys import METRIC
from fastrec.where import OUTCOMES, Condition, FieldPath, parse_condition, values_of

# Fields whose texts are in a column; a `sample_id` may be an integer.
_TEXTS = {
    **{(field,): column for field, column in KEY_COLUMNS.items()},
    ("interaction_type",): "interaction_type",
    ("schema_version",): "schema_version",
}

# Fields whose numbers are in a column.
_NUMBERS: dict[FieldPath, str] = {
    ("evaluation", "score"): "score",
    ("evaluation", "is_correct"): "correct",
    **{("token_usage", name): name for name in TOKENS},
    ("performance", "latency_ms"): "latency_ms",
    ("turns",): "turns",
    ("tool_calls",): "tool_calls",
    ("response", "characters"): "response_characters",
}

_LARGEST = 1 << 63
_LONG = "long"  # stands for an integer that a column cannot hold

_Verdict = bool | None  # Whether a condition holds; None if the column does not tell.


# The code of each record and, by code, values of which the record has one: none if they are not
# known, and None if it lacks the field.
Codes = tuple[Sequence[int], list[Sequence[Any]]]


class Matching(NamedTuple):
    """Records whose columns do not say that they do not match some filters, by position."""

    positions: Sequence[int]
    to_read: Sequence[int]  # those that have to be read, to know whether they match


def match_columns(columns: PartColumns, filters: Filters) -> Matching:
    """Filter the records of a part."""
    positions: Sequence[int] = range(columns.records)
    unsure = set[int]()
    for read_codes, verdicts in _verdicts(columns, filters):
        if all(verdicts):
            continue
        codes = read_codes()
        may_match = [verdict is not False for verdict in verdicts]
        # Loops of `map` and `compress` take half of the time of a comprehension.
        own = codes if len(positions) == len(codes) else map(codes.__getitem__, positions)
        positions = list(compress(positions, map(may_match.__getitem__, own)))
        if None in verdicts:
            unsure.update(at for at in positions if verdicts[codes[at]] is None)
    return Matching(positions, [at for at in positions if at in unsure] if unsure else ())


def _verdicts(
    columns: PartColumns, filters: Filters
) -> Iterator[tuple[Callable[[], Sequence[int]], list[_Verdict]]]:
    """Yield by code a verdict, for each thing that filters ask, and what reads the codes."""
    accepts = {
        "evaluation": (
            filters.accepts_evaluation,
            filters.evaluation + filters.exclude_evaluation,
        ),
        "metric": (filters.accepts_metric, filters.metric),
        "model": (filters.accepts_model, filters.model + filters.exclude_model),
        "hash": (filters.accepts_hash, filters.hash),
        "sample_id": (filters.accepts_sample_id, filters.sample_id),
    }
    for name, (accept, patterns) in accepts.items():
        if patterns:
            yield partial(columns.array, name), list(map(accept, columns.values(name)))
    if filters.chooses_outcomes:
        yield (
            partial(_outcome_codes, columns),
            [
                filters.accepts_outcome(is_correct=code == 1, has_error=code > 1)
                for code in range(4)
            ],
        )
    for condition in map(parse_condition, filters.where):
        codes, spellings = codes_of(columns, condition.path)
        if condition.path == ("error",) and condition.operator == "?":
            codes, spellings = columns.array("error"), [(None,), ("some",)]
        yield partial(_read_before, codes), [_verdict(condition, values) for values in spellings]


def _read_before(codes: Sequence[int]) -> Sequence[int]:
    return codes


def _outcome_codes(columns: PartColumns) -> "array[int]":
    """For each record, 1 if its answer is right, and 2 more if it has an error.

    Both columns are added as one long integer each: no byte overflows into the next.
    """
    correct, error = (
        int.from_bytes(columns.array(name).tobytes(), "little") for name in ("correct", "error")
    )
    return array("B", (correct + 2 * error).to_bytes(columns.records, "little"))


def codes_of(columns: PartColumns, path: FieldPath) -> Codes:
    """The values of a field, as far as a column tells."""
    if path[0] == "metadata" and len(path) > 1:
        name = METADATA + path[1]
        if name in columns.frames:
            values, _ = parse(columns.content(f"values.{name}"))
            return columns.array(name), [(value,) for value in values]
        if columns.lacks(path[1]):
            return array("B", bytes(columns.records)), [(None,)]
    if path == ("outcome",):
        return _outcome_codes(columns), [(outcome,) for outcome in OUTCOMES]
    if path in _TEXTS:
        name = _TEXTS[path]
        values = columns.values(name)
        # Without metrics, this may be an unknown key: earlier versions have no metrics.
        if path != (METRIC,) or values != [None]:
            return columns.array(name), [(value,) for value in values]
    if path in _NUMBERS:
        return _numbers(columns, _NUMBERS[path])
    return array("B", bytes(columns.records)), [()]


def _numbers(columns: PartColumns, name: str) -> Codes:
    values = columns.array(name).tolist()
    if name in TOKENS:
        has_tokens = columns.array("has_tokens")
        values = [value if has else None for value, has in zip(values, has_tokens, strict=True)]
    elif name == "latency_ms":
        values = [None if isnan(value) else value for value in values]
    for position in columns.exact(name):
        values[position] = _LONG
    codes = new_codes()
    return [codes[value] for value in values], [_spellings(name, value) for value in codes]


def _spellings(name: str, value: Any) -> Sequence[Any]:
    """The values of which a record has one, given that of its column.

    None if they are not known.
    """
    if value is None:
        return (None,)
    if value is _LONG:
        return ()
    if name == "correct":
        return (bool(value),)
    if isinstance(value, float) and value.is_integer():
        if abs(value) >= _LARGEST:
            return ()
        flags = (bool(value),) if name == "score" and value in (0, 1) else ()
        return (value, int(value), *flags)
    return (value,)


def _verdict(condition: Condition, spellings: Iterable[Any]) -> _Verdict:
    """Whether a condition holds for a value, whichever of its spellings a record has.

    None if that matters.
    """
    verdicts = set()
    for value in spellings:
        values = values_at(condition.path, value)
        verdicts.add(any(map(condition.holds, values)) is not condition.negated)
    return verdicts.pop() if len(verdicts) == 1 else None


def values_at(path: FieldPath, value: Any) -> Iterable[Any]:
    """The values at a path, given that of its column: metadata may have objects."""
    if path[0] == "metadata":
        return values_of({"metadata": {path[1]: value}}, path)
    return () if value is None else (value,)
