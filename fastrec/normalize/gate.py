"""The gate of `normalize`: a corpus that fails it is refused, and does not replace anything.

It is refused if more lines were rejected than `max_rejects` allows, or if it has no records at all and would replace
a corpus that has some. Without `max_rejects`, only the second rule holds.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fastrec.errors import UsageError, counted
from fastrec.summary.document import LineCounts

__all__ = ["MaxRejects", "parse_max_rejects", "why_refused"]


class MaxRejects(NamedTuple):
    """How many lines may be rejected."""

    number: float
    is_share: bool  # the number is a percentage of all lines

    def allows(self, counts: LineCounts) -> bool:
        """Return whether not too many lines were rejected."""
        from fractions import Fraction  # noqa: PLC0415 - takes a millisecond, and is rarely needed

        limit = Fraction(str(self.number))  # exact: with doubles, 0.7 % of 1,000 lines are less than 7
        return counts.rejected <= (limit * counts.lines / 100 if self.is_share else limit)

    def __str__(self) -> str:
        return f"{self.number:.15g}{'%' if self.is_share else ''}"


class _OldCorpus(msgspec.Struct):
    """What the gate reads of the manifest of the corpus to be replaced."""

    records: int


def parse_max_rejects(value: float | str) -> MaxRejects:
    """Parse a number of lines, or a percentage of them.

    >>> parse_max_rejects(100), parse_max_rejects("0.5%")
    (MaxRejects(number=100.0, is_share=False), MaxRejects(number=0.5, is_share=True))
    """
    text = str(value)
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise UsageError(f"{text!r} is neither a number of lines nor a percentage such as 0.5%")
    if not number.is_integer() and not text.endswith("%"):
        raise UsageError(f"{text!r} is not a whole number of lines: did you mean {text}%?")
    return MaxRejects(number, text.endswith("%"))


def why_refused(counts: LineCounts, max_rejects: MaxRejects | None, old_manifest: bytes | None) -> str | None:
    """Return why a corpus must not be published, or None. `old_manifest` is of the corpus that it would replace."""
    if max_rejects and not max_rejects.allows(counts):
        rejected = f"{counts.rejected:,} of {counted(counts.lines, 'line')}"
        return f"{rejected} were rejected, and --max-rejects is {max_rejects}"
    if counts.kept or old_manifest is None:
        return None
    try:
        records = msgspec.json.decode(old_manifest, type=_OldCorpus).records
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "it has no records, and would replace a corpus whose manifest cannot be read"
    return f"it has no records, and would replace a corpus with {records:,}" if records else None
