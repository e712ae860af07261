"""The real records, if they are beside the checkout, and corpora made from records of others.

There are 24 shards, one per model, with 80 MB of text. A corpus of ten times the size has ten
versions of each model: version `k` answers question `i` with the real answer to question `i + 37
k`. So each question gets ten times as many answers, all of them different. Plain copies under other
names would be adjacent after sorting and compress far better than real data.

Corpora of many gigabytes have the words of each answer in another order instead, as texts would
otherwise repeat.

Two nights to compare: little changed (of 100 records one is removed, one is new, three flip, and
five in total have another answer), or everything was evaluated again (all records have new ids,
latencies and token counts, and half have another answer).
"""

import json
import random
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fastrec.sources.inputs import find_shards
from fastrec.sources.lines import Chunk
from fastrec.sources.shard import shard_at

Record = dict[str, Any]
_REAL = Path(__file__).parents[2] / "shared" / "real"
_SHIFT = 37
_QUESTION = ("sample_id", "sample_hash", "input")
_TEXTS = ("raw", "content", "reasoning_trace")


def shard_lines(path: Path) -> Iterator[bytes]:
    """The lines of a shard without line ends."""
    for chunk in shard_at(str(path)).read():
        assert isinstance(chunk, Chunk)
        yield from chunk.data.removesuffix(b"\n").split(b"\n")


@cache
def real_files() -> tuple[Path, ...]:
    """The shards; empty if this machine does not have them."""
    shards = find_shards([str(_REAL)])[0] if _REAL.is_dir() else ()
    return tuple(Path(shard.path) for shard in shards)


def stem_of(path: Path) -> str:
    """The evaluation and model of a real shard."""
    return f"{path.parent.name}-{path.name.split('.jsonl')[0]}"


def scaled_real(times: int, only: str = "") -> Iterator[tuple[str, Iterable[bytes]]]:
    """The shards of several versions, of one evaluation or all, by name with their lines."""
    for path in real_files():
        if only in {"", path.parent.name}:
            lines = list(shard_lines(path))
            yield f"v0-{stem_of(path)}", lines
            for version in range(1, times):
                yield f"v{version}-{stem_of(path)}", _version(lines, version)


def _version(lines: list[bytes], version: int) -> Iterator[bytes]:
    records = [json.loads(line) for line in lines]
    ascii_only = b"\\u" in b"".join(lines)
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
    for line in shard_lines(path):
        record = msgspec.json.decode(line)
        record["model_id"] = f"v{version}-{record['model_id']}"
        turns = record.get("interactions") or record.get("messages") or ()
        own = [turn for turn in turns if turn.get("role") == "assistant"]
        for owner in filter(None, (record.get("output"), *own)):
            for key in [key for key in owner if key in _TEXTS]:
                owner[key] = _shuffled(owner[key], rng)
        yield msgspec.json.encode(record)


def _shuffled(text: Any, rng: np.random.Generator) -> Any:
    if isinstance(text, list):
        return [_shuffled(item, rng) for item in text]
    if not isinstance(text, str):
        return text
    words = text.split(" ")
    return " ".join([words[number] for number in rng.permutation(len(words)).tolist()])


def next_night(line: bytes, dice: random.Random, *, anew: bool) -> Iterator[bytes]:
    """What becomes of a record in a night: none, one or two; `anew` if all are evaluated again."""
    record = msgspec.json.decode(line)
    fate = dice.random()
    if fate < 0.01:
        return
    if anew:
        record["evaluation_id"] += "-later"
        record["performance"] = {"latency_ms": dice.randrange(100, 9_000)}
        tokens = dice.randrange(900)
        usage = {"input_tokens": 100, "output_tokens": tokens, "total_tokens": 100 + tokens}
        record["token_usage"] = usage
    if fate < (0.5 if anew else 0.06):
        record["answer_attribution"] = record["answer_attribution"][:-1]
        if record.get("output"):
            record["output"]["raw"] = record["output"]["raw"][::-1]
    if fate < 0.04:
        record["evaluation"]["is_correct"] = not record["evaluation"]["is_correct"]
    yield msgspec.json.encode(record)
    if fate > 0.99:
        del record["sample_hash"]
        record["input"]["raw"] += " again"
        yield msgspec.json.encode(record)
