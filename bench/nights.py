"""`--set nights`: `normalize --incremental` as shares of a full run, and a week of nights.

Nights are measured as whole processes. After every incremental night, all files of the corpus are
compared with those of a full run over the same pile, which is not part of the time. Full runs and
first nights begin without a corpus, and every other night begins with the state that the night
before left: see `Snapshot`.
"""

import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.contenders import NORMALIZE, command_of
from bench.corpora import OUT, corpus
from bench.logs import files_in
from bench.measure import Job, Measured, measure
from bench.piles import Change, Pile, Snapshot, Stock, lay_out
from bench.templates import table, template
from bench.trials import JOBS, Results, Trial, better

Runs = dict[str, Measured]  # The best result of each night.
Digests = set[tuple[str, str]]  # Names of files and their SHA-256.

CORPUS = "real-x10"
FULL = "full run"
FIRST = "first night"
SMALL = "nothing changed, a tenth of the shards and records"
TEN_TIMES = "nothing changed, a tenth of the shards"
_TABLE = table("nights.toml")
NIGHTS: Mapping[str, Change] = _TABLE["nights"]
WEEK: Mapping[str, Change] = _TABLE["week"]


def execute_normalize(job: Job) -> Measured:
    """Run `fastrec normalize` in a fresh process and measure it."""
    return measure(command_of(NORMALIZE, job))


class Desk:
    """A pile, the state beside it (the corpus and the kept work), and full runs to compare with."""

    def __init__(self, folder: Path) -> None:
        self._pile = folder / "pile"
        self._state = folder / "state"
        self._full = folder / "full"
        self._store = folder / "snapshot"
        self._expected: dict[frozenset[tuple[str, Path]], Digests] = {}

    def full(self, pile: Pile) -> Measured:
        """A full run: without `--incremental`, and without a corpus to replace."""
        measured = self._run(pile, self._full)
        self._expected[frozenset(pile.items())] = _digests(self._full)
        shutil.rmtree(self._full)
        return measured

    def first(self, pile: Pile) -> Measured:
        """A first night; `output_bytes` is the size of the kept work."""
        shutil.rmtree(self._state, ignore_errors=True)
        measured = self.night(pile)
        published = set(files_in(self._state / "corpus"))
        kept = [path.stat().st_size for path in files_in(self._state) if path not in published]
        return msgspec.structs.replace(measured, output_bytes=sum(kept))

    def night(self, pile: Pile) -> Measured:
        """An incremental night in the state of the night before.

        Failed if it differs from a full run.
        """
        measured = self._run(pile, self._state, "--incremental")
        if measured.error:
            return measured
        key = frozenset(pile.items())
        if key not in self._expected and (error := self.full(pile).error):
            return msgspec.structs.replace(measured, error=f"no full run to compare with: {error}")
        if wrong := sorted({name for name, _ in self._expected[key] ^ _digests(self._state)}):
            error = f"differs from a full run: {', '.join(wrong)}"
            return msgspec.structs.replace(measured, error=error)
        return measured

    def snapshot(self) -> Snapshot:
        """The state now. It replaces the previous snapshot."""
        return Snapshot(self._state, self._store)

    def _run(self, pile: Pile, output: Path, *options: str) -> Measured:
        lay_out(pile, self._pile)
        output.mkdir(parents=True, exist_ok=True)
        job = Job(
            inputs=(str(self._pile),),
            output=str(output),
            scratch=str(output),
            jobs=JOBS,
            options=("--overwrite", *options),
        )
        return execute_normalize(job)


def _digests(output: Path) -> Digests:
    """The SHA-256 of every file of a corpus."""
    folder = output / "corpus"
    return {
        (str(path.relative_to(folder)), sha256(path.read_bytes()).hexdigest())
        for path in files_in(folder)
    }


def run_nights(best: Runs, stock: Stock, folder: Path, rounds: int) -> None:
    """Measure all nights in turns; keep the best result of each."""
    desk = Desk(folder / "base")
    piles = {name: stock.after(stock.base, change) for name, change in NIGHTS.items()}
    unchanged = {SMALL: stock.first_versions(), TEN_TIMES: stock.joined_versions()}
    others = {name: Desk(folder / name) for name in unchanged}
    for number in range(rounds):
        _note(best, FULL, desk.full(stock.base))
        _note(best, FIRST, desk.first(stock.base))
        base = desk.snapshot()
        for name, pile in piles.items():
            base.restore()
            _note(best, name, desk.night(pile))
        for name, pile in unchanged.items():
            first = others[name].first(pile) if number == 0 else None
            _note(best, name, first if first and first.error else others[name].night(pile))


def run_week(best: Runs, stock: Stock, folder: Path, rounds: int) -> None:
    """Measure seven nights in a row, each with about 1 % more shards, and a full run beside each.

    The first begins without a corpus.
    """
    desk = Desk(folder / "week")
    pile = stock.base
    before: Snapshot | None = None
    for day, change in WEEK.items():
        pile = stock.after(pile, change)
        for _ in range(rounds):
            _note(best, in_full(day), desk.full(pile))
            if before:
                before.restore()
            _note(best, day, desk.night(pile) if before else desk.first(pile))
        before = desk.snapshot()


def in_full(day: str) -> str:
    """The name of the full run of a day of the week."""
    return f"{day}, {FULL}"


def _note(best: Runs, name: str, run: Measured) -> None:
    """Keep the better of two runs; failed if one of them failed: every night must be right."""
    print(f"  {name}: {run.error or f'{run.seconds:.2f} s'}")
    known = best.get(name, run)
    best[name] = run if run.error else known if known.error else better(known, run)


def measure_nights(rounds: int, known: Results) -> dict[Trial, Measured]:
    """Measure all nights and the week; returns the best results, `known` ones included."""
    source = corpus(CORPUS)
    best = {trial.contender: run for trial, run in known.items()}
    with TemporaryDirectory(prefix="nights-", dir=OUT) as name:
        folder = Path(name)
        print(f"nights: {source.text_bytes / 1e6:,.0f} MB of text in {len(source.shards):,} shards")
        stock = Stock(source.paths(), folder / "stock", source.text_bytes)
        run_nights(best, stock, folder, rounds)
        run_week(best, stock, folder, rounds)
    return {Trial(night, CORPUS): run for night, run in best.items()}


def week_plot(results: Results) -> str:
    """Draw the time per night, full and incremental; empty if a run failed."""
    week = {trial.contender: run for trial, run in results.items() if not run.error}
    if not all(day in week and in_full(day) in week for day in WEEK):
        return ""
    days = [
        (day, change, [week[in_full(day)].seconds, week[day].seconds])
        for day, change in WEEK.items()
    ]
    return str(template("report.html").week(corpus(CORPUS).text_bytes, JOBS, days))
