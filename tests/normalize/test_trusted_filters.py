"""Filters and conditions on a trusted corpus are answered by its columns, as if its lines were
judged.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.corpus import reader
from fastrec.corpus.manifest import read_manifest
from fastrec.limits import Limits, use_limits
from fastrec.normalize import pass1
from fastrec.normalize.options import make_options
from fastrec.normalize.run import run
from tests.faults.failing import contents
from tests.normalize.normalizing import write
from tests.samples import sample, sample_of

SMALL = Limits(least_part=1 << 10, small_input=0)

HOSTILE: dict[str, Any] = {
    "plain": {},
    "error": {"error": "broken"},
    "empty error": {"error": ""},
    "integer id": {"sample_id": 5},
    "long id": {"sample_id": 10**30},
    "negative long id": {"sample_id": -(10**30)},
    "NUL": {"model_id": "org/\0b", "sample_id": "a\0\xff"},
    "label of another version": {"schema_version": "0.3.0"},
    "unknown label": {"schema_version": "banana"},
    "surrogate pair": {"model_id": "org/\U0001f600", "metadata": {"k": "\ud83d\ude00"}},
    "unknown keys": {"zz": {"a": [1, None]}, "messages": None, "turns": 9},
    "unknown messages": {
        "messages": [{"role": "assistant", "content": "abc", "tool_calls": [1, 2]}, {"role": "x"}]
    },
    "metadata": {"metadata": {"k": "law", "n": 3, "list": ["a", None, 7], "deep": {"x": 2.0}}},
    "long metadata": {"metadata": {"k": 10**40, "n": 3.0, "deep": {"x": [True]}, "a.b": "x" * 300}},
    "tokens": {"token_usage": {"input_tokens": 3, "output_tokens": 2**64, "total_tokens": 10**30}},
    "few tokens": {"token_usage": {"input_tokens": 0, "output_tokens": 5, "total_tokens": 5}},
    "latency": {"performance": {"latency_ms": 5}},
    "other latency": {"performance": {"latency_ms": 5.5}},
}
"""Records of the default version, as changes of a plain one."""

SCORES = (0, 1, 0.0, 1.0, True, False, 0.25, -3, 2**53 + 1, 10**400, 1e300, -0.0)

FILTERS: list[dict[str, Any]] = [
    {},
    {"evaluation": "none"},
    {"evaluation": "e1"},
    {"exclude_evaluation": "e*"},
    {"model": ["org/\0*", "org/b"]},
    {"exclude_model": "org/b"},
    {"metric": "acc"},
    {"metric": ""},
    {"sample_id": ["5", "1" + "0" * 30]},
    {"sample_id": "-1*"},
    {"hash": "[0-7]*"},
    {"right": True},
    {"wrong": True, "errors": True},
    {"exclude_model": "org/b", "where": ["evaluation.score>0", "metadata.n=3", "input.raw~sum"]},
]

CONDITIONS = [
    "evaluation.score=1",
    "evaluation.score=true",
    "evaluation.score>0",
    "evaluation.score>=0.25",
    "evaluation.score<1e9",
    "!evaluation.score~1",
    "evaluation.score=~^1$",
    "evaluation.score?",
    "evaluation.score.x?",
    "evaluation.is_correct=true",
    "evaluation.is_correct!=1",
    "evaluation.unknown?",
    "sample_id=5",
    "sample_id>4",
    "sample_id=~^1",
    "schema_version=banana",
    "interaction_type!=single_turn",
    "evaluation_result_id?",
    "!evaluation_result_id=acc",
    "error?",
    "!error?",
    "error~bro",
    "error!=x",
    "turns>1",
    "turns=1",
    "tool_calls=2",
    "response.characters>2",
    "output.raw~42",
    "messages.role=x",
    "run?",
    "hash?",
    "token_usage.input_tokens<4",
    "token_usage.output_tokens>5",
    "!token_usage.total_tokens?",
    "token_usage?",
    "performance.latency_ms=5",
    "performance.latency_ms=~[.]",
    "!performance.latency_ms<6",
    "metadata.k=law",
    "metadata.k>5",
    "!metadata.k?",
    "metadata.list=7",
    "metadata.n=~[.]",
    "metadata.deep.x=2",
    "metadata.deep.x=true",
    'metadata."a.b"?',
    "metadata?",
    "metadata.none?",
    "zz.a=1",
]


def scored(record: dict[str, Any], score: Any) -> dict[str, Any]:
    return record | {"evaluation": record["evaluation"] | {"score": score}}


def hostile_lines() -> list[bytes]:
    records = [
        sample(**{"evaluation_name": f"e{at % 2}"} | more)
        for at, more in enumerate(HOSTILE.values())
    ]
    records += [
        scored(sample(sample_id=f"s{at}", model_id="org/b"), score)
        for at, score in enumerate(SCORES)
    ]
    records += [
        sample_of("0.2.0", kind) | {"sample_id": f"t{kind}"} for kind in ("multi_turn", "agentic")
    ]
    return spelled(records)


def spelled(records: list[dict[str, Any]]) -> list[bytes]:
    """The lines of records, each with a question of its own."""
    for at, record in enumerate(records):
        record.pop("sample_hash", None)
        record["input"] = record["input"] | {"raw": f"question {at}"}
    return [json.dumps(record).encode() for record in records]


def metric_lines() -> list[bytes]:
    """Records of the newest version: with and without metrics.

    Those of one evaluation have an unknown label.
    """
    records = []
    for at, kind in enumerate(("single_turn", "multi_turn", "agentic") * 8):
        record = sample_of("0.3.0", kind) | {
            "sample_id": f"q{at}",
            "model_id": f"org/{'ab'[at % 2]}",
        }
        record["metadata"] = record.get("metadata", {}) | {"k": ["law", "art"][at % 2]}
        record["evaluation"] |= {"score": [0, 1, 0.5, 7][at % 4]}
        if at % 3:
            record["evaluation_result_id"] = ["acc", "f1"][at % 2]
        if at % 4 == 0:
            record |= {"evaluation_name": "labels", "schema_version": "banana"}
        records.append(record)
    return spelled(records)


@pytest.fixture(scope="module", params=["0.2.0", "0.3.0"])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of hostile records, in several parts."""
    folder = tmp_path_factory.mktemp(request.param)
    shard = write(
        folder / "shard.jsonl", hostile_lines() if request.param == "0.2.0" else metric_lines()
    )
    with use_limits(SMALL):
        fastrec.normalize(shard, folder / "corpus", part_size=4_000)
    assert len(list((folder / "corpus").glob("*.columns"))) > 3
    return folder / "corpus"


