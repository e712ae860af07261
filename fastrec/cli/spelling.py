"""Spelling of text and numbers for people. Text from input is escaped, so that it cannot control a terminal."""

from __future__ import annotations

import re

__all__ = ["UNSAFE", "safe", "spell_bytes", "spell_speed"]

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
