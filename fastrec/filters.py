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
from pathlib import Path
from shlex import quote
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from fastrec.errors import NoMatchError, UsageError, did_you_mean, listed, nearest, shown
from fastrec.parameters import FILTERS, NAME_FILTERS, OUTCOMES
from fastrec.parameters import AnyPath as AnyPath  # noqa: PLC0414 - public here
from fastrec.parameters import FilterArguments as FilterArguments  # noqa: PLC0414
from fastrec.parameters import Paths as Paths  # noqa: PLC0414
from fastrec.parameters import Strings as Strings  # noqa: PLC0414
from fastrec.where import Record, parse_condition

Patterns = tuple[str, ...]  # names, or patterns of names
_MOST_VALUES = 5  # of an option, in a message
LISTED_NAMES = 10  # of each kind, in the error if no record matches


def as_tuple(name: str, values: Strings) -> Patterns:
    """The values of an argument, each once; UsageError if one of them is not a string.

    >>> as_tuple("model", "org/m"), as_tuple("model", ["b", "a", "b"]), as_tuple("model", ())
    (('org/m',), ('b', 'a'), ())
    """
    given = _listed(values)
    for value in given:
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a string or a list of strings, not {value!r}")
    return tuple(dict.fromkeys(given))


def _listed(values: Any) -> list[Any]:
    is_single = isinstance(values, (str, bytes, os.PathLike)) or not isinstance(values, Iterable)
    return [values] if is_single else list(values)


def _spelled(paths: Iterable[Any]) -> list[Any]:
    return [os.fspath(path) if isinstance(path, os.PathLike) else path for path in paths]


def several_paths(name: str, *values: Paths) -> tuple[AnyPath, ...]:
    """The paths of an argument, as they are given, each once.

    UsageError if one is neither a string nor a path.
    """
    paths = [path for value in values for path in _listed(value)]
    as_tuple(name, _spelled(paths))
    return tuple({os.fspath(path): path for path in paths}.values())


def field_names(name: str, values: Strings) -> Patterns:
    """The names of fields; one string may have several names, with commas in between.

    >>> field_names("by", "a, b"), field_names("by", ["a", "b"])
    (('a', 'b'), ('a', 'b'))
    """
    names = [field.strip() for value in as_tuple(name, values) for field in value.split(",")]
    return tuple(dict.fromkeys(filter(None, names)))


class Filters(Struct, frozen=True):
    """The values of the filters that `FilterArguments` lists. An empty one matches every record."""

    evaluation: Patterns = ()
    metric: Patterns = ()  # records without a metric have an empty one
    model: Patterns = ()
    sample_id: Patterns = ()
    hash: Patterns = ()
    exclude_evaluation: Patterns = ()
    exclude_model: Patterns = ()
    right: bool = False
    wrong: bool = False
    errors: bool = False
    where: Patterns = ()

    def __bool__(self) -> bool:
        return self != _NONE

    def __str__(self) -> str:
        """Spell the filters for a message, as options of a command line.

        Of many values of an option, the first ones.

        >>> str(Filters(model=("org/*", "m"), wrong=True))
        "--model 'org/*' --model m --wrong"
        >>> str(Filters(hash=tuple("abcdefg")))
        '--hash a --hash b --hash c --hash d --hash e (and 2 more)'
        """
        return self.spelled(_MOST_VALUES)

    def spelled(self, most: int | None = None) -> str:
        """Spell the filters as options of a command line, with at most this many values of each."""
        words: list[str] = []
        for name in self.__struct_fields__:
            option = f"--{name.replace('_', '-')}"
            value = getattr(self, name)
            if name in OUTCOMES:
                words += [option] if value else []
                continue
            words += [f"{option} {quote(pattern)}" for pattern in value[:most]]
            if most is not None and len(value) > most:
                words.append(f"(and {len(value) - most:,} more)")
        return " ".join(words)

    def split(self) -> tuple[Filters, Filters]:
        """The filters by name, and all others.

        The others choose evaluations, too: no other record has to be looked at.
        """
        by_name = Filters(**{name: getattr(self, name) for name in NAME_FILTERS})
        others = replace(self, **dict.fromkeys(NAME_FILTERS, ()))
        return by_name, others and others.within(self)

    def within(self, filters: Filters) -> Filters:
        """These filters, in the evaluations that others choose."""
        return replace(
            self,
            evaluation=filters.evaluation,
            exclude_evaluation=filters.exclude_evaluation,
        )

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

    def accepts_fields(self, record: Record) -> bool:
        return all(parse_condition(text).matches(record) for text in self.where)

    def accepts_outcome(self, *, is_correct: bool, has_error: bool) -> bool:
        if not self.chooses_outcomes:
            return True
        return self.errors if has_error else self.right if is_correct else self.wrong


