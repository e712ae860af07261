"""Sections about the corpus as a whole: lines, versions, repeats, hashes, repairs, inputs."""

from collections.abc import Mapping
from functools import partial

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.rejects import decode_rejected
from fastrec.errors import counted, listed
from fastrec.judge.findings import CODES
from fastrec.pages import render_macro
from fastrec.pages.html import Cell, Html, Row, Table, number_cell
from fastrec.sources.shard import numbered_lines
from fastrec.storage import base_name, join
from fastrec.summary.document import Summary
from fastrec.summary.present_ranking import Stats, facts_of
from fastrec.wording import by_count, titles_in

_EXAMPLES = 5  # per code
_EXCERPT_BYTES = 160
_MOST_ROWS = 5_000

section = partial(render_macro, "report/sections.html")


def not_judged(stats: Stats) -> list[str]:
    """The evaluations in which all records of some models have an error, with these models."""
    lines = []
    for evaluation in stats.evaluations:
        names = [model.model_id for model in evaluation.by_model if not model.answers]
        if names:
            lines.append(f"{evaluation.title}: {counted(names, 'model')}, {listed(names, 3)}")
    return lines


def line_sections(summary: Summary, corpus: str, manifest: Manifest) -> dict[str, Html]:
    """Make the sections about all lines of a corpus."""
    repaired = summary.repaired
    # Repairs have a section of their own.
    notes = {name: count for name, count in summary.notes.items() if name not in repaired.by_code}
    given = summary.sample_hash
    recipes = by_count(given.by_recipe)
    upgraded = facts_of(summary).upgraded
    return {
        "Line counts": section("line_counts", summary, manifest),
        "Schema versions": section("versions", summary, upgraded, _codes(notes)),
        "Duplicates and repeats": section("repeats", summary),
        "Hashes and ids": section("hashes", given, recipes, *_mismatches(summary)),
        "Repaired lines": section("repaired_lines", repaired, _codes(repaired.by_code)),
        "Rejected lines": _rejected_lines(summary, corpus, manifest),
        "Inputs": section("inputs", manifest),
    }


def _rejected_lines(summary: Summary, corpus: str, manifest: Manifest) -> Html:
    counts = by_count(summary.rejected_by_code)
    lines = summary.line_counts.lines
    rows = [(*code, number_cell(code[-1] / lines, ".1%")) for code in _codes(dict(counts))]
    by_code = _examples(corpus, manifest)
    examples = {name: list(by_code[name].values()) for name, _ in counts if name in by_code}
    return section("rejected_lines", summary, rows, examples, _codes(summary.repairable.by_code))


def _codes(counts: Mapping[str, int]) -> list[tuple[str, str, int]]:
    return [(name, CODES.get(name, ""), count) for name, count in counts.items()]


def _examples(corpus: str, manifest: Manifest) -> dict[str, dict[tuple[str, str], Row]]:
    """Read the first rejected lines of each code with different messages, as rows of a table."""
    by_code: dict[str, dict[tuple[str, str], Row]] = {}
    if not manifest.rejects:
        return by_code
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
            location = f"{rejected.source}:{rejected.line}"
            examples[error] = (location, *error, Cell(excerpt, "code"))
    return by_code


def _mismatches(summary: Summary) -> tuple[int, Table]:
    counts = {
        "questions": "questions",
        "ids_with_many_hashes": "ids with several hashes",
        "hashes_with_many_ids": "hashes with several ids",
    }
    if any(evaluation.split_hashes for evaluation in summary.evaluations):
        counts["split_hashes"] = "of these in one run"
    title_of = titles_in(summary.evaluations)
    rows = [
        (title_of(evaluation), *(getattr(evaluation, name) for name in counts))
        for evaluation in summary.evaluations
        if evaluation.ids_with_many_hashes or evaluation.hashes_with_many_ids
    ]
    return len(rows), (("evaluation", *counts.values()), rows[:_MOST_ROWS])
