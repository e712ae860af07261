"""What the stage benchmarks share: text from the generator, and figures in MB/s and records/s beside the times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fastrec.jobs.generate import Recipe, lines

__all__: list[str] = []

CHUNK_BYTES = 1 << 18


def chunks_of(recipe: Recipe) -> list[bytes]:
    """The lines of a recipe in chunks as a reader gives them."""
    chunks, chunk, size = [], [], 0
    for line in lines(recipe):
        chunk.append(line)
        size += len(line) + 1
        if size >= CHUNK_BYTES:
            chunks.append(b"\n".join(chunk) + b"\n")
            chunk, size = [], 0
    return chunks


@pytest.fixture(scope="session")
def plain() -> list[bytes]:
    """Mixed records that have only keys of the schema."""
    return chunks_of(Recipe(records=6_000, seed=1))


@pytest.fixture(scope="session")
def unknown() -> list[bytes]:
    """The same, every record with unknown keys."""
    return chunks_of(Recipe(records=6_000, seed=1, unknown_keys=1.0))


@pytest.fixture
def measure(benchmark: Any) -> Callable[[Callable[[], Any], int, int], None]:
    """Time a function that handles so many bytes and records."""

    def run(function: Callable[[], Any], size: int, records: int) -> None:
        benchmark.pedantic(function, rounds=7, warmup_rounds=1)
        best = benchmark.stats.stats.min
        benchmark.extra_info["MB/s"] = round(size / best / 1e6)
        benchmark.extra_info["records/s"] = round(records / best)

    return run
