"""Run `normalize` in tests, and audit every published corpus with the standard library."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from xxhash import xxh3_128_hexdigest

import fastrec
from fastrec.limits import current_limits, use_limits
from fastrec.normalize.options import make_options
from fastrec.normalize.run import NormalizeResult, run
from fastrec.progress import Progress
from fastrec.sources.formats import Format
from fastrec.sources.shard import shard_at
from tests.corpus.plain_columns import check_columns
from tests.sources.compressing import compressed

FIELDS = ("evaluation_name", "sample_hash", "model_id", "evaluation_id", "sample_id")
METRIC = "evaluation_result_id"
SUFFIXES = {
    Format.PLAIN: "",
    Format.ZSTD: ".zst",
    Format.GZIP: ".gz",
    Format.BZ2: ".bz2",
    Format.XZ: ".xz",
}
EVERYTHING = {
    "duplicates": 0.1,
    "conflicts": 0.05,
    "unknown_keys": 0.2,
    "rejects": 0.1,
    "blanks": 0.03,
}


class Corpus:
    """A published corpus, read without fastrec apart from decompression."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any] = json.loads((path / "manifest.json").read_bytes())
        self.summary: dict[str, Any] = json.loads((path / "summary.json").read_bytes())
        self.line_counts: dict[str, int] = self.summary["line_counts"]
        self.parts = sorted(path.glob("part-*.jsonl*"))
        self.texts = [text_of(part) for part in self.parts]
        self.text = b"".join(self.texts)
        self.lines = self.text.split(b"\n")[:-1]
        rejects = path / "rejects.jsonl.zst"
        self.rejects: list[dict[str, Any]] = (
            [json.loads(line) for line in text_of(rejects).split(b"\n")[:-1]]
            if rejects.exists()
            else []
        )

    @property
    def sources(self) -> list[tuple[str, int]]:
        """The shard and the line of each record, as the corpus says."""
        entries = [entry["sources"] for entry in self.manifest["parts"]]
        lines = [
            line
            for entry in entries
            for line in text_of(self.path / entry["file"]).split(b"\n")[:-1]
        ]
        return [(source["source"], source["line"]) for source in map(json.loads, lines)]

    @property
    def same_for_all(self) -> dict[str, bytes]:
        """The files that must not depend on how the corpus was made."""
        columns = [self.path / entry["columns"]["file"] for entry in self.manifest["parts"]]
        return {
            path.name: path.read_bytes()
            for path in [*self.parts, *columns, self.path / "summary.json"]
        }


def text_of(path: Path) -> bytes:
    return b"".join(chunk.data for chunk in shard_at(str(path)).read())


def raw_of(reject: dict[str, Any]) -> bytes:
    return (
        base64.b64decode(reject["raw_base64"]) if "raw_base64" in reject else reject["raw"].encode()
    )


