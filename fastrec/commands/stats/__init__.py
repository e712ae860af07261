"""`stats`: compare the models of each evaluation and metric.

1. The input is either one published corpus, whose summary has all the numbers, or any shards. Shards go through both
   passes of `normalize` in a temporary directory, so that duplicates count once and every number is the one that their
   corpus would have. Nothing is published.
2. Choose evaluations, metrics and models (`summary.present_choice`). Filters by sample, hash or outcome make a corpus
   of the matching records first.
3. With `common`, recount the chosen models on the questions that all of them answered (`common`).
4. Rank the models (`summary.present_ranking`), and test which of them differ (`answers.ranks`).
5. With `group_by`, do the same for each group of records (`groups`).
6. With `joins`, find out which questions the chosen models have in common (`joins`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Unpack

import msgspec

from fastrec.answers.index import open_index
from fastrec.commands.stats.common import only_common
from fastrec.commands.stats.groups import with_directions_of, with_groups
from fastrec.commands.stats.joins import find_joins
from fastrec.commands.stats.overlap import find_overlap
from fastrec.corpus.manifest import MANIFEST, read_manifest, read_summary
from fastrec.corpus.scan import is_sorted_by_question
from fastrec.errors import BadShardsError, FastrecError, UsageError, counted
from fastrec.filters import NAME_FILTERS, FilterArguments, Filters, Strings, as_tuple, make_filters
from fastrec.limits import Limits, current_limits
from fastrec.normalize.options import Options
from fastrec.normalize.scratch import SCRATCH_LEVEL, ScratchCorpus, grouped_corpus, matching_corpus, scratch_corpus
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.sources.inputs import find_shards
from fastrec.storage import join, storage_of
from fastrec.summary.present_choice import choose
from fastrec.summary.present_ranking import MIN_COVERAGE, RANKINGS, EvaluationStats, Stats, facts_of, rank
from fastrec.where import parse_group


def stats(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    by: str | None = None,
    accuracy: bool = False,
    common: bool = False,
    hashes: bool = False,
    joins: bool = False,
    overlap: bool = False,
    errors_as_wrong: bool = False,
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
        errors_as_wrong: Count records with an error as wrong answers. By default they do not count.
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
    limits = current_limits()
    if by is not None and by not in RANKINGS:
        raise UsageError(f"by must be one of {', '.join(RANKINGS)}, not {by!r}")
    names = [os.fspath(name) for name in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    wanted = make_filters(**filters)
    about_questions = hashes or joins or overlap
    by_record = msgspec.structs.replace(wanted, **dict.fromkeys(NAME_FILTERS, ()))
    if hashes and by_record:
        raise UsageError(f"the hashes of producers are counted for all records of a model: leave out {by_record}")
    groups = tuple(map(parse_group, as_tuple("group_by", group_by)))
    if groups and (common or joins or hashes):
        raise UsageError("--group-by cannot be combined with --common, --joins or --hashes")
    note = notice or (lambda _message: None)
    scratch = None if work_dir is None else os.fspath(work_dir)
    options = Options(level=SCRATCH_LEVEL, jobs=jobs, work_dir=scratch, filters=by_record, allow_empty=not by_record)
    with contextlib.ExitStack() as stack:
        if len(names) == 1 and storage_of(names[0]).exists(join(names[0], MANIFEST)):
            made = matching_corpus(names[0], by_record, jobs=jobs, work_dir=scratch, progress=progress)
            corpus = stack.enter_context(made)
            manifest = read_manifest(corpus)
            summary = read_summary(corpus, manifest)
        else:
            corpus, manifest, summary = stack.enter_context(_sorted(names, options, progress=progress, notice=note))
            counts = summary.line_counts
            if counts.rejected:
                note(f"{counts.rejected:,} of {counts.lines:,} lines are invalid and do not count")
            if saved := summary.repairable.lines:
                note(f"`fastrec normalize --repair all` would keep {saved:,} of them")
        choice = partial(
            choose,
            errors_as_wrong=errors_as_wrong,
            metrics=metrics,
            lower_is_better=as_tuple("lower_is_better", lower_is_better),
        )
        chosen = choice(summary, wanted)
        ranked = partial(
            rank,
            corpus=facts_of(summary),
            by=by,
            accuracy=accuracy,
            common=common,
            errors_as_wrong=errors_as_wrong,
            min_coverage=min_coverage,
            skipped=manifest.skipped,
        )
        found = ranked(chosen)
        test = partial(_add_ranks, errors_as_wrong=errors_as_wrong, jobs=jobs, progress=progress, limits=limits)
        cache = None if corpus == names[0] else Path(corpus).with_name("index")  # of a temporary corpus: beside it
        tests = not (no_ranks or about_questions or by not in (None, "accuracy", "score"))
        if tests and not common:
            test(found.evaluations, corpus, cache)
        found.others = len(choose(summary, wanted, metrics="all")) - len(chosen)
        if hashes:
            names_of = {(one.evaluation.evaluation_name, model.model_id) for one in chosen for model in one.models}
            recipes = summary.sample_hash.by_model
            found.hashes = [one for one in recipes if (one.evaluation_name, one.model_id) in names_of]
        if groups:
            by_value = grouped_corpus(corpus, wanted, groups, jobs=jobs, progress=progress, limits=limits)
            directory, groups = stack.enter_context(by_value)
            grouped = choose(read_summary(directory, read_manifest(directory)), metrics="all")
            by_group = ranked(with_directions_of(found.evaluations, grouped, groups)).evaluations
            if tests:
                test(by_group, directory, Path(directory).with_name("index"))
            found.evaluations = with_groups(found.evaluations, by_group, groups, note)
        if overlap:
            found.overlap = find_overlap(corpus, manifest, jobs=jobs, progress=progress, limits=limits)
        if joins:
            found.joins = find_joins(chosen, corpus, manifest, jobs=jobs, progress=progress, limits=limits)
        if not common:
            return found
        if not is_sorted_by_question(manifest):
            order = ", ".join(manifest.sort_fields[:2])
            note(f"the corpus is sorted by {order}; sorting it again to find the common questions")
            schema = CORPUS_LABELS[manifest.schema].name
            keeping = {"schema": schema, "sample_hash": "fill", "filters": Filters()}  # keeps versions and hashes
            options = msgspec.structs.replace(options, **keeping)
            corpus, manifest, _ = stack.enter_context(_sorted([corpus], options, progress=progress, notice=note))
        recounted = only_common(
            chosen, corpus, manifest, errors_as_wrong=errors_as_wrong, jobs=jobs, progress=progress, limits=limits
        )
        found = msgspec.structs.replace(found, evaluations=ranked(recounted).evaluations)
        if tests:
            test(
                found.evaluations, corpus, None if corpus == names[0] else Path(corpus).with_name("index"), common=True
            )
        return found


def _add_ranks(
    evaluations: Sequence[EvaluationStats],
    corpus: str,
    cache: Path | None,
    *,
    errors_as_wrong: bool,
    common: bool = False,
    jobs: int,
    progress: Progress | None,
    limits: Limits,
) -> None:
    """Test which models differ. The index does not know the scores of errors, so these cannot count as wrong."""
    tested = [one for one in evaluations if len(one.by_model) > 1 and not (errors_as_wrong and one.errors)]
    if tested:
        # Imported only now: numpy takes longer than the rest of the command.
        add_ranks = import_module("fastrec.answers.ranks").add_ranks
        with open_index(corpus, jobs=jobs, cache=cache, progress=progress, limits=limits) as index:
            add_ranks(tested, index, common=common)


@contextlib.contextmanager
def _sorted(
    names: Sequence[str], options: Options, *, progress: Progress | None, notice: Callable[[str], None]
) -> Iterator[ScratchCorpus]:
    shards, notices = find_shards(names)
    for message in notices:
        notice(message)
    with contextlib.ExitStack() as stack:
        try:
            corpus = stack.enter_context(scratch_corpus(shards, options, progress=progress, notice=notice))
        except BadShardsError as exc:
            lines = [f"{counted(len(exc.errors), 'shard')} could not be read completely, so there are no statistics:"]
            lines += [f"  {error}" for error in exc.errors]
            raise FastrecError("\n".join([*lines, "Download them again, or leave them out."])) from exc
        yield corpus
