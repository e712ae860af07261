"""Runs of blank lines are counted, not judged one by one."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.judge.batch import Batch
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.sources.lines import count_newlines
from tests.samples import sample
from tests.timing import processor_seconds

RECORD = msgspec.json.encode(sample("single_turn"))
TWICE = RECORD[:-1] + b',"zz":1,"zz":2}'
BLANK = [b"", b" ", b"\r", b"\t\r", b"  "]
OTHERS = [RECORD, TWICE, b"{}", b"\x0b", b" " + RECORD + b"\r", b"\xa0"]


def judged(text: bytes, *, normal: bool = True) -> Batch:
    return Judge(JudgeSettings(normal=normal)).judge_chunk(text, bytearray(), line=10, offset=100)


@pytest.mark.parametrize("normal", [True, False])
@given(
    some=st.lists(st.one_of(st.sampled_from(BLANK), st.sampled_from(OTHERS)), max_size=12),
    ends=st.booleans(),
)
def test_lines_and_offsets_are_those_of_a_naive_count(
    normal: bool, some: list[bytes], ends: bool
) -> None:
    """A chunk with runs of blank lines is counted as if it were split at newlines."""
    text = b"\n".join(some) + b"\n" * ends
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    batch = judged(text, normal=normal)
    assert batch.lines == len(lines)
    assert batch.blank == sum(not one.strip(b" \t\r") for one in lines)
    starts = [100 + sum(len(one) + 1 for one in lines[:number]) for number in range(len(lines))]
    valid = {RECORD, b" " + RECORD + b"\r"}
    expected = [
        (10 + number, starts[number], one)
        for number, one in enumerate(lines)
        if one.strip(b" \t\r") and one not in valid
    ]
    assert [(one.line, one.offset, one.raw) for one in batch.rejected] == expected
    if normal:
        assert batch.numbers == [10 + number for number, one in enumerate(lines) if one in valid]


@given(st.binary(max_size=40), st.sampled_from([b"", b"\n" * 30, b"\r\n" * 20, b" \n" * 20]))
def test_newlines_are_counted(text: bytes, before: bytes) -> None:
    assert count_newlines(before + text) == (before + text).count(b"\n")


@pytest.mark.each_value
@pytest.mark.parametrize(
    "around",
    [b"", TWICE + b"\n", RECORD + b"\n"],
    ids=["alone", "after a key twice", "after a record"],
)
@pytest.mark.parametrize("blank", [b"\n", b" \r\n"])
def test_a_bomb_of_newlines_is_read_at_memory_speed(blank: bytes, around: bytes) -> None:
    """Blank lines take at most forty times as long as Python takes to count newlines.

    One by one it was 4,000 times.
    """
    text = around + blank * (1 << 20)
    limit = 40 * processor_seconds(partial(text.count, b"\n")) + processor_seconds(
        partial(judged, around)
    )
    assert processor_seconds(partial(judged, text)) < limit
