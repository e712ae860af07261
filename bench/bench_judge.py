"""The judge: its fast path, input full of unknown keys, and what the check for duplicate keys costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stringzilla import count

from fastrec.stages.judge import Judge
from fastrec.stages.judge.judge import _colons

__all__: list[str] = []

ROUNDS = 15


def judge_all(judge: Judge, chunks: list[bytes], out: bytearray) -> None:
    """Judge chunks one after the other into the same buffer, as a task does."""
    for chunk in chunks:
        out.clear()
        judge.judge_chunk(chunk, out)


def best_time(function: Callable[[], Any]) -> float:
    """The shortest of several runs: noise only ever adds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def test_fast_path(measure: Any, plain: list[bytes]) -> None:
    """Judge, hash and normalize records with known keys only."""
    judge, out = Judge(), bytearray()
    measure(lambda: judge_all(judge, plain, out), sum(map(len, plain)), 6_000)


def test_unknown_keys(measure: Any, unknown: list[bytes]) -> None:
    """The same records, every one with unknown keys."""
    judge, out = Judge(), bytearray()
    measure(lambda: judge_all(judge, unknown, out), sum(map(len, unknown)), 6_000)


def test_unknown_keys_stay_fast(plain: list[bytes], unknown: list[bytes], capsys: Any) -> None:
    """Throughput with unknown keys in every record, relative to the same records without."""
    judge, out = Judge(), bytearray()
    judge_all(judge, unknown, out)
    without = sum(map(len, plain)) / best_time(lambda: judge_all(judge, plain, out))
    with_keys = sum(map(len, unknown)) / best_time(lambda: judge_all(judge, unknown, out))
    with capsys.disabled():
        print(f"\nunknown keys in every record: {with_keys / without:.2f} of the throughput without (wanted: 0.6)")


def test_duplicate_key_check(plain: list[bytes], capsys: Any) -> None:
    """What weighing the colons of each chunk against its normal form costs, as a share of judging.

    Judged with the check done once, as always, and twice, right behind the first time, with the chunk still in the
    cache as it is then: the difference is what one check costs.
    """
    judge, out = Judge(), bytearray()

    def twice() -> None:
        for chunk in plain:
            out.clear()
            judge.judge_chunk(chunk, out)
            _colons(chunk)
            count(out, b":")

    once = best_time(lambda: judge_all(judge, plain, out))
    with capsys.disabled():
        print(f"\ncheck for duplicate keys: {best_time(twice) / once - 1:.1%} of judging (wanted: under 8 %)")
