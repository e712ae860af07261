"""fastrec: turn compressed JSONL evaluation records into one clean, sorted, comparable corpus.

Commands are functions, too. A function has the name of its command, and its parameters have the
names of the arguments and options of the command: `fastrec cat CORPUS --model A --model B
--sample-id 5` is `fastrec.cat(corpus, model=["A", "B"], sample_id=5)`. An option that can be
repeated takes a string or a list of strings, and means any of them. Options about printing have no
counterpart: functions return what commands print.

Names are imported on first use, so that `import fastrec` stays cheap.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from fastrec._version import __version__

# type checkers take it for that of `typing`, whose import takes longer than the rest of this
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastrec.answers.arrays import CodedColumn, Columns
    from fastrec.answers.leaderboard import Leaderboard
    from fastrec.api import (
        SchemaVersion,
        Verdict,
        decode,
        encode,
        judge,
        read,
        schema,
        schema_versions,
    )
    from fastrec.commands.calibration import Calibrations, calibration
    from fastrec.commands.cat import cat
    from fastrec.commands.check_pairs import PairCheck, check_pairs
    from fastrec.commands.clean import Cleaned, clean
    from fastrec.commands.compare import Comparison, compare
    from fastrec.commands.corrected import Corrections, corrected
    from fastrec.commands.costs import Costs, costs
    from fastrec.commands.diff import diff
    from fastrec.commands.diff.document import Difference
    from fastrec.commands.export import Exported, export
    from fastrec.commands.export.tables import batches, connect, table
    from fastrec.commands.generate import generate
    from fastrec.commands.import_logs import import_logs
    from fastrec.commands.import_logs.document import Import
    from fastrec.commands.items import Items, items
    from fastrec.commands.leaderboard import leaderboard
    from fastrec.commands.overlap import Overlap, overlap
    from fastrec.commands.questions import Questions, questions
    from fastrec.commands.rejects import Rejects, rejects
    from fastrec.commands.report import report
    from fastrec.commands.score import Scored, score
    from fastrec.commands.show import Shown, show
    from fastrec.commands.stats import stats
    from fastrec.commands.trend import trend
    from fastrec.commands.validate import Validation, validate
    from fastrec.commands.verify import Verification, verify
    from fastrec.commands.view import view
    from fastrec.errors import FastrecError, RefusedError, ShardError, UsageError
    from fastrec.judge.findings import Finding, InvalidRecordError
    from fastrec.normalize.run import normalize
    from fastrec.opened import Corpus
    from fastrec.opened import open as open  # noqa: A004 - a function of this package
    from fastrec.record_writer import Writer
    from fastrec.schemas.hashes import sample_hash
    from fastrec.schemas.registry import Record
    from fastrec.summary.document import Summary
    from fastrec.summary.present_ranking import Stats
    from fastrec.trends import Trend

__all__ = [
    "Calibrations", "Cleaned", "CodedColumn", "Columns", "Comparison", "Corpus", "Corrections",
    "Costs", "Difference", "Exported", "FastrecError", "Finding", "Import", "InvalidRecordError",
    "Items",
    "Leaderboard", "Overlap", "PairCheck", "Questions", "Record", "RefusedError", "Rejects",
    "SchemaVersion", "Scored", "ShardError", "Shown", "Stats", "Summary", "Trend", "UsageError",
    "Validation", "Verdict", "Verification", "Writer", "__version__", "batches", "calibration",
    "cat", "check_pairs", "clean", "compare", "connect", "corrected", "costs", "decode", "diff",
    "encode", "export", "generate", "import_logs", "items", "judge", "leaderboard", "normalize",
    "overlap", "questions", "read", "rejects", "report", "sample_hash", "schema", "schema_versions",
    "score", "show", "stats", "table", "trend", "validate", "verify", "view",
]  # fmt: skip
# `open` is public, too. It is left out so that `from fastrec import *` does not hide the builtin
# function.

# Where names are: a command is in the module of its name, and others are in these.
_HOMES = {
    name: f"fastrec.commands.{name}" for name in __all__ if name.islower() and name != "__version__"
} | {
    name: module
    for module, names in {
        "fastrec.answers.arrays": ("CodedColumn", "Columns"),
        "fastrec.answers.leaderboard": ("Leaderboard",),
        "fastrec.api": (
            "SchemaVersion",
            "Verdict",
            "decode",
            "encode",
            "judge",
            "read",
            "schema",
            "schema_versions",
        ),
        "fastrec.commands.calibration": ("Calibrations",),
        "fastrec.commands.check_pairs": ("PairCheck",),
        "fastrec.commands.clean": ("Cleaned",),
        "fastrec.commands.compare": ("Comparison",),
        "fastrec.commands.corrected": ("Corrections",),
        "fastrec.commands.costs": ("Costs",),
        "fastrec.commands.diff.document": ("Difference",),
        "fastrec.commands.export": ("Exported",),
        "fastrec.commands.export.tables": ("batches", "connect", "table"),
        "fastrec.commands.import_logs.document": ("Import",),
        "fastrec.commands.items": ("Items",),
        "fastrec.commands.overlap": ("Overlap",),
        "fastrec.commands.questions": ("Questions",),
        "fastrec.commands.rejects": ("Rejects",),
        "fastrec.commands.score": ("Scored",),
        "fastrec.commands.show": ("Shown",),
        "fastrec.commands.validate": ("Validation",),
        "fastrec.commands.verify": ("Verification",),
        "fastrec.errors": ("FastrecError", "RefusedError", "ShardError", "UsageError"),
        "fastrec.judge.findings": ("Finding", "InvalidRecordError"),
        "fastrec.normalize.run": ("normalize",),
        "fastrec.opened": ("Corpus", "open"),
        "fastrec.record_writer": ("Writer",),
        "fastrec.schemas.hashes": ("sample_hash",),
        "fastrec.schemas.registry": ("Record",),
        "fastrec.summary.document": ("Summary",),
        "fastrec.summary.present_ranking": ("Stats",),
        "fastrec.trends": ("Trend",),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fastrec' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "open"]


class _Package(ModuleType):
    """The package as a module in which `fastrec.judge` and `fastrec.normalize` stay functions.

    Importing the folder `fastrec/judge` would bind its module to the attribute `judge` of the
    package, and hide the function of that name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
