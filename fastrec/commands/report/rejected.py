"""Sections about lines that were repaired, and lines that were rejected."""

from __future__ import annotations

from typing import Final

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.rejects import decode_rejected, numbered_lines
from fastrec.errors import counted
from fastrec.html import Html, code, joined, num, row, table, tag, tiles
from fastrec.judge.codes import CODES
from fastrec.storage import join, parent_and_name
from fastrec.summary.document import Summary

__all__ = ["examples", "meaning", "rejected_lines", "repaired_lines"]

_EXAMPLES: Final = 5  # per code
_EXCERPT_BYTES: Final = 160


def repaired_lines(summary: Summary) -> Html:
    """Show what `--repair` changed, with examples; nothing if it changed nothing."""
    found = summary.repaired
    if not found.lines:
        return Html("")
    counts = [row(name, meaning(name), num(count)) for name, count in found.by_code.items()]
    changes = [
        row(one.code, one.evaluation_name, one.model_id, one.sample_id, one.path, one.message) for one in found.examples
    ]
    return joined(
        tiles(("repaired lines", found.lines)),
        table("Repairs by code", ("code", "meaning", "lines"), counts),
        table("Examples of repairs", ("code", "evaluation", "model", "sample_id", "path", "message"), changes),
    )


def rejected_lines(summary: Summary, examples: dict[str, list[Html]]) -> Html:
    """Show rejected lines by code, and a few examples of each."""
    counts = sorted(summary.rejected_by_code.items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return tag("p", "No line was rejected.")
    lines = summary.line_counts.lines
    rows = [row(name, meaning(name), num(n), num(n / lines, ".1%")) for name, n in counts]
    heads = ("location", "path", "message", "beginning of the line")
    details = [
        tag("details", tag("summary", f"{name}: examples"), table(f"Examples of {name}", heads, examples[name]))
        for name, _ in counts
        if name in examples
    ]
    by_code = table("Rejected lines by code", ("code", "meaning", "lines", "share"), rows)
    return joined(by_code, *details, _repairs(summary))


def _repairs(summary: Summary) -> Html:
    """Show which repairs would keep rejected lines, if any would."""
    found = summary.repairable
    if not found.lines:
        return Html("")
    rows = [row(name, meaning(name), num(count)) for name, count in found.by_code.items()]
    rejected = counted(summary.line_counts.rejected, "rejected line")
    return joined(
        tag("p", "With ", tag("code", "--repair all"), f", normalize would keep {found.lines:,} of {rejected}."),
        table("Repairs that would keep rejected lines", ("code", "meaning", "lines"), rows),
    )


def meaning(name: str) -> str:
    """Return what a code means; nothing if this version does not know it."""
    return CODES[name].meaning if name in CODES else ""


def examples(corpus: str, manifest: Manifest) -> dict[str, list[Html]]:
    """Read the first rejected lines of each code with different messages, as rows of a table.

    Raises:
        CorpusError: The rejects file is damaged.
        ShardError: It could not be read completely.
    """
    found: dict[str, dict[tuple[str, str], Html]] = {}
    if manifest.rejects is None:
        return {}
    path = join(corpus, parent_and_name(manifest.rejects.file)[1])
    for number, line in numbered_lines(path):
        rejected = decode_rejected(path, number, line)
        some = found.setdefault(rejected.code, {})
        error = (rejected.path, rejected.message)
        if error not in some and len(some) < _EXAMPLES:
            raw = rejected.exact_bytes()
            excerpt = raw[:_EXCERPT_BYTES].decode(errors="backslashreplace") + "…" * (len(raw) > _EXCERPT_BYTES)
            some[error] = row(f"{rejected.source}:{rejected.line}", *error, code(excerpt))
    return {name: list(some.values()) for name, some in found.items()}
