"""The garbage collector is off in a task, and restored afterwards."""

from __future__ import annotations

import gc
import pickle

import pytest

from fastrec.engine.base import collector_off
from fastrec.normalize.pass1 import sort_pieces


@collector_off()
def is_collecting() -> bool:
    return gc.isenabled()


@collector_off()
def fail() -> None:
    raise ValueError("no")


@pytest.mark.parametrize("on", [True, False])
def test_it_is_as_before_afterwards(*, on: bool) -> None:
    """The collector is on or off as before, also after a failure."""
    try:
        (gc.enable if on else gc.disable)()
        assert not is_collecting()
        assert gc.isenabled() is on
        with pytest.raises(ValueError, match="no"):
            fail()
        assert gc.isenabled() is on
    finally:
        gc.enable()


def test_a_task_can_be_sent_to_a_worker() -> None:
    """A decorated function keeps its name, so that it can be pickled."""
    assert pickle.loads(pickle.dumps(sort_pieces)) is sort_pieces
