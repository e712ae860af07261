"""fastrec: from piles of compressed JSONL evaluation records to one clean, sorted, comparable corpus.

Names are imported when they are first used, so that `import fastrec` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastrec.api import Verdict, decode, encode, judge, read
    from fastrec.errors import FastrecError, InvalidRecordError, ShardError, UsageError
    from fastrec.hashing import sample_hash
    from fastrec.jobs.cat import cat
    from fastrec.jobs.diff import Difference, diff
    from fastrec.jobs.export import Exported, export
    from fastrec.jobs.generate import generate
    from fastrec.jobs.normalize import normalize
    from fastrec.jobs.report import Report
    from fastrec.jobs.stats import Stats, stats
    from fastrec.jobs.validate import validate
    from fastrec.jobs.verify import Verification, verify
    from fastrec.records import Record
    from fastrec.stages.judge import Finding
    from fastrec.stages.summary import Summary

__version__ = "0.1.0"

__all__ = [
    "Difference",
    "Exported",
    "FastrecError",
    "Finding",
    "InvalidRecordError",
    "Record",
    "Report",
    "ShardError",
    "Stats",
    "Summary",
    "UsageError",
    "Verdict",
    "Verification",
    "__version__",
    "cat",
    "decode",
    "diff",
    "encode",
    "export",
    "generate",
    "judge",
    "normalize",
    "read",
    "sample_hash",
    "stats",
    "validate",
    "verify",
]

_HOMES = {
    "Difference": "fastrec.jobs.diff",
    "Exported": "fastrec.jobs.export",
    "FastrecError": "fastrec.errors",
    "Finding": "fastrec.stages.judge",
    "InvalidRecordError": "fastrec.errors",
    "Record": "fastrec.records",
    "Report": "fastrec.jobs.report",
    "ShardError": "fastrec.errors",
    "Stats": "fastrec.jobs.stats",
    "Summary": "fastrec.stages.summary",
    "UsageError": "fastrec.errors",
    "Verdict": "fastrec.api",
    "Verification": "fastrec.jobs.verify",
    "cat": "fastrec.jobs.cat",
    "decode": "fastrec.api",
    "diff": "fastrec.jobs.diff",
    "encode": "fastrec.api",
    "export": "fastrec.jobs.export",
    "generate": "fastrec.jobs.generate",
    "judge": "fastrec.api",
    "normalize": "fastrec.jobs.normalize",
    "read": "fastrec.api",
    "sample_hash": "fastrec.hashing",
    "stats": "fastrec.jobs.stats",
    "validate": "fastrec.jobs.validate",
    "verify": "fastrec.jobs.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fastrec' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
