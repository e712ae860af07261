"""Find logs: expand names into files, tell what each file is, and group the files of each harness into logs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from fastrec.errors import ShardError, UsageError, counted, shown
from fastrec.harnesses.log import BadLog, FoundFile, Grouped, Log
from fastrec.harnesses.registry import HARNESS_NAMES, harness_named, head_of, role_in
from fastrec.sources.inputs import AnyFile, find_files
from fastrec.storage import join, parent_and_name, storage_of

# @@ partners: Group files into logs, and find the files of a log that the user did not name.
#
# A log of lm-eval or HELM has several files. If the user names only some of them, the others are looked for in the same
# directory. Only logs of which a file was named are imported.


def _group_files(harness: str, files: Sequence[FoundFile], names: Sequence[str]) -> Grouped:
    """Group files of a harness into logs; `names` are the harnesses that files may belong to."""
    grouped = harness_named(harness).logs_of(files)
    if not grouped.bad:
        return grouped
    complete = {file.path for log in grouped.logs for file in log.files}
    incomplete = {file.path for file in files} - complete
    beside = _files_beside(harness, files, incomplete, names)
    if not beside:
        return grouped
    again = harness_named(harness).logs_of([*files, *beside])
    bad = {one.path for one in grouped.bad}
    return Grouped(
        grouped.logs + [log for log in again.logs if any(file.path in incomplete for file in log.files)],
        [one for one in again.bad if one.path in bad],
        grouped.others,
    )


def _files_beside(
    harness: str, files: Sequence[FoundFile], incomplete: set[str], names: Sequence[str]
) -> list[FoundFile]:
    """Find further files of a harness in the directories of files that are not part of a complete log."""
    known = {file.path for file in files}
    found = []
    for directory in dict.fromkeys(parent_and_name(file.path)[0] for file in files if file.path in incomplete):
        for path in _listed(directory):
            if path in known:
                continue
            try:
                role = role_in(path, head_of(path), names)
                if role is not None and role[0] == harness:
                    found.append(FoundFile(path, storage_of(path).size_of(path), role[1]))
            except (OSError, ShardError):
                continue  # nobody named it
    return found


def _listed(directory: str) -> list[str]:
    """List the files of a directory, without hidden ones."""
    storage = storage_of(directory)
    try:
        entries = [parent_and_name(path) for path in storage.files_in(directory or ".")]
    except OSError:
        return []
    here = (directory or ".").rstrip("/")
    paths = [join(directory, name) for parent, name in entries if parent in (here, directory) and name[:1] != "."]
    return [path for path in paths if not storage.is_directory(path)]


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
        grouped = _group_files(name, some, names)
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
