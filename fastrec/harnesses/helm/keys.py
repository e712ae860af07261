"""What requests and scores are joined by: instance, perturbation and trial.

A perturbation is identified by its whole description. Metrics and metadata name it by its name alone, unless the run
has several of that name: then by what tells them apart, too, as in `typos(prob=0.1)`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest

from fastrec.errors import LogError
from fastrec.harnesses.helm.structs import MetricName, Perturbation
from fastrec.harnesses.values import spell

__all__ = ["Key", "canonical", "hash_of", "key_of", "labels_of", "metric_id"]


class Key(NamedTuple):
    """The identity of a sample."""

    instance: str
    perturbation: str
    """Its description as canonical JSON; empty if there is none."""
    trial: int


def key_of(instance: str | int | None, perturbation: Perturbation | None, trial: int, path: str) -> Key:
    """Return the key of a request or of an entry of scores."""
    if instance is None:
        raise LogError(path, "has an instance without an id")
    return Key(str(instance), canonical(perturbation) if perturbation else "", trial)


def canonical(perturbation: Perturbation) -> str:
    """Return the description of a perturbation as one text, whatever the order of its fields.

    >>> canonical({"name": "typos", "prob": 0.1, "seed": None})
    '{"name":"typos","prob":0.1}'
    """
    fields = {name: value for name, value in sorted(perturbation.items()) if value is not None}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def hash_of(key: Key) -> int:
    """Return a hash of 64 bits."""
    text = f"{key.trial}\0{key.perturbation}\0{key.instance}"
    return xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def labels_of(perturbations: Iterable[str]) -> dict[str, str]:
    """Return what to call each perturbation, given the canonical descriptions of all of a run."""
    by_name: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for text in perturbations:
        fields = json.loads(text)
        by_name[spell(fields.get("name", "unnamed"))][text] = fields
    labels = {}
    for name, same in by_name.items():
        differing = _differing(list(same.values()))
        for text, fields in same.items():
            marks = ",".join(f"{field}={spell(fields[field])}" for field in differing if field in fields)
            labels[text] = f"{name}({marks})" if len(same) > 1 else name
    return labels


def _differing(descriptions: list[dict[str, Any]]) -> list[str]:
    names = sorted({name for fields in descriptions for name in fields})
    return [name for name in names if any(one.get(name) != descriptions[0].get(name) for one in descriptions)]


def metric_id(name: MetricName, perturbation: str, labels: Mapping[str, str]) -> str:
    """Return the `evaluation_result_id`: metric, split, part of the split, and perturbation."""
    parts = [name.name, name.split, name.sub_split, labels.get(perturbation, perturbation)]
    return ":".join(part for part in parts if part)
