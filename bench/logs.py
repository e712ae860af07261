"""Large logs of harnesses, generated from a seed, and the least that a tool can do with one."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import zstandard

from bench.helm_logs import write_helm
from bench.inspect_logs import write_inspect
from bench.job import Job
from bench.lm_eval_logs import write_lm_eval, write_lm_eval_with_shots
from bench.table_logs import write_table
from fastrec.engine import make_engine

__all__ = ["WRITERS", "LogRecompression", "files_in", "source_of"]

WRITERS: Final[Mapping[str, Callable[[int, Path, int], tuple[int, int]]]] = {
    "lm-eval": write_lm_eval,
    "lm-eval-shots": write_lm_eval_with_shots,
    "inspect": write_inspect,
    "helm": write_helm,
    "table": write_table,
}
"""For each kind of log, what writes one of some size into a directory; it returns the samples and the bytes of text."""

_TASK_BYTES: Final = 8 << 20
_HEADER: Final = struct.Struct(
    "<26x2H"
)  # of a member of a zip archive: the lengths of its name and its extra field

_Task = tuple[str, list[tuple[int, int]], str, int]
"""A file, places and sizes of its pieces, the file to write, and the level."""


def source_of(kind: str) -> bytes:
    """The source of a generator, which is part of the key of its logs."""
    return inspect.getsource(inspect.getmodule(WRITERS[kind]) or WRITERS[kind]).encode()


def files_in(directory: Path) -> list[Path]:
    """The files of a log."""
    return sorted(
        path for path in directory.rglob("*") if path.is_file() and path.name != "corpus.json"
    )


class LogRecompression:
    """Reads the text of a log and compresses it in the same pool: the minimum for a tool that keeps all of it."""

    label = "bare recompression of logs"
    leaves_out = "everything: it only compresses the text"

    def run(self, job: Job) -> None:
        """Compress the text of all files."""
        with make_engine(job.jobs) as engine:
            for _ in engine.run(_recompress, _tasks(job)):
                pass


def _tasks(job: Job) -> Iterator[_Task]:
    number = 0
    for path in (path for directory in job.inputs for path in files_in(Path(directory))):
        pieces = _members(path) if path.suffix == ".eval" else _ranges(path)
        for _, group in groupby(pieces, key=lambda piece: piece[0] // _TASK_BYTES):
            number += 1
            yield str(path), list(group), f"{job.output}/{number:06d}.zst", job.level


def _ranges(path: Path) -> list[tuple[int, int]]:
    return [(start, _TASK_BYTES) for start in range(0, path.stat().st_size, _TASK_BYTES)]


def _members(path: Path) -> list[tuple[int, int]]:
    with ZipFile(path) as archive:
        return [(member.header_offset, member.compress_size) for member in archive.infolist()]


def _recompress(task: _Task) -> None:
    name, pieces, output, level = task
    path = Path(name)
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=True)
    with (
        path.open("rb") as source,
        Path(output).open("wb") as target,
        compressor.stream_writer(target) as packed,
    ):
        for place, size in pieces:
            source.seek(place)
            if path.suffix == ".eval":
                source.seek(sum(_HEADER.unpack(source.read(_HEADER.size))), 1)
                packed.write(zstandard.ZstdDecompressor().decompress(source.read(size)))
            else:
                packed.write(source.read(size))
