"""docs/repeats.md names what the code compares."""

from __future__ import annotations

import re

from fastrec.summary.same_run import TRIAL_FIELDS
from tests.docs.reference import DOCS


def test_the_page_lists_the_fields_of_a_trial() -> None:
    """In the order of the code."""
    text = (DOCS / "repeats.md").read_text()
    listed = text[text.index("The *trial*") : text.index("- The *output*")]
    assert [name for name in re.findall(r"`(\w+)`", listed) if name != "metadata"] == list(
        TRIAL_FIELDS
    )
