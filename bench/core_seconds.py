"""`make bench-profile`: where the processor time of `normalize` and of bare recompression goes.

Both run with one job under `perf`, which counts samples by library and symbol. A table of patterns
turns symbols into categories. Samples become seconds by their share of the processor time of the
whole command.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.contenders import FLOOR, NORMALIZE, command_of
from bench.corpora import OUT, available, corpus
from bench.measure import Job, measure
from bench.tables import aligned

_FREQUENCY = 499  # samples per second; not a divisor of the kernel's timer


class Category(NamedTuple):
    """A row of `categories.txt`: patterns of the library and the symbol."""

    name: str
    library: str
    symbol: str


@cache
def _categories() -> list[Category]:
    text = Path(__file__).with_name("categories.txt").read_text(encoding="utf-8")
    rows = [row.split(" |", 2) for row in text.splitlines()[1:]]
    return [
        Category(name, *(pattern.strip().replace(",", "|") for pattern in patterns))
        for name, *patterns in rows
    ]


class Sample(NamedTuple):
    """How many samples hit a symbol."""

    hits: int
    library: str
    symbol: str


def parse_report(text: str) -> Iterator[Sample]:
    """Yield the rows of `perf report --stdio -t '|' --fields sample,dso,symbol`."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 3 and cells[0].isdigit():
            # After `[.]` in user space, `[k]` in the kernel.
            symbol = cells[2].partition("] ")[2]
            yield Sample(int(cells[0]), cells[1], symbol)


def by_category(samples: Iterable[Sample]) -> Counter[str]:
    """Count samples by category."""
    counts: Counter[str] = Counter()
    for sample in samples:
        matches = (
            category.name
            for category in _categories()
            if re.search(category.library, sample.library, re.IGNORECASE)
            and re.search(category.symbol, sample.symbol, re.IGNORECASE)
        )
        counts[next(matches)] += sample.hits
    return counts


def profile_table(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """A table of core-seconds: a row per category, and for each command seconds and shares."""
    names = dict.fromkeys(category.name for category in _categories())
    rows = [[name] for name in ("core-seconds", *names, "total")]
    for command, parts in seconds.items():
        total = sum(parts.values())
        rows[0] += [command, ""]
        rows[-1] += [f"{total:.2f}", ""]
        for row in rows[1:-1]:
            value = parts.get(row[0], 0.0)
            row += [f"{value:.2f}", f"{value / total:.1%}"]
    shown = {name for parts in seconds.values() for name, value in parts.items() if value >= 0.005}
    return aligned([rows[0], *(row for row in rows[1:-1] if row[0] in shown), rows[-1]])


def _record(contender: str, name: str, folder: Path) -> tuple[dict[str, float], list[Sample]]:
    """Run a contender under perf with one job; returns seconds by category, and all samples."""
    output = folder / "output"
    data = folder / "perf.data"
    output.mkdir()
    inputs = (str(corpus(name).directory),)
    job = Job(inputs=inputs, output=str(output), scratch=str(folder), jobs=1)
    perf = ["perf", "record", "--quiet", f"--freq={_FREQUENCY}", f"--output={data}", "--"]
    measured = measure([*perf, *command_of(contender, job)])
    if measured.error:
        raise SystemExit(
            f"`perf record` failed ({measured.error}); see /proc/sys/kernel/perf_event_paranoid"
        )
    report = f"perf report --input={data} --stdio -t | --fields sample,dso,symbol".split()
    text = subprocess.run(report, capture_output=True, text=True, check=True).stdout
    shutil.rmtree(output)
    samples = list(parse_report(text))
    counts = by_category(samples)
    return {
        category: measured.cpu_seconds * count / counts.total()
        for category, count in counts.items()
    }, samples


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile both commands and print the table."""
    parser = argparse.ArgumentParser(prog="bench.core_seconds", description=__doc__)
    default = "real-x10" if available("real-x10") else "mixed"
    parser.add_argument("--corpus", default=default, help="the shards to read")
    top = "print also the N symbols with most samples"
    parser.add_argument("--top", type=int, default=0, metavar="N", help=top)
    options = parser.parse_args(arguments)
    if not shutil.which("perf"):
        print("no profile: `perf` is not installed")
        return 1
    OUT.mkdir(parents=True, exist_ok=True)
    seconds = {}
    for contender in (FLOOR, NORMALIZE):
        with TemporaryDirectory(prefix="profile-", dir=OUT) as folder:
            seconds[contender], samples = _record(contender, options.corpus, Path(folder))
    print(f"{options.corpus}: {corpus(options.corpus).text_bytes / 1e6:,.0f} MB of text, one job\n")
    print(profile_table(seconds))
    total = sum(sample.hits for sample in samples)
    for hits, library, symbol in sorted(samples, reverse=True)[: options.top]:
        print(f"{hits / total:7.2%}  {library.partition('.')[0]:16} {symbol}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
