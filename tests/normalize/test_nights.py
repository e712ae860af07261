"""Incremental nights: whatever happened to the shards, the corpus has the bytes of a full run.

FUZZ=1 tries other sequences of nights.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.normalize.nights import CONTENT, Night, Nights, calm_nights, nights
from tests.sizes import examples

EXAMPLES = examples(2, 200)


def play(content: int, several: list[Night]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scene = Nights(Path(folder), content=content)
        scene.night(Night())
        for night in several:
            scene.night(night)
        scene.verify()


@settings(max_examples=EXAMPLES)
@given(st.integers(0, len(CONTENT) - 1), st.lists(calm_nights, min_size=2, max_size=5))
def test_nights_give_the_bytes_of_full_runs(content: int, several: list[Night]) -> None:
    """Shards are added, changed, removed, renamed, moved and copied.

    Only what changed is judged again.
    """
    play(content, several)


@settings(max_examples=EXAMPLES)
@given(st.integers(0, len(CONTENT) - 1), st.lists(nights, min_size=2, max_size=5))
def test_disturbed_nights_give_the_bytes_of_full_runs(content: int, several: list[Night]) -> None:
    """Runs are also interrupted, options changed, and kept work is damaged."""
    play(content, several)
