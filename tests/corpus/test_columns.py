"""Columns: they have what a plain reading of the lines gives, whatever the records, and damage is
an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.corpus.columns import PartColumns, _MetadataColumns
from fastrec.errors import CorpusError
from tests.corpus.plain_columns import long_integers, read_columns
from tests.normalize.normalizing import normalized, write
from tests.samples import sample, sample_of
from tests.sizes import examples
from tests.strategies import free_objects, records


def corpus_of(tmp_path: Path, made: list[dict[str, Any]], **options: Any) -> Path:
    """Make a corpus of records; its columns are compared with a plain reading of the lines."""
    lines = [json_of(record) for record in made]
    with long_integers():
        normalized(write(tmp_path / "shard.jsonl", lines), tmp_path / "out", **options)
    return tmp_path / "out"


def json_of(record: dict[str, Any]) -> bytes:
    """Spell a record, with integers of any length."""
    text = json.dumps(record)
    return text.replace(f'"{HUGE_MARK}"', "1" + "0" * 5_000).encode()


HUGE_MARK = "a huge integer"


def several(count: int, **changes: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [
        sample(sample_id=str(number), **{name: change(number) for name, change in changes.items()})
        for number in range(count)
    ]


@given(made=st.lists(records, min_size=1, max_size=8))
def test_columns_of_random_records(
    made: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    corpus_of(tmp_path_factory.mktemp("columns"), made)


@given(made=st.lists(free_objects, min_size=1, max_size=12))
def test_columns_of_random_metadata(
    made: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    corpus_of(tmp_path_factory.mktemp("columns"), several(len(made), metadata=made.__getitem__))


@pytest.mark.parametrize(
    "score", [2**53 + 1, -(2**63) - 1, 2**64, 10**400, HUGE_MARK, True, 1, 1.5, -0.0, 1e308]
)
def test_scores_are_exact(tmp_path: Path, score: Any) -> None:
    scores = [score, 0.5]
    made = several(2, evaluation=lambda number: {"score": scores[number], "is_correct": True})
    columns = read_columns(corpus_of(tmp_path, made) / "part-00000.columns")
    is_exact = score in (True, 1, 1.5, 2**64) or isinstance(score, float)
    assert bool(columns["exact"]) is not is_exact


@pytest.mark.parametrize("tokens", [0, 2**63, 2**64 - 1, 2**64, HUGE_MARK])
def test_token_counts_are_exact(tmp_path: Path, tokens: Any) -> None:
    usage = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens}
    made = several(2, token_usage=lambda number: usage if number else None)
    columns = read_columns(corpus_of(tmp_path, made) / "part-00000.columns")
    assert columns["has_tokens"].tolist().count(1) == 1
    assert ("input_tokens" in columns["exact"]) is (tokens in (2**64, HUGE_MARK))


@pytest.mark.parametrize("latency", [0, 0.0, 12.5, 2**60 + 1, 10**400, HUGE_MARK, None])
def test_latencies_are_exact(tmp_path: Path, latency: Any) -> None:
    corpus_of(
        tmp_path, several(3, performance=lambda number: {"latency_ms": latency} if number else {})
    )


def test_sample_ids_are_exact(tmp_path: Path) -> None:
    ids = [0, -1, 2**63, -(2**64), HUGE_MARK, "0", "2", "é", "\0", ""]
    corpus_of(
        tmp_path,
        [sample(sample_id=one, model_id=f"m{number % 3}") for number, one in enumerate(ids)],
    )


def test_what_the_model_said_is_counted(tmp_path: Path) -> None:
    turns = [
        {"turn_idx": 0, "role": "user", "content": "twelve letters"},
        {
            "turn_idx": 1,
            "role": "assistant",
            "content": "é𝄞",
            "tool_calls": [{"id": "1", "name": "x"}],
        },
        {"turn_idx": 2, "role": "tool", "content": "result"},
        {"turn_idx": 3, "role": "assistant", "content": None},
        {"turn_idx": 4, "role": "assistant", "content": "four"},
    ]
    for version, field in (("0.2.0", "interactions"), ("0.3.0", "messages")):
        record = sample_of(version, "multi_turn", **{field: turns})
        folder = tmp_path / version
        folder.mkdir()
        columns = read_columns(corpus_of(folder, [record]) / "part-00000.columns")
        assert columns["response_characters"].tolist() == [6]
        assert columns["turns"].tolist() == [5]
        assert columns["tool_calls"].tolist() == [1]


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"subject": "law"},
        {"metadata": {"subject": "law"}, "z": {"metadata": {"b": 1}}},
        {"a": {"x": 1, "metadata": {"b": {"metadata": {}}}}},
        {"text": ',"metadata":{"no": 1}}'},
        {
            "subject": "law",
            "subject.values": "a",
            "values": {"subject": "b"},
            "": 0,
            "values.metadata.subject": 1,
        },
        {
            "skills": ["a", "b"],
            "none": None,
            "flag": True,
            "number": 1.0,
            "object": {"b": 1, "a": 2},
        },
        {"metric_kind": "cost", "lower_is_better": "true", "primary_metric": True},
        {f"key {number:03d}": number for number in range(70)},
        {"long": "x" * 127, "short": "x" * 126},
    ],
    ids=lambda metadata: ", ".join(list(metadata)[:3]) or "none",
)
@pytest.mark.parametrize(
    "unknown", [{}, {"zz": {"a": 1, "metadata": {"b": 2}}}], ids=["plain", "unknown key"]
)
def test_metadata(tmp_path: Path, metadata: dict[str, Any], unknown: dict[str, Any]) -> None:
    some = [metadata, None, {**metadata, "subject": "art"}]
    made = [
        sample(sample_id=str(number), **unknown, **({} if one is None else {"metadata": one}))
        for number, one in enumerate(some)
    ]
    corpus_of(tmp_path, made)


@pytest.mark.parametrize("values", [255, 256, examples(300, 100_000)])
def test_metadata_with_many_values_have_no_column(tmp_path: Path, values: int) -> None:
    made = several(
        values,
        metadata=lambda number: {"few": number % 3, "many": number, "late": "x" * (number > 250)},
    )
    columns = read_columns(corpus_of(tmp_path, made) / "part-00000.columns")
    assert ("metadata.many" in columns) is (values == 255)
    assert columns["values.metadata.few"] == [None, 0, 1, 2]


def test_waiting_metadata_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many distinct metadata are held at a time, the columns are the same."""
    lines = [
        b'{"a":1,"metadata":{"n":%d,"k":"%d"}}\n' % (number % 7, number % 3) for number in range(50)
    ]

    def columns(most: int) -> list[Any]:
        monkeypatch.setattr("fastrec.corpus.columns._MOST_WAITING", most)
        made = _MetadataColumns()
        made.add(map(memoryview, lines))
        assert len(made._distinct) <= most
        return [(key, codes, list(values)) for key, codes, values in made.columns()]

    assert columns(1) == columns(5) == columns(4_096)


