"""Text by the megabyte: tables of a few thousand short phrases, and two random bytes to choose one.

A table is built once from a word list; after that a text costs one `getrandbits`, one `unpack`, one `map` and
one `join`. Some twelve bits for as many characters is about what prose holds for a compressor, so a corpus
shrinks some four times at zstd level 3, as real ones do.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack
from typing import Final, NamedTuple

from fastrec.commands.generate.dice import Dice
from fastrec.commands.generate.words import LATIN, LOG, WORLD, Script

__all__ = ["Library", "Table", "library"]

LATIN_TOPICS: Final = 2


class Table(NamedTuple):
    """The phrases of one topic in one script; `write` is the only thing to do with it."""

    phrases: list[str]
    glue: str

    def write(self, dice: Dice, length: int) -> str:
        """A text of `length` phrases."""
        throws = unpack(f"<{length}H", dice.bits(16 * length).to_bytes(2 * length, "little"))
        return self.glue.join(map(self.phrases.__getitem__, throws))


class Library:
    """Every table of one seed: topics in Latin script, topics of the world, and what tools print."""

    def __init__(self, seed: int) -> None:
        dice = Dice(seed + (1 << 64))  # throws of its own, not those of the stream with the same seed
        self.latin = [_table(dice, LATIN, 16384) for _ in range(LATIN_TOPICS)]
        self.world = [_table(dice, script, 1024) for script in WORLD]
        self.log = _table(dice, LOG, 16384)


@lru_cache(maxsize=2)
def library(seed: int) -> Library:
    """The library of a seed: it takes a tenth of a second to write, so small corpora like to share one."""
    return Library(seed)


def _table(dice: Dice, script: Script, count: int) -> Table:
    phrases = [_phrase(dice, script) for _ in range(count)]
    # One slot for every value of two bytes: repeating the list spares a modulo for every phrase.
    return Table(phrases * (65536 // count), script.glue)


def _phrase(dice: Dice, script: Script) -> str:
    words = [dice.favour(script.words) + dice.pick(script.endings) for _ in range(dice.between(1, 2))]
    throw = dice.roll()
    if throw < 0.10:
        words[-1] += script.stop
        words.append(dice.favour(script.words).capitalize())
    elif throw < 0.17:
        words[-1] += script.comma
    elif throw < 0.20:
        words.append(str(dice.between(2, 999)))
    elif throw < 0.24 and script.extras:
        words.append(dice.pick(script.extras))
    return script.glue.join(words)
