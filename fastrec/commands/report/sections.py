"""Sections about the corpus as a whole: line counts, versions, repeats, hashes, inputs."""

from __future__ import annotations

from typing import Final

from fastrec.commands.report.charts import stacked
from fastrec.commands.report.rejected import meaning
from fastrec.corpus.manifest import Manifest, skipped_lines
from fastrec.errors import counted, listed
from fastrec.filters import Filters
from fastrec.html import Html, code, counts_table, joined, num, row, table, tag, tiles
from fastrec.summary.document import Identities, SameRun, SampleHashes, Summary
from fastrec.summary.facts import facts_of
from fastrec.summary.ranking import Stats
from fastrec.summary.titles import titles

__all__ = ["hashes", "inputs", "line_counts", "not_judged", "only_matching", "repeats", "skipped", "versions"]

_MOST_ROWS: Final = 5_000
_MOST_TITLES: Final = 10  # evaluations in the banner
_COUNTS: Final = ("kept", "duplicates", "rejected", "blank")


def only_matching(filters: Filters) -> Html:
    """Show at the top which filters were given; nothing if there are none."""
    if not filters:
        return joined()
    about = tag("p", "All numbers on this page are those of the matching records.")
    return tag("div", tag("strong", f"only records that match {filters}"), about, class_="banner", role="note")


def skipped(manifest: Manifest) -> Html:
    """Show at the top which shards the corpus lacks; nothing if it lacks none."""
    first, *rest = skipped_lines(manifest.skipped) or [""]
    if not first:
        return joined()
    shards = tag("ul", *(tag("li", line.strip()) for line in rest))
    about = tag("p", "The numbers on this page are those of the other shards.")
    return tag("div", tag("strong", first), shards, about, class_="banner", role="note")


def not_judged(stats: Stats) -> Html:
    """Show at the top which models have nothing but errors on an evaluation; nothing if all have answers."""
    found = {
        one.title: names for one in stats.evaluations if (names := [m.model_id for m in one.by_model if not m.answers])
    }
    if not found:
        return joined()
    first = [f"{title}: {listed(names)}" for title, names in list(found.items())[:_MOST_TITLES]]
    if len(found) > _MOST_TITLES:
        first.append(f"… and on {counted(len(found) - _MOST_TITLES, 'more evaluation')}")
    models = counted(len({name for names in found.values() for name in names}), "model")
    about = tag("p", "All their records have an error, so they have no accuracy and no score there.")
    strong = tag("strong", f"not judged: {models}, on {counted(len(found), 'evaluation')}")
    return tag("div", strong, tag("ul", *(tag("li", line) for line in first)), about, class_="banner", role="note")


def line_counts(summary: Summary, manifest: Manifest) -> Html:
    """Show the line counts of the corpus."""
    counts = [(name, getattr(summary.line_counts, name)) for name in _COUNTS]
    whose = " of the shards that were read" if manifest.skipped else ""
    return joined(
        tiles(("lines", summary.line_counts.lines), *counts),
        stacked(counts),
        tag(
            "p",
            f"Every line{whose} is counted once: lines = kept + duplicates + rejected + blank.",
            class_="soft",
        ),
        tag(
            "div",
            counts_table("Kept records by interaction type", "type", "records", summary.interaction_types),
            class_="pair",
        ),
    )


def versions(summary: Summary) -> Html:
    """Show which schema versions the lines follow, and what was noted about them."""
    facts = facts_of(summary)
    mismatches = summary.notes.get("version.mismatch", 0)
    repairs = summary.repaired.by_code  # these have a section of their own
    notes = [row(name, meaning(name), num(count)) for name, count in summary.notes.items() if name not in repairs]
    return joined(
        tiles(
            ("valid lines", sum(summary.versions.values())),
            ("upgraded", facts.upgraded),
            ("with a label of another version", mismatches),
        ),
        tag(
            "p",
            f"The corpus has schema {summary.schema}. The version of a line is told by its shape; duplicates count.",
            class_="soft",
        ),
        tag(
            "div",
            counts_table("Valid lines by schema version", "version", "lines", summary.versions),
            counts_table("Kept records by schema_version", "schema_version", "records", summary.schema_versions),
            class_="pair",
        ),
        table("Notes on valid lines", ("code", "meaning", "lines"), notes),
    )


