"""Rows: the values of a record that statistics need, small enough to be stored beside its key.

Pass 1 builds the row when it decodes the record. Pass 2 adds it to the statistics if the record is
kept. So no record is decoded twice, and nothing is subtracted for duplicates. `Sums` is the base of
all counts that are made from rows.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import frexp, ldexp
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Self, TypeVar

from msgspec import Raw, Struct

from fastrec.limits import in_batches
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.schemas.view import view_decoder
from fastrec.summary.document import Kind

_Number = TypeVar("_Number", int, float)


class Sums(Struct):
    """Counts that add up field by field; those in a Counter or in a dict of Sums add up by key."""

    # How to merge two values of fields that do not add up.
    MERGES: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {}

    def __iadd__(self, other: Self) -> Self:
        for name in self.__struct_fields__:
            merge = self.MERGES.get(name, add_up)
            setattr(self, name, merge(getattr(self, name), getattr(other, name)))
        self._shorten()
        return self

    def _shorten(self) -> None:
        """Drop examples beyond those that are kept, after each addition; most sums have none."""


def add_up(mine: Any, theirs: Any) -> Any:
    """Add to a count; to a Counter or a defaultdict, key by key."""
    if isinstance(mine, dict):
        for key, value in theirs.items():
            mine[key] += value
    else:
        mine += theirs
    return mine


USUAL_TYPE = "single_turn"
_SMALLEST = -(2**63)
_LARGEST = 2**63 - 1
_MOST_INPUT_BYTES = 12 << 20  # of inputs whose number of characters is remembered
_ENTRY_BYTES = 200  # memory of such an input besides its text
# Buckets per power of two. A bucket spans 1/64 of its value, so its middle is within 1/128 of
# every latency in it.
BUCKETS_PER_POWER = 64

FIRST_EXPONENT = 1_100  # added to exponents, which go down to -1073


class Column:
    SOURCE = 0
    LINE = 1
    INTERACTION_TYPE = 2  # None if it is the usual one
    SCHEMA_VERSION = 3  # None if it is that of the corpus
    CORRECT = 4
    SCORE = 5
    ERROR = 6
    TURNS = 7
    TOOL_CALLS = 8
    TOKENS = 9  # of input and output, and in total; None if unknown
    LATENCY = 10  # in milliseconds; None if unknown
    NOTES = 11  # what its metadata say about the metric, as `Note`
    INPUT_CHARACTERS = 12
    RESPONSE_CHARACTERS = 13  # of everything that the model said


class Note:
    """Bits of what the metadata of records say about their metric."""

    LOWER = 1  # lower is better
    PRIMARY = 2
    JUDGEMENT = 4
    COST = 8
    BOOKKEEPING = 16


_AT_ONCE = 500


def columns_of(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The columns of rows, of which there is at least one.

    A few hundred rows stay in the cache while all of their values are read: four times as fast as
    twenty thousand at once.
    """
    columns: list[list[Any]] = [[] for _ in rows[0]]
    for batch in in_batches(rows, _AT_ONCE):
        for column, more in zip(columns, zip(*batch, strict=True), strict=True):
            column += more
    return columns


_TRUE = ("true", True)
KINDS: dict[Kind, int] = {
    "judgement": Note.JUDGEMENT,
    "cost": Note.COST,
    "bookkeeping": Note.BOOKKEEPING,
}
_BITS: dict[Any, int] = {**KINDS}


# From a row to the outcome of the record: whether it is correct, its score, and whether it has an
# error.
outcome_of = itemgetter(Column.CORRECT, Column.SCORE, Column.ERROR)


