"""HELM: directories of runs, with requests and scores in two long JSON documents."""

from __future__ import annotations

from fastrec.harnesses.helm.files import logs_of, role_of
from fastrec.harnesses.helm.planning import plan
from fastrec.harnesses.helm.sample import samples

__all__ = ["logs_of", "plan", "role_of", "samples"]
