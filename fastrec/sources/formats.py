"""Which compression a shard has: told by its first bytes, never by its name.

A name lies more often than a magic number does: downloads lose or gain a suffix, clients decompress on the
fly. So `detect` looks at the first bytes alone, and the suffix only serves a notice to the user when the
two disagree.

Input that is shorter than a magic number and begins one (`(`, `B`, `P*M`, 0x1F …) counts as that format,
whose decompressor then reports it as truncated. No record begins with any of these bytes, so no valid line
is lost this way, and a download that broke off after two bytes is never mistaken for text. Empty input is
plain: it has no lines.
"""

from __future__ import annotations

import codecs
import enum

__all__ = ["MAGIC_BYTES", "Format", "detect", "format_of_name", "is_text"]


class Format(enum.Enum):
    """How a shard's text is stored; the value is the name that users see."""

    PLAIN = "plain"
    ZSTD = "zstd"
    GZIP = "gzip"
    BZ2 = "bz2"
    XZ = "xz"

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The endings of names that promise this format."""
        return _SUFFIXES[self]


_SUFFIXES = {
    Format.PLAIN: (".jsonl", ".ndjson", ".json"),
    Format.ZSTD: (".zst", ".zstd"),
    Format.GZIP: (".gz", ".gzip"),
    Format.BZ2: (".bz2",),
    Format.XZ: (".xz",),
}

_MAGIC: tuple[tuple[bytes, Format], ...] = (
    (b"\x28\xb5\x2f\xfd", Format.ZSTD),  # RFC 8878, 3.1.1: 0xFD2FB528, little-endian
    *((bytes((low, 0x2A, 0x4D, 0x18)), Format.ZSTD) for low in range(0x50, 0x60)),  # 3.1.2: skippable frames
    (b"\x1f\x8b", Format.GZIP),  # RFC 1952, 2.3.1: ID1, ID2
    *((b"BZh%d" % level, Format.BZ2) for level in range(1, 10)),  # bzip2 has no RFC: "BZh" and the block size
    (b"\xfd7zXZ\x00", Format.XZ),  # The .xz File Format 1.1.0, 2.1.1.1: Header Magic Bytes
)

MAGIC_BYTES = max(len(magic) for magic, _ in _MAGIC)
"""How many bytes `detect` wants to see (fewer only if the input is shorter)."""


def detect(head: bytes) -> Format:
    """Tell the format of input that begins with `head`, which holds MAGIC_BYTES or is all there is."""
    for magic, format_ in _MAGIC:
        if head.startswith(magic) or (head and magic.startswith(head)):
            return format_
    return Format.PLAIN


def format_of_name(path: str) -> Format | None:
    """The format that the name of a shard promises, if it promises any."""
    name = path.lower()
    return next((format_ for format_ in Format if name.endswith(format_.suffixes)), None)


def is_text(head: bytes) -> bool:
    """Whether bytes could begin a UTF-8 text: valid (but for a cut at the end) and without NUL."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head
