"""Blocks of the README that are made from the code: `python -m tests.documents` rewrites them."""

from __future__ import annotations

import re
from pathlib import Path

from fastrec.stages.judge import CODES

README = Path(__file__).parents[1] / "README.md"


def codes_table() -> str:
    rows = [f"| `{row.code}` | {row.meaning} |" for row in CODES.values()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows])


def rendered(text: str) -> str:
    return re.sub(
        r"(<!-- codes[^>]*-->\n).*?(\n<!-- /codes -->)",
        lambda match: match[1] + codes_table() + match[2],
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    README.write_text(rendered(README.read_text()))
