"""A judge of lines that are known to be records in normal form: the parts of a trusted corpus.

It decodes only what sorting and statistics need, and copies the text. What is not plain takes the way of all lines: a
label that does not name the version of the corpus, turns of two versions, or a value that msgspec cannot decode.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.filters import NAME_FILTERS, Filters
from fastrec.judge.batch import Batch, FilteredOut, RecordFilter
from fastrec.judge.judge import Judge
from fastrec.judge.parse import parse
from fastrec.judge.version_rules import NO_METRIC, REFUSALS, JudgeSettings
from fastrec.schemas.registry import SCHEMAS, TARGETS
from fastrec.schemas.schema import Schema


class _Skipped(msgspec.Struct, gc=False):
    """An object of which nothing is needed."""


class _Turn(msgspec.Struct, gc=False):
    tool_calls: list[_Skipped] | UnsetType | None = UNSET


class _Evaluation(msgspec.Struct, gc=False):
    score: int | float | bool
    is_correct: bool


class _TokenUsage(msgspec.Struct, gc=False):
    input_tokens: int
    output_tokens: int
    total_tokens: int


class _Performance(msgspec.Struct, gc=False):
    latency_ms: int | float | UnsetType | None = UNSET


class _Metadata(msgspec.Struct, gc=False):
    """What metadata say about a metric."""

    metric_kind: Any = None
    lower_is_better: Any = None
    primary_metric: Any = None

    def __bool__(self) -> bool:
        return not (self.metric_kind is self.lower_is_better is self.primary_metric is None)

    def get(self, name: str) -> Any:
        return getattr(self, name)


_TEXTS: Final = ("schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_hash", "interaction_type")
_SINGLE_TURN: Final = b',"interaction_type":"single_turn"'
_HEAD_BYTES: Final = 1 << 10  # in which that is searched for
_MOST_NAMES: Final = 100_000  # of records that are filtered out without being decoded
_encode = msgspec.json.Encoder().encode


def _record_of(schema: Schema, other_turns: list[str], metric: Any) -> type[Any]:
    """The Struct of what is needed of a record of a version; `metric` is the type of `evaluation_result_id`."""
    optional: dict[str, Any] = {
        schema.turns_field: list[_Turn],
        "token_usage": _TokenUsage,
        "performance": _Performance,
        "error": str,
        "metadata": _Metadata,
        "evaluation_result_id": metric,
        **dict.fromkeys(other_turns, msgspec.Raw),
    }
    required: list[Any] = [*((name, str) for name in _TEXTS), ("sample_id", int | str), ("evaluation", _Evaluation)]
    fields = [(name, kind | UnsetType | None, UNSET) for name, kind in optional.items()]
    # Instead of the texts, the numbers of their characters, which are set after decoding.
    characters = [("input", int, 0), ("output", int, 0)]
    hidden = {name: f"{name} characters" for name, _, _ in characters}
    return msgspec.defstruct("_Record", [*required, *fields, *characters], gc=False, rename=hidden)


class KnownCharacters(NamedTuple):
    """The numbers of characters of the records of a part, which its columns have."""

    offsets: Sequence[int]  # where each record begins in the text
    inputs: Sequence[int]
    responses: Sequence[int]


class TrustedJudge(Judge):
    characters: KnownCharacters  # of the part whose lines are judged

    def __init__(self, settings: JudgeSettings) -> None:
        super().__init__(settings)
        assert settings.target
        self._schema = schema = TARGETS[settings.target]
        other_turns = sorted({one.turns_field for one in SCHEMAS.values()} - {schema.turns_field})
        has_metrics = "evaluation_result_id" in schema.sort_fields
        metric = str if has_metrics else NO_METRIC if settings.target_is_guess else msgspec.Raw
        self._decode = msgspec.json.Decoder(_record_of(schema, other_turns, metric)).decode
        self._other_turns: Callable[[Any], Any] = attrgetter(*other_turns)
        filters, by_fields = settings.filters, Filters(where=settings.filters.where)
        by_name = msgspec.structs.replace(filters, where=())
        self._by_name = RecordFilter(by_name).filters_out if by_name else None
        self._by_fields = RecordFilter(by_fields).filters_out if by_fields else None

        only_names = not msgspec.structs.replace(by_name, **dict.fromkeys(NAME_FILTERS, ()))
        # A line with a sure label has these names as they are spelled; no other value matters.
        starts = tuple(b'{"schema_version":%b,' % _encode(label) for label in schema.sure_labels)
        # A metric is among these names, unless it is an unknown key, which comes after all others.
        has_all_names = only_names and (has_metrics or not filters.metric)
        self._starts = starts if by_name and has_all_names else None
        self._filtered_out: dict[bytes, FilteredOut] = {}

    def judge_chunk(self, data: bytes, into: bytearray, *, line: int = 1, offset: int = 0) -> Batch:
        batch, schema, decode, view = Batch(), self._schema, self._decode, memoryview(data)
        labels, other_turns, by_name, by_fields = schema.sure_labels, self._other_turns, self._by_name, self._by_fields
        records, numbers, ends, recipes = batch.records, batch.numbers, batch.ends, batch.recipe_names
        starts, filtered_out, spelled = self._starts, self._filtered_out, b""
        gone: list[FilteredOut] = []
        known = self.characters
        first = bisect_left(known.offsets, offset)  # the position of the first line among the records
        position = number = done = own = 0  # `done`: up to here, the text is in the buffer or left out
        while position < len(data):
            end = position
            if starts and data.startswith(starts, position):
                begin = data.find(b',"model_id":', position)
                end = data.find(b',"sample_id":', begin)
                spelled = data[begin:end]
                if names := filtered_out.get(spelled):
                    if done < position:
                        into += view[done:position]
                    done = position = data.find(b"\n", end) + 1 or len(data)
                    number += 1
                    gone.append(names)
                    continue
            end = data.find(b"\n", end)
            head = data.find(_SINGLE_TURN, position, position + _HEAD_BYTES)
            try:
                if 0 <= head < end:  # texts are not needed
                    head += len(_SINGLE_TURN)
                    # If this key is one of metadata, brackets do not match, and the line is judged.
                    record = decode(data[position:head] + data[data.rfind(b',"evaluation":{', head, end) : end])
                else:
                    record = decode(view[position:end]) if end >= 0 else None
            except REFUSALS:
                record = None
            if record is None or record.schema_version not in labels or other_turns(record) is not UNSET:
                end = end if end >= 0 else len(data)
                into += view[done:position]
                alone = data[position : end + 1]
                batch += super().judge_chunk(alone, into, line=line + number, offset=offset + position)
                done = end + 1
            else:
                name = record.evaluation_name
                names = by_name(record, schema) if by_name else None
                if starts and names is not None and len(filtered_out) < _MOST_NAMES:
                    filtered_out[spelled] = names
                if by_fields and names is None:
                    names = by_fields(record, schema, parse(data[position:end])[0])
                if names is not None:
                    into += view[done:position]
                    done = end + 1
                    gone.append(names)
                else:
                    if record.evaluation_name != name:
                        done = _rename(data, into, (done, position), "evaluation_name", (name, record.evaluation_name))
                    record.input = known.inputs[first + number]
                    record.output = known.responses[first + number]
                    records.append(record)
                    numbers.append(line + number)
                    recipes.append(schema.recipe)
                    ends.append(len(into) + end + 1 - done)
                    own += 1
            position = end + 1
            number += 1
        into += view[done:]
        batch.lines = number
        batch.filtered_out.update(gone)
        batch.versions[schema.name] += own
        return batch


def _rename(data: bytes, into: bytearray, start: tuple[int, int], field: str, names: tuple[str, str]) -> int:
    """Append text up to a name in the head of a line, and the new name; return where the rest begins."""
    (done, position), (old, new) = start, names
    mark = f',"{field}":'.encode()  # quotes inside a string are escaped, so the first one is the field
    begin = data.find(mark, position) + len(mark)
    into += memoryview(data)[done:begin]
    into += _encode(new)
    return begin + len(_encode(old))
