"""The memory limit of a control group is found in every layout: versions 1 and 2, nested groups,
containers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fastrec.cli.memory import cgroup_limit

UNLIMITED_V1 = str(2**63 - 4096)


def make(root: Path, groups: str, limits: dict[str, str]) -> Path:
    """Make a root directory with the files that the kernel would show."""
    files = {"proc/self/cgroup": groups}
    files |= {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        pytest.param("0::/", {"memory.max": "700"}, 700, id="container"),
        pytest.param("0::/", {"memory.max": "max"}, None, id="no limit"),
        pytest.param("0::/", {}, None, id="root group"),
        pytest.param(
            "0::/system.slice/job.service",
            {"system.slice/job.service/memory.max": "700"},
            700,
            id="systemd",
        ),
        pytest.param(
            "0::/slurm/job_7/step_0/task_0",
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
            {"a/b/memory.max": "900", "a/memory.max": "max", "memory.max": "800"},
            800,
            id="top",
        ),
        pytest.param("0::/../../other", {"memory.max": "600"}, 600, id="outside of the namespace"),
        pytest.param(
            "0::/docker/1f",
            {"memory.max": "600"},
            600,
            id="mounted below the root",
        ),
        pytest.param("0::/gone/b", {"memory.max": "600"}, 600, id="group that is not visible"),
        pytest.param(
            "5:devices:/x\n4:cpu,memory:/slurm/job_7",
            {
                "memory/slurm/job_7/memory.limit_in_bytes": UNLIMITED_V1,
                "memory/slurm/memory.limit_in_bytes": "400",
            },
            400,
            id="version 1",
        ),
        pytest.param(
            "4:memory:/job\n0::/user",
            {"memory/job/memory.limit_in_bytes": "300", "unified/user/memory.max": "350"},
            300,
            id="hybrid",
        ),
        pytest.param("0::/a b", {"a b/memory.max": "100"}, 100, id="space"),
    ],
)
def test_the_smallest_limit_counts(
    groups: str, limits: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    """The limit of the own group or of any group around it is found."""
    assert cgroup_limit(make(tmp_path, groups, limits)) == expected


def test_no_control_groups(tmp_path: Path) -> None:
    """Without /proc there is no limit, and no error."""
    assert cgroup_limit(tmp_path) is None
