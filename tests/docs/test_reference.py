"""The pages say what the code does: what is made from it is up to date, and what is named exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from fastrec.cli import cli
from tests.docs.commands import paragraphs
from tests.docs.reference import DOCS, ROOT, pages

README = ROOT / "README.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
COMMANDS = cli.list_commands(click.Context(cli))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", pages(), ids=named)
def test_pages_that_are_made_from_the_code_are_up_to_date(path: Path) -> None:
    """Each page has the text that `make docs` would write."""
    assert path.read_text() == pages()[path], f"{named(path)} is not what the code says: make docs"


def test_every_command_is_in_the_readme_and_every_command_named_in_a_page_exists() -> None:
    """The README shows each command at work, and no page names one that does not exist."""
    pattern = r"^(?:\$ )?fastrec ([a-z]+)|`fastrec ([a-z]+)"
    found = {path: {a or b for a, b in re.findall(pattern, path.read_text(), re.MULTILINE)} for path in DOCUMENTS}
    assert set(COMMANDS) <= found[README]
    assert set().union(*found.values()) <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_examples_and_exit_codes(name: str) -> None:
    """A command's help ends in what to type and what comes of it, in no more than 100 columns."""
    command = cli.get_command(click.Context(cli), name)
    assert command
    assert command.short_help
    plain, titled = paragraphs(command.help or "")
    assert plain
    assert any(row.strip().startswith(f"fastrec {name}") or name == "completion" for row in titled["Examples"])
    assert {"0", "2"} <= {row.split()[0] for row in titled["Exit codes"]}
    assert max(map(len, command.get_help(click.Context(command, terminal_width=100)).splitlines())) <= 100


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    """Links to files and to headings of pages work."""
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", document.read_text()):
        other = document.parent / target if target else document
        assert other.exists(), f"{named(document)} links to {target}"
        if anchor:
            assert anchor in headings(other), f"{named(document)} links to {target}#{anchor}"


def headings(document: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_make_target_that_is_named_exists() -> None:
    """`make something` in a page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for document in DOCUMENTS:
        named_there = re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(), flags=re.MULTILINE)
        assert set(named_there) <= targets, f"{named(document)} names a target that is none"


def test_pictures_are_small_shown_and_load_nothing() -> None:
    """What lies in docs/assets is shown by the README, with a text for who cannot see it, and needs nothing else."""
    shown = dict(re.findall(r"!\[([^\]]*)\]\((docs/assets/[^)]*)\)", README.read_text()))
    assert set(shown.values()) == {named(path) for path in (DOCS / "assets").iterdir()}
    assert all(len(text) > 20 for text in shown)
    assert (DOCS / "assets" / "run.svg").stat().st_size < 100_000
    assert (DOCS / "assets" / "report.png").stat().st_size < 150_000
    assert not re.search(r"(?:href|src|url)\W+https?:", (DOCS / "assets" / "run.svg").read_text())


def test_what_the_readme_says_first_is_what_was_measured() -> None:
    """The comparison in the first paragraph is that of the first table."""
    text = README.read_text()
    table = text.split("<!-- peers -->")[1].split("\n\n")[1]
    rows = {row[1]: row for row in (re.split(r" *\| *", line) for line in table.splitlines())}
    ours, theirs = rows["**fastrec normalize**"], rows["DuckDB"]
    time, memory = 2, 6
    faster = float(theirs[time].removesuffix(" s")) / float(ours[time].removesuffix(" s"))
    assert f"{faster:.1f} times as fast as DuckDB" in text
    share = [float(row[memory].removesuffix(" MB").replace(",", "")) for row in (ours, theirs)]
    assert "in a tenth of the memory" in text
    assert share[0] / share[1] == pytest.approx(0.1, abs=0.01)
