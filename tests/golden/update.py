"""Rewrite the expected output of whole runs, by hand after a change that is meant: `python -m
tests.golden.update`.

Parts and rejects are kept as plain text: it can be reviewed, and compressed bytes change with the
version of zstd.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.sources.shard import shard_at

ROOT = Path(__file__).parents[2]
DEMO = "corpora/demo"
GOLDEN = Path(__file__).parent / "demo"


def produce(output: Path, **options: Any) -> dict[str, bytes]:
    """Normalize the demo from the project's root, and give the text of what is promised, by file
    name.
    """
    run([DEMO], output, Options(**options))
    found = {}
    for path in sorted(output.glob("*.jsonl.zst")):
        found[path.name.removesuffix(".zst")] = b"".join(
            chunk.data for chunk in shard_at(str(path)).read()
        )
    found["summary.json"] = (output / "summary.json").read_bytes()
    return found


def main() -> None:
    os.chdir(ROOT)  # sources are named as they were given
    with tempfile.TemporaryDirectory() as folder:
        expected = produce(Path(folder) / "out")
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.iterdir():
        path.unlink()
    for name, text in expected.items():
        (GOLDEN / name).write_bytes(text)


if __name__ == "__main__":
    main()
