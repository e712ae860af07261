"""Exchanging two directories: each gets the other's name, in one step, so that there is no moment without either."""

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
"""If it is something else that stands in the way, two renames will say what."""


def exchange(one: Path, other: Path) -> bool:
    """Let two directories change places; False if this system or this file system cannot do that."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - takes milliseconds to load, and only replacing a corpus needs it

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an older C library
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    reason = ctypes.get_errno()
    if reason in _CANNOT:
        return False
    raise OSError(reason, os.strerror(reason), os.fspath(one), None, os.fspath(other))
