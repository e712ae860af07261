"""Settings shared by all tests, and the real records where they lie beside the checkout."""

from __future__ import annotations

import os
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

REAL = Path(__file__).parents[2] / "shared" / "real"


@pytest.fixture(scope="session")
def real() -> Path:
    """The directory of real evaluation records."""
    if not REAL.is_dir():
        pytest.skip("the real evaluation records are not beside this checkout")
    return REAL
