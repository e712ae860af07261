"""The records of a sample or of logs, for tests of harnesses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

import fastrec
from fastrec.commands.import_logs import Import, import_logs
from fastrec.harnesses.convert import Converter, line_maker
from fastrec.harnesses.log import Sample
from fastrec.harnesses.metadata import own_names
from fastrec.harnesses.recognise import role_in


def role_of(name: str, head: bytes, path: str) -> str | None:
    """The role of a file among those of one harness."""
    found = role_in(path, head, [name])
    return found[1] if found else None


def lines_of(converter: Converter, sample: Sample) -> list[tuple[str, bytes]]:
    """The records of a sample as lines without their newlines, each with its metric."""
    bundle = converter.bundle(sample)
    if bundle is None:
        return []
    names = list(converter.result.metrics)
    lines = b"".join(line_maker(converter.result.head, names, {})(bundle)).split(b"\n")
    return [(names[score.metric], line) for score, line in zip(bundle.scores, lines, strict=False)]


def imported(tmp_path: Path, *paths: Path, **options: Any) -> tuple[Import, list[dict[str, Any]]]:
    """Import logs; all records have to be valid, and names of metadata that fastrec gives known."""
    result = import_logs(paths, tmp_path / "records", **options)
    records = [
        msgspec.to_builtins(record)
        for log in result.logs
        for record in fastrec.read(tmp_path / "records" / log.file, schema="0.3.0")
    ]
    if records:
        import_logs(paths, tmp_path / "bare", metadata="none")
        for record in fastrec.read(tmp_path / "bare"):
            assert record.metadata.keys() <= own_names(record.metadata["harness"])
    return result, records
