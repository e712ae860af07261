"""The real records, where they lie beside the checkout, and a way to have more of them.

There are 24 shards of 80 MB of text. Ten times as much is made of ten versions of each model: version `k` answers
question `i` with what the model answered to question `i + 37 k`. So each question is asked of 240 models, as in the
large corpora that the tool is for, and the answers to it differ. Mere copies under other names would stand side by side
once sorted, and compress at a speed and to a size that no corpus ever does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from fastrec.sources.inputs import find_shards
from fastrec.sources.lines import Chunk
from fastrec.sources.reader import read_shard, shard_at

__all__ = ["real_files", "scaled_real"]

_REAL: Final = Path(__file__).parents[2] / "shared" / "real"
_SHIFT: Final = 37
_ASKED: Final = ("sample_id", "sample_hash", "input")


@lru_cache(maxsize=1)
def real_files() -> tuple[Path, ...]:
    """The shards; none if they are not here."""
    if not _REAL.is_dir():
        return ()
    return tuple(Path(shard.path) for shard in find_shards([str(_REAL)])[0])


def scaled_real(times: int, only: str = "") -> Iterator[tuple[str, Iterable[bytes]]]:
    """Name the shards of so many versions, of one evaluation or of all, and give their lines."""
    for path in real_files():
        if only not in {"", path.parent.name}:
            continue
        lines = list(_lines(path))
        records = [json.loads(line) for line in lines]
        ascii_only = b"\\u" in b"".join(lines)
        stem = f"{path.parent.name}-{path.name.split('.jsonl')[0]}"
        yield f"v0-{stem}", lines
        for version in range(1, times):
            yield f"v{version}-{stem}", _version(records, version, ascii_only=ascii_only)


def _version(records: list[dict[str, Any]], version: int, *, ascii_only: bool) -> Iterator[bytes]:
    for number, asked in enumerate(records):
        record = dict(records[(number + _SHIFT * version) % len(records)])
        for key in _ASKED:
            if key in asked:
                record[key] = asked[key]
            else:
                record.pop(key, None)
        record["model_id"] = f"v{version}-{record['model_id']}"
        yield json.dumps(record, ensure_ascii=ascii_only).encode()


def _lines(path: Path) -> Iterator[bytes]:
    for chunk in read_shard(shard_at(str(path))):
        assert isinstance(chunk, Chunk)
        yield from chunk.data.removesuffix(b"\n").split(b"\n")
