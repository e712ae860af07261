"""Random numbers that are the same on every platform, and random text at high speed.

Text comes from tables of a few thousand short phrases, built once from the word lists of
`data/words.toml`. Two random bytes choose each phrase, so a text costs one `getrandbits`, one
`unpack`, one `map` and one `join`. About twelve random bits per twelve characters make the text as
compressible as real corpora: about four times at zstd level 3.
"""

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path
from random import Random
from struct import unpack
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Facts = dict[str, Any]  # a table of a file in `data/`, or what was drawn from it


@cache
def table(name: str) -> Facts:
    """The tables of a file in `data/`."""
    path = Path(__file__).parent / "data" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def in_turn(lists: Iterable[Sequence[T]]) -> Sequence[T]:
    """The first item of every list, then the second of every list, and so on."""
    return [item for turn in zip_longest(*lists) for item in turn if item]


class Rng:
    """A seeded generator on `random()` and `getrandbits()`, whose algorithm never changed.

    `randrange`, `choice`, `shuffle` and `sample` have changed between Python versions, and `gauss`
    depends on the platform's libm. The helpers here use plain IEEE arithmetic, which is the same
    everywhere.
    """

    __slots__ = ("bits", "random")

    def __init__(self, seed: int) -> None:
        source = Random(seed)
        self.random = source.random
        self.bits = source.getrandbits

    def below(self, stop: int) -> int:
        """An integer in `[0, stop)`."""
        return int(self.random() * stop)

    def between(self, low: int, high: int) -> int:
        """An integer in `[low, high]`."""
        return self.choice(range(low, high + 1))

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def skewed_choice(self, items: Sequence[T]) -> T:
        """An item, early ones far more often: close enough to Zipf's law for word lists."""
        number = self.random()
        return items[int(number * number * len(items))]

    def chance(self, share: float) -> bool:
        return self.random() < share

    def long_tail(self, typical: int, longest: int) -> int:
        """A size near `typical`, with a long tail up to `longest`, like the sizes of outputs."""
        return int(typical / (2.0 * self.random() + typical / longest)) + 1

    def shuffled(self, items: Sequence[T]) -> list[T]:
        result = list(items)
        for last in range(len(result) - 1, 0, -1):
            other = self.below(last + 1)
            result[last], result[other] = result[other], result[last]
        return result


class PhraseTable(NamedTuple):
    """The phrases of one topic in one script."""

    phrases: list[str]
    glue: str

    def write(self, rng: Rng, length: int) -> str:
        numbers = unpack(f"<{length}H", rng.bits(16 * length).to_bytes(2 * length, "little"))
        return self.glue.join(map(self.phrases.__getitem__, numbers))


class PhraseTables(NamedTuple):
    """All tables of one seed: topics in Latin script, in other scripts, and outputs of tools."""

    latin: list[PhraseTable]
    world: list[PhraseTable]
    log: PhraseTable


@lru_cache(maxsize=2)
def phrase_tables(seed: int) -> PhraseTables:
    """The tables of a seed; cached, because building them takes a tenth of a second."""
    defaults, latin, log, *world = table("words").values()
    rng = Rng(seed + (1 << 64))  # independent of the generator that the lines of this seed use

    def phrases(given: Facts) -> PhraseTable:
        script = {**defaults, **given, "words": given["words"].split()}
        # One slot for every value of two bytes: repeating the phrases saves a modulo for each.
        distinct = [_phrase(rng, script) for _ in range(65536 // script["repeats"])]
        return PhraseTable(distinct * script["repeats"], script["glue"])

    topics = [phrases(latin), phrases(latin)]
    return PhraseTables(topics, list(map(phrases, world)), phrases(log))


def _phrase(rng: Rng, script: Facts) -> str:
    phrase = [
        rng.skewed_choice(script["words"]) + rng.choice(script["endings"])
        for _ in range(rng.between(1, 2))
    ]
    number = rng.random()
    if number < 0.17:
        phrase[-1] += rng.choice(script["marks"])
    elif number < 0.20:
        phrase.append(str(rng.between(2, 999)))
    elif number < 0.24 and script["extras"]:
        phrase.append(rng.choice(script["extras"]))
    return str(script["glue"].join(phrase))
