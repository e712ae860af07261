"""Statistics on common questions: those that all of the chosen models of an evaluation have answered.

With metrics, each metric has its own common questions. The records of a hash are adjacent, whatever their metrics. Of a
split hash (`keys.is_split`), each sample_id is a question.

An answer is a record without an error. A model without any answer has no say in what is common; of such a model, only
the errors on common questions count. If errors count as wrong, every record is an answer.

    one task per part:   read · judge ──▶ group records by question ──▶ answered by all models? ──▶ tally
    the driver:          joins questions whose records span two parts, and adds up the tallies

Memory holds one chunk of text and the rows of one question, whatever the size of the corpus.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

import msgspec

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import (
    VERIFY_HINT,
    PartTask,
    find_split_hashes,
    parts_of,
    run_in_order,
    unsorted_error,
    with_progress,
)
from fastrec.errors import CorpusError
from fastrec.judge.judge import Judge, judge_slice
from fastrec.judge.version_rules import JudgeSettings
from fastrec.limits import Limits
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS, TARGETS
from fastrec.sorting.fields import KeyColumns
from fastrec.sorting.keys import encode_text, key_maker, key_splitter, question_of, scope_of, text_of
from fastrec.sources.shard import Slice, shard_at
from fastrec.summary.census import QuestionCounts
from fastrec.summary.present_choice import Chosen
from fastrec.summary.rows import Column, Sums, outcome_of, row_maker
from fastrec.summary.summarize import model_summary
from fastrec.summary.tally import Tally, add_repeats


class _ChosenModels(NamedTuple):
    """The chosen models of an evaluation, as spelled in sort keys."""

    all: frozenset[bytes]
    answering: frozenset[bytes]  # those that have answers. A common question has an answer of each.
    errors_as_wrong: bool


_Models = dict[bytes, _ChosenModels]  # by scope (an evaluation with a metric, if it has one), as spelled in sort keys
_Answer = tuple[Sequence[bytes], Any]
"""A record of a chosen model: the fields of its sort key (scope, sample_hash, model_id, …), and its row."""


class _PartTask(PartTask, frozen=True):
    schema: str
    sort_fields: tuple[str, ...]
    models: _Models
    split: frozenset[tuple[bytes, bytes]]  # scope and sample_hash of split hashes
    limits: Limits


class _CommonQuestions(Sums):
    """The common questions of some records: their counts by scope, and the tally of their records."""

    questions: dict[bytes, QuestionCounts] = msgspec.field(default_factory=lambda: defaultdict(QuestionCounts))
    tally: Tally = msgspec.field(default_factory=Tally)
    edges: list[list[_Answer]] = msgspec.field(default_factory=list)
    """The first and the last hash of each part: the neighbouring parts may have more of their records."""


def only_common(
    chosen: Sequence[Chosen],
    corpus: str,
    manifest: Manifest,
    *,
    errors_as_wrong: bool,
    jobs: int,
    progress: Progress | None,
    limits: Limits,
) -> list[Chosen]:
    """Recount the chosen models of a corpus on the questions that all of them have answered."""
    models = {
        scope_of(one.evaluation.evaluation_name, one.evaluation.metric): _models(one, errors_as_wrong) for one in chosen
    }
    parts = parts_of(corpus, manifest)
    schema = CORPUS_LABELS[manifest.schema].name
    found_split = find_split_hashes(parts, manifest, (one.evaluation for one in chosen), jobs=jobs, limits=limits)
    split = frozenset((scope_of(name, metric), encode_text(hash_)) for name, metric, hash_ in found_split)
    tasks = [_PartTask(part, schema, manifest.sort_fields, models, split, limits) for part in parts]
    found = _CommonQuestions()
    results = run_in_order(_read_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits)
    for part in with_progress(results, parts, progress, "count"):
        found += part
    pieces = groupby(found.edges, key=lambda answers: question_of(answers[0][0]))
    found += _count((list(chain.from_iterable(group)) for _, group in pieces), models, split, limits)
    recounted = []
    for one, (scope, names) in zip(chosen, models.items(), strict=True):
        counts = found.questions[scope]
        summaries = [
            model_summary(text_of(name), found.tally.models[scope, name], counts.repeats[name])
            for name in sorted(names.all)
            if (scope, name) in found.tally.models
        ]
        recounted.append(msgspec.structs.replace(one, models=summaries, common_questions=counts.questions))
    return recounted


def _models(chosen: Chosen, errors_as_wrong: bool) -> _ChosenModels:
    everyone = frozenset(encode_text(model.model_id) for model in chosen.models)
    answering = frozenset(encode_text(model.model_id) for model in chosen.models if errors_as_wrong or model.answers)
    return _ChosenModels(everyone, answering or everyone, errors_as_wrong)


def _count(
    hashes: Iterable[list[_Answer]], models: _Models, split: frozenset[tuple[bytes, bytes]], limits: Limits
) -> _CommonQuestions:
    """Count the common questions, given the answers of each hash."""
    found = _CommonQuestions()

    def common() -> Iterator[_Answer]:
        for every in hashes:
            questions: dict[tuple[bytes, bytes], list[_Answer]] = defaultdict(list)
            for answer in every:
                scope, sample_hash, _, _, sample_id = answer[0]
                questions[scope, sample_id if (scope, sample_hash) in split else b""].append(answer)
            for (scope, _), answers in questions.items():
                chosen = models[scope]
                answering = {fields[2] for fields, row in answers if chosen.errors_as_wrong or not row[Column.ERROR]}
                if chosen.answering <= answering:
                    counts = found.questions[scope]
                    counts.questions += 1
                    add_repeats(counts.repeats, ((fields[2], outcome_of(row)) for fields, row in answers))
                    yield from answers

    records = common()
    while batch := list(islice(records, limits.stats_batch_records)):  # the tally is fastest with many at a time
        found.tally.add(KeyColumns.of(fields for fields, _ in batch), [row for _, row in batch])
    return found


@lru_cache(maxsize=1)
def _judge(schema: str) -> Judge:
    return Judge(JudgeSettings(schema=schema, sample_hash="fill"))  # keeps the hashes, which identify the questions


def _read_part(task: _PartTask) -> _CommonQuestions:
    """Find the common questions of one part. Runs in a worker."""
    # The sort order makes the records of a question adjacent.
    groups = groupby(_answers(task), key=lambda answer: question_of(answer[0]))
    hashes = (list(answers) for _, answers in groups)
    edges = list(islice(hashes, 2))

    def inner() -> Iterator[list[_Answer]]:
        for answers in hashes:
            yield edges.pop()
            edges.append(answers)

    found = _count(inner(), task.models, task.split, task.limits)
    found.edges = edges
    return found


def _answers(task: _PartTask) -> Iterator[_Answer]:
    path, expected = task.part.path, task.part.entry.records
    row_of = row_maker(TARGETS[task.schema])
    key_of, split = key_maker(task.sort_fields), key_splitter(task.sort_fields)
    records, last = 0, b""
    # No limit on the line length: `normalize` accepted these lines.
    for judged in judge_slice(_judge(task.schema), Slice(shard_at(path)), max_line_bytes=sys.maxsize):
        batch = judged.batch
        for invalid in batch.rejected:
            raise CorpusError(path, f"not a valid record: {invalid.findings[0].message}; {VERIFY_HINT}", invalid.line)
        records += len(batch.records)
        for record, line in zip(batch.records, batch.numbers, strict=True):
            key = key_of(record)
            if key < last:
                raise unsorted_error(path, line)
            last, fields = key, split(key)
            chosen = task.models.get(fields[0])
            if chosen is not None and fields[2] in chosen.all:
                yield fields, row_of(record, 0, line)
    if records != expected:
        raise CorpusError(path, f"has {records:,} records, but the manifest says {expected:,}; {VERIFY_HINT}")
