"""`validate`: line counts add up, locations are right, and the result depends only on the lines."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from click.testing import CliRunner

from fastrec.cli import cli
from fastrec.commands import validate as module
from fastrec.commands.generate import Recipe, generate, labelled_lines
from fastrec.commands.validate import Validation, validate
from fastrec.corpus import scan
from fastrec.engine import make_engine
from fastrec.errors import FastrecError, UsageError
from fastrec.judge.arbiter import is_valid
from fastrec.judge.findings import CODES, UPGRADES, severity_of
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.limits import LIMITS, Limits, use_limits
from fastrec.schemas.registry import NEWEST_SCHEMA, SCHEMAS, version_of
from fastrec.schemas.upgrade import upgrade_value
from fastrec.sources.formats import Format
from tests.judge.test_hostile import FIELDS, line_with
from tests.samples import sample, sample_of
from tests.sizes import LONG, examples
from tests.sources.compressing import FORMATS, compressed
from tests.systems import needs_dev_full

EVERYTHING = {
    "duplicates": 0.05,
    "conflicts": 0.05,
    "unknown_keys": 0.3,
    "rejects": 0.15,
    "blanks": 0.05,
}
GOOD = json.dumps(sample()).encode().replace(b'"sample_hash": "00ff", ', b"")
BAD = b'{"nonsense": true}'
SUFFIXES = {
    Format.PLAIN: "",
    Format.ZSTD: ".zst",
    Format.GZIP: ".gz",
    Format.BZ2: ".bz2",
    Format.XZ: ".xz",
}


SMALL_TASKS = Limits(small_input=0, task_bytes=5_000)
"""Cut plain files every few lines, and use several processes for any input."""


def write(path: Path, lines: list[bytes], end: bytes = b"\n") -> Path:
    path.write_bytes(b"".join(line + end for line in lines))
    return path


def balanced(found: Validation) -> Validation:
    """Check what must hold for every validation."""
    assert found.lines == found.valid + found.invalid + found.blank
    assert found.warnings == sum(
        count for code, count in found.codes.items() if severity_of(code) == "warning"
    )
    assert found.ok is (not found.invalid and not found.bad_shards)
    if len(found.groups) < LIMITS.finding_groups:
        counts: Counter[str] = Counter()
        for group in found.groups:
            counts[group.code] += group.count
            assert 1 <= len(set(group.locations)) == len(group.locations) <= min(group.count, 3)
        assert counts == found.codes
    return found


def plain(found: Validation, folder: Path) -> dict[str, Any]:
    """Return a validation without the time, the folder, and the suffixes of compressions."""
    text = msgspec.json.encode(found).decode().replace(json.dumps(f"{folder}/")[1:-1], "")
    for suffix in SUFFIXES.values():
        text = text.replace(f".jsonl{suffix}", ".jsonl")
    return {**json.loads(text), "seconds": 0}


def log_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# Line counts


@pytest.mark.each_value
@pytest.mark.parametrize("compression", ["none", "mixed"])
@pytest.mark.parametrize("seed", [1, 2])
def test_line_counts_add_up_and_every_invalid_line_is_found(
    tmp_path: Path, seed: int, compression: str
) -> None:
    """Exactly the lines with a known flaw are invalid, each with its own code."""
    recipe = {"records": 400, "seed": seed, **EVERYTHING}
    kinds = Counter(kind for kind, _ in labelled_lines(Recipe(**recipe)))
    made = generate(tmp_path, shards=5, compression=compression, **recipe)
    found = balanced(validate([tmp_path]))
    rejects = Counter({kind: count for kind, count in kinds.items() if kind in CODES})
    assert found.lines == 400
    assert found.text_bytes == made.text_bytes
    assert found.blank == kinds["blank"]
    assert found.invalid == sum(rejects.values()) > 50
    assert {code: found.codes[code] for code in rejects} == dict(rejects)
    assert {code for code in found.codes if severity_of(code) == "error"} == set(rejects)
    assert found.shards == 5
    assert not found.bad_shards


def test_the_log_has_every_finding_in_input_order(tmp_path: Path) -> None:
    """The log has every finding with its location, severity, code and message, in the order of
    shards and lines.
    """
    recipe = {"records": 300, "seed": 4, "rejects": 0.2, "blanks": 0.05, "warnings": 0.3}
    made = generate(tmp_path / "in", shards=4, compression="mixed", **recipe)
    found = validate([tmp_path / "in"], json_log=tmp_path / "log.jsonl")
    log = log_of(tmp_path / "log.jsonl")
    assert all(
        list(entry) == ["source", "line", "severity", "code", "path", "message", "version"]
        for entry in log
    )
    locations = [(made.paths.index(entry["source"]), entry["line"]) for entry in log]
    assert locations == sorted(locations)
    assert Counter(entry["code"] for entry in log) == found.codes
    assert {entry["severity"] for entry in log} == {"error", "warning"}
    kinds = [kind for kind, _ in labelled_lines(Recipe(**recipe))]
    expected = {(n // 75, n % 75 + 1) for n, kind in enumerate(kinds) if kind in CODES}
    assert {
        location
        for location, entry in zip(locations, log, strict=True)
        if entry["severity"] == "error"
    } == expected


def test_groups_have_equal_findings_and_their_first_locations(tmp_path: Path) -> None:
    """Findings with equal code, path and message are one group.

    Errors come first, then the most frequent.
    """
    odd = GOOD.replace(b'"total_tokens": 15', b'"total_tokens": 16')
    first = write(tmp_path / "a.jsonl", [BAD, GOOD, b"[]", BAD, odd])
    second = write(tmp_path / "b.jsonl", [b"", odd, BAD, BAD, BAD, odd, odd])
    found = balanced(validate([first, second]))
    groups = {(group.code, group.path): group for group in found.groups}
    model = groups["schema.required", "$.model_id"]
    assert (model.count, model.severity) == (5, "error")
    assert [(location.source, location.line) for location in model.locations] == [
        (str(first), 1),
        (str(first), 4),
        (str(second), 3),
    ]
    tokens = groups["warn.total_tokens", "$.token_usage.total_tokens"]
    assert [(location.source, location.line) for location in tokens.locations] == [
        (str(first), 5),
        (str(second), 2),
        (str(second), 6),
    ]
    assert [group.severity for group in found.groups] == sorted(
        group.severity for group in found.groups
    )
    assert [-group.count for group in found.groups[:-1]] == sorted(
        -group.count for group in found.groups[:-1]
    )
    assert found.groups[-1] == tokens
    assert (found.lines, found.valid, found.invalid, found.blank, found.warnings) == (
        12,
        5,
        6,
        1,
        4,
    )


def test_groups_are_limited_and_counts_are_not(tmp_path: Path) -> None:
    """The number of groups is bounded, and the counts by code are complete."""
    lines = [
        json.dumps(sample(metadata={f"k{number}": float("nan")})).encode() for number in range(50)
    ]
    found = use_limits(Limits(finding_groups=10))(validate)([write(tmp_path / "a.jsonl", lines)])
    assert len(found.groups) == 10
    assert found.codes["json.number"] == found.invalid == 50


def test_findings_are_grouped_by_code_and_path(tmp_path: Path) -> None:
    """Values and indices do not split a group.

    Its message and locations are those of the first findings.
    """
    turns = [{"turn_idx": 0, "role": "user"}, {"turn_idx": "one", "role": "user"}]
    lines = [json.dumps(sample(model_id=number)).encode() for number in range(5)]
    lines += [
        json.dumps(sample("multi_turn", interactions=turns[number:])).encode() for number in (0, 1)
    ]
    path = write(tmp_path / "a.jsonl", lines)
    found = balanced(validate([path]))
    assert [(group.code, group.path, group.message, group.count) for group in found.groups] == [
        ("schema.type", "$.model_id", "expected a string, found the integer 0", 5),
        (
            "schema.type",
            "$.interactions[1].turn_idx",
            'expected an integer, found the string "one"',
            2,
        ),
    ]
    assert [location.line for location in found.groups[0].locations] == [1, 2, 3]


@pytest.mark.parametrize(
    ("recipe", "most"),
    [({"mix": "agentic"}, 30), ({"rejects": 0.6, "warnings": 0.9, "mix": "mixed"}, 62)],
)
def test_the_findings_fit_on_a_screen(tmp_path: Path, recipe: dict[str, Any], most: int) -> None:
    """A fresh set of shards needs a few lines.

    Whatever is wrong, there are at most 20 groups of three lines.
    """
    generate(tmp_path, records=150, shards=1, **recipe)
    done = CliRunner().invoke(cli, ["validate", str(tmp_path)])
    assert done.stdout.count("\n") <= most
    assert ("other findings; --json-log FILE has more" in done.stdout) is ("rejects" in recipe)


def test_a_line_with_many_errors_lists_the_first_and_counts_all(tmp_path: Path) -> None:
    """The counts by code are complete.

    The log has a hundred errors of the line, and the number of the others.
    """
    line = json.dumps(sample("multi_turn", interactions=[{}] * 400)).encode()
    found = validate([write(tmp_path / "a.jsonl", [line, GOOD])], json_log=tmp_path / "log")
    assert (found.invalid, found.codes["schema.required"]) == (1, 800)
    assert [
        (group.count, len(group.locations)) for group in found.groups if group.severity == "error"
    ] == [(50, 1)] * 2
    log = [entry for entry in log_of(tmp_path / "log") if entry["severity"] == "error"]
    assert len(log) == 101
    assert (log[100]["line"], log[100]["message"]) == (
        1,
        "700 more errors of this kind are not listed",
    )


# The same result, however the work is done


def test_the_result_does_not_depend_on_jobs_or_compression(tmp_path: Path) -> None:
    """The same lines give the same result and log with one job and with two, plain, cut or
    compressed.
    """
    recipe = {"records": 160, "seed": 11, "warnings": 0.2, **EVERYTHING}
    made = generate(tmp_path / "plain", shards=6, compression="none", **recipe)
    reports = []
    logs = []
    for format_ in (Format.PLAIN, *FORMATS):
        folder = tmp_path / format_.value
        folder.mkdir(exist_ok=True)
        if format_ is not Format.PLAIN:
            for path in map(Path, made.paths):
                (folder / f"{path.name}{SUFFIXES[format_]}").write_bytes(
                    compressed(format_, path.read_bytes())
                )
        for jobs in (1, 2) if format_ in (Format.PLAIN, Format.ZSTD) else (1,):
            found = balanced(
                use_limits(SMALL_TASKS)(validate)([folder], jobs=jobs, json_log=tmp_path / "log")
            )
            reports.append(plain(found, folder))
            logs.append(
                [
                    (Path(entry.pop("source")).name.split(".")[0], entry)
                    for entry in log_of(tmp_path / "log")
                ]
            )
    assert reports[0]["lines"] == 160
    assert reports[0]["invalid"] > 20
    assert all(found == reports[0] for found in reports)
    assert all(log == logs[0] for log in logs)


@pytest.mark.each_value
@pytest.mark.parametrize("task_bytes", [50, 999, 5_000, 20_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_file_cut_into_ranges_keeps_its_line_numbers(
    tmp_path: Path, task_bytes: int, end: bytes
) -> None:
    """Groups and log have the line numbers of the file, wherever it is cut."""
    limits = Limits(small_input=0, task_bytes=task_bytes)
    lines = [
        BAD if number % 7 == 0 else b"" if number % 10 == 3 else GOOD for number in range(1, 61)
    ]
    large = write(tmp_path / "large.jsonl", lines, end)
    small = write(tmp_path / "small.jsonl", [GOOD, BAD], end)
    assert len(list(_shard(large).slices(task_bytes))) > 1
    found = balanced(
        use_limits(limits)(validate)(
            [small, large, tmp_path / "small.jsonl"], json_log=tmp_path / "log"
        )
    )
    expected = [number for number in range(1, 61) if number % 7 == 0]
    log = [entry for entry in log_of(tmp_path / "log") if entry["path"] == "$.model_id"]
    assert [(entry["source"], entry["line"]) for entry in log] == [
        (str(small), 2),
        *((str(large), number) for number in expected),
    ]
    group = next(group for group in found.groups if group.path == "$.model_id")
    assert [(location.source, location.line) for location in group.locations] == [
        (str(small), 2),
        (str(large), 7),
        (str(large), 14),
    ]
    assert (found.lines, found.invalid, found.blank) == (62, 9, 6)
    assert found.text_bytes == large.stat().st_size + small.stat().st_size


def _shard(path: Path) -> Any:
    return module.find_records([str(path)])[0][0]


HOSTILE = [
    *(
        (line_with(FIELDS[field] % value), code)
        for field in FIELDS
        for value, code in [
            (b'{"k":1,"k":1}', "json.duplicate_key"),
            (b'[{"a":{"k":1,"j":{},"k":null}}]', "json.duplicate_key"),
            (b"1e999", "json.number"),
            (b"NaN", "json.number"),
            (b'"\\ud800"', "json.surrogate"),
            (b'"\xff"', "json.utf8"),
            (b'"a\x00b"', "json.syntax"),
            (b"[" * 10_000 + b"]" * 10_000, "json.depth"),
            (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "json.depth"),
        ]
    ),
    (line_with(b'"zz":' + b"1" * 4301), None),
    (line_with(b'"zz":' + b"1" * 1_000_001), "json.number"),
    (line_with('"zz":"\u2028 and \u2029"'.encode()), None),
    (line_with(b'"zz":' + b"[" * 254 + b"]" * 254), None),
    (GOOD + GOOD, "json.syntax"),
    (GOOD + b" " + GOOD, "json.syntax"),
    (b"\x00", "json.syntax"),
    (b"\xff\xfe", "json.utf8"),
    (b"{" * 100_000, "json.depth"),
    (GOOD, None),
]


def test_hostile_lines_get_the_same_verdict_with_one_job_and_with_two(tmp_path: Path) -> None:
    """Hostile lines get the designed verdict, in this process and in a worker."""
    path = write(tmp_path / "hostile.jsonl", [line for line, _ in HOSTILE])
    reports = []
    logs = []
    for jobs in (1, 2):
        found = balanced(
            use_limits(SMALL_TASKS)(validate)([path], jobs=jobs, json_log=tmp_path / "log")
        )
        reports.append(plain(found, tmp_path))
        logs.append(log_of(tmp_path / "log"))
    assert reports[0] == reports[1]
    assert logs[0] == logs[1]
    first: dict[int, str] = {}
    for entry in logs[0]:
        if entry["severity"] == "error":
            first.setdefault(entry["line"], entry["code"])
    assert [first.get(number) for number in range(1, len(HOSTILE) + 1)] == [
        code for _, code in HOSTILE
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_pool_is_started_only_for_enough_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """A small input is judged in this process, a larger one by the given number of jobs."""
    asked = []

    def note(jobs: int) -> Any:
        asked.append(jobs)
        return make_engine(1)

    monkeypatch.setattr(scan, "make_engine", note)
    paths = [write(tmp_path / name, [GOOD] * 40) for name in ("a.jsonl", "b.jsonl")]
    validate(paths, jobs=jobs)
    use_limits(Limits(small_input=0, task_bytes=100_000))(validate)(paths, jobs=jobs)
    assert asked == [1, 1]
    use_limits(Limits(small_input=0, task_bytes=10_000))(validate)(paths, jobs=jobs)
    assert asked[-1] == jobs


# Limits


@pytest.mark.parametrize("jobs", [1, 2])
def test_max_errors_stops_early(tmp_path: Path, jobs: int) -> None:
    """After max_errors invalid lines the rest is not read, and the result says so."""
    paths = [write(tmp_path / f"{n}.jsonl", [GOOD, BAD] * 20) for n in range(5)]
    found = balanced(use_limits(SMALL_TASKS)(validate)(paths, jobs=jobs, max_errors=25))
    assert found.stopped_early
    assert 25 <= found.invalid < 50
    assert found.lines < 200


def test_max_errors_stops_inside_a_shard(tmp_path: Path) -> None:
    """A huge shard of invalid lines is not read to its end."""
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(compressed(Format.ZSTD, (BAD + b"\n") * 100_000))
    found = balanced(use_limits(Limits(chunk_bytes=1_000))(validate)([path], max_errors=3))
    assert found.stopped_early
    assert 3 <= found.invalid < 200


def test_max_errors_that_is_not_reached_changes_nothing(tmp_path: Path) -> None:
    """With fewer invalid lines than max_errors, everything is read."""
    path = write(tmp_path / "a.jsonl", [BAD, GOOD, BAD])
    found = validate([path], max_errors=3)
    assert (found.lines, found.invalid, found.stopped_early) == (3, 2, False)


@pytest.mark.parametrize("length", [1_999, 2_000, 2_001, 9_000])
def test_a_line_over_the_limit_is_invalid_with_its_number(tmp_path: Path, length: int) -> None:
    """A line over the limit is invalid; the lines around it keep their verdicts and numbers."""
    long_line = GOOD + b" " * (length - len(GOOD))
    path = write(tmp_path / "a.jsonl", [GOOD, GOOD, long_line, BAD, GOOD, long_line])
    found = balanced(
        use_limits(SMALL_TASKS)(validate)([path], max_line_bytes=2_000, json_log=tmp_path / "log")
    )
    entries = [entry for entry in log_of(tmp_path / "log") if entry["code"] == "line.too_long"]
    if length <= 2_000:
        assert (found.invalid, entries) == (1, [])
        return
    assert [entry["line"] for entry in entries] == [3, 6]
    assert entries[0]["message"] == f"expected at most 2,000 bytes in a line, found {length:,}"
    assert (found.lines, found.valid, found.invalid) == (6, 3, 3)
    group = next(group for group in found.groups if group.code == "schema.required")
    assert [location.line for location in group.locations] == [4]


# Shards that cannot be read completely


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_bad_shards_are_listed_and_none_of_their_lines_count(tmp_path: Path, jobs: int) -> None:
    """A truncated or corrupt shard adds nothing to the counts, the groups and the log."""
    # Each bad shard has two frames or members. The first is intact and long enough to be judged,
    # the second is damaged.
    text = (GOOD + b"\n" + BAD + b"\n") * 100
    zstd = compressed(Format.ZSTD, text)
    gz = compressed(Format.GZIP, text)
    (tmp_path / "1.jsonl.zst").write_bytes(zstd + zstd[:-10])
    (tmp_path / "2.jsonl").write_bytes(b"\xef\xbb\xbf" + GOOD + b"\n[]\n")
    (tmp_path / "3.jsonl.gz").write_bytes(gz + gz[:-8] + bytes(4) + gz[-4:])
    (tmp_path / "4.jsonl.gz").write_bytes(gz)
    found = balanced(
        use_limits(Limits(chunk_bytes=500, small_input=0))(validate)(
            [tmp_path], jobs=jobs, json_log=tmp_path / "log"
        )
    )
    assert [Path(bad.split(": ")[0]).name for bad in found.bad_shards] == [
        "1.jsonl.zst",
        "3.jsonl.gz",
    ]
    assert "at byte" in found.bad_shards[0]
    assert (found.lines, found.valid, found.invalid, found.shards) == (202, 101, 101, 4)
    assert {Path(entry["source"]).name for entry in log_of(tmp_path / "log")} == {
        "2.jsonl",
        "4.jsonl.gz",
    }
    assert found.text_bytes == len(text) + (tmp_path / "2.jsonl").stat().st_size
    assert found.notices == [
        f"{tmp_path / '2.jsonl'} begins with a byte order mark, which was skipped"
    ]
    assert not found.ok


def test_a_cut_file_that_changes_is_listed_once_and_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one range of a file fails, none of its ranges counts, and there is one error for the file."""
    changing = write(tmp_path / "a.jsonl", [GOOD, BAD] * 30)
    other = write(tmp_path / "b.jsonl", [GOOD, BAD])
    judge_chunk = Judge.judge_chunk
    calls = []

    def change_at_the_third(self: Judge, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            write(changing, [GOOD])
        return judge_chunk(self, *args, **options)

    monkeypatch.setattr(Judge, "judge_chunk", change_at_the_third)
    found = balanced(
        use_limits(SMALL_TASKS)(validate)([changing, other], jobs=1, json_log=tmp_path / "log")
    )
    assert len(found.bad_shards) == 1
    assert "changed" in found.bad_shards[0]
    assert (found.lines, found.valid, found.invalid) == (2, 1, 1)
    assert {entry["source"] for entry in log_of(tmp_path / "log")} == {str(other)}


def test_a_shard_with_an_unusual_name_can_be_reported(tmp_path: Path) -> None:
    """A name that is not UTF-8 works in the result, the log and the list of bad shards."""
    strange = tmp_path / "a\udcff\n.jsonl"
    write(strange, [BAD, b"[]"])
    (tmp_path / "b\udcfe.jsonl.zst").write_bytes(compressed(Format.ZSTD, BAD)[:-3])
    found = validate([tmp_path], json_log=tmp_path / "log")
    decoded = msgspec.json.decode(msgspec.json.encode(found))
    assert decoded["groups"][0]["locations"][0]["source"].endswith("a\\xff\n.jsonl")
    assert "b\\udcfe.jsonl.zst" in decoded["bad_shards"][0]
    assert log_of(tmp_path / "log")[0]["source"].endswith("a\\xff\n.jsonl")


# Arguments


@pytest.mark.parametrize("as_", [str, Path, lambda path: [str(path)], lambda path: (path,)])
def test_paths_can_be_one_or_many(tmp_path: Path, as_: Any) -> None:
    """A single path can be a str or a Path."""
    assert validate(as_(write(tmp_path / "a.jsonl", [GOOD]))).valid == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "at least one job, not 0"),
        ({"max_errors": 0}, "max_errors must be at least 1, not 0"),
        ({"hash_algorithm": "md5"}, "sha256, xxh3_128"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """A wrong argument raises a UsageError with the allowed values."""
    with pytest.raises(UsageError, match=message):
        validate([write(tmp_path / "a.jsonl", [GOOD])], **options)


@pytest.mark.parametrize("link", [False, True])
def test_the_log_never_overwrites_a_shard(tmp_path: Path, link: bool) -> None:
    """A log that is one of the shards, by any name, is refused."""
    path = write(tmp_path / "a.jsonl", [GOOD, BAD])
    log = path
    if link:
        log = tmp_path / "log"
        log.symlink_to(path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is one of the shards"):
        validate([path], json_log=log)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "log", ["missing/log.jsonl", pytest.param("/dev/full", marks=needs_dev_full)]
)
def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path, log: str) -> None:
    """The error names the log, if it cannot be opened and if the disk is full."""
    path = write(tmp_path / "a.jsonl", [BAD] * 1_000)
    with pytest.raises(FastrecError, match=f"the log .*{log} cannot be written: No s") as caught:
        validate([path], json_log=tmp_path / log)
    assert caught.value.exit_code == 3


