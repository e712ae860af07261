"""The benchmark corpora, generated once and cached in `out/bench/corpora`.

A cached corpus has a key: the digest of its plan and of the generator's source. If either changes,
the corpus is made again and the old one is deleted. All shards are zstd at level 3, one frame per
shard.
"""

import random
import re
import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from bench import logs, shapes
from bench.real import next_night, real_files, scaled_real, shard_lines, shuffled_shard, stem_of
from fastrec.commands.generate import Recipe, lines
from fastrec.corpus.manifest import read_manifest
from fastrec.engine import make_engine
from fastrec.normalize.run import normalize
from fastrec.schemas.hashes import sample_hash

OUT = Path(__file__).parents[1] / "out" / "bench"
LEVEL = 3
_VERSION = 2  # increase it to make all corpora again
_SMALL_TEXT = 80  # characters to keep of each text in a small record
_MODEL = re.compile(rb'("model_id"\s*:\s*")')  # inside a string the quotes are escaped

# The files of a corpus, each with its lines or records, and the size of its text.
Written = list[tuple[str, int, int]]


def _source(module: Any) -> bytes:
    """The source of a module and the table beside it."""
    path = Path(module.__file__)
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.stem}.*")))


@cache
def generator_version() -> str:
    """A digest of some generated text: it stays the same as long as the text does."""
    recipe = Recipe(text="words", records=300, duplicates=0.2, unknown_keys=0.2)
    return sha256(b"\n".join(lines(recipe))).hexdigest()[:8]


class Plan(msgspec.Struct, frozen=True, tag=True):
    """What a corpus is made of."""

    def available(self) -> bool:
        """Whether it can be made here. Some need the real records."""
        return True

    def content(self) -> bytes:
        """What it is made of, beside the plan; part of the key."""
        return generator_version().encode()

    def write(self, directory: Path) -> Written:
        """Write the shards."""
        shards = self.shards_of()
        return [_write_shard(directory / f"{stem}.jsonl.zst", shard) for stem, shard in shards]

    def shards_of(self) -> Iterable[tuple[str, Iterable[bytes]]]:
        """The names of its shards and their lines."""
        raise NotImplementedError


class Derived(Plan, frozen=True, tag=True):
    """A corpus made from another one."""

    of: str

    def available(self) -> bool:
        return available(self.of)

    def content(self) -> bytes:
        return key_of(self.of).encode()


class Generated(Plan, frozen=True, tag=True):
    """The lines of a recipe in shards of equal size; `small` truncates long texts."""

    recipe: Recipe
    shards: int
    small: bool = False

    def shards_of(self) -> Iterable[tuple[str, Iterable[bytes]]]:
        stream = lines(self.recipe)
        if self.small:
            stream = map(_shrunk, stream)
        return _even(stream, self.recipe.records, self.shards)


class Shaped(Plan, frozen=True, tag=True):
    """A shape of `bench.shapes`, from a seed."""

    shape: str
    seed: int

    def content(self) -> bytes:
        return generator_version().encode() + _source(shapes)

    def shards_of(self) -> Iterable[tuple[str, Iterable[bytes]]]:
        return shapes.SHAPES[self.shape](self.seed)


class Logged(Plan, frozen=True, tag=True):
    """A log of a harness, from a seed; see `bench.logs`."""

    kind: str
    seed: int
    size: int  # Questions, samples or instances.

    def content(self) -> bytes:
        return generator_version().encode() + _source(logs)

    def write(self, directory: Path) -> Written:
        samples, text_bytes = logs.WRITERS[self.kind](self.seed, directory, self.size)
        names = [str(path.relative_to(directory)) for path in logs.files_in(directory)]
        return [(names[0], samples, text_bytes), *((name, 0, 0) for name in names[1:])]


class Resharded(Derived, frozen=True, tag=True):
    """The lines of another corpus in a different number of shards."""

    shards: int

    def shards_of(self) -> Iterable[tuple[str, Iterable[bytes]]]:
        source = corpus(self.of)
        stream = chain.from_iterable(map(shard_lines, source.paths()))
        return _even(stream, source.lines, self.shards)