def repeats(summary: Summary) -> Html:
    """Show how many duplicates were dropped, and the identities that have several records."""
    repeated, contradicting = summary.repeats, summary.contradictions
    numbers = tiles(
        ("duplicates dropped", summary.line_counts.duplicates),
        ("identities with repeats", repeated.identities),
        ("their records", repeated.records),
        ("identities with contradictions", contradicting.identities),
        ("their records", contradicting.records),
    )
    about = tag(
        "p",
        "Repeats: an epoch, a trial or the output tells the records of an identity apart. "
        "Contradictions: the same output has different verdicts.",
        class_="soft",
    )
    tables = (
        _identities("Contradictions", contradicting),
        _identities("Repeats", repeated),
        _same_run(summary.same_run),
    )
    return joined(numbers, about, *tables)


def _same_run(found: SameRun) -> Html:
    rows = [row(one.evaluation_name, one.model_id, one.kept, one.dropped, num(one.records)) for one in found.runs]
    title = f"{counted(found.records, 'duplicate')} from runs that are equal but for evaluation_id and schema_version"
    return table(title, ("evaluation", "model", "kept run", "dropped run", "records"), rows)


def _identities(kind: str, found: Identities) -> Html:
    has_metrics = any(one.metric is not None for one in found.examples)
    rows = [
        row(
            one.evaluation_name,
            *[one.metric or ""] * has_metrics,
            one.model_id,
            one.evaluation_id,
            one.sample_id,
            num(one.records),
            code(", ".join(one.sample_hashes)),
        )
        for one in found.examples
    ]
    heads = ("evaluation", *["metric"] * has_metrics, "model", "evaluation_id", "sample_id", "records", "sample_hash")
    return table(f"{kind}: the first {len(rows):,} of {found.identities:,}", heads, rows)


def hashes(summary: Summary) -> Html:
    """Show wrong hashes, and ids and hashes that do not match one to one."""
    found = summary.sample_hash
    wrong = [
        row(one.evaluation_name, one.model_id, one.sample_id, code(one.given), code(one.computed))
        for one in found.examples
    ]
    mismatches = [
        row(title, *map(num, (one.questions, one.ids_with_many_hashes, one.hashes_with_many_ids)))
        for title, one in zip(titles(summary.evaluations), summary.evaluations, strict=True)
        if one.ids_with_many_hashes or one.hashes_with_many_ids
    ]
    wrong_title = f"Wrong hashes: the first {len(wrong):,} of {found.replaced:,}"
    wrong_heads = ("evaluation", "model", "sample_id", "given", "computed")
    heads = ("evaluation", "questions", "ids with several hashes", "hashes with several ids")
    return joined(
        tiles(("verified", found.verified), ("filled in", found.filled), ("replaced", found.replaced)),
        tag(
            "p",
            f"The corpus has hashes of recipe {found.recipe}, computed with {found.algorithm}. A given hash is "
            "verified if any known recipe gives it. The numbers count lines, duplicates too.",
            class_="soft",
        ),
        _recipes(found),
        table(wrong_title, wrong_heads, wrong),
        table("Ids and hashes that do not match one to one", heads, mismatches)
        or tag("p", "Every id has one hash, and every hash has one id."),
    )


def _recipes(found: SampleHashes) -> Html:
    """Show which recipes gave the hashes of each evaluation and model, if there are several."""
    names = sorted(found.by_recipe, key=lambda name: -found.by_recipe[name])
    if len(names) < 2:
        return Html("")
    rows = [
        row(one.evaluation_name, one.model_id, *(num(one.recipes.get(name)) for name in names))
        for one in found.by_model[:_MOST_ROWS]
    ]
    title = "Valid lines by the recipe of their hash; absent: without a hash; wrong: no recipe gives it"
    about = "by evaluation and model" + f"; the first {len(rows):,}" * (len(rows) < len(found.by_model))
    by_model = table(f"Recipes {about}", ("evaluation", "model", *names), rows)
    counts = {name: found.by_recipe[name] for name in names}
    return joined(
        tag("div", counts_table(title, "recipe", "lines", counts), class_="pair"),
        tag("details", tag("summary", about), by_model),
    )


def inputs(manifest: Manifest) -> Html:
    """Show the line counts of each shard, and the shards that were skipped."""
    numbers = ("bytes", "lines", *_COUNTS)
    rows = [
        row(entry.path, entry.format, *(num(getattr(entry, name)) for name in numbers))
        for entry in manifest.inputs[:_MOST_ROWS]
    ]
    read = len(manifest.inputs)
    about = f"{read:,} of {counted(read + len(manifest.skipped), 'shard')} read, in input order"
    if len(rows) < read:
        about += f"; the first {len(rows):,}"
    parts = (
        [tag("details", tag("summary", about), table("Shards", ("shard", "format", *numbers), rows))] if rows else []
    )
    if manifest.skipped:
        reasons = tag("ul", *(tag("li", reason) for reason in manifest.skipped))
        parts += [tag("p", "Skipped, because they could not be read:"), reasons]
    return joined(*parts)
