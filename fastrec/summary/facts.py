"""Facts about a corpus as a whole that help to read its statistics: versions, labels, repeats, hashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fastrec.errors import counted
from fastrec.schemas.recipes import ABSENT, WRONG
from fastrec.summary.document import Summary

__all__ = ["CorpusFacts", "facts_in_words", "facts_of"]

_MOST: Final = 5  # listed in a line


class CorpusFacts(msgspec.Struct, kw_only=True):
    """The corpus as a whole, whatever was chosen."""

    schema: str
    """Schema version of the corpus."""
    versions: dict[str, int]
    """Valid lines, duplicates included, by their own schema version."""
    upgraded: int
    """Valid lines of another version than that of the corpus."""
    notes: dict[str, int]
    """By code, valid lines with a label of another version, and valid lines that an upgrade or a repair changed."""
    repeats: int
    """Identities with repeats."""
    contradictions: int
    """Identities with contradictions: the same output has different verdicts."""
    same_run: int
    """Records dropped by --same-run ignore."""
    recipe: str
    """The recipe of the hashes in the corpus."""
    recipes: dict[str, int]
    """Valid lines by the recipe of their own hash; absent: without a hash; wrong: by no recipe."""


def facts_of(summary: Summary) -> CorpusFacts:
    """Return the facts about a corpus."""
    return CorpusFacts(
        schema=summary.schema,
        versions=summary.versions,
        upgraded=sum(count for version, count in summary.versions.items() if version != summary.schema),
        notes=summary.notes,
        repeats=summary.repeats.identities,
        contradictions=summary.contradictions.identities,
        same_run=summary.same_run.records,
        recipe=summary.sample_hash.recipe,
        recipes=summary.sample_hash.by_recipe,
    )


def facts_in_words(facts: CorpusFacts) -> list[str]:
    """Describe a corpus in a few short lines. What is as usual is left out, apart from the schema version."""
    lines = [f"schema {facts.schema}"]
    if facts.upgraded:
        by_version = {f"of {version}": count for version, count in facts.versions.items()}
        lines[0] += f": {counted(facts.upgraded, 'line')} upgraded; lines: {_listed(by_version)}"
    if facts.notes:
        lines.append(f"notes on lines: {_listed(facts.notes)}")
    if facts.repeats or facts.contradictions:
        lines.append(f"identities with repeats: {facts.repeats:,}; with contradictions: {facts.contradictions:,}")
    if facts.same_run:
        lines.append(f"{counted(facts.same_run, 'record')} dropped that another run has, too")
    if facts.recipes.keys() - {facts.recipe, ABSENT}:
        names = {ABSENT: "without a hash", WRONG: "wrong"}
        spelled = {names.get(name, f"by {name}"): count for name, count in _by_count(facts.recipes)}
        lines.append(f"hashes of lines: {_listed(spelled)}; the corpus has {facts.recipe} (--hashes)")
    return lines


def _listed(counts: Mapping[str, int]) -> str:
    """List the most frequent ones."""
    named = [f"{count:,} {name}" for name, count in _by_count(counts)]
    return ", ".join(named if len(named) <= _MOST else [*named[: _MOST - 1], "…"])


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
