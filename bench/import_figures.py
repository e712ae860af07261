"""Figures of the set `import`: logs of harnesses become records."""

from __future__ import annotations

from typing import Final

from bench.contenders import IMPORT, LOG_FLOOR
from bench.corpora import corpus
from bench.trials import Trial
from bench.values import Figure

__all__ = ["IMPORT_FIGURES"]

_TARGETS: Final = {"lm-eval": 150.0, "inspect": 100.0, "helm": 60.0}
_PEAK: Final = 200.0


def _throughput(harness: str) -> Figure:
    name = f"logs-{harness}"
    return Figure(
        name=f"import, {harness}",
        title="text of the log per second of import, whole process",
        trials=(Trial(IMPORT, name),),
        value=lambda runs: corpus(name).text_bytes / runs[0].seconds / 1e6,
        unit="MB/s",
        better="higher",
        target=_TARGETS[harness],
        set="import",
    )


def _floor(harness: str) -> Figure:
    name = f"logs-{harness}"
    return Figure(
        name=f"import / recompression, {harness}",
        title="wall time of import ÷ bare recompression of the text of the log, same level, same jobs",
        trials=(Trial(IMPORT, name), Trial(LOG_FLOOR, name)),
        value=lambda runs: runs[0].seconds / runs[1].seconds,
        set="import",
    )


def _peak(harness: str) -> Figure:
    return Figure(
        name=f"import: peak memory, {harness}",
        title="peak memory of import, all processes",
        trials=(Trial(IMPORT, f"logs-{harness}"),),
        value=lambda runs: runs[0].peak_bytes / 1e6,
        unit="MB",
        target=_PEAK,
        set="import",
    )


IMPORT_FIGURES: Final[tuple[Figure, ...]] = tuple(
    figure(harness) for figure in (_throughput, _floor, _peak) for harness in _TARGETS
)
