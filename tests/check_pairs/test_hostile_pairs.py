"""`check-pairs` on damaged and hostile files: always a result, never a traceback; and on real
records.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.judge.aggregate import Aggregate, NotAggregate, judge_aggregate
from fastrec.sources.formats import Format
from fastrec.sources.shard import shard_at
from tests.check_pairs.trees import (
    SUFFIXES,
    UUID,
    Tree,
    aggregate,
    codes_of,
    model_info,
    result,
    rows,
)
from tests.sizes import examples
from tests.strategies import dice


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Data with some bytes changed, inserted, removed or repeated, or cut off."""
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        some = rng.choice(
            [
                rng.randbytes(rng.randrange(1, 5)),
                b"\n",
                b'"',
                b"{",
                b"}",
                b"\0",
                b"0",
                data[at : at + 50],
            ]
        )
        data = rng.choice(
            [
                data[:at],
                data[:at] + some + data[at + len(some) :],
                data[:at] + some + data[at:],
                data[:at] + data[at + 5 :],
            ]
        )
    return data


@given(dice, st.sampled_from(list(SUFFIXES)))
@settings(
    max_examples=examples(13, 240), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damaged_files(tmp_path: Path, rng: random.Random, format_: Format) -> None:
    """Whatever is in the files, there is a result; a changed samples file is always noticed."""
    tree = Tree(tmp_path)
    path = tree.add(format_=format_)
    samples = path.with_name(f"{UUID}_samples.jsonl{SUFFIXES[format_]}")
    before = samples.read_bytes()
    try:
        for file in rng.choice([[path], [samples], [path, samples]]):
            file.write_bytes(damaged(file.read_bytes(), rng))
        found = tree.check()
        assert found.aggregates == found.samples == 1
        if samples.read_bytes() != before:
            assert not found.ok
    finally:
        samples.unlink()


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "evaluation_results",
                        "evaluation_id",
                        "model_info",
                        "id",
                        "detailed_evaluation_results",
                        "file_path",
                        "format",
                        "score",
                        "score_details",
                        "metric_config",
                        "total_rows",
                        "evaluation_name",
                    ]
                ),
                inner,
                max_size=6,
            )
        ),
        max_leaves=20,
    )
)
@settings(max_examples=examples(8, 500))
def test_any_json_is_an_aggregate_or_not(value: Any) -> None:
    found, findings = judge_aggregate(json.dumps(value).encode())
    assert isinstance(found, Aggregate) or [one.code for one in findings] == ["pair.aggregate"]


@pytest.mark.each_value
@pytest.mark.parametrize("key", list(aggregate()))
@pytest.mark.parametrize("value", [None, 7, "", [], {}, [[]], [{}], True])
def test_wrong_values_in_aggregates(key: str, value: Any) -> None:
    found, _ = judge_aggregate(json.dumps(aggregate(**{key: value})).encode())
    assert isinstance(found, (Aggregate, NotAggregate))


def test_hostile_names_in_an_aggregate(tmp_path: Path) -> None:
    """Texts of any length, with any characters, in every place that ends up in a message."""
    tree = Tree(tmp_path)
    for text in (
        "x" * 200_000,
        "\x1b]0;\x07",
        "a/b/../..",
        "\u2028\u202e",
        "%s{}",
        "data/" * 1_000,
    ):
        tree.add(
            rows(1.0, result=text[::-1]),
            result(0.5, text, text, metric_name=text),
            evaluation_id=text,
        )
        found = tree.check()
        assert found.bad_files == []
        assert all(len(group.message) < 1_000 for group in found.groups)
        tree.add(
            stated={"file_path": text, "format": text, "hash_algorithm": text, "checksum": text}
        )
        assert tree.codes() == {"pair.file_path": 1, "pair.format": 1, "pair.hash_algorithm": 1}


def test_a_very_long_row_is_held_once(tmp_path: Path) -> None:
    """One row of some megabytes is like any other."""
    tree = Tree(tmp_path)
    tree.add(rows(1.0, input={"raw": "x" * 3_000_000, "reference": ["y"]}), result(1))
    assert tree.codes() == {}


@pytest.mark.parametrize(
    "name",
    [
        "gsm8k/gsm8k-6b_finetuning_samples.jsonl",
        "gsm8k/gsm8k-175b_verification_samples.jsonl.zst",
        "alpaca/vicuna-7b_samples.jsonl.gz",
        "tau/gpt-4o-airline_samples.jsonl.zst",
    ],
)
def test_real_rows(real: Path, tmp_path: Path, name: str) -> None:
    """An aggregate that is computed from real records in another way is reproduced.

    One that is off is not.
    """
    text = b"".join(shard_at(str(real / name)).read_text())
    records = [json.loads(line) for line in text.decode().split("\n") if line]
    mean = sum(float(record["evaluation"]["score"]) for record in records) / len(records)
    (ids,) = {
        (record["evaluation_id"], record["model_id"], record["evaluation_name"])
        for record in records
    }
    format_ = next(one for one, suffix in reversed(SUFFIXES.items()) if name.endswith(suffix))
    document = {"evaluation_id": ids[0], "model_info": model_info(ids[1])}
    tree = Tree(tmp_path)
    for score, codes in (
        (mean, {}),
        (round(mean, 3), {}),
        (mean + 0.002, {"pair.score": 1}),
        (mean + 1 / len(records), {"pair.score": 1}),
    ):
        tree.add(text, result(score, None, ids[2]), format_=format_, **document)
        found = fastrec.check_pairs(tree.root)
        assert codes_of(found) == codes
        assert found.rows == len(records)
