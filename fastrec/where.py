"""Conditions on fields, as `--where` takes them: FIELD OP VALUE.

    metadata.subject=law              token_usage.total_tokens>500          output.raw~I'm sorry
    error?                            !output.reasoning_trace?              metadata."a key"!=x

FIELD is a path as in the schema, with any unknown key; a key with other characters than letters,
digits, `_`, `-`, `/` and spaces is quoted. A list stands for each of its items. `output.raw` is
everything that the model said: its outputs and the turns of the assistant. Some fields that no
record has are computed: see `_COMPUTED`.

    =  !=  <  <=  >  >=   as numbers if both are numbers or spell one (true is 1), else as texts;
                          only a text is below or above another text
    ~                     contains, ignoring case
    =~                    a regular expression finds something; RE2 runs in linear time
    ==                    the record is in the group of `--group-by FIELD` with this name, which may
                          be a string of JSON; null is the group of records without the field
    ?                     the field is there, and neither null nor empty
    !FIELD …              the condition does not hold

A record without the field does not match, unless the condition is negated.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from math import isinf
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from fastrec.errors import NoMatchError, UsageError, did_you_mean, need
from fastrec.parameters import Notice

_KEY = r'(?:"(?:[^"\\]|\\.)*"|[\w/ -]*[\w/-])'
_PATH = re.compile(rf"{_KEY}(?:\.{_KEY})*")
_CONDITION = re.compile(
    rf"\s*(!?)\s*({_PATH.pattern})\s*(=~|==|!=|<=|>=|=|<|>|~|\?)\s*(.*)", re.DOTALL
)
_KEYS = re.compile(_KEY)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]{1,999})?(?:[eE][+-]?[0-9]{1,9})?")
# A limit has more spellings, as in `n>.5` or `n<007`; as a value, 007 is a name.
_LIMIT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_LARGEST = 2**1023  # a larger integer may be no double

_NAMES_OF_ROWS = ("evaluation_name", "model_id")
FieldPath = tuple[str, ...]  # the keys that lead to a field
Record = Mapping[str, Any]  # decoded
ScopeName = tuple[str, str | None]  # evaluation and metric
GroupValues = dict[str, str | None]  # by field of `--group-by`; None for records without it


class Condition(NamedTuple):
    negated: bool
    path: FieldPath
    operator: str
    holds: Callable[[Any], bool]  # whether a value of the field fulfils the condition

    @property
    def field(self) -> str:
        return spell_path(self.path)

    def matches(self, record: Record) -> bool:
        return any(map(self.holds, values_of(record, self.path))) is not self.negated


@lru_cache(maxsize=64)
def parse_condition(text: str) -> Condition:
    """Parse one condition.

    >>> isnt_law = parse_condition("!metadata.subject = law")
    >>> isnt_law.field, isnt_law.negated
    ('metadata.subject', True)
    >>> isnt_law.matches({"metadata": {"subject": "law"}}), isnt_law.matches({})
    (False, True)

    Raises:
        UsageError: It is not FIELD OP VALUE, or its regular expression is wrong.
    """
    match = _CONDITION.fullmatch(text)
    if not match or (match[3] == "?") == bool(match[4]):
        raise UsageError(
            f"{text!r} is not a condition: write FIELD=VALUE, or != < <= > >= ~ (contains) =~ "
            "(regular expression) in place of =, or FIELD? (is there)"
        )
    negated, name, operator, value = match.groups()
    path = parse_path(name)
    if operator == "==" and value == "null":
        return Condition(not negated, path, operator, lambda value: bool(_group_names(value)))
    return Condition(bool(negated), path, operator, _holds(operator, value))


def exact_condition(path: FieldPath, value: str | None) -> str:
    """Spell the condition that a record is in a group: it has a value, or lacks the field.

    >>> exact_condition(("metadata", "subject"), " law")
    'metadata.subject==" law"'
    """
    return f"{spell_path(path)}=={_spell(value).decode()}"


def parse_path(name: str) -> FieldPath:
    """Split the path of a field into its keys.

    >>> parse_path('metadata."a.b".c d')
    ('metadata', 'a.b', 'c d')

    Raises:
        UsageError: It is not a path.
    """
    if not _PATH.fullmatch(name):
        raise UsageError(f"{name!r} is not a field: write its path, such as metadata.subject")
    return tuple(
        msgspec.json.decode(key) if key.startswith('"') else key.strip()
        for key in _KEYS.findall(name)
    )


def spell_path(path: Iterable[str]) -> str:
    """Spell a path as it is parsed.

    >>> spell_path(("metadata", "a.b"))
    'metadata."a.b"'
    """
    return ".".join(
        key if _KEYS.fullmatch(key) else msgspec.json.encode(key).decode() for key in path
    )


def values_of(record: Record, path: FieldPath) -> Iterator[Any]:
    """Yield the values that a decoded record has at a path.

    None of them is a list, and null counts as missing.

    >>> list(values_of({"metadata": {"tags": ["a", None, "b"]}}, ("metadata", "tags")))
    ['a', 'b']
    """
    if compute := _COMPUTED.get(path):
        yield from compute(record)
    else:
        yield from _walk(record, path, 0)


def _walk(value: Any, path: FieldPath, at: int) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _walk(item, path, at)
    elif at == len(path):
        if value is not None:
            yield value
    elif isinstance(value, Mapping) and path[at] in value:
        yield from _walk(value[path[at]], path, at + 1)


def said(record: Record) -> Iterator[str]:
    """Yield everything that the model said: its outputs, and the turns of the assistant."""
    yield from (text for text in _walk(record, ("output", "raw"), 0) if isinstance(text, str))
    for turn in _turns(record) or ():
        if turn.get("role") == "assistant" and isinstance(content := turn.get("content"), str):
            yield content


def _turns(record: Record) -> list[Mapping[str, Any]] | None:
    """The turns of a conversation; None if it is a single turn.

    The field of turns of another version may be an unknown key, which does not count.
    """
    asked = record.get("input")
    is_old = isinstance(asked, dict) and isinstance(asked.get("reference"), str)  # schema 0.2.0
    if not is_old and "messages" not in record:
        is_old = record.get("interaction_type") != "single_turn"  # 0.2.0 as it was released
    turns = record.get("interactions" if is_old else "messages")
    return [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else None


# What became of an answer, by correct + 2 · error.
OUTCOMES = ("wrong", "right", "error", "error")


def _outcome(record: Record) -> str:
    return OUTCOMES[bool(record["evaluation"]["is_correct"]) + 2 * bool(record.get("error"))]


_COMPUTED: dict[FieldPath, Callable[[Record], Iterable[Any]]] = {
    ("output", "raw"): said,
    ("response", "characters"): lambda record: [sum(map(len, said(record)))],
    ("response", "words"): lambda record: [sum(len(text.split()) for text in said(record))],
    ("outcome",): lambda record: [_outcome(record)],
    ("turns",): lambda record: [1 if (turns := _turns(record)) is None else len(turns)],
    ("tool_calls",): lambda record: [
        sum(len(turn.get("tool_calls") or ()) for turn in _turns(record) or ())
    ],
}


def _holds(operator: str, wanted: str) -> Callable[[Any], bool]:
    if operator == "?":
        return lambda value: value not in ("", {})
    if operator == "~":
        phrase = wanted.casefold()
        return lambda value: phrase in text_of(value).casefold()
    if operator == "=~":
        search = compile_pattern(wanted).search
        return lambda value: search(text_of(value)) is not None
    if operator == "==":
        name = wanted
        with suppress(msgspec.DecodeError, ValueError):
            name = msgspec.json.decode(wanted, type=str)
        return lambda value: name in _group_names(value)
    compare = _COMPARISONS[operator]
    number: float | Decimal | None = number_of(wanted)
    is_limit = operator not in ("=", "!=")
    if is_limit and number is None and _LIMIT.fullmatch(wanted):
        number = Decimal(wanted) if isinf(float(wanted)) else float(wanted)

    def holds(value: Any) -> bool:
        own = value if isinstance(value, bool) else number_of(value)
        if number is None or own is None:
            return (isinstance(value, str) or not is_limit) and compare(text_of(value), wanted)
        return compare(own, number)

    return holds


def number_of(value: Any) -> float | None:
    """A number, or the number that a text spells; None if it is anything else.

    A text with a number that is too large or too small for a double is only a text.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number = float(value)
        # Those of the mantissa: a number without any is really zero.
        digits = value.upper().partition("E")[0].strip("-0.")
        if isinf(number) or (digits and not number):
            return None
        return int(value) if value.lstrip("-").isdigit() else number
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


