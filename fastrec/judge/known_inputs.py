"""Known inputs: an input that was judged before is not decoded, hashed and encoded again.

All models answer the same questions, so most inputs of a run are repeated byte for byte, and they are about half of its
text. Before a chunk is judged, each known input in it is replaced by a number:

    line        {"model_id": "m", "input": {"raw": "6 x 7?", "reference": "42"}, "output": …}
    shortened   {"model_id": "m", "input": 3401836492178563215, "output": …}

A shortened line proves what the line is if it decodes to a record whose `input` is that number. The number is random
and secret, so no line holds it. Hence the decoder expected the value of the root's `input` exactly where the text was
replaced. The known input is a complete JSON object, and an object ends where its first brace is closed: in the line,
the decoder would have read exactly the known bytes there, and would have continued in the same state.

An input is learned by decoding it alone. Memory is bounded. If inputs do not repeat, most of the text is left alone.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec
from xxhash import xxh3_64_intdigest

__all__ = ["PLACEHOLDER_BYTES", "KnownInput", "KnownInputs"]

PLACEHOLDER_BYTES: Final = 19
"""Digits of the number that known inputs are replaced by."""

_MOST_BYTES: Final = 12 << 20  # memory for known inputs of one process
_ENTRY_BYTES: Final = 700  # memory of a known input besides its texts
_LONGEST: Final = 1 << 20
_TRIAL: Final = 1_024  # lines after which the share of known inputs is looked at
_SHORTEST_REST: Final = 16 << 20  # bytes that are left alone after a trial with few known inputs
_LONGEST_REST: Final = 512 << 20
_POOR_TRIALS: Final = 3  # so many of them in a row, and other inputs are learned

_LEAD: Final = re.compile(rb'"input"[ \t]*:[ \t]*(?=\{)')
_TAIL: Final = re.compile(rb'[ \t]*,[ \t]*"[^"\\]*"')


class KnownInput(msgspec.Struct, gc=False):
    """An input and everything that the judge would compute from it."""

    text: bytes
    """Its bytes in a line."""
    normal: msgspec.Raw
    """Its normal form in the target's version."""
    colons: int
    """The number of colons in its normal form."""
    sample_hash: str
    decoded: Any
    """The input in the version of the line, if it has to be upgraded; else None."""
    recipe: tuple[str, str] = ("", "")
    """The last `sample_hash` that was given with it, and the recipe of that."""
    position: int = 0
    """Its position among all known inputs."""
    after: int = 0
    """The position of the input that followed last time."""


class _InputAlone(msgspec.Struct):
    """A record of which only the bytes of its input are wanted."""

    input: msgspec.Raw


_decode_alone = msgspec.json.Decoder(_InputAlone).decode


class KnownInputs:
    """The known inputs of one schema version in one process."""

    def __init__(self, learn: Callable[[bytes], KnownInput | None], most_bytes: int = _MOST_BYTES) -> None:
        """`learn` judges an input alone; it returns None if it is not valid, or needs the slow path."""
        self.number: Final = secrets.randbits(60) | 1 << 60
        """What known inputs are replaced by."""
        self._learn = learn
        self._most_bytes = most_bytes
        self._known: dict[int, KnownInput] = {}  # by the hash of their texts
        self._order: list[KnownInput] = []
        self._last: KnownInput | None = None
        self._bytes = 0
        self._lead = self._tail = b""  # what comes before and after an input
        self._lines = self._hits = 0  # of the current trial
        self._resting = 0  # bytes to leave alone
        self._rest = _SHORTEST_REST
        self._poor = 0  # trials in a row with few known inputs

    def shorten(self, data: bytes) -> tuple[bytes, list[KnownInput | None]] | None:
        """Replace the known inputs of a chunk of lines; return the text, and for each line the input that it had.

        None if the chunk is to be judged as it is.
        """
        if self._resting > 0:
            self._resting -= len(data)
            return None
        if not self._lead and not self._find_layout(data):
            return None
        pieces: list[bytes | memoryview] = []
        inputs: list[KnownInput | None] = []
        find, startswith, view, size = data.find, data.startswith, memoryview(data), len(data)
        lead, skip, spelled = self._lead, len(self._lead), b"%d" % self.number
        order, last = self._order, self._last
        guess = last.after if last else 0
        position = copied = hits = 0
        while position < size:
            end = find(b"\n", position)
            if end < 0:
                end = size
            known = None
            start = find(lead, position, end) + skip
            if start >= skip:
                # Shards of one evaluation often have their questions in the same order. A right guess saves the search
                # for the end of the input and a hash.
                if guess < len(order) and startswith(order[guess].text, start):
                    known = order[guess]
                    hits += 1
                else:
                    known, is_new = self._look_up(data, start, end)
                    if known is not None:
                        hits += not is_new
                        if last is not None:
                            last.after = known.position
                if known is not None:
                    pieces += (view[copied:start], spelled)
                    copied = start + len(known.text)
                    last, guess = known, known.after
            inputs.append(known)
            position = end + 1
        pieces.append(view[copied:])
        self._last = last
        self._end_chunk(len(inputs), hits, failures=inputs.count(None))
        return (b"".join(pieces), inputs) if copied else None

    def _look_up(self, data: bytes, start: int, end: int) -> tuple[KnownInput | None, bool]:
        """Return the input that begins at `start`, and whether it was learned just now."""
        stop = data.find(self._tail, start, end)
        if not 0 < stop - start <= _LONGEST:
            return None, False
        text = data[start:stop]
        digest = xxh3_64_intdigest(text)
        known = self._known.get(digest)
        if known is not None:
            return (known, False) if known.text == text else (None, False)
        if self._bytes >= self._most_bytes:
            return None, False
        known = self._learn(text)
        if known is not None:
            known.position, known.after = len(self._order), len(self._order) + 1
            self._order.append(known)
            self._known[digest] = known
            self._bytes += 2 * len(text) + _ENTRY_BYTES + (len(text) if known.decoded else 0)
        return known, True

    def _find_layout(self, data: bytes) -> bool:
        """Look at the first line for what comes before and after an input; return whether it was found."""
        line = data[: data.find(b"\n") + 1 or len(data)]
        lead = _LEAD.search(line)
        try:
            text = bytes(_decode_alone(line).input)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if lead is None or not line.startswith(text, lead.end()):
            return False
        tail = _TAIL.match(line, lead.end() + len(text))
        if tail is None:
            return False
        self._lead, self._tail = lead[0], tail[0]
        return True

    def _end_chunk(self, lines: int, hits: int, failures: int) -> None:
        """After a trial with few known inputs, rest; after several in a row, forget all inputs and learn others."""
        if failures > lines // 2:
            self._lead = b""  # another producer, perhaps: look at the layout again
        self._lines += lines
        self._hits += hits
        if self._lines < _TRIAL or (self._bytes < self._most_bytes and failures <= lines // 2):
            return
        if self._hits * 4 >= self._lines:
            self._rest, self._poor = _SHORTEST_REST, 0
        else:
            self._resting, self._rest, self._poor = self._rest, min(2 * self._rest, _LONGEST_REST), self._poor + 1
            if self._poor == _POOR_TRIALS:
                self._known, self._order, self._last, self._bytes, self._poor = {}, [], None, 0, 0
        self._lines = self._hits = 0
