"""Logs of lm-evaluation-harness: `samples_<task>_<date>.jsonl` with the `results_<date>.json` of their run."""

from __future__ import annotations

from fastrec.harnesses.lm_eval.files import logs_of, role_of
from fastrec.harnesses.lm_eval.planning import plan, samples

__all__ = ["logs_of", "plan", "role_of", "samples"]
