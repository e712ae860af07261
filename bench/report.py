"""`make bench-report`: the history of figures as a self-contained page, `out/bench/report.html`."""

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.corpora import OUT
from bench.history import HistoryLine, HistoryValue, read
from bench.plots import Point, plot
from bench.tables import number

_STYLE = Path(__file__).with_suffix(".css")


def page(history: Sequence[HistoryLine]) -> str:
    """Write the page."""
    last = history[-1]
    names = list(dict.fromkeys(name for line in reversed(history) for name in line.figures))
    whole = [name for name in names if _latest(name, history).unit != "MB/s" and "_" not in name]
    stages = [name for name in names if name not in whole]
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fastrec: figures over time</title><style>{_STYLE.read_text()}</style>
<h1>fastrec: figures over time</h1>
<p>{len(history)} {"run" if len(history) == 1 else "runs"} of <code>make bench</code>; the last on
{escape(last.date[:10])} at commit {escape(last.commit)}, {escape(str(last.machine))},
Python {escape(last.python)}. The dashed line is the target. The large number is the measured value.
Machines differ, so the plots show throughputs relative to the calibration of their run.
Hover over a dot to see its run.</p>
<h2>Whole runs</h2><div class="cards">{"".join(_card(name, history) for name in whole)}</div>
<h2>Stages, one core</h2><div class="cards">{"".join(_card(name, history) for name in stages)}</div>
<h2>Runs</h2>{_runs(history)}
</html>
"""


def _latest(name: str, history: Sequence[HistoryLine]) -> HistoryValue:
    return next(line.figures[name] for line in reversed(history) if name in line.figures)


def _card(name: str, history: Sequence[HistoryLine]) -> str:
    latest = _latest(name, history)
    # A value measured on another corpus is not comparable.
    lines = [
        line for line in history if name in line.figures and line.figures[name].of == latest.of
    ]
    points = [
        Point(
            line.figures[name].relative,
            f"{number(line.figures[name].value, latest.unit)}, {line.commit}, {line.date[:16]}, "
            f"{line.machine}",
        )
        for line in lines
    ]
    # Seconds are plotted relative to the calibration, so the target is scaled by the speed of the
    # last run.
    scale = latest.relative / latest.value if latest.unit == "s" else 1.0
    target = latest.target * scale if latest.target is not None else None
    title = escape(name.replace("_", " "))
    now = f"<b>{number(latest.value, latest.unit)}</b>{_verdict(latest)}"
    drawn = plot(points, target)
    return f'<div class="card"><h3>{title}</h3><div class="now">{now}</div>{drawn}</div>'


def _verdict(entry: HistoryValue) -> str:
    if entry.target is None:
        return f"<span>{'less' if entry.better == 'lower' else 'more'} is better</span>"
    reached = (
        entry.value <= entry.target if entry.better == "lower" else entry.value >= entry.target
    )
    sign = "≤" if entry.better == "lower" else "≥"
    mark, kind = ("✓", "good") if reached else ("✗", "bad")
    return f'<span class="{kind}">{mark} {sign} {number(entry.target, entry.unit)}</span>'


def _runs(history: Sequence[HistoryLine]) -> str:
    rows = "".join(
        f"<tr><td>{escape(line.date[:16].replace('T', ' '))}</td><td>{escape(line.commit)}</td>"
        f"<td>{escape(str(line.machine))}</td><td>{escape(line.python)}</td><td>{line.load:.1f}</td>"
        f"<td>{line.calibration * 1e3:.1f} ms</td><td>{len(line.figures)}</td></tr>"
        for line in reversed(history)
    )
    heads = ("date (UTC)", "commit", "machine", "Python", "load", "calibration", "figures")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


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
