"""Known inputs: an input that was judged before is not decoded, hashed and encoded again.

All models answer the same questions, so most inputs of a run are repeated byte for byte, and they
are about half of its text. Before a chunk is judged, each known input in it is replaced by a
number:

    line        {"model_id": "m", "input": {"raw": "6 x 7?", "reference": "42"}, "output": …}
    shortened   {"model_id": "m", "input": 3401836492178563215, "output": …}

A shortened line proves what the line is if it decodes to a record whose `input` is that number. The
number is random and secret, so no line holds it. Hence the decoder expected the value of the root's
`input` exactly where the text was replaced. The known input is a complete JSON object, and an
object ends where its first brace is closed: in the line, the decoder would have read exactly the
known bytes there, and would have continued in the same state.

An input is learned by decoding it alone. Memory is bounded. If inputs do not repeat, most of the
text is left alone.
"""

import os
import re
from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct
from xxhash import xxh3_64_intdigest

from fastrec.schemas.view import REFUSALS, view_decoder
from fastrec.sources.lines import count_newlines

# Memory for the known inputs of a judge: some ten thousand questions.
KNOWN_INPUT_BYTES = 12 << 20

PLACEHOLDER_BYTES = 19  # digits of the number that known inputs are replaced by

_ENTRY_BYTES = 700  # memory of a known input besides its two texts
_TRIAL = 1_024  # lines after which the share of known inputs is looked at
# bytes that are left alone after a trial with few known inputs: some shards
_SHORTEST_REST = 16 << 20
_LONGEST_REST = 512 << 20
# the inputs of one shard may come again in the next: only then others are learned
_POOR_TRIALS = 3

_LEAD = re.compile(rb'"input"[ \t]*:[ \t]*(?=\{)')
_TAIL = re.compile(rb'[ \t]*,[ \t]*"[^"\\]*"')


_decode_input = view_decoder(input=Raw)


class KnownInput(Struct, gc=False):
    """An input and everything that the judge would compute from it."""

    text: bytes  # its bytes in a line
    normal: Raw  # its normal form in the target's version
    colons: int  # the number of colons in its normal form
    sample_hash: str
    # The input in the version of the line, without its texts: types and nulls tell versions and
    # upgrades.
    outline: Any
    # The last `sample_hash` that was given with it, and the recipe of that.
    recipe: tuple[str | None, str] = (None, "")
    position: int = 0  # its position among the known inputs of its version
    after: int = 0  # the position of the input that followed last time


# Judges an input alone by one schema version; None if it is not valid, or needs the slow path.
Learn = Callable[[bytes], KnownInput | None]


class _VersionInputs(Struct):
    by_hash: dict[int, KnownInput] = {}  # the hash of their texts
    order: list[KnownInput] = []
    last: KnownInput | None = None


