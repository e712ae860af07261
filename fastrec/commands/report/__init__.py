"""`report`: one self-contained HTML page about a corpus.

1. Read the manifest, the summary, and a few examples of rejected lines for each code.
2. Make the sections (`sections`, `evaluations`, `rejected`): HTML that works without a script and is escaped by
   construction (`html`), with small charts (`charts`).
3. Fill the template `page.html` with the sections, the style, and the script, which sorts, searches and switches the
   theme. The page's content security policy allows only this script and this style, by their hashes, and no network.
4. Write the file atomically.
"""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Unpack

from fastrec._version import __version__
from fastrec.commands.report.dot_plots import dot_plots
from fastrec.commands.report.evaluations import evaluation_tables, histograms, tokens
from fastrec.commands.report.heat_maps import heat_maps
from fastrec.commands.report.rejected import examples, rejected_lines, repaired_lines
from fastrec.commands.report.sections import (
    hashes,
    inputs,
    line_counts,
    not_judged,
    only_matching,
    repeats,
    skipped,
    versions,
)
from fastrec.corpus.documents import read_manifest, read_summary
from fastrec.engine import check_jobs
from fastrec.errors import FastrecError, UsageError, counted, shown
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.html import Html, fill, joined, tag
from fastrec.limits import LIMITS, Limits
from fastrec.normalize.filtered import filtered_corpus
from fastrec.storage import is_url, parent_and_name
from fastrec.storage.local import LOCAL
from fastrec.summary.choosing import choose
from fastrec.summary.facts import facts_of
from fastrec.summary.ranking import rank

__all__ = ["make_page", "report"]


def report(
    corpus: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    accuracy: bool = False,
    errors_as_wrong: bool = False,
    jobs: int = 1,
    **filters: Unpack[FilterArguments],
) -> int:
    """Write the report about a corpus to a file, and return its size.

    With `accuracy`, the accuracy is shown even where scores are other than 0 and 1. With `errors_as_wrong`, records
    with an error count as wrong answers. By default they do not count. With `filters`, the report is about the matching
    records alone, which `jobs` processes find.

    Raises:
        UsageError: The directory is not a corpus, no record matches, or the file exists or is inside the corpus.
        CorpusError: The manifest, the summary or the rejects file is damaged.
        ShardError: The rejects file could not be read completely.
        FastrecError: The file cannot be written.
    """
    target = Path(output)
    if target.exists() and not target.is_file():
        raise UsageError(f"{shown(str(target))} is not a file; choose a file, or - for standard output")
    if target.exists() and not overwrite:
        raise UsageError(f"{shown(str(target))} exists; choose another file, or add --overwrite to replace it")
    if not is_url(os.fspath(corpus)) and Path(corpus).resolve() in target.resolve().parents:
        raise UsageError(f"{shown(str(target))} is inside the corpus; choose a file outside of it")
    page = make_page(corpus, accuracy=accuracy, errors_as_wrong=errors_as_wrong, jobs=jobs, **filters)
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
    jobs: int = 1,
    **filters: Unpack[FilterArguments],
) -> bytes:
    """Make the report about a corpus. It depends on the corpus alone: no time, no host name."""
    check_jobs(jobs)
    path, wanted = os.fspath(corpus), make_filters(**filters)
    name = parent_and_name(path)[1] if is_url(path) else Path(path).resolve().name
    with filtered_corpus(path, wanted, jobs=jobs, limits=limits) as directory:
        return _make_page(directory, name, wanted, limits, accuracy=accuracy, errors_as_wrong=errors_as_wrong)


def _make_page(
    directory: str, name: str, filters: Filters, limits: Limits, *, accuracy: bool, errors_as_wrong: bool
) -> bytes:
    """Make the report about a corpus in a directory, which has the records that match the filters."""
    manifest = read_manifest(directory)
    summary = read_summary(directory, manifest)
    chosen = choose(summary, errors_as_wrong=errors_as_wrong)
    found = rank(chosen, facts_of(summary), accuracy=accuracy, errors_as_wrong=errors_as_wrong)
    sections = [
        ("Line counts", line_counts(summary, manifest)),
        ("Schema versions", versions(summary)),
        ("Evaluations × models", heat_maps(found, limits)),
        ("Accuracy with intervals", dot_plots(found, limits)),
        ("Models by evaluation", evaluation_tables(found, limits)),
        ("Distributions", histograms(found, limits)),
        ("Tokens", tokens(summary, limits)),
        ("Duplicates and repeats", repeats(summary)),
        ("Hashes and ids", hashes(summary)),
        ("Repaired lines", repaired_lines(summary)),
        ("Rejected lines", rejected_lines(summary, examples(directory, manifest))),
        ("Inputs", inputs(manifest)),
    ]
    models = len({model.model_id for evaluation in summary.evaluations for model in evaluation.by_model})
    evaluations = counted(len({one.evaluation_name for one in summary.evaluations}), "evaluation")
    metrics = len({one.metric for one in summary.evaluations} - {None})
    with_metrics = f" with {counted(metrics, 'metric')}" if metrics else ""
    about = (
        f"{summary.line_counts.kept:,} records of {counted(models, 'model')} on {evaluations}{with_metrics}; "
        f"{counted(len(manifest.parts), 'part')} of "
        f"{sum(part.bytes for part in manifest.parts) / 1e6:,.1f} MB, {manifest.text_bytes / 1e6:,.1f} MB of text; "
        f"made by fastrec {manifest.fastrec}, schema {manifest.schema}"
    )
    template, style, script = (
        Html(Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8")) for kind in ("html", "css", "js")
    )
    shown_sections = [(title, f"s{number}", body) for number, (title, body) in enumerate(sections) if body]
    return fill(
        template,
        policy=f"default-src 'none'; style-src {_allowed(style)}; script-src {_allowed(script)}",
        style=style,
        script=script,
        name=name,
        about=about,
        banner=joined(only_matching(filters), skipped(manifest), not_judged(found)),
        nav=joined(*(tag("a", title, href=f"#{anchor}") for title, anchor, _ in shown_sections)),
        sections=joined(*(tag("section", tag("h2", title), body, id=anchor) for title, anchor, body in shown_sections)),
        version=__version__,
    ).encode()


def _allowed(text: str) -> str:
    """Return the policy entry that allows a script or a style by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
