"""Trees of aggregates and samples files for tests: right by every rule, unless a test changes
something.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import fastrec
from fastrec.sources.formats import Format
from tests.samples import sample_of
from tests.sources.compressing import compressed

UUIDS = [f"{number:02x}5b0c1e-9d5b-4b6e-8a3f-0123456789ab" for number in range(256)]
UUID = UUIDS[0]
EVALUATION_ID = "gsm8k/org_model/1717200000"
MODEL_ID = "org/model"
SUFFIXES = {
    Format.PLAIN: "",
    Format.ZSTD: ".zst",
    Format.GZIP: ".gz",
    Format.BZ2: ".bz2",
    Format.XZ: ".xz",
}
SCORES = (1.0, 0.0, 1.0, 1.0)


def row(
    number: int, score: float = 1.0, result: str | None = "gsm8k#accuracy", **changes: Any
) -> dict[str, Any]:
    """One row of the pair that `pair` makes."""
    record = sample_of(
        "0.3.0",
        evaluation_id=EVALUATION_ID,
        model_id=MODEL_ID,
        evaluation_name="gsm8k",
        sample_id=f"q-{number}",
        evaluation={"score": score, "is_correct": score == 1},
    )
    del record["error"], record["sample_hash"]
    if result is None:
        del record["evaluation_result_id"]
    else:
        record["evaluation_result_id"] = result
    return {**record, **changes}


def rows(*scores: float, **changes: Any) -> list[dict[str, Any]]:
    return [row(number, score, **changes) for number, score in enumerate(scores or SCORES)]


def result(
    score: Any = 0.75, id_: str | None = "gsm8k#accuracy", name: str = "gsm8k", **metric: Any
) -> dict[str, Any]:
    """One of the `evaluation_results`, by default that of `SCORES`."""
    config = {"lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": 1}
    found = {
        "evaluation_name": name,
        "source_data": {
            "dataset_name": "gsm8k",
            "source_type": "hf_dataset",
            "hf_repo": "openai/gsm8k",
        },
        "metric_config": {**config, "metric_name": "accuracy", **metric},
        "score_details": {"score": score},
    }
    return {**found, "evaluation_result_id": id_} if id_ is not None else found


DEPLOYMENT = {"deployment_type": "self_deployed", "model_availability": "open_weights"}


def model_info(model: str, **details: Any) -> dict[str, Any]:
    return {"name": "model", "id": model, "additional_details": DEPLOYMENT | details}


def aggregate(*results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "0.3.0",
        "evaluation_id": EVALUATION_ID,
        "retrieved_timestamp": "1717200000",
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "us",
            "evaluator_relationship": "third_party",
        },
        "eval_library": {"name": "fastrec", "version": "1"},
        "model_info": model_info(MODEL_ID),
        "evaluation_results": list(results) or [result()],
        **changes,
    }


def text_of(lines: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


OF_THE_STORE = {"pair.model_folder", "pair.old_version", "name.compressed"}
"""Warnings about files that are right, but not in a form that the data store takes."""


def codes_of(found: fastrec.PairCheck) -> dict[str, int]:
    """The codes that a check found, without those about forms that the data store does not take."""
    return {code: count for code, count in found.codes.items() if code not in OF_THE_STORE}


class Tree:
    """A datastore in a directory, with one pair of `gsm8k/org/model`; `check` checks all of it."""

    def __init__(self, root: Path, *folders: str) -> None:
        self.root = root
        self.folder = root.joinpath(*(folders or ("data", "gsm8k", "org", "model")))
        self.folder.mkdir(parents=True, exist_ok=True)

    def add(
        self,
        lines: list[dict[str, Any]] | bytes | None = None,
        *results: dict[str, Any],
        uuid: str = UUID,
        format_: Format = Format.PLAIN,
        stated: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Path:
        """Write a pair, and return the path of the aggregate.

        `stated` changes what it says about the samples.
        """
        text = lines if isinstance(lines, bytes) else text_of(rows() if lines is None else lines)
        data = compressed(format_, text)
        samples = self.folder / f"{uuid}_samples.jsonl{SUFFIXES[format_]}"
        samples.write_bytes(data)
        statement = {
            "format": "jsonl",
            "file_path": f"data/gsm8k/org/model/{uuid}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(data).hexdigest(),
            "total_rows": sum(bool(line.strip()) for line in text.split(b"\n")),
            **(stated or {}),
        }
        statement = {key: value for key, value in statement.items() if value is not ...}
        document = aggregate(*results, **{"detailed_evaluation_results": statement, **changes})
        return self.write(document, uuid)

    def write(self, document: Any, uuid: str = UUID) -> Path:
        path = self.folder / f"{uuid}.json"
        path.write_text(json.dumps(document, indent=2))
        return path

    def check(self, where: str = ".", **options: Any) -> fastrec.PairCheck:
        return fastrec.check_pairs(self.root / where, **options)

    def codes(self, where: str = ".", **options: Any) -> dict[str, int]:
        return codes_of(self.check(where, **options))
