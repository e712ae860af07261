"""One run with leases that lapse within a second: `python -m tests.faults.store_run SHARDS OUT JOBS
WORK`.
"""

from __future__ import annotations

import sys

from fastrec.errors import FastrecError
from fastrec.limits import Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run

RENEW = 0.2
LAPSE = 1.0
LIMITS = Limits(
    lease_renew_seconds=RENEW, lease_lapse_seconds=LAPSE, small_input=0, task_bytes=100_000
)


def attempt(shards: str, out: str, jobs: str, work: str) -> tuple[int, str]:
    """Run `normalize`; return its exit code, and its error."""
    options = Options(
        jobs=int(jobs), work_dir=work or None, part_size=100_000, memory=64 << 20, overwrite=True
    )
    try:
        use_limits(LIMITS)(run)([shards], out, options)
    except (FastrecError, OSError) as exc:
        return 3, f"{type(exc).__name__}: {exc}\n"
    return 0, ""


if __name__ == "__main__":
    code, error = attempt(*sys.argv[1:])
    sys.stderr.write(error)
    sys.exit(code)
