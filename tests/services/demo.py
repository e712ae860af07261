"""`make cluster-demo`: run the commands of docs/stores-and-clusters.md as printed.

1. Start an S3-compatible server, and a Dask scheduler with three workers, all on loopback.
2. Store the demo corpus in the bucket, and run the commands.
3. Compare the corpus in the store with one that is made on this machine, byte for byte.
4. Stop everything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from tests.services.dask import Cluster
from tests.services.s3 import S3, without_token

ROOT = Path(__file__).parents[2]
SHARDS = ROOT / "corpora/demo"


def commands() -> str:
    """Return the commands of the page."""
    text = (ROOT / "docs" / "stores-and-clusters.md").read_text()
    blocks: list[str] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return next(block for block in blocks if "$SCHEDULER" in block)


def main() -> int:
    """Start everything, and run the demo; return the exit code."""
    with S3() as s3, Cluster(**s3.environment) as cluster:
        return run_demo(s3, cluster)


def run_demo(s3: S3, cluster: Cluster) -> int:
    """Run the commands, and compare the corpora; return the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        say(
            f"An S3-compatible server at {s3.address}, a Dask scheduler at {cluster.address} with "
            "three workers."
        )
        for path in SHARDS.iterdir():
            s3.put(f"runs/{path.name}", path.read_bytes())
        directory = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {
            **os.environ,
            **s3.environment,
            "SCHEDULER": cluster.address,
            "PATH": directory,
        }
        for command in commands().replace("\\\n", " ").splitlines():
            if not command.strip() or command.startswith(("#", "pip ")):
                continue
            say(f"$ {command}")
            code = subprocess.run(
                ["bash", "-c", command], env=environment, cwd=scratch, check=False
            ).returncode
            if code not in (0, 1):  # 1: the demo has rejected lines on purpose
                say(f"exit code {code}")
                return 1
        run([str(SHARDS)], f"{scratch}/corpus", Options())
        here = {path.name: path.read_bytes() for path in Path(scratch, "corpus").iterdir()}
        there = {
            without_token(key.removeprefix("corpus/")): data
            for key, data in s3.objects("corpus/").items()
        }
    same = [
        name
        for name in here
        if name.startswith(("part-", "summary")) and here[name] == there.get(name)
    ]
    say(f"The same bytes in the store and on this machine: {', '.join(sorted(same))}.")
    return 0 if len(same) == len(here) - 2 and sorted(here) == sorted(there) else 1


def say(text: str) -> None:
    """Print a line at once, so that it appears between the output of the commands."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
