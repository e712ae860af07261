"""The pages match the code: generated pages are current, and everything they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from msgspec import Struct

from fastrec.cli import cli
from fastrec.summary import document as summary_document
from tests.docs.commands import paragraphs
from tests.docs.reference import DOCS, ROOT, pages

README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
GENERATED = [DOCS / name for name in ("commands.md", "codes.md", "files.md")]
COMMANDS = cli.list_commands(click.Context(cli))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", GENERATED, ids=named)
def test_generated_pages_are_current(path: Path) -> None:
    """Each page has the text that `make docs` would write."""
    assert path.read_text() == pages()[path], f"{named(path)} is out of date: run make docs"


def test_the_table_of_folders_is_true() -> None:
    """Folders, subjects and imports are exact.

    Line counts may differ by 3 %, so that small changes need no update.
    """
    written = CONTRIBUTING.read_text()
    current = pages()[CONTRIBUTING]
    assert set(pages()) == {*GENERATED, CONTRIBUTING}
    number = re.compile(r"(?<=\| )\d[\d,]*(?= \|)")
    assert number.sub("N", written) == number.sub("N", current), (
        "CONTRIBUTING.md is out of date: run make docs"
    )
    for was, now in zip(number.findall(written), number.findall(current), strict=True):
        assert amount(was) == pytest.approx(amount(now), rel=0.03, abs=3), "run make docs"


def test_the_files_that_contributing_names_exist() -> None:
    text = CONTRIBUTING.read_text()
    for path in re.findall(r"`((?:tests|docs|bench|fastrec|\.github)/[\w./-]*)`", text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`([a-z]+/[\w./-]*)`", text):
        assert (ROOT / path).exists() or (ROOT / "fastrec" / path).exists(), path


def test_the_readme_shows_every_command_and_pages_name_only_existing_ones() -> None:
    """The README has an example of each command, and pages name only existing commands."""
    pattern = r"^(?:\$ )?fastrec ([a-z][a-z-]*)|`fastrec ([a-z][a-z-]*)"
    found = {
        path: {a or b for a, b in re.findall(pattern, path.read_text(), re.MULTILINE)}
        for path in DOCUMENTS
    }
    assert set(COMMANDS) <= found[README]
    assert set().union(*found.values()) <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_examples_and_exit_codes(name: str) -> None:
    """The help of a command has examples and exit codes, and fits into 100 columns."""
    command = cli.get_command(click.Context(cli), name)
    assert command
    assert command.short_help
    plain, titled = paragraphs(command.help or "")
    assert plain
    assert any(
        row.strip().startswith(f"fastrec {name}") or name == "completion"
        for row in titled["Examples"]
    )
    assert {"0", "2"} <= {row.split()[0] for row in titled["Exit codes"]}
    assert (
        max(map(len, command.get_help(click.Context(command, terminal_width=100)).splitlines()))
        <= 100
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_work(document: Path) -> None:
    """Links lead to existing files and headings."""
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", document.read_text()):
        other = document.parent / target if target else document
        assert other.exists(), f"{named(document)} links to {target}"
        if anchor:
            assert anchor in headings(other), f"{named(document)} links to {target}#{anchor}"


def headings(document: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return {
        f"{name}-{n}" if (n := anchors[:at].count(name)) else name
        for at, name in enumerate(anchors)
    }


def test_make_targets_in_pages_exist() -> None:
    """Every `make TARGET` in a page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for document in DOCUMENTS:
        targets_there = re.findall(
            r"(?:^|`)make ([a-z-]+)", document.read_text(), flags=re.MULTILINE
        )
        assert set(targets_there) <= targets, f"{named(document)} names an unknown target"


def test_pictures_are_small_and_self_contained() -> None:
    """A page shows every picture with an alternative text, and pictures load nothing."""
    found = [
        (page, *one)
        for page in DOCUMENTS
        for one in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", page.read_text())
    ]
    assert {(page.parent / target).resolve() for page, _, target in found} == set(
        (DOCS / "assets").iterdir()
    )
    assert all(len(text) > 20 for _, text, _ in found)
    assert (DOCS / "assets" / "run.svg").stat().st_size < 100_000
    assert all(path.stat().st_size < 150_000 for path in (DOCS / "assets").glob("*.png"))
    assert not re.search(r"(?:href|src|url)\W+https?:", (DOCS / "assets" / "run.svg").read_text())


def test_the_comparison_agrees_with_the_table() -> None:
    """The comparison names the fastest form of DuckDB, and follows from the table of benchmarks.

    It comes after the first use.
    """
    text = README.read_text()
    assert text.index("## A first result") < text.index("DuckDB")
    table = text.split("<!-- peers -->")[1].split("\n\n")[1]
    head, _, *rows = [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in table.splitlines()]
    by_name = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    ours = by_name["**fastrec normalize**"]
    theirs = by_name["DuckDB, tuned by hand"]
    assert amount(theirs["time"]) < amount(by_name["DuckDB"]["time"])
    ratio = f"{amount(theirs['time']) / amount(ours['time']):.1f}"
    times = f"[{ratio} times as fast as DuckDB](#benchmarks) with a query tuned by hand"
    assert times in " ".join(text.split())
    share = {7: "a seventh", 8: "an eighth", 9: "a ninth"}[
        round(amount(theirs["memory"]) / amount(ours["memory"]))
    ]
    assert f"needs {share} of the memory" in " ".join(text.split())


def amount(cell: str) -> float:
    return float(cell.split(maxsplit=1)[0].replace(",", ""))


def test_the_readme_is_short() -> None:
    """It says for whom it is first, installs everything in one line, and shows the viewer."""
    text = README.read_text()
    assert len(text.splitlines()) <= 250
    assert text.splitlines()[2].startswith(
        "**fastrec is for people who evaluate language models.**"
    )
    assert text.count("pip install") == 1
    assert "docs/assets/view-question.png" in text.split("## Quick start", maxsplit=1)[0]


def test_documents_are_described_on_one_line() -> None:
    """Python 3.13 strips the indentation of docstrings, which the JSON Schema contains."""
    classes = [one for one in vars(summary_document).values() if isinstance(one, type)]
    classes = [one for one in classes if issubclass(one, Struct) and one is not Struct]
    assert len(classes) > 10
    assert [one.__name__ for one in classes if "\n" in (one.__doc__ or "")] == []
