"""`make bench-report`: the history of figures as a self-contained page, `out/bench/report.html`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bench.corpora import OUT
from bench.history import HistoryLine, read
from bench.tables import number, target_of
from bench.templates import template

Card = dict[str, Any]
_STYLE = Path(__file__).with_suffix(".css")


def page(history: Sequence[HistoryLine]) -> str:
    """Write the page."""
    names = dict.fromkeys(name for line in reversed(history) for name in line.figures)
    whole: list[Card] = []
    stages: list[Card] = []
    for name in names:
        lines = [line for line in history if name in line.figures]
        is_stage = lines[-1].figures[name].unit == "MB/s" or "_" in name
        (stages if is_stage else whole).append(_card(name, lines))
    style = Markup(_STYLE.read_text())
    return str(template("report.html").page(style, history, history[-1], whole, stages))


def _card(name: str, lines: Sequence[HistoryLine]) -> Card:
    latest = lines[-1].figures[name]
    points = []
    for line in lines:
        value = line.figures[name]
        # Not those on another corpus.
        if value.of == latest.of and value.relative is not None:
            about = (number(value.value, latest.unit), line.commit, line.date[:16], line.machine)
            points.append((value.relative, ", ".join(map(str, about))))
    # Seconds are plotted relative to the calibration, so the target is scaled by the speed of the
    # last run.
    scale = 1.0
    if latest.unit == "s" and latest.value and latest.relative:
        scale = latest.relative / latest.value
    target = None if latest.target is None else latest.target * scale
    direction = "less" if latest.better == "lower" else "more"
    return {
        "title": name.replace("_", " "),
        "now": number(latest.value, latest.unit),
        "verdict": target_of(latest) or f"{direction} is better",
        "kind": {True: "good", False: "bad", None: ""}[latest.reached],
        "points": points,
        "target": target,
    }


def main() -> int:
    """Write the page from the history."""
    history = read()
    if not history:
        print("no history yet: run `make bench` first")
        return 1
    OUT.mkdir(parents=True, exist_ok=True)
    target = OUT / "report.html"
    target.write_text(page(history))
    print(f"wrote {target.relative_to(OUT.parents[1])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
