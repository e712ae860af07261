"""Find logs: tell what each file is, and group the files of each harness into logs.

Workers do both: only pyarrow tells details of lighteval from other Parquet files. It starts
threads, and a process with threads must not fork.

A log of lm-eval or HELM has several files. If the user names only some of them, the others are
looked for in the same directory. Only logs of which a file was named are imported.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct

from fastrec.engine.base import Engine
from fastrec.errors import ShardError, UsageError, arguments, counted, listed, shown
from fastrec.harnesses.log import OTHER, BadLog, Files, FoundFile, Grouped, Log
from fastrec.harnesses.recognise import head_of, role_in
from fastrec.harnesses.registry import HARNESSES, harness_named
from fastrec.sources.inputs import AnyFile
from fastrec.storage import join, parent_of, storage_of

RECORDS = "record shards"
OTHERS = "files of another kind"


class Found(Struct):
    logs: list[Log] = []
    bad: list[BadLog] = []
    skipped: dict[str, list[str]] = {}  # other files, by kind

    def skip(self, kind: str, *paths: str) -> None:
        if paths:
            self.skipped.setdefault(kind, []).extend(paths)


def find_logs(
    engine: Engine, paths: Sequence[str], files: Sequence[AnyFile], harness: str
) -> Found:
    """Find the logs of one harness, or of all (`auto`), among the files of some paths.

    UsageError if there are none.
    """
    names = list(HARNESSES) if harness == "auto" else [harness]
    kind = "a known harness" if harness == "auto" else harness
    inputs = Found()
    by_harness = defaultdict(list)
    for number, told in sorted(engine.run(partial(_tell, names, kind), files)):
        if isinstance(told, str):
            inputs.skip(told, files[number].path)
        elif isinstance(told, BadLog):
            inputs.bad.append(told)
        else:
            by_harness[told[0]].append(told[1])
    for grouped in engine.in_order(partial(_group_files, by_harness, names), by_harness):
        inputs.logs += grouped.logs
        inputs.bad += grouped.bad
        inputs.skip("files of a harness that no log needs", *grouped.others)
    order = {file.path: number for number, file in enumerate(files)}
    inputs.logs.sort(key=lambda log: min(order.get(file.path, len(order)) for file in log.files))
    if not inputs.logs and not inputs.bad:
        looked = f"there are no logs of {kind} in {listed(map(shown, paths))}"
        if records := inputs.skipped.get(RECORDS):
            shards = counted(records, "shard")
            step = f"fastrec normalize {arguments(paths)} -o corpus"
            raise UsageError(f"{looked}, but {shards} of records\nThe next step is: {step}")
        looked += f": looked at {counted(files, 'file')}"
        if harness == "auto":
            read = "; tables need options that name their columns, which --guess proposes"
        else:
            read = f"; it writes {HARNESSES[harness].reads}"
        raise UsageError(looked + read)
    return inputs


def _tell(names: Sequence[str], kind: str, file: AnyFile) -> tuple[str, FoundFile] | BadLog | str:
    """Tell the harness of a file and its role there, or what is wrong with it, or what it is else.

    `names` are the harnesses that it may belong to, and `kind` is what to call them.
    """
    path = file.path
    try:
        head = head_of(path)
        role = role_in(path, head, names)
    except (OSError, ShardError) as exc:
        return BadLog(path, f"cannot be read: {getattr(exc, 'strerror', None) or exc}")
    if role is not None:
        return role[0], FoundFile(path, file.size, role[1])
    if b'"schema_version"' in head and b'"evaluation_name"' in head:
        return RECORDS
    patterns = filter(None, (HARNESSES[name].log_name for name in names))
    has_name = any(re.search(pattern, path) for pattern in patterns)
    if not has_name and not file.is_named:
        return OTHERS
    if not file.size:
        return BadLog(path, "it is empty")
    if has_name:
        return BadLog(path, "it is damaged: it has the name of a log, but not the content of one")
    return BadLog(path, f"it is no log of {kind}")


def _group_files(by_harness: Mapping[str, Files], names: Sequence[str], harness: str) -> Grouped:
    """Group the files of a harness into logs.

    `names` are the harnesses that further files may belong to.
    """
    files = by_harness[harness]
    grouped = logs_among(harness, files)
    incomplete = {file.path for file in files} - grouped.used
    if grouped.bad and (beside := _files_beside(harness, files, incomplete, names)):
        bad = {log.path for log in grouped.bad}
        again = logs_among(harness, [*files, *beside])
        grouped.logs += [
            log for log in again.logs if any(file.path in incomplete for file in log.files)
        ]
        grouped.bad = [log for log in again.bad if log.path in bad]
    return grouped


def logs_among(harness: str, files: Files) -> Grouped:
    """The logs of a harness, and the files that none of them needs."""
    module = harness_named(harness)
    if not hasattr(module, "logs_of"):  # each file is a log
        return Grouped([Log(harness, file.path, (file,)) for file in files])
    grouped: Grouped = module.logs_of(files)
    bad = {log.path for log in grouped.bad}
    used = grouped.used
    for file in files:
        is_bad = not bad.isdisjoint((file.path, parent_of(file.path) or "."))
        if file.path not in used and (file.role == OTHER or not is_bad):
            grouped.others.append(file.path)
    return grouped


def _files_beside(
    harness: str, files: Files, incomplete: set[str], names: Sequence[str]
) -> list[FoundFile]:
    """Find further files of a harness in the directories of incomplete logs."""
    known = {file.path for file in files}
    further = []
    for folder in dict.fromkeys(parent_of(file.path) for file in files if file.path in incomplete):
        storage = storage_of(folder)
        here = folder or "."
        with suppress(OSError):
            for entry in storage.files_in(here):
                name = entry.removeprefix(here.rstrip("/") + "/")
                path = join(folder, name)
                if "/" in name or name.startswith(".") or path in known:
                    continue
                with suppress(OSError, ShardError):  # nobody named it, and it may be a folder
                    role = role_in(path, head_of(path), names)
                    if role is not None and role[0] == harness:
                        further.append(FoundFile(path, storage.size_of(path), role[1]))
    return further
