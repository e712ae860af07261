"""Group files into logs, and find the files of a log that the user did not name.

A log of lm-eval or HELM has several files. If the user names only some of them, the others are looked for in the same
directory. Only logs of which a file was named are imported.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastrec.errors import ShardError
from fastrec.harnesses.detect import head_of, role_in
from fastrec.harnesses.log import FoundFile, Grouped
from fastrec.harnesses.registry import harness_named
from fastrec.storage import join, parent_and_name, storage_of

__all__ = ["group_files"]


def group_files(harness: str, files: Sequence[FoundFile], names: Sequence[str]) -> Grouped:
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
