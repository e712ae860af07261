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
from itertools import chain, groupby, islice
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
Answer = tuple[Sequence[bytes], Any]
"""A record of a chosen model: the fields of its sort key (evaluation_name, sample_hash, model_id, …), and its row."""


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

    questions: Counter[bytes]
    tally: Tally
    edges: list[list[Answer]]
    """The first and the last question of a part: the neighbouring parts may have more of their records."""


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
    questions: Counter[bytes] = Counter()
    tally = Tally()
    edges: list[list[Answer]] = []
    for part in run_in_order(_read_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits):
        questions += part.questions
        tally += part.tally
        edges += part.edges
    pieces = groupby(edges, key=lambda answers: answers[0][0][:2])
    joined = _count((list(chain.from_iterable(group)) for _, group in pieces), models, limits)
    questions += joined.questions
    tally += joined.tally
    recounted = []
    for one, (evaluation, names) in zip(chosen, models.items(), strict=True):
        count = questions[evaluation]
        summaries = [
            model_summary(text_of(name), tally.models[evaluation, name], count) for name in sorted(names) if count
        ]
        recounted.append(Chosen(one.evaluation, one.count, summaries, count))
    return recounted


def _count(questions: Iterable[list[Answer]], models: Models, limits: Limits) -> CommonQuestions:
    """Count the questions that every chosen model answered, given all their records."""
    found = CommonQuestions(Counter(), Tally(), [])

    def common() -> Iterator[Answer]:
        for answers in questions:
            evaluation = answers[0][0][0]
            if {fields[2] for fields, _ in answers} == models[evaluation]:
                found.questions[evaluation] += 1
                yield from answers

    records = common()
    while batch := list(islice(records, limits.stats_batch_records)):  # the tally is fastest with many at a time
        found.tally.add(*zip(*batch, strict=True))
    return found


@lru_cache(maxsize=1)
def _judge() -> Judge:
    return Judge(sample_hash="fill")  # keeps the hashes of the corpus, which identify its questions


def _read_part(task: PartTask) -> CommonQuestions:
    """Find the common questions of one part. Runs in a worker."""
    # The sort order makes the records of a question adjacent.
    groups = groupby(_answers(task), key=lambda answer: answer[0][:2])
    questions = (list(answers) for _, answers in groups)
    edges = list(islice(questions, 2))

    def inner() -> Iterator[list[Answer]]:
        for answers in questions:
            yield edges.pop()
            edges.append(answers)

    found = _count(inner(), task.models, task.limits)
    found.edges = edges
    return found


def _answers(task: PartTask) -> Iterator[Answer]:
    """Read the records of chosen models."""
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
