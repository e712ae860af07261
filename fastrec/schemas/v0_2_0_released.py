"""The structure that was released as version 0.2.0, five days after the one that this project calls 0.2.0.

References, answers and reasoning traces may be arrays. Everything else is as in `v0_2_0`, and a record that follows
both is one of 0.2.0.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, UnsetType

from fastrec.schemas import v0_2_0
from fastrec.schemas.schema import Schema, labels_of


class Input(v0_2_0.Input, kw_only=True):
    reference: list[str] | str  # type: ignore[assignment]


class Output(v0_2_0.Output, kw_only=True):
    raw: list[str] | str  # type: ignore[assignment]
    reasoning_trace: list[str] | str | UnsetType = UNSET  # type: ignore[assignment]


class Record(v0_2_0.Record, kw_only=True):
    """One answer of one model to one question: one line of a shard."""

    input: Input
    output: Output | UnsetType | None = UNSET


_LABELS: Final = labels_of("0.2.0")
_KNOWN: Final = len(Record.__struct_fields__)


def _claims(record: Any) -> bool:
    """Whether a record that decodes is surely of this version: not of 0.2.0, and not of a later one."""
    asked, output = record.input, record.output
    texts = [asked.reference, *((output.raw, output.reasoning_trace) if output else ())]
    if all(text.__class__ is not list for text in texts):
        return False
    if (
        any(text.__class__ is str for text in texts)
        or record.interactions is not UNSET
        or record.sample_id.__class__ is not str
        or record.evaluation.score.__class__ is bool
        or any(value.__class__ is not str for value in (record.metadata or {}).values())
    ):
        return True
    unknown = [name for name in record.__struct_fields__[_KNOWN:] if getattr(record, name) is not UNSET]
    if unknown == ["evaluation_result_id"] and record.evaluation_result_id.__class__ is str:
        return False  # one of 0.3.0, whatever its label says
    return bool(unknown) or record.schema_version in _LABELS


SCHEMA: Final = Schema(
    name="0.2.0-released",
    about="0.2.0 as it was released: references, answers and reasoning traces may be lists",
    label="0.2.0",
    labels=_LABELS,
    record=Record,
    recipe="R5",
    sure_labels=frozenset(),  # a record with these labels may be of 0.2.0
    claims=_claims,
)
