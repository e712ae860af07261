"""The records of a sample as lines, for tests of harnesses."""

from __future__ import annotations

from fastrec.harnesses.convert import Converter, LineMaker
from fastrec.harnesses.log import Sample


def lines_of(converter: Converter, sample: Sample) -> list[tuple[str, bytes]]:
    """The records of a sample as lines without their newlines, each with its metric."""
    bundle = converter.bundle(sample)
    if bundle is None:
        return []
    names = list(converter.result.metrics)
    lines = b"".join(LineMaker(converter.result.head, names, {}).lines(bundle)).split(b"\n")
    return [(names[score.metric], line) for score, line in zip(bundle.scores, lines, strict=False)]
