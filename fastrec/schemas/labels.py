"""Labels: what producers write into `schema_version`.

The schema allows any string there, and producers use both spellings of each version, so a label proves nothing. But a
label that names no version, or another version than the one that the record follows, is a likely mistake.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LABELS", "labels_of"]

_PREFIX: Final = "instance_level_eval_"
_PUBLISHED: Final = ("0.0.1", "0.2.0", "0.2.1", "0.2.2", "0.2.3", "0.3.0")


def labels_of(*versions: str) -> frozenset[str]:
    """Return the labels of published versions: each version, with and without the prefix.

    >>> sorted(labels_of("0.2.0"))
    ['0.2.0', 'instance_level_eval_0.2.0']
    """
    return frozenset(prefix + version for version in versions for prefix in ("", _PREFIX))


LABELS: Final = labels_of(*_PUBLISHED)
"""The labels of all published versions, whether or not fastrec can judge records by them."""
