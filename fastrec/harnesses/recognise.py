"""Recognise the files of harnesses by their content."""

from collections.abc import Iterable
from contextlib import suppress

from zstandard import ZstdDecompressor, ZstdError

from fastrec.errors import ShardError
from fastrec.harnesses.log import HEAD_BYTES
from fastrec.harnesses.registry import HARNESSES, harness_named
from fastrec.harnesses.values import BOM, OptionalText
from fastrec.sources.formats import MAGIC_BYTES, PARQUET_MAGIC, Format, detect
from fastrec.sources.shard import shard_at
from fastrec.storage import open_reader
from fastrec.storage.base import read_at

_MOST_FOOTER = 4 << 20  # bytes of the end of a Parquet file that are looked at
_ZSTD_BLOCK = 128 << 10  # the most bytes of a block, and a part of one gives no text


def head_of(path: str) -> bytes:
    """Read the first HEAD_BYTES of a file; those of its text, if it is compressed.

    A file that cannot be read raises OSError. One whose compressed text is damaged gives what comes
    before the damage.
    """
    with open_reader(path) as file:
        if not file.size:
            return b""  # stores refuse to read an empty object
        head = read_at(file, HEAD_BYTES, 0)
        kind = detect(head[:MAGIC_BYTES])
        if kind is Format.ZSTD:
            head += read_at(file, _ZSTD_BLOCK, HEAD_BYTES)
    if kind is Format.PLAIN:
        return head.removeprefix(BOM)
    if kind is Format.ZSTD:  # 10 times as fast as what follows, for input of many shards
        with suppress(ZstdError), ZstdDecompressor().stream_reader(head) as reader:
            if text := reader.read(HEAD_BYTES):
                return text.removeprefix(BOM)
    text = b""
    with suppress(ShardError):  # importing it will report the damage
        for block in shard_at(path).read_text():
            text += block[:HEAD_BYTES]
            if len(text) >= HEAD_BYTES:
                break
    return text[:HEAD_BYTES].removeprefix(BOM)


def role_in(path: str, head: bytes, names: Iterable[str] = HARNESSES) -> tuple[str, str] | None:
    """The harness that a file belongs to, and its role there.

    None if it is no file of these harnesses.
    """
    for name in names:
        module = harness_named(name)
        role = HARNESSES[name].role_in(head)
        if not role and hasattr(module, "role_of"):
            role = module.role_of(head, path)
        if role:
            return name, role
    return None


def harness_of(path: str) -> OptionalText:
    """The harness that wrote a file, for a hint.

    None if it is no file of a harness, or cannot be read.
    """
    try:
        head = head_of(path)
        if head.startswith(PARQUET_MAGIC):
            return "lighteval" if _has_details(path) else None
        role = role_in(path, head)
    except (OSError, ShardError):
        return None
    return role[0] if role else None


def _has_details(path: str) -> bool:
    """Whether a Parquet file names the columns of lighteval's details.

    Only workers may use pyarrow to find out.
    """
    with open_reader(path) as file:
        end = read_at(file, _MOST_FOOTER, max(0, file.size - _MOST_FOOTER))
    start = max(0, len(end) - 8 - int.from_bytes(end[-8:-4], "little"))
    # Names in the footer have their length before them (Thrift's compact protocol).
    return any(
        all(bytes([len(name)]) + name.encode() in end[start:] for name in layout)
        for layout in harness_named("lighteval").LAYOUTS
    )
