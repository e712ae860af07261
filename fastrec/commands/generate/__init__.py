"""Synthetic shards from a seed: any size, every spelling, every kind of invalid line.

    tasks, text ─▶ evaluation (questions, answers) ─▶ records (valid) ─▶ invalid ─▶ lines ─▶ shards
    on disk producers (models, spellings) ──────────────────▶

For each line: draw its kind; compose a record of the next model and question, or take a written one
for duplicates and conflicts; vary it or make it invalid; write it in the spelling of its producer.
`labelled_lines` names the kind of each line, so a test knows what a run must find. Memory is
constant.

The lines depend on the recipe alone, not on the number of shards. The same recipe gives the same
text on every platform and Python version. Compressed bytes may change with the version of zstd or
zlib.
"""

import gzip
import os
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, cycle, islice
from pathlib import Path

import zstandard

from fastrec.commands.generate.evaluation import QuestionBank
from fastrec.commands.generate.evaluation import Recipe as Recipe
from fastrec.commands.generate.invalid import INVALID_LINES, MISTAKES, WARNINGS
from fastrec.commands.generate.records import Answer, add_unknown_keys, compose
from fastrec.commands.generate.text import Rng
from fastrec.errors import UsageError, check_choice, naming
from fastrec.notebook import Framed
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.storage import check_local

_POOL = 256
_BLANKS = (b"", b" ", b"\t", b"   ")
_Labelled = tuple[str, bytes]  # the kind of a line, and the line


def lines(recipe: Recipe) -> Iterator[bytes]:
    return (line for _, line in labelled_lines(recipe))


def labelled_lines(recipe: Recipe) -> Iterator[_Labelled]:
    """Yield each line with its kind.

    A kind is `record`, `duplicate`, `conflict`, `blank`, or the code of an invalid line.

    A duplicate repeats an earlier record, half of the time byte for byte and half of the time in
    another spelling. A conflict has the identity of an earlier record and another answer.
    """
    source = _Source(recipe)
    # Each kind has an interval of the random numbers; the rest makes new records.
    limits = list(accumulate(recipe.shares))
    kinds = (source.invalid, source.duplicate, source.conflict, source.blank, source.record)
    for _ in range(recipe.records):
        make = kinds[bisect(limits, source.rng.random())]
        yield make()


