"""Filters: which records a command works on. All commands that read records have the same ones.

A record must match every kind of filter that is given. Of one kind, one of several values is
enough. Names are shell-style patterns: `gsm8k`, `org/*`. A name that contains brackets still
matches itself.

`right`, `wrong` and `errors` choose outcomes: a record with an error is neither right nor wrong.
`where` has conditions on any field, all of which must hold.

Arguments take one string or several: the same values in Python as on the command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from shlex import quote
from typing import Any, Final, TypedDict, Unpack

import msgspec

from fastrec.errors import NoMatchError, UsageError, listed
from fastrec.where import parse_condition

_MOST_VALUES: Final = 5  # of an option, in a message
LISTED_NAMES: Final = 10  # of each kind, in the error if no record matches

Strings = str | Iterable[str]
AnyPath = str | os.PathLike[str]
Paths = AnyPath | Iterable[AnyPath]


def as_tuple(name: str, values: Strings) -> tuple[str, ...]:
    """The values of an argument, each once; UsageError if one of them is not a string.

    >>> as_tuple("model", "org/m"), as_tuple("model", ["b", "a", "b"]), as_tuple("model", ())
    (('org/m',), ('b', 'a'), ())
    """
    found = _listed(values)
    for value in found:
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a string or a list of strings, not {value!r}")
    return tuple(dict.fromkeys(found))


def _listed(values: Any) -> list[Any]:
    is_one = isinstance(values, (str, bytes, os.PathLike)) or not isinstance(values, Iterable)
    return [values] if is_one else list(values)


def several_paths(name: str, *values: Paths) -> tuple[AnyPath, ...]:
    """The paths of an argument, as they are given, each once.

    UsageError if one is neither a string nor a path.
    """
    given = [one for some in values for one in _listed(some)]
    as_tuple(name, [os.fspath(one) if isinstance(one, os.PathLike) else one for one in given])
    return tuple({os.fspath(one): one for one in given}.values())


def field_names(name: str, values: Strings) -> tuple[str, ...]:
    """The names of fields; one string may have several names, with commas in between.

    >>> field_names("by", "a, b"), field_names("by", ["a", "b"])
    (('a', 'b'), ('a', 'b'))
    """
    names = [field.strip() for value in as_tuple(name, values) for field in value.split(",")]
    return tuple(dict.fromkeys(filter(None, names)))


NAME_FILTERS: Final = ("evaluation", "metric", "model", "exclude_evaluation", "exclude_model")
"""The filters by name, for commands that work on summaries."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a command. An empty one matches every record."""

    evaluation: tuple[str, ...] = ()  # patterns of `evaluation_name`
    metric: tuple[str, ...] = ()
    """Patterns of `evaluation_result_id`. Records without a metric have an empty one."""
    model: tuple[str, ...] = ()  # patterns of `model_id`
    sample_id: tuple[
        str, ...
    ] = ()  # patterns of `sample_id`; 5 matches the integer 5 and the string "5"
    hash: tuple[str, ...] = ()  # patterns of `sample_hash`
    exclude_evaluation: tuple[str, ...] = ()
    exclude_model: tuple[str, ...] = ()
    right: bool = False
    wrong: bool = False
    errors: bool = False
    where: tuple[str, ...] = ()  # conditions on fields, all of which must hold: see `fastrec.where`

    def __bool__(self) -> bool:
        return self != _NONE

    def __str__(self) -> str:
        """Spell the filters for a message, as options of a command line.

        Of many values of an option, the first ones.

        >>> str(Filters(model=("org/*", "m"), wrong=True)), str(Filters(model=tuple("abcdefg")))
        ("--model 'org/*' --model m --wrong", '--model a --model b --model c --model d --model e (and 2 more)')
        """
        return self.spelled(_MOST_VALUES)

    def spelled(self, most: int | None = None) -> str:
        """Spell the filters as options of a command line, with at most this many values of each."""
        words: list[str] = []
        for name in self.__struct_fields__:
            option = f"--{name.replace('_', '-')}"
            value = getattr(self, name)
            values = () if value is True else value or ()
            words += (
                [option] if value is True else [f"{option} {quote(one)}" for one in values[:most]]
            )
            if most is not None and len(values) > most:
                words.append(f"(and {len(values) - most:,} more)")
        return " ".join(words)

    def split(self) -> tuple[Filters, Filters]:
        """The filters by name, and all others."""
        by_name = Filters(**{name: getattr(self, name) for name in NAME_FILTERS})
        return by_name, msgspec.structs.replace(self, **dict.fromkeys(NAME_FILTERS, ()))

    @property
    def chooses_outcomes(self) -> bool:
        return self.right or self.wrong or self.errors

    def accepts_evaluation(self, name: str) -> bool:
        return matches_any(name, self.evaluation) and not (
            self.exclude_evaluation and matches_any(name, self.exclude_evaluation)
        )

    def accepts_metric(self, name: str | None) -> bool:
        """`name` is None for records without a metric."""
        return matches_any(name or "", self.metric)

    def accepts_model(self, name: str) -> bool:
        return matches_any(name, self.model) and not (
            self.exclude_model and matches_any(name, self.exclude_model)
        )

    def accepts_sample_id(self, sample_id: int | str) -> bool:
        return not self.sample_id or matches_any(str(sample_id), self.sample_id)

    def accepts_hash(self, sample_hash: str) -> bool:
        return matches_any(sample_hash, self.hash)

    def accepts_fields(self, record: Mapping[str, Any]) -> bool:
        return all(parse_condition(text).matches(record) for text in self.where)

    def accepts_outcome(self, *, is_correct: bool, has_error: bool) -> bool:
        if not self.chooses_outcomes:
            return True
        return self.errors if has_error else self.right if is_correct else self.wrong