# What msgspec does not encode is a `LongInteger`: its representation is its digits.
_spell = msgspec.json.Encoder(enc_hook=lambda integer: msgspec.Raw(repr(integer).encode())).encode


def text_of(value: Any) -> str:
    """A text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else _spell(value).decode()


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern of RE2, which takes linear time for every text."""
    need("a regular expression", "re2")
    import re2  # noqa: PLC0415 - an optional package

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        raise UsageError(
            f"{pattern!r} is not a regular expression of RE2: {exc.args[0].decode()}"
        ) from exc


class GroupBy(msgspec.Struct, frozen=True):
    """How to group records: by the value of a field, or by the bin that its number is in.

    While a grouped corpus is made, the group of a record is part of its `evaluation_name`, so that
    all that is counted by evaluation is counted by group. It is spelled without colons, since the
    judge counts those.
    """

    path: FieldPath
    bins: int = 0  # the number of bins; 0 groups by value
    # The borders of the bins: a number belongs to the first whose border it does not exceed.
    edges: tuple[float, ...] = ()

    @property
    def field(self) -> str:
        return spell_path(self.path)

    def code_of(self, value: Any) -> str:
        """The group of a value as letters and digits (`ungrouped_name`).

        Empty if the record lacks the field.
        """
        if value is not None and self.bins:
            value = None if (number := number_of(value)) is None else self._bin(number)
        return "" if value is None else "x" + text_of(value).encode(errors="surrogatepass").hex()

    def _bin(self, number: float) -> str:
        """Spell the bin of a number.

        >>> [GroupBy(("n",), 3, (1.0, 2.5))._bin(number) for number in (1, 2, 3)]
        ['up to 1', '1 to 2.5', 'above 2.5']
        """
        at = bisect_left(self.edges, number)
        edges = ["", *map(_spell_edge, self.edges), ""]
        low, high = edges[at : at + 2]
        if low and high:
            return f"{low} to {high}"
        if low or high:
            return f"above {low}" if low else f"up to {high}"
        return "all numbers"


