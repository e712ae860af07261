"""Tell the files of lm-eval by their first bytes.

A file of samples has one object per line, or, until May 2024, all of them in one indented array. Lines may be longer
than what can be seen of the file, so keys are searched for in text that may be cut.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fastrec.harnesses.log import HEAD_BYTES
from fastrec.harnesses.values import REFUSALS

__all__ = ["RESULTS", "SAMPLES", "role_of"]

SAMPLES: Final = "samples"
RESULTS: Final = "results"

_FIRST_KEY: Final = re.compile(rb'\s*(?:\[\s*)?\{\s*"doc_id"\s*:\s*[-\d"]')
_SAMPLE_KEY: Final = re.compile(rb'"(?:arguments|resps|filtered_resps)"\s*:')
_EARLY_KEY: Final = re.compile(rb'"(?:doc|target)"\s*:')
_SURE_KEYS: Final = [re.compile(rb'"%b"\s*:' % key) for key in (b"doc_id", b"arguments", b"resps", b"filtered_resps")]
_RESULTS_KEY: Final = re.compile(rb'"results"\s*:\s*\{')
_METRIC_KEY: Final = re.compile(rb'"[^",\\]+_stderr,[^"\\]*"\s*:')  # `acc_stderr,none`: no other harness has such keys
_OTHER_KEYS: Final = re.compile(rb'"(?:configs|lm_eval_version|n-shot|n-samples|higher_is_better)"\s*:')


class _Top(msgspec.Struct):
    """The keys that tell a file whose whole text is seen."""

    results: msgspec.Raw = msgspec.Raw(b"")
    configs: msgspec.Raw = msgspec.Raw(b"")
    lm_eval_version: msgspec.Raw = msgspec.Raw(b"")
    n_shot: msgspec.Raw = msgspec.field(name="n-shot", default=msgspec.Raw(b""))


_decode_top: Final = msgspec.json.Decoder(_Top).decode


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - the content decides
    """Return whether a file has samples or results of lm-eval, or None if neither."""
    start = head.lstrip()[:1]
    if start not in (b"{", b"["):
        return None
    if _FIRST_KEY.match(head):
        is_cut = len(head) >= HEAD_BYTES and b"\n" not in head.rstrip()
        return SAMPLES if _SAMPLE_KEY.search(head) or (is_cut and _EARLY_KEY.search(head)) else None
    line = head.split(b"\n", 1)[0] if start == b"{" and b"\n" in head else head
    if all(key.search(line) for key in _SURE_KEYS):  # a line whose keys are in another order
        return SAMPLES
    return RESULTS if start == b"{" and _has_results(head) else None


def _has_results(head: bytes) -> bool:
    if not _RESULTS_KEY.search(head):
        return False
    try:
        top = _decode_top(head)
    except REFUSALS:  # cut, or with a bare NaN
        is_first = head.lstrip()[1:].lstrip().startswith(b'"results"')
        return bool(_METRIC_KEY.search(head) or (is_first and _OTHER_KEYS.search(head)))
    return bool(top.results) and any(map(bool, (top.configs, top.lm_eval_version, top.n_shot)))
