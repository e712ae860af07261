"""Formats are detected only by magic bytes."""

import pytest

from fastrec.errors import ForeignFormatError
from fastrec.sources.formats import Format, detect, format_of_name, is_text, why_foreign
from fastrec.sources.shard import shard_at
from tests.sources.compressing import FORMATS, compressed, skippable


@pytest.mark.each_value
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
    """Input that ends inside a magic number has that format, so that reading reports it as
    truncated.
    """
    magic_bytes = {Format.ZSTD: 4, Format.GZIP: 2, Format.BZ2: 4, Format.XZ: 6}[format_]
    whole = compressed(format_, b"text")
    assert [detect(whole[:length]) for length in range(1, magic_bytes)] == [format_] * (
        magic_bytes - 1
    )


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.jsonl", Format.PLAIN),
        ("a.jsonl.zst", Format.ZSTD),
        ("A.JSONL.GZ", Format.GZIP),
        ("a.bz2", Format.BZ2),
        ("a.jsonl.xz", Format.XZ),
        ("a.parquet", Format.PARQUET),
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


FOREIGN = {
    "a file of columns": b"fastrec\1\x10\0\0\0",
    "Arrow": b"ARROW1\0\0\xff\xff\xff\xff",
    "an Arrow stream": b"\xff\xff\xff\xff\x88\0\0\0",
    "Feather": b"FEA1\0\0",
    "a zip archive": b"PK\x03\x04\x14\0",
    "a Python pickle": b"\x80\x04\x95\x05\0",
    "an SQLite database": b"SQLite format 3\0\x10",
    "PDF": b"%PDF-1.7\n%\xe2",
    "Avro": b"Obj\x01\x04",
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
    "a tar archive": b"a.jsonl".ljust(257, b"\0") + b"ustar\x0000",
    "UTF-16": '{"a": 1}\n'.encode("utf-16"),
    "HTML or XML": b"\n<!DOCTYPE html>\n<html>\n",
    "CSV": b'id,prompt,score\n1,"two, or\nthree",1.0\n2,x,0\n',
    "TSV": b"id\tprompt\n1\tx\n",
    "a JSON array": b'[\n  {"a": 1},\n  {"a": 2}\n]\n',
    "one JSON document over many lines": b'{\n  "a": {\n    "b": 1\n  }\n}\n',
}


@pytest.mark.each_value
@pytest.mark.parametrize("format_", [Format.PLAIN, Format.GZIP, Format.ZSTD])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_not_json_lines_is_refused_with_what_it_is(name, format_, tmp_path):
    """Reading it says what it is and what reads it, also if it is compressed."""
    path = tmp_path / "file"
    path.write_bytes(compressed(format_, FOREIGN[name]))
    with pytest.raises(ForeignFormatError, match=f"is {name}, not JSON Lines: .{{10}}"):
        list(shard_at(str(path)).read())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b'[{"a": 1}, {"a": 2}]', "a JSON array"),
        (b'[{"a": 1},\n{"a": 2}]\n', "a JSON array"),
        (b"\xef\xbb\xbf[\n1,\n2\n]", "a JSON array"),
        (b"a;b\n1;2\n", "CSV"),
        (b"a,b\n" + b"1,2\n" * 40_000, "CSV"),  # the last row of the head is cut
    ],
)
def test_other_spellings_of_formats_of_text_are_told(text, name):
    """An array in one line or several, a byte order mark, another delimiter, a long table."""
    assert f"is {name}, not JSON Lines" in why_foreign(text[: 1 << 16], "file")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n \n",
        b'{"a": 1}\n',
        b"garbage\n",
        b"2026-01-01 12:00:00,123 INFO a\n2026-01-01 12:00:01,456 INFO b\n",
        b'[\n{"a": 1}\n{"a": 2}\n',
        b'<html>\n{"a": 1}\n',
        b'a,b\n1,2\n{"a": 1}\n',
        b'{\n{"a": 1}\n',
        b"[1]\n[2]\n",
        b"one\ntwo\n",
        b'WARNING:root:slow,retry\n{"a": 1, "b": "' + b"x" * (1 << 16),
    ],
)
def test_lines_that_may_be_json_lines_are_judged_one_by_one(text):
    """One line that looks like an object is enough: damaged lines around it are rejected, and
    others are kept.
    """
    assert why_foreign(text, "file") is None
