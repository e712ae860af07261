"""lighteval: details in Parquet, one file per task, with the results of their run in JSON."""

from __future__ import annotations

from fastrec.harnesses.lighteval.files import logs_of, role_of
from fastrec.harnesses.lighteval.planning import plan, samples

__all__ = ["logs_of", "plan", "role_of", "samples"]
