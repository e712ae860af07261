"""lighteval: details in Parquet, one file per task, with the results of their run in JSON."""

from __future__ import annotations

from fastrec.harnesses.lighteval.grouping import NAME, logs_of
from fastrec.harnesses.lighteval.planning import plan
from fastrec.harnesses.lighteval.reading import samples
from fastrec.harnesses.lighteval.roles import role_of

__all__ = ["NAME", "logs_of", "plan", "role_of", "samples"]
