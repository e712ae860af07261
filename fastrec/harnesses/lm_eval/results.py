"""The `results_<date>.json` of a run: its tasks, their figures and settings, the model, and the date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from xxhash import xxh3_64

from fastrec.errors import LogError, ShardError
from fastrec.harnesses.lm_eval.json_text import decoder_of
from fastrec.harnesses.values import REFUSALS, spell
from fastrec.sources.shard import shard_at

__all__ = ["Results", "metric_keys", "model_of", "read_results"]

_MOST_BYTES: Final = 64 << 20
_NONE: Final = msgspec.Raw(b"")
_NAMES: Final = ("peft", "delta", "pretrained", "model", "path", "engine")
"""Arguments that name the model. The order is lm-eval's own: an adapter is another model than its base."""


class Results(msgspec.Struct, kw_only=True):
    """What import needs of a results file."""

    results: dict[str, dict[str, Any] | None]
    """By task or group: the figures, as `metric,filter`."""
    configs: dict[str, msgspec.Raw] = {}
    """By task, without groups."""
    config: dict[str, Any] | None = None
    versions: Any = None
    n_shot: Any = msgspec.field(name="n-shot", default=None)
    n_samples: Any = msgspec.field(name="n-samples", default=None)
    higher_is_better: Any = None
    task_hashes: Any = None
    date: msgspec.Raw = _NONE
    lm_eval_version: Any = None
    model_name: Any = None
    model_name_sanitized: Any = None
    digest: str = ""
    """Of the text."""

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks; groups are among them only if the file does not tell them apart."""
        return list(self.configs or map(_plain_name, self.results))

    def figures(self, task: str) -> dict[str, Any]:
        """Return the figures of a task."""
        found = self.results.get(task)
        if found is None:  # version 0.4.0 indented the names of tasks that belong to a group
            found = next((some for name, some in self.results.items() if _plain_name(name) == task), None)
        return found or {}

    def settings(self, task: str) -> dict[str, Any]:
        """Return the configuration of a task."""
        try:
            found = msgspec.json.decode(self.configs[task]) if task in self.configs else None
        except REFUSALS:
            found = None
        return found if isinstance(found, dict) else {}

    def of_task(self, name: str, task: str) -> Any:
        """Return the entry of a task in a field that has one per task; None if there is none."""
        entries = getattr(self, name)
        return entries.get(task) if isinstance(entries, dict) else None

    @property
    def started(self) -> str:
        """The start time as the file spells it; empty if it has none."""
        text = bytes(self.date).decode().strip('"')
        return "" if text in ("null", "NaN") else text


_decode: Final = decoder_of(Results)


def _plain_name(name: str) -> str:
    return name.lstrip(" -")


def read_results(path: str) -> Results:
    """Read a results file, compressed or not; LogError if it is damaged or not what it seems to be."""
    blocks, size = [], 0
    try:
        for block in shard_at(path).read_text():
            blocks.append(block)
            size += len(block)
            if size > _MOST_BYTES:
                raise LogError(path, f"is larger than {_MOST_BYTES >> 20} MiB: not a results file of lm-eval")
    except ShardError as exc:
        raise LogError(path, exc.reason) from exc
    text = b"".join(blocks).removeprefix(b"\xef\xbb\xbf")
    try:
        found = _decode(text)
    except ValueError as exc:
        raise LogError(path, f"is damaged, or not a results file of lm-eval: {exc}") from None
    found.digest = xxh3_64(text).hexdigest()
    return found


def model_of(results: Results) -> str:
    """Return the model of a run; empty if the file does not name one.

    >>> run = {"results": {}, "config": {"model": "hf", "model_args": "pretrained=org/m,dtype=float16"}}
    >>> model_of(msgspec.convert(run, Results))
    'org/m'
    """
    config = results.config or {}
    given = config.get("model_args")
    if isinstance(given, str):
        given = dict(one.strip().partition("=")[::2] for one in given.split(","))
    if not isinstance(given, Mapping):
        given = {}
    names = [given.get(name) for name in _NAMES]
    names += [results.model_name, results.model_name_sanitized, config.get("model")]
    return next((spell(name) for name in names if name), "")


def metric_keys(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the metrics of a task, each with its filter, in the order of the file.

    >>> metric_keys({"alias": "t", "acc,none": 0.5, "acc_stderr,none": "N/A", "em,strict-match": 1})
    [('acc', 'none'), ('em', 'strict-match')]
    """
    pairs = [key.partition(",") for key in figures]
    return [(metric, name) for metric, comma, name in pairs if comma and not metric.endswith("_stderr")]
