"""The table of docs/benchmark.md by a seeded simulation: `python -m tests.docs.simulations` (or
`make docs`).
"""

from __future__ import annotations

from typing import Final

from fastrec.statistics.items import wrong_key_p_values
from tests.docs.reference import DOCS, put
from tests.statistics.test_items import simulate

PAGE: Final = DOCS / "benchmark.md"
_QUESTIONS: Final = 200
_PLANTED: Final = 10


def wrong_keys(runs: int = 20) -> str:
    """How many planted wrong keys are found, and how many good questions are suspected."""
    lines = [
        "| models | planted keys found | right among suspected | suspected without planted keys |",
        "|--:|--:|--:|--:|",
    ]
    for models in (10, 30, 100):
        found = suspected = alarms = 0
        for seed in range(runs):
            planted = wrong_key_p_values(simulate(models, _QUESTIONS, _PLANTED, seed)) < 0.05
            found += int(planted[:_PLANTED].sum())
            suspected += int(planted.sum())
            alarms += int((wrong_key_p_values(simulate(models, _QUESTIONS, 0, seed)) < 0.05).sum())
        recall = found / (runs * _PLANTED)
        precision = f"{found / suspected:.0%}" if suspected else "–"
        share = alarms / (runs * _QUESTIONS)
        lines.append(f"| {models} | {recall:.0%} | {precision} | {share:.2%} |")
    return "\n".join(lines)


def page() -> str:
    """The page with its table made anew."""
    return put(PAGE.read_text(encoding="utf-8"), "wrong-keys", wrong_keys())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
