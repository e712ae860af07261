"""The lines of a recipe, each with its kind, in constant memory.

For each line: draw its kind; compose a record of the next model and question, or take a written one for duplicates and
conflicts; vary it or make it invalid; write it in the spelling of its producer. The lines depend on the recipe alone,
not on the number of shards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import cycle

import msgspec

from fastrec.commands.generate.invalid import INVALID_LINES
from fastrec.commands.generate.producers import Record, Spelling, producer, respelling
from fastrec.commands.generate.questions import MIXES, Question, QuestionBank
from fastrec.commands.generate.records import compose
from fastrec.commands.generate.text import Rng, phrase_tables
from fastrec.commands.generate.variations import WARNINGS, add_unknown_keys, answered_again, respelled
from fastrec.errors import UsageError

__all__ = ["Recipe", "labelled_lines", "lines"]

POOL = 256
BLANKS = (b"", b" ", b"\t", b"   ")
HALF = re.compile(rb'("score": ?)0\.5(?=[,}])')  # never matches inside a string, where quotes are escaped


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What to generate. Shares are between 0 and 1.

    `records` counts all lines; `duplicates`, `conflicts`, `rejects` and `blanks` are shares of them. The remaining
    lines are new records; `unknown_keys` and `warnings` are shares of those.
    """

    records: int = 10_000
    seed: int = 0
    duplicates: float = 0.0
    conflicts: float = 0.0
    unknown_keys: float = 0.0
    rejects: float = 0.0
    blanks: float = 0.0
    warnings: float = 0.0
    mix: str = "mixed"

    def __post_init__(self) -> None:
        if self.records < 0 or self.seed < 0:
            raise UsageError("the number of records and the seed must not be negative")
        if self.mix not in MIXES:
            raise UsageError(f"mix must be one of {', '.join(MIXES)}, not {self.mix!r}")
        kinds = (self.duplicates, self.conflicts, self.rejects, self.blanks)
        if not all(0 <= share <= 1 for share in (*kinds, self.unknown_keys, self.warnings)):
            raise UsageError("a share must be between 0 and 1")
        if sum(kinds) > 1 + 1e-9:
            raise UsageError("the shares of duplicates, conflicts, rejects and blanks add up to more than 1")


def lines(recipe: Recipe) -> Iterator[bytes]:
    """Yield the lines of the recipe, without newlines."""
    return (line for _, line in labelled_lines(recipe))


def labelled_lines(recipe: Recipe) -> Iterator[tuple[str, bytes]]:
    """Yield each line with its kind: `record`, `duplicate`, `conflict`, `blank`, or the code of an invalid line.

    A duplicate repeats an earlier record, half of the time byte for byte and half of the time in another spelling. A
    conflict has the identity of an earlier record and another answer.
    """
    source = _Source(recipe)
    kinds = (
        (recipe.rejects, source.invalid),
        (recipe.duplicates, source.duplicate),
        (recipe.conflicts, source.conflict),
        (recipe.blanks, source.blank),
    )
    for _ in range(recipe.records):
        number = source.rng.random()
        for share, make in kinds:
            if number < share:
                yield make()
                break
            number -= share
        else:
            yield source.record()


class _Source:
    """Makes lines; remembers the questions asked so far and a bounded pool of written records."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.rng = Rng(recipe.seed)
        self.tables = phrase_tables(recipe.seed)
        self.bank = QuestionBank(self.rng, self.tables, recipe.records, recipe.mix)
        self.pool: list[tuple[Record, Question, Spelling, bytes]] = []
        self.producer = lru_cache(maxsize=16)(partial(producer, recipe.seed))
        self.warnings = cycle([row for row in WARNINGS if any(kind in MIXES[recipe.mix] for kind in row.types)])
        self.invalid_lines = cycle(INVALID_LINES)

    def compose(self, kind: str) -> tuple[Record, Question, Spelling]:
        number, question = self.bank.next(kind)
        author = self.producer(number)
        return compose(self.rng, self.tables, author, question), question, author.spelling

    def record(self) -> tuple[str, bytes]:
        rng, recipe = self.rng, self.recipe
        warning = next(self.warnings) if rng.chance(recipe.warnings) else None
        kind = rng.choice(self.bank.weighted_types)
        while warning and kind not in warning.types:
            kind = rng.choice(self.bank.weighted_types)
        record, question, spelling = self.compose(kind)
        if warning:
            warning.apply(record)
        if rng.chance(recipe.unknown_keys):
            add_unknown_keys(rng, record)
        line = spelling.line(record)
        # Keep the first records, then let one in eight replace a random one, so that the pool has old and new.
        if recipe.duplicates or recipe.conflicts:
            if len(self.pool) < POOL:
                self.pool.append((record, question, spelling, line))
            elif rng.chance(0.125):
                self.pool[rng.below(POOL)] = (record, question, spelling, line)
        return "record", line

    def duplicate(self) -> tuple[str, bytes]:
        if not self.pool:
            return self.record()
        record, question, _, line = self.rng.choice(self.pool)
        if self.rng.chance(0.5):
            line = HALF.sub(rb"\g<1>5E-1", respelling(self.rng).line(respelled(record, question)))
        return "duplicate", line

    def conflict(self) -> tuple[str, bytes]:
        if not self.pool:
            return self.record()
        record, question, spelling, _ = self.rng.choice(self.pool)
        return "conflict", spelling.line(answered_again(self.rng, record, question))

    def invalid(self) -> tuple[str, bytes]:
        row = next(self.invalid_lines)
        record, _, spelling = self.compose(row.needs or self.rng.choice(self.bank.weighted_types))
        return row.code, row.line(record, spelling)

    def blank(self) -> tuple[str, bytes]:
        return "blank", self.rng.choice(BLANKS)
