"""`make bench-profile`: where the processor time of `normalize` goes, beside that of bare recompression.

Both run with one job under `perf`, which counts samples by library and symbol. A table of patterns
turns symbols into categories. Samples become seconds by their share of the processor time of the
whole command.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from bench.contenders import CONTENDERS, FLOOR, NORMALIZE, command_of
from bench.corpora import LEVEL, OUT, available, corpus
from bench.job import Job
from bench.measure import measure
from bench.tables import aligned

__all__ = ["Sample", "by_category", "main", "parse_report", "profile_table"]

_FREQUENCY: Final = 499  # samples per second; not a divisor of the kernel's timer
_OTHER: Final = "other"

# The first row that matches counts: category, pattern of the library, pattern of the symbol.
_CATEGORIES: Final = tuple(
    (category, re.compile(library), re.compile(symbol, re.IGNORECASE))
    for category, library, symbol in (
        (
            "kernel: copy and clear pages",
            r"^\[",
            r"copy_(to|from)_user|copy_user|clear_page|copy_page|memcpy|rep_movs",
        ),
        ("kernel: other", r"^\[", r""),
        ("zstd: checksum", r"^backend_c|zstd", r"XXH"),
        ("zstd: decompress", r"^backend_c|zstd", r"decompress|decode|DTable|buildFSETable"),
        ("zstd: compress", r"^backend_c|zstd", r""),
        ("gzip", r"^isal|zlib|^libz\.", r""),
        ("msgspec: decode", r"^_core\.", r"decode|skip|read_"),
        ("msgspec: encode", r"^_core\.", r"encode|write|ms_resize"),
        ("msgspec: other", r"^_core\.", r""),
        ("SHA-256", r"^libcrypto|^_hashlib|^_sha", r""),
        ("xxhash", r"xxhash", r""),
        ("search and compare bytes", r"^stringzilla", r""),
        (
            "search and compare bytes",
            r"",
            r"memchr|memrchr|memmem|memcmp|strn?cmp|fastsearch|bytes_find|count_char",
        ),
        ("copy bytes", r"", r"^_*mem(cpy|move|set|pcpy)"),
        ("allocate and free", r"", r"malloc|calloc|realloc|_int_free|^cfree|unlink_chunk|_free\b"),
        ("Python: free objects", r"python", r"dealloc"),
        ("Python: collect garbage", r"python", r"^gc_|visit_|traverse$|_GC_|untrack"),
        ("Python: import", r"python", r"^r_object|^r_|PyPegen|compiler_|PyImport|assemble"),
        (
            "Python: interpreter",
            r"python",
            r"PyEval|PyFrame|vectorcall|PyFunction|method_|cfunction|call_|initialize_l",
        ),
        (
            "Python: arguments and attributes",
            r"python",
            r"getargs|convertitem|attr|PyType_Lookup|PyMember|descr_",
        ),
        (
            "Python: strings and bytes",
            r"python",
            r"unicode|ucs\dlib|ascii|utf8|bytes|memory|buffer|string|copy_char",
        ),
        (
            "Python: lists, dicts, sorting",
            r"python",
            r"list|dict|tuple|merge|sort|hash|lookup|iter|_next$|compare|slice",
        ),
        ("Python: other", r"python|\.cpython-", r""),
        ("jsonschema-rs", r"^jsonschema_rs", r""),
    )
)


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
            _, _, symbol = cells[2].partition(
                "] "
            )  # after `[.]` in user space, `[k]` in the kernel
            yield Sample(int(cells[0]), cells[1], symbol)


def by_category(samples: Iterable[Sample]) -> Counter[str]:
    """Count samples by category."""
    counts: Counter[str] = Counter()
    for hits, library, symbol in samples:
        matches = (
            name
            for name, of, pattern in _CATEGORIES
            if of.search(library) and pattern.search(symbol)
        )
        counts[next(matches, _OTHER)] += hits
    return counts


def profile_table(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """A table of core-seconds: a row per category, and two columns per command, the second with its share."""
    totals = {command: sum(parts.values()) for command, parts in seconds.items()}
    names = dict.fromkeys([*(row[0] for row in _CATEGORIES), _OTHER])
    rows = [["core-seconds", *(cell for command in seconds for cell in (command, ""))]]
    for name in names:
        if any(parts.get(name, 0.0) >= 0.005 for parts in seconds.values()):
            cells = [(parts.get(name, 0.0), totals[command]) for command, parts in seconds.items()]
            rows.append(
                [
                    name,
                    *(
                        cell
                        for value, total in cells
                        for cell in (f"{value:.2f}", f"{value / total:.1%}")
                    ),
                ]
            )
    rows.append(["total", *(cell for total in totals.values() for cell in (f"{total:.2f}", ""))])
    return aligned(rows)


def _record(contender: str, name: str, folder: Path) -> tuple[dict[str, float], list[Sample]]:
    """Run a contender under perf with one job; returns seconds by category, and all samples."""
    output = folder / "output"
    data = folder / "perf.data"
    output.mkdir()
    inputs = (str(corpus(name).directory),)
    job = Job(inputs=inputs, output=str(output), scratch=str(folder), jobs=1, level=LEVEL)
    perf = ["perf", "record", "--quiet", f"--freq={_FREQUENCY}", f"--output={data}", "--"]
    measured = measure([*perf, *command_of(CONTENDERS[contender], job)])
    if measured.error:
        raise SystemExit(
            f"`perf record` failed ({measured.error}); see /proc/sys/kernel/perf_event_paranoid"
        )
    report = [
        "perf",
        "report",
        f"--input={data}",
        "--stdio",
        "-t",
        "|",
        "--fields",
        "sample,dso,symbol",
    ]
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
    parser = argparse.ArgumentParser(
        prog="bench.core_seconds", description="Where the processor time goes."
    )
    parser.add_argument(
        "--corpus",
        default="real-x10" if available("real-x10") else "mixed",
        help="the shards to read",
    )
    parser.add_argument(
        "--top", type=int, default=0, metavar="N", help="print also the N symbols with most samples"
    )
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
