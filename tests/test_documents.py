"""The documents say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import click

from fastrec.cli import cli
from fastrec.stages.judge import CODES
from tests.documents import README, rendered

ROOT = Path(__file__).parents[1]


def test_the_table_of_codes_is_up_to_date() -> None:
    """README's table is made from the code (python -m tests.documents)."""
    text = README.read_text()
    assert rendered(text) == text
    assert all(f"| `{code}` |" in text for code in CODES)


def test_every_command_is_in_the_readme_and_every_command_named_there_exists() -> None:
    """The README names each command, and none that does not exist."""
    named = set(re.findall(r"^(?:\$ )?fastrec ([a-z]+)", README.read_text(), flags=re.MULTILINE))
    assert named == set(cli.list_commands(click.Context(cli)))


def test_relative_links_lead_somewhere() -> None:
    """Links between the documents and to files of the project work."""
    for document in ROOT.glob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)\)", document.read_text()):
            assert (ROOT / target).exists(), f"{document.name} links to {target}"
