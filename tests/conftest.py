"""Settings shared by all tests, and the real records where they lie beside the checkout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, so that a red build is red again; FUZZ=1 looks for new ones.
settings.register_profile(
    "fastrec",
    deadline=None,
    derandomize=not os.environ.get("FUZZ"),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large],
)
settings.load_profile("fastrec")

# Some say that nothing be compiled to files; hundreds of processes that compile it all again take a minute.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session", autouse=True)
def _no_flush_to_disk() -> Iterator[None]:
    """Leave out fsync in this process and its forks: it only matters after a power failure, and takes 5 ms each time.

    Tests that let it fail replace it again. Commands in processes of their own still call it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


REAL = Path(__file__).parents[2] / "shared" / "real"


@pytest.fixture(scope="session")
def real() -> Path:
    """The directory of real evaluation records."""
    if not REAL.is_dir():
        pytest.skip("the real evaluation records are not beside this checkout")
    return REAL
