"""The memory limit of a command: equal shares for its processes of what it may use.

A scheduler such as Slurm, systemd, Docker or Kubernetes limits the memory of a control group. The
group of this process may have no limit of its own and be inside a group that has one, so the
smallest limit on the way up counts. There are two versions of control groups, and a machine may
have both:

    /proc/self/cgroup                   0::/job_7/step_0        version 2
                                        4:memory:/job_7         version 1
    /sys/fs/cgroup/job_7/memory.max     the limit: a number of bytes, or `max`

In a container, the top of `/sys/fs/cgroup` may be a group below the root of the machine. Then the
folders in the path of the group are not there, and the top has the limit of the container.
"""

import os
from pathlib import Path, PurePosixPath

_LEAST_MEMORY = 1 << 30
# Where groups of a controller are, and the file with their limit. Version 2 has no controllers.
_LIMIT_FILES = {
    "": (("", "memory.max"), ("unified", "memory.max")),
    "memory": (("memory", "memory.limit_in_bytes"),),
}


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
    limits = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        group = PurePosixPath(path.lstrip("/"))
        for controller in controllers.split(","):
            for mount, name in _LIMIT_FILES.get(controller, ()):
                for folder in (group, *group.parents):
                    file = root / "sys/fs/cgroup" / mount / folder / name
                    # There is no number if the limit is `max`.
                    limits += [int(line) for line in _lines(file) if line.isdecimal()]
    return min(limits, default=None)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux, or no such group
        return []
