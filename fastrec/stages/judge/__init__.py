"""The judge: lines in; records in normal form, or rejects with every reason, out."""

from fastrec.stages.judge.batch import Batch, HashReplaced, Warned
from fastrec.stages.judge.codes import CODES, ERRORS, WARNINGS, Code
from fastrec.stages.judge.findings import Finding, Reject, too_long
from fastrec.stages.judge.judge import Judge, SampleHashMode

__all__ = [
    "CODES",
    "ERRORS",
    "WARNINGS",
    "Batch",
    "Code",
    "Finding",
    "HashReplaced",
    "Judge",
    "Reject",
    "SampleHashMode",
    "Warned",
    "too_long",
]
