"""The benchmark corpora, generated once and cached in `out/bench/corpora`.

A cached corpus has a key: the digest of its plan and of the generator's source. If either changes,
the corpus is made again and the old one is deleted. All shards are zstd at level 3, one frame per
shard.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import msgspec
import zstandard

from bench import logs, shapes
from bench.nights import make_nights
from bench.plans import (
    CORPORA,
    Copied,
    Generated,
    Halves,
    Logged,
    Nights,
    Published,
    Real,
    Resharded,
    Shaped,
    Shuffled,
)
from bench.real import real_files, scaled_real, shuffled_shard
from fastrec.commands import generate
from fastrec.commands.generate import lines
from fastrec.corpus.manifest import read_manifest
from fastrec.engine import make_engine
from fastrec.normalize.run import normalize
from fastrec.schemas.hashes import sample_hash
from fastrec.sources.lines import Chunk
from fastrec.sources.shard import shard_at

__all__ = [
    "CORPORA",
    "LEVEL",
    "OUT",
    "Corpus",
    "available",
    "corpus",
    "generator_version",
    "key_of",
    "shard_lines",
]

OUT: Final = Path(__file__).parents[1] / "out" / "bench"
LEVEL: Final = 3
_VERSION: Final = 2  # increase it to make all corpora again
_SMALL_TEXT: Final = 80  # characters to keep of each text in a small record
_MODEL: Final = re.compile(rb'("model_id"\s*:\s*")')  # inside a string the quotes are escaped

Named = Iterator[tuple[str, Iterable[bytes]]]


class Corpus(msgspec.Struct, frozen=True):
    """A corpus on disk."""

    name: str
    key: str
    shards: tuple[str, ...]
    """File names in its directory."""
    lines: int
    text_bytes: int
    file_bytes: int

    @property
    def directory(self) -> Path:
        """The directory of its shards."""
        return OUT / "corpora" / f"{self.name}-{self.key}"

    def paths(self, every: int = 1) -> list[Path]:
        """The shards, or every `every`-th of them."""
        return [self.directory / shard for shard in self.shards[::every]]


def available(name: str) -> bool:
    """Whether the corpus can be made here. Some need the real records."""
    plan = CORPORA[name]
    if isinstance(plan, Published | Nights | Halves):
        return available(plan.of)
    return bool(real_files()) if isinstance(plan, Real | Shuffled) else True


def corpus(name: str) -> Corpus:
    """A corpus, or a log; it is made now if it is not cached."""
    key = key_of(name)
    directory = OUT / "corpora" / f"{name}-{key}"
    about = directory / "corpus.json"
    if not about.exists():
        for stale in (OUT / "corpora").glob(f"{name}-{'?' * len(key)}"):
            shutil.rmtree(stale)
        plan = CORPORA[name]
        if isinstance(plan, Published):
            made = _publish(name, key, directory, corpus(plan.of))
        else:
            directory.mkdir(parents=True)
            if isinstance(plan, Nights | Halves):
                made = _write_two(name, key, directory, plan)
            elif isinstance(plan, Logged):
                made = _write_log(name, key, directory, plan)
            elif isinstance(plan, Shuffled):
                made = _write_shuffled(name, key, directory, plan)
            else:
                made = _write(name, key, directory, _shards(plan))
        about.write_bytes(msgspec.json.encode(made))
    return msgspec.json.decode(about.read_bytes(), type=Corpus)


def shard_lines(path: Path) -> Iterator[bytes]:
    """The lines of a shard without line ends."""
    for chunk in shard_at(str(path)).read():
        assert isinstance(chunk, Chunk)
        yield from chunk.data.removesuffix(b"\n").split(b"\n")


@lru_cache(maxsize=1)
def generator_version() -> str:
    """A digest of the generator's source."""
    assert generate.__file__
    digest = sha256()
    for path in sorted(Path(generate.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def key_of(name: str) -> str:
    """A digest of everything that a corpus is made of. It is known before the corpus is made."""
    plan = CORPORA[name]
    digest = sha256(msgspec.json.encode((_VERSION, plan)))
    if isinstance(plan, Generated | Shaped | Logged):
        digest.update(generator_version().encode())
        if isinstance(plan, Shaped):
            digest.update(Path(shapes.__file__).read_bytes())
        elif isinstance(plan, Logged):
            digest.update(logs.source_of(plan.kind))
    elif isinstance(plan, Real | Shuffled):
        digest.update(
            msgspec.json.encode([(path.name, path.stat().st_size) for path in real_files()])
        )
    else:
        digest.update(key_of(plan.of).encode())
    return digest.hexdigest()[:8]


def _publish(name: str, key: str, directory: Path, source: Corpus) -> Corpus:
    normalize([source.directory], directory, jobs=2, level=LEVEL)
    manifest = read_manifest(directory)
    parts = manifest.parts
    size = sum(part.bytes for part in parts)
    return Corpus(
        name, key, tuple(part.file for part in parts), manifest.records, manifest.text_bytes, size
    )


def _shards(plan: Generated | Shaped | Resharded | Copied | Real) -> Named:
    """The names of a plan's shards and their lines."""
    if isinstance(plan, Generated):
        stream = lines(plan.recipe)
        return _even(
            map(_shrunk, stream) if plan.small else stream, plan.recipe.records, plan.shards
        )
    if isinstance(plan, Shaped):
        return shapes.SHAPES[plan.shape](plan.seed)
    if isinstance(plan, Resharded):
        source = corpus(plan.of)
        return _even(
            chain.from_iterable(map(shard_lines, source.paths())), source.lines, plan.shards
        )
    if isinstance(plan, Copied):
        return _copies(corpus(plan.of), plan.times)
    return scaled_real(plan.times, plan.only)


def _even(stream: Iterator[bytes], count: int, shards: int) -> Named:
    for number in range(shards):
        share = count * (number + 1) // shards - count * number // shards
        yield f"shard-{number:05d}", islice(stream, share)


def _copies(source: Corpus, times: int) -> Named:
    """Copy every shard several times, each time with another prefix of its model names."""
    for number in range(times):
        prefixed = rb"\1v%d-" % number
        for path in source.paths():
            copy = (_MODEL.sub(prefixed, line, count=1) for line in shard_lines(path))
            yield f"v{number}-{path.name.removesuffix('.jsonl.zst')}", copy


def _shrunk(line: bytes) -> bytes:
    """Truncate the texts of a record, and correct its `sample_hash` if it has one."""
    record = _cut(msgspec.json.decode(line))
    if "sample_hash" in record:
        record["sample_hash"] = sample_hash(record["input"]["raw"], record["input"]["reference"])
    return msgspec.json.encode(record)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_SMALL_TEXT]
    if isinstance(value, list):
        return list(map(_cut, value))
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return value


def _write(name: str, key: str, directory: Path, shards: Named) -> Corpus:
    written = [_write_shard(directory / f"{stem}.jsonl.zst", shard) for stem, shard in shards]
    return _corpus(name, key, directory, written)


def _write_shard(path: Path, shard: Iterable[bytes]) -> tuple[str, int, int]:
    """Write the lines of a shard; its name, the number of lines and the size of its text."""
    count = text_bytes = 0
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=0, write_checksum=True)
    with path.open("wb") as file, compressor.stream_writer(file, closefd=False) as writer:
        for line in shard:
            text_bytes += writer.write(line + b"\n")
            count += 1
    return path.name, count, text_bytes


