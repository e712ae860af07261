"""The table of coverage in docs/repairs.md is what the simulation gives."""

from __future__ import annotations

import re

import pytest

from tests.docs.corrected import MARKER, PAGE, table
from tests.docs.reference import put


@pytest.mark.long_only  # `make docs` makes the table
def test_the_table_of_coverage_is_true() -> None:
    """The corrected interval covers in at least 94 % of all cases, as the page says."""
    text = PAGE.read_text()
    assert text == put(text, MARKER, table()), "docs/repairs.md: run make docs"
    covers = [int(share) for share in re.findall(r"\| (\d+)% ±\d+\.\d%", text)]
    assert len(covers) == 12
    assert min(covers) >= 94
