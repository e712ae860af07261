"""Opening an output, on this machine or in an object store, and checks before the work begins."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from fastrec.corpus.local_output import open_local_output
from fastrec.corpus.output import Kind, Output
from fastrec.engine.base import Engine
from fastrec.errors import UsageError, shown
from fastrec.limits import LIMITS, Limits
from fastrec.sources.shard import Shard, total_text
from fastrec.storage import is_url, join, parent_and_name, storage_of


def open_output(
    output: str, kind: Kind, work: str, *, overwrite: bool, fresh: bool, limits: Limits = LIMITS
) -> AbstractContextManager[Output]:
    """Lock and prepare an output. Its work is removed after success, and stays for the next run otherwise.

    With `overwrite`, an output of the same kind may be replaced. With `fresh`, work of an earlier run is removed.
    """
    if not is_url(output):
        return open_local_output(output, kind, work, overwrite=overwrite, fresh=fresh, limits=limits)
    from fastrec.corpus.store_output import open_store_output  # noqa: PLC0415 - only URLs need it

    return open_store_output(output, kind, work, overwrite=overwrite, fresh=fresh, limits=limits)


def check_output(output: str, names: Sequence[str], shards: Sequence[Shard] = ()) -> None:
    """Refuse an output inside an input, and an input inside the output."""
    ours, shown_output = _canonical(output), shown(output)
    for name, theirs in _canonical_inputs(names, shards, as_urls=is_url(output)):
        if f"{ours}/".startswith(f"{theirs}/") and (is_url(name) or Path(name).is_dir()):
            if theirs == ours:
                raise UsageError(f"{shown_output} is input and output at once: give another output")
            raise UsageError(f"the output {shown_output} lies in the input {shown(name)}: give another output")
        if f"{theirs}/".startswith(f"{ours}/"):
            raise UsageError(f"the input {shown(name)} lies in the output {shown_output}: give another output")


def check_inputs_not_in(refused: str, names: Sequence[str], shards: Sequence[Shard]) -> None:
    """Refuse inputs in a refused corpus that this run would replace or remove."""
    if not storage_of(refused).exists(refused):
        return
    place = _canonical(refused)
    for name, theirs in _canonical_inputs(names, shards, as_urls=is_url(refused)):
        if f"{theirs}/".startswith(f"{place}/"):
            raise UsageError(
                f"the input {shown(name)} is the corpus that was refused last, which this run would replace or remove: "
                "rename it, or give another output"
            )


def _canonical(path: str) -> str:
    return storage_of(path).canonical(path).rstrip("/")


def _canonical_inputs(names: Sequence[str], shards: Sequence[Shard], *, as_urls: bool) -> Iterator[tuple[str, str]]:
    """Yield the inputs as they are given, and their shards, each with its canonical path: URLs or other paths."""
    directories: dict[str, str] = {}  # most shards share one, whose canonical path is found once
    yield from ((name, _canonical(name)) for name in names if is_url(name) == as_urls)
    for path in (shard.path for shard in shards if not shard.stream and is_url(shard.path) == as_urls):
        if as_urls or os.path.islink(path):  # noqa: PTH114 - paths stay the str that was given
            yield path, _canonical(path)
        else:
            parent, name = parent_and_name(path)
            if parent not in directories:
                directories[parent] = _canonical(parent)
            yield path, f"{directories[parent]}/{name}"


def too_little_space(output: Output, shards: Sequence[Shard]) -> str | None:
    """Return a warning if the disk is probably too small; streams do not count, because their size is unknown."""
    needed: Counter[int] = Counter()
    directories: dict[int, str] = {}
    stored, text = sum(shard.size for shard in shards), total_text(shards)
    for directory, size in ((parent_and_name(output.staged("x"))[0], stored), (output.work, text)):
        if not is_url(directory):
            device = os.stat(directory).st_dev  # noqa: PTH116
            needed[device] += size
            directories[device] = directory
    for device, size in needed.items():
        found = os.statvfs(directories[device])
        free = found.f_bavail * found.f_frsize
        if free < size:
            return (
                f"{shown(directories[device])} has {free / 1e9:.1f} GB left, and the work takes about "
                f"{size / 1e9:.1f} GB: free some space, or name another directory with --work-dir"
            )
    return None


def check_reachable(directories: Iterable[str], engine: Engine) -> None:
    """Raise a UsageError if a worker cannot read and write in one of the directories."""
    for directory in directories:
        probe, storage = join(directory, f".fastrec-probe-{time.time_ns():x}"), storage_of(directory)
        storage.write_all(probe, b"")
        try:
            answers = engine.on_every_worker(_can_reach, probe)
        finally:
            storage.remove(probe)
        if failed := sorted(worker for worker, reached in answers.items() if not reached):
            more = f" and {len(failed) - 3:,} more workers" if len(failed) > 3 else ""
            raise UsageError(
                f"{shown(directory)} cannot be reached by {', '.join(failed[:3])}{more}: put the output, and "
                "--work-dir, on storage that all workers share under the same name"
            )


def _can_reach(probe: str) -> bool:
    """Return whether a file is visible, and another one can be written beside it. Runs in a worker."""
    own, storage = f"{probe}-{secrets.token_hex(4)}", storage_of(probe)
    try:
        if not storage.exists(probe):
            return False
        storage.write_all(own, b"")
        storage.remove(own)
    except (OSError, UsageError):
        return False
    return True
