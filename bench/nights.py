"""`--set nights`: `normalize --incremental` as shares of a full run, and a week of nights.

Nights are measured as whole processes. After every incremental night, all files of the corpus are
compared with those of a full run over the same pile, which is not part of the time. Full runs and
first nights begin without a corpus, and every other night begins with the state that the night
before left: see `Snapshot`.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.contenders import CONTENDERS, command_of
from bench.corpora import LEVEL, OUT, corpus
from bench.figures import Value, measured_on
from bench.measure import Job, Measured, measure
from bench.piles import Change, Pile, Snapshot, Stock, lay_out
from bench.plots import Group, bar_plot
from bench.tables import aligned, shown, target_of
from bench.trials import JOBS, better

Execute = Callable[[Job], Measured]
Notify = Callable[[str], None]

CORPUS = "real-x10"
FULL = "full run"
FIRST = "first night"
NOTHING = "nothing changed"
SMALL = "nothing changed, a tenth of the shards and records"
TEN_TIMES = "nothing changed, a tenth of the shards"
NIGHTS: Mapping[str, tuple[Change, float]] = {  # with their targets
    NOTHING: (Change(), 0.08),
    "new evaluation of 1 % of the text": (Change(evaluations=1), 0.12),
    "one more model on the largest evaluation": (Change(models=1), 0.40),
    "one shard of a small evaluation changed": (Change(changed=1), 0.12),
    "one shard of the largest evaluation removed": (Change(removed=1), 0.40),
}
_WEEK: Mapping[str, Change] = {
    "Mon": Change(),
    "Tue": Change(evaluations=1),
    "Wed": Change(small_models=3, changed=1),
    "Thu": Change(models=1, small_models=1),
    "Fri": Change(evaluations=1, changed=1),
    "Sat": Change(small_models=3, removed=1),
    "Sun": Change(models=2, changed=1),
}
_VERSION = "nights-1"  # increase it if nights become incomparable with earlier ones
_FOOTER = (
    "Large models are new models on the evaluation that has most of the text, where the removed "
    "shard is too; small models are on another one."
)


def execute_normalize(job: Job) -> Measured:
    """Run `fastrec normalize` in a fresh process and measure it."""
    return measure(command_of(CONTENDERS["fastrec normalize"], job))


class Desk:
    """A pile, the state beside it (the corpus and the kept work), and full runs to compare with."""

    def __init__(self, folder: Path, execute: Execute = execute_normalize) -> None:
        self._pile = folder / "pile"
        self._state = folder / "state"
        self._full = folder / "full"
        self._store = folder / "snapshot"
        self._execute = execute
        self._expected: dict[frozenset[tuple[str, Path]], dict[str, str]] = {}

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
        corpus_folder = self._state / "corpus"
        kept = sum(
            path.stat().st_size
            for path in self._state.rglob("*")
            if path.is_file() and corpus_folder not in path.parents
        )
        return msgspec.structs.replace(measured, output_bytes=kept)

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
        expected = self._expected[key]
        found = _digests(self._state)
        wrong = sorted(name for name in expected | found if expected.get(name) != found.get(name))
        error = f"differs from a full run: {', '.join(wrong)}" if wrong else None
        return msgspec.structs.replace(measured, error=error)

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
            level=LEVEL,
            options=("--overwrite", *options),
        )
        return self._execute(job)


def _digests(output: Path) -> dict[str, str]:
    """The SHA-256 of every file of a corpus."""
    folder = output / "corpus"
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def run_nights(
    stock: Stock,
    folder: Path,
    *,
    rounds: int,
    notify: Notify = print,
    execute: Execute = execute_normalize,
) -> dict[str, Measured]:
    """Measure all nights in turns; returns the best result of each, by name."""
    best: dict[str, Measured] = {}

    def note(name: str, measured: Measured) -> None:
        best[name] = _best([best.get(name, measured), measured])
        notify(f"  {name}: {_seconds(measured)}")

    desk = Desk(folder / "base", execute)
    piles = {name: stock.after(stock.base, change) for name, (change, _) in NIGHTS.items()}
    unchanged = {SMALL: stock.first_versions(), TEN_TIMES: stock.joined_versions()}
    others = {name: Desk(folder / name, execute) for name in unchanged}
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
    notify: Notify = print,
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
        full_runs = []
        nights = []
        for _ in range(rounds):
            full_runs.append(desk.full(pile))
            if before:
                before.restore()
            nights.append(desk.night(pile) if before else desk.first(pile))
        full = _best(full_runs)
        incremental = _best(nights)
        week.append(WeekNight(day, change.described() or [FIRST], full, incremental))
        times = f"{_seconds(full)} in full, {_seconds(incremental)} with --incremental"
        notify(f"  {day}, {len(pile)} shards: {times}")
        before = desk.snapshot()
    return week


def _best(runs: Sequence[Measured]) -> Measured:
    """The best of several runs; failed if one of them failed, since every night must be right."""
    best, *others = runs
    for run in others:
        best = best if best.error else run if run.error else better(best, run)
    return best


def _seconds(measured: Measured) -> str:
    return measured.error or f"{measured.seconds:.2f} s"


class Nights:
    """The measurements of nights so far. Measuring again keeps the better result of each figure."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._tables: list[str] = []
        self.values: dict[str, Value] = {}
        self.picture = ""

    def measure(self) -> None:
        """Measure all nights and the week."""
        source = corpus(CORPUS)
        size = source.text_bytes
        OUT.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="nights-", dir=OUT) as name:
            folder = Path(name)
            print(f"nights: {size / 1e6:,.0f} MB of text in {len(source.shards):,} shards")
            stock = Stock(source.paths(), folder / "stock", size)
            nights = run_nights(stock, folder, rounds=self._rounds)
            print("a week of nights")
            week = run_week(stock, folder, rounds=self._rounds)
        values = [*night_values(nights, size), week_value(week)]
        self._tables.append(night_table(nights, values))
        self.picture = week_plot(week, size) or self.picture
        for value in values:
            # A failure counts, since every night must be right.
            known = self.values.get(value.name, value)
            if known.value is not None and (value.value is None or value.value < known.value):
                known = value
            self.values[value.name] = known

    def table(self) -> str:
        """The nights of each measurement."""
        return "\n\n".join(self._tables)