def _spell_edge(edge: float) -> str:
    """Spell the border of two bins with ten digits. An integer may be too large for a double."""
    return f"{edge if abs(edge) < _LARGEST else Decimal(edge):.10g}"


_GROUP_MARK = "\x1f"
_MOST_GROUPS = 50  # of an evaluation and metric


class _Named(Protocol):
    evaluation_name: str
    metric: str | None


class Grouped(_Named, Protocol):
    """The result of an evaluation and metric, or of one of its groups."""

    group: GroupValues | None


_Grouped = TypeVar("_Grouped", bound=Grouped)
_Item = TypeVar("_Item", bound=_Named)


def parse_group(text: str) -> GroupBy:
    """Parse a field to group by, or FIELD:N for N bins of its numbers.

    >>> parse_group("token_usage.total_tokens:4").bins
    4
    """
    match = re.fullmatch(r"(.*?)(?::(\d{1,3}))?", text, re.DOTALL)
    assert match
    field, bins = match.groups(default="0")
    if match[2] and int(bins) < 2:
        raise UsageError(f"{text!r}: at least 2 bins are needed")
    return GroupBy(parse_path(field), int(bins))


def group_values(values: Iterable[Any]) -> list[Any]:
    """The values that a record counts under; None if it lacks the field.

    A list in JSON stands for its items: values of metadata are texts since version 0.3.0.

    >>> group_values(['["algebra", "tables"]']), group_values(["[sic]"]), group_values([])
    (['algebra', 'tables'], ['[sic]'], [None])
    """
    flattened: list[Any] = []
    for value in values:
        items = value
        if isinstance(value, str) and value.startswith("["):
            with suppress(msgspec.DecodeError):
                items = msgspec.json.decode(value)
        flattened += _walk(items, (), 0)
    return flattened or [None]


def _group_names(value: Any) -> list[str]:
    """The groups that a value of a field belongs to."""
    return [text_of(item) for item in group_values([value]) if item is not None]


def grouped_name(name: str, codes: Iterable[str]) -> str:
    """The name of a group as an evaluation, given the code of its value by each field."""
    return _GROUP_MARK.join([name, *codes])


