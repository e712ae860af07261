"""The judge: its two paths, and what unknown keys and the duplicate-key check cost.

A round begins with a new judge, like that of a new process: it knows no inputs yet. Only in
benchmarks of unknown keys it has learned them before.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from stringzilla import count

from fastrec.commands.generate import Recipe, lines
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import count_colons

Text = list[bytes]
Measure = Callable[..., None]


def judge_all(chunks: Text, judge: Judge | None = None) -> Judge:
    """Judge chunks one after the other into one buffer, as a process does."""
    judge = judge or Judge()
    out = bytearray()
    for chunk in chunks:
        out.clear()
        judge.judge_chunk(chunk, out)
    return judge


def test_judge_fast_path(measure: Measure, plain: Text) -> None:
    """Judge, hash and normalize records with known keys only."""
    measure(lambda: judge_all(plain), plain)


def test_judge_fast_path_real(measure: Measure, real: Text) -> None:
    """The same on real records."""
    measure(lambda: judge_all(real), real)


def test_judge_unknown_keys(measure: Measure, unknown: Text) -> None:
    """Judge records with unknown keys that the judge has learned."""
    judge = judge_all(unknown)
    measure(lambda: judge_all(unknown, judge), unknown)


def test_judge_slow_path(measure: Measure, plain: Text) -> None:
    """Judge valid records that the fast path refuses: `1.0` in an integer field."""
    text = []
    for chunk in plain[::10]:
        records = [msgspec.json.decode(line) for line in chunk.splitlines()]
        for record in records:
            record["evaluation"]["num_turns"] = 1.0
        text.append(b"\n".join(map(msgspec.json.encode, records)) + b"\n")
    measure(lambda: judge_all(text), text)


def test_judge_rejects(measure: Measure) -> None:
    """Judge invalid lines of every code."""
    text = [b"\n".join(lines(Recipe(text="words", records=600, seed=1, rejects=1.0))) + b"\n"]
    measure(lambda: judge_all(text), text)


def test_unknown_keys_of_plain(compare: Measure, plain: Text, unknown: Text) -> None:
    """Throughput with unknown keys in every record ÷ without (target: at least 0.6)."""
    weight = sum(map(len, unknown)) / sum(map(len, plain))
    judge = judge_all(unknown)
    compare(lambda: judge_all(unknown, judge), lambda: judge_all(plain, judge), weight=weight)


def test_duplicate_key_check(compare: Measure, plain: Text) -> None:
    """Cost of counting the colons of each chunk, as a share of judging (target: below 0.08).

    Each chunk is counted ten times in a row. So it is in the cache, as it is right after judging,
    and the result is not a small difference of two large numbers.
    """
    judge = Judge()
    pairs = []
    for chunk in plain:
        out = bytearray()
        judge.judge_chunk(chunk, out)
        pairs.append((chunk, out))

    def count_all() -> None:
        for chunk, normal in pairs:
            for _ in range(10):
                count_colons(chunk)
                count(normal, b":")

    compare(lambda: judge_all(plain), count_all, weight=0.1)


@pytest.mark.parametrize("text", ["plain", "real"])
def test_judge_of_msgspec(compare: Measure, text: str, request: Any) -> None:
    """Throughput of the judge ÷ a bare decode and encode of the same lines.

    The target is at least 1 on real ones.

    The judge gets chunks and has to find lines and repeated inputs by itself. The bare side gets
    lines, and decodes and encodes each of them completely.
    """
    chunks = request.getfixturevalue(text)
    # The decoder of a judge that has seen all lines: one without the learned fields would refuse
    # some.
    rules = judge_all(chunks)._rules  # noqa: SLF001
    decode = rules.decoder.decode
    encode_into = msgspec.json.Encoder().encode_into
    out = bytearray()
    pairs = [[_decodable(line, decode) for line in chunk.splitlines()] for chunk in chunks]

    def bare() -> None:
        for lines_of_chunk in pairs:
            out.clear()
            for decode_line, line in lines_of_chunk:
                encode_into(decode_line(line), out, -1)

    compare(lambda: judge_all(chunks), bare)


def _decodable(line: bytes, decode: Callable[[bytes], Any]) -> tuple[Callable[[bytes], Any], bytes]:
    """Return a line with a decoder that accepts it, if need be of dicts."""
    try:
        decode(line)
    except msgspec.ValidationError:
        return msgspec.json.decode, line
    return decode, line