def test_an_empty_corpus_has_no_columns(tmp_path: Path) -> None:
    normalized(write(tmp_path / "shard.jsonl", []), tmp_path / "out", allow_empty=True)
    assert not list((tmp_path / "out").glob("*.columns"))


@pytest.mark.parametrize(
    "order", [("model_id",), ("sample_id", "evaluation_name"), ("sample_hash",)]
)
def test_columns_in_another_order(tmp_path: Path, order: tuple[str, ...]) -> None:
    made = [sample(sample_id=number % 4, model_id=f"m{number % 3}") for number in range(12)]
    corpus_of(tmp_path, made, sort_by=order)


def test_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """No byte can change without an error, or a file that is the same."""
    path = corpus_of(tmp_path, several(3)) / "part-00000.columns"
    data = path.read_bytes()
    manifest = json.loads((path.parent / "manifest.json").read_bytes())
    text_hash = manifest["parts"][0]["text_xxh3_128"]

    def contents() -> dict[str, bytes]:
        columns = PartColumns(str(path), text_hash)
        return {name: columns.content(name) for name in columns.frames}

    whole = contents()
    for at in range(0, len(data), examples(23, 1)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        with pytest.raises(CorpusError) as caught:
            assert contents() == whole
        assert caught.value.path == str(path)
    for size in range(0, len(data), examples(37, 1)):
        path.write_bytes(data[:size])
        with pytest.raises(CorpusError):
            contents()


def test_an_array_of_another_length_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would shift all values after it in a corpus."""
    path = corpus_of(tmp_path, several(3)) / "part-00000.columns"
    manifest = json.loads((path.parent / "manifest.json").read_bytes())
    columns = PartColumns(str(path), manifest["parts"][0]["text_xxh3_128"])
    assert len(columns.numbers("score")) == columns.records
    whole = columns.content
    monkeypatch.setattr(columns, "content", lambda name: whole(name)[:-8])
    with pytest.raises(CorpusError, match=r"part-00000\.columns: is damaged: its column score has"):
        columns.numbers("score")