def _corpus(name: str, key: str, directory: Path, written: list[tuple[str, int, int]]) -> Corpus:
    names, counts, sizes = zip(*written, strict=True)
    files = sum((directory / file).stat().st_size for file in names)
    return Corpus(name, key, names, sum(counts), sum(sizes), files)


def _write_shuffled(name: str, key: str, directory: Path, plan: Shuffled) -> Corpus:
    """Write a shard per model and version, in several processes: fifty gigabytes take long.

    The smaller corpora have the first versions of the larger ones, so shards that one of them has
    are linked.
    """
    made = [
        OUT / "corpora" / f"{each}-{key_of(each)}"
        for each, one in CORPORA.items()
        if isinstance(one, Shuffled)
    ]
    others = [other for other in made if (other / "corpus.json").exists()]
    tasks = [
        (path, directory, version, others) for version in range(plan.times) for path in real_files()
    ]
    with make_engine(2) as engine:
        written = sorted(engine.run(_write_version, tasks))
    return _corpus(name, key, directory, [one for _, one in written])


def _write_version(task: tuple[Path, Path, int, list[Path]]) -> tuple[str, int, int]:
    path, directory, version, others = task
    new = directory / f"v{version:03d}-{path.parent.name}-{path.name.split('.jsonl')[0]}.jsonl.zst"
    if found := [same for other in others if (same := other / new.name).exists()]:
        new.hardlink_to(found[0])
        sizes = [len(line) + 1 for line in shard_lines(new)]
        return new.name, len(sizes), sum(sizes)
    return _write_shard(new, shuffled_shard(path, version))


def _write_log(name: str, key: str, directory: Path, plan: Logged) -> Corpus:
    samples, text_bytes = logs.WRITERS[plan.kind](plan.seed, directory, plan.size)
    files = logs.files_in(directory)
    names = tuple(str(path.relative_to(directory)) for path in files)
    return Corpus(name, key, names, samples, text_bytes, sum(path.stat().st_size for path in files))


def _write_two(name: str, key: str, directory: Path, plan: Nights | Halves) -> Corpus:
    paths = corpus(plan.of).paths()
    if isinstance(plan, Nights):
        two = ("old", "new")
        make_nights(paths, directory, anew=plan.anew)
    else:
        two = ("a", "b")
        for number, half in enumerate(two):
            normalize(paths[number::2], directory / half, jobs=2)
    manifests = {each: read_manifest(directory / each) for each in two}
    parts = [(each, part) for each, manifest in manifests.items() for part in manifest.parts]
    return Corpus(
        name,
        key,
        tuple(f"{each}/{part.file}" for each, part in parts),
        sum(part.records for _, part in parts),
        sum(part.text_bytes for _, part in parts),
        sum(part.bytes for _, part in parts),
    )
