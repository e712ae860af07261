"""Statistics on common questions: those that every chosen model of an evaluation answered.

    one task per part:   read · judge ──▶ group records by question ──▶ answered by all models? ──▶ tally
    the driver:          joins questions whose records span two parts, and adds up the tallies

Memory holds one chunk of text and the rows of one question, whatever the size of the corpus.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import msgspec

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import VERIFY_HINT, PartFile, parts_of, run_in_order
from fastrec.errors import CorpusError, shown
from fastrec.judge.judge import Judge
from fastrec.judge.shards import judge_slice
from fastrec.limits import Limits
from fastrec.sorting.keys import encode_text, key_maker, key_splitter, text_of
from fastrec.sources.shard import Slice, shard_at
from fastrec.summary.ranking import Chosen
from fastrec.summary.rows import row_of
from fastrec.summary.summarize import model_summary
from fastrec.summary.tally import Tally

__all__ = ["only_common"]


Models = dict[bytes, frozenset[bytes]]
"""The chosen models of each evaluation, both as spelled in sort keys."""
KeyFields = Sequence[bytes]
"""The fields of a sort key: evaluation_name, sample_hash, model_id, …"""


class Answers(msgspec.Struct):
    """The records of chosen models for one question."""

    fields: list[KeyFields]
    rows: list[Any]


class PartTask(msgspec.Struct, frozen=True):
    """A task: read one part."""

    part: PartFile
    sort_fields: tuple[str, ...]
    models: Models
    limits: Limits

    def __str__(self) -> str:
        return f"reading {shown(self.part.path)}"


class CommonQuestions(msgspec.Struct):
    """The common questions of a part or of a corpus: their number per evaluation, and the tally of their records."""

    models: Models
    limits: Limits
    questions: Counter[bytes] = msgspec.field(default_factory=Counter)
    tally: Tally = msgspec.field(default_factory=Tally)
    edges: list[Answers] = msgspec.field(default_factory=list)
    """The first and the last question of a part: the neighbouring parts may have more of their records."""
    pending: Answers = msgspec.field(default_factory=lambda: Answers([], []))

    def add(self, answers: Answers) -> None:
        """Count a question whose records are complete, if every chosen model answered it."""
        evaluation = answers.fields[0][0]
        if {fields[2] for fields in answers.fields} == self.models[evaluation]:
            self.questions[evaluation] += 1
            self.pending.fields += answers.fields
            self.pending.rows += answers.rows
            if len(self.pending.rows) >= self.limits.stats_batch_records:
                self.flush()

    def flush(self) -> None:
        """Add the pending records to the tally: it is fastest with many records at a time."""
        if self.pending.rows:
            self.tally.add(self.pending.fields, self.pending.rows)
            self.pending = Answers([], [])


def only_common(
    chosen: Sequence[Chosen], corpus: str, manifest: Manifest, *, jobs: int, limits: Limits
) -> list[Chosen]:
    """Recount the chosen models of a corpus on the questions that all of them answered.

    Raises:
        CorpusError: A part does not hold the records that the manifest says.
        ShardError: A part could not be read completely.
    """
    models = {
        encode_text(one.evaluation.evaluation_name): frozenset(encode_text(model.model_id) for model in one.models)
        for one in chosen
    }
    tasks = [PartTask(part, manifest.sort_fields, models, limits) for part in parts_of(corpus, manifest)]
    found = run_in_order(_read_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits)
    common = _joined(found, models, limits)
    return [_recounted(one, common) for one in chosen]


def _joined(parts: Iterable[CommonQuestions], models: Models, limits: Limits) -> CommonQuestions:
    """Add up the parts of a corpus, given in order."""
    common = CommonQuestions(models, limits)
    edges: list[Answers] = []
    for part in parts:
        common.questions.update(part.questions)
        common.tally += part.tally
        edges += part.edges
    for _, pieces in groupby(edges, key=lambda answers: answers.fields[0][:2]):
        whole = Answers([], [])
        for piece in pieces:
            whole.fields += piece.fields
            whole.rows += piece.rows
        common.add(whole)
    common.flush()
    return common


def _recounted(chosen: Chosen, common: CommonQuestions) -> Chosen:
    evaluation = encode_text(chosen.evaluation.evaluation_name)
    questions = common.questions[evaluation]
    summaries = []
    for model in sorted(common.models[evaluation]) if questions else []:
        tally = common.tally.models[evaluation, model]
        summaries.append(model_summary(text_of(model), tally, questions))
    return Chosen(chosen.evaluation, chosen.count, summaries, questions)


@lru_cache(maxsize=1)
def _judge() -> Judge:
    return Judge(sample_hash="fill")  # keeps the hashes of the corpus, which identify its questions


def _read_part(task: PartTask) -> CommonQuestions:
    """Find the common questions of one part. Runs in a worker."""
    common = CommonQuestions(task.models, task.limits)
    questions = _questions(task)
    first, last = next(questions, None), None
    for answers in questions:
        if last is not None:
            common.add(last)
        last = answers
    common.edges = [answers for answers in (first, last) if answers is not None]
    common.flush()
    return common


def _questions(task: PartTask) -> Iterator[Answers]:
    """Group the records of chosen models by question; the sort order makes them adjacent."""
    for _, group in groupby(_records(task), key=lambda record: record[0][:2]):
        fields, rows = zip(*group, strict=True)
        yield Answers(list(fields), list(rows))


def _records(task: PartTask) -> Iterator[tuple[KeyFields, Any]]:
    """Read the records of chosen models: the fields of the sort key, and the row."""
    path, expected = task.part.path, task.part.entry.records
    key_of, split = key_maker(task.sort_fields), key_splitter(task.sort_fields)
    records = 0
    # No limit on the line length: `normalize` accepted these lines.
    for judged in judge_slice(_judge(), Slice(shard_at(path)), max_line_bytes=sys.maxsize):
        batch = judged.batch
        for invalid in batch.rejected:
            raise CorpusError(path, f"not a valid record: {invalid.findings[0].message}; {VERIFY_HINT}", invalid.line)
        records += len(batch.records)
        for record, line in zip(batch.records, batch.numbers, strict=True):
            fields = split(key_of(record))
            if fields[2] in task.models.get(fields[0], ()):
                yield fields, row_of(record, 0, line)
    if records != expected:
        raise CorpusError(path, f"has {records:,} records, but the manifest says {expected:,}; {VERIFY_HINT}")
