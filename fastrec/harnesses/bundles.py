"""The records of a sample, with the parts that they share stored once, and the lines that they make up.

A sample of HELM has 25 metrics or more. As lines, its question and prompt would be repeated for each of them: ten times
the text of the log. A bundle has them once. It becomes lines when the shard is written.

    {"schema_version":…,"evaluation_name":…   ,"evaluation_result_id":…   ,"sample_id":…,"input":{…}
    └──── the run ───────────────────────┘   └─── the metric ────────┘   └──── question ──────────┘

    ,"output":{…},"answer_attribution":[…]   ,"evaluation":{…}   ,"token_usage":{…},"performance":{…}
    └──── answer ────────────────────────┘   └── the score ──┘   └──── measured ────────────────────┘

    ,"error":…   ,"metadata":{…   }}
    └ error ─┘   └ metadata ──┘   └─ or ,"graded":"true"}}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import msgspec

__all__ = ["Bundle", "BundledScore", "LineMaker", "read_bundles", "write_bundles"]

_END: Final = b"}}\n"
_GRADED: Final = b',"graded":"true"}}\n'
_LENGTH_BYTES: Final = 8


class BundledScore(msgspec.Struct, array_like=True, gc=False):
    """What only one record of a sample has."""

    metric: int
    """Its position in the list of metrics."""
    evaluation: bytes
    error: bytes = b""
    answer: bytes | None = None
    """Replaces the part that the records of the sample share; so does `metadata`."""
    metadata: bytes | None = None


class Bundle(msgspec.Struct, array_like=True, gc=False):
    """The records of a sample."""

    question: bytes
    answer: bytes
    measured: bytes
    metadata: bytes
    """Without its last bracket."""
    scores: list[BundledScore]

    @property
    def line_size(self) -> int:
        """The size of a line, about."""
        return len(self.question) + len(self.answer) + len(self.measured) + len(self.metadata) + 300


class LineMaker:
    """Turns bundles into lines."""

    def __init__(self, head: bytes, metrics: Sequence[str], graded: Collection[str] = ()) -> None:
        """`head` is the part of the run; records of metrics that are graded say so."""
        encode = msgspec.json.encode
        self._heads = [head + (b',"evaluation_result_id":' + encode(name) if name else b"") for name in metrics]
        self._ends = [_GRADED if name in graded else _END for name in metrics]

    def lines(self, bundle: Bundle) -> list[bytes]:
        """Return the lines of a bundle with their newlines, in parts: joined, they are the text."""
        heads, ends = self._heads, self._ends
        question, metadata = bundle.question, bundle.metadata
        usual = question + bundle.answer
        after = bundle.measured + metadata
        parts: list[bytes] = []
        for score in bundle.scores:
            number = score.metric
            if not score.error and score.answer is None and score.metadata is None:  # nearly always
                parts += (heads[number], usual, score.evaluation, after, ends[number])
                continue
            parts += (
                heads[number],
                usual if score.answer is None else question + score.answer,
                score.evaluation,
                bundle.measured,
                score.error,
                metadata if score.metadata is None else score.metadata,
                ends[number],
            )
        return parts


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Bundle]).decode


def write_bundles(bundles: Sequence[Bundle]) -> bytes:
    """Encode some bundles as a block of a work file."""
    data = _encode(bundles)
    return len(data).to_bytes(_LENGTH_BYTES, "little") + data


def read_bundles(read: Callable[[int], bytes]) -> Iterator[list[Bundle]]:
    """Decode the blocks of a work file. `read` returns up to so many bytes of it; none at its end."""
    while start := _read_exactly(read, _LENGTH_BYTES):
        yield _decode(_read_exactly(read, int.from_bytes(start, "little")))


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    """Read `size` bytes, or nothing at the end of the file."""
    parts, missing = [], size
    while missing and (block := read(missing)):
        parts.append(block)
        missing -= len(block)
    assert missing in (0, size), "a work file ends early"
    return b"".join(parts)
