"""What a run is about: task, model and start time, from its short files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final

from fastrec.errors import LogError
from fastrec.harnesses.files import read_document
from fastrec.harnesses.helm.grouping import file_of
from fastrec.harnesses.helm.scan import Scan
from fastrec.harnesses.helm.structs import FOREIGN, AdapterSpec, RunSpec, Scenario
from fastrec.harnesses.log import Log, RunInfo
from fastrec.harnesses.values import decoder

__all__ = ["LANGUAGE_MODELING", "METHOD", "run_of"]

METHOD: Final = "adapter_method"
"""The key of the metadata that names the method of adaptation."""

LANGUAGE_MODELING: Final = "language_modeling"
"""The method that sends a request for each part of a long text."""

_MODEL: Final = re.compile(r"(?<=[:,])model(?:_deployment)?=([^,]*)(?:,|$)")

# Metrics that are no judgement of an answer, or better if they are lower: a 1 does not mean that it is right.
_NO_JUDGEMENT: Final = (
    *("num_*", "max_num_*", "finish_reason_*", "prompt_truncated", "predicted_index", "max_prob", "batch_size"),
    *("inference_*", "training_*", "estimated_num_tokens_cost", "logprob", "summarization_compression"),
    *("perplexity", "bits_per_byte", "absolute_value_difference", "distance", "toxic_frac", "*toxicity*", "bias_*"),
    *("stereotypical_associations:*", "demographic_representation:*", "edit_distance", "longest_common_prefix_length*"),
    *("edit_similarity", "ter_score", "mer_score", "cer_score", "wer_score", "ece_*", "platt_*"),
)

_decode_run_spec = decoder(RunSpec)
_decode_scenario = decoder(Scenario)


def run_of(log: Log, scan: Scan, metrics: Iterable[str]) -> RunInfo:
    """Return what all records of a run have in common."""
    spec = _read(log, "run_spec", _decode_run_spec)
    scenario = _read(log, "scenario", _decode_scenario)
    adapter = scan.envelope.adapter_spec or (spec.adapter_spec if spec else None) or AdapterSpec()
    name = spec.name if spec else ""
    task = _MODEL.sub("", name).rstrip(":,") or (scenario.name if scenario else "")
    in_name = _MODEL.search(name)
    model = adapter.model or adapter.model_deployment or (in_name[1] if in_name else "")
    for what, value in (("task", task), ("model", model)):
        if not value:
            raise LogError(log.path, f"does not say its {what}")
    metadata = {"scenario": scenario.name if scenario else "", METHOD: adapter.method}
    metadata["model_deployment"] = adapter.model_deployment
    return RunInfo(
        task=task,
        model=model,
        started="" if scan.started is None else str(scan.started),
        metadata={key: value for key, value in metadata.items() if value},
        never_correct=frozenset(filter(_is_no_judgement, metrics)),
    )


def _is_no_judgement(metric: str) -> bool:
    name = metric.partition(":")[0].partition("@")[0]
    return any(fnmatchcase(name, pattern) or fnmatchcase(metric, pattern) for pattern in _NO_JUDGEMENT)


def _read(log: Log, role: str, decode: Any) -> Any:
    file = file_of(log, role)
    return None if file is None else read_document(file.path, decode, FOREIGN)
