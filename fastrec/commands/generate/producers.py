"""Producers: one per model, each with its own choice of optional fields and its own JSON spelling.

These habits belong to the model, not to the line, as in real data: one harness writes sorted keys
in ASCII, another puts spaces after commas, a third writes `null` for every unknown value.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from fastrec.commands.generate.text import Rng, table
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.schema import Schema

Record = dict[str, Any]
_SIZES = (1, 3, 7, 13, 34, 70)
_ORGANISATIONS = 13


class Spelling(msgspec.Struct, frozen=True):
    """How a record is written as JSON.

    Keys are sorted by `order`; without it, they stay in the order of the record.
    """

    ascii_only: bool = False
    spaced: bool = False
    order: Callable[[str], Any] | None = None
    escape_slashes: bool = False
    margin: bytes = b""

    def line(self, record: Record) -> bytes:
        if self.order:
            record = _sorted(record, self.order)
        # msgspec is four times as fast as json, but writes one spelling only. Both write floats
        # alike unless they need an exponent, and the generator makes no such floats.
        if not (self.ascii_only or self.spaced):
            line = msgspec.json.encode(record)
        else:
            line = json.dumps(
                record,
                ensure_ascii=self.ascii_only,
                separators=None if self.spaced else (",", ":"),
                check_circular=False,  # records are trees; the check takes a tenth of the time
            ).encode()
        if self.escape_slashes:  # slashes occur only inside strings, so the value stays the same
            line = line.replace(b"/", b"\\/")
        return self.margin + line + self.margin


class Producer(msgspec.Struct, frozen=True):
    """A model and the habits of the harness that evaluated it."""

    number: int
    schema: Schema
    model_id: str
    run: str
    spelling: Spelling
    score: Callable[[bool], float]
    habits: frozenset[str]
    ability: float  # How good the model is, from about 0 to 1; large models are better.

    @property
    def is_later(self) -> bool:
        """Whether it writes a later version than the oldest one."""
        return self.schema is not DEFAULT_SCHEMA


def producer(seed: int, number: int, schema: Schema = DEFAULT_SCHEMA) -> Producer:
    """Make the producer with this number."""
    version, place = divmod(number, _ORGANISATIONS * len(_SIZES))
    size = place % len(_SIZES)
    model = f"org-{place % _ORGANISATIONS}/model-{_SIZES[size]}b"
    if version:
        model += f"-v{version + 1}"
    shifts = Rng(seed)  # the same shifts for every number
    habits = frozenset(
        name
        for name, (stride, elevenths) in table("habits")["habits"].items()
        if (stride * number + shifts.below(11)) % 11 < elevenths
    )
    return Producer(
        number=number,
        schema=schema,
        model_id=model,
        run=f"{model.replace('/', '_')}/{1_700_000_000 + 86_400 * number}",
        spelling=Spelling(
            ascii_only="ascii" in habits,
            spaced="spaces" in habits,
            order=(None, str, None, _own_order(Rng(seed + number)))[number % 4],
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
        order=_own_order(rng),
        escape_slashes=rng.chance(0.2),
        margin=rng.choice((b"", b"", b" ", b"\t")),
    )


def _own_order(rng: Rng) -> Callable[[str], int]:
    """Rank the known keys at random; unknown keys come first, in their order."""
    keys = rng.shuffled(table("habits")["keys"])
    ranks = {key: rank for rank, key in enumerate(keys)}
    return lambda key: ranks.get(key, -1)


def _sorted(value: Any, order: Callable[[str], Any]) -> Any:
    """Sort the keys of every object."""
    if isinstance(value, dict):
        return {key: _sorted(value[key], order) for key in sorted(value, key=order)}
    return [_sorted(item, order) for item in value] if isinstance(value, list) else value
