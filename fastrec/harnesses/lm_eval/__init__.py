"""Logs of lm-evaluation-harness: `samples_<task>_<date>.jsonl` with the `results_<date>.json` of their run.

role_of ──▶ pairing ──▶ plan (results, aggregates) ──▶ rows ──▶ samples (questions, choices)
"""

from __future__ import annotations

from typing import Final

from fastrec.harnesses.lm_eval.pairing import logs_of
from fastrec.harnesses.lm_eval.planning import plan
from fastrec.harnesses.lm_eval.reading import samples
from fastrec.harnesses.lm_eval.roles import role_of

__all__ = ["NAME", "logs_of", "plan", "role_of", "samples"]

NAME: Final = "lm-eval"
