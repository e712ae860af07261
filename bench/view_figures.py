"""Figures of the set `view`: the leaderboard, and the pages of `fastrec view`.

The time of a page is that of many pages less that of one, so it has no start of a process in it.
"""

from __future__ import annotations

from typing import Final

from bench.contenders import LEADERBOARD, READING, VIEW
from bench.trials import Trial
from bench.values import Figure

__all__ = ["CORPUS", "VIEW_FIGURES"]

CORPUS: Final = "published-real-x10"
_MANY: Final = 21
_PEAK: Final = 300.0


def _pages(kind: str, number: int) -> Trial:
    return Trial(VIEW, CORPUS, options=(kind, str(number)))


def _page(name: str, title: str, kind: str, target: float) -> Figure:
    return Figure(
        name=f"view: {name}",
        title=title,
        trials=(_pages(kind, _MANY), _pages(kind, 1)),
        value=lambda runs: (runs[0].seconds - runs[1].seconds) / (_MANY - 1),
        unit="s",
        target=target,
        set="view",
        tolerance=0.3,  # a difference of two runs
    )


def _peak(name: str, trial: Trial) -> Figure:
    return Figure(
        name=f"view: peak memory, {name}",
        title="peak memory, all processes",
        trials=(trial,),
        value=lambda runs: runs[0].peak_bytes / 1e6,
        unit="MB",
        target=_PEAK,
        set="view",
    )


VIEW_FIGURES: Final[tuple[Figure, ...]] = (
    Figure(
        name="view: leaderboard / decompression",
        title="speed of a leaderboard ÷ bare decompression of all parts, whole processes",
        trials=(Trial(LEADERBOARD, CORPUS), Trial(READING, CORPUS)),
        value=lambda runs: runs[1].seconds / runs[0].seconds,
        better="higher",
        target=0.4,
        set="view",
    ),
    Figure(
        name="view: start",
        title="from the start of the process to the end of the first page",
        trials=(_pages("start", 1),),
        value=lambda runs: runs[0].seconds,
        unit="s",
        target=1.0,
        set="view",
    ),
    _page(
        "table of 1,000 questions",
        "a table of 1,000 questions, from request to answer",
        "table",
        0.3,
    ),
    _page(
        "question with 210 answers",
        "a question with 210 answers, from request to answer",
        "question",
        0.5,
    ),
    _peak("leaderboard", Trial(LEADERBOARD, CORPUS)),
    _peak("pages", _pages("question", _MANY)),
)
