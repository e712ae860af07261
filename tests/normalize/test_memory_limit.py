"""`--memory` bounds what a run takes beyond the memory of Python and the libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import run_here
from tests.sizes import examples, few_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems do not tell the peak of a process"
)

# Chunks and runs are small, so there are hundreds of runs, and each part is gathered from all of
# them.
_SCRIPT = """
import sys
from pathlib import Path
from fastrec.limits import Limits, use_limits
from fastrec.normalize.run import normalize

source, output, memory = sys.argv[1:]
with use_limits(Limits(chunk_bytes=20_000, run_bytes=40_000)):
    normalize([source], output, jobs=1, memory=int(memory))
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].removesuffix("kB")) << 10)
"""


def peak_of(shards: Path, output: Path, memory: int) -> int:
    command = [sys.executable, "-c", _SCRIPT, str(shards), str(output), str(memory)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def test_peak_memory_is_below_the_limit(tmp_path: Path) -> None:
    """At 64 MiB and 8 GiB, and with `make test-long` at 512 MiB; the bytes do not depend on it."""
    for name, count in (("few", 50), ("many", examples(1_200, 6_000))):
        assert (
            run_here(
                "generate", "-n", str(count), "-o", str(tmp_path / name), "--text", "words"
            ).returncode
            == 0
        )
    python = peak_of(tmp_path / "few", tmp_path / "small", 64 << 20)
    made = set[tuple[bytes, ...]]()
    for memory in few_of((64 << 20, 512 << 20, 8 << 30), 2, "memory"):
        output = tmp_path / str(memory)
        peak = peak_of(tmp_path / "many", output, memory)
        assert peak - python < memory
        made.add(tuple(path.read_bytes() for path in sorted(output.glob("part-*.jsonl*"))))
    assert len(made) == 1
