"""The stages of a run, one by one and in their order."""

import gzip
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from fastrec.corpus.writer import ShardWriter
from fastrec.judge.judge import Judge
from fastrec.schemas.hashes import TEXT_HASHES
from fastrec.schemas.v0_2_0 import Record
from fastrec.sorting.gather import gather
from fastrec.sorting.keys import key_maker
from fastrec.sorting.runs import Run, spill
from fastrec.sorting.slices import slice_run
from fastrec.sources.formats import Format, decompress
from fastrec.sources.lines import chunks
from fastrec.sources.shard import shard_at
from fastrec.summary.rows import row_maker

Text = list[bytes]
Measure = Callable[..., None]

drain = deque[Any](maxlen=0).extend  # reads an iterator to its end
_BLOCK = 1 << 20
_WINDOW = 16 << 20
_RUNS = 8
_PACK: dict[Format, Callable[[bytes], bytes]] = {
    Format.PLAIN: bytes,
    Format.ZSTD: zstandard.ZstdCompressor(level=3, write_checksum=True).compress,
    Format.GZIP: lambda text: gzip.compress(text, 6, mtime=0),
}


class SortResult:
    """Judged records as a task holds them before it writes a run."""

    def __init__(self, chunks_of_text: Text) -> None:
        judge = Judge()
        key_of = key_maker()
        row_of = row_maker()
        self.text = bytearray()
        self.ends: list[int] = []
        self.keys: list[bytes] = []
        self.rows: list[Any] = []
        for chunk in chunks_of_text:
            batch = judge.judge_chunk(chunk, self.text)
            self.ends += batch.ends
            self.keys += map(key_of, batch.records)
            self.rows += [row_of(record, 0, line) for line, record in enumerate(batch.records)]

    def spill(self, path: Path) -> Run:
        """Sort and spill."""
        return spill(str(path), self.text, self.ends, self.keys, self.rows)


@pytest.fixture(scope="session")
def records(plain: Text) -> list[Record]:
    """The decoded records of the text, in normal form."""
    judge = Judge()
    out = bytearray()
    return [record for chunk in plain for record in judge.judge_chunk(chunk, out).records]


@pytest.fixture(scope="session")
def runs(plain: Text, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """The text as sorted runs."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        SortResult(plain[number::_RUNS]).spill(folder / f"run-{number}") for number in range(_RUNS)
    ]


@pytest.mark.parametrize("format_", list(_PACK), ids=lambda format_: format_.value)
def test_open_and_decompress(
    measure: Measure, plain: Text, tmp_path: Path, format_: Format
) -> None:
    """Read a shard's file and decompress it."""
    path = tmp_path / "shard"
    path.write_bytes(_PACK[format_](b"".join(plain)))

    def read() -> None:
        with path.open("rb", buffering=0) as file:
            blocks = iter(lambda: file.read(_BLOCK), b"")
            drain(decompress(format_, blocks, path=str(path)))

    measure(read, plain)


def test_split(measure: Measure, plain: Text) -> None:
    """Cut blocks of text into chunks of whole lines."""
    text = b"".join(plain)
    blocks = [text[start : start + (_BLOCK >> 1)] for start in range(0, len(text), _BLOCK >> 1)]
    measure(lambda: drain(chunks(iter(blocks), chunk_bytes=1 << 18)), plain)


def test_read_shard(measure: Measure, plain: Text, tmp_path: Path) -> None:
    """Open, decompress and split a zstd shard, as a task does."""
    path = tmp_path / "shard"
    path.write_bytes(_PACK[Format.ZSTD](b"".join(plain)))
    measure(lambda: drain(shard_at(str(path)).read(chunk_bytes=1 << 18)), plain)


@pytest.mark.parametrize("algorithm", list(TEXT_HASHES))
def test_hash(measure: Measure, plain: Text, algorithm: str) -> None:
    """Compute `sample_hash`."""
    compute = TEXT_HASHES[algorithm]
    lines = [msgspec.json.decode(line)["input"] for chunk in plain for line in chunk.splitlines()]
    asked = [(line["raw"], line["reference"]) for line in lines]

    def compute_all() -> None:
        for raw, reference in asked:
            compute(raw, reference)

    measure(compute_all, plain)


def test_encode(measure: Measure, plain: Text, records: list[Record]) -> None:
    """Encode records into a buffer."""
    encode_into = msgspec.json.Encoder(order="deterministic").encode_into
    out = bytearray()

    def encode_all() -> None:
        for number, record in enumerate(records):
            if number % 50 == 0:  # about a chunk
                out.clear()
            encode_into(record, out, -1)

    measure(encode_all, plain)


def test_sort_and_spill(measure: Measure, plain: Text, tmp_path: Path) -> None:
    """Sort judged records and write them as a run."""
    held = SortResult(plain)
    measure(lambda: held.spill(tmp_path / "run"), plain)


def _gathered(runs: list[Run]) -> Iterator[Any]:
    """Read all records of all runs, merged."""
    slices = [piece for run in runs if (piece := slice_run(run, None, None))]
    return gather(slices, None, None, _WINDOW)


def test_gather_and_merge(measure: Measure, plain: Text, runs: list[Run]) -> None:
    """Read a range of keys from all runs and merge it; here the range has all keys."""
    measure(lambda: drain(_gathered(runs)), plain)


def test_compress(measure: Measure, plain: Text, runs: list[Run], tmp_path: Path) -> None:
    """Compress sorted text, checksum it, and write it as a part."""
    windows = list(_gathered(runs))

    def compress() -> None:
        with ShardWriter(str(tmp_path / "part"), "zst", 3) as writer:
            for window in windows:
                writer.write(window.texts)
            writer.finish()

    measure(compress, plain)
