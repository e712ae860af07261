"""`--same-run`, `--conflicts` and `--repeats` together, against simple rules, in both schema
versions.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastrec.engine.base import SerialEngine
from fastrec.limits import LIMITS, Limits
from fastrec.normalize import parts as parts_module
from fastrec.normalize import run as module
from fastrec.normalize.part_steps import PartTask
from fastrec.normalize.results import Part
from fastrec.normalize.run import normalize
from tests.normalize.leaving_out import leave_out
from tests.normalize.normalizing import Corpus, normalized, raw_of, run_limited, write
from tests.samples import sample_of
from tests.sizes import examples

OLD = "0.2.0"
NEW = "0.3.0"

IN_TASKS = Limits(
    small_input=0,
    task_bytes=4_000,
    run_bytes=8_000,
    window_bytes=100,
    census_fan_in=2,
    census_partitions=3,
)
"""Many runs, windows and parts, whose lists are partitioned."""

Variant = tuple[int, ...]
"""Choices: run, label, model, metric, sample, question, output, verdict, trial, latency."""

variants = st.tuples(*(st.integers(0, most) for most in (2, 1, 1, 2, 1, 1, 1, 2, 2, 1)))
choices = st.fixed_dictionaries(
    {
        "same_run": st.sampled_from(["keep", "ignore"]),
        "conflicts": st.sampled_from(["keep", "first", "reject"]),
        "repeats": st.sampled_from(["keep", "first", "reject"]),
    }
)
orders = st.sampled_from(
    [(), ("evaluation_id",), ("sample_id", "model_id"), ("evaluation_result_id",)]
)


def record(schema: str, variant: Variant) -> bytes:
    """A record of a version: few identities, questions, outputs and verdicts."""
    run, label, model, metric, number, question, output, verdict, trial, latency = variant
    labels = {OLD: ("0.2.0", "instance_level_eval_0.2.0"), NEW: ("0.3.0", "0.2.2")}
    made = sample_of(
        schema, sample_id=str(number), model_id="mn"[model], evaluation_id=f"run/{run}"
    )
    made |= {
        "schema_version": labels[schema][label],
        "evaluation_name": "e",
        "performance": {"latency_ms": latency},
    }
    made["input"]["raw"] = f"question {question}"
    made["evaluation"] = {"score": (1.0, 0.0, 1)[verdict], "is_correct": verdict != 1}
    texts = ("yes", "no")[output]
    made["output"] = {"raw": [texts] if schema == NEW else texts}
    made["metadata"] = {"epoch": str(trial)} if trial else {}
    del made["sample_hash"]
    if metric and schema == NEW:
        made["evaluation_result_id"] = f"metric {metric}"
    else:
        made.pop("evaluation_result_id", None)
    return json.dumps(made).encode()


def all_equal_but_runs(count: int) -> list[Variant]:
    return [(run, 0, 0, 0, number, 0, 0, 0, 0, 0) for number in range(2) for run in range(count)]


@settings(max_examples=examples(9, 100))
@given(st.sampled_from([OLD, NEW]), st.lists(variants, max_size=25), choices, orders, st.booleans())
@example(
    OLD,
    all_equal_but_runs(3),
    {"same_run": "ignore", "conflicts": "keep", "repeats": "keep"},
    (),
    True,
)
@example(  # two labels of a run that equals an earlier run
    OLD,
    [(run, label, 0, 0, 0, 0, 0, 0, 0, 0) for run in (0, 1) for label in (0, 1)],
    {"same_run": "ignore", "conflicts": "keep", "repeats": "keep"},
    (),
    False,
)
@example(
    NEW,
    [(0, 0, 0, 1, 0, question, 0, verdict, 0, 0) for question in (0, 1) for verdict in (0, 1)],
    {"same_run": "keep", "conflicts": "reject", "repeats": "first"},
    (),
    False,
)
def test_records_are_left_out_by_the_rules(
    schema: str,
    chosen: list[Variant],
    options: dict[str, str],
    sort_by: tuple[str, ...],
    in_tasks: bool,
) -> None:
    """For any records, options, sort order and part size: what stays, what is rejected, and what
    the summary says.
    """
    fields = tuple(field for field in sort_by if schema == NEW or field != "evaluation_result_id")
    common: dict[str, Any] = {"schema": schema, "sort_by": fields}
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(module, "make_engine", lambda *_: SerialEngine()),
    ):
        shards = [
            write(
                Path(folder) / f"{number}.jsonl", [record(schema, one) for one in chosen[number::2]]
            )
            for number in range(2)
        ]
        everything = normalized(shards, Path(folder) / "all", **common)
        expected = leave_out(everything.lines, everything.manifest["sort_fields"], **options)
        limits = IN_TASKS if in_tasks else LIMITS
        size = 1_024 if in_tasks else 10**6
        corpus = normalized(
            shards, Path(folder) / "out", **common, **options, part_size=size, limits=limits
        )
        backwards = normalized(
            shards[::-1], Path(folder) / "back", **common, **options, part_size=size
        )
        check(corpus, everything, expected.same_run, expected.codes, expected.summary)
        assert backwards.same_for_all == corpus.same_for_all


def check(
    corpus: Corpus,
    everything: Corpus,
    same_run: list[bytes],
    codes: dict[bytes, str],
    summary: dict[str, Any],
) -> None:
    gone = {*same_run, *codes}
    assert corpus.lines == [line for line in everything.lines if line not in gone]
    assert {raw_of(reject): reject["code"] for reject in corpus.rejects} == codes
    assert Counter(corpus.summary["rejected_by_code"]) == Counter(codes.values())
    assert corpus.line_counts["duplicates"] == everything.line_counts["duplicates"] + len(same_run)
    assert {kind: corpus.summary[kind] for kind in summary} == summary


@pytest.mark.parametrize("step", [1, 2])
def test_a_run_that_stops_between_steps_is_resumed(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that were made before or after other parts were counted are reused, and the corpus is
    the same.
    """
    chosen = [
        (run, 0, 0, 0, number, question, 0, 0, 0, 0)
        for number in range(8)
        for run, question in ((0, 0), (1, 0), (0, 1))
    ]
    shard = write(tmp_path / "in.jsonl", [record(OLD, one) for one in chosen])
    options: dict[str, Any] = {
        "same_run": "ignore",
        "repeats": "first",
        "part_size": 1_024,
        "limits": IN_TASKS,
    }
    made: list[tuple[int, tuple[str, str]]] = []
    make_part = parts_module.make_part

    def note(task: PartTask) -> Part:
        made.append((task.number, task.superseded_hashes))
        return make_part(task)

    monkeypatch.setattr(parts_module, "make_part", note)
    fresh = normalized(shard, tmp_path / "fresh", **options)
    assert fresh.summary["same_run"]["records"] == 8
    assert fresh.summary["rejected_by_code"] == {"repeat.not_first": 8}
    tasks = [*made]
    made.clear()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(parts_module, ("find_same_run", "count_census")[step - 1], stop)
        run_limited([shard], tmp_path / "out", options)
    before = [*made]
    made.clear()
    corpus = normalized(shard, tmp_path / "out", **options)
    assert corpus.same_for_all == fresh.same_for_all
    assert corpus.rejects == fresh.rejects
    assert set(before + made) == set(tasks)
    assert len(made) < len(tasks)


def stop(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_label_that_the_upgrade_keeps_does_not_tell_runs_apart(tmp_path: Path) -> None:
    """A record that was converted again with a wrong label is a duplicate, with other metadata or
    without.
    """
    lines = []
    for run, label in enumerate((OLD, NEW, "banana")):
        for number, metadata in enumerate(({}, {"metadata": {"a": '\\"}}', "z": "1"}})):
            one = sample_of(
                OLD, sample_id=str(number), evaluation_id=f"run/{run}", schema_version=label
            )
            one.pop("metadata", None)
            lines.append(json.dumps(one | metadata).encode())
    write(tmp_path / "a.jsonl", lines)
    summary = normalize(tmp_path / "a.jsonl", tmp_path / "corpus", schema=NEW, same_run="ignore")
    assert (summary.line_counts.kept, summary.same_run.records) == (2, 4)
