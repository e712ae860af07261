"""Figures of the set `import`: logs of harnesses become records."""

from __future__ import annotations

from typing import Final

from bench.contenders import IMPORT, LOG_FLOOR
from bench.corpora import corpus
from bench.table_logs import TABLE_OPTIONS
from bench.trials import Trial
from bench.values import Figure

__all__ = ["IMPORT_FIGURES"]

_TARGETS: Final = {
    "lm-eval": 150.0,
    "lm-eval-shots": 150.0,
    "inspect": 100.0,
    "helm": 60.0,
    "table": 60.0,
}
_PEAK: Final = 200.0


def _import(log: str) -> Trial:
    return Trial(IMPORT, f"logs-{log}", options=TABLE_OPTIONS if log == "table" else ())


def _throughput(log: str) -> Figure:
    name = f"logs-{log}"
    return Figure(
        name=f"import, {log}",
        title="text of the log per second of import, whole process",
        trials=(_import(log),),
        value=lambda runs: corpus(name).text_bytes / runs[0].seconds / 1e6,
        unit="MB/s",
        better="higher",
        target=_TARGETS[log],
        set="import",
    )


def _floor(log: str) -> Figure:
    name = f"logs-{log}"
    return Figure(
        name=f"import / recompression, {log}",
        title="wall time of import ÷ bare compression of the text of the log at level 3, same jobs",
        trials=(_import(log), Trial(LOG_FLOOR, name)),
        value=lambda runs: runs[0].seconds / runs[1].seconds,
        set="import",
    )


def _peak(log: str) -> Figure:
    return Figure(
        name=f"import: peak memory, {log}",
        title="peak memory of import, all processes",
        trials=(_import(log),),
        value=lambda runs: runs[0].peak_bytes / 1e6,
        unit="MB",
        target=_PEAK,
        set="import",
    )


IMPORT_FIGURES: Final[tuple[Figure, ...]] = tuple(
    figure(log) for figure in (_throughput, _floor, _peak) for log in _TARGETS
)
