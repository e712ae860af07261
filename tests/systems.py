"""Differences between operating systems: marks that skip tests with a reason, and commands that
differ.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
needs_script = pytest.mark.skipif(
    not shutil.which("script"), reason="needs `script` to start a terminal"
)
needs_memory_limit = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux, which enforces RLIMIT_DATA"
)
needs_byte_names = pytest.mark.skipif(
    sys.platform == "darwin", reason="needs file names that are not UTF-8"
)


def in_terminal(command: str) -> list[str]:
    """The arguments that run a shell command in a new terminal."""
    if sys.platform == "linux":
        return ["script", "-qec", command, "/dev/null"]
    return ["script", "-q", "/dev/null", "sh", "-c", command]
