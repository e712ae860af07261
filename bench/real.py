"""The real records, if they are beside the checkout, and larger corpora made from them.

There are 24 shards, one per model, with 80 MB of text. A corpus of ten times the size has ten
versions of each model: version `k` answers question `i` with the real answer to question `i + 37
k`. So each question gets ten times as many answers, all of them different. Plain copies under other
names would be adjacent after sorting and compress far better than real data.

Corpora of many gigabytes have the words of each answer in another order instead, as texts would
otherwise repeat.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from fastrec.sources.inputs import find_shards
from fastrec.sources.lines import Chunk
from fastrec.sources.shard import shard_at

__all__ = ["real_files", "scaled_real", "shuffled_shard"]

_REAL: Final = Path(__file__).parents[2] / "shared" / "real"
_SHIFT: Final = 37
_QUESTION: Final = ("sample_id", "sample_hash", "input")


@lru_cache(maxsize=1)
def real_files() -> tuple[Path, ...]:
    """The shards; empty if this machine does not have them."""
    if not _REAL.is_dir():
        return ()
    return tuple(Path(shard.path) for shard in find_shards([str(_REAL)])[0])


def scaled_real(times: int, only: str = "") -> Iterator[tuple[str, Iterable[bytes]]]:
    """The shards of several versions, of one evaluation or all, by name with their lines."""
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
        for key in _QUESTION:
            if key in asked:
                record[key] = asked[key]
            else:
                record.pop(key, None)
        record["model_id"] = f"v{version}-{record['model_id']}"
        yield json.dumps(record, ensure_ascii=ascii_only).encode()


def shuffled_shard(path: Path, version: int) -> Iterator[bytes]:
    """A real shard under another model name, with the words of each answer in another order."""
    rng = np.random.default_rng(version)
    for line in _lines(path):
        record = msgspec.json.decode(line)
        record["model_id"] = f"v{version}-{record['model_id']}"
        _shuffle(record.get("output"), rng)
        for turn in record.get("interactions") or record.get("messages") or ():
            if isinstance(turn, dict) and turn.get("role") == "assistant":
                _shuffle(turn, rng)
        yield msgspec.json.encode(record)


def _shuffle(value: Any, rng: np.random.Generator) -> None:
    for key, text in value.items() if isinstance(value, dict) else ():
        if key in {"raw", "content", "reasoning_trace"}:
            if isinstance(text, str):
                value[key] = _reordered(text, rng)
            elif isinstance(text, list):
                value[key] = [_reordered(one, rng) if isinstance(one, str) else one for one in text]


def _reordered(text: str, rng: np.random.Generator) -> str:
    words = text.split(" ")
    return " ".join([words[number] for number in rng.permutation(len(words)).tolist()])


def _lines(path: Path) -> Iterator[bytes]:
    for chunk in shard_at(str(path)).read():
        assert isinstance(chunk, Chunk)
        yield from chunk.data.removesuffix(b"\n").split(b"\n")
