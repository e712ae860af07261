"""`report`: one self-contained HTML page about a corpus.

1. Read the manifest, the summary, a few examples of rejected lines for each code, and some
   questions with answers.
2. Make the sections (`sections`, `trend`, `evaluations`) from templates: HTML that works without a
   script. The first ones are shown, the others unfold.
3. Fill the template of the page with the sections, the style, and the script, which sorts, searches
   and switches the theme. The page's content security policy allows only this script and this
   style, by their hashes, and no network.
4. Write the file atomically.
"""

import os
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Unpack

from msgspec.structs import replace

from fastrec._version import __version__
from fastrec.answers.board import Leaderboard
from fastrec.answers.choosing import choose_scopes, open_index, primary_queries
from fastrec.answers.costs import ModelCost, find_costs, read_prices
from fastrec.answers.leaderboard import make_leaderboard
from fastrec.answers.pictures import calibration_pictures, evaluations_html
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.ranks import add_ranks
from fastrec.answers.selection import Groups, How, parse_groups
from fastrec.answers.values import reduce_repeats
from fastrec.commands.report import sections
from fastrec.commands.report.evaluations import costs_section, question_cards, suspected_keys
from fastrec.commands.report.sections import section
from fastrec.commands.report.trend import trend_section
from fastrec.corpus.manifest import skipped_lines
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, shown
from fastrec.filters import (
    FilterArguments,
    Filters,
    Paths,
    Strings,
    as_tuple,
    make_filters,
    several_paths,
)
from fastrec.limits import current_limits
from fastrec.pages import render_template
from fastrec.pages.html import Html
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.statistics.repeats import RepeatsAs, parse_repeats
from fastrec.storage import check_local, is_url, last_name
from fastrec.storage.local import check_new_file, write_file
from fastrec.summary.document import Summary
from fastrec.summary.present_choice import choose, names_of
from fastrec.summary.present_ranking import (
    MIN_COVERAGE,
    Stats,
    add_groups,
    facts_of,
    largest,
    rank,
    repeats_in_words,
)
from fastrec.where import largest_groups

_FIRST_MODELS = 15  # of the leaderboard that are not folded


