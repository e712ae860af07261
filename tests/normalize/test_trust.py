"""A trusted corpus as input: its records are not judged again, and the output has the same bytes as
if they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

import fastrec
from fastrec.commands.verify import verify
from fastrec.corpus import trust
from fastrec.corpus.columns import PartColumns
from fastrec.corpus.manifest import read_manifest
from fastrec.errors import BadShardsError, CorpusError, FastrecError, NoMatchError
from fastrec.limits import Limits, use_limits
from fastrec.normalize import driver, pass1, pass2
from fastrec.normalize.options import make_options
from fastrec.normalize.run import run
from fastrec.sorting import gather
from fastrec.sorting.runs import Run
from fastrec.sources.formats import COLUMNS_MAGIC
from fastrec.storage.object_store import OBJECT_STORE
from tests.faults.failing import contents
from tests.normalize.normalizing import write
from tests.normalize.test_filters import VERSIONS, asked_for, make_line
from tests.samples import sample
from tests.sizes import examples
from tests.strategies import dice

SMALL = Limits(least_part=1 << 10, chunk_bytes=3_000, small_input=0)
LABELS = ("banana", "0.2.1", "0.3.0", "instance_level_eval_0.2.0")
"""Labels that records of any version may have."""


def odd_line(rng: random.Random, versions: tuple[str, ...]) -> bytes:
    """Return a record, some with a wrong label, turns of two versions, or a null that the normal
    form leaves out.
    """
    record = json.loads(make_line(rng, versions))
    if rng.random() < 0.2:
        record["schema_version"] = rng.choice(LABELS)
    if "interactions" in record and rng.random() < 0.2:
        record["messages"] = rng.choice([5, [], [{"role": "user"}]])
    if rng.random() < 0.2:
        record["input"]["formatted"] = None
    return json.dumps(record, ensure_ascii=rng.random() < 0.5).encode()


both: dict[str, Any] = {
    "schema": st.sampled_from(["auto", "auto", "0.3.0", "0.2.0"]),
    "sample_hash": st.sampled_from(["replace", "replace", "verify", "fill"]),
    "repair": st.sampled_from([(), ("all",)]),
    "sort_by": st.sampled_from([(), ("model_id",)]),
    "part_size": st.sampled_from([2_000, 6_000]),
    "compression": st.sampled_from(["zst", "zst", "gz", "none"]),
}
made_with = st.fixed_dictionaries(
    {
        **both,
        "hash_algorithm": st.sampled_from(["sha256", "sha256", "xxh3_128"]),
        "level": st.sampled_from([1, 3]),
    }
)
changed_with = st.fixed_dictionaries(
    {
        **both,
        "conflicts": st.sampled_from(["keep", "first"]),
        "repeats": st.sampled_from(["keep", "first", "reject"]),
        "same_run": st.sampled_from(["keep", "ignore"]),
        "track_sources": st.booleans(),
        "max_line_bytes": st.sampled_from([1 << 20, 1_400]),
        "where": st.sampled_from(
            [(), ("evaluation.score > 0",), ("zz?",), ("response.characters >= 3",), ("turns=2",)]
        ),
    }
)


@settings(max_examples=examples(4, 400))
@given(
    dice, st.sampled_from([VERSIONS, ("0.2.0",), ("0.3.0",)]), made_with, changed_with, asked_for
)
def test_trusted_and_judged_corpora_give_the_same_bytes(
    rng: random.Random, versions: Any, first: Any, then: Any, filters: Any
) -> None:
    """Over options, filters and versions, for several corpora and shards beside them, also in an
    incremental run.
    """
    options = {**then, **(filters if rng.random() < 0.6 else {}), "allow_empty": True}
    limits = replace(SMALL, chunk_bytes=rng.choice([1_500, 1 << 18]))
    with tempfile.TemporaryDirectory() as scratch, use_limits(limits):
        folder = Path(scratch)
        inputs: list[Path] = []
        for name in ("a", "b")[: rng.randint(1, 2)]:
            some = [odd_line(rng, versions) for _ in range(rng.randint(0, 25))]
            some += lines("org/a", 1)  # there is a record in any case
            if rng.random() < 0.5:  # each corpus has its evaluations
                some = [
                    line.replace(b'"evaluation_name": "', b'"evaluation_name": "%b' % name.encode())
                    for line in some
                ]
            shard = write(folder / f"{name}.jsonl", some)
            run([shard], folder / name, make_options(**first, allow_empty=True))
            inputs.append(folder / name)
        if rng.random() < 0.5:
            inputs.append(write(folder / "raw.jsonl", [odd_line(rng, versions) for _ in range(8)]))
        run(inputs, folder / "judged", make_options(**options, judge=True))
        run(inputs, folder / "trusted", make_options(**options))
        assert contents(folder / "trusted") == contents(folder / "judged")
        night = make_options(**options, incremental=True, overwrite=True)
        run(inputs[:1], folder / "nightly", night)
        run(inputs, folder / "nightly", night)
        assert contents(folder / "nightly") == contents(folder / "judged")


def lines(model: str, count: int = 20) -> list[bytes]:
    """Return records without `sample_hash`, of three evaluations."""
    records = [
        sample(model_id=model, sample_id=f"q-{at}", evaluation_name=f"e{at % 3}")
        for at in range(count)
    ]
    return [
        json.dumps({key: record[key] for key in record if key != "sample_hash"}).encode()
        for record in records
    ]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of three models, in several parts."""
    shards = [write(tmp_path / f"{model}.jsonl", lines(f"org/{model}")) for model in "abc"]
    with use_limits(SMALL):
        fastrec.normalize(shards, tmp_path / "corpus", part_size=6_000)
    assert len(list((tmp_path / "corpus").glob("part-*.jsonl*"))) > 2
    return tmp_path / "corpus"


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": {"a": 1, "evaluation": {"score": 7, "is_correct": False}}},
        {"zz": [{"a": 1, "evaluation": {"score": 7, "is_correct": False}}]},
        {"evaluation_name": "e" * 2_000},
        {"metadata": {"quoted": ',"evaluation":{"score":7,"is_correct":false}}'}},
    ],
    ids=["metadata", "unknown key", "long head", "in a text"],
)
def test_only_the_evaluation_of_a_record_counts(tmp_path: Path, odd: Any) -> None:
    """A key `evaluation` elsewhere is not taken for the evaluation of a record."""
    shard = write(tmp_path / "a.jsonl", [json.dumps(sample(**odd)).encode(), *lines("org/a")])
    fastrec.normalize(shard, tmp_path / "corpus")
    for name, judge in {"judged": True, "trusted": False}.items():
        assert not run([tmp_path / "corpus"], tmp_path / name, make_options(judge=judge)).notices
    assert contents(tmp_path / "trusted") == contents(tmp_path / "judged")


