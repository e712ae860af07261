"""`make bench-peers`: all contenders on the same corpora, as tables for README.md and docs/benchmarks.md.

Each page has a block between `<!-- peers -->` and `<!-- /peers -->` that only this module writes.
The measurements are saved to `out/bench/peers.json`, so that `--render` can write the blocks again
without measuring.
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

from bench.contenders import CONTENDERS, FLOOR, NORMALIZE, VALIDATE
from bench.corpora import OUT, available, corpus
from bench.figures import FIGURES, trials_of
from bench.history import commit, machine
from bench.measure import Measured
from bench.peers import NORMALIZERS
from bench.tables import aligned, number, target_of
from bench.trials import JOBS, Trial, run_trials
from bench.validators import VALIDATORS
from bench.values import trial_values

__all__ = ["CorpusSize", "Row", "Sheet", "full_tables", "main", "put_block", "short_table"]

_ROOT: Final = Path(__file__).parents[1]
_START = "<!-- peers -->"
_END = "<!-- /peers -->"
_EVERY: Final = {
    "jsonschema + strict json": 10
}  # slow contenders get every tenth shard; throughputs are compared
_DESCRIPTIONS: Final = {
    "real-x10": (
        "lines from three evaluations and 240 models, of which 24 are real and 216 were made from "
        "them by moving "
        "answers between questions"
    ),
    "mixed": "generated lines: single-turn, multi-turn and agentic",
    "alpaca-x10": (
        "lines from one evaluation and 210 models, of which 21 are real and 189 were made from "
        "them by moving answers "
        "between questions; each key has values of one type"
    ),
    "real": "lines from three evaluations and 24 models, all real",
    "many-evaluations": "generated lines of version 0.3.0 from 300 small evaluations and three "
    "models",
    "transcripts": "generated lines of version 0.3.0: long transcripts of agents",
}


class Row(msgspec.Struct, frozen=True):
    """A contender on a corpus."""

    trial: Trial
    measured: Measured
    text_bytes: int
    """The text that it processed: less than the whole corpus if it got only some shards."""


class CorpusSize(msgspec.Struct, frozen=True):
    """How large a corpus is."""

    lines: int
    shards: int
    text_bytes: int
    file_bytes: int


class Sheet(msgspec.Struct, frozen=True):
    """Everything that the tables show."""

    date: str
    machine: str
    python: str
    commit: str
    rows: list[Row]
    corpora: dict[str, CorpusSize]


def _trials() -> list[Trial]:
    normalizing = [NORMALIZE, *(peer.label for peer in NORMALIZERS)]
    validating = [VALIDATE, *(peer.label for peer in VALIDATORS)]
    wanted = {
        "real-x10": [*normalizing, *validating],
        "mixed": [*normalizing, *validating],
        "alpaca-x10": normalizing,  # validating is the same work as on real-x10
        "real": [NORMALIZE, FLOOR],
        # The peers compute hashes of version 0.2.0, or validate by it.
        "many-evaluations": [NORMALIZE, FLOOR],
        "transcripts": [NORMALIZE, FLOOR],
    }
    return [
        Trial(label, name, every=_EVERY.get(label, 1))
        for name, labels in wanted.items()
        if available(name)
        for label in labels
    ]


def _measure(rounds: int) -> Sheet:
    trials = _trials()
    # A contender that is in no figure only fills a row of a table.
    results = run_trials(trials, rounds=rounds, twice=set(trials) - set(trials_of(FIGURES)))
    figures = [figure for figure in FIGURES if results.keys() >= set(figure.trials)]
    rows = [("figure", "now", "target")]
    rows += [
        (value.name, value.error or number(value.value, value.unit), target_of(value))
        for value in trial_values(figures, results, 1.0)
    ]
    print(f"\n{aligned(rows)}\n")
    sources = [corpus(name) for name in dict.fromkeys(trial.corpus for trial in trials)]
    return Sheet(
        datetime.now(UTC).date().isoformat(),
        str(machine()),
        platform.python_version(),
        commit(),
        [Row(trial, results[trial], _text_bytes(trial)) for trial in trials],
        {
            it.name: CorpusSize(it.lines, len(it.shards), it.text_bytes, it.file_bytes)
            for it in sources
        },
    )


def _text_bytes(trial: Trial) -> int:
    """The text in the shards of a trial, estimated from their share of the compressed bytes."""
    source = corpus(trial.corpus)
    files = sum(path.stat().st_size for path in source.paths(trial.every))
    return round(source.text_bytes * files / source.file_bytes)


def _conditions(sheet: Sheet) -> str:
    return (
        f"Measured on {sheet.date} at commit `{sheet.commit}`: {sheet.machine}, Python "
        f"{sheet.python}, {JOBS} jobs, "
        "zstd level 3. Each tool ran in fresh processes; the best of several turns counts. Time "
        "is wall time, memory "
        "the peak over all processes. fastrec has its default memory limit of 512 MiB per job, "
        "`sort` one of 1 GiB; a "
        "tool whose name does not say so, such as DuckDB, has no memory limit."
    )


def short_table(sheet: Sheet) -> str:
    """The block of README.md: `normalize` on the first corpus."""
    name = sheet.rows[0].trial.corpus
    rows = [
        row
        for row in sheet.rows
        if row.trial.corpus == name and row.trial.contender in _labels(NORMALIZE)
    ]
    lines = [
        _heading(sheet, name, "normalize"),
        "",
        "| | time | memory | output | leaves out |",
        "|---|--:|--:|--:|---|",
    ]
    for row in rows:
        measured = row.measured
        cells = [_label(row), f"fails: {measured.error}", "", ""]
        if not measured.error:
            cells[1:] = [
                f"{measured.seconds:.2f} s",
                _megabytes(measured.peak_bytes),
                _megabytes(measured.output_bytes),
            ]
        lines.append(f"| {' | '.join([*cells, _leaves_out(row)])} |")
    return "\n".join([*lines, "", _conditions(sheet)])


def full_tables(sheet: Sheet) -> str:
    """The block of docs/benchmarks.md: every contender on every corpus."""
    blocks = [_conditions(sheet)]
    for name in dict.fromkeys(row.trial.corpus for row in sheet.rows):
        for title, leader in (("normalize", NORMALIZE), ("validate", VALIDATE)):
            labels = _labels(leader)
            rows = [
                row
                for row in sheet.rows
                if row.trial.corpus == name and row.trial.contender in labels
            ]
            if rows:
                blocks.append(f"{_heading(sheet, name, title)}\n\n{_table(leader, rows)}")
    return "\n\n".join(blocks)


def _labels(leader: str) -> set[str]:
    return {leader, *(peer.label for peer in (NORMALIZERS if leader == NORMALIZE else VALIDATORS))}


def _heading(sheet: Sheet, name: str, title: str) -> str:
    size = sheet.corpora[name]
    return (
        f"**{title}**: {size.lines:,} {_DESCRIPTIONS[name]}. {size.text_bytes / 1e6:,.0f} MB of "
        "text "
        f"in {size.shards:,} zstd shards ({size.file_bytes / 1e6:,.0f} MB)."
    )


def _table(leader: str, rows: Sequence[Row]) -> str:
    writes = leader == NORMALIZE
    lines = [
        (
            f"| | time | MB/s | relative | processor time | memory |{' output |' if writes else ''} "
            "leaves out |"
        ),
        f"|---|--:|--:|--:|--:|--:|{'--:|' if writes else ''}---|",
    ]
    speed = _speed(next(row for row in rows if row.trial.contender == leader))
    return "\n".join(lines + [_line(row, speed, writes=writes) for row in rows])


def _speed(row: Row) -> float:
    return row.text_bytes / 1e6 / row.measured.seconds


def _label(row: Row) -> str:
    label = row.trial.contender
    label = f"**{label}**" if label.startswith("fastrec") else label.replace("|", "\\|")
    return label + (f" (every {row.trial.every}th shard)" if row.trial.every > 1 else "")


def _leaves_out(row: Row) -> str:
    return CONTENDERS[row.trial.contender].leaves_out or "nothing"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _line(row: Row, speed: float, *, writes: bool) -> str:
    measured = row.measured
    if measured.error:
        cells = [_label(row), f"fails: {measured.error}", *[""] * (5 if writes else 4)]
    else:
        cells = [
            _label(row),
            f"{measured.seconds:.2f} s",
            f"{_speed(row):,.0f}",
            f"{_speed(row) / speed:.2f}",
            f"{measured.cpu_seconds:.1f} s",
            _megabytes(measured.peak_bytes),
            *([_megabytes(measured.output_bytes)] if writes else []),
        ]
    return f"| {' | '.join([*cells, _leaves_out(row)])} |"


def put_block(text: str, block: str) -> str:
    """Replace the text between the two markers; ValueError if they are missing."""
    before, start, rest = text.partition(_START)
    _, end, after = rest.partition(_END)
    if not start or not end:
        raise ValueError(f"the text has no {_START} … {_END}")
    return f"{before}{_START}\n{block}\n{_END}{after}"


def main(arguments: Iterable[str] | None = None) -> int:
    """Measure, and write the blocks."""
    parser = argparse.ArgumentParser(
        prog="bench.peer_tables", description="Compare with other tools."
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="how often each tool runs; the best counts"
    )
    parser.add_argument(
        "--render", action="store_true", help="write the tables of the last measurement again"
    )
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    saved = OUT / "peers.json"
    if not options.render:
        saved.write_bytes(msgspec.json.encode(_measure(options.rounds)))
    sheet = msgspec.json.decode(saved.read_bytes(), type=Sheet)
    for name, block in (
        ("README.md", short_table(sheet)),
        ("docs/benchmarks.md", full_tables(sheet)),
    ):
        page = _ROOT / name
        page.write_text(put_block(page.read_text(), block))
        print(f"\n{block}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