def check_same(corpus: Path, folder: Path, **options: Any) -> None:
    """Compare the corpus that is made from a trusted one with that from the same lines, judged."""
    options |= {
        "schema": read_manifest(corpus).schema.removeprefix("instance_level_eval_"),
        "part_size": 12_000,
    }
    for name, judge in {"judged": True, "trusted": False}.items():
        result = run(
            [corpus], folder / name, make_options(**options, judge=judge, allow_empty=True)
        )
        assert not result.notices
    assert contents(folder / "trusted") == contents(folder / "judged")


@pytest.mark.each_value
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters(corpus: Path, tmp_path: Path, filters: Any) -> None:
    check_same(corpus, tmp_path, **filters)


@pytest.mark.each_value
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(corpus: Path, tmp_path: Path, condition: str) -> None:
    check_same(corpus, tmp_path, where=condition)


@pytest.mark.parametrize(
    "options",
    [
        {"sort_by": "model_id"},
        {"exclude_model": "org/b", "sort_by": "sample_id"},
        {"repeats": "first"},
    ],
    ids=["another order", "filtered", "repeats"],
)
def test_options(corpus: Path, tmp_path: Path, options: Any) -> None:
    check_same(corpus, tmp_path, **options)


@pytest.mark.parametrize(
    ("asked", "parsed"),
    [
        ({"exclude_model": "org/a"}, 0),
        ({"where": "metadata.subject=law"}, 0),
        ({"where": "evaluation.score<0.5"}, 0),
        ({"where": "input.raw?"}, 30),
        ({"where": ["input.raw?", "metadata.subject=law"], "exclude_model": "org/b"}, 10),
    ],
)
def test_only_records_that_pass_all_other_conditions_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any, parsed: int
) -> None:
    """What columns can answer needs no line; nothing is judged."""
    records = [
        sample(
            model_id=f"org/{'abc'[at % 3]}",
            sample_id=f"q{at}",
            metadata={"subject": ["law", "art"][at % 2]},
            evaluation=sample()["evaluation"] | {"score": 0.25},
        )
        for at in range(30)
    ]
    shard = write(tmp_path / "shard.jsonl", [json.dumps(record).encode() for record in records])
    fastrec.normalize(shard, tmp_path / "corpus", sample_hash="replace")
    lines = []
    unmatched = reader.unmatched
    monkeypatch.setattr(
        reader,
        "unmatched",
        lambda part, columns, positions, filters: (
            lines.extend(positions) or unmatched(part, columns, positions, filters)
        ),
    )
    monkeypatch.setattr(pass1._Sorter, "_read", None)
    fastrec.normalize(tmp_path / "corpus", tmp_path / "out", **asked)
    assert len(lines) == parsed
