"""Trials: a contender on a corpus, several times, in turns with the others on the same corpus.

Noise only ever adds, and comes in waves: so contenders take turns, and the best of each counts. What takes long is not
repeated.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import msgspec

from bench.contenders import Job, command_of, contenders
from bench.corpora import LEVEL, OUT, corpus
from bench.measure import Measured, measure

__all__ = ["JOBS", "Results", "Trial", "better", "run_trials"]

JOBS: Final = 2
_LONG: Final = 40.0  # seconds from which a trial is not repeated


class Trial(msgspec.Struct, frozen=True):
    """A contender, the corpus, and how; `every` is for contenders that take hours for the whole of it."""

    contender: str
    corpus: str
    jobs: int = JOBS
    options: tuple[str, ...] = ()
    every: int = 1


Results = Mapping[Trial, Measured]


def run_trials(
    trials: Iterable[Trial], *, rounds: int = 3, tell: Callable[[str], None] = print, known: Results | None = None
) -> dict[Trial, Measured]:
    """Run trials in rounds, corpus by corpus, and give the best of each; `known` results take part in that."""
    best: dict[Trial, Measured] = dict(known or {})
    wanted = sorted(dict.fromkeys(trials), key=lambda trial: trial.corpus)
    for name, group in groupby(wanted, key=lambda trial: trial.corpus):
        tell(f"{name}: {corpus(name).text_bytes / 1e6:,.0f} MB of text in {len(corpus(name).shards):,} shards")
        some = list(group)
        for number in range(rounds):
            for trial in some:
                earlier = best.get(trial)
                if number and earlier and (earlier.error or earlier.seconds > _LONG):
                    continue
                result = _run(trial)
                best[trial] = better(earlier, result) if earlier else result
                tell(f"  {_described(trial)}: {result.error or f'{result.seconds:.2f} s'}")
    return best


def better(one: Measured, other: Measured) -> Measured:
    """The shorter times of two runs, and the larger memory: sampling can miss a peak, but not invent one."""
    if one.error or other.error:
        return other if one.error else one
    return Measured(
        seconds=min(one.seconds, other.seconds),
        cpu_seconds=min(one.cpu_seconds, other.cpu_seconds),
        peak_bytes=max(one.peak_bytes, other.peak_bytes),
        output_bytes=other.output_bytes,
    )


def _run(trial: Trial) -> Measured:
    source = corpus(trial.corpus)
    OUT.mkdir(parents=True, exist_ok=True)
    place = Path(mkdtemp(prefix="trial-", dir=OUT))
    output, scratch = place / "output", place / "scratch"
    output.mkdir()
    scratch.mkdir()
    inputs = (str(source.directory),) if trial.every == 1 else tuple(map(str, source.paths(trial.every)))
    job = Job(
        inputs=inputs,
        output=str(output),
        scratch=str(scratch),
        jobs=trial.jobs,
        level=LEVEL,
        options=trial.options,
    )
    try:
        measured = measure(command_of(contenders()[trial.contender], job))
        written = sum(path.stat().st_size for path in output.rglob("*.zst"))
        return msgspec.structs.replace(measured, output_bytes=written)
    finally:
        shutil.rmtree(place)


def _described(trial: Trial) -> str:
    options = " ".join(trial.options)
    part = f" on every {trial.every}th shard" if trial.every > 1 else ""
    return f"{trial.contender}, {trial.jobs} jobs{f', {options}' if options else ''}{part}"
