"""The README of an export: a dataset card that the Hugging Face hub reads, and what each column means for people."""

from __future__ import annotations

from typing import Final

import msgspec

from fastrec.corpus.manifest import Manifest

__all__ = ["card"]

_CONFIGS: Final = {"parquet": "data/*.parquet", "csv": "records.csv"}
"""By format: what the viewer is to show."""

_ABOUT: Final = {
    "parquet": """\
One row per record, in the order of the corpus; all files in `data` have the same columns, those of the record schema.

- Objects are structs, arrays are lists; what a record does not have is null.
- Free-form objects (`metadata`, `arguments`) are JSON text.
- A field that may have several types has its type beside it: `sample_id` is text and `sample_id_type` is `integer` or
  `string`; `score` is a double and `score_type` is `integer`, `number` or `boolean`, and so for the times in
  `performance`; `tool_call_id` is a list, and `tool_call_id_type` is `string` if it was a single one.
- `extra` is null, or a JSON object of all that the columns cannot hold, by path: keys that the schema does not know
  (`$.run`, `$.evaluation.judge`), and integers beyond 64 bits (beyond 2^53 in a double), whose column is null then.

Columns and `extra` together are the record: nothing is lost and no value changes.
""",
    "csv": """\
`records.csv`: one row per record, in the order of the corpus. Numbers and truth values are spelled as in the record, so
a `score` of `1`, `1.0` and `true` stay three things, and integers of any size are exact. An empty cell is a value that
the record does not have; an empty `error` is none. `sample_id_type` tells the integer 5 from the string 5.
""",
    "matrix": """\
One row per model, one column per sample, both sorted. A sample is a question of an evaluation, and its column is called
`evaluation_name/sample_hash`; `samples.csv` lists the columns in order, each with the `sample_id` of its first record.

- `scores.csv`: the score as it is spelled in the record: `1`, `0.5`, `true`.
- `correct.csv`: `is_correct` as 1 or 0.

An empty cell is a sample that the model did not answer. Where a model answered a sample several times, the first record
in the order of the corpus counts.
""",
}


def card(form: str, manifest: Manifest, notices: list[str]) -> str:
    """Write the README of an export."""
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
