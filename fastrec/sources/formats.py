"""The compression of a shard, detected by its first bytes, never by its name.

Names are less reliable than magic numbers: downloads lose or gain a suffix, and clients decompress on the fly. So
`detect` uses only the first bytes; the suffix only serves for a notice if the two disagree.

Input that is shorter than a magic number but begins like one (`(`, `B`, `P*M`, 0x1F …) counts as that format, whose
decompressor then reports it as truncated. No record begins with these bytes, so no valid line is lost, and a download
that stopped after two bytes is never taken for text. Empty input is plain: it has no lines.
"""

from __future__ import annotations

import codecs
import enum

__all__ = ["MAGIC_BYTES", "Format", "detect", "format_of_name", "is_text"]


class Format(enum.Enum):
    """How a shard is compressed; the value is the name that users see."""

    PLAIN = "plain"
    ZSTD = "zstd"
    GZIP = "gzip"
    BZ2 = "bz2"
    XZ = "xz"

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of file names with this format."""
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
"""Number of bytes that `detect` needs; fewer only if the input is shorter."""


def detect(head: bytes) -> Format:
    """Return the format of input that begins with `head`: MAGIC_BYTES bytes, or all of it if it is shorter."""
    for magic, format_ in _MAGIC:
        if head.startswith(magic) or (head and magic.startswith(head)):
            return format_
    return Format.PLAIN


def format_of_name(path: str) -> Format | None:
    """Return the format that a file name suggests, if any."""
    name = path.lower()
    return next((format_ for format_ in Format if name.endswith(format_.suffixes)), None)


def is_text(head: bytes) -> bool:
    """Say whether bytes can be the beginning of UTF-8 text: valid, except for a cut at the end, and without NUL."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head
