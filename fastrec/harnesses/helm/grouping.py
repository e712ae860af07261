"""Group the files of a run by their directory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from fastrec.errors import counted
from fastrec.harnesses.helm.roles import OTHER
from fastrec.harnesses.log import BadLog, FoundFile, Grouped, Log
from fastrec.storage import parent_and_name

__all__ = ["NAME", "file_of", "logs_of"]

NAME: Final = "helm"

_ORDER: Final = ("run_spec", "scenario", "scenario_state", "per_instance_stats", "stats")
_NEEDED: Final = {
    "scenario_state": "scenario_state.json with the requests and completions",
    "per_instance_stats": "per_instance_stats.json with the scores",
}


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    """Make a log of each directory that has all files it needs."""
    found = Grouped()
    by_directory: defaultdict[str, defaultdict[str, list[FoundFile]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        if file.role == OTHER:
            found.others += 1
        else:
            by_directory[parent_and_name(file.path)[0]][file.role].append(file)
    for directory, roles in by_directory.items():
        name = directory or "."
        if reason := _problem(roles):
            found.bad.append(BadLog(name, reason))
        else:
            found.logs.append(Log(NAME, name, tuple(roles[role][0] for role in _ORDER if role in roles)))
    return found


def _problem(roles: defaultdict[str, list[FoundFile]]) -> str:
    """Say why the files of a directory make no log, if so."""
    for role, some in roles.items():
        if len(some) > 1:
            return f"it has {counted(len(some), 'file')} of the kind {role}: which of them belong together is unknown"
    missing = [text for role, text in _NEEDED.items() if role not in roles]
    if missing:
        return f"it is a run of HELM without {' and without '.join(missing)}"
    if "run_spec" not in roles and "scenario" not in roles:
        return "it is a run of HELM without run_spec.json and scenario.json: its task is unknown"
    return ""


def file_of(log: Log, role: str) -> FoundFile | None:
    """Return the file of a log that has a role."""
    return next((file for file in log.files if file.role == role), None)
