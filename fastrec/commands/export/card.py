"""The README of an export: a dataset card for the Hugging Face hub that explains the columns."""

from __future__ import annotations

from typing import Final

import msgspec

from fastrec.corpus.manifest import Manifest

__all__ = ["card"]

_CONFIGS: Final = {"parquet": "data/*.parquet", "csv": "records.csv"}
"""By format, the files that the viewer shows."""

_ABOUT: Final = {
    "parquet": """\
One row per record, in sort order. All files in `data` have the same columns, those of the record schema.

- Objects are structs and arrays are lists. Absent fields are null.
- Free-form objects (`metadata`, `arguments`) are JSON text.
- A field with several types has a second column for its type. `sample_id` is text, and `sample_id_type` is `integer` or
  `string`. `score` and the times in `performance` are doubles, and their types are `integer`, `number` or `boolean`.
  `tool_call_id` is a list, and `tool_call_id_type` is `string` if the record has a single id.
- `extra` is null, or a JSON object of values that no column can hold, by path: keys that are not in the schema
  (`$.run`, `$.evaluation.judge`), and integers beyond 64 bits (beyond 2^53 in a double), whose own column is null.

Columns and `extra` together are the complete record.
""",
    "csv": """\
`records.csv` has one row per record, in sort order. Numbers and booleans are spelled as in the record: the scores `1`,
`1.0` and `true` stay distinct, and integers of any size are exact. An empty cell is an absent value; an empty `error`
may also be an empty string. `sample_id_type` distinguishes the integer 5 from the string 5.
""",
    "matrix": """\
One row per model and one column per question, both sorted. The name of a column is `evaluation_name/sample_hash`.
`samples.csv` lists the columns in order, each with the `sample_id` of its first record.

- `scores.csv`: the score, spelled as in the record: `1`, `0.5`, `true`.
- `correct.csv`: `is_correct` as 1 or 0.

An empty cell is a question that the model did not answer. If a model answered a question several times, the first
record in sort order counts.
""",
}


def card(form: str, manifest: Manifest, notices: list[str]) -> str:
    """Return the README of an export."""
    return f"{_front_matter(form)}# Evaluation records\n\n{_facts(manifest)}\n\n{_ABOUT[form]}" + "".join(
        f"\n{notice}\n" for notice in notices
    )


def _front_matter(form: str) -> str:
    if form not in _CONFIGS:
        return ""
    path = msgspec.json.encode(_CONFIGS[form]).decode()
    return f"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: {path}\n---\n\n"


def _facts(manifest: Manifest) -> str:
    return (
        f"{manifest.records:,} records of schema `{manifest.schema}`, exported by fastrec from the corpus whose "
        f"`text_sha256` is `{manifest.text_sha256}`."
    )
