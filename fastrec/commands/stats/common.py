"""Common samples: what the models have to say where all of them were asked the same.

    one task per part:   read · judge ──▶ records of one sample, side by side ──▶ all models there? ──▶ tally
    the driver:          joins the samples that a cut between two parts has split, and adds the tallies up

Memory holds a chunk of text and the rows of one sample, whatever the size of the corpus.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import msgspec

from fastrec.commands.stats.choice import Choice, Chosen
from fastrec.corpus.manifest import Manifest
from fastrec.engine import make_engine
from fastrec.engine.jobs import jobs_for
from fastrec.errors import CorpusError, shown
from fastrec.judge.judge import Judge
from fastrec.normalize.books import model_summary
from fastrec.sorting.keys import key_maker, key_splitter, spell_text, text_of
from fastrec.sources.lines import LongLine
from fastrec.sources.reader import read_shard, shard_at
from fastrec.storage import join, parent_and_name
from fastrec.summary.rows import row_of
from fastrec.summary.tally import Tally

__all__ = ["only_common"]

_CHUNK_BYTES: Final = 1 << 18
_COUNTED: Final = 20_000  # records that are added to the tally at a time

Models = dict[bytes, frozenset[bytes]]
"""The chosen models by evaluation_name, as spelled in keys."""


class Sample(msgspec.Struct):
    """Records of one sample: those of the models that were chosen."""

    key: tuple[bytes, bytes]
    """evaluation_name and sample_hash."""
    fields: list[Sequence[bytes]]
    rows: list[Any]


class PartToRead(msgspec.Struct, frozen=True):
    """What a worker is told."""

    path: str
    records: int
    order: tuple[str, ...]
    models: Models

    def __str__(self) -> str:
        return f"reading {shown(self.path)}"


class Met(msgspec.Struct):
    """Common samples: how many of each evaluation, and what their records add up to."""

    models: Models
    samples: Counter[bytes] = msgspec.field(default_factory=Counter)
    tally: Tally = msgspec.field(default_factory=Tally)
    edges: list[Sample] = msgspec.field(default_factory=list)
    """The first and the last sample of a part, or the only one: the parts beside it may have more of them."""
    waiting: list[Sample] = msgspec.field(default_factory=list)
    waiting_rows: int = 0

    def add(self, sample: Sample) -> None:
        """Count a sample that is complete, if all models answered it."""
        evaluation = sample.key[0]
        if {fields[2] for fields in sample.fields} == self.models[evaluation]:
            self.samples[evaluation] += 1
            self.waiting.append(sample)
            self.waiting_rows += len(sample.rows)
            if self.waiting_rows >= _COUNTED:
                self.count()

    def count(self) -> None:
        """Add what waits to the tally, many records at a time: it adds up columns by model."""
        if self.waiting:
            self.tally.add(
                [fields for sample in self.waiting for fields in sample.fields],
                [row for sample in self.waiting for row in sample.rows],
            )
            self.waiting, self.waiting_rows = [], 0


def only_common(choice: Choice, corpus: str, manifest: Manifest, *, jobs: int) -> Choice:
    """Count the chosen models of a corpus anew, on the samples that all of them answered.

    Raises:
        CorpusError: A part does not hold the records that the manifest says.
        ShardError: A part could not be read whole.
    """
    models = {
        spell_text(chosen.evaluation.evaluation_name): frozenset(spell_text(model.model_id) for model in chosen.models)
        for chosen in choice.evaluations
    }
    orders = [
        PartToRead(join(corpus, parent_and_name(part.file)[1]), part.records, manifest.sort_fields, models)
        for part in manifest.parts
    ]
    text_bytes = sum(part.text_bytes for part in manifest.parts)
    with make_engine(jobs_for(text_bytes, len(orders), jobs)) as engine:
        found = dict(engine.run(_read_part, orders))
    met = _joined([found[number] for number in sorted(found)], models)
    return Choice([_recounted(chosen, met) for chosen in choice.evaluations], common=True)


def _joined(parts: Iterable[Met], models: Models) -> Met:
    """Add up what the parts of a corpus hold, given in order."""
    met = Met(models)
    edges: list[Sample] = []
    for part in parts:
        met.samples.update(part.samples)
        met.tally += part.tally
        edges += part.edges
    for key, pieces in groupby(edges, key=lambda sample: sample.key):
        whole = Sample(key, [], [])
        for piece in pieces:
            whole.fields += piece.fields
            whole.rows += piece.rows
        met.add(whole)
    met.count()
    return met


def _recounted(chosen: Chosen, met: Met) -> Chosen:
    evaluation = spell_text(chosen.evaluation.evaluation_name)
    samples = met.samples[evaluation]
    summaries = []
    for model in sorted(met.models[evaluation]) if samples else []:
        counted = met.tally.models[evaluation, model]
        counted.entries = samples
        summaries.append(model_summary(text_of(model), counted, again=0))
    return Chosen(chosen.evaluation, chosen.count, summaries, samples)


@lru_cache(maxsize=1)
def _judge() -> Judge:
    return Judge(sample_hash="fill")  # what the corpus has stands: it tells samples apart


def _read_part(order: PartToRead) -> Met:
    """Look through one part. Runs in a worker."""
    met = Met(order.models)
    key_of, split = key_maker(order.order), key_splitter(order.order)
    normal = bytearray()
    first: Sample | None = None
    current: Sample | None = None
    records = 0
    # No limit: whoever made the corpus has accepted its lines.
    for chunk in read_shard(shard_at(order.path), chunk_bytes=_CHUNK_BYTES, max_line_bytes=sys.maxsize):
        assert not isinstance(chunk, LongLine)
        normal.clear()
        batch = _judge().judge_chunk(chunk.data, normal, line=chunk.line)
        for reject in batch.rejects:
            problem = f"is no record: {reject.findings[0].message}. fastrec verify says more"
            raise CorpusError(order.path, problem, reject.line)
        records += len(batch.records)
        for record, line in zip(batch.records, batch.numbers, strict=True):
            fields = split(key_of(record))
            if fields[2] not in order.models.get(fields[0], ()):
                continue
            key = (fields[0], fields[1])
            if current is None or key != current.key:
                if current is not None and current is not first:
                    met.add(current)
                current = Sample(key, [], [])
                first = first or current
            current.fields.append(fields)
            current.rows.append(row_of(record, 0, line))
    if records != order.records:
        problem = f"holds {records:,} records, and the manifest says {order.records:,}: fastrec verify says more"
        raise CorpusError(order.path, problem)
    met.edges = [sample for sample in (first, current if current is not first else None) if sample]
    met.count()
    return met
