"""`stats`: compare the models of each evaluation and metric.

1. The input is either one published corpus, whose summary has all the numbers, or any shards. Shards go through both
   passes of `normalize` in a temporary directory, so that duplicates count once and every number is the one that their
   corpus would have. Nothing is published.
2. Choose evaluations, metrics and models (`summary.present_choice`). Filters by sample, hash or outcome make a corpus
   of the matching records first.
3. With `common`, recount the chosen models on the questions that all of them answered (`common`).
4. Rank the models (`summary.present_ranking`), and test which of them differ (`answers.ranks`).
5. With `group_by`, do the same for each group of records, in a corpus where each group is an evaluation.
6. With `joins`, find out which questions the chosen models have in common (`joins`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TypedDict, Unpack

import msgspec

from fastrec.answers.calibration import find_calibration
from fastrec.answers.index import cache_of, open_index, reduce_repeats
from fastrec.answers.trials import parse_repeats
from fastrec.commands.stats.common import only_common
from fastrec.commands.stats.joins import find_joins, find_overlap
from fastrec.corpus.manifest import MANIFEST, read_manifest, read_summary
from fastrec.corpus.scan import is_sorted_by_question
from fastrec.errors import BadShardsError, FastrecError, UsageError, counted
from fastrec.filters import NAME_FILTERS, FilterArguments, Filters, Strings, as_tuple, make_filters
from fastrec.limits import Limits, current_limits
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
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.sources.inputs import find_shards
from fastrec.storage import join, storage_of
from fastrec.summary.present_choice import choose
from fastrec.summary.present_ranking import MIN_COVERAGE, RANKINGS, EvaluationStats, Stats, add_groups, facts_of, rank


def stats(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    by: str | None = None,
    accuracy: bool = False,
    common: bool = False,
    hashes: bool = False,
    joins: bool = False,
    overlap: bool = False,
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
    by_record = msgspec.structs.replace(wanted, **dict.fromkeys(NAME_FILTERS, ()))
    groups = parse_groups(group_by)
    if by is not None and by not in RANKINGS:
        raise UsageError(f"by must be one of {', '.join(RANKINGS)}, not {by!r}")
    if hashes and by_record:
        raise UsageError(f"the hashes of producers are counted for all records of a model: leave out {by_record}")
    if groups and (common or joins or hashes):
        raise UsageError("--group-by cannot be combined with --common, --joins or --hashes")
    repeats = parse_repeats(repeats_as, errors_as_wrong=errors_as_wrong)
    if common and repeats.kind != "mean":
        raise UsageError("--repeats-as cannot be combined with --common")
    note = notice or (lambda _message: None)
    scratch = None if work_dir is None else os.fspath(work_dir)
    options = Options(level=SCRATCH_LEVEL, jobs=jobs, work_dir=scratch, filters=by_record, allow_empty=not by_record)
    reading = _Reading(jobs=jobs, progress=progress, limits=current_limits())
    with contextlib.ExitStack() as stack:
        published = [os.fspath(name) for name in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
        made = _corpus_of(published, options, stack, progress, note)
        corpus, manifest, summary = made
        calibration = None
        if repeats.kind != "mean" or confidence is not None:
            with open_index(corpus, cache=cache_of(corpus, published), **reading) as index:
                if repeats.kind != "mean":
                    summary.evaluations = reduce_repeats(summary.evaluations, index, repeats)
                if confidence is not None:
                    by_name = Filters(**{name: getattr(wanted, name) for name in NAME_FILTERS})
                    calibration = find_calibration(index, confidence, by_name)
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
        test = partial(_add_ranks, published=published, errors_as_wrong=errors_as_wrong, reading=reading)
        about_questions = hashes or joins or overlap
        tests = not (no_ranks or about_questions or by not in (None, "accuracy", "score") or repeats.kind != "mean")
        if tests and not common:
            test(found.evaluations, corpus)
        found.others = len(choice(summary, wanted, metrics="all")) - len(chosen)
        if hashes:
            names = {(one.evaluation.evaluation_name, model.model_id) for one in chosen for model in one.models}
            recipes = summary.sample_hash.by_model
            found.hashes = [one for one in recipes if (one.evaluation_name, one.model_id) in names]
        if groups:
            grouped = stack.enter_context(grouped_corpora([corpus], wanted, groups, work_dir=scratch, **reading))[0]
            by_group = read_summary(grouped, read_manifest(grouped))
            if repeats.kind != "mean":
                with open_index(grouped, cache=cache_of(grouped, published), **reading) as index:
                    by_group.evaluations = reduce_repeats(by_group.evaluations, index, repeats)
            parts = ranked(choice(by_group, metrics="all"))
            if tests:
                test(parts.evaluations, grouped)
            add_groups(found, parts, groups, note)
        if overlap:
            found.overlap = find_overlap(corpus, manifest, **reading)
        if joins:
            found.joins = find_joins(chosen, corpus, manifest, **reading)
        if common:
            corpus, manifest, _ = _by_question(made, options, stack, progress, note)
            recounted = only_common(chosen, corpus, manifest, errors_as_wrong=errors_as_wrong, **reading)
            found.evaluations = ranked(recounted).evaluations
            if tests:
                test(found.evaluations, corpus, common=True)
        return found


_Notice = Callable[[str], None]


class _Reading(TypedDict):
    """Arguments of functions that read a corpus."""

    jobs: int
    progress: Progress | None
    limits: Limits


def _add_ranks(
    evaluations: Sequence[EvaluationStats],
    corpus: str,
    *,
    published: Sequence[str],
    errors_as_wrong: bool,
    common: bool = False,
    reading: _Reading,
) -> None:
    """Test which models differ. The index does not know the scores of errors, so these cannot count as wrong."""
    tested = [one for one in evaluations if len(one.by_model) > 1 and not (errors_as_wrong and one.errors)]
    if tested:
        # Imported only now: numpy takes longer than the rest of the command.
        add_ranks = import_module("fastrec.answers.ranks").add_ranks
        with open_index(corpus, cache=cache_of(corpus, published), **reading) as index:
            add_ranks(tested, index, common=common)


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
    """Sort a corpus again if it is not sorted by question."""
    if is_sorted_by_question(made.manifest):
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