class Copied(Derived, frozen=True, tag=True):
    """Several copies of another corpus, each with another prefix of its model names."""

    times: int

    def shards_of(self) -> Iterable[tuple[str, Iterable[bytes]]]:
        for number in range(self.times):
            prefixed = rb"\1v%d-" % number
            for path in corpus(self.of).paths():
                copy = (_MODEL.sub(prefixed, line, count=1) for line in shard_lines(path))
                yield f"v{number}-{path.name.removesuffix('.jsonl.zst')}", copy


class OfReal(Plan, frozen=True, tag=True):
    """Several versions of the real records; see `bench.real`."""

    times: int

    def available(self) -> bool:
        return bool(real_files())

    def content(self) -> bytes:
        return msgspec.json.encode([(path.name, path.stat().st_size) for path in real_files()])


class Real(OfReal, frozen=True, tag=True):
    """Versions of all evaluations or one, each with answers of other questions."""

    only: str = ""

    def shards_of(self) -> Iterable[tuple[str, Iterable[bytes]]]:
        return scaled_real(self.times, self.only)


class Shuffled(OfReal, frozen=True, tag=True):
    """Many versions, each with the words of its answers in another order.

    The shards are written in several processes: fifty gigabytes take long. The smaller corpora have
    the first versions of the larger ones, so shards that one of them has are linked.
    """

    def write(self, directory: Path) -> Written:
        others = [
            _directory(name)
            for name, plan in CORPORA.items()
            if isinstance(plan, Shuffled) and (_directory(name) / "corpus.json").exists()
        ]
        versions = range(self.times)
        tasks = [(path, directory, k, others) for k in versions for path in real_files()]
        with make_engine(2) as engine:
            return [written for _, written in sorted(engine.run(_write_version, tasks))]


class Published(Derived, frozen=True, tag=True):
    """The normalized form of another corpus: its parts and manifest."""

    def write(self, directory: Path) -> Written:
        directory.rmdir()
        return _normalize([corpus(self.of).directory], directory, level=LEVEL)


class Nights(Derived, frozen=True, tag=True):
    """Two corpora, `old` and `new`, made from another one; see `bench.real`."""

    anew: bool

    def write(self, directory: Path) -> Written:
        written = _normalize(corpus(self.of).paths(), directory / "old", "old/")
        dice = random.Random(7)
        later = directory / "later"
        later.mkdir()
        for part in sorted((directory / "old").glob("part-*.jsonl*")):
            with (later / part.name.removesuffix(".zst")).open("wb") as file:
                for line in shard_lines(part):
                    file.writelines(next_night(line, dice, anew=self.anew))
        written += _normalize([later], directory / "new", "new/")
        shutil.rmtree(later)
        return written


class Halves(Derived, frozen=True, tag=True):
    """Two corpora, `a` and `b`, each made from every second shard of another one."""

    def write(self, directory: Path) -> Written:
        paths = corpus(self.of).paths()
        first = _normalize(paths[::2], directory / "a", "a/")
        return first + _normalize(paths[1::2], directory / "b", "b/")


def _words(records: int, seed: int, shards: int, *, small: bool = False, **more: Any) -> Generated:
    return Generated(Recipe(text="words", records=records, seed=seed, **more), shards, small)


