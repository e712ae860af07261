"""The benchmark corpora, generated once and cached in `out/bench/corpora`.

`corpora.toml` says what each corpus is made of. A cached corpus has a key: the digest of its row
there and of what it is made from. If either changes, the corpus is made again and the old one is
deleted. All shards are zstd at level 3, one frame per shard.
"""

import random
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from bench import logs, shapes
from bench.measure import LEVEL
from bench.real import next_night, real_files, scaled_real, shard_lines, shuffled_shard, stem_of
from bench.templates import table
from fastrec.commands.generate import Recipe, lines
from fastrec.corpus.manifest import read_manifest
from fastrec.engine import make_engine
from fastrec.normalize.run import normalize

Plan = Mapping[str, Any]  # A row of `corpora.toml`.
Shards = Iterator[tuple[str, Iterable[bytes]]]  # Names of shards and their lines.
# The files of a corpus, each with its lines or records, and the size of its text.
Written = list[tuple[str, int, int]]

OUT = Path(__file__).parents[1] / "out" / "bench"
_VERSION = 2  # increase it to make all corpora again
_MODEL = re.compile(rb'("model_id"\s*:\s*")')  # inside a string the quotes are escaped
_ZST = ".jsonl.zst"
CORPORA: dict[str, Plan] = table("corpora.toml")


class Corpus(msgspec.Struct, frozen=True):
    """A corpus on disk."""

    name: str
    key: str
    shards: tuple[str, ...]  # File names in its directory.
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
    if "of" in plan:
        return available(plan["of"])
    return plan["type"] not in _OF_REAL or bool(real_files())


def key_of(name: str) -> str:
    """A digest of everything that a corpus is made of. It is known before the corpus is made."""
    plan = CORPORA[name]
    content = generator_version().encode()
    if "of" in plan:
        content = key_of(plan["of"]).encode()
    elif plan["type"] in _OF_REAL:
        content = msgspec.json.encode([(path.name, path.stat().st_size) for path in real_files()])
    elif plan["type"] in _SOURCES:
        content += _sources("documents", _SOURCES[plan["type"]])
    return sha256(msgspec.json.encode((_VERSION, plan)) + content).hexdigest()[:8]


@cache
def generator_version() -> str:
    """A digest of some generated text: it stays the same as long as the text does."""
    recipe = Recipe(text="words", records=300, duplicates=0.2, unknown_keys=0.2)
    return sha256(b"\n".join(lines(recipe))).hexdigest()[:8]


def _sources(*modules: str) -> bytes:
    """The sources of modules and the tables beside them."""
    folder = Path(__file__).parent
    paths = (path for name in modules for path in sorted(folder.glob(f"{name}.*")))
    return b"".join(path.read_bytes() for path in paths)


def _directory(name: str) -> Path:
    return OUT / "corpora" / f"{name}-{key_of(name)}"


def corpus(name: str) -> Corpus:
    """A corpus, or a log; it is made now if it is not cached."""
    key = key_of(name)
    directory = _directory(name)
    about = directory / "corpus.json"
    if not about.exists():
        for stale in (OUT / "corpora").glob(f"{name}-{'?' * len(key)}"):
            shutil.rmtree(stale)
        directory.mkdir(parents=True)
        facts = dict(CORPORA[name])
        written = _WRITERS[facts.pop("type")](directory, **facts)
        names, counts, sizes = zip(*written, strict=True)
        files = sum((directory / file).stat().st_size for file in names)
        new = Corpus(name, key, names, sum(counts), sum(sizes), files)
        about.write_bytes(msgspec.json.encode(new))
    return msgspec.json.decode(about.read_bytes(), type=Corpus)


def write_shard(path: Path, shard: Iterable[bytes]) -> tuple[str, int, int]:
    """Write the lines of a shard; its name, the number of lines and the size of its text."""
    count = text_bytes = 0
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=0, write_checksum=True)
    with path.open("wb") as file, compressor.stream_writer(file, closefd=False) as writer:
        for line in shard:
            text_bytes += writer.write(line + b"\n")
            count += 1
    return path.name, count, text_bytes


def _shards(make: Callable[..., Shards]) -> Callable[..., Written]:
    """A function that writes the shards that `make` yields."""

    def write(directory: Path, **facts: Any) -> Written:
        return [write_shard(directory / (stem + _ZST), shard) for stem, shard in make(**facts)]

    return write


