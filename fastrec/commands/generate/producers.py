"""Producers: one per model, each with its own choice of optional fields and its own JSON spelling.

These habits belong to the model, not to the line, as in real data: one harness writes sorted keys
in ASCII, another puts spaces after commas, a third writes `null` for every unknown value.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from json import JSONEncoder
from typing import Any

import msgspec

from fastrec.commands.generate.text import Rng, table

Record = dict[str, Any]
_SIZES = (1, 3, 7, 13, 34, 70)
_ORGANISATIONS = 13


class Spelling(msgspec.Struct, frozen=True):
    """How a record is written as JSON.

    `order` ranks the keys, None keeps the order of the record.
    """

    ascii_only: bool
    spaced: bool
    sort_keys: bool
    order: Mapping[str, int] | None
    escape_slashes: bool
    margin: bytes = b""

    def line(self, record: Record) -> bytes:
        if self.order is not None:
            record = _arranged(record, self.order)
        line = _encoder(self.ascii_only, self.spaced, self.sort_keys)(record)
        if self.escape_slashes:  # slashes occur only inside strings, so the value stays the same
            line = line.replace(b"/", b"\\/")
        return self.margin + line + self.margin


@cache
def _encoder(ascii_only: bool, spaced: bool, sort_keys: bool) -> Callable[[Record], bytes]:
    """Make an encoder; msgspec is four times as fast as json, but writes one spelling only.

    Both write floats alike unless they need an exponent, and the generator makes no such floats.
    """
    if not (ascii_only or spaced):
        return msgspec.json.Encoder(order="deterministic" if sort_keys else None).encode
    # Records are trees, so they need no check for circles, which takes a tenth of the time.
    to_text = JSONEncoder(
        ensure_ascii=ascii_only,
        separators=(", ", ": ") if spaced else (",", ":"),
        sort_keys=sort_keys,
        check_circular=False,
    ).encode
    return lambda record: to_text(record).encode()


class Producer(msgspec.Struct, frozen=True):
    """A model and the habits of the harness that evaluated it."""

    number: int
    model_id: str
    run: str
    spelling: Spelling
    score: Callable[[bool], float]
    habits: frozenset[str]
    ability: float  # How good the model is, from about 0 to 1; large models are better.


@lru_cache(maxsize=16)
def producer(seed: int, number: int) -> Producer:
    """Make the producer with this number; cheap enough to be made again instead of stored."""
    version, place = divmod(number, _ORGANISATIONS * len(_SIZES))
    size = place % len(_SIZES)
    organisation = f"org-{place % _ORGANISATIONS}"
    model = f"model-{_SIZES[size]}b" + (f"-v{version + 1}" if version else "")
    shifts = Rng(seed)  # the same shifts for every number
    habits = frozenset(
        name
        for name, (stride, elevenths) in table("habits")["habits"].items()
        if (stride * number + shifts.below(11)) % 11 < elevenths
    )
    return Producer(
        number=number,
        model_id=f"{organisation}/{model}",
        run=f"{organisation}_{model}/{1_700_000_000 + 86_400 * number}",
        spelling=Spelling(
            ascii_only="ascii" in habits,
            spaced="spaces" in habits,
            sort_keys=number % 4 == 1,
            order=_ranks(Rng(seed + number)) if number % 4 == 3 else None,
            escape_slashes="escaped slashes" in habits,
        ),
        score=(bool, int, float)[number % 3],
        habits=habits,
        # Organisations differ, and later versions of a model are better.
        ability=size * 0.11 + place * 7 % _ORGANISATIONS * 0.02 + min(version, 5) * 0.03 + 0.12,
    )


def respelling(rng: Rng) -> Spelling:
    """Choose a spelling for a duplicate, sometimes with white space around the line."""
    return Spelling(
        ascii_only=rng.chance(0.5),
        spaced=rng.chance(0.5),
        sort_keys=False,
        order=_ranks(rng),
        escape_slashes=rng.chance(0.2),
        margin=rng.choice((b"", b"", b" ", b"\t")),
    )


def _ranks(rng: Rng) -> dict[str, int]:
    keys = rng.shuffled(table("habits")["keys"]["names"].split())
    return {key: rank for rank, key in enumerate(keys)}


def _arranged(value: Any, order: Mapping[str, int]) -> Any:
    """Sort the known keys of every object by rank; unknown keys come first, in their order."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: order.get(key, -1))
        return {key: _arranged(value[key], order) for key in keys}
    return [_arranged(item, order) for item in value] if isinstance(value, list) else value
