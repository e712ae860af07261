"""The README of an export: a dataset card for the Hugging Face hub that explains the columns."""

from __future__ import annotations

from typing import Final

import msgspec

from fastrec.commands.export.table import has_metrics
from fastrec.corpus.manifest import Manifest, text_hash
from fastrec.schemas.registry import CORPUS_LABELS

__all__ = ["card"]

_CONFIGS: Final = {"parquet": "data/*.parquet", "csv": "records.csv"}
"""By format, the files that the viewer shows."""

_MEASURES: Final = """\
- `response_characters`: characters of what the model said, without reasoning. They are those of `output.raw`, or of the
  `content` of all turns of the role `assistant`; there is no value if no turn has this role.
- `turns`: turns of all roles; 1 for single_turn.
- `tool_calls`: tool calls of all turns.
"""

_CELLS: Final = """\
Text that begins with `=`, `+`, `-`, `@`, a tab or a line break has a single quote in front, unless it is a number, so
that no spreadsheet takes it for a formula. So has text that begins with single quotes and then one of these characters:
remove one quote to get the original. `--raw-cells` exports text as it is.
"""
_RAW_CELLS: Final = """\
Text is exported as it is: a spreadsheet takes text that begins with `=`, `+`, `-` or `@` for a formula.
"""

_WITHOUT_METRICS: Final = {
    "parquet": """\
- A field with several types has a second column for its type. `sample_id` is text, and `sample_id_type` is `integer` or
  `string`. `score` and the times in `performance` are doubles, and their types are `integer`, `number` or `boolean`.
  `tool_call_id` is a list, and `tool_call_id_type` is `string` if the record has a single id.
""",
    "csv": """\
- `sample_id_type` distinguishes the integer 5 from the string 5.
""",
    "matrix": "",
}
"""By format, what is true only of versions whose records name no metric."""

_WITH_METRICS: Final = {
    "parquet": """\
- `score` and the times in `performance` are doubles. Each has a second column, such as `score_type`, which is `integer`
  or `number`.
- `evaluation_result_id` is the metric that gave the score, null if the record names none. A sample has a record for
  each metric, so group by metric before you count records or compute a mean.
""",
    "csv": """\
- `evaluation_result_id` is the metric that gave the score, empty if the record names none. A sample has a row for each
  metric, so group by metric before you count rows or compute a mean.
- `sample_id_type` is always `string`.
""",
    "matrix": """
A question has a column for each metric (`evaluation_result_id`), so no column mixes metrics. With a metric, the name of
a column is `evaluation_name/evaluation_result_id/sample_hash`. `samples.csv` has the metric of each column, and whether
it is graded: whether any of its scores is other than 0 and 1. `is_correct` means little for a graded metric, so
`correct.csv` has no column for it.
""",
}
"""The same of versions whose records may name one."""

_ABOUT: Final = {
    "parquet": f"""\
One row per record, in sort order. All files in `data` have the same columns, those of the record schema.

- Objects are structs and arrays are lists. Absent fields are null.
- Free-form objects (`metadata`, `arguments`) are JSON text.
{{version}}
- `extra` is null, or a JSON object of values that no column can hold, by path: keys that are not in the schema
  (`$.run`, `$.evaluation.judge`), and integers beyond 64 bits (beyond 2^53 in a double), whose own column is null.

Columns and `extra` together are the complete record. Three more columns are counted in the record:

{_MEASURES}""",
    "csv": f"""\
`records.csv` has one row per record, in sort order. An empty cell is an absent value; an empty `error` may also be an
empty string.

{{version}}
- `score` and `latency_ms` always have a decimal point or an exponent, so that every reader takes them for doubles. The
  score `true` is 1.0; `score_type` is `integer`, `number` or `boolean`. Integers of any size have all their digits.
{_MEASURES}
Most readers guess the type of a column from its first rows. Ids may be numbers there and text below, so let them read
all rows first: `polars.read_csv(path, infer_schema_length=None)`, or `FROM read_csv(path, sample_size=-1)` in DuckDB.
""",
    "matrix": """\
One row per model and one column per question, both sorted. The name of a column is `evaluation_name/sample_hash`.
`samples.csv` lists the columns in order, each with the `sample_id` of its first record.

- `scores.csv`: the score as a double; the score `true` is 1.0.
- `correct.csv`: `is_correct` as 1 or 0.

An empty cell is a question that the model did not answer: it has no record of it, or only records with an error. If a
model answered a question several times, the first answer in sort order counts.
{version}
""",
}


def card(form: str, manifest: Manifest, notices: list[str], *, raw_cells: bool = False) -> str:
    """Return the README of an export."""
    by_version = _WITH_METRICS if has_metrics(CORPUS_LABELS[manifest.schema]) else _WITHOUT_METRICS
    columns = _ABOUT[form].replace("{version}\n", by_version[form])
    cells = "" if form == "parquet" else f"\n{_RAW_CELLS if raw_cells else _CELLS}"
    about = f"{_front_matter(form)}# Evaluation records\n\n{_facts(manifest)}\n\n{columns}{cells}"
    return about + "".join(f"\n{notice}\n" for notice in notices)


def _front_matter(form: str) -> str:
    if form not in _CONFIGS:
        return ""
    path = msgspec.json.encode(_CONFIGS[form]).decode()
    return f"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: {path}\n---\n\n"


def _facts(manifest: Manifest) -> str:
    name, value = text_hash(manifest)
    return (
        f"{manifest.records:,} records of schema `{manifest.schema}`, exported by fastrec from the corpus whose "
        f"`{name}` is `{value}`."
    )
