"""Figures of the set `change`: corpora made from corpora, as shares of a full run from shards."""

from __future__ import annotations

from typing import Final

from bench.contenders import CHANGE, NORMALIZE
from bench.trials import Trial
from bench.values import Figure

__all__ = ["CHANGE_FIGURES"]

_MODEL: Final = "v1-openai/gsm8k-6b_finetuning"
_MODELS: Final = "v[12]-alpaca/FuseChat-Gemma*"  # they have 0.8 % of the records


def _share(what: str, name: str, target: float, *options: str) -> Figure:
    return Figure(
        name=f"change: {what} / full run",
        title=f"processor time of normalize, {what} ÷ a full run from the shards, same jobs",
        trials=(Trial(CHANGE, name, options=options), Trial(NORMALIZE, "real-x10")),
        value=lambda runs: runs[0].cpu_seconds / runs[1].cpu_seconds,
        target=target,
        set="change",
    )


CHANGE_FIGURES: Final[tuple[Figure, ...]] = (
    _share("one model dropped", "published-real-x10", 0.45, "--exclude-model", _MODEL),
    _share("two corpora merged", "halves", 0.5),
    _share("a selection of 1 %", "published-real-x10", 0.2, "--model", _MODELS),
    _share("a corpus alone", "published-real-x10", 0.4),
)
