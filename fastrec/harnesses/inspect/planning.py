"""Plan a log: read its header and some samples, and cut its samples into slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.files import check_is_plain
from fastrec.harnesses.inspect.archive import Archive, directory_of
from fastrec.harnesses.inspect.directory import unpack_members
from fastrec.harnesses.inspect.header import (
    decode_header,
    figures_of,
    notes_of,
    old_score_name,
    run_of,
    scores_seen,
    scoring_of,
)
from fastrec.harnesses.inspect.header_structs import Header
from fastrec.harnesses.inspect.reading import LogSlice, sample_members, samples_in_archive, samples_in_document
from fastrec.harnesses.inspect.roles import ARCHIVE
from fastrec.harnesses.inspect.sample import LazyParts
from fastrec.harnesses.inspect.sample_structs import LoggedSample
from fastrec.harnesses.json_array import scan_array
from fastrec.harnesses.log import Log, LogPlan
from fastrec.harnesses.values import decoder
from fastrec.storage import storage_of

__all__ = ["plan"]

_SLICE_BYTES: Final = 16 << 20
_LAST_VERSION: Final = 3
_LOOK_AT: Final = 32  # samples, to learn the names of scores
_CUT_SHORT: Final = "a chunked sample without its sample.json"


class _Summary(msgspec.Struct):
    """One sample in a list of summaries; they are only counted."""


_decode_summaries: Final = decoder(list[_Summary])


def plan(log: Log) -> LogPlan:
    """Read the header of a log, and cut its samples into slices."""
    file = log.files[0]
    return _plan_archive(file.path) if file.role == ARCHIVE else _plan_document(file.path)


def _plan_archive(path: str) -> LogPlan:
    check_is_plain(path)
    directory = directory_of(path)
    header, notes = _archived_header(path, directory)
    members, cut_short = sample_members(directory)
    slices = [tuple(some) for some in _slices(members, lambda one: one.size)]
    left_out = {_CUT_SHORT: cut_short} if cut_short else {}
    planned = _plan(header, notes, samples_in_archive(path, members), [{"members": some} for some in slices], left_out)
    if planned.expected_samples is not None:
        return planned
    return msgspec.structs.replace(planned, expected_samples=_summarized_samples(path, directory))


def _archived_header(path: str, directory: dict[str, bytes]) -> tuple[Header, list[str]]:
    for name, notes in (("header.json", []), ("_journal/start.json", ["the log has no header.json"])):
        if name in directory:
            with storage_of(path).open_reader(path) as reader:
                (member,) = unpack_members(directory[name])
                text = Archive(path, reader).read(member)
            return _decoded(path, f"its member {name}", text), notes
    raise LogError(path, "has neither header.json nor _journal/start.json, so it does not say what was run")


def _summarized_samples(path: str, directory: dict[str, bytes]) -> int | None:
    """Count the summaries of samples, which runs that did not finish have, too; None if they cannot be read."""
    names = [name for name in directory if name.startswith("_journal/summaries/")]
    if "summaries.json" in directory:
        names = ["summaries.json"]
    if not names:
        return None
    with storage_of(path).open_reader(path) as reader:
        archive = Archive(path, reader)
        texts = (archive.read(member) for name in names for member in unpack_members(directory[name]))
        try:
            return sum(len(_decode_summaries(memoryview(text))) for text in texts)
        except (LogError, ValueError):
            return None  # the samples themselves may be whole


def _plan_document(path: str) -> LogPlan:
    check_is_plain(path)
    scan = scan_array(path, "samples")
    header = _decoded(path, "it", scan.envelope)
    slices = [tuple(some) for some in _slices(scan.groups, lambda one: one[1] - one[0])]
    return _plan(header, [], samples_in_document(path, scan.groups), [{"groups": some} for some in slices], {})


def _decoded(path: str, what: str, text: bytes | bytearray) -> Header:
    try:
        header = decode_header(memoryview(text))
    except ValueError as exc:
        raise LogError(path, f"{what} is not the header of a log: {exc}") from exc
    if not 1 <= header.version <= _LAST_VERSION:
        raise LogError(path, f"has version {header.version} of the log format, and fastrec knows up to {_LAST_VERSION}")
    return header


def _plan(
    header: Header,
    notes: list[str],
    found: Iterator[tuple[LoggedSample, LazyParts]],
    slices: list[dict[str, Any]],
    left_out: dict[str, int],
) -> LogPlan:
    seen = scores_seen((sample for sample, _ in islice(found, _LOOK_AT)), old_score_name(header))
    scoring = scoring_of(header, seen)
    figures = figures_of(header, seen)
    if not slices:
        notes = [*notes, "the log has no samples"]
    return LogPlan(
        run=run_of(header),
        slices=[LogSlice(scoring, **some) for some in slices],
        aggregates=figures.means,
        not_compared=figures.not_compared,
        expected_samples=header.expected_samples,
        notes=[*notes, *notes_of(header)],
        left_out=left_out,
    )


def _slices(items: Iterable[Any], size_of: Any) -> Iterator[list[Any]]:
    """Cut items into runs of about the same size."""
    run: list[Any] = []
    size = 0
    for item in items:
        run.append(item)
        size += size_of(item)
        if size >= _SLICE_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run
