"""Search the parts of a corpus for credentials in metadata and configurations."""

from collections.abc import Iterable
from contextlib import closing

from fastrec.corpus.scan import PartTask, skim_lines
from fastrec.errors import counted
from fastrec.judge.findings import FindingGroups
from fastrec.judge.secrets import secrets_of
from fastrec.storage import base_name

_MOST_LISTED = 20


class ChosenTask(PartTask, frozen=True):
    """A task for some records of a part."""

    chosen: bytes = b""  # a byte for each record, 0 if it is left out; nothing if all count


def search_part(task: ChosenTask) -> FindingGroups:
    groups = FindingGroups()
    name = base_name(task.part.path)
    before = 0
    with closing(skim_lines(task.part)) as buffers:
        for buffer, size in buffers:
            lines = bytes(memoryview(buffer)[:size]).split(b"\n")
            for at, finding in secrets_of(lines):
                if not task.chosen or task.chosen[before + at]:
                    groups.add(finding, name, before + at + 1)
            before += len(lines) - 1
    return groups


def list_secrets(by_part: Iterable[FindingGroups]) -> list[str]:
    """List the fields that have credentials, with the first record of each."""
    groups = FindingGroups()
    for of_part in by_part:
        groups.merge(of_part)
    lines = [
        f"{group.path} {group.message} ({counted(group.count, 'record')})"
        for group in groups.in_order()
    ]
    more = len(lines) - _MOST_LISTED
    return lines[:_MOST_LISTED] + [f"{more:,} more fields"] * (more > 0)
