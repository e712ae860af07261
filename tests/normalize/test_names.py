"""`normalize --map`: models, evaluations and metrics get other names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.errors import UsageError
from fastrec.normalize.options import make_options
from fastrec.normalize.run import run
from tests.faults.failing import contents
from tests.normalize.normalizing import audited, write
from tests.samples import question, sample_of

MAP = """
[models]
"Org/A" = "org/a"
"*_*" = "*/*"
"x*" = "never"
[evaluations]
"sums: \\u00e9" = "sums"
[metrics]
"acc*" = "accuracy"
"""


def line(version: str, model: str, number: int = 1, **changes: Any) -> bytes:
    record = sample_of(
        version, model_id=model, sample_id=f"q{number}", evaluation_name="sums: é", **changes
    )
    record["input"]["raw"] = question(number)["raw"]
    del record["sample_hash"]
    return json.dumps(record).encode()


@pytest.fixture
def names(tmp_path: Path) -> Path:
    (tmp_path / "names.toml").write_text(MAP, encoding="utf-8")
    return tmp_path / "names.toml"


@pytest.mark.each_value
@pytest.mark.parametrize("version", ["0.2.0", "0.2.0-released", "0.2.1", "0.3.0"])
@pytest.mark.parametrize("keep_names", [False, True])
def test_names_change_and_nothing_else(
    tmp_path: Path, names: Path, version: str, keep_names: bool
) -> None:
    """The corpus is that of lines with the new names.

    With --keep-names, the old ones are in `metadata`.
    """
    models = ["Org/A", "org_b", "other"]
    shard = write(
        tmp_path / "in.jsonl",
        [line(version, model, number) for model in models for number in range(4)],
    )
    result = run([shard], tmp_path / "out", make_options(map=names, keep_names=keep_names))
    assert fastrec.verify(tmp_path / "out").ok
    found = [json.loads(text) for text in audited(tmp_path / "out").lines]
    fastrec.normalize(shard, tmp_path / "plain")
    expected = []
    for record in (json.loads(text) for text in audited(tmp_path / "plain").lines):
        renamed = {"Org/A": "org/a", "org_b": "org/b"}.get(record["model_id"], record["model_id"])
        changes = {"evaluation_name": "sums", "model_id": renamed}
        if record.get("evaluation_result_id", "").startswith("acc") and version == "0.3.0":
            changes["evaluation_result_id"] = "accuracy"
        old = {
            f"original_{name}": record[name] for name, new in changes.items() if record[name] != new
        }
        metadata = (
            dict(sorted({**record.get("metadata", {}), **old}.items()))
            if keep_names
            else record["metadata"]
        )
        expected.append({**record, **changes, "metadata": metadata})
    order = ("sample_hash", "model_id", "sample_id")
    assert found == sorted(expected, key=lambda one: [one[name] for name in order])
    assert result.summary.renamed['models: "Org/A"'] == result.summary.renamed['models: "*_*"'] == 4  # type: ignore[index]
    assert result.summary.renamed['models: "x*"'] == 0  # type: ignore[index]
    assert any('no record has these names: models: "x*"' in notice for notice in result.notices)


def test_a_corpus_is_renamed_as_its_shards_are(tmp_path: Path, names: Path) -> None:
    """Trusted, judged, from shards, and incrementally: the same records.

    Renaming twice changes nothing more.
    """
    shard = write(
        tmp_path / "in.jsonl",
        [line("0.3.0", model, at) for model in ("Org/A", "org_b") for at in range(5)],
    )
    fastrec.normalize(shard, tmp_path / "corpus")
    run([shard], tmp_path / "shards", make_options(map=names))
    run([tmp_path / "corpus"], tmp_path / "trusted", make_options(map=names))
    run([tmp_path / "corpus"], tmp_path / "judged", make_options(map=names, judge=True))
    run([tmp_path / "corpus"], tmp_path / "night", make_options(map=names, incremental=True))
    assert (
        contents(tmp_path / "trusted")
        == contents(tmp_path / "judged")
        == contents(tmp_path / "night")
    )
    lines = audited(tmp_path / "shards").lines
    assert audited(tmp_path / "trusted").lines == lines
    run([tmp_path / "trusted"], tmp_path / "again", make_options(map=names))
    assert audited(tmp_path / "again").lines == lines


def test_records_that_become_equal_are_duplicates(tmp_path: Path, names: Path) -> None:
    lines = [line("0.2.0", "Org/A"), line("0.2.0", "org/a")]
    assert (
        fastrec.normalize(
            write(tmp_path / "in.jsonl", lines), tmp_path / "out", map=names
        ).line_counts.duplicates
        == 1
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[model]\n", "expected [models], [evaluations], [metrics]"),
        ("[models]\na = 5", "expected a name in quotes"),
        ('[models]\n"a*" = "*/*"', "expected no more * than in the old name"),
        ("[models", "are not TOML"),
        (None, "No such file"),
    ],
)
def test_a_wrong_map_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / "names.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        make_options(map=tmp_path / "names.toml")
    assert reason in str(caught.value)


def test_keep_names_needs_a_map() -> None:
    with pytest.raises(UsageError, match="needs --map"):
        make_options(keep_names=True)


# The map of names that the converters of Every Eval Ever write

OF_FASTREC = {  # names by the converters: names by `fastrec import`
    ("gsm8k", "acc"): ("gsm8k", "acc"),
    ("gsm8k/strict-match", "exact_match:strict-match"): ("gsm8k", "exact_match:strict-match"),
    ("org/gsm8k/none.*", "exact_match:none.*"): ("org/gsm8k", "exact_match:none.*"),
    ("arc", "match:accuracy"): ("arc", "match"),
    ("arc", "choice:mean"): ("arc", "choice"),
    ("inspect_evals/gaia", "gaia_scorer:inspect_ai/accuracy"): (
        "inspect_evals/gaia",
        "gaia_scorer",
    ),
    ("mmlu", "exact_match:test"): ("mmlu", "exact_match:test"),
    ("leaderboard/math", "acc"): ("leaderboard/math", "acc"),
    ("a/", "acc"): ("a/", "acc"),
}


def scored(evaluation: str, metric: str | None, **changes: Any) -> bytes:
    record = sample_of("0.3.0", evaluation_name=evaluation, evaluation_result_id=metric, **changes)
    if metric is None:
        del record["evaluation_result_id"]
    return json.dumps(record).encode()


def test_records_of_both_converters_join(tmp_path: Path) -> None:
    """The same logs by both: every record is there twice. Rules of ours may match nothing."""
    lines = [scored(*names) for both in OF_FASTREC.items() for names in both]
    shard = write(tmp_path / "in.jsonl", [*lines, scored("none", None)])
    result = run([shard], tmp_path / "out", make_options(map="eee"))
    assert result.summary.line_counts.duplicates == len(OF_FASTREC)
    assert not result.notices
    found = [json.loads(text) for text in audited(tmp_path / "out").lines]
    assert {(one["evaluation_name"], one.get("evaluation_result_id")) for one in found} == {
        *OF_FASTREC.values(),
        ("none", None),
    }


def test_the_metrics_of_a_scorer_are_one(tmp_path: Path) -> None:
    """The converter of Inspect repeats a score for each metric; --keep-names keeps their names."""
    lines = [scored("arc", f"match:{metric}") for metric in ("accuracy", "mean", "std")]
    shard = write(tmp_path / "in.jsonl", lines)
    assert fastrec.normalize(shard, tmp_path / "a", map="eee").line_counts.kept == 1
    kept = fastrec.normalize(shard, tmp_path / "b", map="eee", keep_names=True)
    assert kept.line_counts.kept == 3


def test_several_maps(names: Path) -> None:
    """Rules of all of them, in the order given; a file of the name of a map needs its folder."""
    first, *others = make_options(map=["eee", names]).map
    assert first.old == "*/{variant}"
    assert [*make_options(map=names).map] == others[-5:]
    assert make_options(map=[names]).map == make_options(map=names).map
    with pytest.raises(UsageError, match="cannot be read"):
        make_options(map="./eee")


@pytest.mark.parametrize("version", ["0.2.0", "0.3.0"])
def test_a_variant_of_no_metric_matches_nothing(tmp_path: Path, version: str) -> None:
    """Records without a metric, or whose metric has no variant, keep their names."""
    record = sample_of(version, evaluation_name="a/")
    shard = write(tmp_path / "in.jsonl", [json.dumps(record).encode()])
    run([shard], tmp_path / "out", make_options(map="eee"))
    assert json.loads(audited(tmp_path / "out").lines[0])["evaluation_name"] == "a/"


@pytest.mark.parametrize("version", ["0.2.0", "0.3.0"])
def test_the_order_of_lines_does_not_decide_the_variant(tmp_path: Path, version: str) -> None:
    """A corpus without metrics has no variants, whatever unknown keys its records have."""
    named = {"evaluation_name": "sums/strict"}
    lines = [
        scored("sums/strict", "exact_match:strict", sample_id=str(number)) for number in range(3)
    ]
    if version == "0.2.0":
        lines = [
            json.dumps(
                sample_of(version, evaluation_result_id="match:strict", sample_id=str(n), **named)
            ).encode()
            for n in range(3)
        ]
    other = json.loads(lines[0]) | {"evaluation_result_id": "match", "sample_id": "x"}
    made = set()
    for place in (0, 3):
        ordered = [*lines[:place], json.dumps(other).encode(), *lines[place:]]
        shard = write(tmp_path / f"{place}.jsonl", ordered)
        run([shard], tmp_path / str(place), make_options(map="eee", schema=version))
        made.add(tuple(audited(tmp_path / str(place)).lines))
    [found] = made
    of_other = [json.loads(text) for text in found if json.loads(text)["sample_id"] == "x"]
    assert [one["evaluation_name"] for one in of_other] == ["sums/strict"]


def test_a_variant_needs_no_other_pattern(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text('[evaluations]\n"sums_{variant}" = "sums"\n')
    shard = write(tmp_path / "in.jsonl", [scored("sums_strict", "exact_match:strict")])
    result = run([shard], tmp_path / "out", make_options(map=tmp_path / "map.toml"))
    assert not result.notices
    assert json.loads(audited(tmp_path / "out").lines[0])["evaluation_name"] == "sums"
