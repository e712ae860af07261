"""Two corpora to compare: one, and the same evaluations a night later.

Either little changed: of 100 records one is removed, one is new, three flip, and five in total have
another answer. Or everything was evaluated again: all records have new ids, latencies and token
counts, and half have another answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from fastrec.normalize.run import normalize
from fastrec.sources.lines import Chunk
from fastrec.sources.shard import shard_at

__all__ = ["make_nights"]


def make_nights(shards: Iterable[Path], directory: Path, *, anew: bool) -> None:
    """Make the corpora `old` and `new` in a directory.

    `anew` means that everything was evaluated again.
    """
    normalize(list(shards), directory / "old", jobs=2)
    dice = random.Random(7)
    later = directory / "later"
    later.mkdir()
    parts = sorted((directory / "old").glob("part-*.jsonl*"))
    for part in parts:
        with (later / part.name.removesuffix(".zst")).open("wb") as file:
            file.writelines(_later(part, dice, anew=anew))
    normalize(later, directory / "new", jobs=2)
    for path in later.iterdir():
        path.unlink()
    later.rmdir()


def _later(part: Path, dice: random.Random, *, anew: bool) -> Iterator[bytes]:
    for chunk in shard_at(str(part)).read():
        assert isinstance(chunk, Chunk)
        for line in chunk.data.removesuffix(b"\n").split(b"\n"):
            for record in _versions(msgspec.json.decode(line), dice, anew=anew):
                yield msgspec.json.encode(record) + b"\n"


def _versions(
    record: dict[str, Any], dice: random.Random, *, anew: bool
) -> Iterator[dict[str, Any]]:
    fate = dice.random()
    if fate < 0.01:
        return
    if anew:
        record["evaluation_id"] += "-later"
        record["performance"] = {"latency_ms": dice.randrange(100, 9_000)}
        tokens = dice.randrange(900)
        record["token_usage"] = {
            "input_tokens": 100,
            "output_tokens": tokens,
            "total_tokens": 100 + tokens,
        }
    if fate < (0.5 if anew else 0.06):
        record["answer_attribution"] = record["answer_attribution"][:-1]
        if record.get("output"):
            record["output"]["raw"] = record["output"]["raw"][::-1]
    if fate < 0.04:
        record["evaluation"]["is_correct"] = not record["evaluation"]["is_correct"]
    yield record
    if fate > 0.99:
        del record["sample_hash"]
        record["input"]["raw"] += " again"
        yield record
