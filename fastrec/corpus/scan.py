r"""Scanning a corpus: list its parts, run one task per part, and collect the results in order.

    parts_of(corpus, manifest) ──▶ one task per part, or per range of parts ──▶ run_in_order ──▶
    results

A task skims a part with `skim_lines`: whole lines in a buffer that is reused. If it knows the
columns of the part, `reader.lines_of` reads only some lines.

    buffer   {"a": 1}\n{"a": 2}\n{"a":           two whole lines, and the beginning of a third
             {"a": 3}\n{"a": 4}\n                it moves to the front before more is read

A small buffer stays in the processor's cache, and the only text copied is the incomplete line at
its end. The price: zstandard's reader does not notice a truncated file. So the sizes in the
manifest are compared with what was read. If they differ, the part is read again by the reader that
checks everything, to find out what is wrong.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import length_hint
from typing import IO, TypeVar, cast

import zstandard
from msgspec import UNSET, Struct
from xxhash import xxh3_128

from fastrec.corpus.manifest import MANIFEST, KeyEntry, Manifest, PartEntry
from fastrec.engine import jobs_for, make_engine
from fastrec.engine.base import Argument, Result
from fastrec.errors import CorpusError, is_out_of_memory, out_of_memory, shown
from fastrec.limits import current_limits
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.view import REFUSALS
from fastrec.sorting.keys import FIELDS, field_encoder
from fastrec.sources.formats import Format
from fastrec.sources.lines import Chunk
from fastrec.sources.shard import Shard, shard_at
from fastrec.storage import file_in, join, open_reader, parent_of

VERIFY_HINT = "`fastrec verify` lists everything that is wrong with a corpus"

OfPart = TypeVar("OfPart", bound="PartTask")

Buffered = tuple[bytes | bytearray, int]  # a buffer, and how many of its bytes are valid

# Each decompressor has a window of some MiB. Reusing them avoids holes in the heap.
_idle: list[zstandard.ZstdDecompressor] = []


class PartFile(Struct, frozen=True):
    path: str
    entry: PartEntry

    def beside(self, name: str) -> str:
        """Return the path of another file of the corpus; CorpusError if it leads out of it."""
        corpus = parent_of(self.path)
        return file_in(corpus, name, join(corpus, MANIFEST))


class PartTask(Struct, frozen=True):
    """A task that reads a part."""

    part: PartFile

    def __str__(self) -> str:
        return f"reading {shown(self.part.path)}"


def parts_of(corpus: str, manifest: Manifest) -> list[PartFile]:
    """List the parts in order.

    CorpusError if the manifest has a schema or a value that fastrec does not write.
    """
    path = join(corpus, MANIFEST)
    schema = CORPUS_LABELS.get(manifest.schema)
    if not schema:
        known = "this version of fastrec reads " + ", ".join(CORPUS_LABELS)
        raise CorpusError(path, f"its records have schema {manifest.schema}, but {known}")
    if sorted(manifest.sort_fields) != sorted(schema.sort_fields):
        expected, actual = map(", ".join, (schema.sort_fields, manifest.sort_fields))
        raise CorpusError(path, f"sort_fields must name {expected}, found {actual}")
    return [PartFile(file_in(corpus, part.file, path), part) for part in manifest.parts]


def run_in_order(
    task: Callable[[Argument], Result], arguments: Iterable[Argument], *, text_bytes: int, jobs: int
) -> Generator[Result]:
    """Run a task on each argument, in several processes if that pays; yield results in order."""
    early = {}
    turn = 0
    with make_engine(jobs_for(text_bytes, length_hint(arguments, jobs), jobs)) as engine:
        for number, result in engine.run(task, arguments):
            early[number] = result
            while turn in early:
                yield early.pop(turn)
                turn += 1


def run_on_parts(
    function: Callable[[OfPart], Result],
    tasks: Sequence[OfPart],
    stage: str,
    *,
    jobs: int,
    progress: Progress | None,
) -> Iterator[Result]:
    """Run tasks as `run_in_order` does, and report each as progress."""
    size = sum(task.part.entry.text_bytes for task in tasks)
    progress = progress or Progress()
    progress.start(stage, size)
    results = run_in_order(function, tasks, text_bytes=size, jobs=jobs)
    for task, result in zip(tasks, results, strict=True):
        progress.advance(task.part.entry.text_bytes, task.part.entry.records, 0)
        yield result
    progress.finish()


@contextmanager
def decoding(part: PartFile) -> Iterator[None]:
    """Raise a CorpusError if a line that is decoded in this block is not a record."""
    try:
        yield
    except REFUSALS as exc:
        reason = f"has a line that is not a record in normal form: {exc}; {VERIFY_HINT}"
        raise CorpusError(part.path, reason) from exc


# evaluation_name, metric and sample_hash of split hashes: each `sample_id` of them is a question
# (`keys.is_split`).
SplitHashes = frozenset[tuple[str, str | None, str]]


def is_sorted_by_question(manifest: Manifest) -> bool:
    """Whether the records of a question are adjacent."""
    return set(manifest.sort_fields[:2]) == set(FIELDS[:2])


def skim_lines(part: PartFile) -> Generator[Buffered]:
    """Yield whole lines: a buffer, and how many of its bytes are valid until the next step."""
    shard = shard_at(part.path)
    text_bytes = part.entry.text_bytes
    if shard.size == part.entry.bytes:
        total = 0
        digest = xxh3_128()
        try:
            for buffer, size in _shard_lines(shard, text_bytes, current_limits().skim_bytes):
                total += size
                digest.update(memoryview(buffer)[:size])
                yield buffer, size
        except (OSError, zstandard.ZstdError) as exc:
            if is_out_of_memory(exc):
                raise out_of_memory(part.path, "decompressing it") from exc
            total = -1
        if total == text_bytes and digest.hexdigest() == part.entry.text_xxh3_128:
            return
    size = sum(map(len, shard.read_text()))
    reason = "is not the file that the manifest describes, or does not end with a newline"
    if size != text_bytes:
        reason = f"has {size:,} bytes of text, but the manifest says {text_bytes:,}"
    raise CorpusError(shard.path, f"{reason}; {VERIFY_HINT}")


def _shard_lines(shard: Shard, text_bytes: int, buffer_bytes: int) -> Iterator[Buffered]:
    if shard.format is not Format.ZSTD:
        for chunk in shard.read(chunk_bytes=buffer_bytes, max_line_bytes=text_bytes):
            if isinstance(chunk, Chunk) and chunk.data.endswith(b"\n"):
                yield chunk.data, len(chunk.data)
        return
    decompressor = _idle.pop() if _idle else zstandard.ZstdDecompressor()
    try:
        with open_reader(shard.path) as file:
            reader = decompressor.stream_reader(cast("IO[bytes]", file), read_across_frames=True)
            yield from _lines(reader.readinto, text_bytes, buffer_bytes)
    finally:
        _idle.append(decompressor)


def _lines(
    readinto: Callable[[memoryview], int], longest: int, buffer_bytes: int
) -> Iterator[Buffered]:
    buffer = bytearray(buffer_bytes)
    begun = 0  # bytes of an incomplete line at the start of the buffer
    while begun <= longest:
        if begun == len(buffer):
            # A new object: a caller may still hold a view of the old one.
            buffer = buffer + bytes(len(buffer))
        size = readinto(memoryview(buffer)[begun:])
        if not size:
            return
        filled = begun + size
        end = buffer.rfind(b"\n", begun, filled) + 1
        begun = filled - end
        # without a newline nothing moves: moving a long line on every read would take quadratic
        # time
        if end:
            yield buffer, end
            buffer[:begun] = buffer[end:filled]


# Where a record belongs in the sort order: the values of some sort fields, encoded as in keys.
Position = tuple[bytes, ...]


def position_maker(fields: Sequence[str]) -> Callable[[KeyEntry], Position]:
    """Return the function from a key of the manifest to its position by some sort fields."""
    encoders = [(field, field_encoder(field)) for field in fields]

    def position_of(key: KeyEntry) -> Position:
        values = [(getattr(key, field), encode) for field, encode in encoders]
        # A key of the manifest has null in the place of a metric.
        return tuple([encode(UNSET if value is None else value) for value, encode in values])

    return position_of
