"""Logs of Inspect: `.eval`, a zip archive, and `.json`, one document. Inspect itself is not needed."""

from __future__ import annotations

from fastrec.harnesses.inspect.files import logs_of, role_of
from fastrec.harnesses.inspect.planning import plan, samples

__all__ = ["logs_of", "plan", "role_of", "samples"]
