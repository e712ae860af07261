"""The package claims exactly what CI runs, and its files are described correctly."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

from tests.docs.reference import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = ROOT / ".github" / "workflows"
JOBS = yaml.safe_load((WORKFLOWS / "ci.yml").read_text())["jobs"]


def classified(prefix: str) -> set[str]:
    """The ends of the classifiers that start with a prefix."""
    return {line.removeprefix(prefix) for line in PROJECT["classifiers"] if line.startswith(prefix)}


def matrix() -> set[tuple[str, str]]:
    """The systems and Python versions of the test job."""
    rows = JOBS["test"]["strategy"]["matrix"]
    product = {(system, version) for system in rows["os"] for version in rows["python"]}
    return product | {(row["os"], row["python"]) for row in rows["include"]}


def steps_of(jobs: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of all jobs of a workflow."""
    return [step for job in jobs.values() for step in job["steps"]]


def commands_of(jobs: dict[str, Any]) -> set[str]:
    """The commands that a workflow runs."""
    return {step["run"] for step in steps_of(jobs) if "run" in step}


def test_ci_runs_every_python_version_that_the_package_claims() -> None:
    versions = {
        version for version in classified("Programming Language :: Python :: ") if "." in version
    }
    assert versions == {version for _, version in matrix()}


def test_the_oldest_version_is_the_one_that_the_package_requires() -> None:
    oldest = min(
        (version for _, version in matrix()),
        key=lambda version: [int(part) for part in version.split(".")],
    )
    assert PROJECT["requires-python"] == f">={oldest}"
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tools["mypy"]["python_version"] == oldest
    assert tools["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"


def test_ci_runs_every_system_that_the_package_claims() -> None:
    names = {"MacOS": "macos", "POSIX :: Linux": "ubuntu"}
    claimed = {names[system] for system in classified("Operating System :: ")}
    assert claimed == {system.split("-")[0] for system, _ in matrix()}


def test_ci_runs_the_commands_of_the_makefile() -> None:
    """Lint, types, all tests and the wheel run through the targets that developers use."""
    targets = {f"make {name} PYTHON=python" for name in ("lint", "test", "bench-test", "dist")}
    assert targets <= commands_of(JOBS)


def test_all_examples_run_every_week() -> None:
    """On a Python version that the package claims."""
    weekly = yaml.safe_load((WORKFLOWS / "weekly.yml").read_text())
    assert "make test-long PYTHON=python" in commands_of(weekly["jobs"])
    assert weekly[True]["schedule"]  # YAML takes the key `on` for a boolean
    versions = {
        step["with"]["python-version"]
        for step in steps_of(weekly["jobs"])
        if "setup-python" in str(step)
    }
    assert versions <= {version for _, version in matrix()}


def test_one_extra_has_all_others() -> None:
    """And pandas, for results as data frames."""
    extras = dict(PROJECT["optional-dependencies"])
    everything = extras.pop("all")
    others = {package for packages in extras.values() for package in packages}
    assert set(everything) == others | {"pandas>=2.2"}
    assert everything == sorted(everything)


def test_checks_do_not_skip_the_browser() -> None:
    """`.ci/run` installs one where it may, and fails without one."""
    run = (ROOT / ".ci" / "run").read_text()
    assert (
        run.index("bash .ci/browser") < run.index("export NEED_BROWSER=1") < run.index("make test")
    )


def test_nothing_is_installed_from_the_index_under_our_name() -> None:
    """The package of this name on the index is another, so nothing installs it from there."""
    wrong = re.compile(rf"pip3? install[^`\n]*\b{PROJECT['name']}\b|\b{PROJECT['name']}\[[a-z]")
    assert wrong.search(f"pip install {PROJECT['name']}")
    assert wrong.search(f"needs {PROJECT['name']}[s3]")
    files = [*ROOT.glob("*.*"), ROOT / "Makefile"]
    files += [
        path
        for folder in ("docs", "fastrec", "bench", "tests", ".github")
        for path in (ROOT / folder).rglob("*")
    ]
    texts = {".md", ".py", ".toml", ".yml", ".json", ""}
    found = [
        path
        for path in files
        if path.is_file() and path.suffix in texts and wrong.search(path.read_text())
    ]
    assert [str(path.relative_to(ROOT)) for path in found] == []


def test_the_sdist_includes_files_that_exist() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    included = tools["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all((ROOT / path.lstrip("/")).exists() for path in included)
    assert re.fullmatch(r"[\w./]+\.py", tools["hatch"]["version"]["path"])
