"""`make bench-peers`: tables of all contenders for README.md and docs/benchmarks.md.

Each page has a block between `<!-- peers -->` and `<!-- /peers -->` that only this module writes.
The measurements are saved to `out/bench/peers.json`, so that `--render` can write the blocks again
without measuring.
"""

import argparse
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from bench.corpora import OUT, Corpus, available, corpus
from bench.figures import FIGURES, trial_values
from bench.history import commit, machine
from bench.measure import Measured
from bench.tables import aligned, shown, target_of
from bench.templates import table, template
from bench.trials import JOBS, Trial, run_trials

_ROOT = Path(__file__).parents[1]
_START = "<!-- peers -->"
_END = "<!-- /peers -->"
_TABLE = table("peers.toml")


class Row(msgspec.Struct, frozen=True):
    """A contender on a corpus."""

    trial: Trial
    measured: Measured
    # The text that it processed: less than the whole corpus if it got only some shards.
    text_bytes: int


class Sheet(msgspec.Struct, frozen=True):
    """Everything that the tables show."""

    date: str
    machine: str
    python: str
    commit: str
    rows: list[Row]
    corpora: dict[str, Corpus]


def _trials() -> list[Trial]:
    return [
        Trial(label, name, every=_TABLE["every"].get(label, 1))
        for name, about in _TABLE["corpora"].items()
        if available(name)
        for command in about["contenders"]
        for label in _TABLE["contenders"][command]
    ]


def _measure(rounds: int) -> Sheet:
    trials = _trials()
    results = run_trials(trials, rounds=rounds)
    figures = [figure for figure in FIGURES if results.keys() >= set(figure.trials)]
    rows = [("figure", "now", "target")]
    rows += [
        (value.name, shown(value), target_of(value))
        for value in trial_values(figures, results, 1.0)
    ]
    print(f"\n{aligned(rows)}\n")
    return Sheet(
        datetime.now(UTC).date().isoformat(),
        str(machine()),
        platform.python_version(),
        commit(),
        [Row(trial, results[trial], _text_bytes(trial)) for trial in trials],
        {trial.corpus: corpus(trial.corpus) for trial in trials},
    )


def _text_bytes(trial: Trial) -> int:
    """The text in the shards of a trial, estimated from their share of the compressed bytes."""
    source = corpus(trial.corpus)
    files = sum(path.stat().st_size for path in source.paths(trial.every))
    return round(source.text_bytes * files / source.file_bytes)


def blocks_of(sheet: Sheet) -> dict[str, str]:
    """The block of each page.

    What a contender leaves out is said in README.md, or in the first table of its command there.
    """
    tables: list[dict[str, Any]] = []
    for name, title in product(sheet.corpora, ("normalize", "validate")):
        rows = [row for row in sheet.rows if row.trial.corpus == name]
        leaves_out = _TABLE["contenders"][title]
        rows = [row for row in rows if row.trial.contender in leaves_out]
        if rows:
            table = {"title": title, "rows": rows, "corpus": sheet.corpora[name]}
            table["description"] = _TABLE["corpora"][name]["description"]
            table["leaves_out"] = leaves_out
            # What leaves out what is said once; of `normalize`, in README.md.
            table["explain"] = title == "validate" and name == next(iter(sheet.corpora))
            tables.append(table)
    pages = template("peers.md")
    return {
        "README.md": pages.short(sheet, tables, JOBS),
        "docs/benchmarks.md": pages.full(sheet, tables, JOBS).strip(),
    }


def put_block(text: str, block: str) -> str:
    """Replace the text between the two markers; ValueError if they are missing."""
    before, start, rest = text.partition(_START)
    _, end, after = rest.partition(_END)
    if not start or not end:
        raise ValueError(f"the text has no {_START} … {_END}")
    return f"{before}{_START}\n{block}\n{_END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the blocks."""
    parser = argparse.ArgumentParser(prog="bench.peer_tables", description=__doc__)
    rounds = "how often each tool runs; the best counts"
    parser.add_argument("--rounds", type=int, default=5, help=rounds)
    render = "write the tables of the last measurement again"
    parser.add_argument("--render", action="store_true", help=render)
    options = parser.parse_args(arguments)
    saved = OUT / "peers.json"
    if not options.render:
        saved.write_bytes(msgspec.json.encode(_measure(options.rounds)))
    sheet = msgspec.json.decode(saved.read_bytes(), type=Sheet)
    for name, block in blocks_of(sheet).items():
        page = _ROOT / name
        page.write_text(put_block(page.read_text(), block))
        print(f"\n{block}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
