"""The coverage of corrected scores, by simulation: `python -m tests.docs.corrected` (or `make
docs`).

The table is between two markers in docs/repairs.md. Answers are right by chance, and the grader
errs by chance. A model answers some questions, and some of these are labelled.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastrec.statistics.corrected import correct_mean
from tests.docs.reference import DOCS, put

PAGE: Final = DOCS / "repairs.md"
MARKER: Final = "coverage of corrected scores"
_RUNS: Final = 2_000
_QUESTIONS: Final = 1_000
_GRADERS: Final = {  # accuracy of the model, share of wrong answers that pass, of right ones that fail
    "errs in 5 % of all cases": (0.7, 0.05, 0.05),
    "too kind": (0.5, 0.3, 0.02),
    "good, easy questions": (0.9, 0.02, 0.01),
}


def coverage(
    labels: int, accuracy: float, kind: float, strict: float
) -> tuple[float, float, float]:
    """How often the raw interval and the corrected one cover the accuracy, and its half width."""
    random = np.random.default_rng(46)
    by_grader = 0
    by_labels = 0
    width = 0.0
    for _ in range(_RUNS):
        truth = random.random(_QUESTIONS) < accuracy
        chance = random.random(_QUESTIONS)
        graded = np.where(truth, chance >= strict, chance < kind).astype(np.float64)
        sample = random.choice(_QUESTIONS, labels, replace=False)
        found = correct_mean(graded, truth[sample] - graded[sample], graded)
        assert found.low is not None
        assert found.high is not None
        by_labels += found.low <= accuracy <= found.high
        width += (found.high - found.low) / 2
        own = 1.96 * graded.std() / _QUESTIONS**0.5
        by_grader += abs(graded.mean() - accuracy) <= own
    return by_grader / _RUNS, by_labels / _RUNS, width / _RUNS


def table() -> str:
    """The rows of the page: for each number of labels, the coverage and the half width."""
    numbers = (20, 50, 100, 200)
    lines = [
        f"| grader | raw covers | {' | '.join(f'{labels} labels' for labels in numbers)} |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, chances in _GRADERS.items():
        found = [coverage(labels, *chances) for labels in numbers]
        raws = sorted({f"{raw:.0%}" for raw, _, _ in found})
        cells = [f"{corrected:.0%} ±{half:.1%}" for _, corrected, half in found]
        lines.append(
            f"| {name} | {' to '.join(dict.fromkeys((raws[0], raws[-1])))} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Update the table."""
    PAGE.write_text(put(PAGE.read_text(), MARKER, table()))


if __name__ == "__main__":
    main()
