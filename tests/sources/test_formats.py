"""Formats are detected only by magic bytes."""

import pytest

from fastrec.sources.formats import Format, detect, format_of_name, is_text
from tests.sources.compressing import FORMATS, compressed, skippable


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("text", [b"", b'{"a": 1}\n'])
def test_the_output_of_a_compressor_is_detected_by_its_first_bytes(format_, text):
    """The output of every compressor is detected, even for empty text."""
    assert detect(compressed(format_, text)[:6]) is format_


@pytest.mark.parametrize("nibble", range(16))
def test_skippable_frames_are_zstd(nibble):
    """All sixteen magic numbers of skippable frames count as zstd."""
    assert detect(skippable(b"x", nibble)) is Format.ZSTD


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n",
        b"{",
        b'{"a": 1}\n',
        b"\xef\xbb\xbf{}",
        b"[1]",
        b"BZh0",
        b"BZip",
        b"PK\x03\x04",
        b"\x1f\x8c",
        b"(x",
    ],
)
def test_everything_else_is_plain(head):
    """Text, empty input and unknown binaries are plain."""
    assert detect(head) is Format.PLAIN


@pytest.mark.parametrize("format_", FORMATS)
def test_a_strict_prefix_of_a_magic_number_is_that_format(format_):
    """Input that ends inside a magic number has that format, so that reading reports it as truncated."""
    magic_bytes = {Format.ZSTD: 4, Format.GZIP: 2, Format.BZ2: 4, Format.XZ: 6}[format_]
    whole = compressed(format_, b"text")
    assert [detect(whole[:length]) for length in range(1, magic_bytes)] == [format_] * (magic_bytes - 1)


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.jsonl", Format.PLAIN),
        ("a.jsonl.zst", Format.ZSTD),
        ("A.JSONL.GZ", Format.GZIP),
        ("a.bz2", Format.BZ2),
        ("a.jsonl.xz", Format.XZ),
        ("a", None),
        ("gz", None),
    ],
)
def test_names_suggest_a_format(name, format_):
    """The suffix suggests a format, in upper or lower case; an unknown suffix suggests none."""
    assert format_of_name(name) is format_


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"plain", True),
        ("é".encode()[:1], True),
        (b"a\0b", False),
        (b"\xfd7zXY\0", False),
        (b"(\xb4/\xfd", False),
    ],
)
def test_text_is_valid_utf8_without_nul(head, expected):
    """Text may end inside a character, but NUL and bytes that are not UTF-8 are not text."""
    assert is_text(head) is expected
