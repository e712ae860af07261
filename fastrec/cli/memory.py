"""The memory limit of a command: equal shares for its processes of what it may use.

A scheduler such as Slurm, systemd, Docker or Kubernetes limits the memory of a control group. The
group of this process may have no limit of its own and be inside a group that has one, so the
smallest limit on the way up counts. There are two versions of control groups, and a machine may
have both:

    /proc/self/cgroup                   0::/job_7/step_0        version 2
                                        4:memory:/job_7         version 1
    /proc/self/mountinfo                where groups are mounted, and which group is the root there
    /sys/fs/cgroup/job_7/memory.max     the limit: a number of bytes, or `max`
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

_LEAST_MEMORY = 1 << 30
# The file with the limit, by the type of the file system.
_LIMIT_FILES = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
_USUAL_MOUNTS = (
    ("cgroup2", "/", "/sys/fs/cgroup"),
    ("cgroup2", "/", "/sys/fs/cgroup/unified"),
    ("cgroup", "/", "/sys/fs/cgroup/memory"),
)


def limit_memory(jobs: int) -> None:
    """Limit this process and its workers to equal shares of 90 % of the memory that they may use.

    A line that needs more ends in a MemoryError that names its shard. Without the limit, the
    machine would swap, or the system would kill a worker.
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
    """Return the smallest limit of the control group of this process and of the groups around it.

    None if none is set. `root` is the root of the file system; tests pass another one.
    """
    groups: dict[str, str] = {}  # that can limit the memory of this process, by file system
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            groups["cgroup2"] = path
        elif "memory" in controllers.split(","):
            groups["cgroup"] = path
    limits: list[int] = []
    for kind, top, mount in _mounts(root):
        group = PurePosixPath(groups.get(kind, ".."))
        inside = PurePosixPath()  # if the group is not visible here
        if ".." not in group.parts and group.is_relative_to(top):
            inside = group.relative_to(top)
        for folder in (inside, *inside.parents) if kind in groups else ():
            file = root / mount.lstrip("/") / folder / _LIMIT_FILES[kind]
            # There is no number if the limit is `max`.
            limits += [int(line) for line in _lines(file) if line.isdecimal()]
    return min(limits, default=None)


def _mounts(root: Path) -> Sequence[tuple[str, str, str]]:
    """List the mounts of groups: type of file system, group at the root of the mount, directory."""
    mounts = []
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            # A space is \\040, for example.
            top, directory = (
                re.sub(r"\\([0-7]{3})", lambda escape: chr(int(escape[1], 8)), path)
                for path in before.split(" ")[3:5]
            )
            mounts.append((kind, top, directory))
    return mounts or _USUAL_MOUNTS


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux, or no such group
        return []