def forge(
    corpus: Path, old: bytes = b'"is_correct":true', new: bytes = b'"is_correct":"so"'
) -> Path:
    """Make an invalid record part of a corpus, with columns and a manifest that are consistent."""
    [part] = corpus.glob("part-*.jsonl*")
    assert old in part.read_bytes()
    text = part.read_bytes().replace(old, new, 1)
    part.write_bytes(text)
    path = corpus / "part-00000.columns"
    manifest = json.loads((corpus / "manifest.json").read_bytes())
    entry = manifest["parts"][0]
    columns = PartColumns(str(path), entry["text_xxh3_128"])
    contents = {
        name: (frame.type, columns.content(name)) for name, (frame, _) in columns.frames.items()
    }
    lines = text.splitlines(keepends=True)
    contents["bytes"] = "u8", array("Q", map(len, lines)).tobytes()
    contents["fingerprint"] = "u8", array("Q", map(xxh3_64_intdigest, lines)).tobytes()
    text_hash = xxh3_128_hexdigest(text)
    entry["columns"] |= write_frames(path, contents, text_hash, columns.records)
    digest = hashlib.sha256(text).hexdigest()
    entry |= {
        "bytes": len(text),
        "sha256": digest,
        "text_bytes": len(text),
        "text_xxh3_128": text_hash,
    }
    (corpus / "manifest.json").write_text(json.dumps(manifest))
    return corpus


