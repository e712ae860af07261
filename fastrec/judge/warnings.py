"""Warnings: likely mistakes in valid records. They never change a verdict."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from fastrec.judge.findings import Finding, describe
from fastrec.schemas.schema import Schema
from fastrec.schemas.structs import LABELS


def warnings_of(record: Any, schema: Schema, label: str, source: Schema, *, wrong_hash: bool) -> list[Finding]:
    """List the warnings about a record of a version, which was a valid one of the version `source` with this label.

    `wrong_hash` says that no recipe gives its `sample_hash`. This is one pass without calls, because most records give
    no reason for a warning: a function for each code takes three times as long.
    """
    found: list[Finding] = []
    unanswered: list[int] = []  # turns with the id of no earlier tool call
    field, last = schema.turns_field, 0
    if record.interaction_type != "single_turn":
        turns, path, given = getattr(record, field), "$.evaluation.num_turns", record.evaluation.num_turns
        size, made, ids, gap = len(turns), 0, set(), -1
        if given is UNSET or given is None:
            found.append(Finding("warn.num_turns_missing", path, f"missing; the number of turns is {size:,}"))
        elif given != size:
            message = f"expected the number of turns, {size:,}, found {describe(given)}"
            found.append(Finding("warn.num_turns", path, message))
        for index, turn in enumerate(turns):
            if turn.turn_idx != index and gap < 0:
                gap = index  # it shifts all later turns
            if calls := turn.tool_calls:
                made += len(calls)
                for call in calls:
                    ids.add(call.id)
            answered = turn.tool_call_id
            if answered not in ids if type(answered) is str else answered and not ids.issuperset(answered):
                unanswered.append(index)  # one warning per turn: an array may have a million ids
        given, last = record.evaluation.tool_calls_count, max(size - 1, 0)
        if given is not UNSET and given is not None and given != made:
            message = f"expected the number of tool calls, {made:,}, found {describe(given)}"
            found.append(Finding("warn.tool_calls_count", "$.evaluation.tool_calls_count", message))
        if gap >= 0:
            message = f"expected {gap}, found {describe(turns[gap].turn_idx)}"
            found.append(Finding("warn.turn_idx", f"$.{field}[{gap}].turn_idx", message))
    for index, attribution in enumerate(record.answer_attribution):
        if attribution.turn_idx > last:
            path = f"$.answer_attribution[{index}].turn_idx"
            message = f"expected at most the last turn, {last}, found {describe(attribution.turn_idx)}"
            found.append(Finding("warn.attribution_turn", path, message))
    for index in unanswered:
        path = f"$.{field}[{index}].tool_call_id"
        found.append(Finding("warn.tool_call_id", path, "not the id of an earlier tool call"))
    usage = record.token_usage
    if usage and usage.total_tokens != usage.input_tokens + usage.output_tokens:
        message = "not the sum of input_tokens and output_tokens"
        found.append(Finding("warn.total_tokens", "$.token_usage.total_tokens", message))
    if wrong_hash:
        found.append(Finding("warn.sample_hash", "$.sample_hash", "not a hash of input.raw and input.reference"))
    if label not in source.labels:
        code = label_code(label)
        problem = "not a known version" if code == "version.unknown" else "the record follows another version"
        expected = f"expected {' or '.join(sorted(source.labels))}, found {describe(label)}"
        found.append(Finding(code, "$.schema_version", f"{problem}: {expected}"))
    return found


OTHER_TURNS: Final = Finding("version.other_turns", "$.messages", "an unknown key beside the turns in `interactions`")
"""The warning about a valid record that has the turns of another version, too; only the slow path sees them."""


def label_code(label: str) -> str:
    """The code of a `schema_version` that is not one of the version that the record follows."""
    return "version.mismatch" if label in LABELS else "version.unknown"
