"""Sections about the corpus as a whole: line counts, versions, repeats, hashes, repaired and rejected lines, inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastrec.commands.report.charts import stacked
from fastrec.corpus.manifest import Manifest, skipped_lines
from fastrec.corpus.rejects import decode_rejected
from fastrec.errors import counted, listed
from fastrec.filters import Filters
from fastrec.html import Html, code, counts_table, joined, num, row, soft, table, tag, tiles
from fastrec.judge.findings import CODES
from fastrec.sources.shard import numbered_lines
from fastrec.storage import join, parent_and_name
from fastrec.summary.document import Identities, SampleHashes, Summary
from fastrec.summary.present_ranking import Stats, facts_of, repeats_in_words
from fastrec.wording import titles

_EXAMPLES: Final = 5  # per code
_EXCERPT_BYTES: Final = 160


def repaired_lines(summary: Summary) -> Html:
    """Show what `--repair` changed, with examples; nothing if it changed nothing."""
    found = summary.repaired
    if not found.lines:
        return Html("")
    changes = [
        row(one.code, one.evaluation_name, one.model_id, one.sample_id, one.path, one.message)
        for one in found.examples
    ]
    return joined(
        tiles(("repaired lines", found.lines)),
        _codes("Repairs by code", found.by_code),
        table(
            "Examples of repairs",
            ("code", "evaluation", "model", "sample_id", "path", "message"),
            changes,
        ),
    )


def rejected_lines(summary: Summary, corpus: str, manifest: Manifest) -> Html:
    examples = _examples(corpus, manifest)
    counts = sorted(summary.rejected_by_code.items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return tag("p", "No line was rejected.")
    lines = summary.line_counts.lines
    rows = [row(name, _meaning(name), num(n), num(n / lines, ".1%")) for name, n in counts]
    heads = ("location", "path", "message", "beginning of the line")
    details = [
        tag(
            "details",
            tag("summary", f"{name}: examples"),
            table(f"Examples of {name}", heads, examples[name]),
        )
        for name, _ in counts
        if name in examples
    ]
    by_code = table("Rejected lines by code", ("code", "meaning", "lines", "share"), rows)
    repairs = []
    found = summary.repairable
    if found.lines:
        kept = (
            f", normalize would keep {found.lines:,} of "
            f"{counted(summary.line_counts.rejected, 'rejected line')}."
        )
        repairs.append(tag("p", "With ", tag("code", "--repair all"), kept))
        repairs.append(_codes("Repairs that would keep rejected lines", found.by_code))
    return joined(by_code, *details, *repairs)


def _codes(title: str, counts: Mapping[str, int]) -> Html:
    rows = [row(name, _meaning(name), num(count)) for name, count in counts.items()]
    return table(title, ("code", "meaning", "lines"), rows)


def _meaning(name: str) -> str:
    return CODES.get(name, "")


def _examples(corpus: str, manifest: Manifest) -> dict[str, list[Html]]:
    """Read the first rejected lines of each code with different messages, as rows of a table."""
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
            excerpt = raw[:_EXCERPT_BYTES].decode(errors="backslashreplace") + "…" * (
                len(raw) > _EXCERPT_BYTES
            )
            some[error] = row(f"{rejected.source}:{rejected.line}", *error, code(excerpt))
    return {name: list(some.values()) for name, some in found.items()}


_MOST_ROWS: Final = 5_000
_MOST_TITLES: Final = 10  # evaluations in the banner
_COUNTS: Final = ("kept", "duplicates", "rejected", "blank")


def banners(filters: Filters, stats: Stats, manifest: Manifest) -> Html:
    """Show at the top what the numbers are about: filters, repeats, skipped shards, models with nothing but errors."""
    found: list[tuple[str, list[str], str]] = []
    if filters:
        about = "All numbers on this page are those of the matching records."
        found.append((f"only records that match {filters}", [], about))
    if stats.repeats_as != "mean":
        about = " ".join(repeats_in_words(stats.repeats_as))
        found.append((f"accuracy and score are {stats.repeats_as}", [], about))
    if skipped := skipped_lines(manifest.skipped):
        shards = [line.strip() for line in skipped[1:]]
        found.append(
            (skipped[0], shards, "The numbers on this page are those of the other shards.")
        )
    not_judged = {
        one.title: names
        for one in stats.evaluations
        if (names := [m.model_id for m in one.by_model if not m.answers])
    }
    if not_judged:
        first = [
            f"{title}: {listed(names)}" for title, names in list(not_judged.items())[:_MOST_TITLES]
        ]
        if len(not_judged) > _MOST_TITLES:
            first.append(f"… and on {counted(len(not_judged) - _MOST_TITLES, 'more evaluation')}")
        models = counted(len({name for names in not_judged.values() for name in names}), "model")
        about = "All their records have an error, so they have no accuracy and no score there."
        found.append(
            (f"not judged: {models}, on {counted(len(not_judged), 'evaluation')}", first, about)
        )
    made = []
    for title, lines, about in found:
        items = tag("ul", *(tag("li", line) for line in lines)) if lines else None
        made.append(
            tag("div", tag("strong", title), items, tag("p", about), class_="banner", role="note")
        )
    return joined(*made)


def line_counts(summary: Summary, manifest: Manifest) -> Html:
    counts = [(name, getattr(summary.line_counts, name)) for name in _COUNTS]
    whose = " of the shards that were read" if manifest.skipped else ""
    types = counts_table(
        "Kept records by interaction type", "type", "records", summary.interaction_types
    )
    return joined(
        tiles(("lines", summary.line_counts.lines), *counts),
        stacked(counts),
        soft(f"Every line{whose} is counted once: lines = kept + duplicates + rejected + blank."),
        tag("div", types, class_="pair"),
    )


def versions(summary: Summary) -> Html:
    # Repairs have a section of their own.
    notes = {
        name: count for name, count in summary.notes.items() if name not in summary.repaired.by_code
    }
    about = (
        f"The corpus has schema {summary.schema}. The version of a line is told by its shape; "
        "duplicates count."
    )
    return joined(
        tiles(
            ("valid lines", sum(summary.versions.values())),
            ("upgraded", facts_of(summary).upgraded),
            ("with a label of another version", summary.notes.get("version.mismatch", 0)),
        ),
        soft(about),
        tag(
            "div",
            counts_table("Valid lines by schema version", "version", "lines", summary.versions),
            counts_table(
                "Kept records by schema_version",
                "schema_version",
                "records",
                summary.schema_versions,
            ),
            class_="pair",
        ),
        _codes("Notes on valid lines", notes),
    )


def repeats(summary: Summary) -> Html:
    repeated = summary.repeats
    contradicting = summary.contradictions
    numbers = tiles(
        ("duplicates dropped", summary.line_counts.duplicates),
        ("identities with repeats", repeated.identities),
        ("their records", repeated.records),
        ("identities with contradictions", contradicting.identities),
        ("their records", contradicting.records),
    )
    about = soft(
        "Repeats: an epoch, a trial or the output tells the records of an identity apart. "
        "Contradictions: the same output has different verdicts."
    )
    identities = _identities("Contradictions", contradicting), _identities("Repeats", repeated)
    same = summary.same_run
    rows = [
        row(one.evaluation_name, one.model_id, one.kept, one.dropped, num(one.records))
        for one in same.runs
    ]
    title = (
        f"{counted(same.records, 'duplicate')} from runs that are equal but for evaluation_id "
        "and schema_version"
    )
    runs = table(title, ("evaluation", "model", "kept run", "dropped run", "records"), rows)
    return joined(numbers, about, *identities, runs)


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
    heads = (
        "evaluation",
        *["metric"] * has_metrics,
        "model",
        "evaluation_id",
        "sample_id",
        "records",
        "sample_hash",
    )
    return table(f"{kind}: the first {len(rows):,} of {found.identities:,}", heads, rows)


def hashes(summary: Summary) -> Html:
    found = summary.sample_hash
    wrong = [
        row(one.evaluation_name, one.model_id, one.sample_id, code(one.given), code(one.computed))
        for one in found.examples
    ]
    counts = {
        "questions": "questions",
        "ids_with_many_hashes": "ids with several hashes",
        "hashes_with_many_ids": "hashes with several ids",
    }
    if any(one.split_hashes for one in summary.evaluations):
        counts["split_hashes"] = "of these in one run"
    differing = [
        (title, one)
        for title, one in zip(titles(summary.evaluations), summary.evaluations, strict=True)
        if one.ids_with_many_hashes or one.hashes_with_many_ids
    ]
    mismatches = [
        row(title, *(num(getattr(one, name)) for name in counts))
        for title, one in differing[:_MOST_ROWS]
    ]
    cut = (
        f": the first {_MOST_ROWS:,} of {len(differing):,} evaluations"
        if len(differing) > _MOST_ROWS
        else ""
    )
    wrong_title = f"Wrong hashes: the first {len(wrong):,} of {found.replaced:,}"
    return joined(
        tiles(
            ("verified", found.verified), ("filled in", found.filled), ("replaced", found.replaced)
        ),
        soft(
            f"The corpus has hashes of recipe {found.recipe}, computed with {found.algorithm}. A "
            "given hash is "
            "verified if any known recipe gives it. The numbers count lines, duplicates too."
        ),
        _recipes(found),
        table(wrong_title, ("evaluation", "model", "sample_id", "given", "computed"), wrong),
        table(
            f"Ids and hashes that do not match one to one{cut}",
            ("evaluation", *counts.values()),
            mismatches,
        )
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
    title = (
        "Valid lines by the recipe of their hash; absent: without a hash; wrong: no recipe gives it"
    )
    about = "by evaluation and model" + f"; the first {len(rows):,}" * (
        len(rows) < len(found.by_model)
    )
    by_model = table(f"Recipes {about}", ("evaluation", "model", *names), rows)
    counts = {name: found.by_recipe[name] for name in names}
    return joined(
        tag("div", counts_table(title, "recipe", "lines", counts), class_="pair"),
        tag("details", tag("summary", about), by_model),
    )


def inputs(manifest: Manifest) -> Html:
    numbers = ("bytes", "lines", *_COUNTS)
    rows = [
        row(entry.path, entry.format, *(num(getattr(entry, name)) for name in numbers))
        for entry in manifest.inputs[:_MOST_ROWS]
    ]
    read = len(manifest.inputs)
    about = f"{read:,} of {counted(read + len(manifest.skipped), 'shard')} read, in input order"
    if len(rows) < read:
        about += f"; the first {len(rows):,}"
    shards = table("Shards", ("shard", "format", *numbers), rows)
    parts = [tag("details", tag("summary", about), shards)] if rows else []
    if manifest.skipped:
        reasons = tag("ul", *(tag("li", reason) for reason in manifest.skipped))
        parts += [tag("p", "Skipped, because they could not be read:"), reasons]
    return joined(*parts)