_NONE = Filters()


def make_filters(**given: Unpack[FilterArguments]) -> Filters:
    """Make filters from the arguments of a Python function.

    Raises:
        UsageError: An argument has a wrong type, a pattern is not valid UTF-8, or a condition
            cannot be understood.
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in FILTERS:
            hint = did_you_mean(name, FILTERS)
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")
        values[name] = value if name in OUTCOMES else _patterns(name, value)
    if files := values.pop("questions", ()):
        patterns = values.get("hash", ())
        values["hash"] = tuple(name for name in _read_hashes(files) if matches_any(name, patterns))
        if not values["hash"]:
            raise UsageError("no question of the file matches --hash")
    for condition in values.get("where", ()):
        parse_condition(condition)
    return Filters(**values)


def _read_hashes(files: Iterable[str]) -> list[str]:
    """The hashes in files, one on each line; lines that begin with # are comments."""
    hashes: dict[str, None] = {}
    for file in files:
        try:
            lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            raise UsageError(f"the questions {shown(file)} cannot be read: {reason}") from exc
        hashes |= dict.fromkeys(line.strip() for line in lines if not line.startswith("#"))
    hashes.pop("", None)
    if not hashes:
        raise UsageError(f"there is no question in {listed(map(shown, files))}")
    return list(hashes)


def _patterns(name: str, value: Any) -> Patterns:
    if name == "questions":
        value = _spelled(_listed(value))
    if name == "sample_id":
        value = [str(number) if type(number) is int else number for number in _listed(value)]
    patterns = as_tuple(name, value)
    for pattern in patterns:
        try:
            pattern.encode()
        except UnicodeEncodeError as exc:
            raise UsageError(
                f"no record can have the value {pattern!r}: it is not valid UTF-8"
            ) from exc
    return patterns


def similar(patterns: Sequence[str], names: Iterable[str | None]) -> list[str]:
    """The names that match none of some patterns, but would if case did not matter."""
    lowered = [pattern.casefold() for pattern in patterns]
    others = (name for name in names if name and not matches_any(name, patterns))
    return [name for name in others if matches_any(name.casefold(), lowered)]


def nothing_matches(
    filters: Filters, names: Mapping[str, Sequence[str]], near: Iterable[str] | None = None
) -> NoMatchError:
    """The error if no record matches, given the names of each kind: evaluations, metrics, models.

    It lists the names that are `near` a filter, or else the first names of each kind.
    """
    nearby = list(near or ())
    lists = []
    for kind, known in names.items():
        patterns = getattr(filters, kind.removesuffix("s"))
        if near is None and patterns and not any(matches_any(name, patterns) for name in known):
            nearby += [name for pattern in patterns for name in nearest(pattern, known)]
        more = ["…"] if len(known) > LISTED_NAMES else []
        if known:
            lists.append(f"{kind}: {', '.join([*known[:LISTED_NAMES], *more])}")
    hint = f"; {'; '.join(lists) or 'there are no records'}"
    if nearby:
        hint = f"; did you mean {listed(sorted(map(repr, nearby)), 3)}?"
    return NoMatchError(f"no record matches {filters}{hint}")


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    """If there are no patterns, every name matches."""
    return not patterns or matcher(tuple(patterns))(name) is not None


@lru_cache(maxsize=1024)
def matcher(patterns: Patterns) -> Callable[[str], object]:
    """A function whose result is None for names that match none of the patterns."""
    exact = dict.fromkeys(patterns, True)  # a name with brackets matches itself
    special = [pattern for pattern in patterns if _SPECIAL.search(pattern)]
    if not special:
        return exact.get
    match = re.compile("|".join(map(translate, special))).match
    return lambda name: exact.get(name) or match(name)


_SPECIAL = re.compile(r"[*?\[]")