_NONE = Filters()


class FilterArguments(TypedDict, total=False):
    """The filters as arguments of a Python function: patterns, one or several of each kind, and outcomes."""

    evaluation: Strings
    metric: Strings
    model: Strings
    sample_id: int | str | Iterable[int | str]
    hash: Strings
    exclude_evaluation: Strings
    exclude_model: Strings
    right: bool
    wrong: bool
    errors: bool
    where: Strings


def make_filters(**given: Unpack[FilterArguments]) -> Filters:
    """Make filters from the arguments of a Python function.

    Raises:
        UsageError: An argument has a wrong type, a pattern is not valid UTF-8, or a condition
            cannot be understood.
    """
    values: dict[str, Any] = dict(given)
    for name, value in list(values.items()):
        if name not in Filters.__struct_fields__:
            raise TypeError(f"make_filters() got an unexpected keyword argument {name!r}")
        if name == "sample_id":
            value = [str(one) if type(one) is int else one for one in _listed(value)]
        if name not in ("right", "wrong", "errors"):
            values[name] = as_tuple(name, value)
            for pattern in values[name]:
                try:
                    pattern.encode()
                except UnicodeEncodeError as exc:
                    raise UsageError(
                        f"no record can have the value {pattern!r}: it is not valid UTF-8"
                    ) from exc
    for condition in values.get("where", ()):
        parse_condition(condition)
    return Filters(**values)


def similar(patterns: Sequence[str], names: Iterable[str | None]) -> list[str]:
    """The names that match none of some patterns, but would if case did not matter."""
    if not patterns:
        return []
    lowered = [pattern.casefold() for pattern in patterns]
    others = (name for name in names if name and not matches_any(name, patterns))
    return [name for name in others if matches_any(name.casefold(), lowered)]


def did_you_mean(names: Iterable[str]) -> str:
    """End a message with names that differ from a pattern in case only; empty if there are none.

    >>> did_you_mean(["org/B", "org/A"]), did_you_mean([])
    ("; did you mean 'org/A', 'org/B'?", '')
    """
    found = sorted(map(repr, names))
    return f"; did you mean {listed(found, 3)}?" if found else ""


def nothing_matches(
    filters: Filters, names: Mapping[str, Sequence[str]], near: Iterable[str]
) -> NoMatchError:
    """The error if no record matches, given the first names of each kind in order, and those that a filter is near."""
    some = {
        kind: [*found[:LISTED_NAMES], *["…"] * (len(found) > LISTED_NAMES)]
        for kind, found in names.items()
    }
    available = "; ".join(f"{kind}: {', '.join(found)}" for kind, found in some.items() if found)
    hint = did_you_mean(near) or f"; {available or 'there are no records'}"
    return NoMatchError(f"no record matches {filters}{hint}")


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    """If there are no patterns, every name matches."""
    return not patterns or matcher(tuple(patterns))(name) is not None


@lru_cache(maxsize=64)
def matcher(patterns: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    themselves = [f"{re.escape(pattern)}\\Z" for pattern in patterns if "[" in pattern]
    return re.compile("|".join([*map(translate, patterns), *themselves])).match
