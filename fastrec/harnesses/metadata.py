"""Metadata of records: what harnesses say of samples, and what their metrics are.

The metadata of a sample are fields of a log that no other field of a record holds.

A harness gives them as they are in the log. Here they become texts, for all harnesses alike:

    a value                                              becomes
    text                                                 itself
    anything else                                        compact JSON
    null or empty                                        nothing
    what the input has: a long text, choices             nothing: it would be there twice
    more than 4,096 characters, unless named by the      its beginning, and how much is missing;
    user                                                 counted
    a field that the user did not choose                 nothing; counted

A name that the harness uses itself gets a prefix, `sample_` or `score_`.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from fastrec.errors import UsageError
from fastrec.filters import matches_any
from fastrec.harnesses.registry import KNOWN, MetricRow
from fastrec.harnesses.values import JsonObject, Names, Texts, spell
from fastrec.schemas.newest import Input

LONGEST = 4096  # characters of a value that are kept
_COPIED = 32  # characters of a text that is no accident if the input has it, too

_NUMBERS = (int, float, bool)

NO_PLACE = "a record has no place for it"
NOT_CHOSEN = "not chosen by --metadata"
CUT = f"cut after {LONGEST:,} characters"

# Values of a log that are not in its records, or not whole, by name and reason.
FieldCounts = Counter[tuple[str, str]]

_ALL = frozenset({
    "harness", "harness_version", "reference_index", "choice_index", "graded", "metric_kind",
    "lower_is_better", "primary_metric",
})  # fmt: skip


def own_names(harness: str) -> frozenset[str]:
    """Names of metadata that a harness writes itself: they mean one thing in all its records."""
    return _ALL.union(KNOWN[harness].metadata)


def chosen_names(metadata: str) -> frozenset[str] | None:
    """The names in a value of --metadata: `all` (None), `none`, or names separated by commas.

    UsageError if empty.

    >>> chosen_names("all"), sorted(chosen_names("subject, level")), chosen_names("none")
    (None, ['level', 'subject'], frozenset())
    """
    names = frozenset(filter(None, map(str.strip, metadata.split(","))))
    if not names:
        raise UsageError("metadata must be all, none, or names separated by commas, not empty")
    return None if names == {"all"} else frozenset() if names == {"none"} else names


def names_of(field: str) -> Names:
    """The names that a field of a log may have in records."""
    return field, f"sample_{field}", f"score_{field}"


class MetadataKeeper:
    """Turns fields of samples and scores into metadata, and counts what it leaves out."""

    def __init__(self, harness: str, chosen: frozenset[str] | None = None) -> None:
        """Keep all fields (None) or the chosen ones."""
        self._own = own_names(harness)
        self._chosen = chosen
        self.left_out: FieldCounts = Counter()
        self.names = set[str]()  # all names that came up, as records have them

    def keep(
        self, fields: JsonObject, asked: Input, prefix: str, taken: Collection[str] = ()
    ) -> Texts:
        """The metadata of some fields.

        `taken` are names that the record has besides the harness's own.
        """
        kept = {}
        own = self._own
        chosen = self._chosen
        for field, value in fields.items():
            if not value and value.__class__ not in _NUMBERS:
                continue
            name = field
            while name in own or name in taken or name in kept:
                name = f"{prefix}_{name}"
            self.names.add(name)
            if chosen is not None and name not in chosen and field not in chosen:
                self.left_out[name, NOT_CHOSEN] += 1
                continue
            if _is_in(asked, value):
                continue
            text = str(value) if value.__class__ is int else spell(value)
            if len(text) > LONGEST and chosen is None:
                text = f"{text[:LONGEST]}… [{len(text) - LONGEST:,} more characters]"
                self.left_out[name, CUT] += 1
            kept[name] = text
        return kept


def _is_in(asked: Input, value: Any) -> bool:
    """Whether the input of a record has a value."""
    if value.__class__ is str:
        if len(value) < _COPIED:
            return False
        return value in asked.raw or (asked.formatted.__class__ is str and value in asked.formatted)
    return value.__class__ is list and value == asked.choices


def row_of(harness: str, metric: str) -> MetricRow | None:
    """The row of a metric: by its id (`exact_match:valid`), or by a piece of it."""
    names = {metric, *metric.replace("@", ":").split(":")}
    for row in KNOWN[harness].metrics:
        patterns = row.patterns.split()
        if any(matches_any(name, patterns) for name in names):
            return row
    return None


def notes_on(harness: str, metrics: Sequence[str], lower: Collection[str]) -> dict[str, Texts]:
    """What metadata say about the metrics of a log, which come in the harness's own order.

    The first judgement is the primary metric.
    """
    notes = {}
    primary = True
    for metric in metrics:
        row = row_of(harness, metric)
        kind = row.kind if row else "judgement"
        notes[metric] = {"metric_kind": kind}
        if metric in lower or (row and row.lower):
            notes[metric]["lower_is_better"] = "true"
        if kind == "judgement" and primary:
            notes[metric]["primary_metric"] = "true"
            primary = False
    return notes
