"""The table of codes: every reason for which a line is rejected, and every warning.

The codes are part of the interface: scripts match on them, summaries count by them. A code is never renamed and
never reused; a new reason gets a new row. The order of the rows is the order in which the findings of one line are
listed, so the first error of a line, which names it in the summary, is always the most fundamental one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fastrec.schemas.registry import SCHEMAS

__all__ = ["CODES", "ERRORS", "RANK", "WARNINGS", "Code"]


class Code(NamedTuple):
    """One row: the code, its severity and what it means, in a sentence for the documentation."""

    code: str
    severity: str
    meaning: str


ERRORS: Final = (
    Code("line.too_long", "error", "the line is longer than --max-line-bytes"),
    Code("json.utf8", "error", "the line is not UTF-8"),
    Code("json.depth", "error", "objects and arrays are nested more than 256 levels deep"),
    Code("json.syntax", "error", "the line is not one JSON text"),
    Code(
        "json.number",
        "error",
        "a number is NaN, infinite, beyond a double's range, or has over a million digits",
    ),
    Code("json.surrogate", "error", "a string holds half of a surrogate pair, which UTF-8 cannot spell"),
    Code("json.duplicate_key", "error", "an object has the same key twice"),
    Code("schema.type", "error", "a value has the wrong JSON type"),
    Code("schema.required", "error", "a required field is missing"),
    Code("schema.enum", "error", "a value is not one of those allowed"),
    Code("schema.minimum", "error", "a number is too small"),
    Code("schema.one_of", "error", "a value fits none of the allowed forms"),
    # The conditional rules of every schema version; versions may share a rule.
    *dict.fromkeys(Code(rule.code, "error", rule.message) for schema in SCHEMAS.values() for rule in schema.rules),
    Code("hash.mismatch", "error", "`sample_hash` is not the computed one (only with --sample-hash verify)"),
    Code("conflict.not_first", "error", "another record of this identity comes first (only with --conflicts first)"),
    Code("conflict.rejected", "error", "other records have the same identity (only with --conflicts reject)"),
)

WARNINGS: Final = (
    Code("warn.num_turns_missing", "warning", "multi_turn and agentic should say `evaluation.num_turns`"),
    Code("warn.num_turns", "warning", "`evaluation.num_turns` is not the number of interactions"),
    Code("warn.tool_calls_count", "warning", "`evaluation.tool_calls_count` is not the number of tool calls"),
    Code("warn.turn_idx", "warning", "`turn_idx` does not count 0, 1, 2 …"),
    Code("warn.attribution_turn", "warning", "`answer_attribution` names a turn past the last one"),
    Code("warn.tool_call_id", "warning", "`tool_call_id` answers no tool call of an earlier turn"),
    Code("warn.total_tokens", "warning", "`total_tokens` is not `input_tokens` + `output_tokens`"),
    Code("warn.sample_hash", "warning", "`sample_hash` is not the computed one"),
)

CODES: Final = {row.code: row for row in ERRORS + WARNINGS}
RANK: Final = {code: rank for rank, code in enumerate(CODES)}
