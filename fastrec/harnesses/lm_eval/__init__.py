"""Logs of lm-evaluation-harness: `samples_<task>_<date>.jsonl` with the `results_<date>.json` of their run."""

from __future__ import annotations

from fastrec.harnesses.lm_eval.grouping import NAME, logs_of
from fastrec.harnesses.lm_eval.planning import plan
from fastrec.harnesses.lm_eval.reading import samples
from fastrec.harnesses.lm_eval.roles import role_of

__all__ = ["NAME", "logs_of", "plan", "role_of", "samples"]