class _Source:
    """Makes lines; remembers the questions asked so far and a bounded pool of answers."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.rng = Rng(recipe.seed)
        bank = QuestionBank(self.rng, recipe)
        self.types = bank.weighted_types
        self.asked = bank.asked
        self.pool: list[Answer] = []
        self.answers = self.new_answers()
        self.warnings = cycle(row for row in WARNINGS if not set(self.types).isdisjoint(row.types))
        self.mistakes = cycle(MISTAKES if recipe.is_later else INVALID_LINES)

    def record(self) -> _Labelled:
        answer = next(self.answers)
        # Keep the first records, then let one in eight replace a random one, so that the pool has
        # old and new.
        if self.recipe.duplicates or self.recipe.conflicts:
            if len(self.pool) < _POOL:
                self.pool.append(answer)
            elif self.rng.chance(0.125):
                self.pool[self.rng.below(_POOL)] = answer
        return "record", answer.line()

    def new_answers(self) -> Iterator[Answer]:
        """Yield answers to the next questions, each once for every metric and epoch."""
        rng = self.rng
        while True:
            warning = next(self.warnings) if rng.chance(self.recipe.warnings) else None
            kind = rng.choice(self.types)
            while warning and kind not in warning.types:
                kind = rng.choice(self.types)
            answer = compose(rng, *next(self.asked[kind]))
            if warning:
                warning.apply(answer.record, answer.author.schema)
            if rng.chance(self.recipe.unknown_keys):
                add_unknown_keys(rng, answer)
            yield from list(answer.records(rng))  # all at once: other lines draw in between

    # Without an earlier record, these two make another one.

    def duplicate(self) -> _Labelled:
        if not self.pool:
            return self.record()
        answer = self.rng.choice(self.pool)
        return "duplicate", answer.respelled(self.rng) if self.rng.chance(0.5) else answer.line()

    def conflict(self) -> _Labelled:
        if not self.pool:
            return self.record()
        answer = self.rng.choice(self.pool)
        return "conflict", answer.conflict(self.rng).line()

    def invalid(self) -> _Labelled:
        if self.recipe.is_later:
            kind = self.rng.choice(self.types)
            answer = compose(self.rng, *next(self.asked[kind]))
            schema = answer.author.schema
            row = next(row for row in self.mistakes if kind in row.types and row.fits(schema))
        else:
            row = next(self.mistakes)
            kind = row.types[0] if len(row.types) == 1 else self.rng.choice(self.types)
            answer = compose(self.rng, *next(self.asked[kind]))
        return row.code.format(turns=answer.author.schema.turns_field), row.line(answer)

    def blank(self) -> _Labelled:
        return "blank", self.rng.choice(_BLANKS)


# Text per compressed frame. A frame declares its size, so its text must fit in memory.
FRAME_BYTES = 4 << 20
_COMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "zst": lambda text: zstandard.ZstdCompressor(level=3, write_checksum=True).compress(text),
    # Level 1 is three times as fast as 6.
    "gz": partial(gzip.compress, compresslevel=1, mtime=0),
}


class Generated(Framed):
    """What `generate` wrote: shards, lines, bytes of text and of files, lines by kind."""

    paths: tuple[str, ...]
    lines: int
    text_bytes: int
    file_bytes: int
    kinds: dict[str, int]


def generate(
    output: str | Path,
    *,
    records: int = 10_000,
    seed: int = 0,
    shards: int = 8,
    compression: str = "zst",
    duplicates: float = 0.0,
    conflicts: float = 0.0,
    unknown_keys: float = 0.0,
    rejects: float = 0.0,
    blanks: float = 0.0,
    warnings: float = 0.0,
    mix: str = "mixed",
    schema: str = DEFAULT_SCHEMA.name,
    text: str = "evaluation",
) -> Generated:
    """Write synthetic shards into the directory `output`, which must be empty or not exist.

    The lines are those of `labelled_lines` for the same recipe, spread evenly over the shards. The
    second shard has CRLF line ends, the third begins with a byte order mark, and the fourth lacks
    its last newline.

    Args:
        output: The directory; shards are named `shard-00000.jsonl`, with `.zst` or `.gz` added as
            needed.
        records: Number of lines, of all kinds.
        seed: Seed of the random numbers.
        shards: Number of files.
        compression: `zst`, `gz`, `none`, or `mixed` for all three in turn.
        duplicates: Share of lines that repeat a record, in the same bytes or in another spelling.
        conflicts: Share of lines with the identity of another record and other content: another
            answer or, in versions after the oldest one, the same answer with another verdict in
            half of them.
        unknown_keys: Share of records with keys that the schema does not name.
        rejects: Share of invalid lines, of all codes in turn.
        blanks: Share of blank lines.
        warnings: Share of records with a warning, of all codes in turn.
        mix: `mixed` interaction types, or only `single_turn`, or only `agentic`.
        schema: The version of the records, or `mixed`: each producer has one of the versions, so
            that most shards have records of several. Versions after the oldest one have several
            metrics and epochs, labels of other versions, and hashes of all recipes; their invalid
            lines are mistakes of known producers.
        text: `evaluation` for questions and answers that can be read, or `words` for random words,
            which give longer lines, as in benchmarks.

    Raises:
        UsageError: An argument is wrong, or the directory is not empty.
    """
    recipe = Recipe(
        records=records,
        seed=seed,
        duplicates=duplicates,
        conflicts=conflicts,
        unknown_keys=unknown_keys,
        rejects=rejects,
        blanks=blanks,
        warnings=warnings,
        mix=mix,
        schema=schema,
        text=text,
    )
    if shards < 1:
        raise UsageError("the number of shards must be at least 1")
    check_choice("compression", compression, (*_COMPRESSORS, "mixed"))
    formats = [*_COMPRESSORS] if compression == "mixed" else [compression]
    check_local(os.fspath(output), "shards")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a directory; choose another output")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UsageError(
            f"{folder} is not empty, and its files would mix with the new shards; choose another "
            "output"
        )
    kinds = Counter[str]()
    stream = labelled_lines(recipe)
    paths = []
    text_bytes = 0
    file_bytes = 0
    for number in range(shards):
        count = records * (number + 1) // shards - records * number // shards
        shard_format = formats[number % len(formats)]
        suffix = f".{shard_format}".removesuffix(".none")
        path = folder / f"shard-{number:05d}.jsonl{suffix}"
        try:
            with naming(str(path)), path.open("wb") as file:
                for frame in _frames(islice(stream, count), number, kinds):
                    text_bytes += len(frame)
                    file_bytes += file.write(_COMPRESSORS[shard_format](frame))
        except BaseException:  # a cut shard may look like a whole one
            path.unlink(missing_ok=True)
            raise
        paths.append(str(path))
    return Generated(tuple(paths), records, text_bytes, file_bytes, dict(sorted(kinds.items())))


def _frames(shard: Iterator[_Labelled], number: int, kinds: Counter[str]) -> Iterator[bytes]:
    """Yield the text of one shard in frames of whole lines.

    At least one, so that an empty shard is a valid file.
    """
    end = b"\r\n" if number == 1 else b"\n"
    frame = bytearray(b"\xef\xbb\xbf" if number == 2 else b"")
    for kind, line in shard:
        if len(frame) >= FRAME_BYTES:
            yield bytes(frame)
            frame.clear()
        kinds[kind] += 1
        frame += line + end
    yield bytes(frame.removesuffix(end) if number == 3 else frame)