class KnownInputs:
    """The known inputs of one process, in about `most_bytes` of memory."""

    def __init__(self, most_bytes: int) -> None:
        # What known inputs are replaced by.
        self.number = int.from_bytes(os.urandom(8)) >> 4 | 1 << 60
        self._most_bytes = most_bytes
        self._by_version: dict[Learn, _VersionInputs] = {}
        self._bytes = 0
        self._lead = self._tail = b""  # what comes before and after an input
        self._lines = self._hits = 0  # of the current trial
        self._resting = 0  # bytes to leave alone
        self._rest = _SHORTEST_REST
        self._poor = 0  # trials in a row with few known inputs

    def shorten(self, data: bytes, learn: Learn) -> tuple[bytes, list[KnownInput | None]] | None:
        """Replace the known inputs of a chunk of lines.

        Return the text, and for each line the input that it had.

        `learn` stands for a version: its known inputs say nothing about others. None if the chunk
        stays as it is.
        """
        if self._resting > 0:
            self._resting -= len(data)
            return None
        if not self._most_bytes:
            return None
        # Shards of several producers may come in turns, so each chunk is looked at.
        is_usual = self._lead and data.find(self._lead + b"{", 0, data.find(b"\n")) >= 0
        if not is_usual and not self._find_layout(data):
            return None
        known_here = self._by_version.setdefault(learn, _VersionInputs())
        pieces: list[bytes | memoryview] = []
        inputs: list[KnownInput | None] = []
        find = data.find
        startswith = data.startswith
        view = memoryview(data)
        size = len(data)
        lead = self._lead
        skip = len(self._lead)
        spelled = b"%d" % self.number
        order = known_here.order
        last = known_here.last
        before = len(known_here.order)
        guess = last.after if last else 0
        position = copied = 0
        while position < size:
            end = find(b"\n", position)
            if end < 0:
                end = size
            known = None
            start = find(lead, position, end) + skip
            if start < skip:  # lines without an input, such as blank ones, come in runs
                after = find(lead, end)
                end = data.rfind(b"\n", end, after) if after >= 0 else size - data.endswith(b"\n")
                inputs += [None] * count_newlines(view[position:end])
            else:
                # Shards of one evaluation often have their questions in the same order. A right
                # guess saves the search for the end of the input and a hash.
                if guess < len(order) and startswith(order[guess].text, start):
                    known = order[guess]
                else:
                    known = self._look_up(data, start, end, known_here, learn)
                    if known and last:
                        last.after = known.position
                if known:
                    pieces += (view[copied:start], spelled)
                    copied = start + len(known.text)
                    last = known
                    guess = known.after
            inputs.append(known)
            position = end + 1
        pieces.append(view[copied:])
        known_here.last = last
        self._end_chunk(len(inputs), unknown=inputs.count(None), learned=len(order) - before)
        return (b"".join(pieces), inputs) if copied else None

    def _look_up(
        self, data: bytes, start: int, end: int, among: _VersionInputs, learn: Learn
    ) -> KnownInput | None:
        """Find the known input that begins at `start`; learn it if there is room."""
        stop = data.find(self._tail, start, end)
        # Longer ones are not learned, so that the limit is exceeded by an eighth at most.
        if not 0 < stop - start <= self._most_bytes // 16:
            return None
        text = data[start:stop]
        digest = xxh3_64_intdigest(text)
        known = among.by_hash.get(digest)
        if known:
            return known if known.text == text else None
        if self._bytes >= self._most_bytes:
            return None
        known = learn(text)
        if known:
            known.position = len(among.order)
            known.after = known.position + 1
            among.order.append(known)
            among.by_hash[digest] = known
            self._bytes += 2 * len(text) + _ENTRY_BYTES
        return known

    def _find_layout(self, data: bytes) -> bool:
        """Look at the first line for what comes before and after an input.

        Return whether it was found.
        """
        line = data[: data.find(b"\n") + 1 or len(data)]
        lead = _LEAD.search(line)
        try:
            text = bytes(_decode_input(line).input)
        except REFUSALS:
            return False
        if not lead or not line.startswith(text, lead.end()):
            return False
        tail = _TAIL.match(line, lead.end() + len(text))
        if not tail:
            return False
        self._lead = lead[0]
        self._tail = tail[0]
        return True

    def _end_chunk(self, lines: int, unknown: int, learned: int) -> None:
        """After a trial with few known inputs, rest.

        After several in a row, forget all inputs and learn others.
        """
        mostly_unknown = unknown > lines // 2
        if mostly_unknown:
            self._lead = b""  # another producer, perhaps: look at the layout again
        self._lines += lines
        self._hits += lines - unknown - learned
        is_learning = self._bytes < self._most_bytes and not mostly_unknown
        if is_learning or self._lines < _TRIAL:
            return
        if self._hits * 2 >= self._lines:
            self._rest = _SHORTEST_REST
            self._poor = 0
        else:
            self._resting = self._rest
            self._rest = min(2 * self._rest, _LONGEST_REST)
            self._poor += 1
            if self._poor == _POOR_TRIALS:
                self._by_version = {}
                self._bytes = 0
                self._poor = 0
        self._lines = self._hits = 0