def test_nothing_is_left_in_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs of slices are removed at the end."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    validate([write(tmp_path / "a.jsonl", [BAD])], json_log=tmp_path / "log")
    assert list(scratch.iterdir()) == []


def test_another_hash_can_be_chosen(tmp_path: Path) -> None:
    """`algorithm` is the hash that sample_hash is compared with."""
    line = Judge(JudgeSettings(algorithm="xxh3_128"))
    out = bytearray()
    line.judge_chunk(GOOD, out)
    path = tmp_path / "a.jsonl"
    path.write_bytes(out)
    assert validate(path, hash_algorithm="xxh3_128").codes == {}
    assert validate(path).codes == {"warn.sample_hash": 1}


def test_an_empty_shard_has_no_lines(tmp_path: Path) -> None:
    """An empty shard is valid."""
    found = balanced(validate(write(tmp_path / "a.jsonl", [])))
    assert (found.lines, found.shards, found.ok) == (0, 1, True)


# Real records


def text_of(path: Path) -> bytes:
    """Read the text of a shard without fastrec."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix != ".zst":
        return data
    text = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        text.append(frame.decompress(data))
        assert frame.eof
        data = frame.unused_data
    return b"".join(text)


def test_real_records_are_all_valid(real: Path) -> None:
    """Every line of the real evaluations is a valid record, in every compression."""
    paths = sorted(real.rglob("*.jsonl*"))
    if not LONG:  # one of each kind and compression
        paths = list({(path.parent, path.suffix): path for path in paths}.values())
    assert {path.suffix for path in paths} == {".jsonl", ".gz", ".zst"}
    expected = sum(text_of(path).count(b"\n") for path in paths)
    found = balanced(validate(paths, jobs=2))
    assert found.ok
    assert found.valid == found.lines == expected > examples(1_000, 10_000)


# Schema versions


def mixed_shard(path: Path) -> Path:
    """Write a shard with two records of each version, and an invalid one of each."""
    records = []
    for version in SCHEMAS:
        good = sample_of(version, "agentic")
        bad = sample_of(version, "agentic", model_id=7)
        records += [good, bad, sample_of(version)]
    return write(path, [json.dumps(record).encode() for record in records])


@pytest.mark.parametrize("jobs", [1, 2])
def test_valid_lines_are_counted_by_version(tmp_path: Path, jobs: int) -> None:
    """The counts have the order of the versions, and errors say which version they are of."""
    path = mixed_shard(tmp_path / "a.jsonl")
    found = balanced(
        use_limits(SMALL_TASKS)(validate)(path, jobs=jobs, json_log=tmp_path / "log.jsonl")
    )
    assert list(found.versions.items()) == [(name, 2) for name in SCHEMAS]
    errors = [group for group in found.groups if group.severity == "error"]
    assert {(group.code, group.path, group.version, group.count) for group in errors} == {
        ("schema.type", "$.model_id", name, 1) for name in SCHEMAS
    }
    assert [
        (entry["line"], entry["version"])
        for entry in log_of(tmp_path / "log.jsonl")
        if entry["version"]
    ] == [(3 * number + 2, name) for number, name in enumerate(SCHEMAS)]
    assert all(group.version is None for group in found.groups if group.severity == "warning")


@pytest.mark.parametrize("version", SCHEMAS)
def test_everything_can_be_judged_by_one_version(tmp_path: Path, version: str) -> None:
    """With `schema`, a record is valid exactly if it follows that version, and all errors are of
    it.
    """
    lines = [
        json.dumps(sample_of(name, kind)).encode()
        for name in SCHEMAS
        for kind in ("single_turn", "agentic")
    ]
    found = balanced(validate(write(tmp_path / "a.jsonl", lines), schema=version))
    valid = [is_valid(json.loads(line), SCHEMAS[version]) for line in lines]
    assert (found.valid, found.versions) == (sum(valid), {version: sum(valid)})
    assert {group.version for group in found.groups if group.severity == "error"} == {version}


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    """The error lists the versions."""
    with pytest.raises(
        UsageError,
        match=r"no schema version '0\.9'; the versions are 0\.2\.0, 0\.2\.0-released, 0\.2",
    ):
        validate(write(tmp_path / "a.jsonl", [GOOD]), schema="0.9")


def test_the_choices_of_the_command_are_the_versions() -> None:
    """`--schema` takes every version, and `auto`."""
    command = cli.get_command(None, "validate")  # type: ignore[arg-type]
    (option,) = (one for one in command.params if one.name == "schema")
    assert list(option.type.choices) == ["auto", *SCHEMAS]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_upgrade_report_has_every_step_with_examples(tmp_path: Path, jobs: int) -> None:
    """Counts and locations are those of upgrading each record, on the fast and the slow path, with
    unknown keys.
    """
    odd = json.dumps(sample(**{'a"b': 1}, epoch=3, metadata={})).encode()  # takes the slow path
    extra = [
        json.dumps(sample("agentic", epoch=number, metadata={"n": 1})).encode()
        for number in range(6)
    ]
    path = mixed_shard(tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes() + b"\n".join([*extra, odd, b"", BAD]) + b"\n")
    expected: dict[str, list[int]] = {}
    earlier = 0
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        schema = version_of(json.loads(line), is_valid) if line.strip() else None
        earlier += schema not in (None, NEWEST_SCHEMA)
        for code in upgrade_value(json.loads(line), schema)[1] if schema else ():
            expected.setdefault(code, []).append(number)
    found = use_limits(SMALL_TASKS)(validate)(path, jobs=jobs, upgrade_report=True)
    report = found.upgrade
    assert report is not None
    assert (report.target, report.records) == ("0.3.0", earlier)
    assert {step.code: step.count for step in report.steps} == {
        code: len(lines) for code, lines in expected.items()
    }
    for step in report.steps:
        assert [one.line for one in step.locations] == expected[step.code][:3]
        assert step.meaning == UPGRADES[step.code]
    counts = [step.count for step in report.steps]
    assert counts == sorted(counts, reverse=True)
    assert validate(path).upgrade is None


def test_the_command_prints_versions_and_the_upgrade_report(tmp_path: Path) -> None:
    """Text for people, and the same as JSON."""
    path = mixed_shard(tmp_path / "a.jsonl")
    done = CliRunner().invoke(cli, ["validate", str(path), "--upgrade-report"])
    assert "error schema.type  1 ×, judged as 0.2.0-released\n" in done.stdout
    assert "\nversions: 0.2.0 (2), 0.2.0-released (2), 0.2.1 (2), 0.3.0 (2)\n" in done.stdout
    assert (
        "\nupgrade to 0.3.0: 6 records of earlier versions\n  upgrade.metadata_text  4 ×\n    a "
        "value in" in done.stdout
    )
    assert f"\n    {path}:1, {path}:3, {path}:4, …\n" in done.stdout
    document = json.loads(
        CliRunner().invoke(cli, ["validate", str(path), "--format=json", "--upgrade-report"]).stdout
    )
    assert document["versions"] == dict.fromkeys(SCHEMAS, 2)
    assert document["upgrade"]["steps"][0]["code"] == "upgrade.metadata_text"
    alone = CliRunner().invoke(cli, ["validate", str(path), "--schema", "0.2.1"])
    assert "2 valid, 10 invalid" in alone.stdout
    assert ", schema 0.2.1 (" in alone.stdout
