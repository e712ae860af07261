"""The format of a shard: detect it by the first bytes, never by the name, and decompress.

Names are less reliable than magic numbers: downloads lose or gain a suffix, and clients decompress
on the fly. So `detect` uses only the first bytes; the suffix only serves for a notice if the two
disagree.

Input that is shorter than a magic number but begins like one (`(`, `B`, `P*M`, 0x1F …) counts as
that format, whose decompressor then reports it as truncated. No record begins with these bytes, so
no valid line is lost, and a download that stopped after two bytes is never taken for text. Empty
input is plain: it has no lines.

    format     text of all of         checked by
    zstd       frames, skippable too  the walk over blocks; content size and checksum if it has them
    gzip       members, zero padding  CRC-32 and length of each member
    bz2        streams                CRC-32 of each block and stream
    xz         streams, padding       the check of each block (CRC-32, CRC-64, SHA-256), the index

Parquet is no compression of text: `parquet` makes lines of its rows.

Text comes in blocks of at most four megabytes, however well it is compressed. Input that does not
end after a whole frame or member raises ShardTruncatedError; bytes that violate the format or a
checksum raise ShardCorruptError. Both come after the text before them, except for the last block of
it, so nothing may be used before the iterator is exhausted.
"""

import codecs
import enum
import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from itertools import chain
from pkgutil import get_data
from typing import Any

import msgspec

from fastrec.errors import ForeignFormatError, ShardCorruptError, need, shown
from fastrec.sources.members import RawBytes, bz2_text, gzip_text, xz_text
from fastrec.sources.zstd_frames import TEXT_BYTES, zstd_text

MAX_WINDOW = 128 << 20  # the default limit of the zstd library
_TEXT_SAMPLE = 1 << 12


class Format(enum.Enum):
    """How a shard is compressed, or Parquet; the value is the name that users see."""

    PLAIN = "plain"
    ZSTD = "zstd"
    GZIP = "gzip"
    BZ2 = "bz2"
    XZ = "xz"
    PARQUET = "Parquet"


_SUFFIXES = {
    Format.PLAIN: (".jsonl", ".ndjson", ".json"),
    Format.ZSTD: (".zst", ".zstd"),
    Format.GZIP: (".gz", ".gzip"),
    Format.BZ2: (".bz2",),
    Format.XZ: (".xz",),
    Format.PARQUET: (".parquet",),
}

PARQUET_MAGIC = b"PAR1"

_MAGIC = (
    (b"\x28\xb5\x2f\xfd", Format.ZSTD),  # RFC 8878, 3.1.1: 0xFD2FB528, little-endian
    # 3.1.2: skippable frames
    *((bytes((low, 0x2A, 0x4D, 0x18)), Format.ZSTD) for low in range(0x50, 0x60)),
    (b"\x1f\x8b", Format.GZIP),  # RFC 1952, 2.3.1: ID1, ID2
    # bzip2 has no RFC: "BZh" and the block size
    *((b"BZh%d" % level, Format.BZ2) for level in range(1, 10)),
    (b"\xfd7zXZ\x00", Format.XZ),  # The .xz File Format 1.1.0, 2.1.1.1: Header Magic Bytes
    (PARQUET_MAGIC, Format.PARQUET),
)

# Number of bytes that `detect` needs; fewer only if the input is shorter.
MAGIC_BYTES = max(len(magic) for magic, _ in _MAGIC)


def detect(head: bytes) -> Format:
    """Tell the format of input by its first MAGIC_BYTES bytes, or by all of it."""
    for magic, format_ in _MAGIC:
        if head.startswith(magic) or (head and magic.startswith(head)):
            return format_
    return Format.PLAIN


def format_of_name(path: str) -> Format | None:
    return next(
        (format_ for format_, suffixes in _SUFFIXES.items() if path.lower().endswith(suffixes)),
        None,
    )


def parquet_module(path: str) -> Any:
    """Import the module that needs pyarrow. A process that has done so must not fork.

    ForeignFormatError if it is not installed.
    """
    need("reading Parquet", "pyarrow", error=partial(ForeignFormatError, path))
    return import_module("fastrec.sources.parquet")


def text_of(
    raw: Iterator[bytes], path: str, max_window: int, text_bytes: int = TEXT_BYTES
) -> Iterator[bytes]:
    """Detect the compression by the first bytes, and decompress.

    Refuse what is neither text nor as its name says.
    """
    head, blocks = _begun(raw, MAGIC_BYTES)
    format_ = detect(head)
    promised = format_of_name(path)
    if (
        format_ is Format.PLAIN
        and promised not in (None, Format.PLAIN)
        and not is_text(head[:_TEXT_SAMPLE])
    ):
        assert promised
        raise ShardCorruptError(path, f"is neither {promised.value}, as its name says, nor text", 0)
    return decompress(format_, blocks, path=path, max_window=max_window, text_bytes=text_bytes)


