"""Producers: one per model, each with its own habits of what to record and how to spell it.

A habit belongs to the model and not to the line, as in the world: one harness writes sorted keys in ASCII,
another leaves spaces after the commas, a third says `null` for everything it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import JSONEncoder
from typing import Any, Final

import msgspec

from fastrec.commands.generate.dice import Dice
from fastrec.commands.generate.words import listed

__all__ = ["Producer", "Record", "Spelling", "producer", "respelling"]

Record = dict[str, Any]

# Every key that the schema names, for the producers that write them in an order of their own.
KEYS: Final = listed(
    """
    schema_version evaluation_id model_id evaluation_name sample_id sample_hash interaction_type input output
    interactions answer_attribution evaluation token_usage performance error metadata raw formatted reference
    choices reasoning_trace turn_idx role content tool_calls tool_call_id id name arguments source
    extracted_value extraction_method is_terminal score is_correct num_turns tool_calls_count input_tokens
    output_tokens total_tokens latency_ms
    """,
)
SIZES: Final = (1, 3, 7, 13, 34, 70)
ORGANISATIONS: Final = 13


class Spelling(msgspec.Struct, frozen=True):
    """How a record becomes a line; `order` ranks the keys, None leaves them as they were built."""

    ascii_only: bool
    spaced: bool
    sort_keys: bool
    order: Mapping[str, int] | None
    escape_slashes: bool
    margin: bytes = b""

    def line(self, record: Record) -> bytes:
        """The record's bytes, without the end of line."""
        if self.order is not None:
            record = _arranged(record, self.order)
        # msgspec is four times as fast, but cannot write ASCII only. Both spell a float alike unless it needs
        # an exponent, and the generator makes none that does.
        if self.ascii_only:
            line = _ASCII[self.spaced, self.sort_keys](record).encode()
        elif self.spaced:
            line = msgspec.json.format(_UTF8[self.sort_keys](record), indent=0)
        else:
            line = _UTF8[self.sort_keys](record)
        if self.escape_slashes:  # a slash stands only inside strings, so this is only a spelling
            line = line.replace(b"/", b"\\/")
        return self.margin + line + self.margin if self.margin else line


def _ascii(spaced: bool, sort_keys: bool) -> Callable[[Record], str]:
    return JSONEncoder(
        separators=(", ", ": ") if spaced else (",", ":"),
        sort_keys=sort_keys,
        check_circular=False,  # a tree by construction, and the check costs a tenth of the time
    ).encode


_ASCII: Final = {(spaced, keys): _ascii(spaced, keys) for spaced in (False, True) for keys in (False, True)}
_UTF8: Final = {
    False: msgspec.json.Encoder().encode,
    True: msgspec.json.Encoder(order="deterministic").encode,
}


class Producer(msgspec.Struct, frozen=True):
    """A model and the habits of whoever evaluated it."""

    model_id: str
    run: str
    spelling: Spelling
    score: str
    says_null: bool
    hashes: bool
    templates: bool
    reasons: bool
    counts_tokens: bool
    counts_caches: bool
    measures: bool
    annotates: bool
    counts_user_turns: bool


def producer(seed: int, number: int) -> Producer:
    """The producer with this number in the corpus of this seed: made again at need, so none is kept."""
    version, place = divmod(number, ORGANISATIONS * len(SIZES))
    organisation = f"org-{place % ORGANISATIONS}"
    model = f"model-{SIZES[place % len(SIZES)]}b" + (f"-v{version + 1}" if version else "")
    shifts = Dice(seed)  # the same throws for every number

    def habit(stride: int, elevenths: int) -> bool:
        """Of any eleven producers in a row so many have the habit, so a small corpus shows them all."""
        return (stride * number + shifts.below(11)) % 11 < elevenths

    return Producer(
        model_id=f"{organisation}/{model}",
        run=f"{organisation}_{model}/{1_700_000_000 + 86_400 * number}",
        spelling=Spelling(
            ascii_only=habit(1, 4),
            spaced=habit(2, 6),
            sort_keys=number % 4 == 1,
            order=_ranks(Dice(seed + number)) if number % 4 == 3 else None,
            escape_slashes=habit(3, 2),
        ),
        score=("boolean", "integer", "float")[number % 3],
        says_null=habit(4, 4),
        hashes=habit(5, 6),
        templates=habit(6, 3),
        reasons=habit(7, 3),
        counts_tokens=habit(8, 8),
        counts_caches=habit(9, 4),
        measures=habit(10, 6),
        annotates=habit(3, 8),
        counts_user_turns=habit(1, 3),
    )


def respelling(dice: Dice) -> Spelling:
    """A way to spell a record a second time: any mixture, with white space around the line at times."""
    return Spelling(
        ascii_only=dice.chance(0.5),
        spaced=dice.chance(0.5),
        sort_keys=False,
        order=_ranks(dice),
        escape_slashes=dice.chance(0.2),
        margin=dice.pick((b"", b"", b" ", b"\t")),
    )


def _ranks(dice: Dice) -> dict[str, int]:
    return {key: rank for rank, key in enumerate(dice.shuffled(KEYS))}


def _arranged(value: Any, order: Mapping[str, int]) -> Any:
    """The same value with the known keys of every object by rank; the others come first, as they stood."""
    if isinstance(value, dict):
        return {key: _arranged(value[key], order) for key in sorted(value, key=lambda key: order.get(key, -1))}
    if isinstance(value, list):
        return [_arranged(item, order) for item in value]
    return value