def night_values(nights: Mapping[str, Measured], text_bytes: int) -> list[Value]:
    """The figures of single nights."""
    share = "wall time of normalize --incremental ÷ a full run, whole processes: {}"
    unchanged = "wall time of a night without changes for ten times the records in {}"
    kept = "bytes of all files in the work directory after the first night ÷ bytes of text"
    targets = {FIRST: 1.10, **{name: target for name, (_, target) in NIGHTS.items()}}
    first = nights[FIRST]
    return [
        *(
            _ratio(name, share.format(name), [nights[name]], [nights[FULL]], target)
            for name, target in targets.items()
        ),
        _ratio(
            "10 × the records in as many shards",
            unchanged.format("the same number of shards"),
            [nights[TEN_TIMES]],
            [nights[SMALL]],
            1.25,
        ),
        _ratio(
            "10 × the records in 10 × the shards",
            unchanged.format("ten times the shards"),
            [nights[NOTHING]],
            [nights[SMALL]],
            10.0,
        ),
        _value("kept work / text", kept, first.output_bytes / text_bytes, [first.error], 0.5),
    ]


def week_value(week: Sequence[WeekNight]) -> Value:
    """The figure of a week: all its incremental nights relative to its full runs."""
    return _ratio(
        "a week",
        "wall time of seven nights with --incremental ÷ seven full runs; the first night is one "
        "of them",
        [night.incremental for night in week],
        [night.full for night in week],
        None,
    )


def _ratio(
    name: str,
    title: str,
    runs: Sequence[Measured],
    others: Sequence[Measured],
    target: float | None,
) -> Value:
    ratio = sum(run.seconds for run in runs) / sum(run.seconds for run in others)
    return _value(name, title, ratio, [run.error for run in (*runs, *others)], target)


def _value(
    name: str, title: str, ratio: float, errors: Iterable[str | None], target: float | None
) -> Value:
    error = "; ".join(dict.fromkeys(filter(None, errors))) or None
    return Value(
        name=f"night: {name}",
        title=title,
        value=None if error else ratio,
        relative=None if error else ratio,
        of=f"{measured_on([CORPUS])} {_VERSION}",
        target=target,
        tolerance=0.3,  # most nights are short
        error=error,
    )


def night_table(nights: Mapping[str, Measured], values: Sequence[Value]) -> str:
    """The nights with their times, shares of a full run, and targets."""
    by_name = {value.name.removeprefix("night: "): value for value in values}
    rows = [("night", "time", "share of a full run", "target")]
    for name in dict.fromkeys((*nights, *by_name)):
        value = by_name.get(name)
        time = _seconds(nights[name]) if name in nights else ""
        rows.append((name, time, shown(value), target_of(value)) if value else (name, time, "", ""))
    return aligned(rows)


def week_plot(week: Sequence[WeekNight], text_bytes: int) -> str:
    """Draw the time per night, full and incremental; empty if a run failed."""
    if any(night.full.error or night.incremental.error for night in week):
        return ""
    groups = [
        Group(night.day, night.changes, [night.full.seconds, night.incremental.seconds])
        for night in week
    ]
    size = f"{text_bytes / 1e6:,.0f} MB of text on Monday, about 1 % more shards every night"
    legend = ("full run", "--incremental")
    return bar_plot("A week of nights", f"{size}, {JOBS} jobs", legend, groups, _FOOTER)
