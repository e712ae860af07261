"""`stats`: compare the models of each evaluation and metric.

1. The input is either one published corpus or any shards. Shards go through both passes of
   `normalize` in a temporary directory, so that duplicates count once and every number is the one
   that their corpus would have.
2. Select the matching records (`answers.selection`), and count them. Those of all records are in
   the summary.
3. Choose evaluations, metrics and models (`summary.present_choice`).
4. With `common`, recount the chosen models on the questions that all of them answered.
5. Rank the models (`summary.present_ranking`), and test which of them differ (`answers.ranks`).
6. With `group_by`, do the same for each group of records, as if it was an evaluation.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from typing import Unpack

import numpy as np
from msgspec.structs import replace

from fastrec.answers.choosing import open_index
from fastrec.answers.codes import count_of
from fastrec.answers.counts import count_run
from fastrec.answers.question_table import QuestionTable, results_by_name
from fastrec.answers.ranks import add_cluster_errors, add_ranks
from fastrec.answers.selection import parse_groups
from fastrec.answers.values import reduce_repeats
from fastrec.corpus.manifest import is_corpus
from fastrec.errors import BadShardsError, FastrecError, UsageError, check_choice, counted
from fastrec.filters import FilterArguments, Strings, make_filters
from fastrec.parameters import CORES, OUTCOMES, AnyPath, Notice, Paths
from fastrec.progress import Progress
from fastrec.statistics.repeats import MEAN, RepeatsAs, parse_series
from fastrec.summary.document import EvaluationSummary
from fastrec.summary.present_choice import Chosen, choose
from fastrec.summary.present_ranking import (
    MIN_COVERAGE,
    RANKINGS,
    EvaluationStats,
    Stats,
    add_groups,
    facts_of,
    rank,
)
from fastrec.summary.summarize import summarize_evaluations
from fastrec.where import largest_groups


def stats(
    paths: Paths,
    *,
    by: str | None = None,
    accuracy: bool = False,
    common: bool = False,
    errors_as_wrong: bool = False,
    repeats_as: str = "mean",
    jobs: int = CORES,
    group_by: Strings = (),
    cluster: str | None = None,
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    min_coverage: float = MIN_COVERAGE,
    no_ranks: bool = False,
    work_dir: AnyPath | None = None,
    progress: Progress | None = None,
    notice: Notice | None = None,
    **filters: Unpack[FilterArguments],
) -> Stats:
    """Compare the models of each evaluation and metric.

    Args:
        paths: One corpus that `normalize` published; or shards: files, directories, globs, or `-`.
        by: What to rank by, one of `RANKINGS`; by default accuracy, or score where scores are other
            than 0 and 1.
        accuracy: Tables show the accuracy even where scores are other than 0 and 1.
        common: Count only questions that all of the chosen models of an evaluation have answered.
        errors_as_wrong: Count records with an error as wrong answers. By default they do not count.
        repeats_as: What several answers of a model to a question become: `mean`, `pass@K`,
            `pass^K`, `majority` or `first`. `pass^1..4` computes all four, and ranks by the last.
        jobs: Processes to use.
        group_by: Also compare the models on groups of records: those with the same value of a
            field, as in `where`, or FIELD:N for N bins of its numbers.
        cluster: Standard errors, intervals and tests are over clusters of questions with the same
            value of this field.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower
            scores are better.
        min_coverage: Models with answers to less than this percentage of the questions come last,
            without a rank.
        no_ranks: Do not test which models differ (`rank_best`, `rank_worst`).
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
    # Long because most lines are about options: what they mean, and which exclude each other.
    if by is not None:
        check_choice("by", by, RANKINGS)
    *others, repeats = parse_series(repeats_as, errors_as_wrong=errors_as_wrong)
    groups = parse_groups(group_by)
    if groups and common:
        raise UsageError("--group-by cannot be combined with --common")
    if cluster and repeats != MEAN:
        raise UsageError("--cluster cannot be combined with --errors-as-wrong and --repeats-as")
    if common and repeats.kind != "mean":
        raise UsageError("--repeats-as cannot be combined with --common")
    wanted = make_filters(**filters)
    note = notice or (lambda _message: None)
    names = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    with ExitStack() as stack:
        corpus = _corpus_of(
            names, stack, jobs=jobs, work_dir=work_dir, progress=progress, notice=note
        )
        opened = partial(
            open_index,
            lower_is_better=lower_is_better,
            cluster=cluster,
            jobs=jobs,
            progress=progress,
        )
        index = opened(corpus, wanted.split()[1])
        choice = partial(choose, errors_as_wrong=errors_as_wrong)
        ranked = partial(
            rank,
            corpus=facts_of(index.selection.summary),
            by=by,
            accuracy=accuracy,
            common=common,
            errors_as_wrong=errors_as_wrong,
            repeats_as=str(repeats),
            min_coverage=min_coverage,
            skipped=index.manifest.skipped,
        )
        is_tested = not no_ranks and by in (None, "accuracy", "score") and repeats.kind == "mean"
        evaluations = _results_of(index, repeats)
        chosen = choice(evaluations, wanted, metrics=metrics)
        ranking = ranked(chosen)
        ranking.others = len(choice(evaluations, wanted, metrics="all")) - len(chosen)
        # Groups come first, because there may be too many of them.
        by_group = opened(index.selection.reader, wanted, groups) if groups else None
        if common:
            recount = partial(_only_common, index=index, errors_as_wrong=errors_as_wrong)
            ranking.evaluations = ranked(list(map(recount, chosen))).evaluations
        _add_tests(ranking, index, common=common, ranks=is_tested)
        _add_series(ranking.evaluations, index, others)
        if by_group:
            chosen_groups = choice(_results_of(by_group, repeats), metrics="all")
            size = attrgetter("records")
            shown = largest_groups(ranking.evaluations, chosen_groups, groups, size, note)
            parts = ranked(shown)
            _add_tests(parts, by_group, ranks=is_tested)
            _add_series(parts.evaluations, by_group, others)
            add_groups(ranking, parts.evaluations, groups)
        ranking.cluster = cluster
        ranking.damaged = index.selection.reader.damaged_files()
        ranking.outcomes = tuple(name for name in OUTCOMES if getattr(wanted, name))
        for text in index.selection.notes:
            note(text)
        return ranking


