"""`normalize --schema`: the target follows from the content alone, however a run came to know it."""

from __future__ import annotations

import hashlib
import io
import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fastrec.cli.normalize import normalize as command
from fastrec.commands.cat import cat
from fastrec.commands.generate import Recipe, lines
from fastrec.commands.verify import verify
from fastrec.engine.base import SerialEngine
from fastrec.errors import UsageError
from fastrec.judge.judge import Judge
from fastrec.limits import Limits, use_limits
from fastrec.normalize import pass1, pass1_driver
from fastrec.normalize import pass1 as targets
from fastrec.normalize import run as module
from fastrec.normalize.dry_run import plan
from fastrec.normalize.options import Options
from fastrec.normalize.results import SortResult
from fastrec.normalize.run import run
from fastrec.progress import Progress
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, SCHEMAS, TARGETS
from fastrec.sources.formats import Format
from tests.normalize.normalizing import Corpus, StopAfter, audited, normalized, write
from tests.running import run_command
from tests.samples import sample, sample_of
from tests.sizes import examples

OLD = DEFAULT_SCHEMA.name
NEW = NEWEST_SCHEMA.name
LATER = [name for name in SCHEMAS if name != OLD]
KINDS = ("single_turn", "multi_turn", "agentic")

AGAIN = "starting again"
A_TASK_EACH = Limits(
    small_input=0, task_bytes=15_000, decompressed_chunk_bytes=4_000, run_bytes=15_000
)
"""Make a task per shard, and several per stream."""


def line_of(version: str, number: int, **changes: Any) -> bytes:
    record = sample_of(version, KINDS[number % 3], sample_id=f"q-{number}", **changes)
    return json.dumps(record).encode()


def named(number: int, metric: object, **changes: Any) -> bytes:
    """A record in the shape of 0.2.0 with this `evaluation_result_id`, which is an unknown key
    there.
    """
    return line_of(OLD, number, evaluation_result_id=metric, **changes)


def old(count: int, start: int = 0) -> list[bytes]:
    return [line_of(OLD, number) for number in range(start, start + count)]


def name_of(corpus: Corpus) -> str:
    """The name of the target of a corpus."""
    name: str = corpus.summary["schema"]
    assert TARGETS[name].label == corpus.manifest["schema"]
    assert tuple(corpus.manifest["sort_fields"]) == TARGETS[name].sort_fields
    return name


