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
from pathlib import Path

import msgspec

from bench.contenders import CONTENDERS, FLOOR, NORMALIZE, NORMALIZERS, VALIDATE, VALIDATORS
from bench.corpora import OUT, Corpus, available, corpus
from bench.figures import FIGURES, trial_values, trials_of
from bench.history import commit, machine
from bench.measure import Measured
from bench.tables import aligned, shown, target_of
from bench.trials import JOBS, Trial, run_trials

_ROOT = Path(__file__).parents[1]
_START = "<!-- peers -->"
_END = "<!-- /peers -->"
_EVERY = {
    "jsonschema + strict json": 10
}  # slow contenders get every tenth shard; throughputs are compared
_DESCRIPTIONS = {
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
    rows = _rows(sheet, sheet.rows[0].trial.corpus, "normalize")
    table = _table(rows, ("time", "memory", "output"))
    return f"{_heading(sheet, rows, 'normalize')}\n\n{table}\n\n{_conditions(sheet)}"


def full_tables(sheet: Sheet) -> str:
    """The block of docs/benchmarks.md: every contender on every corpus.

    What a contender leaves out is said in the first table of its command.
    """
    blocks = [_conditions(sheet)]
    explained: set[str] = set()
    described = ""
    columns = ("time", "MB/s", "processor time", "memory")
    for name in dict.fromkeys(row.trial.corpus for row in sheet.rows):
        for title in ("normalize", "validate"):
            if rows := _rows(sheet, name, title):
                shown_columns = (*columns, "output") if title == "normalize" else columns
                table = _table(rows, shown_columns, explain=title not in explained)
                explained.add(title)
                heading = _heading(sheet, rows, title)
                if described == name:
                    heading = f"**{title}**: the same lines."
                described = name
                blocks.append(f"{heading}\n\n{table}")
    return "\n\n".join(blocks)


def _rows(sheet: Sheet, name: str, title: str) -> list[Row]:
    """The rows of a table, of which the first is that of fastrec."""
    peers = NORMALIZERS if title == "normalize" else VALIDATORS
    labels = {f"fastrec {title}", *(peer.label for peer in peers)}
    of_corpus = [row for row in sheet.rows if row.trial.corpus == name]
    return [row for row in of_corpus if row.trial.contender in labels]


def _heading(sheet: Sheet, rows: Sequence[Row], title: str) -> str:
    name = rows[0].trial.corpus
    size = sheet.corpora[name]
    text = f"{size.text_bytes / 1e6:,.0f} MB of text"
    files = f"{len(size.shards):,} zstd shards ({size.file_bytes / 1e6:,.0f} MB)"
    return f"**{title}**: {size.lines:,} {_DESCRIPTIONS[name]}. {text} in {files}."


def _table(rows: Sequence[Row], columns: Sequence[str], *, explain: bool = True) -> str:
    last_column = ["leaves out"] if explain else []
    lines = [
        f"| | {' | '.join([*columns, *last_column])} |",
        f"|---|{'--:|' * len(columns)}{'---|' * explain}",
    ]
    for row in rows:
        measured = row.measured
        label = row.trial.contender.replace("|", "\\|")
        label = f"**{label}**" if label.startswith("fastrec") else label
        if row.trial.every > 1:
            label += f" (every {row.trial.every}th shard)"
        cells = [f"fails: {measured.error}", *[""] * (len(columns) - 1)]
        if not measured.error:
            megabytes = row.text_bytes / 1e6
            values = {
                "time": f"{measured.seconds:.2f} s",
                "MB/s": f"{megabytes / measured.seconds:,.0f}",
                "processor time": f"{measured.cpu_seconds:.1f} s",
                "memory": f"{measured.peak_bytes / 1e6:,.0f} MB",
                "output": f"{measured.output_bytes / 1e6:,.0f} MB",
            }
            cells = [values[column] for column in columns]
        if explain:
            cells.append(CONTENDERS[row.trial.contender].leaves_out or "nothing")
        lines.append(f"| {' | '.join([label, *cells])} |")
    return "\n".join(lines)


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
    blocks = {"README.md": short_table(sheet), "docs/benchmarks.md": full_tables(sheet)}
    for name, block in blocks.items():
        page = _ROOT / name
        page.write_text(put_block(page.read_text(), block))
        print(f"\n{block}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
