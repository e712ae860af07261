"""`make bench`: measure, compare with the best earlier figures, and append a line to the history.

1. Make the corpora that are not cached (once; a minute or two).
2. Calibrate, run the stage benchmarks, the trials and the nights, and calibrate again. The better
   calibration counts.
3. Compare each figure with its best earlier value. Measure the ones that look worse a second time:
   machines are noisy.
4. Print a table and append to the history. Exit with code 1 if a figure is still more than 15 %
   worse, or if a night differs from a full run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.calibrate import calibrate
from bench.corpora import OUT, corpus
from bench.figures import (
    SETS,
    Figure,
    Stages,
    Value,
    figures_of,
    stage_values,
    trial_values,
    trials_of,
)
from bench.history import append, compare, line_of, machine, read, worse
from bench.nights import measure_nights, week_plot
from bench.tables import comparison_table
from bench.trials import Results, run_trials

# Of the other sets: 2, because they take long.
_ROUNDS = {"track": 5, "peers": 5, "import": 5, "view": 5}
_BUSY = 0.5
_ROOT = Path(__file__).parents[1]
_ASSETS = _ROOT / "docs" / "assets"


class _Session:
    """The measurements so far. Measuring again keeps the better result of each."""

    def __init__(self, chosen: str, figures: Sequence[Figure], rounds: int) -> None:
        self._figures = figures
        self._rounds = rounds
        self._with_stages = chosen in {"track", "all"}
        self._stages: list[Stages] = []
        self._results: Results = {}
        self.nights: Results = {}
        self.calibration = float("inf")

    def measure(self, names: set[str] | None = None) -> None:
        """Measure all figures, or only those with the given names."""
        self.calibration = min(self.calibration, calibrate())
        if self._with_stages and (names is None or names & self._stages[0].keys()):
            print("stages …")
            self._stages.append(_run_stages())
        wanted = [figure for figure in self._figures if names is None or figure.name in names]
        others = [figure for figure in wanted if figure.set != "nights"]
        self._results = run_trials(trials_of(others), rounds=self._rounds, known=self._results)
        if len(others) < len(wanted):
            self.nights = measure_nights(self._rounds, self.nights)
        self.calibration = min(self.calibration, calibrate())

    def values(self) -> list[Value]:
        """All figures."""
        stages = stage_values(self._stages, self.calibration)
        results = {**self._results, **self.nights}
        return [*stages, *trial_values(self._figures, results, self.calibration)]


def _run_stages() -> Stages:
    """Run all stage benchmarks in a fresh process."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "stages.json"
    command = f"-m pytest bench --benchmark-only --quiet --benchmark-json {path}"
    command += " --override-ini python_files=bench_*.py"
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"the stage benchmarks failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
    benchmarks = json.loads(path.read_bytes())["benchmarks"]
    return {stage["name"].removeprefix("test_"): stage["extra_info"] for stage in benchmarks}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the set and return the exit code."""
    options = _parser().parse_args(arguments)
    load = os.getloadavg()[0]
    if load > _BUSY:
        print(f"warning: this machine is busy (load {load:.1f}), which makes figures worse")
    sets = [name for name in SETS if name != "large"] if options.set == "all" else [options.set]
    figures = figures_of(sets, options.without)
    for trial in trials_of(figures):
        corpus(trial.corpus)
    started = time.perf_counter()
    session = _Session(options.set, figures, options.rounds or _ROUNDS.get(options.set, 2))
    history = read()
    suspects: set[str] | None = None
    for _ in range(2):
        if suspects:
            print(f"measuring again: {', '.join(sorted(suspects))}")
        session.measure(suspects)
        comparisons = compare(session.values(), history, machine())
        suspects = {comparison.value.name for comparison in worse(comparisons)}
        if not suspects:
            break
    if picture := week_plot(session.nights):
        path = (OUT if options.dry_run else _ASSETS) / "nights.svg"
        path.write_text(picture)
        print(f"wrote {path.relative_to(_ROOT)}")
    print(f"\n{comparison_table(comparisons)}\n")
    seconds = time.perf_counter() - started
    print(f"{machine()}; calibration {session.calibration:.4f} s; took {seconds:.0f} s")
    for name in sorted(suspects or ()):
        print(f"WORSE: {name}")
    if not options.dry_run:
        append(line_of(session.values(), session.calibration, load))
    wrong = any(run.error for run in session.nights.values())
    return 1 if wrong or suspects else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.track", description="Measure and compare.")
    add = parser.add_argument
    add("--set", choices=[*SETS, "all"], default="track", help="large is not part of all")
    add("--rounds", type=int, help="how often each trial runs (5, or 2 if a set takes long)")
    without = "no figures with this in their names, like 50GB"
    add("--without", action="append", default=[], metavar="TEXT", help=without)
    add("--dry-run", action="store_true", help="do not write to the history or docs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
