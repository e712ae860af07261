"""How much memory this machine has for the process and its workers, and for the files that they use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

# A scheduler such as Slurm, systemd, Docker or Kubernetes limits the memory of a control group. The group of this
# process may have no limit of its own and be inside a group that has one, so the smallest limit on the way up counts.
# There are two versions of control groups, and a machine may have both:
#
#     /proc/self/cgroup                   0::/job_7/step_0        version 2
#                                         4:memory:/job_7         version 1
#     /proc/self/mountinfo                where the groups are mounted, and which group is the root of the mount
#     /sys/fs/cgroup/job_7/memory.max     the limit: a number of bytes, or `max`

_LIMITS: Final = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}  # files, by the type of the file system
_USUAL_MOUNTS: Final = (
    ("cgroup2", "/", "/sys/fs/cgroup"),
    ("cgroup2", "/", "/sys/fs/cgroup/unified"),
    ("cgroup", "/", "/sys/fs/cgroup/memory"),
)


def total_memory() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, cgroup_limit() or total)


def available_memory(root: Path = Path("/")) -> int:
    """Memory that no process uses, page cache included, within the limit of the control group."""
    free = [int(line.split()[1]) << 10 for line in _lines(root / "proc/meminfo") if line.startswith("MemAvailable:")]
    return min([*free, total_memory()])


def cgroup_limit(root: Path = Path("/")) -> int | None:
    """Return the smallest limit of the control group of this process and of the groups around it; None if none is set.

    `root` is the root of the file system; tests pass another one.
    """
    groups = dict(_groups(root))
    limits: list[int] = []
    for kind, top, mount in _mounts(root):
        if kind not in groups:
            continue
        place, group = root / mount.lstrip("/"), PurePosixPath(groups[kind])
        is_outside = ".." in group.parts or not group.is_relative_to(top)  # as in some containers
        inside = PurePosixPath() if is_outside else group.relative_to(top)
        for group in (inside, *inside.parents):
            # There is no number if the group is not visible here, or if its limit is `max`.
            limits += [int(line) for line in _lines(place / group / _LIMITS[kind]) if line.isdecimal()]
    return min(limits, default=None)


def _groups(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the groups of this process that can limit memory: the type of their file system, and their path."""
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            yield "cgroup2", path
        elif "memory" in controllers.split(","):
            yield "cgroup", path


def _mounts(root: Path) -> Sequence[tuple[str, ...]]:
    """List where groups are mounted: type of the file system, the group at the root of the mount, the directory."""
    found = []
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            # Octal escapes such as \040 stand for spaces and the like.
            paths = [re.sub(r"\\([0-7]{3})", lambda one: chr(int(one[1], 8)), path) for path in before.split(" ")]
            found.append((kind, *paths[3:5]))
    return found or _USUAL_MOUNTS


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux, or no such group
        return []
