"""The memory limit of a control group is found in every layout: versions 1 and 2, nested groups,
containers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fastrec.cli.memory import cgroup_limit

V2 = "33 25 0:30 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw"
V1 = "37 33 0:34 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
HYBRID = f"{V1}\n43 33 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
UNLIMITED_V1 = str(2**63 - 4096)


def make(root: Path, groups: str, mounts: str | None, limits: dict[str, str]) -> Path:
    """Make a root directory with the files that the kernel would show."""
    files = {
        "proc/self/cgroup": groups,
        **({} if mounts is None else {"proc/self/mountinfo": mounts}),
    }
    files |= {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("groups", "mounts", "limits", "expected"),
    [
        pytest.param("0::/", V2, {"memory.max": "700"}, 700, id="container"),
        pytest.param("0::/", V2, {"memory.max": "max"}, None, id="no limit"),
        pytest.param("0::/", V2, {}, None, id="root group"),
        pytest.param(
            "0::/system.slice/job.service",
            V2,
            {"system.slice/job.service/memory.max": "700"},
            700,
            id="systemd",
        ),
        pytest.param(
            "0::/slurm/job_7/step_0/task_0",
            V2,
            {
                "slurm/job_7/step_0/task_0/memory.max": "max",
                "slurm/job_7/memory.max": "500",
                "slurm/memory.max": "900",
            },
            500,
            id="slurm: an ancestor has the limit",
        ),
        pytest.param(
            "0::/a/b",
            V2,
            {"a/b/memory.max": "900", "a/memory.max": "max", "memory.max": "800"},
            800,
            id="top",
        ),
        pytest.param(
            "0::/../../other", V2, {"memory.max": "600"}, 600, id="outside of the namespace"
        ),
        pytest.param(
            "0::/docker/1f",
            V2.replace(" / ", " /docker/1f ", 1),
            {"memory.max": "600"},
            600,
            id="mounted below the root",
        ),
        pytest.param("0::/gone/b", V2, {"memory.max": "600"}, 600, id="group that is not visible"),
        pytest.param(
            "5:devices:/x\n4:cpu,memory:/slurm/job_7",
            V1,
            {
                "memory/slurm/job_7/memory.limit_in_bytes": UNLIMITED_V1,
                "memory/slurm/memory.limit_in_bytes": "400",
            },
            400,
            id="version 1",
        ),
        pytest.param(
            "4:memory:/job\n0::/user",
            HYBRID,
            {"memory/job/memory.limit_in_bytes": "300", "unified/user/memory.max": "350"},
            300,
            id="hybrid",
        ),
        pytest.param("0::/job", None, {"job/memory.max": "200"}, 200, id="no mountinfo, version 2"),
        pytest.param(
            "4:memory:/job",
            None,
            {"memory/job/memory.limit_in_bytes": "200"},
            200,
            id="no mountinfo, version 1",
        ),
        pytest.param("0::/a b", V2, {"a b/memory.max": "100"}, 100, id="space"),
    ],
)
def test_the_smallest_limit_counts(
    groups: str, mounts: str | None, limits: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    """The limit of the own group or of any group around it is found."""
    assert cgroup_limit(make(tmp_path, groups, mounts, limits)) == expected


def test_a_mount_point_with_a_space(tmp_path: Path) -> None:
    """mountinfo escapes spaces."""
    make(
        tmp_path,
        "0::/",
        r"1 2 0:3 / /sys/fs/cgroup/my\040groups rw - cgroup2 none rw",
        {"my groups/memory.max": "50"},
    )
    assert cgroup_limit(tmp_path) == 50


def test_no_control_groups(tmp_path: Path) -> None:
    """Without /proc there is no limit, and no error."""
    assert cgroup_limit(tmp_path) is None
