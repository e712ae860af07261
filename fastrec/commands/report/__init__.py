"""`report`: one page that shows a corpus, and needs nothing but itself.

1. Read the manifest, the summary, and from the rejects file a few examples of each code (`examples`).
2. Write sections (`sections`, `evaluations`): plain HTML that can be read without a script, escaped by construction
   (`html`), with small drawings (`charts`).
3. Put the page together with its style and its script, which sorts, searches and turns the light off. The page's own
   policy allows that one script and that one style, by their hashes, and nothing from anywhere else.
4. Write the file: whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from fastrec._version import __version__
from fastrec.commands.report.evaluations import evaluation_tables, heat_maps, histograms, tokens
from fastrec.commands.report.examples import examples
from fastrec.commands.report.html import Html, counted, decimal, joined, tag
from fastrec.commands.report.sections import books, conflicts, hashes, inputs, rejects
from fastrec.corpus.documents import read_manifest, read_summary
from fastrec.errors import FastrecError, UsageError, shown
from fastrec.limits import LIMITS, Limits
from fastrec.storage.paths import is_url, parent_and_name
from fastrec.summary.ranking import rank_all

__all__ = ["make_page", "write_report"]


def write_report(corpus: str | os.PathLike[str], output: str | os.PathLike[str], *, overwrite: bool = False) -> int:
    """Write the page of a corpus to a file, and return its size.

    Raises:
        UsageError: The directory is no corpus, or the file is there, or lies in the corpus.
        CorpusError: The manifest, the summary or the rejects file is damaged.
        ShardError: The rejects file could not be read whole.
        FastrecError: The file cannot be written.
    """
    target = Path(output)
    if target.exists() and not target.is_file():
        raise UsageError(f"{shown(str(target))} is not a file: name one, or - for standard output")
    if target.exists() and not overwrite:
        raise UsageError(f"{shown(str(target))} exists: name another file, or give --overwrite to replace it")
    if not is_url(os.fspath(corpus)) and Path(corpus).resolve() in target.resolve().parents:
        raise UsageError(f"{shown(str(target))} lies in the corpus, which holds nothing but its own files: move it")
    page = make_page(corpus)
    try:
        _write(target, page)
    except OSError as exc:
        raise FastrecError(f"{shown(str(target))} cannot be written: {exc.strerror}") from exc
    return len(page)


def _write(target: Path, page: bytes) -> None:
    """Put the page in its place when it is whole."""
    target = target.resolve()  # behind a link, so that the link stays
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(page)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _name_of(directory: str) -> str:
    return parent_and_name(directory)[1] if is_url(directory) else Path(directory).resolve().name


def make_page(corpus: str | os.PathLike[str], limits: Limits = LIMITS) -> bytes:
    """Make the page of a corpus. It depends on the corpus alone: no time, no host."""
    directory = os.fspath(corpus)
    manifest = read_manifest(directory)
    summary = read_summary(directory, manifest)
    found = rank_all(summary)
    sections = [
        ("Books", books(summary)),
        ("Evaluations × models", heat_maps(found, limits)),
        ("Models by evaluation", evaluation_tables(found, limits)),
        ("Distributions", histograms(found, limits)),
        ("Tokens", tokens(summary, limits)),
        ("Duplicates and conflicts", conflicts(summary)),
        ("Hashes and ids", hashes(summary)),
        ("Rejects", rejects(summary, examples(directory, manifest))),
        ("Inputs", inputs(manifest)),
    ]
    models = len({model.model_id for evaluation in summary.evaluations for model in evaluation.by_model})
    about = (
        f"{decimal(summary.line_counts.kept)} records of {counted(models, 'model')} on "
        f"{counted(len(summary.evaluations), 'evaluation')}; {counted(len(manifest.parts), 'part')} of "
        f"{sum(part.bytes for part in manifest.parts) / 1e6:,.1f} MB, {manifest.text_bytes / 1e6:,.1f} MB of text; "
        f"made by fastrec {manifest.fastrec}, schema {manifest.schema}"
    )
    shown_sections = [(title, f"s{number}", body) for number, (title, body) in enumerate(sections) if body]
    return _document(_name_of(directory), about, shown_sections).encode()


def _document(name: str, about: str, sections: list[tuple[str, str, Html]]) -> str:
    style, script = (Html(Path(__file__).with_name(file).read_text()) for file in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src {_allowed(style)}; script-src {_allowed(script)}"
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{name}: fastrec report"),
        tag("style", style),
    ]
    body = [
        tag("a", "Skip to the contents", href="#s0", class_="skip"),
        tag("header", tag("h1", name), tag("p", about, class_="soft")),
        tag(
            "div",
            tag(
                "label",
                "Search ",
                tag("input", type="search", id="search", placeholder="model, evaluation, code, path …"),
            ),
            tag("output", "", id="matches", for_="search"),
            tag("button", "Dark / light", type="button", id="theme"),
            class_="tools",
            role="search",
        ),
        tag("nav", *(tag("a", title, href=f"#{place}") for title, place, _ in sections), aria_label="Sections"),
        tag("main", *(tag("section", tag("h2", title), body, id=place) for title, place, body in sections)),
        tag("footer", f"Written by fastrec {__version__}. This page loads nothing, and sends nothing."),
        tag("script", script),
    ]
    page = joined([tag("head", *head), tag("body", *body)])
    return f"<!doctype html>\n{tag('html', page, lang='en')}\n"


def _allowed(text: str) -> str:
    """Name a script or a style by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
