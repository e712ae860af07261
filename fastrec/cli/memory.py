"""How much memory this process and its workers may use: that of the machine, or less in a control group.

A scheduler such as Slurm, systemd, Docker or Kubernetes limits a control group. The group of this process may have no
limit of its own and be inside a group that has one, so the smallest limit on the way up counts. There are two versions
of control groups, and a machine may have both:

    /proc/self/cgroup                   0::/job_7/step_0        version 2
                                        4:memory:/job_7         version 1
    /proc/self/mountinfo                where the groups are mounted, and which group is the root of the mount
    /sys/fs/cgroup/job_7/memory.max     the limit: a number of bytes, or `max`
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["cgroup_limit", "limit_memory"]

_LEAST_MEMORY: Final = 1 << 30
_LIMITS: Final = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
"""The file that has the limit of a group, by the type of its file system."""
_USUAL_MOUNTS: Final = (
    ("cgroup2", "/", "/sys/fs/cgroup"),
    ("cgroup2", "/", "/sys/fs/cgroup/unified"),
    ("cgroup", "/", "/sys/fs/cgroup/memory"),
)


def limit_memory(jobs: int) -> None:
    """Limit this process and its workers to equal shares of 90 % of the memory that they may use.

    A line that needs more ends in a MemoryError that names its shard. Without the limit, the machine would swap, or the
    system would kill a worker.
    """
    try:
        import resource

        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        cap = max(min(total, cgroup_limit() or total) * 9 // 10 // jobs, _LEAST_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (cap if hard < 0 else min(cap, hard), hard))
    except (ImportError, OSError, ValueError):  # the system has no such limits
        return


def cgroup_limit(root: Path = Path("/")) -> int | None:
    """Return the smallest limit of the control group of this process and of the groups around it; None if none is set.

    `root` is the root of the file system; tests pass another one.
    """
    groups = dict(_groups(root))
    limits: list[int] = []
    for kind, top, mount in _mounts(root):
        if kind not in groups:
            continue
        place = root / mount.lstrip("/")
        inside = _inside(groups[kind], top)
        for group in (inside, *inside.parents):
            limits += _read_limit(place / group / _LIMITS[kind])
    return min(limits, default=None)


def _groups(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the groups of this process that can limit memory: the type of their file system, and their path."""
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            yield "cgroup2", path
        elif "memory" in controllers.split(","):
            yield "cgroup", path


def _mounts(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield where groups are mounted: type of the file system, the group at the root of the mount, the directory."""
    found = False
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            _, _, _, top, mount, *_ = before.split(" ")
            yield kind, _unescaped(top), _unescaped(mount)
            found = True
    if not found:
        yield from _USUAL_MOUNTS


def _unescaped(path: str) -> str:
    """Return a path without the octal escapes of mountinfo, such as `\\040` for a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _inside(group: str, top: str) -> PurePosixPath:
    """Return the path of a group below the root of a mount; empty if it is outside, as in some containers.

    >>> [str(_inside(group, top)) for group, top in (("/a/b", "/"), ("/docker/1", "/docker/1"), ("/../..", "/"))]
    ['a/b', '.', '.']
    """
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(top):
        return PurePosixPath()
    return path.relative_to(top)


def _read_limit(path: Path) -> list[int]:
    try:
        return [int(path.read_text())]
    except (OSError, ValueError):  # the group is not visible here, or its limit is `max`
        return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return []
