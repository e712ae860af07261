"""Make the pictures of README.md from real runs: `make pictures`.

1. `run.svg`: a terminal after the commands below.
2. `report.png`: the HTML report of that corpus, in the installed Chromium.
3. `view-table.png`, `view-question.png` and `view-transcript.png`: pages of `fastrec view` of that
   corpus.
4. `view-label.png`: an answer in `fastrec view --labels`, with the button for a verdict that is
   wrong.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.docs.reference import DOCS, ROOT
from tests.systems import in_terminal

if TYPE_CHECKING:
    from playwright.sync_api import Page

ASSETS: Final = DOCS / "assets"
_COMMANDS: Final = (
    (
        "fastrec generate -n 20000 --seed 7 -o runs/ --duplicates 0.05 --conflicts 0.001 --rejects "
        "0.0001"
    ),
    "fastrec normalize runs/ -o corpus",
    "fastrec rejects corpus",
    "fastrec stats corpus --common --evaluation word_problems --model 'org-[014]/*'",
    "fastrec report corpus -o report.html",
)
_COLUMNS: Final = 128
_PROMPT: Final = "\x1b[32m$\x1b[0m \x1b[1m{}\x1b[0m\r\n"


def typed(command: str, folder: Path) -> str:
    """The output of a command in a terminal; of a line that was redrawn, only its last state."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
    }
    arguments = in_terminal(f"stty cols {_COLUMNS}; {command}")
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, check=False)
    return re.sub(r"\r\x1b\[K[^\r\n]*(?=\r\x1b\[K)|\r\x1b\[K", "", done.stdout.decode())


def as_svg(text: str) -> str:
    """A picture of a terminal with this text, without external fonts."""
    from rich.console import Console  # noqa: PLC0415 - only this module needs it
    from rich.text import Text  # noqa: PLC0415

    with Path(os.devnull).open("w") as nowhere:
        console = Console(
            record=True, width=_COLUMNS, file=nowhere, force_terminal=True, color_system="standard"
        )
        console.print(Text.from_ansi(text.replace("\r\n", "\n")))
        svg = console.export_svg(title="fastrec", unique_id="run")
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


@contextlib.contextmanager
def window() -> Iterator[Page]:
    """A window of the installed browser, at desktop width."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    from tests.commands.test_report_in_browser import CHROMIUM  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1200, "height": 1000}, color_scheme="light")
        browser.close()


def report_picture(page: Path) -> None:
    """Take a picture of the top of the report."""
    with window() as shown:
        shown.set_viewport_size({"width": 1200, "height": 720})
        shown.goto(page.as_uri())
        shown.screenshot(path=ASSETS / "report.png")


def view_pictures(corpus: Path) -> None:
    """Take pictures of `view`: the questions, the most disputed one, and a transcript."""
    from tests.commands.viewing import serving  # noqa: PLC0415

    with serving(corpus) as opened, window() as shown:
        shown.set_viewport_size({"width": 1200, "height": 760})
        shown.goto(f"{opened.address}questions?evaluation=word_problems")
        shown.screenshot(path=ASSETS / "view-table.png")
        _follow(shown, "thead a >> text=Disagree")
        _follow(shown, ".questions .row-link")
        for outcome, number in (("right", 0), ("wrong", 0), ("right", 1), ("wrong", 1)):
            shown.locator(f".answer.{outcome} input").nth(number).check()
        _follow(shown, "button >> text=Side by side")
        shown.screenshot(path=ASSETS / "view-question.png")
        shown.goto(f"{opened.address}questions?evaluation=booking_agent&sort=hardest")
        _follow(shown, ".questions .row-link")
        answers = shown.locator(".glance a.dot").evaluate_all("all => all.map((one) => one.href)")
        for answer in answers:  # one with a call that failed, if there is one
            shown.goto(answer)
            if shown.locator(".call.failed").count():
                break
        shown.screenshot(path=ASSETS / "view-transcript.png")
    with serving(corpus, labels=corpus.parent / "labels.jsonl") as opened, window() as shown:
        shown.set_viewport_size({"width": 1200, "height": 560})
        shown.goto(f"{opened.address}questions?evaluation=word_problems&sort=hardest")
        _follow(shown, ".questions .row-link")
        _follow(shown, ".glance a.dot.wrong")
        shown.screenshot(path=ASSETS / "view-label.png")


def _follow(page: Page, selector: str) -> None:
    with page.expect_navigation():
        page.locator(selector).first.click()


def main() -> None:
    ASSETS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shown = "".join(_PROMPT.format(command) + typed(command, folder) for command in _COMMANDS)
        (ASSETS / "run.svg").write_text(as_svg(shown.rstrip()))
        report_picture(folder / "report.html")
        view_pictures(folder / "corpus")


if __name__ == "__main__":
    main()
