"""Sources: the shard and the line that each record comes from, in a file beside the part.

    part-00000.jsonl.zst      the records
    part-00000.sources.zst    for each, in the same order: {"source":"runs/a.jsonl.zst","line":12}

`normalize --track-sources` writes these files. Of duplicates, the source is the first one in the
order of the inputs, which the line counts call kept.
"""

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct, field

from fastrec.corpus.manifest import MANIFEST, Manifest
from fastrec.corpus.scan import VERIFY_HINT, PartFile
from fastrec.errors import CorpusError, ShardMissingError, UsageError, shown
from fastrec.schemas.view import REFUSALS, encode_json, json_decoder
from fastrec.sources.shard import numbered_lines
from fastrec.storage import join, parent_of, storage_of

_SUFFIX = ".sources.zst"


class Source(Struct, frozen=True):
    """Where a record comes from."""

    #: By the path that was given or found.
    shard: str = field(name="source")
    #: Number of the line in the shard, from 1.
    line: int


_decode = json_decoder(Source)


def sources_path(part: str) -> str:
    """Return the path of the sources of a part that is being made, given its own path."""
    return part[: part.rindex(".jsonl")] + _SUFFIX


def line_begin(shard: str) -> bytes:
    r"""Return how the line of a source of this shard begins; its line number and `}\n` follow."""
    return b'{"source":' + encode_json(shard) + b',"line":'


def has_sources(manifest: Manifest) -> bool:
    return bool(manifest.options.get("track_sources"))


def need_sources(corpus: str, manifest: Manifest) -> None:
    if not has_sources(manifest):
        raise UsageError(
            f"{shown(corpus)} does not say where its records come from: make it with `normalize "
            "--track-sources`"
        )


def read_sources(part: PartFile, positions: Iterable[int]) -> Iterator[Source]:
    """Yield the sources of the records of a part at some positions, in order.

    CorpusError if the manifest lists none.
    """
    if part.entry.sources is UNSET:
        manifest = join(parent_of(part.path), MANIFEST)
        raise CorpusError(manifest, f"lists no sources of {part.entry.file}")
    path = part.beside(part.entry.sources.file)
    lines = source_lines(path)
    for position in positions:
        for number, line in lines:
            if number > position:
                yield decode_source(path, number, line)
                break
        else:
            reason = f"has fewer lines than the {part.entry.records:,} records of its part"
            raise CorpusError(path, reason)


def source_lines(path: str) -> Iterator[tuple[int, bytes]]:
    try:
        yield from numbered_lines(path)
    except ShardMissingError as exc:
        reason = exc.reason if storage_of(path).exists(path) else "is missing"
        raise CorpusError(path, f"{reason}: {VERIFY_HINT}") from exc


def decode_source(path: str, number: int, line: bytes) -> Source:
    try:
        return _decode(line)
    except REFUSALS as exc:
        raise CorpusError(path, f"is not the source of a record: {exc}", number) from exc
