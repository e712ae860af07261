"""Comparing two corpora: agreement with an independent implementation, the test of flips, and all that can go wrong."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.errors import CorpusError, FastrecError, ShardError, UsageError
from fastrec.jobs import diff as module
from fastrec.jobs.diff import Difference, diff, mcnemar, merge, plan, side
from fastrec.jobs.diff.fields import compare_lines
from fastrec.jobs.generate import Recipe, lines
from fastrec.stages.shards import Shard, read_text
from tests.jobs.comparing import BY, KINDS, corpus_of, differing, found, p_value, reference, spelled
from tests.samples import sample
from tests.strategies import free, records

MANY = 10**6

# Corpora in which everything happens often: few names, so that records meet, and decoys of the keys that lines are cut at.
DECOYS = {"answer_attribution": [{"evaluation": {"score": 1, "is_correct": True}}], "model_id": "x", "evaluation_id": "y"}
UNKNOWN = st.dictionaries(st.sampled_from(["zz", "a b", "é", "model_id2"]), st.sampled_from([1, 1.0, True, None, [DECOYS]]))


def _record(name: str, model: str, sample_id: Any, run: str, raw: str) -> dict[str, Any]:
    return sample(evaluation_name=name, model_id=model, sample_id=sample_id, evaluation_id=run) | {
        "input": {"raw": raw, "reference": ""}
    }


plain_records = st.builds(
    _record,
    st.sampled_from(["e", "f"]),
    st.sampled_from(["m", "n", 'ö"\\\0']),
    st.sampled_from([1, "1", 2, "x", 10**30]),
    st.sampled_from(["run/1", "run/2"]),
    st.sampled_from(["p", "q"]),
)


def _set(record: dict[str, Any], path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        record = record.setdefault(step, {})
    record[last] = value


EDITS = st.one_of(
    st.tuples(st.just("evaluation.is_correct"), st.booleans()),
    st.tuples(st.just("evaluation.is_correct"), st.booleans()),
    st.tuples(st.just("evaluation.score"), st.sampled_from([0, 0.0, False, 1, 1.0, True, 0.25])),
    st.tuples(st.just("evaluation_id"), st.sampled_from(["run/2", "run/3"])),
    st.tuples(st.just("output.raw"), st.sampled_from(["a", 'b,"answer_attribution":[{', "ü\n"])),
    st.tuples(st.just("output.zz"), free),
    st.tuples(st.just("performance.latency_ms"), st.sampled_from([1, 1.0, 2, None])),
    st.tuples(st.just("metadata"), st.sampled_from([{}, DECOYS, {"a": DECOYS}, {"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}])),
    st.tuples(st.just("answer_attribution"), st.sampled_from([[]])),
    st.tuples(st.just("schema_version"), st.sampled_from(["instance_level_eval_0.2.0", "other"])),
    st.tuples(st.just("unknown"), st.sampled_from([DECOYS, [DECOYS], 1, 1.0])),
    st.tuples(st.just("error"), st.none() | st.just("x")),
)


@st.composite
def edited(draw: Any, base: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same records, some of them gone, some changed, some in several versions."""
    result = []
    for record in base:
        for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 2]))):
            version = copy.deepcopy(record)
            for path, value in draw(st.sampled_from([0, 0, 1, 3]).flatmap(lambda n: st.lists(EDITS, min_size=n, max_size=n))):
                _set(version, path, value)
            result.append(version)
    return result


@st.composite
def nights(draw: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two corpora with something in common, conflicts on both sides."""
    base = draw(st.lists(plain_records, max_size=12))
    return draw(edited(base)), draw(edited(base)) + draw(st.lists(plain_records, max_size=2))


CHOICES = [
    ((), BY),
    ((), ("evaluation_name", "sample_hash", "model_id")),
    ((), ("evaluation_name", "sample_hash", "model_id", "evaluation_id", "sample_id")),
    (("model_id",), BY),
    (("sample_id",), BY),
    (("evaluation_id", "sample_id"), ("evaluation_name", "sample_hash", "model_id", "evaluation_id", "sample_id")),
    (("evaluation_name", "model_id", "sample_id"), ("evaluation_name", "model_id", "sample_id")),
    (("evaluation_name", "model_id", "sample_id"), BY),
]


@settings(max_examples=120)
@given(nights(), st.sampled_from(CHOICES), st.sampled_from([7, 900, 5_000, 1 << 18]), st.sampled_from([1 << 10, 1 << 14]))
def test_it_agrees_with_loading_both_whole(
    both: tuple[list[dict[str, Any]], list[dict[str, Any]]], choice: Any, block_bytes: int, part_size: int
) -> None:
    """Counts, fields, flips and p-values are those of a comparison with the stdlib, whatever the order and the cuts."""
    order, by = choice
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(side, "read_text", lambda shard: in_blocks(shard, block_bytes))
        patch.setattr(merge, "_SHORTEST", min(block_bytes, merge._SHORTEST))
        patch.setattr(plan, "_PARTS", 1)
        old, new = (
            corpus_of(records, Path(folder, name), sort_by=order, part_size=part_size)
            for name, records in zip(("old", "new"), both, strict=True)
        )
        difference = diff(old, new, by=by, examples=MANY)
        assert found(difference) == reference(old, new, by)
        check_totals(difference)


def in_blocks(shard: Shard, size: int) -> Iterator[bytes]:
    """The text of a shard in small blocks."""
    for block in read_text(shard):
        yield from (block[start : start + size] for start in range(0, len(block), size))


def check_totals(difference: Difference) -> None:
    """Every record of both corpora is accounted for, and the lists are as long as the counts say."""
    counts = difference.counts
    pairs = counts.unchanged + counts.changed
    assert difference.old.records == pairs + counts.removed + counts.ambiguous_old
    assert difference.new.records == pairs + counts.added + counts.ambiguous_new
    assert counts == module._total(difference.models)
    for kind in ("added", "removed", "changed"):
        assert len(getattr(difference.examples, kind)) == getattr(counts, kind)
    for model in difference.models:
        assert model.common == model.counts.unchanged + model.counts.changed
        assert model.new_correct - model.old_correct == model.wrong_to_right - model.right_to_wrong
        assert (model.points is None) is (model.common == 0)


@settings(max_examples=60)
@given(records, records)
def test_fields_are_those_that_differ(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Of any two records the paths are those of a walk over both, numbers told apart by their spelling."""
    lines = [fastrec.judge(json.dumps(record)).normal for record in (old, new)]
    compared = compare_lines(*lines)
    wanted = differing(*map(spelled, lines)) - {"$.evaluation_id"}
    assert set(compared.paths) == wanted
    assert len(compared.paths) == len(wanted)
    was, now = (json.loads(line)["evaluation"]["is_correct"] for line in lines)
    assert compared.flip == (None if was == now else now)
