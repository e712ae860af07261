"""Seeded mutations of shards: of their lines, their JSON and their compression."""

from __future__ import annotations

import random
from collections.abc import Callable

from fastrec.sources.formats import Format
from tests.normalize.test_failures import lines_of
from tests.sources.compressing import compressed, gzip_member, skippable

FORMATS = (Format.PLAIN, Format.ZSTD, Format.GZIP, Format.BZ2, Format.XZ)
SUFFIXES = {
    Format.PLAIN: "",
    Format.ZSTD: ".zst",
    Format.GZIP: ".gz",
    Format.BZ2: ".bz2",
    Format.XZ: ".xz",
}

Damage = Callable[[random.Random, bytes], bytes]

_TOKENS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b":",
        b",",
        b"\\",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
    ),
    *(
        b"1e999",
        b"NaN",
        b"-0",
        b"9" * 5_000,
        b"\\ud800",
        b"\\u0000",
        b"null",
        b"true",
        b"[" * 300,
        b'{"a":' * 300,
    ),
    *(
        b'"sample_id":',
        b'"sample_id":1,"sample_id":2,',
        b'"input":{}',
        b"\xe2\x80\xa8",
        b"1.0",
        b"1e2",
    ),
]


def flip(dice: random.Random, data: bytes) -> bytes:
    """Flip some bits."""
    spoilt = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        if spoilt:
            spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
    return bytes(spoilt)


def cut(dice: random.Random, data: bytes) -> bytes:
    """Cut off the end."""
    return data[: dice.randint(0, len(data))]


def behead(dice: random.Random, data: bytes) -> bytes:
    """Cut off the beginning."""
    return data[dice.randint(0, len(data)) :]


def hole(dice: random.Random, data: bytes) -> bytes:
    """Overwrite a range with zeros, as after a file system crash."""
    start = dice.randint(0, len(data))
    size = dice.randint(0, min(64, len(data) - start))
    return data[:start] + bytes(size) + data[start + size :]


def insert(dice: random.Random, data: bytes) -> bytes:
    """Insert bytes that are special in some format at a random position."""
    start = dice.randint(0, len(data))
    return data[:start] + dice.choice(_TOKENS) + data[start:]


def double(dice: random.Random, data: bytes) -> bytes:
    """Repeat a range."""
    start = dice.randint(0, len(data))
    end = dice.randint(start, len(data))
    return data[:end] + data[start:end] + data[end:]


def swap(dice: random.Random, data: bytes) -> bytes:
    """Swap two halves."""
    middle = dice.randint(0, len(data))
    return data[middle:] + data[:middle]


def noise(dice: random.Random, data: bytes) -> bytes:
    """Append random bytes."""
    return data + dice.randbytes(dice.randint(1, 40))


DAMAGES: tuple[Damage, ...] = (flip, cut, behead, hole, insert, double, swap, noise)


def text(dice: random.Random) -> bytes:
    """Make lines, and damage some of them."""
    lines = lines_of(dice.choice("abc"), dice.randint(0, 12))
    for number, line in enumerate(lines):
        if dice.random() < 0.3:
            lines[number] = dice.choice(DAMAGES)(dice, line)
    dice.shuffle(lines)
    end = dice.choice([b"\n", b"\r\n", b"\n\n"])
    return b"".join(line + end for line in lines) + dice.choice(
        [b"", b"", b'{"cut', b"\xef\xbb\xbf"]
    )


def frames(dice: random.Random, format_: Format) -> list[bytes]:
    """Compress texts, one frame or member each."""
    found = [compressed(format_, text(dice)) for _ in range(dice.randint(1, 4))]
    if format_ is Format.ZSTD and dice.random() < 0.3:
        found.insert(dice.randint(0, len(found)), skippable(dice.randbytes(9)))
    if format_ is Format.GZIP and dice.random() < 0.3:
        found.append(
            gzip_member(text(dice), name=b"x", crc=dice.choice([None, 0]), header_checksum=True)
        )
    return found


def shard(dice: random.Random) -> tuple[str, bytes]:
    """Return suffix and bytes of a shard that may be damaged at any level: JSON, lines, frames,
    bytes.
    """
    format_ = dice.choice(FORMATS)
    pieces = frames(dice, format_)
    deed = dice.choice(["nothing", "lose", "double", "swap", "damage", "damage a frame", "mix"])
    if deed == "lose":
        del pieces[dice.randrange(len(pieces))]
    elif deed == "double":
        pieces.insert(0, dice.choice(pieces))
    elif deed == "swap":
        dice.shuffle(pieces)
    elif deed == "damage a frame":
        at = dice.randrange(len(pieces))
        pieces[at] = dice.choice(DAMAGES)(dice, pieces[at])
    elif deed == "mix":
        pieces += frames(dice, dice.choice(FORMATS))
    data = b"".join(pieces)
    if deed == "damage":
        data = dice.choice(DAMAGES)(dice, data)
    return SUFFIXES[dice.choice([format_, format_, dice.choice(FORMATS)])], data
