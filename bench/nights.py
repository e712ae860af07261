"""`--set nights`: `normalize --incremental` as shares of a full run, and a week of nights.

Nights are measured as whole processes. After every incremental night, all files of the corpus are
compared with those of a full run over the same pile, which is not part of the time. Full runs and
first nights begin without a corpus, and every other night begins with the state that the night
before left: see `Snapshot`.
"""

import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.contenders import NORMALIZE, command_of
from bench.corpora import OUT, corpus
from bench.figures import Value, measured_on
from bench.logs import files_in
from bench.measure import Job, Measured, measure
from bench.piles import Change, Pile, Snapshot, Stock, described, lay_out
from bench.plots import Group, bar_plot
from bench.tables import aligned, shown, target_of
from bench.trials import JOBS, better

Execute = Callable[[Job], Measured]
Runs = Mapping[str, Measured]  # The best result of each night.
Digests = set[tuple[str, str]]  # Names of files and their SHA-256.

CORPUS = "real-x10"
FULL = "full run"
FIRST = "first night"
SMALL = "nothing changed, a tenth of the shards and records"
TEN_TIMES = "nothing changed, a tenth of the shards"
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NIGHTS: Mapping[str, Change] = _TABLE["nights"]
WEEK: Mapping[str, Change] = _TABLE["week"]
_VERSION = "nights-1"  # increase it if nights become incomparable with earlier ones
_FOOTER = (
    "Large models are new models on the evaluation that has most of the text, where the removed "
    "shard is too; small models are on another one."
)


def execute_normalize(job: Job) -> Measured:
    """Run `fastrec normalize` in a fresh process and measure it."""
    return measure(command_of(NORMALIZE, job))


class Desk:
    """A pile, the state beside it (the corpus and the kept work), and full runs to compare with."""

    def __init__(self, folder: Path, execute: Execute = execute_normalize) -> None:
        self._pile = folder / "pile"
        self._state = folder / "state"
        self._full = folder / "full"
        self._store = folder / "snapshot"
        self._execute = execute
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
        return self._execute(job)


def _digests(output: Path) -> Digests:
    """The SHA-256 of every file of a corpus."""
    folder = output / "corpus"
    return {
        (str(path.relative_to(folder)), sha256(path.read_bytes()).hexdigest())
        for path in files_in(folder)
    }


def run_nights(
    stock: Stock, folder: Path, *, rounds: int, execute: Execute = execute_normalize
) -> dict[str, Measured]:
    """Measure all nights in turns."""
    best: dict[str, Measured] = {}

    def note(name: str, measured: Measured) -> None:
        best[name] = _better(best.get(name), measured)
        print(f"  {name}: {_seconds(measured)}")

    desk = Desk(folder / "base", execute)
    piles = {name: stock.after(stock.base, change) for name, change in NIGHTS.items()}
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


def run_week(
    stock: Stock, folder: Path, *, rounds: int, execute: Execute = execute_normalize
) -> dict[str, Measured]:
    """Measure seven nights in a row, each with about 1 % more shards, and a full run beside each.

    The first begins without a corpus.
    """
    desk = Desk(folder / "week", execute)
    pile = stock.base
    before: Snapshot | None = None
    best: dict[str, Measured] = {}
    for day, change in WEEK.items():
        pile = stock.after(pile, change)
        full = in_full(day)
        for _ in range(rounds):
            best[full] = _better(best.get(full), desk.full(pile))
            if before:
                before.restore()
            night = desk.night(pile) if before else desk.first(pile)
            best[day] = _better(best.get(day), night)
        times = f"{_seconds(best[full])} in full, {_seconds(best[day])} with --incremental"
        print(f"  {day}, {len(pile)} shards: {times}")
        before = desk.snapshot()
    return best


def in_full(day: str) -> str:
    """The name of the full run of a day of the week."""
    return f"{day}, {FULL}"


def _better(best: Measured | None, run: Measured) -> Measured:
    """The better of two runs; failed if one of them failed, since every night must be right."""
    if best is None or run.error:
        return run
    return best if best.error else better(best, run)


def _seconds(measured: Measured) -> str:
    return measured.error or f"{measured.seconds:.2f} s"


def measure_nights(rounds: int) -> tuple[list[Value], str]:
    """Measure all nights and the week; returns the figures, and the picture of the week."""
    source = corpus(CORPUS)
    size = source.text_bytes
    with TemporaryDirectory(prefix="nights-", dir=OUT) as name:
        folder = Path(name)
        print(f"nights: {size / 1e6:,.0f} MB of text in {len(source.shards):,} shards")
        stock = Stock(source.paths(), folder / "stock", size)
        nights = run_nights(stock, folder, rounds=rounds)
        print("a week of nights")
        week = run_week(stock, folder, rounds=rounds)
    values = night_values({**nights, **week}, size)
    print(f"\n{night_table(nights, values)}\n")
    return values, week_plot(week, size)


def better_night(known: Value, value: Value) -> Value:
    """The better of two results; a failure counts, since every night must be right."""
    is_better = value.value is None or known.value is None or value.value < known.value
    return value if known.value is not None and is_better else known


def night_values(nights: Runs, text_bytes: int) -> list[Value]:
    """The figures of nights and a week of them.

    The last one is the size of all files in the work directory after the first night ÷ the text.
    """
    values = []
    for row in _TABLE["figures"]:
        name = row["name"]
        runs = [nights[night] for night in row.get("nights", [name])]
        others = [nights[night] for night in row.get("others", [FULL])]
        ratio = sum(run.seconds for run in runs) / sum(run.seconds for run in others)
        values.append(_value(name, ratio, [*runs, *others], row.get("target")))
    first = nights[FIRST]
    ratio = first.output_bytes / text_bytes
    return [*values, _value("kept work / text", ratio, [first], 0.5)]


def _value(name: str, ratio: float, runs: Iterable[Measured], target: float | None) -> Value:
    error = "; ".join(dict.fromkeys(run.error for run in runs if run.error)) or None
    value = None if error else ratio
    return Value(
        name=f"night: {name}",
        value=value,
        relative=value,
        of=f"{measured_on([CORPUS])} {_VERSION}",
        target=target,
        tolerance=0.3,  # most nights are short
        error=error,
    )


def night_table(nights: Runs, values: Sequence[Value]) -> str:
    """The nights with their times, shares of a full run, and targets."""
    times = {name: _seconds(night) for name, night in nights.items()}
    cells = {
        value.name.removeprefix("night: "): (shown(value), target_of(value)) for value in values
    }
    rows = [("night", "time", "share of a full run", "target")]
    rows += [
        (name, times.get(name, ""), *cells.get(name, ("", "")))
        for name in dict.fromkeys((*times, *cells))
    ]
    return aligned(rows)


def week_plot(week: Runs, text_bytes: int) -> str:
    """Draw the time per night, full and incremental; empty if a run failed."""
    if any(night.error for night in week.values()):
        return ""
    groups = [
        Group(day, described(change) or [FIRST], [week[in_full(day)].seconds, week[day].seconds])
        for day, change in WEEK.items()
    ]
    size = f"{text_bytes / 1e6:,.0f} MB of text on Monday, about 1 % more shards every night"
    legend = ("full run", "--incremental")
    return bar_plot("A week of nights", f"{size}, {JOBS} jobs", legend, groups, _FOOTER)
