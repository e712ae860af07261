"""The files of HELM: tell them by their first bytes, and group those of a run by their directory.

file                       role                  what it has
run_spec.json              run_spec              the task and the model
scenario.json              scenario              the name of the scenario
scenario_state.json        scenario_state        requests and completions
per_instance_stats.json    per_instance_stats    scores
stats.json                 stats                 aggregates
instances.json, display_*  other                 nothing that the others do not have
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from fastrec.errors import counted
from fastrec.harnesses.log import HEAD_BYTES, BadLog, FoundFile, Grouped, Log
from fastrec.storage import parent_and_name

NAME: Final = "helm"

_OTHER: Final = "other"

_STATE: Final = re.compile(rb'\s*\{\s*"(adapter_spec|annotator_specs|request_states)"\s*:')
_REQUESTS: Final = re.compile(rb'"request_states"\s*:\s*\[')
_ENTRY: Final = re.compile(rb'\s*\[\s*\{\s*"(instance_id|perturbation|stats|train_trial_index)"\s*:')
_STATS: Final = re.compile(rb'"stats"\s*:\s*\[\s*(\{\s*"(name|count)"\s*:|\])')
_STAT: Final = re.compile(rb'\s*\[\s*\{\s*"(name"\s*:\s*\{|count"\s*:)')
_STAT_NAME: Final = re.compile(rb'"name"\s*:\s*\{\s*"name"\s*:')
_INSTANCE: Final = re.compile(rb'\s*\[\s*\{\s*"input"\s*:')


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    """Tell what a file is, by its first bytes.

    A key in quotes is never part of a longer text: there, its quotes would be escaped.
    """
    if _ENTRY.match(head) and b'"instance_id"' in head:
        if _STATS.search(head):
            return "per_instance_stats"
        is_display = b'"predicted_text"' in head or (b'"request"' in head and b'"train_trial_index"' in head)
        return _OTHER if is_display else None
    if _STAT.match(head):
        return "stats" if _STAT_NAME.search(head) and b'"sum_squared"' in head else None
    if _INSTANCE.match(head):
        return _OTHER if b'"references"' in head and b'"id"' in head else None
    if head.lstrip()[:1] != b"{":
        return None
    if _STATE.match(head) and _REQUESTS.search(head):
        return "scenario_state"
    if b'"scenario_spec"' in head and b'"adapter_spec"' in head and b'"metric_specs"' in head:
        return "run_spec"
    if _STATE.match(head) and len(head) == HEAD_BYTES:
        return "scenario_state"  # with long instructions before its requests
    is_scenario = all(key in head for key in (b'"name"', b'"description"', b'"tags"'))
    return "scenario" if is_scenario and (b'"definition_path"' in head or b'"output_path"' in head) else None


_ORDER: Final = ("run_spec", "scenario", "scenario_state", "per_instance_stats", "stats")
_NEEDED: Final = {
    "scenario_state": "scenario_state.json with the requests and completions",
    "per_instance_stats": "per_instance_stats.json with the scores",
}


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    found = Grouped()
    by_directory: defaultdict[str, defaultdict[str, list[FoundFile]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        if file.role == _OTHER:
            found.others.append(file.path)
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
    for role, some in roles.items():
        if len(some) > 1:
            return f"it has {counted(len(some), 'file')} of the kind {role}: which of them belong together is unknown"
    missing = [text for role, text in _NEEDED.items() if role not in roles]
    if missing:
        return f"it is a run of HELM without {' and without '.join(missing)}"
    if "run_spec" not in roles and "scenario" not in roles:
        return "it is a run of HELM without run_spec.json and scenario.json: its task is unknown"
    return ""
