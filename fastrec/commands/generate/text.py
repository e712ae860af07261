"""Random text at high speed: a table of a few thousand short phrases, and two random bytes to choose each phrase.

A table is built once from a word list of `words.toml`. After that a text costs one `getrandbits`, one `unpack`, one
`map` and one `join`. About twelve random bits per twelve characters make the text as compressible as real corpora:
about four times at zstd level 3.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from struct import unpack
from typing import Final, NamedTuple

from fastrec.commands.generate.rng import Rng

__all__ = ["PhraseTable", "PhraseTables", "phrase_tables"]

LATIN_TOPICS: Final = 2


class WordList(NamedTuple):
    """The words of one script, the most frequent first, with its punctuation."""

    words: Sequence[str]
    glue: str = " "
    stop: str = "."
    comma: str = ","
    extras: Sequence[str] = ()
    endings: Sequence[str] = ("",)


class PhraseTable(NamedTuple):
    """The phrases of one topic in one script."""

    phrases: list[str]
    glue: str

    def write(self, rng: Rng, length: int) -> str:
        """Return a text of `length` phrases."""
        numbers = unpack(f"<{length}H", rng.bits(16 * length).to_bytes(2 * length, "little"))
        return self.glue.join(map(self.phrases.__getitem__, numbers))


class PhraseTables:
    """All tables of one seed: topics in Latin script, topics in other scripts, and the output of tools."""

    def __init__(self, seed: int) -> None:
        lists = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
        latin, log, *world = (WordList(**{**fields, "words": fields["words"].split()}) for fields in lists.values())
        rng = Rng(seed + (1 << 64))  # independent of the generator that the lines of this seed use
        self.latin = [_table(rng, latin, 16384) for _ in range(LATIN_TOPICS)]
        self.world = [_table(rng, words, 1024) for words in world]
        self.log = _table(rng, log, 16384)


@lru_cache(maxsize=2)
def phrase_tables(seed: int) -> PhraseTables:
    """Return the tables of a seed; cached, because building them takes a tenth of a second."""
    return PhraseTables(seed)


def _table(rng: Rng, words: WordList, count: int) -> PhraseTable:
    phrases = [_phrase(rng, words) for _ in range(count)]
    # One slot for every value of two bytes: repeating the list saves a modulo for every phrase.
    return PhraseTable(phrases * (65536 // count), words.glue)


def _phrase(rng: Rng, script: WordList) -> str:
    words = [rng.skewed_choice(script.words) + rng.choice(script.endings) for _ in range(rng.between(1, 2))]
    number = rng.random()
    if number < 0.10:
        words[-1] += script.stop
        words.append(rng.skewed_choice(script.words).capitalize())
    elif number < 0.17:
        words[-1] += script.comma
    elif number < 0.20:
        words.append(str(rng.between(2, 999)))
    elif number < 0.24 and script.extras:
        words.append(rng.choice(script.extras))
    return script.glue.join(words)
