"""The list of options: each says what it decides, and what follows from that holds in every run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pytest
import zstandard

from fastrec.cli import normalize as command
from fastrec.cli.normalize import normalize
from fastrec.cli.options import parameter
from fastrec.filters import FilterArguments, Filters
from fastrec.limits import Limits, use_limits
from fastrec.normalize import options
from fastrec.normalize.corrections import PLACES, GivenFile, NameRule
from fastrec.normalize.options import (
    DEFAULTS,
    OPTIONS,
    RECORDED,
    Decides,
    NormalizeArguments,
    Options,
    options_from,
)
from fastrec.normalize.run import NormalizeResult, run
from fastrec.progress import Progress
from fastrec.schemas.registry import DEFAULT_SCHEMA
from tests.faults.failing import contents
from tests.normalize.normalizing import StopAfter, write
from tests.normalize.piles import answers, record
from tests.normalize.test_trust import forge
from tests.sizes import LONG, examples

LIMITS = Limits(task_bytes=12_000, least_part=1 << 13, small_input=0)
USUAL: dict[str, Any] = {"part_size": 8 << 10, "jobs": 1, "skip_bad_shards": True}
DECIDING = [name for name, about in OPTIONS.items() if about.decides is not Decides.NEITHER]
NEED_A_CLUSTER = {"engine", "scheduler"}
NEEDED: dict[str, dict[str, Any]] = {
    "keep_names": {"map": (NameRule("models", "org/a", "org/z"),)},
    "check": {"incremental": True},
}
"""Options without which another one is refused."""


class Scene:
    """Shards in which each option that decides anything has something to decide."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards = folder / "in"
        first = answers("sums", "org/a", range(6))
        wrong_hash = json.loads(record("sums", "org/b", 0)) | {"sample_hash": "f" * 64}
        repairable = json.loads(record("sums", "org/b", 1))
        repairable["evaluation"]["score"] = "1.0"
        others = [json.dumps(line).encode() for line in (wrong_hash, repairable)]
        rejected = b'{"broken": '
        self.long = json.loads(record("sums", "org/b", 2)) | {"note": "x" * 3_000}
        a = write(self.shards / "a.jsonl", [*first, rejected, *others])
        write(
            self.shards / "b.jsonl",
            [
                *answers("sums", "org/a", range(3), epoch=1),
                *answers("sums", "org/a", range(3), score=0.0),
                *answers("sums", "org/c", range(4)),
                *answers("sums", "org/c", range(4), run="2"),
                json.dumps(self.long).encode(),
            ],
        )
        parameters = zstandard.ZstdCompressionParameters(window_log=22)
        compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        text = b"\n".join(answers("more", "org/a", range(8))) + b"\n"
        (self.shards / "c.jsonl.zst").write_bytes(compressor.compress(text) + compressor.flush())
        self.labels = folder / "labels.jsonl"
        label = {"evaluation": "more", "model": "org/a", "sample_id": "q-0", "score": 0.25}
        self.labels.write_bytes(json.dumps(label).encode())
        self.fixes = folder / "fixes.jsonl"
        self.fixes.write_bytes(record("sums", "org/f", 3) + b"\n")
        place = {
            "source": str(a),
            "line": 7,
            "offset": sum(len(line) + 1 for line in first),
            "sha256": hashlib.sha256(rejected).hexdigest(),
        }
        Path(f"{self.fixes}{PLACES}").write_bytes(json.dumps(place).encode())

    def other_values(self) -> dict[str, Any]:
        """Another value of each option, which matters for these shards if it decides anything."""
        return {
            "schema": "0.3.0",
            "hash_algorithm": "xxh3_128",
            "sample_hash": "fill",
            "repair": ("repair.number_from_text",),
            "sort_by": ("model_id",),
            "same_run": "ignore",
            "conflicts": "reject",
            "repeats": "first",
            "part_size": 10 << 10,
            "compression": "gz",
            "level": 7,
            "max_line_bytes": 3_000,
            "max_window": 1 << 20,
            "filters": Filters(exclude_model=("org/c",)),
            "track_sources": True,
            "map": (NameRule("models", "org/a", "org/z"),),
            "keep_names": True,
            "labels": GivenFile.at(str(self.labels)),
            "fixes": GivenFile.at(str(self.fixes), f"{self.fixes}{PLACES}"),
            "trust": True,
            "judge": True,
            "strict_labels": True,
            "max_rejects": 1_000,
            "check_secrets": True,
            "skip_bad_shards": False,
            "allow_empty": True,
            "overwrite": True,
            "incremental": True,
            "check": "content",
            "fresh": True,
            "work_dir": str(self.folder / "work"),
            "jobs": 2,
            "memory": 64 << 20,
        }

    def options(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two sets of options that differ in one."""
        usual = USUAL | NEEDED.get(name, {})
        if name == "strict_labels":
            usual["labels"] = GivenFile.at(str(self.labels))
        return usual, usual | {name: self.other_values()[name]}

    def inputs(self, name: str) -> list[Path]:
        """The shards; for `trust`, also a corpus with a broken line that somebody has published."""
        if name != "trust":
            return [self.shards]
        lines = answers("theirs", "org/t", [0])
        shard = write(self.folder / "theirs.jsonl", lines)
        run([shard], self.folder / "theirs", Options(compression="none"))
        theirs = forge(self.folder / "theirs", b'"score":1.0', b'"score":"1"')
        return [self.shards, theirs]

    def run(
        self,
        inputs: list[Path],
        out: str,
        options: dict[str, Any],
        progress: Progress | None = None,
    ) -> NormalizeResult:
        """Run in place of the corpus that is there."""
        if not options.get("overwrite"):
            shutil.rmtree(self.folder / out, ignore_errors=True)
        return run(inputs, self.folder / out, Options(**options), progress=progress)

    def fresh(self, inputs: list[Path], options: dict[str, Any]) -> dict[str, bytes]:
        """The corpus that a run without any finished work makes."""
        self.run(inputs, "fresh", options | {"fresh": True, "incremental": False, "check": "stat"})
        return contents(self.folder / "fresh")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_every_option_says_what_it_decides() -> None:
    """If it decides how lines are judged, it also says when lines of a corpus are trusted."""
    assert OPTIONS.keys() == set(Options.__struct_fields__)
    for name, about in OPTIONS.items():
        assert (about.trusted is not None) == (about.decides is Decides.LINES), name
        if about.decides is Decides.NEITHER:
            assert (about.recorded, about.is_updated) == ("if given", False), name
        if about.choices:
            assert about.choices[0] == DEFAULTS[name], "the default comes first"


def test_all_cores_work_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python as on the command line."""
    [jobs] = [param for param in normalize.params if param.name == "jobs"]
    monkeypatch.setattr(options, "CORES", jobs.default)
    assert jobs.default == len(os.sched_getaffinity(0))
    assert Options().jobs == jobs.default


@pytest.mark.parametrize("default", [0, 3])
def test_an_integer_is_one_on_the_command_line(
    default: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its default."""
    monkeypatch.setitem(DEFAULTS, "level", default)

    @parameter(*command._usage_and_settings("level", OPTIONS["level"]))
    def function() -> None: ...

    [level] = function.__click_params__  # type: ignore[attr-defined]
    assert level.type is click.INT


def test_every_option_is_tried(scene: Scene) -> None:
    assert scene.other_values().keys() == OPTIONS.keys() - NEED_A_CLUSTER


def test_the_python_signature_is_that_list() -> None:
    """`NormalizeArguments` has each option with its type, and each filter.

    What is read from a file, or may be one string for several, has another type in Python.
    """
    arguments = get_type_hints(NormalizeArguments)
    fields = get_type_hints(Options)
    filters = get_type_hints(FilterArguments)
    assert arguments.keys() == (fields.keys() - {"filters"}) | filters.keys()
    converted = {"repair", "sort_by", "map", "labels", "fixes"}
    for name in fields.keys() - converted - {"filters"}:
        ours, theirs = set(get_args(fields[name])), set(get_args(arguments[name]))
        assert ours - {int} == theirs - {int} or fields[name] == arguments[name], name


def test_a_manifest_records_what_decides_the_bytes(scene: Scene) -> None:
    """The schema, the sort order and trust are in fields of their own.

    Recorded options can be read back.
    """
    values = scene.other_values()
    for name in DECIDING:
        usual, other = (Options(**options) for options in scene.options(name))
        is_recorded = OPTIONS[name].recorded != "elsewhere"
        assert (usual.recorded != other.recorded) == is_recorded, name
        if is_recorded and not isinstance(values[name], GivenFile):
            read = json.loads(json.dumps(other.recorded, default=vars))
            assert getattr(options_from(read), name) == values[name]
    for name in OPTIONS.keys() - DECIDING - NEED_A_CLUSTER:
        usual, other = (Options(**options) for options in scene.options(name))
        assert usual.recorded == other.recorded, name
    assert RECORDED["hash_algorithm"] == "hash"


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - NEED_A_CLUSTER))
def test_another_value_gives_the_corpus_of_a_fresh_run(name: str, scene: Scene) -> None:
    """Whatever an incremental run, an interrupted run or a corpus of the old value left.

    If the option decides anything, the corpora of both values differ.
    """
    with use_limits(LIMITS):
        usual, other = scene.options(name)
        inputs = scene.inputs(name)
        as_usual = scene.fresh(inputs, usual)
        expected = scene.fresh(inputs, other)
        assert (as_usual != expected) == (name in DECIDING)
        incremental = {"incremental": True} if name != "incremental" else {}
        scene.run(inputs, "night", usual | incremental)
        result = scene.run(inputs, "night", other | incremental)
        assert contents(scene.folder / "night") == expected
        is_other_work = any(f"it was made with {name} " in notice for notice in result.notices)
        assert is_other_work == (name in DECIDING and not OPTIONS[name].is_updated)
        if LONG or name in DECIDING:  # else this would be one more night with the same shards
            scene.run(inputs, "night", usual | incremental)
            assert contents(scene.folder / "night") == as_usual

        resumed = [(usual, other, expected), (other, usual, as_usual)]
        for before, after, corpus in resumed if LONG and name in DECIDING else resumed[:1]:
            out = f"resumed-{len(before)}"
            with pytest.raises(KeyboardInterrupt):
                scene.run(inputs, out, before, StopAfter(2))
            scene.run(inputs, out, after)
            assert contents(scene.folder / out) == corpus


@pytest.mark.parametrize("name", [name for name in DECIDING if name != "trust"])
def test_a_corpus_of_another_value_is_as_if_it_was_judged(name: str, scene: Scene) -> None:
    """A trusted corpus gives the same bytes with and without `judge`, whatever it was made with."""
    with use_limits(LIMITS):
        usual, other = scene.options(name)
        for made, asked in [(usual, other), (other, usual)][: examples(1, 2)]:
            scene.run([scene.shards], "corpus", made)
            inputs = [scene.folder / "corpus", scene.shards / "a.jsonl"]
            judged = scene.fresh(inputs, asked | {"judge": True})
            assert scene.fresh(inputs, asked) == judged


def test_settings_differ_if_the_bytes_may_differ(scene: Scene) -> None:
    for name in OPTIONS.keys() - NEED_A_CLUSTER:
        usual, other = (Options(**options) for options in scene.options(name))
        differ = usual.settings_of(DEFAULT_SCHEMA) != other.settings_of(DEFAULT_SCHEMA)
        assert differ == (name in DECIDING and not OPTIONS[name].is_updated), name
