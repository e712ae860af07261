"""Damaged input, at every level: no traceback, no hang, a documented exit code, and line counts
that add up.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastrec.normalize.options import Options
from tests.faults import mutating
from tests.faults.fuzzing import damaged, try_shards
from tests.sizes import examples, few_of
from tests.sources.compressing import compressed

SMALL: dict[str, Any] = {
    "allow_empty": True,
    "memory": 5 << 20,
    "max_line_bytes": 1 << 14,
    "max_window": 1 << 23,
}
fuzz = settings(max_examples=examples(18, 300), suppress_health_check=list(HealthCheck))


@fuzz
@given(seed=st.integers(0, 2**32), conflicts=st.sampled_from(["keep", "first", "reject"]))
def test_damaged_shards(
    seed: int, conflicts: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All lines are counted if shards are corrupt, cut, repeated or swapped, by bytes, frames,
    lines or JSON.
    """
    shards = damaged(random.Random(seed))
    place = tmp_path_factory.getbasetemp() / "fuzz"
    assert try_shards(place, shards, Options(conflicts=conflicts, repeats=conflicts, **SMALL)) in (
        0,
        1,
        3,
    )


@fuzz
@given(
    data=st.binary(max_size=300), format_=st.sampled_from(mutating.FORMATS), packed=st.booleans()
)
def test_any_bytes(
    data: bytes, format_: Any, packed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All lines are counted for any bytes, compressed or only named so."""
    content = compressed(format_, data) if packed else data
    place = tmp_path_factory.getbasetemp() / "bytes"
    assert try_shards(place, [(mutating.SUFFIXES[format_], content)], Options(**SMALL)) in (0, 1, 3)


@pytest.mark.parametrize("format_", mutating.FORMATS)
def test_every_prefix(format_: Any, tmp_path: Path) -> None:
    """A shard that ends at any byte is complete, or is refused: its records never count in part."""
    data = compressed(format_, b"{}\n{}\n")
    codes = {
        size: try_shards(tmp_path / "place", [("", data[:size])], Options(**SMALL))
        for size in few_of(range(len(data) + 1), 24, f"test_every_prefix {format_}")
    }
    assert codes.pop(0) == 0  # nothing at all
    assert codes.pop(len(data)) == 1
    if format_ is not mutating.Format.PLAIN:
        assert {code for size, code in codes.items() if size >= 8} == {3}
