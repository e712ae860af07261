"""Figures of the set `ask`: queries of `fastrec sql`."""

from __future__ import annotations

from typing import Final

from bench.contenders import ASK
from bench.trials import Trial
from bench.values import Figure

__all__ = ["ASK_FIGURES"]

_CORPUS: Final = "published-real-x10"
_PHRASE: Final = (
    "select model, count(*) n from answers where output ilike '%sorry%' group by 1 order by 2 desc"
)
_AGGREGATE: Final = "select evaluation, metric, model, avg(score) from answers group by all"


def _query(name: str, query: str, target: float) -> Figure:
    return Figure(
        name=f"ask: {name}",
        title="fastrec sql, whole process",
        trials=(Trial(ASK, _CORPUS, options=(query,)),),
        value=lambda runs: runs[0].seconds,
        unit="s",
        target=target,
        set="ask",
    )


def _peak(name: str, trial: Trial) -> Figure:
    return Figure(
        name=f"ask: peak memory, {name}",
        title="peak memory, all processes",
        trials=(trial,),
        value=lambda runs: runs[0].peak_bytes / 1e6,
        unit="MB",
        target=600.0,
        set="ask",
    )


ASK_FIGURES: Final[tuple[Figure, ...]] = (
    _query("a phrase in all answers", _PHRASE, 1.5),
    _query("an aggregate", _AGGREGATE, 0.5),
    _peak("a phrase", Trial(ASK, _CORPUS, options=(_PHRASE,))),
)
