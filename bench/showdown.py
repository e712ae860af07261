"""`make bench-peers`: all contenders on the same corpora, as tables for the README.

The block between `<!-- peers -->` and `<!-- /peers -->` is written by this and by nobody else. What was measured is
kept in `out/bench/peers.json`, so that `--render` can write the block again without measuring.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from bench.contenders import contenders
from bench.corpora import OUT, available, corpus
from bench.figures import NORMALIZE, VALIDATE, figures_of, trials_of
from bench.history import commit, machine
from bench.measure import Measured
from bench.peers import NORMALIZING
from bench.tables import aligned, number, target_of
from bench.trials import JOBS, Trial, run_trials
from bench.validators import VALIDATING
from bench.values import trial_values

__all__ = ["main", "put_block", "render"]

_README: Final = Path(__file__).parents[1] / "README.md"
_START, _END = "<!-- peers -->", "<!-- /peers -->"
_SLOW: Final = {"jsonschema + strict json": 10}  # it gets every tenth shard, and its time counts tenfold
_KINDS: Final = {
    "real-x10": "real records of three evaluations and 240 models",
    "mixed": "generated records, single-turn, multi-turn and agentic",
    "alpaca-x10": "real records of one evaluation, each key with values of one type",
}


class Row(msgspec.Struct, frozen=True):
    """A contender on a corpus."""

    trial: Trial
    measured: Measured
    text_bytes: int
    """That it went through: less than the whole corpus, if it got only some shards."""


class Sheet(msgspec.Struct, frozen=True):
    """All that a block is made of."""

    date: str
    machine: str
    python: str
    commit: str
    rows: list[Row]


def _trials() -> list[Trial]:
    normalizing = [NORMALIZE, *(peer.label for peer in NORMALIZING)]
    validating = [VALIDATE, *(peer.label for peer in VALIDATING)]
    wanted = {
        "real-x10": [*normalizing, *validating],
        "mixed": [*normalizing, *validating],
        "alpaca-x10": normalizing,  # validating is the same work as on real-x10
    }
    return [
        Trial(label, name, every=_SLOW.get(label, 1))
        for name, labels in wanted.items()
        if available(name)
        for label in labels
    ]


def _sheet(rounds: int) -> Sheet:
    figures = figures_of(["peers"])
    trials = _trials()
    results = run_trials([*trials, *trials_of(figures)], rounds=rounds)
    rows = [("figure", "now", "target")]
    rows += [
        (value.name, value.error or number(value.value, value.unit), target_of(value))
        for value in trial_values(figures, results, 1.0)
    ]
    print(f"\n{aligned(rows)}\n")
    return Sheet(
        datetime.now(UTC).date().isoformat(),
        str(machine()),
        platform.python_version(),
        commit(),
        [Row(trial, results[trial], _text_bytes(trial)) for trial in trials],
    )


def _text_bytes(trial: Trial) -> int:
    """The text of a share of the shards, at the ratio of the whole."""
    source = corpus(trial.corpus)
    files = sum(path.stat().st_size for path in source.paths(trial.every))
    return round(source.text_bytes * files / source.file_bytes)


def render(sheet: Sheet) -> str:
    """Write the block."""
    how = (
        f"Measured on {sheet.date} at commit `{sheet.commit}`: {sheet.machine}, Python {sheet.python}, {JOBS} jobs, "
        "zstd level 3, each in fresh processes, the best of several turns; time is wall time, memory the peak over all "
        "processes. `make bench-peers` measures and writes this anew; [bench/README.md](bench/README.md) says how."
    )
    tables = []
    for name in dict.fromkeys(row.trial.corpus for row in sheet.rows):
        rows = [row for row in sheet.rows if row.trial.corpus == name]
        for title, leader in (("normalize", NORMALIZE), ("validate", VALIDATE)):
            peers = NORMALIZING if leader == NORMALIZE else VALIDATING
            labels = {leader, *(peer.label for peer in peers)}
            some = [row for row in rows if row.trial.contender in labels]
            if some:
                tables.append(_table(name, title, leader, some))
    first, *others = tables
    fold = ["<details><summary>Validating, generated records, and records that every peer can read</summary>"]
    return "\n\n".join([first, how, *fold, *others, "</details>"])


def _table(name: str, title: str, leader: str, rows: Sequence[Row]) -> str:
    source = corpus(name)
    head = (
        f"**{title}**: {_KINDS[name]}, {source.lines:,} lines, {source.text_bytes / 1e6:,.0f} MB of text "
        f"in {len(source.shards):,} shards of {source.file_bytes / 1e6:,.0f} MB together"
    )
    writes = leader == NORMALIZE
    lines = [
        head,
        "",
        f"| | time | MB/s | relative | processor time | memory |{' output |' if writes else ''} leaves out |",
        f"|---|--:|--:|--:|--:|--:|{'--:|' if writes else ''}---|",
    ]
    speed = _speed(next(row for row in rows if row.trial.contender == leader))
    lines += [_line(row, speed, writes=writes) for row in rows]
    return "\n".join(lines)


def _speed(row: Row) -> float:
    return row.text_bytes / 1e6 / row.measured.seconds


def _line(row: Row, speed: float, *, writes: bool) -> str:
    contender = contenders()[row.trial.contender]
    measured, label = row.measured, contender.label
    label = f"**{label}**" if label.startswith("fastrec") else label.replace("|", "\\|")
    if row.trial.every > 1:
        label += f" (every {row.trial.every}th shard)"
    if measured.error:
        cells = [label, f"fails: {measured.error}", *[""] * (5 if writes else 4), contender.leaves_out]
    else:
        cells = [
            label,
            f"{measured.seconds:.2f} s",
            f"{_speed(row):,.0f}",
            f"{_speed(row) / speed:.2f}",
            f"{measured.cpu_seconds:.1f} s",
            f"{measured.peak_bytes / 1e6:,.0f} MB",
            *([f"{measured.output_bytes / 1e6:,.1f} MB"] if writes else []),
            contender.leaves_out or "nothing",
        ]
    return f"| {' | '.join(cells)} |"


def put_block(text: str, block: str) -> str:
    """Put a block between its marks; ValueError if they are not there."""
    before, start, rest = text.partition(_START)
    _, end, after = rest.partition(_END)
    if not start or not end:
        raise ValueError(f"there is no {_START} … {_END} in the text")
    return f"{before}{_START}\n{block}\n{_END}{after}"


def main(arguments: Iterable[str] | None = None) -> int:
    """Measure, and write the block."""
    parser = argparse.ArgumentParser(prog="bench.showdown", description="Compare with peers; write README's tables.")
    parser.add_argument("--rounds", type=int, default=2, help="how often each runs; the best counts")
    parser.add_argument("--render", action="store_true", help="write the block of the last measurement again")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    kept = OUT / "peers.json"
    if not options.render:
        sheet = _sheet(options.rounds)
        kept.write_bytes(msgspec.json.encode(sheet))
    sheet = msgspec.json.decode(kept.read_bytes(), type=Sheet)
    _README.write_text(put_block(_README.read_text(), render(sheet)))
    print(render(sheet))
    return 0


if __name__ == "__main__":
    sys.exit(main())
