"""Find the shards of a run, and tell a user who names logs of a harness instead what to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from fastrec.errors import ShardError, UsageError, shown
from fastrec.sources.files import find_files
from fastrec.sources.inputs import find_shards
from fastrec.sources.shard import Shard
from fastrec.storage import is_url

__all__ = ["find_records"]

_MOST_FILES: Final = 100  # looked at in a directory without shards
_MOST_NAMES: Final = 3  # in the message
_DOC_ID: Final = b'"doc_id"'  # of a sample of lm-eval, the only harness that writes JSON lines


def find_records(paths: Sequence[str], *, files_from: str | None = None) -> tuple[list[Shard], list[str]]:
    """Find shards as `find_shards` does. UsageError if they are logs: all of their lines would be rejected."""
    try:
        shards, notices = find_shards(paths, files_from=files_from)
    except UsageError as exc:
        if harness := _harness_in(paths):
            raise _these_are_logs(harness, paths) from exc
        raise
    # In a store, another request every night would cost more than it is worth.
    first = next((shard for shard in shards if not shard.stream and not is_url(shard.path)), None)
    if first is not None and (harness := _harness_of(first)):
        raise _these_are_logs(harness, paths or [first.path])
    return shards, notices


def _these_are_logs(harness: str, paths: Sequence[str]) -> UsageError:
    named = shlex.join([*map(shown, paths[:_MOST_NAMES])]) + (" …" if len(paths) > _MOST_NAMES else "")
    return UsageError(
        f"these are {harness} logs, not records: {named}\n"
        f"Turn them into records first: fastrec import {named} -o records"
    )


def _harness_of(shard: Shard) -> str | None:
    """Return the harness that wrote a file; None if it may be a shard. Most shards cost one small read."""
    from fastrec.harnesses.detect import harness_of, head_of  # noqa: PLC0415 - takes a millisecond

    try:
        if ".jsonl" in shard.path and _DOC_ID not in head_of(shard.path):
            return None
    except (OSError, ShardError):
        return None  # reading the shard will report the error
    return harness_of(shard.path)


def _harness_in(paths: Sequence[str]) -> str | None:
    """Return the harness that wrote the first of some files that is a log."""
    from fastrec.harnesses.detect import harness_of  # noqa: PLC0415 - only for input that is wrong

    try:
        files = find_files(paths)[:_MOST_FILES]
    except UsageError:
        return None
    return next(filter(None, (harness_of(file.path) for file in files)), None)
