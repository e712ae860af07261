"""`make bench-instructions`: count the instructions per record of the judge with valgrind.

Unlike a time, the count has no noise: it is the same on a busy machine. The loop runs over few and
over many records; the difference excludes the start-up.
"""

import os
import re
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

from bench.corpora import corpus
from bench.real import shard_lines

_ROOT = Path(__file__).parents[1]
_FEW = 100
_MANY = 400
_TOTAL = re.compile(r"Collected : (\d+)")


def _judge(records: int) -> None:
    """Judge some records; valgrind counts this."""
    from fastrec.judge.judge import Judge  # noqa: PLC0415 - counted in both runs

    chunk = b"\n".join(islice(shard_lines(corpus("mixed").paths()[0]), _MANY))
    lines = chunk.split(b"\n")[:records]
    judge = Judge()
    out = bytearray()
    judge.judge_chunk(b"\n".join(lines) + b"\n", out)


def _count(records: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    done = subprocess.run(
        [*command, "-m", "bench.instructions", str(records)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = _TOTAL.search(done.stderr)
    assert found, done.stderr
    return int(found[1])


def main() -> int:
    """Count the instructions and print them."""
    if len(sys.argv) > 1:
        _judge(int(sys.argv[1]))
        return 0
    if not shutil.which("valgrind"):
        print("valgrind is not installed")
        return 1
    corpus("mixed")  # made now, not under valgrind
    few = _count(_FEW)
    many = _count(_MANY)
    print(f"judge: {(many - few) / (_MANY - _FEW):,.0f} instructions per record")
    return 0


if __name__ == "__main__":
    sys.exit(main())
