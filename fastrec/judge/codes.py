"""The table of codes: every error, warning and note about a line or a record, and every finding about a pair of files.

Codes are part of the interface: scripts match them, and summaries count by them. A code is never renamed or reused; a
new reason gets a new row. The findings of a line are sorted by the order of the rows, so the first error of a line,
which the summary counts it by, is always the most fundamental one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fastrec.schemas.registry import SCHEMAS
from fastrec.schemas.upgrade import UPGRADES

__all__ = ["CODES", "ERRORS", "NOTES", "PAIRS", "RANK", "REPAIRS", "WARNINGS", "Code"]


class Code(NamedTuple):
    """One row: the code, its severity, and its meaning for the documentation."""

    code: str
    severity: str
    meaning: str


ERRORS: Final = (
    Code("line.too_long", "error", "the line is longer than --max-line-bytes"),
    Code("json.utf8", "error", "the line is not UTF-8"),
    Code("json.depth", "error", "objects and arrays are nested more than 256 levels deep"),
    Code("json.syntax", "error", "the line is not valid JSON"),
    Code(
        "json.number", "error", "a number is NaN, infinite, too large for a double, or has more than a million digits"
    ),
    Code("json.surrogate", "error", "a string contains half of a surrogate pair, which UTF-8 cannot encode"),
    Code("json.duplicate_key", "error", "an object has the same key more than once"),
    Code("schema.type", "error", "a value has the wrong JSON type"),
    Code("schema.required", "error", "a required field is missing"),
    Code("schema.enum", "error", "a value is not one of the allowed values"),
    Code("schema.minimum", "error", "a number is too small"),
    Code("schema.unknown_key", "error", "a key is not allowed at this place"),
    Code("schema.one_of", "error", "a value has none of the allowed types"),
    # The conditional rules of every schema version; versions may share a rule.
    *dict.fromkeys(Code(rule.code, "error", rule.message) for schema in SCHEMAS.values() for rule in schema.rules),
    Code(
        "version.contradiction",
        "error",
        "a record has both `interactions` and `messages`, fields of different versions",
    ),
    Code("version.newer", "error", "a record is of a later version than the corpus (only with --schema 0.2.0)"),
    Code("hash.mismatch", "error", "`sample_hash` is wrong (only with --sample-hash verify)"),
    Code(
        "conflict.not_first",
        "error",
        "an earlier record has another verdict on the same output (only with --conflicts first)",
    ),
    Code(
        "conflict.rejected",
        "error",
        "other records have another verdict on the same output (only with --conflicts reject)",
    ),
    Code("repeat.not_first", "error", "an earlier record has the same identity (only with --repeats first)"),
    Code("repeat.rejected", "error", "other records have the same identity (only with --repeats reject)"),
)

WARNINGS: Final = (
    Code("warn.num_turns_missing", "warning", "a multi_turn or agentic record lacks `evaluation.num_turns`"),
    Code("warn.num_turns", "warning", "`evaluation.num_turns` is not the number of interactions"),
    Code("warn.tool_calls_count", "warning", "`evaluation.tool_calls_count` is not the number of tool calls"),
    Code("warn.turn_idx", "warning", "the values of `turn_idx` are not 0, 1, 2 …"),
    Code("warn.attribution_turn", "warning", "`answer_attribution` refers to a turn after the last one"),
    Code("warn.tool_call_id", "warning", "`tool_call_id` is not the id of an earlier tool call"),
    Code("warn.total_tokens", "warning", "`total_tokens` is not `input_tokens` + `output_tokens`"),
    Code("warn.sample_hash", "warning", "`sample_hash` is wrong"),
    Code("version.unknown", "warning", "`schema_version` is not a known version"),
    Code("version.mismatch", "warning", "`schema_version` is another version than the one that the record follows"),
)

REPAIRS: Final = {
    "repair.result_id_null": "`evaluation_result_id` was null and is left out",
    "repair.null": "an optional field that cannot be null was null and is left out",
    "repair.value_not_text": "a value in `metadata`, `arguments` or `additional_details` was not text; it is JSON text",
    "repair.number_from_text": "a number was written as text",
    "repair.boolean_from_text": "true or false was written as text: true, yes, on, 1 …",
    "repair.number_from_boolean": "true or false was written for a number; it is 1 or 0 now",
    "repair.boolean_from_number": "1 or 0 was written for true or false",
    "repair.output_and_turns": "a record had `output` and turns; what its `interaction_type` excludes is in `metadata`",
    "repair.nan_score": "the score was NaN or infinite; `error` says so, and 0.0 is a placeholder that does not count",
}
"""What `--repair` does to records, by code."""

NOTES: Final = tuple(Code(code, "note", meaning) for code, meaning in (UPGRADES | REPAIRS).items())
"""Changes to valid records. They are no mistakes that are left, but the record differs from its line."""

PAIRS: Final = (
    Code("pair.no_samples", "error", "an aggregate states `detailed_evaluation_results`, but has no samples file"),
    Code("pair.no_aggregate", "error", "a samples file has no aggregate of the same name beside it"),
    Code("pair.several_samples", "error", "an aggregate has several samples files, such as a plain and a zstd one"),
    Code("pair.not_stated", "error", "an aggregate has a samples file, but no `detailed_evaluation_results`"),
    Code("pair.aggregate", "error", "an aggregate is not JSON, or a field that the check needs is missing or wrong"),
    Code("pair.duplicate_result", "error", "two results of an aggregate have the same `evaluation_result_id`"),
    Code("pair.file_path", "error", "`file_path` is not the path of the samples file from `data/` on"),
    Code("pair.relative_path", "warning", "`file_path` is a name in the same folder, as before version 0.3.0"),
    Code("pair.format", "error", "`format` is not `jsonl`"),
    Code("pair.hash_algorithm", "error", "`hash_algorithm` is neither `sha256` nor `md5`"),
    Code("pair.checksum", "error", "the checksum of the samples file is not the one in its aggregate"),
    Code("pair.total_rows", "error", "the number of rows is not the one in the aggregate; blank lines are no rows"),
    Code("pair.no_rows", "error", "a samples file has no rows"),
    Code("pair.invalid_row", "error", "a row is not a valid record; `fastrec validate` lists all errors"),
    Code("pair.evaluation_id", "error", "the `evaluation_id` of a row is not the one of its aggregate"),
    Code("pair.model_id", "error", "the `model_id` of a row is not the one of its aggregate"),
    Code("pair.unknown_result", "error", "the aggregate has no result with the `evaluation_result_id` of a row"),
    Code("pair.no_result", "error", "a row without `evaluation_result_id` fits no result of the aggregate"),
    Code("pair.several_results", "warning", "a row without `evaluation_result_id` fits several results"),
    Code("pair.score", "error", "the mean of the rows of a result is not the score in the aggregate"),
    Code("name.uuid", "error", "the name of a file is not a UUID of version 4 in lower case"),
    Code("name.samples", "error", "the name of a samples file does not end with `_samples.jsonl`"),
    Code("name.depth", "error", "a file is not in `data/<collection>/<developer>/<model>/`"),
    Code("name.flat", "error", "a file is not in `flat/objects/xx/yy/`, where its name begins with `xxyy`"),
    Code("name.portable", "error", "the name of a folder is not allowed on every system"),
    Code("name.data", "error", "the name of a folder below `data/` is `data`"),
)
"""What `check-pairs` finds: about pairs, and about names of files and folders."""

CODES: Final = {row.code: row for row in ERRORS + WARNINGS + NOTES + PAIRS}
RANK: Final = {code: rank for rank, code in enumerate(CODES)}
