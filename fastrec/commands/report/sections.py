"""Sections about the corpus as a whole: lines, versions, repeats, hashes, repairs, inputs."""

from collections.abc import Callable, Mapping
from typing import Any

from fastrec.corpus.manifest import Manifest, skipped_lines
from fastrec.corpus.rejects import decode_rejected
from fastrec.errors import counted, listed
from fastrec.filters import Filters
from fastrec.html import (
    Html,
    code,
    counts_table,
    details,
    each,
    field_table,
    html,
    joined,
    num,
    row,
    soft,
    table,
    tiles,
)
from fastrec.judge.findings import CODES
from fastrec.sources.shard import numbered_lines
from fastrec.storage import base_name, join
from fastrec.summary.document import Identities, SampleHashes, Summary
from fastrec.summary.present_ranking import Stats, facts_of, repeats_in_words
from fastrec.wording import titles

# Columns of tables: their heads and fields, and how some fields become cells.
_SAMPLE = {"evaluation": "evaluation_name", "model": "model_id", "sample_id": "sample_id"}
_FORMATS: dict[str, Callable[[Any], str]] = {
    "sample_id": str,
    "metric": lambda metric: metric or "",
    "given": code,
    "computed": code,
    "sample_hashes": lambda hashes: code(", ".join(hashes)),
}
_EXAMPLES = 5  # per code
_EXCERPT_BYTES = 160


def repaired_lines(summary: Summary) -> Html:
    """Show what `--repair` changed, with examples; nothing if it changed nothing."""
    repaired = summary.repaired
    if not repaired.lines:
        return Html("")
    columns = {
        "code": "code",
        **_SAMPLE,
        "path": "path",
        "message": "message",
    }
    return joined(
        tiles(("repaired lines", repaired.lines)),
        _codes("Repairs by code", repaired.by_code),
        field_table("Examples of repairs", columns, repaired.examples, _FORMATS),
    )


