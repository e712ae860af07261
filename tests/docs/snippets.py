"""Find all code blocks in README.md and docs/, so that tests can run them.

Each section runs in its own directory, its blocks in order. Files that pages use (`runs/`, `corpus`
and others) are copied there when a block first reads them. Jobs for every night (scripts, crontabs,
services) start with nothing but `runs/`. A comment before a block changes how it runs:

    <!-- test: skip, reason -->        do not run it
    <!-- test: compile, reason -->     only compile it (Python)
    <!-- test: exit 1 -->              expect this exit code

`python -m tests.docs.snippets` updates the output of commands in `console` blocks, and the examples
in `diff` blocks.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from tests.docs.reference import DOCS, ROOT

PAGES: Final = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
_BLOCK: Final = re.compile(
    r"^(?P<heading>#{1,6} .*)$"
    r"|(?:^<!-- test: (?P<directive>.*?) -->\n)?^```(?P<language>.*)\n(?P<text>(?:.*\n)*?)^```$",
    re.MULTILINE,
)
_VARIES: Final = re.compile(r"\d[\d.,]* (s|MB/s|B|kB|MB|GB)\b")


class Block(NamedTuple):
    """A block of a page."""

    page: Path
    heading: str
    line: int
    language: str
    text: str
    directive: str
    """The text of the comment before it, if there is one."""

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.split("\n", 1)[0]


class Command(NamedTuple):
    """A command of a `console` block, and its output."""

    text: str
    output: str


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    heading = ""
    for match in _BLOCK.finditer(text):
        if match["heading"]:
            heading = match["heading"].lstrip("# ")
        else:
            line = text.count("\n", 0, match.start("language")) + 1
            yield Block(
                page, heading, line, match["language"], match["text"], match["directive"] or ""
            )


def sections() -> dict[str, list[Block]]:
    """The blocks of each section of each page, by page and heading."""
    found = {}
    for page in PAGES:
        for heading, group in groupby(blocks_of(page), key=lambda block: block.heading):
            found[f"{page.relative_to(ROOT)}: {heading}"] = list(group)
    return found


def commands_of(text: str) -> list[Command]:
    """The commands of a `console` block: `$ ` starts one, `> ` continues it, the rest is output."""
    found: list[Command] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(Command(line[2:], ""))
        elif line.startswith("> ") and not found[-1].output:
            found[-1] = Command(found[-1].text + line[2:], "")
        else:
            found[-1] = Command(found[-1].text, found[-1].output + line)
    return found


def is_alike(printed: str, found: str) -> bool:
    """Whether the output is as on the page, except times and sizes.

    A line `…` matches any lines.
    """
    pattern = re.escape(_VARIES.sub(r"0 \1", printed)).replace("…\\\n", "(?:.*\n)*")
    return re.fullmatch(pattern, _VARIES.sub(r"0 \1", found)) is not None


def updated_output(printed: str, found: str) -> str:
    """The output to put into a page: `…` stays, and lines that differ in times and sizes only."""
    if is_alike(printed, found):
        return printed
    lines = found.splitlines(keepends=True)
    before, dots, after = printed.partition("…\n")
    if dots:
        lines = [*lines[: before.count("\n")], dots, *lines[len(lines) - after.count("\n") :]]
    kept = printed.splitlines(keepends=True)
    if len(kept) == len(lines):
        lines = [old if is_alike(old, new) else new for old, new in zip(kept, lines, strict=True)]
    return "".join(lines)


def main() -> None:
    """Update the output of commands and the examples of the normal form in all pages.

    Only sections that show any are run: cells of a notebook, for one, do not work by themselves.
    """
    from tests.docs.examples import updated_examples  # noqa: PLC0415 - these import this module
    from tests.docs.running import Scene, printed_by  # noqa: PLC0415

    state = tempfile.TemporaryDirectory()
    os.environ["FASTREC_STATE"] = state.name  # as in tests: commands know the corpora of the pages
    for blocks in sections().values():
        if not {"console", "diff"} & {block.language for block in blocks}:
            continue
        with tempfile.TemporaryDirectory() as folder:
            scene = Scene(Path(folder))
            for block in blocks:
                text = block.text
                if block.language == "diff":
                    text = updated_examples(text)
                elif block.language == "console" and not block.directive.startswith("skip"):
                    scene.provide(text)
                    for command, found in zip(
                        commands_of(text), printed_by(scene, block), strict=True
                    ):
                        output = updated_output(command.output, found)
                        text = text.replace(command.text + command.output, command.text + output)
                else:
                    scene.run(block)
                if text != block.text:
                    block.page.write_text(block.page.read_text().replace(block.text, text))


if __name__ == "__main__":
    main()
