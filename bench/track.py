"""`make bench`: measure, compare with the best earlier figures, and append a line to the history.

1. Make the corpora that are not cached (once; a minute or two).
2. Calibrate, run the stage benchmarks, the trials and the nights, and calibrate again. The better
   calibration counts.
3. Compare each figure with its best earlier value. Measure the ones that look worse a second time:
   machines are noisy.
4. Print a table and append to the history. Exit with code 1 if a figure is still more than 15 %
   worse, or if a night differs from a full run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.calibrate import calibrate
from bench.compare import Comparison, compare, worse
from bench.corpora import OUT, available, corpus
from bench.figures import figures_of, trials_of
from bench.history import append, line_of, machine, read
from bench.night_figures import CORPUS, Nights
from bench.stages import Stage, run_stages
from bench.tables import comparison_table
from bench.trials import Results, run_trials
from bench.values import SETS, Figure, Value, better_stage, stage_values, trial_values

__all__ = ["main"]

_ROUNDS: Final = {
    "track": 5,
    "peers": 5,
    "import": 5,
    "view": 5,
}  # of the other sets: 2, because they take long
_BUSY: Final = 0.5
_ROOT: Final = Path(__file__).parents[1]
_ASSETS: Final = _ROOT / "docs" / "assets"


class _Session:
    """The measurements so far. Measuring again keeps the better result of each."""

    def __init__(
        self, figures: Sequence[Figure], *, stages: bool, nights: Nights | None, rounds: int
    ) -> None:
        self._figures = figures
        self._with_stages = stages
        self._nights = nights
        self._rounds = rounds
        self._stages: dict[str, Stage] = {}
        self._results: Results = {}
        self.calibration = float("inf")

    def measure(self, names: set[str] | None = None) -> None:
        """Measure all figures, or only those with the given names."""
        self._calibrate()
        if self._with_stages and (names is None or names & self._stages.keys()):
            print("stages …")
            for stage in run_stages():
                self._stages[stage.name] = better_stage(self._stages.get(stage.name, stage), stage)
        wanted = [figure for figure in self._figures if names is None or figure.name in names]
        self._results = run_trials(trials_of(wanted), rounds=self._rounds, known=self._results)
        if self._nights and (
            names is None or names & {value.name for value in self._nights.values()}
        ):
            self._nights.measure()
        self._calibrate()

    def values(self) -> list[Value]:
        """All figures."""
        stages = stage_values(self._stages.values(), self.calibration)
        nights = self._nights.values() if self._nights else []
        return stages + trial_values(self._figures, self._results, self.calibration) + nights

    def _calibrate(self) -> None:
        self.calibration = min(self.calibration, calibrate())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the set and return the exit code."""
    options = _parser().parse_args(arguments)
    load = os.getloadavg()[0]
    if load > _BUSY:
        print(f"warning: this machine is busy (load {load:.1f}), which makes figures worse")
    figures = figures_of(
        [name for name in SETS if name != "large"] if options.set == "all" else [options.set]
    )
    figures = [
        figure for figure in figures if not any(text in figure.name for text in options.without)
    ]
    for name in dict.fromkeys(trial.corpus for trial in trials_of(figures)):
        corpus(name)
    started = time.perf_counter()
    rounds = options.rounds or _ROUNDS.get(options.set, 2)
    nights = _nights(options.set, rounds)
    session = _Session(
        figures, stages=options.set in {"track", "all"}, nights=nights, rounds=rounds
    )
    session.measure()
    history = read()
    here = machine()
    comparisons = compare(session.values(), history, here)
    if suspects := worse(comparisons):
        print(f"measuring again: {', '.join(suspect.value.name for suspect in suspects)}")
        session.measure({suspect.value.name for suspect in suspects})
        comparisons = compare(session.values(), history, here)
    if nights:
        print(f"\n{nights.table()}")
        _write_picture(nights.picture, OUT if options.dry_run else _ASSETS)
    print(f"\n{comparison_table(comparisons)}\n")
    _print_end(comparisons, session.calibration, started)
    if not options.dry_run:
        append(line_of(session.values(), session.calibration, load))
    wrong = [value for value in nights.values() if value.error] if nights else []
    return 1 if wrong or worse(comparisons) else 0


def _nights(chosen: str, rounds: int) -> Nights | None:
    if chosen not in {"nights", "all"}:
        return None
    if not available(CORPUS):
        print(f"no nights: {CORPUS} needs the real records")
        return None
    return Nights(rounds)


def _write_picture(picture: str, folder: Path) -> None:
    if picture:
        path = folder / "nights.svg"
        path.write_text(picture)
        print(f"wrote {path.relative_to(_ROOT)}")


def _print_end(comparisons: Sequence[Comparison], calibration: float, started: float) -> None:
    print(
        f"{machine()}; calibration {calibration:.4f} s; took {time.perf_counter() - started:.0f} s"
    )
    for comparison in worse(comparisons):
        print(f"WORSE: {comparison.value.name}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.track", description="Measure and compare.")
    parser.add_argument(
        "--set",
        choices=[*SETS, "all"],
        default="track",
        help="the figures to measure; large is not part of all",
    )
    parser.add_argument(
        "--rounds", type=int, help="how often each trial runs (5, or 2 if a set takes long)"
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="TEXT",
        help="no figures with this in their names, like 50GB",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="do not write to the history or docs"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
