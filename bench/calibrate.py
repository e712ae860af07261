"""Calibration: how fast this machine is right now, to compare figures of days and machines.

The calibration is fixed work without any code of fastrec but of the same kind: msgspec decodes and
encodes plain dicts, Python makes keys, sorts and counts, SHA-256 hashes, zstd compresses. It runs
on one core several times; the best time counts. Figures that use two cores are ratios to bare
recompression instead, which is a trial like any other.
"""

import time
from collections import Counter
from hashlib import sha256

import msgspec
import zstandard

_ROUNDS = 7
_RECORDS = 4_000


def calibrate() -> float:
    """The seconds that the fixed work takes here and now."""
    lines = _lines()
    return min(_work(lines) for _ in range(_ROUNDS))


def _lines() -> list[bytes]:
    """Records from a formula: they stay the same when the generator of fastrec changes."""
    records = [
        {
            "name": f"evaluation-{number % 7}",
            "model": f"model-{number * 2654435761 % 101}",
            "score": number % 11 / 10,
            "text": " ".join(str(number * step * 40503 % 65537) for step in range(1, 240)),
            "tags": [number % 3, number % 5, None, True],
        }
        for number in range(_RECORDS)
    ]
    return list(map(msgspec.json.encode, records))


def _work(lines: list[bytes]) -> float:
    start = time.perf_counter()
    decode = msgspec.json.Decoder().decode
    encode_into = msgspec.json.Encoder(order="deterministic").encode_into
    keyed = []
    counts = Counter[str]()
    out = bytearray()
    for line in lines:
        record = decode(line)
        counts[record["model"]] += 1
        begin = len(out)
        encode_into(record, out, -1)
        digest = sha256(record["text"].encode()).hexdigest()
        key = f"{record['name']}\0{digest}\0{record['model']}".encode()
        keyed.append((key, begin, len(out)))
    keyed.sort()
    text = b"".join([out[begin:end] for _, begin, end in keyed])
    zstandard.ZstdCompressor(level=3).compress(text)
    return time.perf_counter() - start
