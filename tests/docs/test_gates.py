"""The tables of docs/gates.md are what the commands do."""

from __future__ import annotations

import pytest

from tests.docs.gates import PAGE, TABLES
from tests.docs.reference import put


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_of_gates_are_true(name: str) -> None:
    """Running every combination gives the table of the page."""
    assert PAGE.read_text() == put(PAGE.read_text(), name, TABLES[name]()), (
        "docs/gates.md: run make docs"
    )