def ungrouped_name(name: str, groups: Sequence[GroupBy]) -> tuple[str, GroupValues]:
    name, *codes = name.rsplit(_GROUP_MARK, len(groups))
    values = [
        bytes.fromhex(code[1:]).decode(errors="surrogatepass") if code else None for code in codes
    ]
    return name, {group.field: value for group, value in zip(groups, values, strict=True)}


def without_group(name: str) -> str:
    return name.partition(_GROUP_MARK)[0]


def no_groups(groups: Iterable[GroupBy]) -> NoMatchError:
    """Say that no record has a value to group by."""
    needed = [f"a number in {by.field}" if by.bins else f"the field {by.field}" for by in groups]
    return NoMatchError(f"no record has {' or '.join(needed)}")


def largest_groups(
    totals: Iterable[Grouped],
    grouped: Iterable[_Item],
    groups: Sequence[GroupBy],
    size: Callable[[_Item], int],
    notice: Notice,
) -> list[_Item]:
    """The groups of each evaluation and metric that are shown, the largest first.

    Raises:
        NoMatchError: No record has any of the fields.
    """
    by_scope = defaultdict[ScopeName, list[_Item]](list)
    all_values = set[str | None]()
    for group in grouped:
        name, values = ungrouped_name(group.evaluation_name, groups)
        all_values.update(values.values())
        by_scope[name, group.metric].append(group)
    if all_values == {None}:
        raise no_groups(groups)
    shown = []
    for total in totals:
        scope = total.evaluation_name, total.metric
        largest = sorted(by_scope[scope], key=size, reverse=True)
        if len(largest) > _MOST_GROUPS:
            name = " ".join(filter(None, scope))
            notice(f"{name}: the {_MOST_GROUPS} largest of {len(largest):,} groups are shown")
        shown += largest[:_MOST_GROUPS]
    return shown


def with_groups(
    totals: Iterable[_Grouped], grouped: Iterable[_Grouped], groups: Sequence[GroupBy]
) -> list[_Grouped]:
    """Each evaluation and metric, followed by its groups in their order.

    `grouped` have the names of groups.
    """
    by_scope = defaultdict(list)
    for group in grouped:
        group.evaluation_name, group.group = ungrouped_name(group.evaluation_name, groups)
        by_scope[group.evaluation_name, group.metric].append(group)
    results = []
    for total in totals:
        results += [total, *by_scope[total.evaluation_name, total.metric]]
    return results


def empty_group(evaluations: Iterable[Any]) -> GroupValues:
    """The values of a total: null for each field that groups have, but for names of rows."""
    groups = (getattr(evaluation, "group", None) or {} for evaluation in evaluations)
    return {field: None for group in groups for field in group if field not in _NAMES_OF_ROWS}


def with_edges(group: GroupBy, numbers: Mapping[Any, int]) -> GroupBy:
    """Set the borders of bins so that these have about the same number of values.

    Given is how often each number occurs.
    """
    if not numbers:
        return group
    ordered = sorted(numbers)
    ends = list(accumulate(map(numbers.__getitem__, ordered)))
    counts = (max(ends[-1] * at // group.bins, 1) for at in range(1, group.bins))
    borders = {ordered[bisect_left(ends, count)] for count in counts}
    return GroupBy(group.path, group.bins, tuple(sorted(borders - {ordered[-1]})))


def paths_of(value: Any, before: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the path of each key in a decoded record; a list stands for each of its items.

    >>> sorted(map(spell_path, paths_of({"metadata": {"tags": [{"x": 1}]}})))
    ['metadata', 'metadata.tags', 'metadata.tags.x']
    """
    if isinstance(value, list):
        for item in value:
            yield from paths_of(item, before)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield (*before, key)
            yield from paths_of(inner, (*before, key))


def unknown_field(paths: Iterable[FieldPath], known: Iterable[FieldPath]) -> str | None:
    """Say which of some fields is not known, with the nearest names that are.

    None if all are known.
    """
    there = {*known, *_COMPUTED}
    for path in paths:
        if path not in there:
            hint = did_you_mean(spell_path(path), map(spell_path, there))
            hint = hint or "; `fastrec cat CORPUS --limit 1` shows them"
            return f"no record has the field {spell_path(path)}{hint}"
    return None
