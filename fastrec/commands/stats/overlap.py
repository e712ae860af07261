"""Questions that occur in several evaluations: the same `sample_hash`, or the same input but for white space.

A task per part reads one record of each question. The records of a question follow each other in an evaluation, so
most lines are skipped without decoding them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

import msgspec
from msgspec import Raw
from xxhash import xxh3_128_digest

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import PartFile, decode_sample_id, parts_of, read_head, run_in_order, skim_lines, with_progress
from fastrec.errors import shown
from fastrec.limits import Limits
from fastrec.progress import Progress
from fastrec.summary.present_ranking import Overlap, OverlapExample

_MOST_EXAMPLES: Final = 3


class _Task(msgspec.Struct, frozen=True):
    part: PartFile
    limits: Limits

    def __str__(self) -> str:
        return f"reading {shown(self.part.path)}"


class _Asked(msgspec.Struct):
    raw: str


class _Line(msgspec.Struct):
    evaluation_name: str
    sample_hash: str
    sample_id: Raw
    input: _Asked


class _Question(msgspec.Struct, array_like=True, gc=False):
    evaluation_name: str
    sample_hash: str
    sample_id: bytes
    text: bytes
    """Digest of the input with white space collapsed."""


def find_overlap(
    corpus: str, manifest: Manifest, *, jobs: int, progress: Progress | None, limits: Limits
) -> list[Overlap]:
    """Compare all pairs of evaluations; those with the most questions in common come first."""
    parts = parts_of(corpus, manifest)
    tasks = [_Task(part, limits) for part in parts]
    done = run_in_order(_questions, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits)
    by_text: dict[bytes, dict[str, _Question]] = {}
    by_hash: dict[str, dict[str, _Question]] = {}
    for questions in with_progress(done, parts, progress, "count"):
        for one in questions:
            by_text.setdefault(one.text, {}).setdefault(one.evaluation_name, one)
            by_hash.setdefault(one.sample_hash, {}).setdefault(one.evaluation_name, one)
    found: dict[tuple[str, str], Overlap] = {}
    for kind, shared in (("hashes", by_hash.values()), ("inputs", by_text.values())):
        for group in shared:
            for first, second in combinations(sorted(group), 2):
                pair = found.get((first, second))
                if pair is None:
                    pair = found[first, second] = Overlap(first=first, second=second)
                setattr(pair, kind, getattr(pair, kind) + 1)
                if kind == "inputs" and len(pair.examples) < _MOST_EXAMPLES:
                    pair.examples.append(_example(group[first], group[second]))
    return sorted(found.values(), key=lambda one: (-one.inputs, -one.hashes, one.first, one.second))


def _example(first: _Question, second: _Question) -> OverlapExample:
    return OverlapExample(
        sample_id=decode_sample_id(first.sample_id),
        sample_hash=first.sample_hash,
        other_sample_id=decode_sample_id(second.sample_id),
        other_sample_hash=second.sample_hash,
    )


def _questions(task: _Task) -> list[_Question]:
    """List the questions of a part. Runs in a worker."""
    decode = msgspec.json.Decoder(_Line).decode
    found = []
    last = ("", "")
    for line in _lines(task):
        head = read_head(line)
        if (head.evaluation_name, head.sample_hash) != last:
            last = head.evaluation_name, head.sample_hash
            record = decode(line)
            text = xxh3_128_digest(" ".join(record.input.raw.split()).encode(errors="surrogatepass"))
            found.append(_Question(*last, bytes(record.sample_id), text))
    return found


def _lines(task: _Task) -> Iterator[bytes]:
    for data, end in skim_lines(task.part, task.limits):
        yield from bytes(memoryview(data)[: end - 1]).split(b"\n")
