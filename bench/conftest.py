"""Fixtures of the stage benchmarks: text, and results in MB/s of text and records/s."""

import gc
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.corpora import corpus
from bench.real import real_files, shard_lines
from fastrec.commands.generate import Recipe, lines

CHUNK_BYTES = 1 << 18
RECORDS = 6_000
ROUNDS = 9

Text = list[bytes]


def chunks_of(stream: Iterator[bytes]) -> Text:
    """Group lines into chunks like those of a shard reader."""
    chunks = []
    chunk = bytearray()
    for line in stream:
        chunk += line + b"\n"
        if len(chunk) >= CHUNK_BYTES:
            chunks.append(bytes(chunk))
            chunk.clear()
    return [*chunks, bytes(chunk)] if chunk else chunks


@pytest.fixture(scope="session")
def plain() -> Text:
    """Mixed records with known keys only."""
    return chunks_of(lines(Recipe(text="words", records=RECORDS, seed=1)))


@pytest.fixture(scope="session")
def unknown() -> Text:
    """The same records, each with unknown keys."""
    return chunks_of(lines(Recipe(text="words", records=RECORDS, seed=1, unknown_keys=1.0)))


@pytest.fixture(scope="session")
def real() -> Text:
    """All real shards, in the order in which a run with one job reads them.

    21 of the 24 models answer the same questions, one shard after the other. So 88 % of the inputs
    repeat an earlier one, byte for byte. In real-x10 it is more, 99 %.
    """
    if not real_files():
        pytest.skip("the real evaluation records are not beside this checkout")
    return [chunk for path in corpus("real").paths() for chunk in chunks_of(shard_lines(path))]


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Turn the garbage collector off, as tasks of a run do."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def measure(benchmark: Any) -> Callable[..., None]:
    """Time a function that processes some text."""

    def run(function: Callable[..., Any], text: Text) -> None:
        benchmark.pedantic(function, rounds=ROUNDS, warmup_rounds=1)
        best = benchmark.stats.stats.min
        benchmark.extra_info["MB/s"] = round(sum(map(len, text)) / best / 1e6, 1)
        benchmark.extra_info["records/s"] = round(sum(chunk.count(b"\n") for chunk in text) / best)

    return run


@pytest.fixture
def compare(benchmark: Any) -> Callable[..., None]:
    """Time two functions in turns; the result is the speed of the first relative to the second.

    It is processor time: less noise than wall time, and the functions do not wait for anything.
    """

    def run(function: Callable[[], Any], other: Callable[[], Any], weight: float = 1.0) -> None:
        best = {function: math.inf, other: math.inf}
        for _ in range(ROUNDS):
            for measured in (function, other):
                start = time.process_time()
                measured()
                best[measured] = min(best[measured], time.process_time() - start)
        benchmark.pedantic(function, rounds=1)
        benchmark.extra_info["ratio"] = round(best[other] / best[function] * weight, 4)

    return run


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Print the throughputs and ratios, which the table of pytest-benchmark leaves out."""
    session = getattr(config, "_benchmarksession", None)
    for bench in session.benchmarks if session else ():
        shown = "   ".join(f"{value:>12,} {name}" for name, value in bench.extra_info.items())
        terminalreporter.write_line(f"{bench.name.removeprefix('test_'):40} {shown}")