def integer_of(digits: str) -> int:
    """Read an integer of any length, which the standard library refuses by default."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return int(digits)
    finally:
        sys.set_int_max_str_digits(limit)


def sort_position(line: bytes, order: Sequence[str] = FIELDS) -> tuple[Any, ...]:
    """The sort position of a record: its fields, then its bytes."""
    record = json.loads(line, parse_int=integer_of)
    sample_id = record["sample_id"]
    record["sample_id"] = (1, 0, sample_id) if isinstance(sample_id, str) else (0, sample_id, "")
    metric = record.get(METRIC)
    record[METRIC] = (
        (0, "") if metric is None else (1, metric)
    )  # records without a metric come first
    return (*(record[field] for field in order), line)


def write(
    path: Path, lines: Sequence[bytes], format_: Format = Format.PLAIN, end: bytes = b"\n"
) -> Path:
    path = path.with_name(path.name + SUFFIXES[format_])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(compressed(format_, b"".join(line + end for line in lines)))
    return path


def without_long(lines: Iterable[bytes], longest: int = 6_000) -> list[bytes]:
    """Leave out most of the long lines, which are a fifth of generated lines, and three quarters of
    their text.
    """
    return [line for number, line in enumerate(lines) if len(line) <= longest or number % 25 == 0]


def run_limited(names: Any, output: Any, options: dict[str, Any], **more: Any) -> NormalizeResult:
    """Normalize; `limits` are among the options.

    In this process, unless the test says otherwise: a replaced function does not reach workers.
    """
    options = {"jobs": 1} | options
    limits = options.get("limits", current_limits())
    made = make_options(**{name: value for name, value in options.items() if name != "limits"})
    with use_limits(limits):
        return run(names, output, made, **more)


def normalized(inputs: Any, output: Path, progress: Any = None, **options: Any) -> Corpus:
    """Normalize, and audit the published corpus, which may have no records."""
    names = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    report = run_limited(
        names, output, {"allow_empty": True} | options, progress=progress or Progress()
    )
    return audited(output, report)


def audited(output: Path, report: NormalizeResult | None = None) -> Corpus:
    """Check line counts, order, distinctness and checksums, and that no other files exist."""
    corpus = Corpus(output)
    manifest = corpus.manifest
    counts = corpus.line_counts
    check_line_counts(corpus)
    assert len(corpus.lines) == counts["kept"] == manifest["records"]
    assert len(set(corpus.lines)) == len(corpus.lines)
    assert corpus.lines == sorted(
        corpus.lines, key=lambda line: sort_position(line, manifest["sort_fields"])
    )
    assert [part.name for part in corpus.parts] == [entry["file"] for entry in manifest["parts"]]
    for part, text, entry in zip(corpus.parts, corpus.texts, manifest["parts"], strict=True):
        check_part(part, text, entry, manifest["sort_fields"])
        columns = output / entry["columns"]["file"]
        digest = hashlib.sha256(columns.read_bytes()).hexdigest()
        assert (columns.stat().st_size, digest) == (
            entry["columns"]["bytes"],
            entry["columns"]["sha256"],
        )
        lines = [line + b"\n" for line in text.split(b"\n")[:-1]]
        check_columns(
            columns, lines, entry["text_xxh3_128"], has_metrics=METRIC in manifest["sort_fields"]
        )
    digests = (bytes.fromhex(entry["text_xxh3_128"]) for entry in manifest["parts"])
    assert manifest["text_xxh3_128"] == xxh3_128_hexdigest(b"".join(digests))
    assert (
        manifest["summary_sha256"]
        == hashlib.sha256((output / "summary.json").read_bytes()).hexdigest()
    )
    check_rejects(corpus)
    names = {entry["file"] for entry in manifest["parts"]} | {"summary.json", "manifest.json"}
    names |= {entry["columns"]["file"] for entry in manifest["parts"]}
    names |= check_sources(corpus)
    names |= {manifest["rejects"]["file"]} if manifest["rejects"] else set()
    assert {path.name for path in output.iterdir()} == names
    assert not list(output.parent.glob(f".{output.name}.*"))
    if report is not None:
        assert msgspec.json.decode(report.summary.to_json()) == corpus.summary
        assert report.parts == len(corpus.parts)
    return corpus


def check_line_counts(corpus: Corpus) -> None:
    """Line counts add up: in total, per shard, by code, by evaluation and by model."""
    accounts = [corpus.line_counts, *corpus.manifest["inputs"]]
    for counts in accounts:
        assert (
            counts["lines"]
            == counts["kept"] + counts["duplicates"] + counts["rejected"] + counts["blank"]
        )
    for name in corpus.line_counts:
        assert corpus.line_counts[name] == sum(entry[name] for entry in corpus.manifest["inputs"])
    summary = corpus.summary
    assert (
        sum(summary["rejected_by_code"].values())
        == corpus.line_counts["rejected"]
        == len(corpus.rejects)
    )
    for by_name in (summary["interaction_types"], summary["schema_versions"]):
        assert sum(by_name.values()) == corpus.line_counts["kept"]
    assert (
        sum(evaluation["records"] for evaluation in summary["evaluations"])
        == corpus.line_counts["kept"]
    )
    for evaluation in summary["evaluations"]:
        assert evaluation["records"] == sum(model["records"] for model in evaluation["by_model"])
        assert evaluation["models"] == len(evaluation["by_model"])


def check_part(
    part: Path, text: bytes, entry: dict[str, Any], sort_fields: Sequence[str] = FIELDS
) -> None:
    data = part.read_bytes()
    assert entry["records"] == text.count(b"\n") > 0
    assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert (entry["text_bytes"], entry["text_xxh3_128"]) == (len(text), xxh3_128_hexdigest(text))
    lines = text.split(b"\n")
    for key, line in (("first", lines[0]), ("last", lines[-2])):
        record = json.loads(line)
        assert entry[key] == {field: record.get(field) for field in sort_fields}
    if part.name.endswith(".zst"):
        assert zstandard.get_frame_parameters(data).has_checksum


def check_sources(corpus: Corpus) -> set[str]:
    """Each record has the source where it occurs first, if sources are tracked.

    Return the names of their files.
    """
    if "track_sources" not in corpus.manifest["options"]:
        assert not any("sources" in entry for entry in corpus.manifest["parts"])
        return set()
    entries = [entry["sources"] for entry in corpus.manifest["parts"]]
    for part, entry in zip(corpus.manifest["parts"], entries, strict=True):
        data = (corpus.path / entry["file"]).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert entry["file"] == part["file"].partition(".")[0] + ".sources.zst"
    first = first_sources(corpus.manifest)
    assert corpus.sources == [first[without_hash(line)] for line in corpus.lines]
    kept = Counter(shard for shard, _ in corpus.sources)
    assert kept == Counter({entry["path"]: entry["kept"] for entry in corpus.manifest["inputs"]})
    return {entry["file"] for entry in entries}


def first_sources(manifest: dict[str, Any]) -> dict[bytes, tuple[str, int]]:
    """Find by brute force where each record occurs first, by its normal form without its hash."""
    first: dict[bytes, tuple[str, int]] = {}
    for entry in manifest["inputs"]:
        for number, line in enumerate(text_of(Path(entry["path"])).split(b"\n"), 1):
            verdict = fastrec.judge(line, upgrade=manifest["schema"] == "0.3.0")
            first.setdefault(without_hash(verdict.normal), (entry["path"], number))
    return first


def without_hash(normal: bytes) -> bytes:
    return re.sub(rb'"sample_hash":"[^"]*",', b"", normal, count=1)


def check_rejects(corpus: Corpus) -> None:
    entry = corpus.manifest["rejects"]
    assert (entry is None) is (not corpus.rejects)
    if entry:
        data = (corpus.path / entry["file"]).read_bytes()
        assert entry["records"] == len(corpus.rejects)
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    places = [(reject["source"], reject["line"]) for reject in corpus.rejects]
    assert places == sorted(places)


def check_locations(corpus: Corpus) -> None:
    """Every rejected line has the line number and the offset of its bytes in the source."""
    texts = {
        name: text_with_mark(Path(name)) for name in {reject["source"] for reject in corpus.rejects}
    }
    for reject in corpus.rejects:
        text = texts[reject["source"]]
        raw = raw_of(reject)
        if reject["offset"] is None:
            continue
        offset = reject["offset"]
        whole = raw if not reject.get("truncated") else text[offset:].split(b"\n", 1)[0]
        assert whole.startswith(raw)
        assert text[offset : offset + len(whole)] == whole
        assert text[offset + len(whole) : offset + len(whole) + 1] in (b"", b"\n")
        assert text.count(b"\n", 0, offset) == reject["line"] - 1


def text_with_mark(path: Path) -> bytes:
    """The text of a file, a byte order mark included."""
    text = text_of(path)
    return b"\xef\xbb\xbf" + text if first_offset(path) else text


def first_offset(path: Path) -> int:
    return next((chunk.offset for chunk in shard_at(str(path)).read()), 0)


def shuffled_shards(lines: Sequence[bytes], count: int, folder: Path) -> Iterator[Path]:
    """Distribute lines over several shards, each in another compression."""
    formats = list(SUFFIXES)
    for number in range(count):
        some = lines[number::count]
        yield write(folder / f"{number:02d}.jsonl", some, formats[number % len(formats)])


class StopAfter(Progress):
    """Interrupts a run after some tasks of all attempts."""

    def __init__(self, count: int) -> None:
        self.left = count

    def advance(self, *_: int) -> None:
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt
