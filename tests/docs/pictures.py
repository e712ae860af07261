"""Make the pictures of README.md from real runs: `python -m tests.docs.pictures` (or `make pictures`).

1. `run.svg`: a terminal after the commands below.
2. `report.png`: the HTML report of that corpus, in the installed Chromium.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.docs.reference import DOCS, ROOT
from tests.systems import in_terminal

ASSETS: Final = DOCS / "assets"
_COMMANDS: Final = (
    "fastrec generate -n 20000 --seed 7 -o runs/ --duplicates 0.05 --conflicts 0.001 --rejects 0.0001",
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
        console = Console(record=True, width=_COLUMNS, file=nowhere, force_terminal=True, color_system="standard")
        console.print(Text.from_ansi(text.replace("\r\n", "\n")))
        svg = console.export_svg(title="fastrec", unique_id="run")
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def screenshot(page: Path, target: Path) -> None:
    """Take a screenshot of the top of a page, at desktop width."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    from tests.commands.test_report_in_browser import CHROMIUM  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        window = browser.new_page(viewport={"width": 1200, "height": 1000}, color_scheme="light")
        window.goto(page.as_uri())
        window.screenshot(path=target)
        browser.close()


def main() -> None:
    ASSETS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shown = "".join(_PROMPT.format(command) + typed(command, folder) for command in _COMMANDS)
        (ASSETS / "run.svg").write_text(as_svg(shown.rstrip()))
        screenshot(folder / "report.html", ASSETS / "report.png")


if __name__ == "__main__":
    main()
