"""Tell contradictions from repeats among records of one identity.

    same question, same trial, same output, another verdict    contradiction: one of them is wrong
    anything else                                              repeat: a second epoch or trial, another answer …

The question is the `sample_hash`. The verdict is score, is_correct and error. Records that contradict each other have
equal keys, so they are adjacent in a corpus. Only records with equal keys are decoded, and only what is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw
from xxhash import xxh3_128_digest

from fastrec.schemas.registry import TARGETS

__all__ = ["TRIAL_FIELDS", "Contradictions", "contradictions_of", "find_contradictions"]

TRIAL_FIELDS: Final = (
    "epoch",  # Inspect
    "trial",  # tau-bench
    "trial_id",
    "trial_index",
    "train_trial_index",  # HELM
    "perturbation",  # HELM
    "repeat",
    "repeat_id",
    "repeat_index",
    "repetition",
    "attempt",
    "iteration",
    "run",
    "run_id",
    "run_index",
    "sample_index",
    "generation_index",
    "seed",
    "filter",  # lm-evaluation-harness: what extracts the answer from the output
)
"""The fields that tell trials apart, in `metadata` or at the root of a record."""

Contradictions = dict[bytes, list[int | None]]
"""By key: for each of its records, in order, which contradiction it belongs to; None if it contradicts no other.

The contradictions of a key are numbered from 0. Keys without a contradiction are absent.
"""

_ABSENT: Final = Raw()
_TRIAL: Final = [(name, Raw, _ABSENT) for name in TRIAL_FIELDS]
_TURNS: Final = sorted({schema.turns_field for schema in TARGETS.values()})


class _Evaluation(msgspec.Struct, frozen=True):
    score: Raw
    is_correct: bool


_Metadata: Any = msgspec.defstruct("_Metadata", _TRIAL, frozen=True)
_Answer: Any = msgspec.defstruct(
    "_Answer",
    [
        ("evaluation", _Evaluation),
        ("metadata", _Metadata, _Metadata()),
        *((name, Raw, _ABSENT) for name in ("output", "error", *_TURNS)),
        *_TRIAL,
    ],
    frozen=True,
)

_decode = msgspec.json.Decoder(_Answer).decode


def find_contradictions(
    keys: Sequence[bytes], texts: Sequence[bytes | memoryview], groups: Iterable[tuple[int, int]]
) -> Contradictions:
    """Find the contradictions among sorted records without duplicates.

    Args:
        keys: The keys of the records.
        texts: Their normal forms.
        groups: Where records with equal keys begin and end.
    """
    found = {keys[first]: contradictions_of(texts[first:end]) for first, end in groups}
    return {key: numbers for key, numbers in found.items() if numbers}


def contradictions_of(texts: Sequence[bytes | memoryview]) -> list[int | None]:
    """Number the contradictions among the records of one key by their first records; empty if there are none."""
    judged = [_judged(text) for text in texts]
    verdicts: dict[Any, set[Any]] = {}
    for answer, verdict in judged:
        verdicts.setdefault(answer, set()).add(verdict)
    several = [answer for answer, different in verdicts.items() if len(different) > 1]
    numbers = {answer: number for number, answer in enumerate(several)}
    return [numbers.get(answer) for answer, _ in judged] if numbers else []


def _judged(text: bytes | memoryview) -> tuple[Any, Any]:
    """Return what tells an answer from others to the same question, and the verdict on it.

    In normal form, equal values are equal bytes.
    """
    record = _decode(text)
    trial = [bytes(getattr(level, name)) for level in (record, record.metadata) for name in TRIAL_FIELDS]
    # Digests, because there may be thousands of long outputs.
    outputs = [xxh3_128_digest(getattr(record, name)) for name in ("output", *_TURNS)]
    error = bytes(record.error)
    evaluation = record.evaluation
    return (*outputs, *trial), (_number(evaluation.score), evaluation.is_correct, b"" if error == b'""' else error)


def _number(score: Raw) -> Any:
    """Decode a score: 1, 1.0 and true are the same verdict."""
    try:
        return msgspec.json.decode(score)
    except msgspec.MsgspecError:  # an integer with more digits than msgspec decodes
        return bytes(score)
