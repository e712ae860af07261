"""The stream of lines: a recipe in, one labelled line after the other out, with flat memory.

For each line: throw for its kind; compose a record of the next model and question (or take one from the
pool of those already written, for duplicates and conflicts); twist or spoil it; spell it as its producer
does. The lines depend on the recipe alone, not on how they will be spread over shards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial

import msgspec

from fastrec.commands.generate.dice import Dice
from fastrec.commands.generate.flaws import FLAWS
from fastrec.commands.generate.producers import Record, Spelling, producer, respelling
from fastrec.commands.generate.prose import library
from fastrec.commands.generate.questions import MIXES, Bank, Question
from fastrec.commands.generate.records import compose
from fastrec.commands.generate.twists import DOUBTS, add_strange_keys, rerun, respelled
from fastrec.errors import UsageError

__all__ = ["Recipe", "labelled_lines", "lines"]

POOL = 256
BLANKS = (b"", b" ", b"\t", b"   ")
HALF = re.compile(rb'("score": ?)0\.5(?=[,}])')  # a number of the record: inside a string the quotes are escaped

Written = tuple[Record, Question, Spelling, bytes]


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What to generate. Shares lie between 0 and 1.

    `records` counts all lines; `duplicates`, `conflicts`, `rejects` and `blanks` are shares of them, and what
    remains are records of their own. `unknown_keys` and `warnings` are shares of those records.
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
            raise UsageError("the number of records and the seed cannot be negative")
        if self.mix not in MIXES:
            raise UsageError(f"mix is one of {', '.join(MIXES)}, not {self.mix!r}")
        kinds = (self.duplicates, self.conflicts, self.rejects, self.blanks)
        if not all(0 <= share <= 1 for share in (*kinds, self.unknown_keys, self.warnings)):
            raise UsageError("a share lies between 0 and 1")
        if sum(kinds) > 1 + 1e-9:
            raise UsageError("the shares of duplicates, conflicts, rejects and blanks are more than 1 together")


def lines(recipe: Recipe) -> Iterator[bytes]:
    """The lines of the recipe, without their ends."""
    return (line for _, line in labelled_lines(recipe))


def labelled_lines(recipe: Recipe) -> Iterator[tuple[str, bytes]]:
    """Each line with its kind: `record`, `duplicate`, `conflict`, `blank`, or the code of the reject.

    A duplicate repeats an earlier record, half of the time byte by byte and half in another spelling. A
    conflict has the identity of an earlier record and another answer.
    """
    source = _Source(recipe)
    steps = (
        (recipe.rejects, source.reject),
        (recipe.duplicates, source.duplicate),
        (recipe.conflicts, source.conflict),
        (recipe.blanks, source.blank),
    )
    roll = source.dice.roll
    for _ in range(recipe.records):
        throw = roll()
        for share, step in steps:
            if throw < share:
                yield step()
                break
            throw -= share
        else:
            yield source.record()


class _Source:
    """All that a stream remembers: the dice, the questions, and a bounded pool of records already written."""

    def __init__(self, recipe: Recipe) -> None:
        self.dice = Dice(recipe.seed)
        self.library = library(recipe.seed)
        self.bank = Bank(self.dice, self.library, recipe.records, recipe.mix)
        self.recipe = recipe
        self.pool: list[Written] = []
        self.pools = recipe.duplicates + recipe.conflicts > 0
        self.producer = lru_cache(maxsize=16)(partial(producer, recipe.seed))
        kinds = MIXES[recipe.mix]
        self.doubts = [doubt for doubt in DOUBTS if any(kind in kinds for kind in doubt.kinds)]
        self.doubted = self.rejected = 0

    def fresh(self, kind: str) -> tuple[Record, Question, Spelling]:
        number, question = self.bank.next(kind)
        author = self.producer(number)
        return compose(self.dice, self.library, author, question), question, author.spelling

    def record(self) -> tuple[str, bytes]:
        dice, recipe = self.dice, self.recipe
        if dice.chance(recipe.warnings):
            doubt = self.doubts[self.doubted % len(self.doubts)]
            self.doubted += 1
            kind = self.bank.spin(dice)
            while kind not in doubt.kinds:
                kind = self.bank.spin(dice)
            record, question, style = self.fresh(kind)
            doubt.raise_in(record)
        else:
            record, question, style = self.fresh(self.bank.spin(dice))
        if dice.chance(recipe.unknown_keys):
            add_strange_keys(dice, record)
        line = style.line(record)
        if self.pools:
            self.remember((record, question, style, line))
        return "record", line

    def remember(self, written: Written) -> None:
        """Keep the first ones, then let one in eight take a random place: old and new can be repeated."""
        if len(self.pool) < POOL:
            self.pool.append(written)
        elif self.dice.chance(0.125):
            self.pool[self.dice.below(POOL)] = written

    def duplicate(self) -> tuple[str, bytes]:
        if not self.pool:
            return self.record()
        record, question, _, line = self.dice.pick(self.pool)
        if self.dice.chance(0.5):
            style = respelling(self.dice)
            line = HALF.sub(rb"\g<1>5E-1", style.line(respelled(record, question)))
        return "duplicate", line

    def conflict(self) -> tuple[str, bytes]:
        if not self.pool:
            return self.record()
        record, question, style, _ = self.dice.pick(self.pool)
        return "conflict", style.line(rerun(self.dice, record, question))

    def reject(self) -> tuple[str, bytes]:
        flaw = FLAWS[self.rejected % len(FLAWS)]
        self.rejected += 1
        record, _, style = self.fresh(flaw.needs or self.bank.spin(self.dice))
        return flaw.code, flaw.line(record, style)

    def blank(self) -> tuple[str, bytes]:
        return "blank", self.dice.pick(BLANKS)