@lru_cache(maxsize=1)
def row_maker(schema: Schema = DEFAULT_SCHEMA) -> Callable[[Any, int, int], tuple[Any, ...]]:
    """Make the function from a record, the number of its piece of input and its line to its row.

    The tasks of a process share it, as they share the inputs that are known.
    """
    turns_of = attrgetter(schema.turns_field)
    schema_label = schema.label
    # By identity of the object, which stays as long as it is here: an input that was judged before
    # is the same object, so its characters are counted once.
    known_inputs: dict[int, tuple[Raw, int]] = {}
    decode_input = view_decoder(raw=str)
    known_bytes = 0

    def count_input(asked: Any) -> int:
        nonlocal known_bytes
        if asked.__class__ is not Raw:
            return len(asked.raw)
        if known_bytes > _MOST_INPUT_BYTES:
            known_inputs.clear()
            known_bytes = 0
        known_bytes += _ENTRY_BYTES + memoryview(asked).nbytes
        characters = len(decode_input(asked).raw)
        known_inputs[id(asked)] = asked, characters
        return characters

    def row_of(record: Any, source: int, line: int) -> tuple[Any, ...]:
        evaluation = record.evaluation
        score = evaluation.score
        usage = record.token_usage
        times = record.performance
        latency = None
        if times:
            latency = times.latency_ms
            if latency.__class__ is not float:
                latency = to_portable(latency) if isinstance(latency, int) else None
        known = known_inputs.get(id(record.input))
        output = record.output
        turns = turns_of(record)
        tool_calls = 0
        said = 0
        if output:
            raw = output.raw
            said = len(raw) if raw.__class__ is str else sum(map(len, raw))
        if turns:
            tool_calls = sum([len(turn.tool_calls) for turn in turns if turn.tool_calls])
            said += sum(
                [len(turn.content) for turn in turns if turn.role == "assistant" and turn.content]
            )
        return (
            source,
            line,
            None if record.interaction_type == USUAL_TYPE else record.interaction_type,
            None if record.schema_version == schema_label else record.schema_version,
            evaluation.is_correct,
            score if score.__class__ is float or score.__class__ is bool else to_portable(score),
            bool(record.error),
            len(turns) if turns.__class__ is list else 1,
            tool_calls,
            tuple(map(to_portable, (usage.input_tokens, usage.output_tokens, usage.total_tokens)))
            if usage
            else None,
            latency,
            _notes_of(record.metadata) if record.metadata else 0,
            known[1] if known else count_input(record.input),
            said,
        )

    return row_of


def _notes_of(metadata: Mapping[str, Any]) -> int:
    kind = metadata.get("metric_kind")
    notes = _BITS.get(kind, 0) if kind.__class__ is str else 0
    if metadata.get("lower_is_better") in _TRUE:
        notes |= Note.LOWER
    return notes | Note.PRIMARY if metadata.get("primary_metric") in _TRUE else notes


def to_portable(number: int) -> int | str:
    """Make an integer that msgpack can hold: beyond 64 bits a text, `digits p zeros`."""
    if _SMALLEST <= number <= _LARGEST:
        return int(number)
    zeros = (
        number & -number
    ).bit_length() - 1  # the binary digits of sums of scores end with a thousand of them
    return f"{number >> zeros:x}p{zeros}"


def from_portable(value: _Number | str) -> _Number | int:
    if isinstance(value, str):
        digits, _, zeros = value.partition("p")
        return int(digits, 16) << int(zeros or 0)
    return value


def bucket_of(value: float) -> int:
    """The bucket of a number from 0 on: its power of two, and the top six bits of its mantissa."""
    if value == 0:
        return 0
    try:
        mantissa, exponent = frexp(value)
    except OverflowError:  # an integer too large for a double
        mantissa = 0.5
        exponent = 1024
    # Bucket 0 is zero itself. Exponents go down to -1073.
    return (exponent + FIRST_EXPONENT) * BUCKETS_PER_POWER + int(
        (mantissa - 0.5) * 2 * BUCKETS_PER_POWER
    )


def bucket_value(bucket: int) -> float:
    """The middle of a bucket: its relative distance to both ends is the same."""
    if bucket == 0:
        return 0.0
    exponent, step = divmod(bucket, BUCKETS_PER_POWER)
    low, high = (0.5 + end / (2 * BUCKETS_PER_POWER) for end in (step, step + 1))
    return ldexp(2 * low * high / (low + high), exponent - FIRST_EXPONENT)
