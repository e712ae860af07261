"""`stats --joins`: why do two models share no question?

    one task per part:   read ──▶ for each evaluation and metric: which model was asked what, under which id
    the driver:          adds up, then counts for each pair of models (`pairs`)

Two models were asked the same question if the `sample_hash` is the same, whatever the metric. If hashes differ, but the
`sample_id` is the same, the digests of prompt and references tell what differs; texts are never kept.

Memory: about 0.4 kB for each question (hash and id) of a metric, and 1 kB more for each question of the evaluation that
is being counted. A model adds one bit to each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType
from xxhash import xxh3_64_digest, xxh3_128_digest

from fastrec.commands.stats.pairs import Asked, count_joins
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import PartFile, decode_lines, parts_of, run_in_order, with_progress
from fastrec.errors import shown
from fastrec.limits import Limits
from fastrec.progress import Progress
from fastrec.summary.choosing import Chosen
from fastrec.summary.joins import EvaluationJoins

__all__ = ["find_joins"]

Scope = tuple[str, str | None]
"""An evaluation and a metric."""
Models = dict[Scope, dict[str, int]]
"""For each evaluation and metric, the chosen models, each with its number."""


class _Input(msgspec.Struct, gc=False):
    """What was asked: JSON text, which is decoded once per question."""

    raw: Raw
    reference: Raw


class _Line(msgspec.Struct, gc=False):
    """The fields of a record that matter here; the others are skipped."""

    model_id: str
    evaluation_name: str
    sample_id: Raw
    sample_hash: str
    input: _Input
    evaluation_result_id: str | UnsetType = UNSET


class _Task(msgspec.Struct, frozen=True):
    """A task: read one part."""

    part: PartFile
    models: list[tuple[Scope, dict[str, int]]]
    limits: Limits

    def __str__(self) -> str:
        return f"reading {shown(self.part.path)}"


class _Found(NamedTuple):
    """What some records say."""

    asked: dict[Scope, Asked]
    facts: dict[bytes, bytes]
    """By question, the digests of its texts, by which questions are compared."""


_decode: Final = msgspec.json.Decoder(_Line).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_references: Final = msgspec.json.Decoder(str | list[str]).decode


def find_joins(
    chosen: Sequence[Chosen], corpus: str, manifest: Manifest, *, jobs: int, progress: Progress | None, limits: Limits
) -> list[EvaluationJoins]:
    """Find out which questions the chosen models have in common, for each evaluation.

    Raises:
        CorpusError: A part does not hold the records that the manifest says.
        ShardError: A part could not be read completely.
    """
    evaluations: dict[str, list[Chosen]] = defaultdict(list)
    for one in chosen:
        evaluations[one.evaluation.evaluation_name].append(one)
    numbers = {name: _numbers(some) for name, some in evaluations.items()}
    models: Models = {
        (name, one.evaluation.metric): {model.model_id: numbers[name][model.model_id] for model in one.models}
        for name, some in evaluations.items()
        for one in some
    }
    parts = parts_of(corpus, manifest)
    tasks = [_Task(part, list(models.items()), limits) for part in parts]
    asked: dict[Scope, Asked] = {scope: {} for scope in models}
    facts: dict[bytes, bytes] = {}
    results = run_in_order(_read_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits)
    for found in with_progress(results, parts, progress, "count"):
        for scope, part in found.asked.items():
            whole = asked[scope]
            for key, mask in part.items():
                whole[key] = whole.get(key, 0) | mask
        for question, texts in found.facts.items():  # equal, unless two questions have one hash
            facts[question] = min(texts, facts.get(question, texts))
    return [
        count_joins(
            name,
            list(numbers[name]),
            {one.evaluation.metric: asked.pop((name, one.evaluation.metric)) for one in some},
            facts,
        )
        for name, some in evaluations.items()
    ]


def _numbers(chosen: Sequence[Chosen]) -> dict[str, int]:
    """Number the models of an evaluation, over all of its metrics."""
    names = sorted({model.model_id for one in chosen for model in one.models})
    return {name: number for number, name in enumerate(names)}


def _read_part(task: _Task) -> _Found:
    """Collect what the chosen models were asked in one part. Runs in a worker."""
    models = dict(task.models)
    asked: dict[Scope, Asked] = defaultdict(dict)
    facts: dict[bytes, bytes] = {}
    for lines, _ in decode_lines(task.part, _decode, task.limits.chunk_bytes):
        for line in lines:
            metric = line.evaluation_result_id
            scope = line.evaluation_name, None if isinstance(metric, UnsetType) else metric
            number = models.get(scope, {}).get(line.model_id)
            if number is None:
                continue
            question = xxh3_128_digest(line.sample_hash.encode())
            key = question, bytes(line.sample_id)
            mine = asked[scope]
            mine[key] = mine.get(key, 0) | 1 << number
            if question not in facts:
                facts[question] = _facts(line.input)
    return _Found(dict(asked), facts)


def _facts(asked: _Input) -> bytes:
    """Return four digests of 8 bytes: of the prompt, the references, and both without white space."""
    prompt: str = _decode_text(asked.raw)
    references: Any = _decode_references(asked.reference)
    texts = [references] if isinstance(references, str) else references
    bare = ["".join(text.split()) for text in texts]
    bare_prompt = "".join(prompt.split())
    digested = (prompt.encode(), msgspec.json.encode(texts), bare_prompt.encode(), msgspec.json.encode(bare))
    return b"".join([xxh3_64_digest(text) for text in digested])
