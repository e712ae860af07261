"""What JSON documents share: indented text, and counts by name."""

from collections.abc import Mapping

import msgspec

CountsByName = dict[str, int]


def indented_json(document: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def sorted_counts(counts: Mapping[str, int]) -> CountsByName:
    return dict(sorted(counts.items()))
