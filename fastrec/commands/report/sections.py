"""Sections about the corpus as a whole: books, conflicts, hashes, rejects, inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastrec.commands.report.charts import stacked
from fastrec.commands.report.examples import Example
from fastrec.commands.report.html import Html, code, decimal, joined, num, percent, row, table, tag
from fastrec.corpus.manifest import Manifest
from fastrec.judge.codes import CODES
from fastrec.summary.document import Summary

__all__ = ["books", "conflicts", "hashes", "inputs", "rejects"]

_MOST_INPUTS: Final = 5_000
_ACCOUNTS: Final = ("kept", "duplicates", "rejected", "blank")


def books(summary: Summary) -> Html:
    """Show what became of every line."""
    accounts = [(name, getattr(summary.line_counts, name)) for name in _ACCOUNTS]
    kinds = [
        table(title, (head, "records"), [row(name, _count(count)) for name, count in counts.items()])
        for title, head, counts in (
            ("Kept records by interaction type", "type", summary.interaction_types),
            ("Kept records by schema version", "version", summary.schema_versions),
        )
    ]
    return joined(
        [
            _tiles([("lines", summary.line_counts.lines), *accounts]),
            stacked(accounts),
            tag("p", "Every line is accounted for: lines = kept + duplicates + rejected + blank.", class_="soft"),
            tag("div", *kinds, class_="pair"),
        ]
    )


def conflicts(summary: Summary) -> Html:
    """Show copies that were dropped, and identities with several records."""
    found = summary.conflicts
    rows = [
        row(
            example.evaluation_name,
            example.model_id,
            example.evaluation_id,
            str(example.sample_id),
            _count(example.records),
            code(", ".join(example.sample_hashes)),
        )
        for example in found.examples
    ]
    heads = ("evaluation", "model", "evaluation_id", "sample_id", "records", "sample_hash")
    return joined(
        [
            _tiles(
                [
                    ("exact copies dropped", summary.line_counts.duplicates),
                    ("identities in conflict", found.identities),
                    ("records that share one", found.records),
                ]
            ),
            table(f"Conflicts: the first {decimal(len(rows))} of {decimal(found.identities)}", heads, rows),
        ]
    )


def hashes(summary: Summary) -> Html:
    """Show hashes that were replaced, and ids and hashes that disagree."""
    found = summary.sample_hash
    replaced = [
        row(
            example.evaluation_name,
            example.model_id,
            str(example.sample_id),
            code(example.given),
            code(example.computed),
        )
        for example in found.examples
    ]
    disagreeing = [
        row(
            evaluation.evaluation_name,
            _count(evaluation.questions),
            _count(evaluation.ids_with_many_hashes),
            _count(evaluation.hashes_with_many_ids),
        )
        for evaluation in summary.evaluations
        if evaluation.ids_with_many_hashes or evaluation.hashes_with_many_ids
    ]
    return joined(
        [
            _tiles([("verified", found.verified), ("filled in", found.filled), ("replaced", found.replaced)]),
            tag("p", f"Computed by {found.algorithm}; lines are counted, copies included.", class_="soft"),
            table(
                f"Hashes other than the computed one: the first {decimal(len(replaced))} of {decimal(found.replaced)}",
                ("evaluation", "model", "sample_id", "given", "computed"),
                replaced,
            ),
            table(
                "Ids and hashes that disagree",
                ("evaluation", "samples", "ids with several hashes", "hashes with several ids"),
                disagreeing,
            )
            or tag("p", "No id carries several hashes, and no hash several ids."),
        ]
    )


def rejects(summary: Summary, examples: dict[str, list[Example]]) -> Html:
    """Show rejected lines by code, and a few of each."""
    counts = sorted(summary.rejected_by_code.items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return tag("p", "No line was rejected.")
    lines = summary.line_counts.lines
    rows = [
        row(
            name,
            CODES[name].meaning if name in CODES else "",
            _count(count),
            num(count / lines, percent(count / lines)),
        )
        for name, count in counts
    ]
    return joined(
        [
            table("Rejected lines by code", ("code", "meaning", "lines", "of all"), rows),
            *(
                tag("details", tag("summary", f"{name}: examples"), _examples(name, examples[name]))
                for name, _ in counts
                if name in examples
            ),
        ]
    )


def _examples(name: str, examples: Iterable[Example]) -> Html:
    rows = [row(f"{one.source}:{one.line}", one.path, one.message, code(one.beginning)) for one in examples]
    return table(f"Examples of {name}", ("place", "path", "message", "the line begins"), rows)


def inputs(manifest: Manifest) -> Html:
    """Show the books of each shard, and those that were left out."""
    rows = [
        row(
            entry.path,
            entry.format,
            *map(_count, (entry.bytes, entry.lines, entry.kept, entry.duplicates, entry.rejected, entry.blank)),
        )
        for entry in manifest.inputs[:_MOST_INPUTS]
    ]
    of = f"{decimal(len(rows))} of {decimal(len(manifest.inputs))} shards, in the order they were given"
    heads = ("shard", "format", "bytes", "lines", *_ACCOUNTS)
    skipped = [tag("li", reason) for reason in manifest.skipped]
    return joined(
        [
            tag("details", tag("summary", of), table("Shards that were read", heads, rows)) if rows else Html(""),
            joined([tag("p", "Left out, since they could not be read:"), tag("ul", *skipped)]) if skipped else Html(""),
        ]
    )


def _tiles(numbers: Iterable[tuple[str, int]]) -> Html:
    tiles = (tag("div", tag("dt", name), tag("dd", decimal(count))) for name, count in numbers)
    return tag("dl", *tiles, class_="tiles")


def _count(count: int) -> Html:
    return num(count, decimal(count))
