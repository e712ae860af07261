"""Whether two corpora can be compared, and how the work is cut: into ranges of places, where parts begin.

Cuts do not depend on the number of jobs, and so neither does anything that comes out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from fastrec.commands.diff.merge import RangeToCompare
from fastrec.commands.diff.places import Place, cut_fields, place_fields
from fastrec.commands.diff.side import PartFile
from fastrec.corpus.documents import MANIFEST, part_paths, read_manifest, read_summary
from fastrec.corpus.manifest import KeyEntry, Manifest, PartEntry
from fastrec.errors import CorpusError, UsageError, shown
from fastrec.storage import storage_of
from fastrec.storage.paths import join

__all__ = ["Corpus", "Plan", "make_plan", "read_corpus"]

# A range of three parts wastes little on what is read twice, and sixteen ranges keep many workers busy.
_PARTS: Final = 3
_RANGES: Final = 16


class Corpus(msgspec.Struct):
    """A corpus to compare."""

    path: str
    manifest: Manifest
    accounts: dict[tuple[str, str], tuple[int, int]]
    """By evaluation_name and model_id: records, and those that are right."""


class Plan(msgspec.Struct):
    """What is to be done."""

    by: tuple[str, ...]
    ranges: list[RangeToCompare]
    text_bytes: int
    """What there is to read."""
    skipped: int
    notices: list[str]


def read_corpus(path: str) -> Corpus:
    """Read the manifest and the summary of a corpus; UsageError if there is none, CorpusError if they are damaged."""
    manifest = read_manifest(path)
    part_paths(path, manifest)  # refuses a manifest that is not one of ours
    summary = read_summary(path, manifest)
    accounts = {
        (evaluation.evaluation_name, model.model_id): (model.records, model.correct)
        for evaluation in summary.evaluations
        for model in evaluation.by_model
    }
    return Corpus(path, manifest, accounts)


def make_plan(old: Corpus, new: Corpus, by: tuple[str, ...], examples: int) -> Plan:
    """See that two corpora can be compared, and cut the work."""
    _check_hashes(old, new, by)
    fields = _common_fields(old, new, by)
    same = {part.text_sha256 for part in old.manifest.parts} & {part.text_sha256 for part in new.manifest.parts}
    olds, news = _to_read(old, same), _to_read(new, same)
    places = cut_fields(fields)
    for corpus, parts in ((old, olds), (new, news)):
        if any(_place(low.last, places) > _place(high.first, places) for low, high in pairwise(parts)):
            raise CorpusError(join(corpus.path, MANIFEST), "does not list its parts in the order of their keys")
    cuts = _cuts(olds, news, places) if places else []
    ranges = [
        RangeToCompare(
            _files(old, olds, places, low, high),
            _files(new, news, places, low, high),
            low,
            high,
            fields,
            tuple(field for field in by if field not in fields),
            examples,
        )
        for low, high in pairwise([None, *cuts, None])
    ]
    notices = []
    versions = old.manifest.fastrec, new.manifest.fastrec
    if versions[0] != versions[1]:
        notices.append(
            f"OLD was made by fastrec {versions[0]} and NEW by {versions[1]}: where the two spell a value in another "
            "way, it counts as changed"
        )
    text_bytes = sum(part.text_bytes for part in (*olds, *news))
    return Plan(by, ranges if olds or news else [], text_bytes, len(same), notices)


def _check_hashes(old: Corpus, new: Corpus, by: Sequence[str]) -> None:
    ours, theirs = old.manifest.options.get("hash"), new.manifest.options.get("hash")
    if ours != theirs and "sample_hash" in by:
        raise UsageError(
            f"the hashes of {shown(old.path)} are {ours} and those of {shown(new.path)} are {theirs}: make "
            f"one of them anew, as with `fastrec normalize {shown(new.path)} -o NEW --hash {ours}`"
        )


def _common_fields(old: Corpus, new: Corpus, by: Sequence[str]) -> tuple[str, ...]:
    """Return the fields of a place, if both corpora are sorted by them and a place holds no more than a sample."""
    ours, theirs = (place_fields(corpus.manifest.sort_fields, by) for corpus in (old, new))
    if ours != theirs:
        order = ",".join(old.manifest.sort_fields)
        raise UsageError(
            f"{shown(old.path)} and {shown(new.path)} are sorted in different orders: make one of them anew, "
            f"as with `fastrec normalize {shown(new.path)} -o NEW --sort-by {order}`"
        )
    if not {"evaluation_name", "model_id"} <= set(ours) or not {"sample_hash", "sample_id"} & set(ours):
        first = ",".join(field for field in by if field != "sample_hash" or "sample_id" not in by)
        raise UsageError(
            f"corpora sorted by {', '.join(old.manifest.sort_fields)} cannot be compared by {', '.join(by)}: make both "
            f"anew, as with `fastrec normalize {shown(old.path)} -o OLD --sort-by {first}`"
        )
    return ours


def _to_read(corpus: Corpus, same: set[str]) -> list[PartEntry]:
    """Return the parts that are not the same in both; of the others only the size is looked at."""
    for part in corpus.manifest.parts:
        path = join(corpus.path, part.file)
        if part.text_sha256 in same and storage_of(path).size_of(path) != part.bytes:
            raise CorpusError(path, f"is not of the {part.bytes:,} bytes that {MANIFEST} says")
    return [part for part in corpus.manifest.parts if part.text_sha256 not in same]


def _cuts(olds: Sequence[PartEntry], news: Sequence[PartEntry], fields: Sequence[str]) -> list[Place]:
    """Return the places at which ranges begin: where every so many parts a part of OLD begins, or the next one of NEW.

    A range also reads what stands before it in the part of the other corpus in which it begins. Of two nights, parts
    begin at about the same places: cut there where the second of the two begins, and next to nothing is read twice.
    """
    cuts = set()
    starts, other_starts = _shares(olds), _shares(news)
    other_firsts = [_place(part.first, fields) for part in news]
    for number in range(0, len(olds), max(_PARTS, -(-len(olds) // _RANGES)))[1:]:
        cut = _place(olds[number].first, fields)
        following = bisect_left(other_firsts, cut)
        if 0 < following < len(news) and starts[number] * 2 > other_starts[following - 1] + other_starts[following]:
            cut = other_firsts[following]
        cuts.add(cut)
    return sorted(cuts)


def _shares(parts: Sequence[PartEntry]) -> list[float]:
    """Return how much of the text stands before each part."""
    ends = list(accumulate(part.text_bytes for part in parts))
    return [(end - part.text_bytes) / ends[-1] for end, part in zip(ends, parts, strict=True)]


def _place(key: KeyEntry, fields: Sequence[str]) -> Place:
    return tuple([getattr(key, field) for field in fields])


def _files(
    corpus: Corpus, parts: Sequence[PartEntry], fields: Sequence[str], low: Place | None, high: Place | None
) -> tuple[PartFile, ...]:
    """Return the parts that may have records of a range."""
    return tuple(
        PartFile(join(corpus.path, part.file), part.bytes, part.text_bytes)
        for part in parts
        if (high is None or _place(part.first, fields) < high) and (low is None or _place(part.last, fields) >= low)
    )
