"""The simulated figures of docs/benchmark.md are those that the code gives."""

from __future__ import annotations

import pytest

from tests.docs.simulations import PAGE, page
from tests.sizes import LONG


@pytest.mark.skipif(not LONG, reason="takes half a minute; `make test-long` tries it")
def test_the_figures_of_the_page_are_current() -> None:
    assert page() == PAGE.read_text(encoding="utf-8")
