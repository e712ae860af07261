"""Tell the files of lighteval: details by their columns, results by their keys."""

from __future__ import annotations

import re
from typing import Final

from fastrec.harnesses.lighteval.footer import MAGIC, read_footer

__all__ = ["DETAILS", "RESULTS", "role_of"]

DETAILS: Final = "details"
RESULTS: Final = "results"

_LAYOUTS: Final = (frozenset({"doc", "model_response", "metric"}), frozenset({"example", "metrics", "predictions"}))
_FIRST_KEY: Final = re.compile(rb'\s*\{\s*"config_general"\s*:')


def role_of(head: bytes, path: str) -> str | None:
    """Return whether a file has details or results of lighteval, or None if neither."""
    if not head.startswith(MAGIC):
        return RESULTS if _is_results(head) else None
    footer = read_footer(path)
    if footer is None:  # cut: what it was cannot be known, but that it is cut should be said
        return DETAILS
    if any(layout <= footer.columns for layout in _LAYOUTS):
        return DETAILS
    return "results table" if {"config_general", "results"} <= footer.columns else None


def _is_results(head: bytes) -> bool:
    """Return whether a file begins like the results of a run."""
    if _FIRST_KEY.match(head):
        return True
    return head.lstrip()[:1] == b"{" and b'"config_general"' in head and b'"lm_eval_version"' not in head
