"""Find logs: expand names into files, tell what each file is, and group the files of each harness into logs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from fastrec.commands.import_logs.partners import group_files
from fastrec.errors import ShardError, UsageError, counted, shown
from fastrec.harnesses.detect import head_of, role_in
from fastrec.harnesses.log import BadLog, FoundFile, Log
from fastrec.harnesses.registry import HARNESS_NAMES
from fastrec.sources.files import AnyFile, find_files

__all__ = ["FoundLogs", "find_logs"]

_KINDS = "lm-eval, Inspect, HELM or lighteval"
_NAMES: Final = {
    "lm-eval": re.compile(r"(?:^|/)samples_[^/]*_\d{4}-\d\d-\d\dT[^/]*\.jsonl(?:\.\w+)?$"),
    "inspect": re.compile(r"\.eval$"),
    "helm": re.compile(r"(?:^|/)(?:scenario_state|per_instance_stats)\.json$"),
    "lighteval": re.compile(r"(?:^|/)details_[^/]*_\d{4}-\d\d-\d\dT[^/]*\.parquet$"),
}
"""Names that only logs have. Such a file without the content of a log is damaged, and reported."""


class FoundLogs(msgspec.Struct):
    """All logs of an import."""

    logs: list[Log] = []
    bad: list[BadLog] = []
    others: int = 0
    """Files that are not needed."""


def find_logs(paths: Sequence[str], harness: str) -> FoundLogs:
    """Find the logs of one harness, or of all (`auto`); UsageError if there are none."""
    if not paths:
        raise UsageError("no input: name logs, directories of logs, globs or URLs")
    names = HARNESS_NAMES if harness == "auto" else (harness,)
    files = find_files(paths)
    found = FoundLogs()
    log_names = [_NAMES[name] for name in names]
    by_harness: defaultdict[str, list[FoundFile]] = defaultdict(list)
    has_records = False
    for file in files:
        try:
            head = head_of(file.path)
            role = role_in(file.path, head, names)
        except (OSError, ShardError) as exc:
            found.bad.append(BadLog(file.path, f"cannot be read: {getattr(exc, 'strerror', None) or exc}"))
            continue
        if role is not None:
            by_harness[role[0]].append(FoundFile(file.path, file.size, role[1]))
        elif _is_of_records(head):
            has_records = True
            found.others += 1
        elif file.is_named or any(name.search(file.path) for name in log_names):
            found.bad.append(BadLog(file.path, _foreign(file, harness)))
        else:
            found.others += 1
    for name, some in by_harness.items():
        grouped = group_files(name, some, names)
        found.logs += grouped.logs
        found.bad += grouped.bad
        found.others += grouped.others
    order = {file.path: number for number, file in enumerate(files)}
    found.logs.sort(key=lambda log: min(order[file.path] for file in log.files if file.path in order))
    if not found.logs and not found.bad:
        kind = _KINDS if harness == "auto" else harness
        named = ", ".join(map(shown, paths))
        if has_records:
            raise UsageError(f"these are records already, and no logs: {named}\nThe next step is: fastrec normalize")
        raise UsageError(f"there are no logs of {kind} in {named}: looked at {counted(len(files), 'file')}")
    return found


def _foreign(file: AnyFile, harness: str) -> str:
    if not file.size:
        return "it is empty"
    return f"it is no log of {_KINDS if harness == 'auto' else harness}"


def _is_of_records(head: bytes) -> bool:
    return b'"schema_version"' in head and b'"evaluation_name"' in head