@pytest.fixture
def first_line_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess looks at the first line of each shard."""
    monkeypatch.setattr(targets, "_PEEKED_BYTES", 1)


def guess_always(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let every guess be this version."""
    monkeypatch.setattr(
        module,
        "choose_target",
        lambda _, lines: TARGETS[name] if lines.judge.target_is_guess else lines.target,
    )


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets of all tasks that run; they run in this process."""
    found: list[str] = []

    def note(task: pass1.SortTask) -> SortResult:
        found.append(task.lines.judge.target)
        return pass1.sort_pieces(task)

    monkeypatch.setattr(module, "make_engine", lambda *_: SerialEngine())
    monkeypatch.setattr(pass1_driver, "sort_pieces", note)
    return found


# The content decides

INVALID = [
    b"{",
    b"[]",
    b"",
    line_of(OLD, 1, interaction_type="none"),
    line_of(NEW, 1, evaluation_result_id=None),
]

INVALID_LINES = set(INVALID)
METRICS = [named(2, "em"), named(2, None)]  # only the first one names a metric


@settings(max_examples=examples(7, 80))
@given(
    st.lists(
        st.sampled_from([*INVALID, *old(3), *METRICS, *(line_of(version, 2) for version in LATER)]),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_the_target_follows_from_the_content(
    some: list[bytes], rng: random.Random, is_first_line: bool
) -> None:
    """Whatever the order of lines, their shards and the guess: the target and all files are the
    same.
    """
    shards: list[list[bytes]] = [[] for _ in range(rng.randint(1, 3))]
    for line in some:
        shards[rng.randrange(len(shards))].append(line)
    # A shard of invalid lines alone may be taken for another format, such as a JSON array.
    assume(all(not shard or not INVALID_LINES.issuperset(shard) for shard in shards))
    is_newer_version = any(
        json.loads(line).get("schema_version") in LATER for line in some if line not in INVALID
    )
    is_newer_version = is_newer_version or bool(
        {line_of("0.2.0-released", 2), METRICS[0]} & set(some)
    )
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder)
        if is_first_line:
            patch.setattr(targets, "_PEEKED_BYTES", 1)
        inputs = [write(path / f"{number}.jsonl", shard) for number, shard in enumerate(shards)]
        corpus = normalized(inputs, path / "out")
        whole = write(path / "whole.jsonl", some)
        expected = normalized(whole, path / "expected", schema=NEW if is_newer_version else OLD)
        assert name_of(corpus) == name_of(expected)
        assert corpus.same_for_all.keys() == expected.same_for_all.keys()
        assert corpus.lines == expected.lines
        assert sorted(reject["raw"] for reject in corpus.rejects) == sorted(
            reject["raw"] for reject in expected.rejects
        )


def test_no_records_are_of_the_default_version(tmp_path: Path) -> None:
    """An input without any valid record gives an empty corpus of the default version."""
    assert name_of(normalized(write(tmp_path / "in.jsonl", [b"{", b""]), tmp_path / "out")) == OLD


def test_a_mixed_corpus_is_the_sum_of_its_versions(tmp_path: Path) -> None:
    """Records of all versions at once give the same parts as corpora of each version, brought
    together.
    """
    made = list(lines(Recipe(records=150, schema="mixed", seed=5, rejects=0.05, duplicates=0.1)))
    shards = [write(tmp_path / f"{number}.jsonl", made[number::3]) for number in range(3)]
    mixed = normalized(shards, tmp_path / "mixed")
    parts = [normalized(shard, tmp_path / f"of-{shard.stem}", schema=NEW).path for shard in shards]
    again = normalized(parts, tmp_path / "again")
    assert name_of(mixed) == name_of(again) == NEW
    assert again.lines == mixed.lines
    assert len(mixed.summary["versions"]) == len(SCHEMAS)
    assert (
        sum(mixed.summary["versions"].values())
        == mixed.line_counts["kept"] + mixed.line_counts["duplicates"]
    )
    assert verify(mixed.path).ok


def test_a_corpus_of_the_newest_version_stays_the_same(tmp_path: Path) -> None:
    """Normalizing a corpus again gives the same parts; nothing is upgraded twice."""
    records = [line_of(version, number) for number, version in enumerate(SCHEMAS)]
    first = normalized(write(tmp_path / "in.jsonl", records), tmp_path / "first")
    second = normalized(first.path, tmp_path / "second")
    assert first.texts == second.texts
    assert second.summary["versions"] == {NEW: len(records)}
    assert not [code for code in second.summary["notes"] if code.startswith("upgrade.")]


# Starting again


@pytest.mark.usefixtures("first_line_only")
@pytest.mark.parametrize(("jobs", "version"), [*((1, version) for version in LATER), (2, NEW)])
def test_a_later_record_starts_a_run_again(jobs: int, version: str, tmp_path: Path) -> None:
    """If the first lines are of the default version, but another one is not, the run starts again
    and says so.
    """
    shards = [write(tmp_path / "in" / f"{name}.jsonl", old(12, 12 * name)) for name in range(4)]
    write(tmp_path / "in" / "2.jsonl", [*old(6, 90), line_of(version, 100), *old(6, 101), b"{"])
    report = use_limits(A_TASK_EACH)(run)(shards, tmp_path / "out", Options(jobs=jobs))
    (notice,) = (notice for notice in report.notices if AGAIN in notice)
    assert notice.startswith(
        "there are records of a later schema version than 0.2.0, or that name metrics: starting "
        "again with --schema 0.3"
    )
    corpus = audited(tmp_path / "out", report)
    pinned = normalized(shards, tmp_path / "pinned", schema=NEW, limits=A_TASK_EACH)
    assert corpus.same_for_all == pinned.same_for_all
    assert corpus.rejects == pinned.rejects
    assert corpus.summary["versions"] == {OLD: 48, version: 1}


@pytest.mark.usefixtures("first_line_only")
def test_a_wrong_guess_is_noticed_early(tmp_path: Path, tasks: list[str]) -> None:
    """Pass 1 stops with the task that has a later record.

    Nothing is sorted for the wrong target after it.
    """
    shards = [write(tmp_path / f"{name}.jsonl", old(12, 12 * name)) for name in range(6)]
    write(tmp_path / "1.jsonl", [*old(6), line_of(NEW, 100), *old(6, 200)])
    normalized(shards, tmp_path / "out", limits=A_TASK_EACH)
    assert tasks == [OLD] * 2 + [NEW] * 6


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_without_later_records_starts_again(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the guess is the newest version, but all valid records are of the default one, that is the
    target.
    """
    guess_always(monkeypatch, NEW)
    shards = [write(tmp_path / f"{name}.jsonl", [*old(12, 12 * name), b"{"]) for name in range(3)]
    report = use_limits(A_TASK_EACH)(run)(shards, tmp_path / "out", Options(jobs=jobs))
    assert sum(AGAIN in notice for notice in report.notices) == 1
    corpus = audited(tmp_path / "out", report)
    assert corpus.same_for_all == normalized(shards, tmp_path / "pinned", schema=OLD).same_for_all


