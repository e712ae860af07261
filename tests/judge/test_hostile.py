"""Hostile lines get the designed verdict, in known, unknown and free-form fields, and never cause a
traceback.
"""

from __future__ import annotations

import json

import pytest

from fastrec.judge.arbiter import judge_slowly
from fastrec.judge.findings import Errors
from fastrec.judge.parse import parse
from fastrec.schemas.registry import SCHEMAS
from tests.judge.helpers import codes, judge, normal
from tests.samples import sample, sample_of

# Where a hostile value is put: in a known field, in an unknown field, and in a free-form object.
FIELDS = {
    "known": b'"error":%s',
    "unknown": b'"zz_unknown":%s',
    "free-form": b'"metadata":{"deep":[{"x":%s}]}',
    "deep unknown": b'"zz_unknown":{"a":[1,{"b":%s}]}',
}


def line_with(fragment: bytes) -> bytes:
    record = sample("single_turn")
    del record["error"], record["metadata"]
    return json.dumps(record).encode()[:-1] + b"," + fragment + b"}"


@pytest.mark.each_value
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b'{"k":1,"k":1}', "json.duplicate_key"),
        (b'{"k":1,"\\u006b":2}', "json.duplicate_key"),
        (b'[{"a":{"k":1,"j":{},"k":null}}]', "json.duplicate_key"),
        (b'{"a:b":":","k\\u003a":1,"k:":2}', "json.duplicate_key"),
        (b"1e999", "json.number"),
        (b"-1e999", "json.number"),
        (b"NaN", "json.number"),
        (b"Infinity", "json.number"),
        (b"-Infinity", "json.number"),
        (b'"\\ud800"', "json.surrogate"),
        (b'"x\\udc00y"', "json.surrogate"),
        (b'"\\ud800\\u0041"', "json.surrogate"),
        (b'"\xff"', "json.utf8"),
        (b'"\xed\xa0\x80"', "json.utf8"),
        (b'"\xc0\x80"', "json.utf8"),
        (b'"a\x00b"', "json.syntax"),
        (b'"a\tb"', "json.syntax"),
        (b"01", "json.syntax"),
        (b"1.", "json.syntax"),
        (b".5", "json.syntax"),
        (b"+1", "json.syntax"),
        (b"tru", "json.syntax"),
        (b"'x'", "json.syntax"),
        (b'"\\x41"', "json.syntax"),
        (b"[1,]", "json.syntax"),
        (b'{"a":1,}', "json.syntax"),
        (b"// comment\n1", "json.syntax"),
        (b"[" * 100_000 + b"]" * 100_000, "json.depth"),
        (b"[" * 100_000, "json.depth"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "json.depth"),
        (b"9" * 1_000_001, "json.number"),
    ],
)
def test_hostile_values_are_rejected_in_every_field(field: str, value: bytes, code: str) -> None:
    """A value that no record may have is rejected with its own code, at any depth."""
    assert codes(line_with(FIELDS[field] % value))[0] == code


@pytest.mark.each_value
@pytest.mark.parametrize("field", ["unknown", "free-form", "deep unknown"])
@pytest.mark.parametrize(
    "value",
    [
        b'"\xe2\x80\xa8 and \xe2\x80\xa9"',
        b'"\\u0000"',
        b'"\x7f\xc2\x85"',
        b'"\\ud83d\\ude00"',
        b"1" * 4300,
        b"1" * 4301,
        b"-" + b"7" * 20_000,
        b"1e308",
        b"5e-324",
        b"-0.0",
        b"-0",
        b"[" * 240 + b"]" * 240,
        b'{"a:b":1,"a\\u003ac":2,"\\\\u003a":3}',
        b'"null"',
        b"null",
    ],
)
def test_unusual_values_are_kept_in_every_field(field: str, value: bytes) -> None:
    """Unusual values that JSON and the schema allow are kept, and their normal form is stable."""
    once = normal(line_with(FIELDS[field] % value))
    assert normal(once) == once


