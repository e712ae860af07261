"""Upgrade decoded records to the newest version: the same steps as in `upgrade`, but from Struct to Struct.

Tests compare the two. Objects that are equal in both versions are used again. Unknown keys of the root go to
`metadata`; those of other objects, which are open in all versions, stay in their objects.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import UNSET

from fastrec.schemas.schema import Schema
from fastrec.schemas.upgrade import add_moved, as_text, as_texts
from fastrec.schemas.v0_2_1 import SCHEMA as V0_2_1
from fastrec.schemas.v0_2_1 import Evaluation, Input, Message, Output, Performance, ToolCall
from fastrec.schemas.v0_3_0 import SCHEMA as NEWEST
from fastrec.schemas.v0_3_0 import Record
from fastrec.schemas.widen import widen


def upgrade_record(record: Any, schema: Schema) -> tuple[Any, list[str]] | None:
    """Upgrade a valid record of a version; return also the codes of its lossy or ambiguous steps.

    The result is None for a record that only `upgrade_value` upgrades: one with `performance.additional_details`. Nulls
    stay, because the judge drops them anyway. Parts of the given record become parts of the new one.
    """
    if schema is NEWEST:
        return record, []
    found: set[str] = set()
    moved = _unknown(record, len(schema.record.__struct_fields__))
    result_id = _newest_fields(moved, found)
    if record.schema_version not in schema.labels:
        moved["schema_version"] = record.schema_version
        found.add("upgrade.label")
    metadata = record.metadata
    if metadata:
        metadata = as_texts(metadata, "upgrade.metadata_text", found)
    if moved:
        metadata = add_moved(metadata or {}, moved, found)
    if schema is V0_2_1:
        fields = {name: getattr(record, name) for name in V0_2_1.record.__struct_fields__}
        upgraded = Record(**{**fields, "schema_version": NEWEST.label, "metadata": metadata})  # only the label changes
    elif record.performance and getattr(record.performance, "additional_details", UNSET) is not UNSET:
        return None
    else:
        upgraded = _earlier(record, schema, result_id, metadata, found)
    return upgraded, sorted(found)


def upgrade_input(asked: Any, schema: Schema) -> Any:
    return asked if schema in (NEWEST, V0_2_1) else _input(asked, set())


def _newest_fields(moved: dict[str, Any], found: set[str]) -> Any:
    """Take the fields of the newest version out of unknown keys; return the `evaluation_result_id`."""
    result_id = UNSET
    if moved:
        for name in Record.__struct_fields__:
            if moved.get(name, UNSET) is None:
                del moved[name]
        if isinstance(moved.get("evaluation_result_id"), str):
            result_id = moved.pop("evaluation_result_id")
            found.add("upgrade.result_id")
        if moved:
            found.add("upgrade.unknown_root_key")
    return result_id


def _earlier(record: Any, schema: Schema, result_id: Any, metadata: Any, found: set[str]) -> Record:
    sample_id = record.sample_id
    if sample_id.__class__ is not str:
        sample_id = as_text(sample_id)
        found.add("upgrade.sample_id_number")
    turns = record.interactions
    if turns.__class__ is list:
        _look_at_turns(record, schema.turns_field, found)
        turns = [_message(turn, found) for turn in turns]
    return Record(
        schema_version=NEWEST.label,
        evaluation_id=record.evaluation_id,
        model_id=record.model_id,
        evaluation_name=record.evaluation_name,
        evaluation_result_id=result_id,
        sample_id=sample_id,
        sample_hash=record.sample_hash,
        interaction_type=record.interaction_type,
        input=_input(record.input, found),
        output=_output(record.output, found) if record.output else record.output,
        messages=turns,
        answer_attribution=record.answer_attribution,
        evaluation=_evaluation(record.evaluation, found),
        token_usage=record.token_usage,
        performance=_performance(record.performance) if record.performance else record.performance,
        error=record.error,
        metadata=metadata,
    )


def _input(asked: Any, found: set[str]) -> Any:
    reference = asked.reference
    if reference.__class__ is str:
        if not reference:
            found.add("upgrade.reference_empty")
        reference = [reference]
    new = Input(raw=asked.raw, formatted=asked.formatted, reference=reference, choices=asked.choices)
    return _with_unknown(new, asked)


def _output(output: Any, found: set[str]) -> Any:
    raw, trace = output.raw, output.reasoning_trace
    if "" in (raw, trace):
        found.add("upgrade.output_empty")
    new = Output(
        raw=[raw] if raw.__class__ is str else raw,
        reasoning_trace=[trace] if trace.__class__ is str else trace,
    )
    return _with_unknown(new, output)


def _look_at_turns(record: Any, field: str, found: set[str]) -> None:
    """Find ambiguous values that are left as they are."""
    if record.interaction_type == "multi_turn":
        roles = [turn.role for turn in record.interactions]
        if roles.count("assistant") == 1:
            found.add("upgrade.one_assistant_turn")
    for attribution in record.answer_attribution:
        if field in attribution.source:
            found.add("upgrade.attribution_source")


def _message(turn: Any, found: set[str]) -> Any:
    calls, call_id = turn.tool_calls, turn.tool_call_id
    new = Message(
        turn_idx=turn.turn_idx,
        role=turn.role,
        content=turn.content,
        reasoning_trace=turn.reasoning_trace,
        tool_calls=[_tool_call(call, found) for call in calls] if calls else calls,
        tool_call_id=[call_id] if call_id.__class__ is str else call_id,
    )
    return _with_unknown(new, turn)


def _tool_call(call: Any, found: set[str]) -> Any:
    arguments = call.arguments
    if arguments:
        arguments = as_texts(arguments, "upgrade.arguments_text", found)
    return _with_unknown(ToolCall(id=call.id, name=call.name, arguments=arguments), call)


def _evaluation(evaluation: Any, found: set[str]) -> Any:
    score = evaluation.score
    if score.__class__ is bool:
        score = float(score)
        found.add("upgrade.score_from_boolean")
    new = Evaluation(
        score=score,
        is_correct=evaluation.is_correct,
        num_turns=evaluation.num_turns,
        tool_calls_count=evaluation.tool_calls_count,
    )
    return _with_unknown(new, evaluation)


def _performance(performance: Any) -> Any:
    new = Performance(
        latency_ms=performance.latency_ms,
        time_to_first_token_ms=performance.time_to_first_token_ms,
        generation_time_ms=performance.generation_time_ms,
    )
    return _with_unknown(new, performance, added=1)


def _unknown(value: Any, known: int) -> dict[str, Any]:
    """The unknown keys of a Struct with this many known fields; a widened class has fields for them."""
    names = value.__struct_fields__
    if len(names) == known:
        return {}
    pairs = zip(value.__struct_encode_fields__[known:], names[known:], strict=True)
    return {key: child for key, name in pairs if (child := getattr(value, name)) is not UNSET}


def _with_unknown(new: Any, old: Any, added: int = 0) -> Any:
    """Add the unknown keys of the old object to the new one, whose class has `added` more known fields."""
    unknown = _unknown(old, len(new.__struct_fields__) - added)
    if not unknown:
        return new
    fields = {name: getattr(new, name) for name in new.__struct_fields__}
    struct, names = _widened(new.__class__, tuple(sorted(unknown)))
    return struct(**fields, **{names[key]: child for key, child in unknown.items()})


@lru_cache(maxsize=256)
def _widened(struct: type[Any], keys: tuple[str, ...]) -> tuple[type[Any], dict[str, str]]:
    """A class with fields for unknown keys, and the names of its fields by key."""
    wide = widen(struct, {"": keys})
    return wide, dict(zip(wide.__struct_encode_fields__, wide.__struct_fields__, strict=True))
