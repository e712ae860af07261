"""Nights with `normalize --incremental`: measured as whole processes, and each compared with a full run.

After every incremental night, all files of the corpus are compared with those of a full run over
the same pile, which is not part of the time. Full runs and first nights begin without a corpus, and
every other night begins with the state that the night before left: see `Snapshot`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from hashlib import file_digest
from pathlib import Path
from typing import Final

import msgspec

from bench.contenders import CONTENDERS, command_of
from bench.corpora import LEVEL
from bench.job import Job
from bench.measure import Measured, measure
from bench.night_states import Snapshot
from bench.piles import Change, Pile, Stock, lay_out
from bench.trials import JOBS, better

__all__ = [
    "FIRST",
    "FULL",
    "NIGHTS",
    "SMALL",
    "TEN_TIMES",
    "Desk",
    "WeekNight",
    "run_nights",
    "run_week",
]

Execute = Callable[[Job], Measured]

FULL: Final = "full run"
FIRST: Final = "first night"
SMALL: Final = "nothing changed, a tenth of the shards and records"
TEN_TIMES: Final = "nothing changed, a tenth of the shards"
NIGHTS: Final[Mapping[str, Change]] = {
    "nothing changed": Change(),
    "new evaluation of 1 % of the text": Change(evaluations=1),
    "one more model on the largest evaluation": Change(models=1),
    "one shard of a small evaluation changed": Change(changed=1),
    "one shard of the largest evaluation removed": Change(removed=1),
}
_WEEK: Final[Mapping[str, Change]] = {
    "Mon": Change(),
    "Tue": Change(evaluations=1),
    "Wed": Change(small_models=3, changed=1),
    "Thu": Change(models=1, small_models=1),
    "Fri": Change(evaluations=1, changed=1),
    "Sat": Change(small_models=3, removed=1),
    "Sun": Change(models=2, changed=1),
}


def execute_normalize(job: Job) -> Measured:
    """Run `fastrec normalize` in a fresh process and measure it."""
    return measure(command_of(CONTENDERS["fastrec normalize"], job))


class Desk:
    """A pile, the state beside it (the corpus and the kept work), and the full runs to compare with."""

    def __init__(self, folder: Path, execute: Execute = execute_normalize) -> None:
        self._pile = folder / "pile"
        self._state = folder / "state"
        self._full = folder / "full"
        self._store = folder / "snapshot"
        self._execute = execute
        self._expected: dict[tuple[tuple[str, Path], ...], dict[str, str]] = {}

    def full(self, pile: Pile) -> Measured:
        """A full run: without `--incremental`, and without a corpus to replace."""
        _clear(self._full)
        measured = self._run(pile, self._full)
        self._expected[_key(pile)] = _digests(self._full)
        _clear(self._full)
        return measured

    def first(self, pile: Pile) -> Measured:
        """A first night; `output_bytes` is the size of the kept work."""
        _clear(self._state)
        measured = self.night(pile)
        kept = [
            path
            for path in self._state.rglob("*")
            if path.relative_to(self._state).parts[0] != "corpus"
        ]
        return msgspec.structs.replace(
            measured, output_bytes=sum(p.stat().st_size for p in kept if p.is_file())
        )

    def night(self, pile: Pile) -> Measured:
        """An incremental night in the state of the night before.

        Failed if it differs from a full run.
        """
        measured = self._run(pile, self._state, "--incremental")
        if measured.error:
            return measured
        if _key(pile) not in self._expected and (error := self.full(pile).error):
            return msgspec.structs.replace(measured, error=f"no full run to compare with: {error}")
        expected = self._expected[_key(pile)]
        found = _digests(self._state)
        if expected == found:
            return measured
        wrong = sorted(name for name in expected | found if expected.get(name) != found.get(name))
        return msgspec.structs.replace(
            measured, error=f"differs from a full run: {', '.join(wrong)}"
        )

    def snapshot(self) -> Snapshot:
        """The state now. It replaces the previous snapshot."""
        return Snapshot(self._state, self._store)

    def _run(self, pile: Pile, output: Path, *options: str) -> Measured:
        lay_out(pile, self._pile)
        output.mkdir(parents=True, exist_ok=True)
        return self._execute(
            Job(
                inputs=(str(self._pile),),
                output=str(output),
                scratch=str(output),
                jobs=JOBS,
                level=LEVEL,
                options=("--overwrite", *options),
            )
        )


def run_nights(
    stock: Stock,
    folder: Path,
    *,
    rounds: int,
    notify: Callable[[str], None] = print,
    execute: Execute = execute_normalize,
) -> dict[str, Measured]:
    """Measure all nights in turns; returns the best result of each, by name."""
    best: dict[str, Measured] = {}

    def note(name: str, measured: Measured) -> None:
        best[name] = _best(best[name], measured) if name in best else measured
        notify(f"  {name}: {_seconds(measured)}")

    desk = Desk(folder / "base", execute)
    piles = {name: stock.after(stock.base, change) for name, change in NIGHTS.items()}
    unchanged = {SMALL: stock.first_versions(), TEN_TIMES: stock.joined_versions()}
    others = {
        name: Desk(folder / f"other-{number}", execute) for number, name in enumerate(unchanged)
    }
    for number in range(rounds):
        note(FULL, desk.full(stock.base))
        note(FIRST, desk.first(stock.base))
        base = desk.snapshot()
        for name, pile in piles.items():
            base.restore()
            note(name, desk.night(pile))
        for name, pile in unchanged.items():
            first = others[name].first(pile) if number == 0 else None
            note(name, first if first and first.error else others[name].night(pile))
    return best


class WeekNight(msgspec.Struct, frozen=True):
    """A night of the week: what changed before it, and both ways to make its corpus."""

    day: str
    changes: list[str]
    full: Measured
    incremental: Measured


def run_week(
    stock: Stock,
    folder: Path,
    *,
    rounds: int,
    notify: Callable[[str], None] = print,
    execute: Execute = execute_normalize,
) -> list[WeekNight]:
    """Measure seven nights in a row, each with about 1 % more shards.

    The first begins without a corpus.
    """
    desk = Desk(folder / "week", execute)
    pile = stock.base
    before: Snapshot | None = None
    week = []
    for day, change in _WEEK.items():
        pile = stock.after(pile, change)
        runs = []
        for _ in range(rounds):
            full = desk.full(pile)
            if before:
                before.restore()
            runs.append((full, desk.night(pile) if before else desk.first(pile)))
        full, incremental = runs[0]
        for other_full, other in runs[1:]:
            full = _best(full, other_full)
            incremental = _best(incremental, other)
        week.append(WeekNight(day, change.described() or [FIRST], full, incremental))
        notify(
            f"  {day}, {len(pile)} shards: {_seconds(full)} in full, {_seconds(incremental)} with "
            "--incremental"
        )
        before = desk.snapshot()
    return week


def _best(one: Measured, other: Measured) -> Measured:
    """The better of two runs; failed if one of them failed, since every night must be right."""
    return one if one.error else other if other.error else better(one, other)


def _seconds(measured: Measured) -> str:
    return measured.error or f"{measured.seconds:.2f} s"


def _key(pile: Pile) -> tuple[tuple[str, Path], ...]:
    return tuple(sorted(pile.items()))


def _digests(output: Path) -> dict[str, str]:
    """The SHA-256 of every file of a corpus."""
    digests = {}
    for path in sorted((output / "corpus").rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digests[str(path.relative_to(output / "corpus"))] = file_digest(
                    file, "sha256"
                ).hexdigest()
    return digests


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