@pytest.mark.parametrize("guess", [OLD, NEW])
def test_a_later_record_counts_although_its_hash_is_wrong(
    guess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a later record has to be rejected does not depend on the guess, so neither does the
    target.
    """
    guess_always(monkeypatch, guess)
    records = [
        {key: value for key, value in sample().items() if key != "sample_hash"},
        sample_of(NEW),
    ]
    shard = write(tmp_path / "in.jsonl", [json.dumps(record).encode() for record in records])
    corpus = normalized(shard, tmp_path / "out", sample_hash="verify")
    assert name_of(corpus) == NEW
    assert corpus.summary["rejected_by_code"] == {"hash.mismatch": 1}


@pytest.mark.parametrize("guess", [OLD, NEW])
def test_a_repaired_record_counts(
    guess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that a repair makes a later record decides the target, if the repair is asked for."""
    guess_always(monkeypatch, guess)
    shard = write(
        tmp_path / "in.jsonl", [line_of(OLD, 0), line_of(NEW, 1, evaluation_result_id=None)]
    )
    plain = normalized(shard, tmp_path / "plain")
    assert (name_of(plain), plain.line_counts["rejected"]) == (OLD, 1)
    assert plain.summary["repairable"]["lines"] == 1
    repaired = normalized(shard, tmp_path / "repaired", repair=("repair.result_id_null",))
    assert (name_of(repaired), repaired.line_counts["rejected"]) == (NEW, 0)


@pytest.mark.parametrize("guess", [OLD, NEW])
@pytest.mark.parametrize("label", ["0.2.0", "0.3.0"])
def test_records_that_name_metrics_count(
    guess: str, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record in the shape of 0.2.0 that names its metric decides for the version that has
    metrics.
    """
    guess_always(monkeypatch, guess)
    some = [
        named(number, metric, schema_version=label)
        for number in range(8)
        for metric in ("em", "f1")
    ]
    corpus = normalized(write(tmp_path / "in.jsonl", [*old(3, 90), *some]), tmp_path / "out")
    assert name_of(corpus) == NEW
    assert corpus.line_counts["kept"] == 19
    assert corpus.summary["notes"]["upgrade.result_id"] == 16
    assert {"em", "f1"} <= {evaluation["metric"] for evaluation in corpus.summary["evaluations"]}
    for options in ({"metric": "f1"}, {"where": "sample_id != q-90", "metric": ["em", "f1"]}):
        chosen = normalized(tmp_path / "in.jsonl", tmp_path / str(len(options)), **options)
        assert (name_of(chosen), chosen.line_counts["kept"]) == (NEW, 8 * len(options))


@pytest.mark.parametrize("guess", [OLD, NEW])
def test_only_text_names_a_metric(
    guess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another value of that unknown key changes nothing.

    Such lines are judged as fast as others.
    """
    guess_always(monkeypatch, guess)
    some = [named(number, value) for number, value in enumerate([None, 5, 2.5, True] * 5)]
    shard = write(
        tmp_path / "in.jsonl", [*some, *old(2, 50), named(60, ["em"]), named(61, {"em": 1})]
    )
    corpus = normalized(shard, tmp_path / "out")
    assert corpus.same_for_all == normalized(shard, tmp_path / "pinned", schema=OLD).same_for_all
    judge = Judge(Options().line_settings(DEFAULT_SCHEMA).judge)
    judge.judge_chunk(b"\n".join(some[:6]), bytearray())
    assert judge.judge_chunk(b"\n".join(some), bytearray()).slow == 0


@pytest.mark.parametrize("guess", [OLD, NEW])
def test_a_rejected_record_that_names_a_metric_counts(
    guess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess_always(monkeypatch, guess)
    unhashed = {key: value for key, value in sample().items() if key != "sample_hash"}
    shard = write(tmp_path / "in.jsonl", [json.dumps(unhashed).encode(), named(1, "em")])
    corpus = normalized(shard, tmp_path / "out", sample_hash="verify")
    assert name_of(corpus) == NEW
    assert corpus.summary["rejected_by_code"] == {"hash.mismatch": 1}


@pytest.mark.parametrize("guess", [OLD, NEW])
def test_a_trusted_corpus_with_metrics_as_unknown_keys(
    guess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an explicit 0.2.0 the key stays unknown.

    A later run without it finds the metrics, judged or trusted.
    """
    some = [named(number, metric) for number in range(4, 8) for metric in ("em", "f1")]
    corpus = normalized(
        write(tmp_path / "in.jsonl", [*old(4), *some]), tmp_path / "old", schema=OLD
    )
    assert (name_of(corpus), corpus.line_counts["kept"]) == (OLD, 12)
    guess_always(monkeypatch, guess)
    for number, options in enumerate([{}, {"metric": "f1"}]):
        trusted = normalized(corpus.path, tmp_path / f"trusted {number}", **options)
        judged = normalized(corpus.path, tmp_path / f"judged {number}", judge=True, **options)
        assert name_of(trusted) == NEW
        assert trusted.same_for_all == judged.same_for_all


@pytest.mark.usefixtures("first_line_only")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bad_shard_does_not_decide(jobs: int, tmp_path: Path, tasks: list[str]) -> None:
    """A later record of a shard that is left out because it is damaged does not change the target."""
    good = write(tmp_path / "a.jsonl", old(5))
    bad = write(tmp_path / "b.jsonl", [*old(30, 5), line_of(NEW, 40), *old(200, 50)], Format.GZIP)
    bad.write_bytes(bad.read_bytes()[:-20])
    corpus = normalized(
        [good, bad], tmp_path / "out", skip_bad_shards=True, jobs=jobs, limits=A_TASK_EACH
    )
    assert name_of(corpus) == OLD
    assert corpus.lines == normalized(good, tmp_path / "good").lines
    assert tasks[-1] == OLD


# Streams


def feed(monkeypatch: pytest.MonkeyPatch, some: Sequence[bytes]) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(line + b"\n" for line in some)))
    )


LONG = b'{"x": "' + b"y" * 5_000 + b'"}'

STREAMS: dict[str, list[bytes]] = {
    "a later record at the end": [*old(20), b"{", LONG, *old(5, 30), line_of(NEW, 40)],
    "a later record at the start": [line_of("0.2.1", 40), *old(20), LONG],
    "no later record": [*old(20), LONG, b"", *old(5, 30), LONG],
    "nothing but a long line": [LONG],
    "nothing": [],
}


@pytest.mark.pairwise
@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize("guess", [OLD, NEW])
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_can_be_read_again(
    name: str, jobs: int, guess: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input gives the corpus of a file, whatever the guess.

    Its chunks are kept as long as necessary.
    """
    some = STREAMS[name]
    limits = {"limits": A_TASK_EACH, "max_line_bytes": 4_000}
    expected = normalized(write(tmp_path / "all.jsonl", some), tmp_path / "expected", **limits)
    guess_always(monkeypatch, guess)
    feed(monkeypatch, some)
    corpus = normalized("-", tmp_path / "out", jobs=jobs, **limits)
    assert corpus.same_for_all == expected.same_for_all
    left, right = (
        [{**reject, "source": ""} for reject in made.rejects] for made in (corpus, expected)
    )
    assert left == right


def test_chunks_of_a_stream_are_removed_when_the_target_is_certain(
    tmp_path: Path, tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first later record, the chunks of finished tasks need no space."""
    most = {OLD: 0, NEW: 0}

    class Watch(Progress):
        def advance(self, *_: int) -> None:
            found = sum(1 for _ in tmp_path.glob(".*/**/chunk-*"))
            most[tasks[-1]] = max(most[tasks[-1]], found)

    feed(monkeypatch, [*old(40), line_of(NEW, 40), *old(40, 50)])
    normalized("-", tmp_path / "out", Watch(), limits=A_TASK_EACH, schema=NEW, jobs=2)
    assert most == {OLD: 0, NEW: 0}
    feed(monkeypatch, [line_of(NEW, 40), *old(80, 50)])
    normalized("-", tmp_path / "new", Watch(), limits=A_TASK_EACH)
    assert most[NEW] <= 2
    feed(monkeypatch, old(80))
    normalized("-", tmp_path / "old", Watch(), limits=A_TASK_EACH)
    assert most[OLD] > 5


# Resuming


@pytest.mark.usefixtures("first_line_only")
@pytest.mark.parametrize("count", [1, 4, 6])
def test_work_for_the_right_target_is_reused(count: int, tmp_path: Path, tasks: list[str]) -> None:
    """A run that was interrupted after it started again is resumed with the target that it had
    found.
    """
    shards = [write(tmp_path / "in" / f"{name}.jsonl", old(12, 12 * name)) for name in range(5)]
    write(tmp_path / "in" / "2.jsonl", [*old(6), line_of(NEW, 100), *old(6, 200)])
    whole = normalized(shards, tmp_path / "whole", limits=A_TASK_EACH)
    tasks.clear()
    with pytest.raises(KeyboardInterrupt):
        use_limits(A_TASK_EACH)(run)(shards, tmp_path / "out", Options(), progress=StopAfter(count))
    report = use_limits(A_TASK_EACH)(run)(shards, tmp_path / "out", Options())
    assert audited(tmp_path / "out", report).same_for_all == whole.same_for_all
    assert tasks.count(NEW) == 5
    assert sum(AGAIN in notice for notice in report.notices) == (count == 1)
    assert any("resuming an interrupted run" in notice for notice in report.notices)


@pytest.mark.parametrize("pinned", [OLD, NEW])
def test_work_of_another_choice_is_not_reused(
    pinned: str, tmp_path: Path, tasks: list[str]
) -> None:
    """Work for a target that the user chose is not taken for one that follows from the content."""
    shards = [write(tmp_path / "in" / f"{name}.jsonl", old(12, 12 * name)) for name in range(3)]
    with pytest.raises(KeyboardInterrupt):
        use_limits(A_TASK_EACH)(run)(
            shards, tmp_path / "out", Options(schema=pinned), progress=StopAfter(2)
        )
    report = use_limits(A_TASK_EACH)(run)(shards, tmp_path / "out", Options())
    assert name_of(audited(tmp_path / "out", report)) == OLD
    (notice,) = report.notices
    assert f"is not reused: it was made with schema {pinned} instead of auto (0.2.0)" in notice
    assert tasks == [pinned] * 2 + [OLD] * 3


# The choice of the user


def test_a_later_record_is_rejected_if_the_user_says_so(tmp_path: Path) -> None:
    """With an explicit target of the default version, a later record is rejected, and the message
    says what to do.
    """
    shard = write(tmp_path / "in.jsonl", [*old(2), *(line_of(version, 5) for version in LATER)])
    corpus = normalized(shard, tmp_path / "out", schema=OLD)
    assert corpus.summary["rejected_by_code"] == {"version.newer": len(LATER)}
    assert all("give --schema 0.3.0 or auto" in reject["message"] for reject in corpus.rejects)


def test_the_metric_as_first_sort_field(tmp_path: Path) -> None:
    """Corpora with metrics can be sorted by them first.

    Of others, the field is left out unless the user insists.
    """
    first = ("evaluation_result_id",)
    new = write(
        tmp_path / "new.jsonl",
        [line_of(NEW, n, evaluation_result_id=f"m{n % 3}") for n in range(9)],
    )
    corpus = normalized(
        [new, write(tmp_path / "old.jsonl", old(3, 20))], tmp_path / "out", sort_by=first
    )
    assert corpus.manifest["sort_fields"][0] == first[0]
    assert verify(corpus.path).ok
    assert normalized(tmp_path / "old.jsonl", tmp_path / "old", sort_by=first).manifest[
        "sort_fields"
    ] == list(DEFAULT_SCHEMA.sort_fields)
    with pytest.raises(
        UsageError, match=r"sort_by: records of schema 0.2.0 have no evaluation_result_id"
    ):
        Options(schema=OLD, sort_by=first)


def test_the_command_line_and_settings(tmp_path: Path) -> None:
    """`--schema` has the versions that a corpus can have; settings can pin it.

    A dry run says what is guessed.
    """
    (option,) = (one for one in command.params if one.name == "schema")
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == ["auto", *TARGETS]
    write(tmp_path / "in.jsonl", [line_of("0.2.1", 1)])
    assert run_command(
        "normalize", tmp_path / "in.jsonl", "-o", tmp_path / "out", "--dry-run"
    ).stdout.endswith(b"; schema 0.3.0\n")
    (tmp_path / "fastrec.toml").write_text('[normalize]\nschema = "0.2.0"\n')
    done = run_command("normalize", "in.jsonl", "-o", "out", "--allow-empty", cwd=tmp_path)
    assert done.returncode == 1
    assert Corpus(tmp_path / "out").summary["rejected_by_code"] == {"version.newer": 1}
    with pytest.raises(UsageError, match=r"schema must be one of auto, 0.2.0, 0.3.0, not '0.2.1'"):
        Options(schema="0.2.1")


def test_a_guess_survives_unreadable_shards(tmp_path: Path) -> None:
    """A plan looks at some shards, spread over all of them.

    One that cannot be read does not matter.
    """
    shards = [write(tmp_path / f"{name:02d}.jsonl", old(1, name)) for name in range(20)]
    assert plan(shards, "out", Options()).schema == OLD
    shards[0].write_bytes(b"\x1f\x8b\x08broken")
    write(shards[10], [line_of(NEW, 1)])
    assert plan(shards, "out", Options()).schema == NEW  # one of eight shards that are looked at
    write(shards[10], old(1))
    write(shards[11], [line_of(NEW, 1)])
    assert plan(shards, "out", Options()).schema == OLD


# Reading a corpus with metrics


def reference_lines(corpus: Corpus, keep: Callable[[dict[str, Any]], bool]) -> list[bytes]:
    return [line for line in corpus.lines if keep(json.loads(line))]


def test_cat_selects_metrics(tmp_path: Path) -> None:
    """`cat --metric` gives the records of a metric.

    Filters on other fields work with and without metrics.
    """
    some = [
        line_of(
            NEW,
            n,
            evaluation_result_id=f"m{n % 4}",
            model_id=f"m/{n % 2}",
            evaluation_name='é,"' if n % 5 else "b",
            input={"raw": f"question {n % 60}", "reference": ["42"]},
        )
        for n in range(300)
    ]
    corpus = normalized(
        write(tmp_path / "in.jsonl", [*some, *old(8, 400)]), tmp_path / "out", part_size=8_192
    )
    assert len(corpus.parts) > 3
    assert verify(corpus.path).ok
    for asked in (
        {"metric": "m1"},
        {"metric": ["m1", "m3"], "evaluation": "b"},
        {"metric": "m2", "model": "m/0"},
        {"metric": "none"},
        {"evaluation": 'é,"'},
        {"evaluation": "arithmetic"},
        {"sample_id": "q-400"},
        {"sample_id": "q-7", "metric": "m3"},
        {"hash": json.loads(corpus.lines[0])["sample_hash"]},
    ):
        names = {
            "metric": "evaluation_result_id",
            "evaluation": "evaluation_name",
            "model": "model_id",
        }
        names |= {"sample_id": "sample_id", "hash": "sample_hash"}
        values = {
            names[key]: [value] if isinstance(value, str) else value for key, value in asked.items()
        }
        expected = reference_lines(
            corpus,
            lambda record, values=values: all(
                record.get(key) in some for key, some in values.items()
            ),
        )
        assert list(cat(corpus.path, **asked)) == expected, asked
    earlier = normalized(write(tmp_path / "old.jsonl", old(3)), tmp_path / "old")
    assert list(cat(earlier.path, metric="m1")) == []


def test_damage_of_a_corpus_with_metrics_is_found(tmp_path: Path) -> None:
    """A record of another version, and a hash of another recipe, are not valid in a corpus of the
    newest version.
    """
    shard = write(tmp_path / "in.jsonl", [line_of(NEW, 1), *old(3, 5)])
    corpus = normalized(shard, tmp_path / "out", compression="none")
    (part,) = corpus.parts
    text = part.read_bytes()
    part.write_bytes(text + json.dumps(sample()).encode() + b"\n")
    assert "line.invalid" in {problem.kind for problem in verify(corpus.path).problems}
    record = json.loads(corpus.lines[0])
    other = hashlib.sha256(
        (record["input"]["raw"] + record["input"]["reference"][0]).encode()
    ).hexdigest()  # R1
    spelled = json.dumps(
        {**record, "sample_hash": other}, separators=(",", ":"), ensure_ascii=False
    ).encode()
    part.write_bytes(text.replace(corpus.lines[0], spelled))
    assert "line.invalid" in {problem.kind for problem in verify(corpus.path).problems}