def _results_of(index: QuestionTable, repeats: RepeatsAs) -> Sequence[EvaluationSummary]:
    """The results of all evaluations, with repeats as one value."""
    return index.evaluations if repeats.kind == "mean" else reduce_repeats(index, repeats)


def _add_series(
    evaluations: Sequence[EvaluationStats], index: QuestionTable, series: Sequence[RepeatsAs]
) -> None:
    """Add the accuracies of other K."""
    for repeats in series:
        reduced = results_by_name(reduce_repeats(index, repeats))
        for name, model in results_by_name(evaluations).items():
            model.series[str(repeats)] = reduced[name].accuracy


def _add_tests(ranking: Stats, index: QuestionTable, *, common: bool = False, ranks: bool) -> None:
    """Test which models differ, and set errors over clusters.

    The scores of errors do not count, so errors cannot count as wrong.
    """
    if ranks:
        tested = [
            evaluation
            for evaluation in ranking.evaluations
            if len(evaluation.by_model) > 1 and not (ranking.errors_as_wrong and evaluation.errors)
        ]
        add_ranks(tested, index, common=common)
    if index.selection.clusters is not None:
        add_cluster_errors(ranking.evaluations, index, common=common)


def _corpus_of(
    names: Sequence[AnyPath],
    stack: ExitStack,
    *,
    jobs: int,
    work_dir: AnyPath | None,
    progress: Progress | None,
    notice: Notice,
) -> AnyPath:
    """A published corpus as it is given; shards are normalized into a temporary one."""
    paths = [os.fspath(name) for name in names]
    if len(paths) == 1 and is_corpus(paths[0]):
        return names[0]
    # Only shards have to be normalized; a corpus is asked much sooner without these modules.
    from fastrec.normalize.inputs import find_records  # noqa: PLC0415
    from fastrec.normalize.options import Options  # noqa: PLC0415
    from fastrec.normalize.scratch import SCRATCH_LEVEL, scratch_corpus  # noqa: PLC0415

    shards, notices = find_records(paths)
    for message in notices:
        notice(message)
    scratch = None if work_dir is None else os.fspath(work_dir)
    options = Options(level=SCRATCH_LEVEL, jobs=jobs, work_dir=scratch, allow_empty=True)
    try:
        corpus = stack.enter_context(
            scratch_corpus(shards, options, progress=progress, notice=notice)
        )
    except BadShardsError as exc:
        errors = "".join(f"  {error}\n" for error in exc.errors)
        raise FastrecError(
            f"{counted(exc.errors, 'shard')} could not be read completely, so there are no "
            f"statistics:\n{errors}Download them again, or leave them out."
        ) from exc
    counts = corpus.summary.line_counts
    if counts.rejected:
        notice(f"{counts.rejected:,} of {counts.lines:,} lines are invalid and do not count")
    if saved := corpus.summary.repairable.lines:
        notice(f"`fastrec normalize --repair all` would keep {saved:,} of them")
    return corpus.directory


def _only_common(chosen: Chosen, index: QuestionTable, *, errors_as_wrong: bool) -> Chosen:
    """Recount the chosen models of an evaluation on the questions that all of them have answered.

    An answer is a record without an error. A model without any answer has no say in what is common;
    of such a model, only the errors on common questions count. If errors count as wrong, every
    record is an answer.
    """
    names = [model.model_id for model in chosen.by_model]
    answering = [model.model_id for model in chosen.by_model if errors_as_wrong or model.answers]
    table = index.table(chosen)
    cells = table.cells
    has_say = table.are_models(answering or names)
    is_answered = cells.is_answered | errors_as_wrong
    answers = count_of(cells.question[has_say[cells.model] & is_answered], table.questions)
    is_common = answers == has_say.sum()
    is_chosen = np.zeros(len(table.records.number), dtype=np.bool_)
    is_chosen[table.place] = is_common[table.question] & table.of_models(names)
    counted = summarize_evaluations(*count_run(table.records.where(is_chosen)))
    models = [model for evaluation in counted for model in evaluation.by_model]
    return replace(chosen, by_model=models, common_questions=int(is_common.sum()))