def write_frames(
    path: Path, contents: dict[str, Any], text_hash: str, records: int
) -> dict[str, Any]:
    """Write a file of columns with these types and contents by name.

    Return what a manifest says about it.
    """
    frames = [
        (name, kind, zstandard.compress(content)) for name, (kind, content) in contents.items()
    ]
    listed = [(name, kind, len(data)) for name, kind, data in frames]
    header = {"records": records, "text_xxh3_128": text_hash, "frames": listed}
    packed = zstandard.compress(json.dumps(header).encode())
    data = (
        COLUMNS_MAGIC
        + len(packed).to_bytes(4, "little")
        + packed
        + b"".join(data for _, _, data in frames)
    )
    path.write_bytes(data)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_somebody_elses_corpus_is_judged(tmp_path: Path) -> None:
    """A consistent manifest is no proof: an invalid record is rejected, and one notice says why it
    was looked at.
    """
    fastrec.normalize(
        write(tmp_path / "a.jsonl", lines("org/a")), tmp_path / "corpus", compression="none"
    )
    result = run([forge(tmp_path / "corpus")], tmp_path / "out", make_options())
    assert result.summary.line_counts.rejected == 1
    [notice] = result.notices
    assert "are judged again: you have not published it with this fastrec; --trust" in notice


def test_trust_takes_lines_as_they_are(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --trust, the corpus of another user is not judged, and its parts are compressed again."""
    monkeypatch.setenv("FASTREC_STATE", str(tmp_path / "other user"))
    seen = []
    take = pass1._Sorter._take
    monkeypatch.setattr(pass1._Sorter, "_take", lambda *args: seen.append(1) or take(*args))
    with use_limits(SMALL):
        assert run([corpus], tmp_path / "judged", make_options(part_size=6_000)).notices
        assert not seen
        assert not run(
            [corpus], tmp_path / "trusted", make_options(part_size=6_000, trust=True)
        ).notices
    assert seen
    judged = contents(tmp_path / "judged")
    trusted = contents(tmp_path / "trusted")
    documents = [json.loads(files.pop("manifest.json")) for files in (judged, trusted)]
    assert judged == trusted
    assert documents[1].pop("trusted") == [str(corpus)]
    assert documents[0] == documents[1]
    assert (tmp_path / "other user" / "published").stat().st_mode & 0o777 == 0o600


BROKEN: dict[str, tuple[bytes, bytes]] = {
    "not JSON": (b'"output":{"raw"', b'"output":{raw'),
    "not UTF-8": (b"It is 42", b"It is \xff"),
    "a key twice": (b'"raw":"It is 42: sure"', b'"raw":"a","raw":"b"'),
    "a field is missing": (b'"reference":"42",', b""),
    "a wrong type": (b'"choices":["41","42"]', b'"choices":7'),
    "a wrong sample_hash": (b'"sample_hash":"', b'"sample_hash":"0'),
}
"""Lines that --trust takes as they are."""


@pytest.mark.parametrize("kind", BROKEN)
def test_what_was_taken_on_trust_is_judged_the_next_time(kind: str, tmp_path: Path) -> None:
    """A corpus made with --trust is not one that this user has judged: a broken line does not
    become one of theirs.
    """
    fastrec.normalize(
        write(tmp_path / "a.jsonl", lines("org/a", 3)), tmp_path / "theirs", compression="none"
    )
    theirs = forge(tmp_path / "theirs", *BROKEN[kind])
    for made in (tmp_path / "ours", tmp_path / "next"):  # the corpus of a corpus
        result = run([theirs], made, make_options(trust=True, compression="none"))
        assert result.summary.line_counts.kept == 3
        assert read_manifest(made).trusted == [str(theirs)]
        assert not verify(made).ok
        theirs = made
    result = run([theirs], tmp_path / "out", make_options())
    assert "are judged again: it was made with --trust" in result.notices[0]
    counts = result.summary
    assert counts.line_counts.rejected or counts.sample_hash.replaced
    assert verify(tmp_path / "out").ok
    assert b'"trusted"' not in (tmp_path / "out" / "manifest.json").read_bytes()


def test_kept_work_that_was_taken_on_trust_is_judged_without_trust(tmp_path: Path) -> None:
    """An incremental run that does not trust a corpus does not build on what one that did has kept."""
    fastrec.normalize(
        write(tmp_path / "a.jsonl", lines("org/a")), tmp_path / "theirs", compression="none"
    )
    theirs = forge(tmp_path / "theirs", *BROKEN["a key twice"])
    night: Any = {"incremental": True, "overwrite": True}
    assert (
        run(
            [theirs], tmp_path / "out", make_options(**night, trust=True)
        ).summary.line_counts.rejected
        == 0
    )
    again = run([theirs], tmp_path / "out", make_options(**night, trust=True))
    assert again.unchanged == 1
    assert read_manifest(tmp_path / "out").trusted == [str(theirs)]
    result = run([theirs], tmp_path / "out", make_options(**night))
    assert result.summary.line_counts.rejected == 1
    assert any("it was made with trust yes instead of no" in notice for notice in result.notices)


@pytest.mark.parametrize(
    ("made", "asked", "reason"),
    [
        ({"sample_hash": "fill"}, {}, "--sample-hash fill"),
        (
            {"hash_algorithm": "xxh3_128"},
            {},
            "--hash-algorithm xxh3_128, and the new corpus is made with sha256",
        ),
        ({"schema": "0.3.0"}, {"schema": "0.2.0", "allow_empty": True}, "schema 0.3.0"),
    ],
)
def test_a_notice_says_why_a_corpus_is_judged(
    tmp_path: Path, made: Any, asked: Any, reason: str
) -> None:
    fastrec.normalize(write(tmp_path / "a.jsonl", lines("org/a")), tmp_path / "corpus", **made)
    [notice] = run([tmp_path / "corpus"], tmp_path / "out", make_options(**asked)).notices
    assert reason in notice


def test_another_build_is_not_trusted(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "identity", lambda: {"fastrec": "another"})
    [notice] = run([corpus], tmp_path / "out", make_options(trust=True)).notices
    assert "another build of fastrec made it" in notice


def test_a_damaged_part_is_noticed(corpus: Path, tmp_path: Path) -> None:
    """One flipped bit in a part of a trusted corpus ends the run, and nothing is published."""
    part = sorted(corpus.glob("part-*.jsonl*"))[1]
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(BadShardsError, match=part.name):
        fastrec.normalize(corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_parts_that_do_not_change_are_copied(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus alone is neither written as runs, nor read again, nor compressed again: where all of
    this fails, copies
    still work."""
    with use_limits(SMALL):
        fastrec.normalize(corpus, tmp_path / "judged", part_size=6_000, judge=True)
        for module, name in ((pass1, "spill"), (gather, "PartTexts"), (pass2, "ShardWriter")):
            monkeypatch.setattr(module, name, None)
        fastrec.normalize(corpus, tmp_path / "copied", part_size=6_000)
    assert contents(tmp_path / "copied") == contents(tmp_path / "judged")


def test_parts_of_corpora_with_different_evaluations_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of several corpora that do not overlap are as cheap as those of one corpus."""
    corpora = [tmp_path / name for name in ("e0", "e1")]
    with use_limits(replace(SMALL, least_part=6_000)):
        for corpus in corpora:
            some = [line for line in lines("org/a", 60) if b'"%b"' % corpus.name.encode() in line]
            fastrec.normalize(
                write(tmp_path / f"{corpus.name}.jsonl", some), corpus, part_size=6_000
            )
        fastrec.normalize(corpora, tmp_path / "judged", part_size=6_000, judge=True)
        for module, name in ((pass1, "spill"), (gather, "PartTexts"), (pass2, "ShardWriter")):
            monkeypatch.setattr(module, name, None)
        fastrec.normalize(corpora, tmp_path / "copied", part_size=6_000)
    assert contents(tmp_path / "copied") == contents(tmp_path / "judged")


def test_parts_that_overlap_are_found() -> None:
    """A part that overlaps more than three others is not read like a run. Ends count."""
    ranges = {
        "a0": "ab",
        "a1": "bh",
        "a2": "im",
        "b0": "cd",
        "b1": "ef",
        "b2": "gi",
        "c0": "rs",
        "c1": "tu",
    }
    many = [((first,), (last,), name) for name, (first, last) in ranges.items()]
    assert set(trust._with_few_overlaps(many)) == ranges.keys() - {"a1"}


def test_parts_that_are_not_written_as_runs_need_no_space(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work directory needs space for the text of a corpus only if it is judged."""
    stored = sum(part.stat().st_size for part in corpus.glob("part-*.jsonl*"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * stored))
    for number, (options, expected) in enumerate(
        [({}, 0), ({"judge": True}, 1), ({"model": "org/a"}, 0)]
    ):
        report = run([corpus], tmp_path / str(number), make_options(**options))
        assert sum("GB left" in notice for notice in report.notices) == expected


def test_a_part_of_which_records_go_is_not_written_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass 2 reads the lines that stay from the part; also after runs were merged in rounds."""
    made: list[Run] = []
    index_part = pass1._Sorter._index_part
    monkeypatch.setattr(
        pass1._Sorter, "_index_part", lambda *args: made.append(index_part(*args)) or made[-1]
    )
    options: Any = {"part_size": 4_000, "where": "sample_id != q-9"}
    listed = {str(corpus / part.file): part.text_bytes for part in read_manifest(corpus).parts}
    raw = [write(tmp_path / f"{model}.jsonl", lines(f"org/{model}", 4)) for model in "defgh"]
    small = replace(SMALL, chunk_bytes=1_500)
    few = replace(
        small, unmerged_runs=len(listed), task_bytes=1_000, merged_runs=2, least_merge_fan_in=2
    )
    for number, limits in enumerate((small, few)):
        judged = tmp_path / f"judged {number}"
        trusted = tmp_path / f"trusted {number}"
        with use_limits(limits):
            fastrec.normalize([corpus, *raw], judged, judge=True, **options)
            fastrec.normalize([corpus, *raw], trusted, **options)
        assert contents(trusted) == contents(judged)
        assert len(made) == len(listed)
        assert any(0 < run.data_bytes < listed[run.part] for run in made)
        made.clear()


@pytest.mark.parametrize(
    "options", [{"part_size": 6_000}, {"part_size": 2_000}], ids=["copied", "read"]
)
def test_a_part_that_changes_during_the_run_is_noticed(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    """A part is read once to judge it.

    If it is not the same when it is copied or read again, the run ends.
    """
    part = sorted(corpus.glob("part-*.jsonl*"))[1]
    plan_parts = driver.plan_parts

    def plan(*args: Any) -> Any:
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        part.write_bytes(data)
        return plan_parts(*args)

    monkeypatch.setattr(driver, "plan_parts", plan)
    with use_limits(SMALL), pytest.raises(FastrecError, match=part.name):
        fastrec.normalize(corpus, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_interrupted_run_reuses_the_index_of_a_part(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = make_options(part_size=2_000)
    with use_limits(SMALL):
        run([corpus], tmp_path / "judged", make_options(part_size=2_000, judge=True))
        with monkeypatch.context() as patch, pytest.raises(TypeError):
            patch.setattr(pass2, "_make_part", None)
            run([corpus], tmp_path / "trusted", options)
        result = run([corpus], tmp_path / "trusted", options)
    assert any("finished tasks are reused" in notice for notice in result.notices)
    assert contents(tmp_path / "trusted") == contents(tmp_path / "judged")


def test_the_list_forgets_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTREC_STATE", str(tmp_path))
    monkeypatch.setattr(trust, "_MOST", 4)
    for number in range(6):
        trust.remember(b"%d" % number)
        trust.remember(b"%d" % number)
    kept = [line.split()[0] for line in (tmp_path / "published").read_text().splitlines()]
    assert kept == [hashlib.sha256(b"%d" % number).hexdigest() for number in (2, 3, 4, 5)]
    assert (tmp_path / "published").stat().st_mode & 0o777 == 0o600


def test_a_list_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "file", [b""])
    monkeypatch.setenv("FASTREC_STATE", str(tmp_path / "file"))
    fastrec.normalize(write(tmp_path / "a.jsonl", lines("org/a")), tmp_path / "corpus")
    assert (
        "not published it"
        in run([tmp_path / "corpus"], tmp_path / "out", make_options()).notices[0]
    )


def test_commands_with_filters_trust_the_corpus(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stats` with conditions or groups gives the same for trusted and judged records."""
    asked: Any = {"where": "sample_id != q-3"}, {"group_by": "metadata.subject"}
    trusted = [fastrec.stats(corpus, **one) for one in asked]
    monkeypatch.setenv("FASTREC_STATE", os.devnull)
    assert trusted == [fastrec.stats(corpus, **one) for one in asked]
    with pytest.raises(NoMatchError):
        fastrec.stats(corpus, where="sample_id = no")


def test_a_corpus_in_a_store_is_trusted(tmp_path: Path) -> None:
    shard = write(
        tmp_path / "a.jsonl", [*lines("org/a"), json.dumps(sample(model_id="org/b")).encode()]
    )
    url = f"memory://{tmp_path.name}/corpus"
    fastrec.normalize(shard, url)
    for name, options in {"judged": {"judge": True}, "trusted": {}}.items():
        result = run([url], tmp_path / name, make_options(model="org/b", **options))
        assert not result.notices
    assert contents(tmp_path / "judged") == contents(tmp_path / "trusted")
    assert read_manifest(tmp_path / "trusted").records == 1
    OBJECT_STORE.remove_all(url)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Path.unlink, "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "is damaged"),
        (lambda path: path.write_bytes(b"nonsense" * 100), "is damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\0"), "is damaged"),
        (
            lambda path: (
                path.rename(path.parents[1] / path.name),
                path.symlink_to(f"../{path.name}"),
            ),
            "is a link",
        ),
    ],
    ids=["missing", "cut", "another file", "another byte", "a link"],
)
@pytest.mark.parametrize(
    "filters", [{}, {"exclude_model": "no such model"}], ids=["copied", "filtered"]
)
def test_columns_of_a_trusted_corpus_that_cannot_be_used(
    tmp_path: Path, change: Callable[[Path], object], message: str, filters: dict[str, str]
) -> None:
    """The error names the file, and nothing is published."""
    write(
        tmp_path / "shard.jsonl",
        [json.dumps(sample(sample_id=str(number))).encode() for number in range(3)],
    )
    fastrec.normalize(tmp_path / "shard.jsonl", tmp_path / "corpus")
    change(tmp_path / "corpus" / "part-00000.columns")
    with pytest.raises(CorpusError, match=message) as caught:
        fastrec.normalize(tmp_path / "corpus", tmp_path / "out", **filters)
    assert caught.value.path.endswith("part-00000.columns")
    assert not (tmp_path / "out").exists()
