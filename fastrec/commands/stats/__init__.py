"""`stats`: compare the models of each evaluation and metric.

1. The input is either one published corpus, whose summary has all the numbers, or any shards. Shards go through both
   passes of `normalize` in a temporary directory, so that duplicates count once and every number is the one that their
   corpus would have. Nothing is published.
2. Choose evaluations, metrics and models (`summary.present_choice`). Filters by sample, hash or outcome make a corpus
   of the matching records first.
3. With `common`, recount the chosen models on the questions that all of them answered.
4. Rank the models (`summary.present_ranking`), and test which of them differ (`answers.ranks`).
5. With `group_by`, do the same for each group of records, in a corpus where each group is an evaluation.
6. With `joins`, find out which questions the chosen models have in common (`joins`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import groupby, islice, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, Unpack

import msgspec

from fastrec.answers.further_tables import compare_similar, find_calibration, find_costs, read_prices
from fastrec.answers.index import Index, cache_of, open_index, reduce_repeats
from fastrec.commands.stats.joins import find_joins, find_overlap
from fastrec.corpus.manifest import MANIFEST, read_manifest, read_summary
from fastrec.corpus.scan import (
    VERIFY_HINT,
    PartTask,
    find_split_hashes,
    is_sorted_by_question,
    parts_of,
    run_in_order,
    unsorted_error,
    with_progress,
)
from fastrec.errors import BadShardsError, CorpusError, FastrecError, UsageError, check_choice, counted
from fastrec.filters import FilterArguments, Filters, Strings, as_tuple, make_filters
from fastrec.judge.judge import judge_of, judge_slice
from fastrec.judge.version_rules import JudgeSettings
from fastrec.limits import current_limits
from fastrec.normalize.options import Options
from fastrec.normalize.scratch import (
    SCRATCH_LEVEL,
    ScratchCorpus,
    grouped_corpora,
    matching_corpus,
    parse_groups,
    scratch_corpus,
)
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS, TARGETS
from fastrec.sorting.keys import KeyColumns, encode_text, key_maker, key_splitter, question_of, scope_of, text_of
from fastrec.sources.inputs import find_shards
from fastrec.sources.shard import Slice, shard_at
from fastrec.statistics.repeats import parse_repeats
from fastrec.storage import join, storage_of
from fastrec.summary.census import QuestionCounts
from fastrec.summary.present_choice import Chosen, choose
from fastrec.summary.present_ranking import (
    MIN_COVERAGE,
    RANKINGS,
    EvaluationStats,
    Stats,
    add_groups,
    choose_groups,
    facts_of,
    rank,
)
from fastrec.summary.rows import Column, Sums, outcome_of, row_maker
from fastrec.summary.summarize import model_summary
from fastrec.summary.tally import Tally, add_repeats


def stats(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    by: str | None = None,
    accuracy: bool = False,
    common: bool = False,
    hashes: bool = False,
    joins: bool = False,
    overlap: bool = False,
    names: bool = False,
    prices: str | os.PathLike[str] | None = None,
    confidence: str | None = None,
    errors_as_wrong: bool = False,
    repeats_as: str = "mean",
    jobs: int = 1,
    group_by: Strings = (),
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    min_coverage: float = MIN_COVERAGE,
    no_ranks: bool = False,
    work_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
    **filters: Unpack[FilterArguments],
) -> Stats:
    """Compare the models of each evaluation and metric.

    Args:
        paths: One corpus that `normalize` published; or shards: files, directories, globs, or `-`.
        by: What to rank by, one of `RANKINGS`; by default accuracy, or score where scores are other than 0 and 1.
        accuracy: Tables show the accuracy even where scores are other than 0 and 1.
        common: Count only questions that all of the chosen models of an evaluation have answered.
        hashes: Also list the recipes of the hashes that the lines of each chosen model had (`Stats.hashes`).
        joins: Also find out which questions the chosen models have in common, and what keeps others apart
            (`Stats.joins`).
        overlap: Also find out which evaluations have questions in common (`Stats.overlap`).
        names: Also compare the answers of models whose names differ only in spelling (`Stats.names`).
        prices: Also compute what answers cost, at the prices of this file (`Stats.costs`).
        confidence: Also compare this field or metric, the confidence of answers, with how often they are right
            (`Stats.calibration`).
        errors_as_wrong: Count records with an error as wrong answers. By default they do not count.
        repeats_as: What several answers of a model to a question become: `mean`, `pass@K`, `pass^K`, `majority` or
            `first`.
        jobs: Processes to use.
        group_by: Also compare the models on groups of records: those with the same value of a field, as in `where`, or
            FIELD:N for N bins of its numbers.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower scores are better.
        min_coverage: Models with answers to less than this percentage of the questions come last, without a rank.
        no_ranks: Do not test which models differ. The tests need the index of the corpus (`rank_best`, `rank_worst`).
        work_dir: Directory for temporary files; the system's by default.
        progress: Receives the progress.
        notice: Receives notices for the user.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: An argument is wrong, or a pattern matches nothing.
        CorpusError: The manifest, the summary or a part of the corpus is damaged.
        ShardError: A part of the corpus could not be read completely.
        FastrecError: Some shards could not be read completely; the message lists all of them.
    """
    wanted = make_filters(**filters)
    by_name, by_record = wanted.split()
    groups = parse_groups(group_by)
    if by is not None:
        check_choice("by", by, RANKINGS)
    if hashes and by_record:
        raise UsageError(f"the hashes of producers are counted for all records of a model: leave out {by_record}")
    if groups and (common or joins or hashes):
        raise UsageError("--group-by cannot be combined with --common, --joins or --hashes")
    repeats = parse_repeats(repeats_as, errors_as_wrong=errors_as_wrong)
    if common and repeats.kind != "mean":
        raise UsageError("--repeats-as cannot be combined with --common")
    priced = None if prices is None else read_prices(os.fspath(prices))
    note = notice or (lambda _message: None)
    scratch = None if work_dir is None else os.fspath(work_dir)
    options = Options(level=SCRATCH_LEVEL, jobs=jobs, work_dir=scratch, filters=by_record, allow_empty=not by_record)
    reading: dict[str, Any] = {"jobs": jobs, "progress": progress}
    published = [os.fspath(name) for name in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]

    with contextlib.ExitStack() as stack:

        @cache
        def indexed(directory: str) -> Index:
            """Open the index of a corpus when it is first needed."""
            return stack.enter_context(open_index(directory, cache=cache_of(directory, published), **reading))

        made = _corpus_of(published, options, stack, progress, note)
        corpus, manifest, summary = made
        if repeats.kind != "mean":
            summary.evaluations = reduce_repeats(summary.evaluations, indexed(corpus), repeats)
        calibration = None if confidence is None else find_calibration(indexed(corpus), confidence, by_name)
        lower = as_tuple("lower_is_better", lower_is_better)
        choice = partial(choose, errors_as_wrong=errors_as_wrong, lower_is_better=lower)
        chosen = choice(summary, wanted, metrics=metrics)
        ranked = partial(
            rank,
            corpus=facts_of(summary),
            by=by,
            accuracy=accuracy,
            common=common,
            errors_as_wrong=errors_as_wrong,
            repeats_as=str(repeats),
            min_coverage=min_coverage,
            skipped=manifest.skipped,
        )
        found = ranked(chosen)
        found.calibration = calibration
        test = partial(_add_ranks, errors_as_wrong=errors_as_wrong)
        about_questions = hashes or joins or overlap or names or prices
        tests = not (no_ranks or about_questions or by not in (None, "accuracy", "score") or repeats.kind != "mean")
        if groups:  # first, because there may be too many of them
            (grouped,) = stack.enter_context(grouped_corpora([corpus], wanted, groups, work_dir=scratch, **reading))
        if tests and not common:
            test(found.evaluations, partial(indexed, corpus))
        found.others = len(choice(summary, wanted, metrics="all")) - len(chosen)
        if hashes:
            known = {(one.evaluation.evaluation_name, model.model_id) for one in chosen for model in one.models}
            recipes = summary.sample_hash.by_model
            found.hashes = [one for one in recipes if (one.evaluation_name, one.model_id) in known]
        if priced is not None:
            primary: dict[str, str | None] = {}
            for one in sorted(chosen, key=lambda one: not one.evaluation.primary):
                primary.setdefault(one.evaluation.evaluation_name, one.evaluation.metric)
            models = {model.model_id for one in chosen for model in one.models}
            found.costs = find_costs(corpus, manifest, priced, primary, models)
        if names:
            records = Counter[str]()
            for one in chosen:
                records.update({model.model_id: model.records for model in one.models})
            found.names = compare_similar(indexed(corpus), records)
        if groups:
            by_group = read_summary(grouped, read_manifest(grouped))
            if repeats.kind != "mean":
                by_group.evaluations = reduce_repeats(by_group.evaluations, indexed(grouped), repeats)
            parts = ranked(choose_groups(found, choice(by_group, metrics="all"), groups, note))
            if tests:
                test(parts.evaluations, partial(indexed, grouped))
            add_groups(found, parts, groups)
        if overlap:
            found.overlap = find_overlap(corpus, manifest, jobs=jobs, progress=progress)
        if joins:
            found.joins = find_joins(chosen, corpus, manifest, jobs=jobs, progress=progress)
        if common:
            made = _by_question(made, options, stack, progress, note)
            recounted = _only_common(chosen, made, errors_as_wrong=errors_as_wrong, jobs=jobs, progress=progress)
            found.evaluations = ranked(recounted).evaluations
            if tests:
                test(found.evaluations, partial(indexed, made.directory), common=True)
        return found


_Notice = Callable[[str], None]


def _add_ranks(
    evaluations: Sequence[EvaluationStats], indexed: Callable[[], Index], *, errors_as_wrong: bool, common: bool = False
) -> None:
    """Test which models differ. The index does not know the scores of errors, so these cannot count as wrong."""
    tested = [one for one in evaluations if len(one.by_model) > 1 and not (errors_as_wrong and one.errors)]
    if tested:
        # Imported only now: numpy takes longer than the rest of the command.
        add_ranks = import_module("fastrec.answers.ranks").add_ranks
        add_ranks(tested, indexed(), common=common)


def _corpus_of(
    names: Sequence[str], options: Options, stack: contextlib.ExitStack, progress: Progress | None, notice: _Notice
) -> ScratchCorpus:
    """Make a corpus with the matching records: of a published one, or of shards."""
    if len(names) == 1 and storage_of(names[0]).exists(join(names[0], MANIFEST)):
        jobs, work_dir = options.jobs, options.work_dir
        matching = matching_corpus(names[0], options.filters, jobs=jobs, work_dir=work_dir, progress=progress)
        corpus = stack.enter_context(matching)
        manifest = read_manifest(corpus)
        return ScratchCorpus(corpus, manifest, read_summary(corpus, manifest))
    made = _sorted(names, options, stack, progress, notice)
    counts = made.summary.line_counts
    if counts.rejected:
        notice(f"{counts.rejected:,} of {counts.lines:,} lines are invalid and do not count")
    if saved := made.summary.repairable.lines:
        notice(f"`fastrec normalize --repair all` would keep {saved:,} of them")
    return made


def _by_question(
    made: ScratchCorpus, options: Options, stack: contextlib.ExitStack, progress: Progress | None, notice: _Notice
) -> ScratchCorpus:
    """Sort a corpus again if it is not sorted by question, or if an earlier version cut its parts within questions."""
    name_of, pairs = attrgetter("evaluation_name", "sample_hash"), pairwise(made.manifest.parts)
    if is_sorted_by_question(made.manifest) and all(name_of(low.last) != name_of(high.first) for low, high in pairs):
        return made
    order = ", ".join(made.manifest.sort_fields[:2])
    notice(f"the corpus is sorted by {order}; sorting it again to find the common questions")
    schema = CORPUS_LABELS[made.manifest.schema].name
    keeping = {"schema": schema, "sample_hash": "fill", "filters": Filters()}  # keeps versions and hashes
    options = msgspec.structs.replace(options, **keeping)
    return _sorted([made.directory], options, stack, progress, notice)


def _sorted(
    names: Sequence[str], options: Options, stack: contextlib.ExitStack, progress: Progress | None, notice: _Notice
) -> ScratchCorpus:
    shards, notices = find_shards(names)
    for message in notices:
        notice(message)
    try:
        return stack.enter_context(scratch_corpus(shards, options, progress=progress, notice=notice))
    except BadShardsError as exc:
        lines = [f"{counted(len(exc.errors), 'shard')} could not be read completely, so there are no statistics:"]
        lines += [f"  {error}" for error in exc.errors]
        raise FastrecError("\n".join([*lines, "Download them again, or leave them out."])) from exc


# Statistics on common questions: those that all of the chosen models of an evaluation have answered.
#
# With metrics, each metric has its own common questions. The records of a hash are adjacent, whatever their metrics. Of
# a split hash (`keys.is_split`), each sample_id is a question.
#
# An answer is a record without an error. A model without any answer has no say in what is common; of such a model, only
# the errors on common questions count. If errors count as wrong, every record is an answer.
#
#     one task per part:   read · judge ──▶ group records by question ──▶ answered by all models? ──▶ tally
#
# Memory holds one chunk of text and the rows of one question, whatever the size of the corpus.


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


class _CommonQuestions(Sums):
    """The common questions of some records: their counts by scope, and the tally of their records."""

    questions: dict[bytes, QuestionCounts] = msgspec.field(default_factory=lambda: defaultdict(QuestionCounts))
    tally: Tally = msgspec.field(default_factory=Tally)


def _only_common(
    chosen: Sequence[Chosen], made: ScratchCorpus, *, errors_as_wrong: bool, jobs: int, progress: Progress | None
) -> list[Chosen]:
    """Recount the chosen models of a corpus on the questions that all of them have answered."""
    models: _Models = {}
    corpus, manifest, _ = made
    for one in chosen:
        everyone = frozenset(encode_text(model.model_id) for model in one.models)
        answering = frozenset(encode_text(model.model_id) for model in one.models if errors_as_wrong or model.answers)
        scope = scope_of(one.evaluation.evaluation_name, one.evaluation.metric)
        models[scope] = _ChosenModels(everyone, answering or everyone, errors_as_wrong)
    parts = parts_of(corpus, manifest)
    schema = CORPUS_LABELS[manifest.schema].name
    found_split = find_split_hashes(parts, manifest, (one.evaluation for one in chosen), jobs=jobs)
    split = frozenset((scope_of(name, metric), encode_text(hash_)) for name, metric, hash_ in found_split)
    tasks = [_PartTask(part, schema, manifest.sort_fields, models, split) for part in parts]
    found = _CommonQuestions()
    results = run_in_order(_read_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs)
    for part in with_progress(results, parts, progress, "count"):
        found += part
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


def _read_part(task: _PartTask) -> _CommonQuestions:
    """Count the common questions of one part. Runs in a worker."""
    found = _CommonQuestions()

    def common() -> Iterator[_Answer]:
        # The sort order makes the records of a hash adjacent, and no cut between parts separates them.
        for _, every in groupby(_answers(task), key=lambda answer: question_of(answer[0])):
            questions: dict[tuple[bytes, bytes], list[_Answer]] = defaultdict(list)
            for answer in every:
                scope, sample_hash, _, _, sample_id = answer[0]
                questions[scope, sample_id if (scope, sample_hash) in task.split else b""].append(answer)
            for (scope, _), answers in questions.items():
                chosen = task.models[scope]
                answering = {fields[2] for fields, row in answers if chosen.errors_as_wrong or not row[Column.ERROR]}
                if chosen.answering <= answering:
                    counts = found.questions[scope]
                    counts.questions += 1
                    add_repeats(counts.repeats, ((fields[2], outcome_of(row)) for fields, row in answers))
                    yield from answers

    records, most = common(), current_limits().stats_batch_records
    while batch := list(islice(records, most)):  # the tally is fastest with many at a time
        found.tally.add(KeyColumns.of(fields for fields, _ in batch), [row for _, row in batch])
    return found


def _answers(task: _PartTask) -> Iterator[_Answer]:
    path, expected = task.part.path, task.part.entry.records
    row_of = row_maker(TARGETS[task.schema])
    key_of, split = key_maker(task.sort_fields), key_splitter(task.sort_fields)
    records, last = 0, b""
    # It keeps the hashes, which identify questions.
    judge = judge_of(JudgeSettings(schema=task.schema, sample_hash="fill"))
    # No limit on the line length: `normalize` accepted these lines.
    for judged in judge_slice(judge, Slice(shard_at(path)), max_line_bytes=sys.maxsize):
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