def _even(stream: Iterator[bytes], count: int, shards: int) -> Shards:
    for number in range(shards):
        share = count * (number + 1) // shards - count * number // shards
        yield f"shard-{number:05d}", islice(stream, share)


def _generated(shards: int, **recipe: Any) -> Shards:
    """The lines of a recipe in shards of equal size."""
    stream = lines(Recipe(**{"text": "words", **recipe}))
    return _even(stream, recipe["records"], shards)


def _resharded(of: str, shards: int) -> Shards:
    """The lines of another corpus in a different number of shards."""
    source = corpus(of)
    return _even(chain.from_iterable(map(shard_lines, source.paths())), source.lines, shards)


def _copied(of: str, times: int) -> Shards:
    """Several copies of another corpus, each with another prefix of its model names."""
    for number in range(times):
        prefixed = rb"\1v%d-" % number
        for path in corpus(of).paths():
            copy = (_MODEL.sub(prefixed, line, count=1) for line in shard_lines(path))
            yield f"v{number}-{path.name.removesuffix(_ZST)}", copy


def _shuffled(directory: Path, times: int) -> Written:
    """Many versions of the real records, each with the words of its answers in another order.

    The shards are written in several processes: fifty gigabytes take long. The smaller corpora have
    the first versions of the larger ones, so shards that one of them has are linked.
    """
    others = [_directory(name) for name, plan in CORPORA.items() if plan["type"] == "Shuffled"]
    others = [other for other in others if (other / "corpus.json").exists()]
    tasks = [(path, directory, k, others) for k in range(times) for path in real_files()]
    with make_engine(2) as engine:
        return [written for _, written in sorted(engine.run(_write_version, tasks))]


def _write_version(task: tuple[Path, Path, int, list[Path]]) -> tuple[str, int, int]:
    path, directory, version, others = task
    new = directory / f"v{version:03d}-{stem_of(path)}{_ZST}"
    for other in others:
        if (other / new.name).exists():
            new.hardlink_to(other / new.name)
            sizes = [len(line) + 1 for line in shard_lines(new)]
            return new.name, len(sizes), sum(sizes)
    return write_shard(new, shuffled_shard(path, version))


def _normalize(inputs: list[Path], output: Path, prefix: str = "", **options: Any) -> Written:
    normalize(inputs, output, jobs=2, **options)
    parts = read_manifest(output).parts
    return [(prefix + part.file, part.records, part.text_bytes) for part in parts]


def _published(directory: Path, of: str) -> Written:
    """The normalized form of another corpus: its parts and manifest."""
    directory.rmdir()
    return _normalize([corpus(of).directory], directory, level=LEVEL)


def _nights(directory: Path, of: str, *, anew: bool) -> Written:
    """Two corpora, `old` and `new`, made from another one; see `bench.real`."""
    written = _normalize(corpus(of).paths(), directory / "old", "old/")
    dice = random.Random(7)
    later = directory / "later"
    later.mkdir()
    for part in sorted((directory / "old").glob("part-*.jsonl*")):
        nights = (next_night(line, dice, anew=anew) for line in shard_lines(part))
        write_shard(later / part.name, chain.from_iterable(nights))
    written += _normalize([later], directory / "new", "new/")
    shutil.rmtree(later)
    return written


def _halves(directory: Path, of: str) -> Written:
    """Two corpora, `a` and `b`, each made from every second shard of another one."""
    paths = corpus(of).paths()
    first = _normalize(paths[::2], directory / "a", "a/")
    return first + _normalize(paths[1::2], directory / "b", "b/")


def _logged(directory: Path, kind: str, seed: int, size: int) -> Written:
    """A log of a harness; see `bench.logs`."""
    samples, text_bytes = logs.WRITERS[kind](seed, directory, size)
    first, *others = (str(path.relative_to(directory)) for path in logs.files_in(directory))
    return [(first, samples, text_bytes), *((name, 0, 0) for name in others)]


_WRITERS: dict[str, Callable[..., Written]] = {
    "Generated": _shards(_generated),
    "Shaped": _shards(shapes.shards_of),
    "Resharded": _shards(_resharded),
    "Copied": _shards(_copied),
    "Real": _shards(scaled_real),
    "Shuffled": _shuffled,
    "Published": _published,
    "Nights": _nights,
    "Halves": _halves,
    "Logged": _logged,
}
_OF_REAL = {"Real", "Shuffled"}
_SOURCES = {"Shaped": "shapes", "Logged": "logs"}