def report(
    corpus: AnyPath,
    output: AnyPath | BinaryIO,
    *,
    overwrite: bool = False,
    accuracy: bool = False,
    errors_as_wrong: bool = False,
    repeats_as: str = "mean",
    confidence: str | None = None,
    prices: AnyPath | None = None,
    examples: int = 20,
    metrics: str = "judgements",
    primary: Strings = (),
    min_coverage: float = MIN_COVERAGE,
    lower_is_better: Strings = (),
    trend: Paths = (),
    group_by: Strings = (),
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> int:
    """Write the report about a corpus to a file, and return its size.

    Args:
        corpus: A directory or URL that `normalize` published.
        output: The file to write, or one that is open for writing.
        overwrite: Replace an existing file.
        accuracy: Show the accuracy even where scores are other than 0 and 1.
        errors_as_wrong: Count records with an error as wrong answers. By default they do not count.
        repeats_as: What several answers of a model to a question become: `mean`, `pass@K`,
            `pass^K`, `majority` or `first`. The questions and the trend show means.
        confidence: Draw how often answers are right against this field or metric, their confidence.
        prices: Show what answers cost, at the prices of this file, as `stats` does.
        examples: How many of the hardest and most disputed questions to show, together.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        primary: `EVALUATION=METRIC` for evaluations whose primary metric is another one; both may
            be patterns.
        min_coverage: Models with answers to less than this percentage of the questions come last,
            without a rank.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower
            scores are better.
        trend: Corpora, or directories of corpora, to draw the results of models over; see `trend`.
        group_by: Also compare the models on groups of records, as in `stats`.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: The report is about the matching records alone (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, no record matches, or the file exists or is
            inside the corpus.
        CorpusError: A file of a corpus is damaged.
        ShardError: A file of a corpus could not be read completely.
        FastrecError: The file cannot be written.
    """
    path = os.fspath(corpus)
    primaries = as_tuple("primary", primary)
    if isinstance(output, (str, os.PathLike)):
        check_local(os.fspath(output), "reports")
        _check_target(Path(output), path, overwrite=overwrite)
    check_jobs(jobs)
    if examples < 0:
        raise UsageError(f"examples must be at least 0, not {examples}")
    paths = several_paths("trend", trend)
    wanted = make_filters(**filters)
    groups = parse_groups(group_by)
    priced = None if prices is None else read_prices(os.fspath(prices))
    repeats = parse_repeats(repeats_as, errors_as_wrong=errors_as_wrong)
    metrics = "all" if wanted.metric else metrics
    opened = partial(
        _open,
        filters=wanted,
        repeats=repeats,
        lower_is_better=lower_is_better,
        jobs=jobs,
        progress=progress,
    )
    index = opened(corpus)
    summary = replace(index.selection.summary, evaluations=list(index.evaluations))
    choice = partial(choose, errors_as_wrong=errors_as_wrong)
    ranked = partial(
        rank,
        corpus=facts_of(summary),
        accuracy=accuracy,
        errors_as_wrong=errors_as_wrong,
        repeats_as=str(repeats),
        min_coverage=min_coverage,
    )
    stats = ranked(choice(index.evaluations, metrics=metrics))
    stats.others = len(summary.evaluations) - len(stats.evaluations)
    if repeats.kind == "mean":
        _add_ranks(stats, index)
    notes: list[str] = []
    if groups:
        by_group = choice(opened(index.selection.reader, groups=groups).evaluations, metrics="all")
        size = attrgetter("records")
        by_group = largest_groups(stats.evaluations, by_group, groups, size, notes.append)
        add_groups(stats, ranked(by_group).evaluations, groups)
    board = make_leaderboard(
        index,
        metrics=metrics,
        primary=primaries,
        min_coverage=min_coverage,
        most=current_limits().report_columns,
    )
    costs = []
    if priced is not None:
        costs = find_costs(index, priced, primary_queries(index, Filters(), metrics, primaries))
    bodies = {
        "Leaderboard": _leaderboard(board),
        "Trend": trend_section(
            paths,
            wanted,
            metrics=metrics,
            lower_is_better=as_tuple("lower_is_better", lower_is_better),
            jobs=jobs,
            progress=progress,
        ),
        "Cost": costs_section(costs),
        **_result_sections(index, stats, costs, notes, examples),
        "Calibration": _calibration(index, confidence),
    }
    if not wanted:  # what is about all lines of the corpus
        bodies |= sections.line_sections(summary, path, index.manifest)
    return _write(_page(index, summary, stats, wanted, bodies).encode(), output)


def _add_ranks(stats: Stats, index: QuestionTable) -> None:
    """Add ranks by tests, in which the scores of errors do not count as wrong."""
    with_errors = stats.errors_as_wrong
    judged = [scope for scope in stats.evaluations if not (with_errors and scope.errors)]
    add_ranks(judged, index)


def _write(page: bytes, output: AnyPath | BinaryIO) -> int:
    if not isinstance(output, (str, os.PathLike)):
        return output.write(page)
    write_file(os.fspath(output), page)
    return len(page)


def _open(
    corpus: AnyPath,
    *,
    filters: Filters,
    groups: Groups = (),
    repeats: RepeatsAs,
    lower_is_better: Strings,
    **how: Unpack[How],
) -> QuestionTable:
    """Open the questions of a corpus; several answers of a model become one value."""
    index = open_index(corpus, filters, groups, lower_is_better=lower_is_better, **how)
    if repeats.kind != "mean":
        index.evaluations = reduce_repeats(index, repeats)
    return index


def _result_sections(
    index: QuestionTable,
    stats: Stats,
    costs: Sequence[ModelCost],
    notes: Sequence[str],
    examples: int,
) -> dict[str, Html]:
    """Make the sections about evaluations and their questions."""
    limits = current_limits()
    drawn = largest(stats, limits.report_scopes)
    shown_scopes = len(drawn.evaluations)
    most = max(limits.report_rows // max(shown_scopes, 1), 10)
    evaluations = evaluations_html(index, drawn, costs, most)
    total = len(stats.evaluations)
    return {
        "Evaluations": section("evaluations", notes, evaluations, shown_scopes, total),
        "Questions": question_cards(index, examples, drawn),
        "Keys to check": suspected_keys(index, drawn) if examples else Html(""),
    }


def _calibration(index: QuestionTable, confidence: str | None) -> Html:
    if confidence is None:
        return Html("")
    queries = [query for _, query in choose_scopes(index.scopes, Filters())]
    names = ("evaluation_name", "metric", "model_id")
    pictures = calibration_pictures(index, confidence, queries, names)
    return section("calibration", pictures[: current_limits().report_scopes])


def _page(
    index: QuestionTable, summary: Summary, stats: Stats, filters: Filters, bodies: dict[str, Html]
) -> Html:
    style, script = (
        Html(Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8"))
        for kind in ("css", "js")
    )
    return render_template(
        "report/page.html",
        name=last_name(index.corpus),
        summary=summary,
        names=names_of(summary.evaluations),
        manifest=index.manifest,
        filters=filters,
        repeats_as=stats.repeats_as,
        repeats_in_words=repeats_in_words,
        skipped=skipped_lines(index.manifest.skipped),
        not_judged=sections.not_judged(stats),
        sections=bodies,
        style=style,
        script=script,
        version=__version__,
    )


def _leaderboard(board: Leaderboard) -> Html:
    """Show the first tables, or the first models of a large one; all tables unfold."""
    first = None
    if len(board.models) > _FIRST_MODELS:
        (_, models_of_first), *others = board.groups()
        shown = models_of_first[:_FIRST_MODELS]
        for _, models in others:
            if len(shown) + len(models) > _FIRST_MODELS:
                break
            shown += models
        first = replace(board, models=shown)
    return section("board", board, first)


def _real(path: AnyPath) -> Path:
    return Path(os.path.realpath(path))  # unlike `resolve`, it takes links that lead in a circle


def _check_target(target: Path, corpus: str, *, overwrite: bool) -> None:
    check_new_file(str(target), overwrite=overwrite)
    problem = ""
    if target.exists() and not target.is_file():
        problem = "is not a file; choose a file, or - for standard output"
    elif not is_url(corpus) and _real(corpus) in _real(target).parents:
        problem = "is inside the corpus; choose a file outside of it"
    if problem:
        raise UsageError(f"{shown(str(target))} {problem}")