CORPORA: dict[str, Plan] = {
    "mixed": _words(30_000, 1, 24),
    "small": _words(200_000, 2, 16, mix="single_turn", small=True),
    "agentic": _words(5_000, 3, 16, mix="agentic"),
    "unknown-keys": _words(20_000, 4, 16, unknown_keys=1.0),
    "half-duplicates": _words(30_000, 5, 16, duplicates=0.5),
    "many-evaluations": Shaped("many-evaluations", seed=8),
    "transcripts": Shaped("transcripts", seed=9),
    "giant-shard": Resharded("mixed", 1),
    "2000-shards": Resharded("small", 2_000),
    "2-shards": Resharded("small", 2),
    "ten-lines": _words(10, 6, 1),
    "real": Real(1),
    "real-x10": Real(10),
    "alpaca-x10": Real(10, only="alpaca"),  # Polars can read it: all values of a key have one type
    "shuffled-5GB": Shuffled(62),
    "shuffled-20GB": Shuffled(248),
    "shuffled-50GB": Shuffled(620),
    "mixed-x10": Copied("mixed", 10),
    "mixed-x4": Copied("mixed", 4),  # about 1 GB of text
    "published-mixed-x4": Published("mixed-x4"),
    "published-mixed": Published("mixed"),
    "published-real": Published("real"),
    "published-real-x10": Published("real-x10"),
    "nights": Nights("real-x10", anew=False),
    "nights-anew": Nights("real-x10", anew=True),
    "nights-small": Nights("real", anew=False),
    "halves": Halves("real-x10"),
    "logs-lm-eval": Logged("lm-eval", seed=11, size=33_000),
    "logs-lm-eval-shots": Logged("lm-eval-shots", seed=11, size=11_000),
    "logs-inspect": Logged("inspect", seed=12, size=1_250),
    "logs-helm": Logged("helm", seed=13, size=13_500),
    "logs-table": Logged("table", seed=14, size=100_000),
}


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
    """Whether the corpus can be made here."""
    return CORPORA[name].available()


def key_of(name: str) -> str:
    """A digest of everything that a corpus is made of. It is known before the corpus is made."""
    plan = CORPORA[name]
    return sha256(msgspec.json.encode((_VERSION, plan)) + plan.content()).hexdigest()[:8]


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
        names, counts, sizes = zip(*CORPORA[name].write(directory), strict=True)
        files = sum((directory / file).stat().st_size for file in names)
        made = Corpus(name, key, names, sum(counts), sum(sizes), files)
        about.write_bytes(msgspec.json.encode(made))
    return msgspec.json.decode(about.read_bytes(), type=Corpus)


def _even(
    stream: Iterator[bytes], count: int, shards: int
) -> Iterator[tuple[str, Iterable[bytes]]]:
    for number in range(shards):
        share = count * (number + 1) // shards - count * number // shards
        yield f"shard-{number:05d}", islice(stream, share)


def _shrunk(line: bytes) -> bytes:
    """Truncate the texts of a record, and correct its `sample_hash` if it has one."""
    record = _cut(msgspec.json.decode(line))
    if "sample_hash" in record:
        record["sample_hash"] = sample_hash(record["input"]["raw"], record["input"]["reference"])
    return msgspec.json.encode(record)


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_cut, value))
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return value[:_SMALL_TEXT] if isinstance(value, str) else value


def _write_shard(path: Path, shard: Iterable[bytes]) -> tuple[str, int, int]:
    """Write the lines of a shard; its name, the number of lines and the size of its text."""
    count = text_bytes = 0
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=0, write_checksum=True)
    with path.open("wb") as file, compressor.stream_writer(file, closefd=False) as writer:
        for line in shard:
            text_bytes += writer.write(line + b"\n")
            count += 1
    return path.name, count, text_bytes


def _write_version(task: tuple[Path, Path, int, list[Path]]) -> tuple[str, int, int]:
    path, directory, version, others = task
    new = directory / f"v{version:03d}-{stem_of(path)}.jsonl.zst"
    for other in others:
        if (other / new.name).exists():
            new.hardlink_to(other / new.name)
            sizes = [len(line) + 1 for line in shard_lines(new)]
            return new.name, len(sizes), sum(sizes)
    return _write_shard(new, shuffled_shard(path, version))


def _normalize(inputs: list[Path], output: Path, prefix: str = "", **options: Any) -> Written:
    normalize(inputs, output, jobs=2, **options)
    parts = read_manifest(output).parts
    return [(prefix + part.file, part.records, part.text_bytes) for part in parts]
