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
from collections.abc import Iterable, Iterator, Sequence
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


def profile_table(contender: str, seconds: float, samples: Iterable[Sample]) -> str:
    """A table of core-seconds by category, of a contender that took so many."""
    counts = by_category(samples)
    rows = [(contender, "core-seconds", "share")]
    for name, count in (*counts.most_common(), ("total", counts.total())):
        share = count / counts.total()
        rows.append((name, f"{seconds * share:.2f}", f"{share:.1%}"))
    return aligned(rows)


def _profiled(contender: str, name: str, folder: Path) -> str:
    """Run a contender under perf with one job, and return its table."""
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
    return profile_table(contender, measured.cpu_seconds, parse_report(text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile both commands and print the table."""
    parser = argparse.ArgumentParser(prog="bench.core_seconds", description=__doc__)
    default = "real-x10" if available("real-x10") else "mixed"
    parser.add_argument("--corpus", default=default, help="the shards to read")
    options = parser.parse_args(arguments)
    if not shutil.which("perf"):
        print("no profile: `perf` is not installed")
        return 1
    OUT.mkdir(parents=True, exist_ok=True)
    print(f"{options.corpus}: {corpus(options.corpus).text_bytes / 1e6:,.0f} MB of text, one job")
    for contender in (FLOOR, NORMALIZE):
        with TemporaryDirectory(prefix="profile-", dir=OUT) as folder:
            print(f"\n{_profiled(contender, options.corpus, Path(folder))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
