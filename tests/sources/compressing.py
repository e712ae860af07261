"""Compressed inputs for tests: made by the libraries, or by hand if a frame must be unusual."""

import bz2
import gzip
import lzma
import struct
import zlib

import zstandard

from fastrec.sources.formats import Format, decompress

FORMATS = (Format.ZSTD, Format.GZIP, Format.BZ2, Format.XZ)


def compressed(format_, text):
    """Compress into one frame or member with a checksum, fast."""
    if format_ is Format.ZSTD:
        return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(text)
    if format_ is Format.GZIP:
        return gzip.compress(text, 1, mtime=0)
    if format_ is Format.BZ2:
        return bz2.compress(text)
    if format_ is Format.XZ:
        return lzma.compress(text, preset=0)
    return text


def text_of(format_, data, *, slice_bytes=1 << 16, **options):
    """Return all text, decompressed from raw blocks of the given size."""
    blocks = (data[i : i + slice_bytes] for i in range(0, len(data), slice_bytes))
    return b"".join(decompress(format_, blocks, path="shard", **options))


def zstd_frame(*blocks, window_descriptor=0x38):
    """Build a frame without checksum from blocks of (kind, size, body)."""
    parts = [b"\x28\xb5\x2f\xfd\x00", bytes((window_descriptor,))]
    for index, (kind, size, body) in enumerate(blocks):
        last = index == len(blocks) - 1
        parts += [(size << 3 | kind << 1 | last).to_bytes(3, "little"), body]
    return b"".join(parts)


def skippable(payload, nibble=0):
    return bytes((0x50 + nibble, 0x2A, 0x4D, 0x18)) + struct.pack("<I", len(payload)) + payload


def gzip_member(
    text, *, extra=None, name=None, comment=None, header_checksum=False, crc=None, length=None
):
    """Build a member with any header fields and any trailer."""
    flags = (
        4 * (extra is not None)
        + 8 * (name is not None)
        + 16 * (comment is not None)
        + 2 * header_checksum
    )
    header = b"\x1f\x8b\x08" + bytes((flags,)) + b"\0\0\0\0\0\x03"
    if extra is not None:
        header += struct.pack("<H", len(extra)) + extra
    for field in (name, comment):
        if field is not None:
            header += field + b"\0"
    if header_checksum:
        header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflate.compress(text) + deflate.flush()
    trailer = (zlib.crc32(text) if crc is None else crc, len(text) if length is None else length)
    return header + body + struct.pack("<II", *trailer)
