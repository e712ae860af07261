"""`report`: one self-contained HTML page about a corpus.

1. Read the manifest, the summary, a few examples of rejected lines for each code, and some questions with answers.
2. Make the sections (`sections`, `charts`, `trends`, `evaluations`): HTML that works without a script and is escaped by
   construction (`html`).
3. Fill the template `page.html` with the sections, the style, and the script, which sorts, searches and switches the
   theme. The page's content security policy allows only this script and this style, by their hashes, and no network.
4. Write the file atomically.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Unpack

from fastrec._version import __version__
from fastrec.answers.calibration import find_calibration
from fastrec.answers.index import cache_of, open_index, reduce_repeats
from fastrec.answers.leaderboard import make_leaderboard
from fastrec.answers.ranks import add_ranks
from fastrec.answers.trials import parse_repeats
from fastrec.commands.report import sections
from fastrec.commands.report.charts import dot_plots, heat_maps, reliability_plots
from fastrec.commands.report.evaluations import evaluation_tables, histograms, other_evaluations, question_cards, tokens
from fastrec.commands.report.trends import trend_plots
from fastrec.corpus.manifest import Manifest, read_manifest, read_summary
from fastrec.engine import check_jobs
from fastrec.errors import FastrecError, UsageError, counted, shown
from fastrec.filters import (
    NAME_FILTERS,
    FilterArguments,
    Filters,
    Paths,
    Strings,
    as_tuple,
    make_filters,
    several_paths,
)
from fastrec.html import Html, fill, joined, tag
from fastrec.limits import LIMITS, Limits
from fastrec.normalize.scratch import grouped_corpora, matching_corpus, parse_groups
from fastrec.progress import Progress
from fastrec.storage import is_url, parent_and_name
from fastrec.storage.local import LOCAL
from fastrec.summary.document import Summary
from fastrec.summary.present_choice import choose
from fastrec.summary.present_ranking import MIN_COVERAGE, add_groups, facts_of, largest, rank
from fastrec.trends import collect_trend


def report(
    corpus: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    accuracy: bool = False,
    errors_as_wrong: bool = False,
    repeats_as: str = "mean",
    confidence: str | None = None,
    questions: int = 20,
    metrics: str = "judgements",
    primary: Strings = (),
    min_coverage: float = MIN_COVERAGE,
    lower_is_better: Strings = (),
    trend: Paths = (),
    group_by: Strings = (),
    jobs: int = 1,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> int:
    """Write the report about a corpus to a file, and return its size.

    Args:
        corpus: A directory or URL that `normalize` published.
        output: The file to write.
        overwrite: Replace an existing file.
        accuracy: Show the accuracy even where scores are other than 0 and 1.
        errors_as_wrong: Count records with an error as wrong answers. By default they do not count.
        repeats_as: What several answers of a model to a question become: `mean`, `pass@K`, `pass^K`, `majority` or
            `first`. The questions and the trend show means.
        confidence: Draw how often answers are right against this field or metric, their confidence.
        questions: How many of the hardest and most disputed questions to show, together.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        primary: `EVALUATION=METRIC` for evaluations whose primary metric is another one; both may be patterns.
        min_coverage: Models with answers to less than this percentage of the questions come last, without a rank.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower scores are better.
        trend: Corpora, or directories of corpora, to draw the results of models over; see `trend`.
        group_by: Also compare the models on groups of records, as in `stats`.
        jobs: Processes to use for finding matching records, and for building an index.
        progress: Receives the progress of finding matching records, and of building indexes.
        **filters: The report is about the matching records alone (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, no record matches, or the file exists or is inside the corpus.
        CorpusError: A file of a corpus is damaged.
        ShardError: A file of a corpus could not be read completely.
        FastrecError: The file cannot be written.
    """
    target = Path(output)
    if target.exists() and not target.is_file():
        raise UsageError(f"{shown(str(target))} is not a file; choose a file, or - for standard output")
    if target.exists() and not overwrite:
        raise UsageError(f"{shown(str(target))} exists; choose another file, or add --overwrite to replace it")
    if not is_url(os.fspath(corpus)) and Path(corpus).resolve() in target.resolve().parents:
        raise UsageError(f"{shown(str(target))} is inside the corpus; choose a file outside of it")
    page = make_page(
        corpus,
        accuracy=accuracy,
        errors_as_wrong=errors_as_wrong,
        repeats_as=repeats_as,
        confidence=confidence,
        questions=questions,
        metrics=metrics,
        primary=primary,
        min_coverage=min_coverage,
        lower_is_better=lower_is_better,
        trend=trend,
        group_by=group_by,
        jobs=jobs,
        progress=progress,
        **filters,
    )
    try:
        LOCAL.write_all(str(target.resolve()), page)  # replaces the file that a symbolic link points to, not the link
    except OSError as exc:
        raise FastrecError(f"{shown(str(target))} cannot be written: {exc.strerror}") from exc
    return len(page)


def make_page(
    corpus: str | os.PathLike[str],
    limits: Limits = LIMITS,
    *,
    accuracy: bool = False,
    errors_as_wrong: bool = False,
    repeats_as: str = "mean",
    confidence: str | None = None,
    questions: int = 20,
    metrics: str = "judgements",
    primary: Strings = (),
    min_coverage: float = MIN_COVERAGE,
    lower_is_better: Strings = (),
    trend: Paths = (),
    group_by: Strings = (),
    jobs: int = 1,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> bytes:
    """Make the report about a corpus. It depends on the corpora alone: no time, no host name."""
    check_jobs(jobs)
    if questions < 0:
        raise UsageError(f"questions must be at least 0, not {questions}")
    paths, wanted, groups = several_paths("trend", trend), make_filters(**filters), parse_groups(group_by)
    repeats = parse_repeats(repeats_as, errors_as_wrong=errors_as_wrong)
    path = os.fspath(corpus)
    name = parent_and_name(path)[1] if is_url(path) else Path(path).resolve().name
    with matching_corpus(path, wanted, jobs=jobs, progress=progress, limits=limits) as directory:
        manifest = read_manifest(directory)
        summary = read_summary(directory, manifest)
        lower = as_tuple("lower_is_better", lower_is_better)
        shown_metrics = "all" if wanted.metric else metrics
        cache = cache_of(directory, (path,))
        with open_index(directory, jobs=jobs, cache=cache, progress=progress, limits=limits) as index:
            index.direct(lower)
            if repeats.kind != "mean":
                summary.evaluations = reduce_repeats(summary.evaluations, index, repeats)
            choice = partial(choose, errors_as_wrong=errors_as_wrong, lower_is_better=lower)
            ranked = partial(
                rank,
                corpus=facts_of(summary),
                accuracy=accuracy,
                errors_as_wrong=errors_as_wrong,
                repeats_as=str(repeats),
                min_coverage=min_coverage,
            )
            chosen = choice(summary, metrics=shown_metrics)
            found = ranked(chosen)
            found.others = len(summary.evaluations) - len(chosen)
            if repeats.kind == "mean":
                add_ranks([one for one in found.evaluations if not (errors_as_wrong and one.errors)], index)
            notes: list[Html] = []
            if groups:
                grouped = grouped_corpora([directory], Filters(), groups, jobs=jobs, progress=progress, limits=limits)
                with grouped as (made,):
                    by_group = read_summary(made, read_manifest(made))
                    if repeats.kind != "mean":
                        near = cache_of(made, ())
                        with open_index(made, jobs=jobs, cache=near, progress=progress, limits=limits) as group_index:
                            by_group.evaluations = reduce_repeats(by_group.evaluations, group_index, repeats)
                    parts = ranked(choice(by_group, metrics="all"))
                add_groups(found, parts, groups, lambda text: notes.append(tag("p", text, class_="soft")))
            drawn = largest(found, limits.report_scopes)
            board = make_leaderboard(
                index,
                metrics=shown_metrics,
                primary=as_tuple("primary", primary),
                min_coverage=min_coverage,
                most=limits.report_columns,
            )
            reliability = Html("")
            if confidence is not None:
                reliability = reliability_plots(find_calibration(index, confidence, Filters()), limits)
            some_questions = question_cards(index, questions, name, drawn) if questions else Html("")
        rejects = sections.examples(directory, manifest)
        over_corpora = _trend(paths, wanted, jobs=jobs, progress=progress, limits=limits)
    bodies = {
        "Leaderboard": board.to_html() if board.models else Html(""),
        "Line counts": sections.line_counts(summary, manifest),
        "Evaluations × models": heat_maps(found, limits),
        "Accuracy with intervals": dot_plots(drawn, found),
        "Calibration": reliability,
        "Trend": over_corpora,
        "Models by evaluation": joined(
            *notes, evaluation_tables(drawn, limits), other_evaluations(drawn, found, limits)
        ),
        "Questions": some_questions,
        "Distributions": histograms(drawn, found),
        "Tokens": tokens(summary, limits),
        "Schema versions": sections.versions(summary),
        "Duplicates and repeats": sections.repeats(summary),
        "Hashes and ids": sections.hashes(summary),
        "Repaired lines": sections.repaired_lines(summary),
        "Rejected lines": sections.rejected_lines(summary, rejects),
        "Inputs": sections.inputs(manifest),
    }
    banner = joined(
        sections.only_matching(wanted), sections.repeated(found), sections.skipped(manifest), sections.not_judged(found)
    )
    return _fill_template(name, _about(summary, manifest), banner, bodies)


def _trend(paths: tuple[str, ...], filters: Filters, *, jobs: int, progress: Progress | None, limits: Limits) -> Html:
    """Show the results over corpora, of the evaluations, metrics and models that match the filters."""
    if not paths:
        return Html("")
    names = Filters(**{name: getattr(filters, name) for name in NAME_FILTERS})
    return trend_plots(collect_trend(paths, filters=names, jobs=jobs, progress=progress, limits=limits), limits)


def _fill_template(name: str, about: str, banner: Html, bodies: Mapping[str, Html]) -> bytes:
    numbered = [(title, f"s{number}", body) for number, (title, body) in enumerate(bodies.items()) if body]
    template, style, script = (
        Html(Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8")) for kind in ("html", "css", "js")
    )
    return fill(
        template,
        policy=f"default-src 'none'; style-src {_allowed(style)}; script-src {_allowed(script)}",
        style=style,
        script=script,
        name=name,
        about=about,
        banner=banner,
        nav=joined(*(tag("a", title, href=f"#{anchor}") for title, anchor, _ in numbered)),
        sections=joined(*(tag("section", tag("h2", title), body, id=anchor) for title, anchor, body in numbered)),
        version=__version__,
    ).encode()


def _about(summary: Summary, manifest: Manifest) -> str:
    models = len({model.model_id for evaluation in summary.evaluations for model in evaluation.by_model})
    evaluations = counted(len({one.evaluation_name for one in summary.evaluations}), "evaluation")
    metrics = len({one.metric for one in summary.evaluations} - {None})
    with_metrics = f" with {counted(metrics, 'metric')}" if metrics else ""
    return (
        f"{summary.line_counts.kept:,} records of {counted(models, 'model')} on {evaluations}{with_metrics}; "
        f"{counted(len(manifest.parts), 'part')} of "
        f"{sum(part.bytes for part in manifest.parts) / 1e6:,.1f} MB, {manifest.text_bytes / 1e6:,.1f} MB of text; "
        f"made by fastrec {manifest.fastrec}, schema {manifest.schema}"
    )


def _allowed(text: str) -> str:
    """Make the policy entry that allows a script or a style by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
