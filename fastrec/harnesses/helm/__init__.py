"""HELM: directories of runs, with requests and scores in two long JSON documents.

`plan` scans both documents once. It finds the samples by their key (instance, perturbation, trial), cuts them into
slices of byte ranges, and decides which aggregates the records must reproduce. `samples` reads the ranges of a slice.
"""

from __future__ import annotations

from fastrec.harnesses.helm.files import NAME, logs_of, role_of
from fastrec.harnesses.helm.planning import plan
from fastrec.harnesses.helm.sample import samples

__all__ = ["NAME", "logs_of", "plan", "role_of", "samples"]
