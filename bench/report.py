"""`make bench-report`: the history of figures as one self-contained HTML page, `out/bench/report.html`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from typing import Final

from bench.corpora import OUT
from bench.history import HistoryLine, HistoryValue, read
from bench.plots import Point, plot
from bench.tables import number

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2530; --soft: #66717f; --paper: #fbfbfa; --card: #fff; --rule: #e2e5e9;
  --line: #2563a8; --target: #c2700f; --good: #1c7f4b; --bad: #b3372f }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ed; --soft: #98a3b0; --paper: #14181d; --card: #1c2229;
  --rule: #303842; --line: #6aa9ee; --target: #e0a24e; --good: #5cc48d; --bad: #ee8177 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 1180px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 .3rem } h2 { font-size: 1.1rem; margin: 2.2rem 0 .8rem }
p { margin: .2rem 0; color: var(--soft); max-width: 46rem }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 14px }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .8rem .9rem .6rem;
  display: flex; flex-direction: column }
.card h3 { font-size: .9rem; font-weight: 600; margin: 0; overflow-wrap: anywhere }
.card .now { display: flex; align-items: baseline; gap: .6rem; margin: .1rem 0 .3rem;
  font-variant-numeric: tabular-nums }
.card .now b { font-size: 1.35rem } .card .now span { color: var(--soft); font-size: .82rem }
.card svg { margin-top: auto }
.good { color: var(--good) !important } .bad { color: var(--bad) !important }
svg { width: 100%; height: auto; display: block; overflow: visible }
polyline { fill: none; stroke: var(--line); stroke-width: 1.6 } circle { fill: var(--line) } circle:hover { r: 5 }
.axis { stroke: var(--rule) } .target { stroke: var(--target); stroke-dasharray: 5 4 }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums }
td, th { padding: .25rem .9rem .25rem 0; text-align: left; border-bottom: 1px solid var(--rule); white-space: nowrap }
th { color: var(--soft); font-weight: 500 }
"""


def page(history: Sequence[HistoryLine]) -> str:
    """Write the page."""
    last = history[-1]
    names = list(dict.fromkeys(name for line in reversed(history) for name in line.figures))
    whole = [name for name in names if _latest(name, history).unit != "MB/s" and "_" not in name]
    stages = [name for name in names if name not in whole]
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>fastrec: figures over time</title><style>{_STYLE}</style>
<h1>fastrec: figures over time</h1>
<p>{len(history)} {"run" if len(history) == 1 else "runs"} of <code>make bench</code>; the last on
{escape(last.date[:10])} at commit {escape(last.commit)}, {escape(str(last.machine))}, Python {escape(last.python)}.
The dashed line is the target. The large number is the measured value. Machines differ, so the plots show throughputs
relative to the calibration of their run. Hover over a dot to see its run.</p>
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
    return (
        f'<div class="card"><h3>{escape(name.replace("_", " "))}</h3><div class="now">'
        f"<b>{number(latest.value, latest.unit)}</b>{_verdict(latest)}</div>{plot(points, target)}</div>"
    )


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
