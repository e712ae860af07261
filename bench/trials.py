"""Trials: run contenders on a corpus in turns, several times, and keep the best result of each.

Noise only adds time, and it comes in waves. So contenders take turns, and the best result of each
counts. Long trials run once.
"""

import shutil
from collections.abc import Iterable, Mapping
from itertools import groupby, product
from pathlib import Path
from tempfile import mkdtemp

import msgspec

from bench.contenders import command_of
from bench.corpora import OUT, corpus
from bench.measure import Job, Measured, measure

JOBS = 2
_LONG = 40.0  # seconds; a longer trial is not repeated


class Trial(msgspec.Struct, frozen=True):
    """A contender on a corpus. A contender that would take hours reads only every `every`-th shard.

    A trial `beside` another corpus runs with those on that corpus, so that both find the machine in
    the same state. It runs in the first round only. If there are several, they have numbers.
    """

    contender: str
    corpus: str
    jobs: int = JOBS
    options: tuple[str, ...] = ()
    every: int = 1
    beside: str = ""
    number: int = 0

    @property
    def group(self) -> str:
        """The corpus with whose trials it runs."""
        return self.beside or self.corpus


Results = Mapping[Trial, Measured]


def run_trials(
    trials: Iterable[Trial],
    *,
    rounds: int = 3,
    known: Results | None = None,
) -> dict[Trial, Measured]:
    """Run trials in rounds, corpus by corpus; the best result of each, `known` ones included."""
    best: dict[Trial, Measured] = dict(known or {})
    wanted = sorted(dict.fromkeys(trials), key=lambda trial: trial.group)
    for name, group in groupby(wanted, key=lambda trial: trial.group):
        print(
            f"{name}: {corpus(name).text_bytes / 1e6:,.0f} MB of text in "
            f"{len(corpus(name).shards):,} shards"
        )
        for number, trial in product(range(rounds), list(group)):
            previous = best.get(trial)
            is_done = previous and (previous.error or previous.seconds > _LONG or trial.beside)
            if number and is_done:
                continue
            result = _run(trial)
            best[trial] = better(previous, result) if previous else result
            print(f"  {_described(trial)}: {result.error or f'{result.seconds:.2f} s'}")
    return best


def better(one: Measured, other: Measured) -> Measured:
    """The shorter times and the larger memory of two runs: sampling can miss a peak."""
    if one.error or other.error:
        return other if one.error else one
    shorter = ("seconds", "cpu_seconds", "read_bytes", "written_bytes")
    least = {name: min(getattr(one, name), getattr(other, name)) for name in shorter}
    return msgspec.structs.replace(other, peak_bytes=max(one.peak_bytes, other.peak_bytes), **least)


def _run(trial: Trial) -> Measured:
    source = corpus(trial.corpus)
    folder = Path(mkdtemp(prefix="trial-", dir=OUT))
    output = folder / "output"
    scratch = folder / "scratch"
    output.mkdir()
    scratch.mkdir()
    inputs = [source.directory] if trial.every == 1 else source.paths(trial.every)
    job = Job(
        inputs=tuple(map(str, inputs)),
        output=str(output),
        scratch=str(scratch),
        jobs=trial.jobs,
        options=trial.options,
    )
    try:
        measured = measure(command_of(trial.contender, job))
        written = sum(path.stat().st_size for path in output.rglob("*.zst"))
        return msgspec.structs.replace(measured, output_bytes=written)
    finally:
        shutil.rmtree(folder)


def _described(trial: Trial) -> str:
    options = " ".join(trial.options)
    part = f" on every {trial.every}th shard" if trial.every > 1 else ""
    beside = f", {trial.corpus}" if trial.beside else ""
    return f"{trial.contender}, {trial.jobs} jobs{f', {options}' if options else ''}{part}{beside}"