def _begun(blocks: Iterator[bytes], size: int) -> tuple[bytes, Iterator[bytes]]:
    """At least `size` first bytes, unless there are fewer, and all blocks."""
    head = b""
    # a pipe may give one byte at a time
    while len(head) < size and (block := next(blocks, b"")):
        head = head + block if head else block
    return head, chain((head,), blocks)


def is_text(head: bytes) -> bool:
    """Whether bytes can be the beginning of UTF-8 text.

    Valid, except for a cut at the end, and without NUL.
    """
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def decompress(
    format_: Format,
    blocks: Iterable[bytes],
    *,
    path: str,
    max_window: int = MAX_WINDOW,
    text_bytes: int = TEXT_BYTES,
) -> Iterator[bytes]:
    """Decompress raw blocks of any size.

    `max_window` limits the memory of a zstd window or an xz dictionary.
    """
    if format_ in (Format.PLAIN, Format.PARQUET):
        return iter(blocks)
    raw = RawBytes(iter(blocks), path)
    if format_ is Format.ZSTD:
        return zstd_text(raw, max_window, text_bytes)
    if format_ is Format.GZIP:
        return gzip_text(raw)
    return bz2_text(raw) if format_ is Format.BZ2 else xz_text(raw, max_window)


_TABLE = "fastrec import '{path}' --guess proposes how to read its rows"
_IMPORT = "`fastrec import` reads results of harnesses"
COLUMNS_MAGIC = b"fastrec\1"
_HEAD_BYTES = 1 << 16  # to tell formats of text
_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<body")
_COLUMN = re.compile(r"[^\W\d][\w .:()%/-]{0,63}")


def json_lines(text: Iterator[bytes], path: str) -> Iterator[bytes]:
    """Pass on text from its beginning.

    ForeignFormatError if it is not JSON Lines, told by its first lines.
    """
    head, text = _begun(text, 2)
    if head.startswith(b'{"'):  # nearly all shards begin with a record
        return text
    head, text = _begun(text, _HEAD_BYTES)
    if reason := why_foreign(head[:_HEAD_BYTES], path):
        raise ForeignFormatError(path, reason)
    return text


class _Foreign(msgspec.Struct):
    """A table of `foreign.toml`, which describes the fields."""

    magic: list[str]
    name: str
    advice: str
    offset: int = 0  # of the magic bytes

    def begins(self, head: bytes) -> bool:
        return head.startswith(tuple(map(bytes.fromhex, self.magic)), self.offset)


@cache
def _foreign_formats() -> list[_Foreign]:
    tables = get_data("fastrec.sources", "foreign.toml") or b""
    return msgspec.toml.decode(tables, type=dict[str, list[_Foreign]])["format"]


def why_foreign(head: bytes, path: str) -> str | None:
    """What a file is instead of JSON Lines, and what reads it; None if it may be JSON Lines.

    If any of the first lines looks like an object, it is: other lines may be damaged, and are
    judged one by one.
    """
    foreign = next((kind for kind in _foreign_formats() if kind.begins(head)), None)
    name, advice = (foreign.name, foreign.advice) if foreign else _foreign_text(head) or ("", "")
    if not name:
        return None
    return f"is {name}, not JSON Lines: {advice.replace('{path}', shown(path))}"


def _foreign_text(head: bytes) -> tuple[str, str] | None:
    lines = [
        line for line in map(bytes.strip, head.removeprefix(codecs.BOM_UTF8).split(b"\n")) if line
    ]
    first, last = (lines[0], lines[-1]) if lines else (b"", b"")
    # The last item of an array has no comma after it.
    others = lines[:-2] if first.startswith(b"[") and last.startswith(b"]") else lines
    if not lines or any(line.startswith(b"{") and line.endswith(b"}") for line in others):
        return None
    if first.lower().startswith(_MARKUP):
        return "HTML or XML", "perhaps the error page of a download: download the file again"
    if first == b"{" and len(lines) > 1 and lines[1].startswith(b'"'):
        return (
            "one JSON document over many lines",
            f"jq -c . '{{path}}' > records.jsonl makes it one line; {_IMPORT}",
        )
    if first == b"[" or (
        first.startswith(b"[") and (len(lines) == 1 or first.endswith((b",", b"{")))
    ):
        return (
            "a JSON array",
            f"jq -c '.[]' '{{path}}' > records.jsonl turns its items into lines; {_IMPORT}",
        )
    for delimiter, name in ((",", "CSV"), ("\t", "TSV"), (";", "CSV")):
        if _is_table(lines, delimiter):
            return name, _TABLE
    return None


def _is_table(lines: list[bytes], delimiter: str) -> bool:
    """Whether the first line has names of columns, and a later one as many values."""
    names = lines[0].decode(errors="replace").replace('"', "").split(delimiter)
    has_names = len(names) > 1 and all(map(_COLUMN.fullmatch, names))
    return has_names and any(
        line.count(delimiter.encode()) >= len(names) - 1 and not line.startswith(b"{")
        for line in lines[1:]
    )
