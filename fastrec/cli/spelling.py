"""Spelling of text and numbers for people. Text from input is escaped, so that it cannot control a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fastrec.errors import counted

__all__ = ["UNSAFE", "safe", "spell_bytes", "spell_codes", "spell_p", "spell_repairable", "spell_speed"]

_MOST_CODES = 3

# Control characters, and characters that reorder or hide text on a terminal.
UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)


def safe(text: str) -> str:
    """Escape characters that could control a terminal."""
    return UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def spell_bytes(size: int) -> str:
    """Format a number of bytes.

    >>> spell_bytes(123), spell_bytes(45_600), spell_bytes(7_890_000), spell_bytes(1_234_000_000)
    ('123 B', '45.6 kB', '7.9 MB', '1.23 GB')
    """
    if size < 1_000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:.1f} MB" if size < 1_000_000_000 else f"{size / 1e9:.2f} GB"


def spell_speed(size: int, seconds: float) -> str:
    """Format how long some text took, and how fast that was.

    >>> spell_speed(4_600_000_000, 2.0)
    'in 2.00 s, 2,300 MB/s'
    """
    return f"in {seconds:.2f} s, {size / 1e6 / max(seconds, 1e-9):,.0f} MB/s"


def spell_codes(by_code: Mapping[str, int]) -> str:
    """Format counts by code, the largest first; of many codes only the first.

    >>> spell_codes({"repair.nan_score": 7, "repair.null": 1_200})
    '1,200 repair.null, 7 repair.nan_score'
    """
    rows = sorted(by_code.items(), key=lambda row: (-row[1], row[0]))
    shown = [f"{count:,} {code}" for code, count in rows[:_MOST_CODES]]
    return ", ".join([*shown, *(["…"] if len(rows) > _MOST_CODES else [])])


def spell_p(p: float | None) -> str:
    """Format a p-value. One that is too small for a number is not 0.

    >>> spell_p(1.0), spell_p(0.04321), spell_p(0.0000123), spell_p(0.0), spell_p(None)
    ('1', '0.0432', '1e-05', '<1e-300', '–')
    """
    if p is None or p == 0:
        return "–" if p is None else "<1e-300"
    return "1" if p == 1 else f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}"


def spell_repairable(lines: int, by_code: Mapping[str, int], of: int, kind: str = "rejected") -> str:
    """Say how many of some rejected lines repairs would keep.

    >>> spell_repairable(9, {"repair.null": 9}, 10)
    '`--repair all` would keep 9 of 10 rejected lines (9 repair.null)'
    """
    return f"`--repair all` would keep {lines:,} of {counted(of, f'{kind} line')} ({spell_codes(by_code)})"
