"""Exchanging the names of two directories in one system call, so that both names exist at every moment."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["exchange"]

_HERE: Final = -100  # AT_FDCWD
_EXCHANGE: Final = 2  # RENAME_EXCHANGE, see renameat2(2)
_CANNOT: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM}
"""The system or the file system cannot exchange names; two renames either work or raise the real error."""


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two directories; return False if this system or file system cannot do that."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - slow to import, and only replacing a corpus needs it

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    reason = ctypes.get_errno()
    if reason in _CANNOT:
        return False
    raise OSError(reason, os.strerror(reason), os.fspath(one), None, os.fspath(other))