def rejected_lines(summary: Summary, corpus: str, manifest: Manifest) -> Html:
    counts = sorted(summary.rejected_by_code.items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return Html("<p>No line was rejected.</p>")
    lines = summary.line_counts.lines
    rows = [row(name, _meaning(name), n, num(n / lines, ".1%")) for name, n in counts]
    examples = _examples(corpus, manifest)
    heads = ("location", "path", "message", "beginning of the line")
    return joined(
        table("Rejected lines by code", ("code", "meaning", "lines", "share"), rows),
        (
            details(f"{name}: examples", table(f"Examples of {name}", heads, examples[name]))
            for name, _ in counts
            if name in examples
        ),
        _repairable(summary),
    )


def _repairable(summary: Summary) -> Html | None:
    repairable = summary.repairable
    if not repairable.lines:
        return None
    return html(
        "<p>With <code>--repair all</code>, normalize would keep {:,} of {}.</p>{}",
        repairable.lines,
        counted(summary.line_counts.rejected, "rejected line"),
        _codes("Repairs that would keep rejected lines", repairable.by_code),
    )


def _codes(title: str, counts: Mapping[str, int]) -> Html:
    rows = [row(name, _meaning(name), count) for name, count in counts.items()]
    return table(title, ("code", "meaning", "lines"), rows)


def _meaning(name: str) -> str:
    return CODES.get(name, "")


def _examples(corpus: str, manifest: Manifest) -> dict[str, list[Html]]:
    """Read the first rejected lines of each code with different messages, as rows of a table."""
    if manifest.rejects is None:
        return {}
    by_code: dict[str, dict[tuple[str, str], Html]] = {}
    path = join(corpus, base_name(manifest.rejects.file))
    for number, line in numbered_lines(path):
        rejected = decode_rejected(path, number, line)
        examples = by_code.setdefault(rejected.code, {})
        error = (rejected.path, rejected.message)
        if error not in examples and len(examples) < _EXAMPLES:
            raw = rejected.exact_bytes()
            excerpt = raw[:_EXCERPT_BYTES].decode(errors="backslashreplace")
            if len(raw) > _EXCERPT_BYTES:
                excerpt += "…"
            examples[error] = row(f"{rejected.source}:{rejected.line}", *error, code(excerpt))
    return {name: list(examples.values()) for name, examples in by_code.items()}


_MOST_ROWS = 5_000
_MOST_TITLES = 10  # evaluations in the banner
_COUNTS = ("kept", "duplicates", "rejected", "blank")


def banners(filters: Filters, stats: Stats, manifest: Manifest) -> Html:
    """Show at the top what the numbers are about, such as filters and skipped shards."""
    parts = []
    if filters:
        about = "All numbers on this page are those of the matching records."
        parts.append(_banner(f"only records that match {filters}", [], about))
    if stats.repeats_as != "mean":
        about = " ".join(repeats_in_words(stats.repeats_as))
        parts.append(_banner(f"accuracy and score are {stats.repeats_as}", [], about))
    if skipped := skipped_lines(manifest.skipped):
        shards = [line.strip() for line in skipped[1:]]
        about = "The numbers on this page are those of the other shards."
        parts.append(_banner(skipped[0], shards, about))
    return joined(*parts, _not_judged(stats))


def _not_judged(stats: Stats) -> Html | None:
    """Name the models with nothing but errors."""
    lines = []
    for evaluation in stats.evaluations:
        names = [model.model_id for model in evaluation.by_model if not model.answers]
        if names:
            lines.append(f"{evaluation.title}: {counted(len(names), 'model')}, {listed(names, 3)}")
    if not lines:
        return None
    more = lines[_MOST_TITLES:]
    shown = [*lines[:_MOST_TITLES], *([f"… and {len(more):,} more evaluations"] if more else [])]
    about = "All their records have an error, so they have no accuracy and no score there."
    return _banner("not judged", shown, about)


def _banner(title: str, lines: list[str], about: str) -> Html:
    return html(
        '<div class="banner" role="note"><strong>{}</strong>{}<p>{}</p></div>',
        title,
        _list(lines) if lines else None,
        about,
    )


def _list(lines: list[str]) -> Html:
    return html("<ul>{}</ul>", each("<li>{}</li>", lines))


def line_counts(summary: Summary, manifest: Manifest) -> Html:
    counts = [(name, getattr(summary.line_counts, name)) for name in _COUNTS]
    whose = " of the shards that were read" if manifest.skipped else ""
    title = "Kept records by interaction type"
    return joined(
        tiles(("lines", summary.line_counts.lines), *counts),
        soft(f"Every line{whose} is counted once: lines = kept + duplicates + rejected + blank."),
        details(title, counts_table(title, "type", "records", summary.interaction_types)),
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
    label = "schema_version"
    return joined(
        tiles(
            ("valid lines", sum(summary.versions.values())),
            ("upgraded", facts_of(summary).upgraded),
            ("with a label of another version", summary.notes.get("version.mismatch", 0)),
        ),
        soft(about),
        counts_table("Valid lines by schema version", "version", "lines", summary.versions),
        counts_table(f"Kept records by {label}", label, "records", summary.schema_versions),
        _codes("Notes on valid lines", notes),
    )


def repeats(summary: Summary) -> Html:
    repeated = summary.repeats
    contradicting = summary.contradictions
    same = summary.same_run
    title = (
        f"{counted(same.records, 'duplicate')} from runs that are equal but for evaluation_id "
        "and schema_version"
    )
    columns = {
        "evaluation": "evaluation_name",
        "model": "model_id",
        "kept run": "kept",
        "dropped run": "dropped",
        "records": "records",
    }
    return joined(
        tiles(
            ("duplicates dropped", summary.line_counts.duplicates),
            ("identities with repeats", repeated.identities),
            ("their records", repeated.records),
            ("identities with contradictions", contradicting.identities),
            ("their records", contradicting.records),
        ),
        soft(
            "Repeats: an epoch, a trial or the output tells the records of an identity apart. "
            "Contradictions: the same output has different verdicts."
        ),
        _identities("Contradictions", contradicting),
        _identities("Repeats", repeated),
        field_table(title, columns, same.runs),
    )


def _identities(kind: str, identities: Identities) -> Html:
    examples = identities.examples
    columns = {
        "evaluation": "evaluation_name",
        "metric": "metric",
        "model": "model_id",
        "evaluation_id": "evaluation_id",
        "sample_id": "sample_id",
        "records": "records",
        "sample_hash": "sample_hashes",
    }
    if all(example.metric is None for example in examples):
        del columns["metric"]
    title = f"{kind}: the first {len(examples):,} of {identities.identities:,}"
    return field_table(title, columns, examples, _FORMATS)


def hashes(summary: Summary) -> Html:
    given = summary.sample_hash
    columns = {**_SAMPLE, "given": "given", "computed": "computed"}
    title = f"Wrong hashes: the first {len(given.examples):,} of {given.replaced:,}"
    return joined(
        tiles(
            ("verified", given.verified), ("filled in", given.filled), ("replaced", given.replaced)
        ),
        soft(
            f"The corpus has hashes of recipe {given.recipe}, computed with {given.algorithm}. A "
            "given hash is verified if any known recipe gives it. The numbers count lines, "
            "duplicates too."
        ),
        _recipes(given),
        field_table(title, columns, given.examples, _FORMATS),
        _mismatches(summary) or Html("<p>Every id has one hash, and every hash has one id.</p>"),
    )


def _mismatches(summary: Summary) -> Html:
    counts = {
        "questions": "questions",
        "ids_with_many_hashes": "ids with several hashes",
        "hashes_with_many_ids": "hashes with several ids",
    }
    if any(evaluation.split_hashes for evaluation in summary.evaluations):
        counts["split_hashes"] = "of these in one run"
    rows = [
        row(title, *(getattr(evaluation, name) for name in counts))
        for title, evaluation in zip(titles(summary.evaluations), summary.evaluations, strict=True)
        if evaluation.ids_with_many_hashes or evaluation.hashes_with_many_ids
    ]
    title = "Ids and hashes that do not match one to one"
    if len(rows) > _MOST_ROWS:
        title += f": the first {_MOST_ROWS:,} of {len(rows):,} evaluations"
    return table(title, ("evaluation", *counts.values()), rows[:_MOST_ROWS])


def _recipes(hashes: SampleHashes) -> Html | None:
    """Show which recipes gave the hashes, if there are several."""
    if len(hashes.by_recipe) < 2:
        return None
    title = (
        "Valid lines by the recipe of their hash; absent: without a hash; wrong: no recipe gives it"
    )
    by_count = sorted(hashes.by_recipe.items(), key=lambda item: -item[1])
    return counts_table(title, "recipe", "lines", dict(by_count))


def inputs(manifest: Manifest) -> Html:
    fields = ("path", "format", "bytes", "lines", *_COUNTS)
    columns = {"shard" if field == "path" else field: field for field in fields}
    read = len(manifest.inputs)
    about = f"{read:,} of {counted(read + len(manifest.skipped), 'shard')} read, in input order"
    if read > _MOST_ROWS:
        about += f"; the first {_MOST_ROWS:,}"
    shards = field_table("Shards", columns, manifest.inputs[:_MOST_ROWS])
    skipped = None
    if manifest.skipped:
        text = "<p>Skipped, because they could not be read:</p>{}"
        skipped = html(text, _list(manifest.skipped))
    return joined(details(about, shards) if read else None, skipped)
