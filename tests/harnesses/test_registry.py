"""The list of harnesses: every text that names them names exactly those."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fastrec.cli.import_logs import import_logs as command
from fastrec.harnesses.registry import HARNESSES, harness_named

ROOT = Path(__file__).parents[2]
TITLES = [harness.title for harness in HARNESSES.values()]


def titles_in(sentence: str) -> list[str]:
    """The items of a list like `A, [B](#b) and C`."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(sentence.split()))
    return re.split(r", | and ", text)


@pytest.mark.parametrize("name", HARNESSES)
def test_every_harness_has_the_functions_of_the_interface(name: str) -> None:
    module = harness_named(name)
    assert hasattr(module, "role_of") or HARNESSES[name].roles
    assert hasattr(module, "read") != (hasattr(module, "plan") and hasattr(module, "samples"))


def test_the_command_knows_all_harnesses() -> None:
    option = next(one for one in command.params if one.name == "from_")
    assert list(option.type.choices) == ["auto", *HARNESSES]  # type: ignore[attr-defined]
    [known] = re.findall(r"Known are ([^.]*)\.", command.help or "")
    assert titles_in(known) == TITLES


def test_the_readme_names_all_harnesses() -> None:
    [known] = re.findall(r"reads the logs of \[([^]]*)\]", (ROOT / "README.md").read_text())
    assert titles_in(known) == TITLES


def test_the_page_has_a_section_for_each_harness() -> None:
    page = (ROOT / "docs" / "import.md").read_text()
    [known] = re.findall(r"turns the logs of (.*?) into shards", page, re.DOTALL)
    assert titles_in(known) == TITLES
    assert [
        line for line in re.findall(r"^## (.*)$", page, re.MULTILINE) if line in TITLES
    ] == TITLES
