"""A generated table of answers: CSV with a question, an answer of 1 KB, its verdict and two columns of metadata."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from fastrec.commands.generate.text import Rng, phrase_tables

__all__ = ["ANSWERS", "TABLE_OPTIONS", "write_table"]

ANSWERS: Final = "answers.csv"
_COLUMNS: Final = {
    "id": "--id-column",
    "model": "--model-column",
    "question": "--input-column",
    "response": "--output-column",
    "gold": "--reference-column",
    "ok": "--correct-column",
}
TABLE_OPTIONS: Final = (
    *("--evaluation", "sums"),
    *(word for column, option in _COLUMNS.items() for word in (option, column)),
)
"""What the columns mean: options of `import`."""


def write_table(seed: int, directory: Path, rows: int) -> tuple[int, int]:
    """Write the table; returns the number of its rows and the size of its text.

    Half of the answers have lines.
    """
    rng = Rng(seed)
    words = phrase_tables(seed).latin[0]
    path = directory / ANSWERS
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*_COLUMNS, "subject", "level"])
        for number in range(rows):
            said = words.write(rng, 150)
            said = f'"{said[:500]}"\n{said[500:]}' if number % 2 else said
            asked = f"{words.write(rng, 50)}, {number // 4}?"
            verdict = "true" if rng.below(3) else "false"
            answer = words.write(rng, 3)
            writer.writerow(
                [
                    number // 4,
                    f"m{number % 4}",
                    asked,
                    said,
                    answer,
                    verdict,
                    f"s{number % 20}",
                    number % 5,
                ]
            )
    return rows, path.stat().st_size