@pytest.mark.each_value
@pytest.mark.parametrize("digits", [19, 20, 30, 4_300, 4_301, 10_000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_of_any_size_are_exact(digits: int, sign: str) -> None:
    """An integer keeps every digit, in a known field and elsewhere."""
    number = sign + "7" * digits
    text = json.dumps(sample("single_turn", sample_id="@", zz="@")).replace('"@"', number)
    line = normal(text.encode())
    assert line.count(number.encode()) == 2
    assert f'"sample_id":{number},'.encode() in line
    assert normal(line) == line


def test_a_huge_negative_integer_is_below_the_minimum() -> None:
    """The minimum holds for integers beyond the range of a double."""
    text = json.dumps(sample("agentic")).replace('"turn_idx": 1', '"turn_idx": -' + "1" * 5000)
    assert codes(text.encode()) == ["schema.minimum"]


@pytest.mark.each_value
@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize(
    ("number", "found"), [("7" * 25, []), ("7" * 5_000, []), ("NaN", ["json.number"])]
)
def test_unusual_numbers_are_numbers_in_every_version(
    version: str, number: str, found: list[str]
) -> None:
    """Numbers that only our parser knows have the right type, so the record has no other error."""
    evaluation = {"score": "@", "is_correct": True, "other": "@"}
    line = json.dumps(sample_of(version, evaluation=evaluation)).replace('"@"', number).encode()
    judged = judge_slowly(line)
    assert (
        {one.code for one in judged.findings} == set(found)
        if isinstance(judged, Errors)
        else not found
    )
    assert (judged.version if isinstance(judged, Errors) else judged[1].name) == version


def test_the_256th_level_passes_and_the_257th_does_not() -> None:
    """Nesting is counted exactly: the record is level 1."""
    for levels, expected in [(254, []), (255, []), (256, ["json.depth"])]:
        assert codes(line_with(b'"zz":' + b"[" * levels + b"]" * levels)) == expected


def test_brackets_inside_strings_are_not_nesting() -> None:
    """Only real objects and arrays count as levels."""
    assert codes(line_with(b'"zz":["' + b'[{\\"' * 1000 + b'"]')) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{}{}", "json.syntax"),
        (json.dumps(sample()).encode() * 2, "json.syntax"),
        (json.dumps(sample()).encode() + b" " + json.dumps(sample()).encode(), "json.syntax"),
        (json.dumps(sample()).encode() + b"\x00", "json.syntax"),
        (b"\xef\xbb\xbf" + json.dumps(sample()).encode(), "json.syntax"),
        (b"\x0c" + json.dumps(sample()).encode(), "json.syntax"),
        (b"\x00", "json.syntax"),
        (b"{", "json.syntax"),
        (b'"', "json.syntax"),
        (b"null", "schema.type"),
        (b"[]", "schema.type"),
        (b"1", "schema.type"),
        (b'"x"', "schema.type"),
        (b"{}", "schema.required"),
    ],
)
def test_lines_that_are_not_one_object(line: bytes, code: str) -> None:
    """A line is exactly one JSON object, with nothing before or after it."""
    assert codes(line)[0] == code


@pytest.mark.parametrize("line", [b"", b"   ", b"\t", b"\r", b" \t\r"])
def test_blank_lines_are_counted_and_skipped(line: bytes) -> None:
    """A line of white space only is blank: neither a record nor a rejected line."""
    batch, out = judge(line + b"\n")
    assert (batch.lines, batch.blank, out) == (1, 1, b"")


def test_carriage_returns_and_white_space_around_a_record_are_accepted() -> None:
    """A line that ends with CRLF is the same record as with LF."""
    line = json.dumps(sample()).encode()
    assert normal(b" \t" + line + b" \r\n") == normal(line)


def test_a_duplicate_key_rejects_only_its_own_line() -> None:
    """The other lines of the chunk stay valid, and line numbers and offsets are right."""
    good = json.dumps(
        sample(output={"raw": "x", "reasoning_trace": None}, interactions=None)
    ).encode()
    bad = line_with(b'"metadata":{"a":1,"a":1}')
    batch, out = judge(b"\n".join([good, bad, b"", good, bad, good]))
    assert [(invalid.line, invalid.offset) for invalid in batch.rejected] == [
        (2, len(good) + 1),
        (5, 2 * len(good) + len(bad) + 4),
    ]
    assert [invalid.raw for invalid in batch.rejected] == [bad, bad]
    assert batch.blank == 1
    assert out == normal(good) * 3


@pytest.mark.parametrize("line", [b'{"a": 1, }', b'{"a": [1,\t]}', b'{"a": 1,}'])
def test_a_trailing_comma_has_the_same_message_in_every_python_version(line: bytes) -> None:
    """The parser of Python 3.13 reports it differently from older ones."""
    _, ((_, _, message, _),) = parse(line)
    assert message == f"invalid JSON at byte {line.index(b',')} of the line: trailing comma"


@pytest.mark.parametrize("line", [b'{"a": [1, }', b'{"a": 1, ]', b'{"a": [,]}'])
def test_other_errors_near_a_comma_are_not_trailing_commas(line: bytes) -> None:
    _, ((_, _, message, _),) = parse(line)
    assert "trailing comma" not in message
