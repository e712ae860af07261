"""`check-pairs`: every finding about a pair of files, and trees without any."""

from __future__ import annotations

import doctest
import hashlib
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fastrec
from fastrec.commands import check_pairs as scores
from fastrec.commands.check_pairs import files as names
from fastrec.commands.check_pairs.rows import Tally
from fastrec.errors import UsageError
from fastrec.judge.findings import PAIRS, FindingGroup
from fastrec.limits import Limits, use_limits
from fastrec.sources.formats import Format
from tests.check_pairs.trees import (
    MODEL_ID,
    SUFFIXES,
    UUID,
    UUIDS,
    Tree,
    aggregate,
    codes_of,
    model_info,
    result,
    row,
    rows,
    text_of,
)
from tests.samples import sample, sample_of
from tests.sources.compressing import compressed


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def only_group(tree: Tree) -> FindingGroup:
    (group,) = tree.check().groups
    return group


# Trees without findings


@pytest.mark.parametrize("format_", SUFFIXES, ids=lambda one: one.value)
def test_a_clean_tree_has_no_findings(tree: Tree, format_: Format) -> None:
    """The checksum is of the bytes on disk.

    Compressed files are read, too, but the data store takes plain ones only.
    """
    for uuid in UUIDS[:3]:
        tree.add(uuid=uuid, format_=format_)
    found = tree.check()
    assert found.codes == ({} if format_ is Format.PLAIN else {"name.compressed": 3})
    assert (found.aggregates, found.samples, found.pairs, found.rows) == (3, 3, 3, 12)
    assert (found.results, found.reproduced, found.different, found.not_compared) == (3, 3, 0, {})


def test_an_aggregate_without_samples_is_fine(tree: Tree) -> None:
    """Most aggregates are numbers from a leaderboard."""
    tree.write(aggregate())
    found = tree.check()
    assert found.ok
    assert (found.aggregates, found.samples, found.pairs, found.results) == (1, 0, 0, 0)


def test_upper_case_checksums(tree: Tree) -> None:
    """Hexadecimal digits have no case."""
    text = text_of(rows())
    tree.add(text, stated={"checksum": hashlib.sha256(text).hexdigest().upper()})
    assert tree.codes() == {}


def test_what_is_not_stated_is_counted(tree: Tree) -> None:
    """Checksum and number of rows are optional by the schema."""
    tree.add(stated={"checksum": ..., "hash_algorithm": ..., "total_rows": ...})
    found = tree.check()
    assert found.ok
    assert (found.without_checksum, found.without_total_rows) == (1, 1)


def test_line_separators_inside_of_texts_are_no_line_ends(tree: Tree) -> None:
    """U+2028, U+2029 and U+0085, which other tools split lines at; also \\r."""
    odd = "a\u2028b\u2029c\u0085d\x0b\x0c\x1c"
    lines = [
        row(number, 1.0, input={"raw": odd, "reference": [odd]}, sample_id=f"{odd}{number}")
        for number in range(3)
    ]
    text = text_of(lines)
    assert "\u2028".encode() in text
    tree.add(text.replace(b"\n", b"\r\n"), result(1.0), stated={"total_rows": 3})
    found = tree.check()
    assert found.ok
    assert found.rows == 3


@pytest.mark.parametrize("chunk_bytes", [100, 1 << 20])
def test_blank_lines_are_found(tree: Tree, chunk_bytes: int) -> None:
    """The data store refuses them; they are no rows."""
    first, *others = text_of(rows()).splitlines(keepends=True)
    tree.add(first + b"\n \t\r\n" + b"".join(others) + b"\n", stated={"total_rows": 4})
    with use_limits(Limits(chunk_bytes=chunk_bytes)):
        found = tree.check()
    assert (found.codes, found.rows, found.reproduced) == ({"pair.blank_line": 3}, 4, 1)
    assert [place.line for place in found.groups[0].locations] == [2, 3, 7]


def test_rows_of_all_versions(tree: Tree) -> None:
    """Earlier versions have no `evaluation_result_id`: their rows are joined by name."""
    common = {"evaluation_id": "e", "model_id": "m", "evaluation_name": "n"}
    for uuid, version in zip(UUIDS, ("0.2.0", "0.2.0-released", "0.2.1"), strict=False):
        lines = [
            sample_of(version, **common, evaluation={"score": score, "is_correct": True})
            for score in (0.5, 0.7)
        ]
        for line in lines:
            del line["sample_hash"]
        results = result(0.6, None, "n"), result(0.1, None, "o")
        tree.add(lines, *results, uuid=uuid, evaluation_id="e", model_info=model_info("m"))
    found = tree.check()
    assert found.codes == {"pair.old_version": 4, "pair.model_folder": 3}
    assert (found.reproduced, found.not_compared) == (3, {"no rows": 3})


def test_other_files_are_ignored_and_counted(tree: Tree) -> None:
    """Manifests, indexes and other JSON files; hidden ones are not seen at all."""
    tree.add()
    for name, text in {
        "manifest.json": '{"files": {}}',
        "list.json": "[1, 2]",
        "broken.json": "{",
        "empty.json": "",
        "deep.json": "[" * 100_000,
        "entries.jsonl": "{}\n",
        ".hidden.json": "{",
        "README.md": "text",
        ".git/x_samples.jsonl": "{}",
    }.items():
        path = tree.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found = tree.check()
    assert found.ok
    assert (found.aggregates, found.ignored) == (1, 6)


def test_any_folder_of_the_tree_can_be_checked(tree: Tree) -> None:
    """From the root down to the folder of a model, by absolute and relative paths, and twice."""
    tree.add()
    for where in (
        ".",
        "data",
        "data/gsm8k",
        "data/gsm8k/org",
        "data/gsm8k/org/model",
        "data/gsm8k/org/model/",
    ):
        assert tree.check(where).pairs == 1
        assert tree.codes(where) == {}
    before = Path.cwd()
    os.chdir(tree.folder)
    try:
        assert fastrec.check_pairs(".").codes == {}
        assert fastrec.check_pairs([".", "../../..", tree.root]).pairs == 1
    finally:
        os.chdir(before)


# Partners


def test_the_samples_file_is_missing(tree: Tree) -> None:
    path = tree.add()
    path.with_name(f"{UUID}_samples.jsonl").unlink()
    group = only_group(tree)
    assert group.code == "pair.no_samples"
    assert group.message == f"expected {UUID}_samples.jsonl in the same folder, found no such file"
    assert [(one.source, one.line) for one in group.locations] == [(str(path), 1)]


def test_the_aggregate_is_missing(tree: Tree) -> None:
    """Rows without an aggregate are still judged."""
    tree.add([row(0), {}]).unlink()
    found = tree.check()
    assert found.codes == {"pair.no_aggregate": 1, "pair.invalid_row": 1}
    assert (found.aggregates, found.pairs, found.rows) == (0, 0, 2)


def test_the_samples_file_is_not_stated(tree: Tree) -> None:
    """The rows are compared with the aggregate nevertheless."""
    tree.add(rows(1.0, 1.0), detailed_evaluation_results=None)
    assert tree.codes() == {"pair.not_stated": 1, "pair.score": 1}


def test_only_one_variant_is_allowed(tree: Tree) -> None:
    """If there are several samples files, the plain one is compared."""
    path = tree.add()
    for suffix in (".gz", ".zst"):
        path.with_name(f"{UUID}_samples.jsonl{suffix}").write_bytes(b"")
    (group,) = [group for group in tree.check().groups if group.severity == "error"]
    assert group.code == "pair.several_samples"
    assert group.message.count("_samples.jsonl") == 3
    assert tree.check().samples == 3


def test_samples_in_another_folder(tree: Tree) -> None:
    """A partner has to be in the same folder, whatever `file_path` says."""
    path = tree.add(stated={"file_path": f"data/gsm8k/org/other/{UUID}_samples.jsonl"})
    other = tree.folder.with_name("other")
    other.mkdir()
    path.with_name(f"{UUID}_samples.jsonl").rename(other / f"{UUID}_samples.jsonl")
    assert tree.codes() == {"pair.no_samples": 1, "pair.file_path": 1, "pair.no_aggregate": 1}


# What the aggregate states


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"file_path": f"data/mmlu/org/model/{UUID}_samples.jsonl"}, "pair.file_path"),
        ({"file_path": f"data/gsm8k/org/model/{UUIDS[1]}_samples.jsonl"}, "pair.file_path"),
        ({"file_path": f"/data/gsm8k/org/model/{UUID}_samples.jsonl"}, "pair.file_path"),
        ({"file_path": f"data/gsm8k/org/model/../model/{UUID}_samples.jsonl"}, "pair.file_path"),
        ({"file_path": f"data/gsm8k/org/model/{UUID}_samples.jsonl.zst"}, "pair.file_path"),
        ({"file_path": ""}, "pair.file_path"),
        ({"file_path": "data"}, "pair.file_path"),
        ({"file_path": f"{UUID}_samples.jsonl"}, "pair.file_path"),
        ({"file_path": f"./{UUID}_samples.jsonl"}, "pair.file_path"),
        ({"format": "json"}, "pair.format"),
        ({"hash_algorithm": "sha1"}, "pair.hash_algorithm"),
        ({"hash_algorithm": ...}, "pair.hash_algorithm"),
        ({"checksum": "0" * 64}, "pair.checksum"),
        ({"checksum": ""}, "pair.checksum"),
        ({"checksum": "x" * 100_000}, "pair.checksum"),
        ({"hash_algorithm": "md5"}, "pair.hash_algorithm"),
        ({"hash_algorithm": None}, "pair.hash_algorithm"),
        ({"total_rows": 5}, "pair.total_rows"),
        ({"total_rows": 0}, "pair.total_rows"),
        ({"total_rows": -1}, "pair.total_rows"),
        ({"total_rows": "4"}, "pair.aggregate"),
        ({"total_rows": 4.5}, "pair.aggregate"),
        ({"checksum": 7}, "pair.aggregate"),
        ({"file_path": ...}, "pair.aggregate"),
    ],
)
def test_statements_about_the_samples_file(tree: Tree, stated: dict[str, Any], code: str) -> None:
    path = tree.add(stated=stated)
    group = only_group(tree)
    assert (group.code, group.count, group.locations[0].source) == (code, 1, str(path))
    assert group.path.startswith("$.detailed_evaluation_results")
    assert len(group.message) < 300


def test_a_compressed_samples_file_has_the_plain_name_in_its_aggregate(tree: Tree) -> None:
    stated = {"file_path": f"data/gsm8k/org/model/{UUID}_samples.jsonl.gz"}
    tree.add(format_=Format.GZIP, stated=stated)
    assert tree.codes() == {"pair.file_path": 1}


def test_a_changed_byte_is_noticed(tree: Tree) -> None:
    """The rows stay valid, and their number and ids the same."""
    path = tree.add().with_name(f"{UUID}_samples.jsonl")
    path.write_bytes(path.read_bytes().replace(b"6 x 7", b"6 x 8", 1))
    assert tree.codes() == {"pair.checksum": 1}


def test_a_missing_row_is_noticed(tree: Tree) -> None:
    path = tree.add().with_name(f"{UUID}_samples.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert tree.codes() == {"pair.checksum": 1, "pair.total_rows": 1, "pair.score": 1}


@pytest.mark.each_value
@pytest.mark.parametrize("text", [b"", b"\n\n", b" \t\r\n"])
@pytest.mark.parametrize("format_", [Format.PLAIN, Format.GZIP])
def test_there_must_be_a_row(tree: Tree, text: bytes, format_: Format) -> None:
    tree.add(text, format_=format_)
    found = tree.check()
    blank = {"pair.blank_line": text.count(b"\n")} if text else {}
    assert codes_of(found) == {"pair.no_rows": 1, **blank}
    assert found.not_compared == {"no rows": 1}


# Rows


def test_rows_that_are_no_records(tree: Tree) -> None:
    """They are counted, with the first error of each; scores are not compared then."""
    bad = [row(1, model_id=7), row(2, model_id=8), row(3, evaluation={"score": 1.0})]
    tree.add(text_of([row(0), *bad]) + b"[\n\xff\n")
    found = tree.check()
    assert found.codes == {"pair.invalid_row": 5}
    assert (found.rows, found.invalid, found.not_compared) == (6, 5, {"invalid rows": 1})
    (group,) = [one for one in found.groups if one.path == "$.model_id"]
    assert group.message == "expected a string, found the integer 7 [schema.type]"
    assert [one.line for one in group.locations] == [2, 3]
    assert group.locations[0].source.endswith(f"{UUID}_samples.jsonl")


def test_ids_of_rows(tree: Tree) -> None:
    """Each wrong id is one finding, with its line."""
    lines = rows(1, 1, 1, 1, 1)
    lines[1]["evaluation_id"] = "other"
    lines[2]["model_id"] = "org/Model"
    lines[3] |= {"evaluation_id": "", "model_id": "x" * 1_000}
    tree.add(lines, result(1.0))
    found = tree.check()
    assert found.codes == {"pair.evaluation_id": 2, "pair.model_id": 2}
    ids, models = sorted(found.groups, key=lambda group: group.code)
    assert [one.line for one in ids.locations] == [2, 4]
    assert [one.line for one in models.locations] == [3, 4]
    assert models.message == f'expected "{MODEL_ID}", found "org/Model"'


def test_results_of_rows(tree: Tree) -> None:
    """An unknown id is a finding, even if the name fits."""
    lines = [
        *rows(1, 1),
        *rows(1, result="gsm8k#f1"),
        *rows(1, result=""),
        *rows(1, 1, result=None),
    ]
    tree.add(lines, result(1.0))
    found = tree.check()
    assert found.codes == {"pair.unknown_result": 2}
    assert [one.line for one in found.groups[0].locations] == [3, 4]
    assert found.reproduced == 1


def test_rows_are_joined_by_id_then_name_then_if_there_is_one_result(tree: Tree) -> None:
    """The score tells which result a row was joined with."""
    first = result(1.0, "a", "gsm8k")
    second = result(0.0, "b", "mmlu")
    by_id = [*rows(1, result="a"), *rows(0, result="b")]
    by_name = [*rows(1, result=None), *rows(0, result=None, evaluation_name="mmlu")]
    tree.add([*by_id, *by_name], first, second)
    tree.add(
        rows(1, result=None, evaluation_name="other name"),
        result(1.0, None, "a sentence"),
        uuid=UUIDS[1],
    )
    found = tree.check()
    assert found.ok
    assert found.reproduced == 3


def test_rows_that_fit_several_results_or_none(tree: Tree) -> None:
    several = [result(1.0, "a"), result(1.0, "b")]
    tree.add(
        [
            *rows(1, result="a"),
            *rows(1, 1, result=None),
            *rows(1, result=None, evaluation_name="?"),
        ],
        *several,
    )
    found = tree.check()
    assert found.codes == {"pair.several_results": 2, "pair.no_result": 1}
    assert {group.code: group.severity for group in found.groups} == {
        "pair.several_results": "warning",
        "pair.no_result": "error",
    }


def test_result_ids_in_records_of_earlier_versions(tree: Tree) -> None:
    """There it is an unknown key, which records of the slow path lack; only a string is an id."""
    results = result(1.0, "a", "n"), result(1.0, None, "n"), result(0.0, "c", "n")
    common = {"evaluation_id": "e", "model_id": "m", "evaluation_name": "n"}
    lines = []
    for number, more in enumerate(
        [{"evaluation_result_id": "a"}, {"evaluation_result_id": "c"}, {}] * 4
    ):
        score = 0 if more == {"evaluation_result_id": "c"} else 1
        lines.append(
            sample(**common, sample_id=number, evaluation={"score": score, "is_correct": True})
            | more
        )
    lines += [sample(**common, evaluation_result_id=odd) for odd in (None, [1], {"a": 1}, 7)]
    lines += [sample(**common, evaluation_result_id=f"unknown {number}") for number in range(3)]
    for line in lines:
        line.pop("sample_hash", None)
    tree.add(lines, *results, evaluation_id="e", model_info=model_info("m"))
    found = tree.check()
    assert found.invalid == 0
    assert codes_of(found) == {"pair.unknown_result": 3}
    assert (found.reproduced, found.not_compared) == (3, {})


def test_rows_with_and_without_a_metric(tree: Tree) -> None:
    """Rows without an id belong to the only result of their name that has none, or else to several."""
    with_id = result(1.0, "a")
    without_id = result(0.0, None)
    lines = [*rows(1, 1, result="a"), *rows(0, 0, result=None)]
    tree.add(lines, with_id, without_id)
    found = tree.check()
    assert (found.codes, found.reproduced) == ({}, 2)
    tree.add(lines, with_id, without_id, without_id)
    assert tree.codes() == {"pair.several_results": 2}


def test_an_aggregate_without_results(tree: Tree) -> None:
    tree.add([*rows(1), *rows(1, result=None)], evaluation_results=[])
    assert tree.codes() == {"pair.unknown_result": 1, "pair.no_result": 1}


def test_results_with_the_same_id(tree: Tree) -> None:
    """Rows are joined with the first of them."""
    tree.add(None, result(), result(0.1), result(0.2))
    found = tree.check()
    assert found.codes == {"pair.duplicate_result": 2}
    assert (found.reproduced, found.not_compared) == (1, {"no rows": 2})


# What the data store refuses in an aggregate


@pytest.mark.parametrize("value", [..., None, "us", []])
def test_an_aggregate_says_where_it_comes_from(tree: Tree, value: Any) -> None:
    """The rest of the pair is compared nevertheless."""
    path = tree.add()
    document = json.loads(path.read_text())
    del document["source_metadata"]
    tree.write(document if value is ... else {**document, "source_metadata": value})
    found = tree.check()
    assert (found.codes, found.reproduced) == ({"pair.source_metadata": 1}, 1)
    assert found.groups[0].path == "$.source_metadata"


@pytest.mark.parametrize(
    ("score", "bounds", "codes"),
    [
        (0.75, {"min_score": 1, "max_score": 0}, {"pair.bounds": 1}),
        (0.75, {"min_score": "Infinity", "max_score": 0}, {"pair.bounds": 1}),
        (0.75, {"min_score": 0.75, "max_score": 0.75}, {}),
        (0.75, {"min_score": "-Infinity", "max_score": "Infinity"}, {}),
        (0.75, {"min_score": None, "max_score": None}, {"pair.schema": 2}),
        (0.75, {"min_score": None, "max_score": None, "score_type": None}, {}),
        (0.75, {"min_score": 0, "max_score": "one"}, {"pair.schema": 1}),
        (0.75, {"min_score": "-inf", "max_score": "NaN"}, {"pair.schema": 2}),
        (0.75, {"min_score": 0, "max_score": True}, {"pair.aggregate": 1}),
        (0.75, {"min_score": 0, "max_score": 0.5}, {"pair.out_of_bounds": 1}),
        (
            0.75,
            {"min_score": None, "max_score": 0.5, "score_type": None},
            {"pair.out_of_bounds": 1},
        ),
        (0.75, {"min_score": 0.8, "max_score": "Infinity"}, {"pair.out_of_bounds": 1}),
    ],
)
def test_scores_are_within_their_bounds(
    tree: Tree, score: float, bounds: dict[str, Any], codes: dict[str, int]
) -> None:
    """An aggregate without rows has such mistakes, too."""
    tree.add(None, result(score, **bounds))
    assert tree.codes() == codes
    tree.write(aggregate(result(score, **bounds)), UUIDS[1])
    assert tree.codes() == {code: 2 * count for code, count in codes.items()}


KNOWN = {"deployment_type": "self_deployed", "model_availability": "open_weights"}


@pytest.mark.parametrize(
    ("details", "findings"),
    [
        (KNOWN, []),
        (KNOWN | {"deployment_type": "unknown"}, [("pair.unknown_deployment", "deployment_type")]),
        (KNOWN | {"deployment_type": "cloud"}, [("pair.deployment", "deployment_type")]),
        (
            {"deployment_type": None, "model_availability": "Open"},
            [("pair.deployment", "deployment_type"), ("pair.deployment", "model_availability")],
        ),
        (KNOWN | {"deployment_type": ["unknown"]}, [("pair.deployment", "deployment_type")]),
        (
            {"other": "cloud"},
            [("pair.deployment", "deployment_type"), ("pair.deployment", "model_availability")],
        ),
        (None, [("pair.schema", "additional_details")]),
    ],
)
def test_deployment_values(tree: Tree, details: Any, findings: list[tuple[str, str]]) -> None:
    tree.add(model_info={"name": "model", "id": MODEL_ID, "additional_details": details})
    groups = tree.check().groups
    found = [(group.code, group.path.rpartition(".")[2]) for group in groups]
    assert sorted(found) == findings


def judged_by(judges: Any, **fields: Any) -> dict[str, Any]:
    return result(llm_scoring={"judges": judges, "input_prompt": "Is it right?"} | fields)


JUDGE = {"model_info": model_info("org/judge")}


def with_source(**fields: Any) -> dict[str, Any]:
    return result() | {"source_data": {"dataset_name": "gsm8k", **fields}}


def with_spread(**fields: Any) -> dict[str, Any]:
    made = result()
    made["score_details"]["uncertainty"] = fields
    return made


@pytest.mark.parametrize(
    ("made", "code", "path"),
    [
        (judged_by([JUDGE]), None, ""),
        (judged_by([]), "pair.schema", "metric_config.llm_scoring.judges"),
        (judged_by([{}]), "pair.schema", "metric_config.llm_scoring.judges[0].model_info"),
        (
            judged_by([{"model_info": model_info("j", deployment_type="cloud")}]),
            "pair.deployment",
            "metric_config.llm_scoring.judges[0].model_info.additional_details.deployment_type",
        ),
        (
            judged_by([JUDGE], input_prompt=None),
            "pair.schema",
            "metric_config.llm_scoring.input_prompt",
        ),
        (with_source(source_type="url", url=["https://example.com"]), None, ""),
        (with_source(source_type="url", url=[]), "pair.source_data", "source_data"),
        (with_source(source_type="url"), "pair.source_data", "source_data"),
        (with_source(), "pair.source_data", "source_data"),
        (result() | {"source_data": None}, "pair.source_data", "source_data"),
        (with_source(source_type="other", additional_details={"n": "1"}), None, ""),
        (
            with_source(source_type="other", additional_details={"n": 1}),
            "pair.source_data",
            "source_data",
        ),
        (
            result(additional_details={"n": 1}),
            "pair.schema",
            "metric_config.additional_details.n",
        ),
        (
            result(additional_details={"n": None}),
            "pair.schema",
            "metric_config.additional_details.n",
        ),
        (with_spread(standard_error={"value": 0.25}, standard_deviation=None), None, ""),
        (
            with_spread(standard_deviation="0.1"),
            "pair.schema",
            "score_details.uncertainty.standard_deviation",
        ),
        (
            with_spread(confidence_interval={"lower": 0}),
            "pair.schema",
            "score_details.uncertainty.confidence_interval.upper",
        ),
        (result(metric_id="accuracy"), None, ""),
        (result(metric_id=" Score"), "pair.generic_metric", "metric_config.metric_id"),
        (result(metric_id="GSM8K "), "pair.generic_metric", "metric_config.metric_id"),
        (result(score_type="graded"), "pair.schema", "metric_config.score_type"),
        (
            result(score_type="levels", level_names=["a"]),
            "pair.schema",
            "metric_config.has_unknown_level",
        ),
    ],
)
def test_what_the_data_store_says_about_results(
    tree: Tree, made: dict[str, Any], code: str | None, path: str
) -> None:
    tree.add(None, made)
    found = [(group.code, group.path) for group in tree.check().groups]
    assert found[:1] == ([(code, f"$.evaluation_results[0].{path}")] if code else [])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"schema_version": None}, "pair.schema"),
        ({"eval_library": {"name": "mine"}}, "pair.schema"),
        ({"retrieved_timestamp": 1717200000}, "pair.schema"),
        ({"notes": "x"}, "pair.schema"),
        ({"evaluation_timestamp": None}, None),
        ({"model_info": model_info(MODEL_ID, note=7)}, "pair.schema"),
        ({"model_info": model_info(MODEL_ID, note="7")}, None),
    ],
)
def test_aggregates_are_valid_by_their_schema(
    tree: Tree, changes: dict[str, Any], code: str | None
) -> None:
    tree.add(**changes)
    assert list(tree.codes()) == [code] * bool(code)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"evaluation_id"', '"retrieved_timestamp": "1", "evaluation_id"', "duplicate_key"),
        ('"schema_version"', '"x": {"y": 1, "y": 1}, "schema_version"', "duplicate_key"),
        ('"score": 0.75', '"score": 0.75, "uncertainty": {"standard_deviation": NaN}', "number"),
        ('"score": 0.75', '"score": 0.75, "uncertainty": {"value": 1e999}', "number"),
        ('"schema_version"', '"x": 1e999, "schema_version"', "json.number"),
    ],
)
def test_aggregates_are_strict_json(tree: Tree, old: str, new: str, code: str) -> None:
    """The same key twice, and numbers that are not finite, also in fields that no check needs."""
    path = tree.add()
    path.write_text(path.read_text().replace(old, new, 1))
    group = only_group(tree)
    assert group.code == "pair.aggregate"
    assert code in group.message


def test_a_large_aggregate_has_one_error_of_its_schema(tree: Tree) -> None:
    """A list of all would take a thousand times the memory."""
    tree.write(aggregate(*[result(score_type="graded")] * 1_000))
    assert tree.codes()["pair.schema"] == 1
    tree.write(aggregate(*[result(None, score_type="graded")] * 3))
    assert tree.codes() == {"pair.aggregate": 1}


@pytest.mark.parametrize(
    ("info", "folder", "is_right"),
    [
        (model_info("org/model"), "org/model", True),
        (model_info("org/family/model:7b"), "org/family_model_7b", True),
        (model_info("solo") | {"developer": "org"}, "org/solo", True),
        (model_info("org/model") | {"developer": "Org Inc."}, "org/model", True),
        (model_info("org/Model"), "org/model", False),
        (model_info("solo"), "org/solo", False),
        (model_info("solo") | {"developer": 7}, "org/solo", False),
        (model_info("/etc/x"), "org/model", False),
    ],
)
def test_the_folder_of_a_model(
    tmp_path: Path, info: dict[str, Any], folder: str, is_right: bool
) -> None:
    """It follows from the id; of the flat layout and of copies, nothing is known."""
    tree = Tree(tmp_path, "data", "gsm8k", *folder.split("/"))
    tree.write(aggregate(model_info=info))
    assert ("pair.model_folder" in tree.check().codes) is not is_right
    copy = Tree(tmp_path, "copy", *folder.split("/"))
    copy.write(aggregate(model_info=info))
    assert "pair.model_folder" not in tree.check("copy").codes


def test_warnings_and_errors_are_counted(tree: Tree) -> None:
    tree.add(None, result(metric_id="score"), result(0.9, "b"), result(0.9, "b"))
    found = tree.check()
    assert (found.errors, found.warnings) == (1, 1)


# Aggregates that cannot be used


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"evaluation_id": "e"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"evaluation_results": NaN}',
        b'{"evaluation_results": 1e999}',
        b'{"evaluation_id": "\\ud800", "evaluation_results": []}',
        json.dumps(aggregate(evaluation_id=7)).encode(),
        json.dumps(aggregate(evaluation_id=None)).encode(),
        json.dumps(aggregate(model_info={})).encode(),
        json.dumps(aggregate(model_info="org/model")).encode(),
        json.dumps(aggregate(evaluation_results={})).encode(),
        json.dumps(aggregate(evaluation_results=[7])).encode(),
        json.dumps(aggregate({})).encode(),
        json.dumps(aggregate(result("0.75"))).encode(),
        json.dumps(aggregate(result(None))).encode(),
        json.dumps(aggregate(result(True))).encode(),
        json.dumps(aggregate(result(float("nan")))).encode(),
        json.dumps(aggregate(result([1]))).encode(),
        json.dumps(aggregate(result(), result(0.5, 7))).encode(),  # type: ignore[arg-type]
        json.dumps(aggregate(detailed_evaluation_results=[])).encode(),
    ],
)
def test_an_aggregate_that_cannot_be_used(tree: Tree, text: bytes) -> None:
    """By its name or its partner it must be an aggregate. The rows are judged."""
    tree.add([row(0), {}]).write_bytes(text)
    found = tree.check()
    assert found.codes == {"pair.aggregate": 1, "pair.invalid_row": 1}
    assert found.groups[0].message
    assert (found.aggregates, found.ignored, found.bad_files) == (1, 0, [])


def test_a_huge_json_file_is_not_read(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregate has some kilobytes."""
    monkeypatch.setattr("fastrec.commands.check_pairs.rows._LARGEST", 100)
    tree.add()
    (tree.folder / "dump.json").write_text(json.dumps(aggregate()))
    found = tree.check()
    assert found.codes == {"pair.aggregate": 1}
    assert found.ignored == 1


# Files that cannot be read


@pytest.mark.each_value
@pytest.mark.parametrize(
    "format_", [Format.ZSTD, Format.GZIP, Format.BZ2, Format.XZ], ids=lambda one: one.value
)
@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
def test_a_damaged_samples_file(tree: Tree, format_: Format, cut: float) -> None:
    """It is named with the reason; the others are checked. None of its rows count."""
    path = tree.add(format_=format_).with_name(f"{UUID}_samples.jsonl{SUFFIXES[format_]}")
    data = compressed(format_, text_of(rows(*[1.0] * 50)))
    path.write_bytes(data[: int(len(data) * cut)])
    tree.add(uuid=UUIDS[1])
    found = tree.check()
    assert not found.ok
    assert len(found.bad_files) == 1
    assert found.bad_files[0].startswith(str(path))
    assert codes_of(found) == {"pair.checksum": 1}
    assert (found.pairs, found.rows) == (1, 4)


def test_links_to_nowhere_and_pipes(tree: Tree) -> None:
    """Neither can be read; a pipe would never end."""
    tree.add()
    (tree.folder / f"{UUIDS[1]}.json").symlink_to("nowhere")
    (tree.folder / f"{UUIDS[2]}_samples.jsonl").symlink_to("nowhere")
    os.mkfifo(tree.folder / f"{UUIDS[3]}_samples.jsonl")
    found = tree.check()
    assert len(found.bad_files) == 3
    assert found.codes == {}
    assert found.pairs == 1


@pytest.mark.parametrize("order", [1, -1])
def test_an_empty_directory_beside_one_with_a_bad_file(
    tree: Tree, tmp_path: Path, order: int
) -> None:
    """It is an error, in whatever order the two are given."""
    (tree.folder / f"{UUID}.json").symlink_to("nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match="empty: the directory has no"):
        fastrec.check_pairs([tree.folder, empty][::order])


# Work in parallel


def test_results_do_not_depend_on_jobs_and_slices(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices of a large samples file add up, with the right line numbers."""
    scores = [number % 7 / 7 for number in range(400)]
    lines = rows(*scores, result="a")
    for number in (3, 250, 399):
        lines[number]["model_id"] = "other"
    lines[300] = {}
    wrong = result(0.9, "a")
    right = result(sum(scores) / 400, "a")
    tree.add(lines, wrong)
    tree.add(rows(*scores, result="a"), right, uuid=UUIDS[1])
    tree.add(rows(*scores, result="a"), wrong, uuid=UUIDS[2], format_=Format.ZSTD)
    expected = tree.check()
    assert codes_of(expected) == {"pair.model_id": 3, "pair.invalid_row": 1, "pair.score": 1}
    monkeypatch.setattr("fastrec.sources.shard._SMALLEST", 4_000)
    for jobs in (1, 2):
        found = use_limits(Limits(task_bytes=20_000, small_input=0, chunk_bytes=3_000))(tree.check)(
            jobs=jobs
        )
        found.seconds = expected.seconds
        assert found == expected
    (models,) = [group for group in expected.groups if group.code == "pair.model_id"]
    assert [one.line for one in models.locations] == [4, 251, 400]


def test_findings_are_held_in_groups(tree: Tree) -> None:
    """A thousand wrong rows are a few groups; further groups count by code only."""
    lines = [row(number, model_id=f"m{number}") for number in range(1_000)]
    tree.add(lines, result(1.0))
    found = tree.check()
    assert found.codes == {"pair.model_id": 1_000}
    assert [(group.count, len(group.locations)) for group in found.groups] == [(1_000, 3)]
    found = use_limits(Limits(finding_groups=0))(tree.check)()
    assert (found.codes, found.groups) == ({"pair.model_id": 1_000}, [])


def test_tallies_add_up() -> None:
    one = Tally(1, 0.5, 1)
    two = Tally(2, 1.0, 0)
    one += two
    assert one == Tally(3, 1.5, 1)


# Arguments


@pytest.mark.parametrize("directories", [[], "missing", ["data", "missing"]])
def test_wrong_arguments(tree: Tree, directories: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.add()
    monkeypatch.chdir(tree.root)
    with pytest.raises(UsageError):
        fastrec.check_pairs(directories)
    with pytest.raises(UsageError):
        fastrec.check_pairs("data", jobs=0)


def test_every_code_is_in_these_tests() -> None:
    """Each code of the table has a test in this folder."""
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [code for code in PAIRS if f'"{code}"' not in texts] == []


@pytest.mark.parametrize("module", [names, scores], ids=["names", "scores"])
def test_the_examples_in_docstrings_are_right(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert (results.attempted > 0, results.failed) == (True, 0)


def test_records_of_one_metric_need_no_result_id(tree: Tree) -> None:
    """Records of 0.2.0, as this project's default schema has them, join with the only result."""
    common = {"evaluation_id": "e", "model_id": "m"}
    lines = [
        sample(**common, sample_id=number, evaluation={"score": True, "is_correct": True})
        for number in range(3)
    ]
    for line in lines:
        del line["error"], line["sample_hash"]
    tree.add(lines, result(1), evaluation_id="e", model_info=model_info("m"))
    assert tree.codes() == {}


# Rows that others refuse, or that are there twice


@pytest.mark.parametrize(
    ("label", "changes", "codes"),
    [
        ("0.3.0", {}, {}),
        ("instance_level_eval_0.2.2", {}, {}),
        ("no-such-version", {}, {}),
        ("0.2.1", {}, {"pair.version": 1}),
        ("0.2.0", {}, {"pair.version": 1}),
    ],
)
def test_rows_are_of_the_version_of_their_label(
    tree: Tree, label: str, changes: dict[str, Any], codes: dict[str, int]
) -> None:
    tree.add([row(0), row(1, schema_version=label, **changes)], result(1.0))
    assert tree.codes() == codes


def test_an_integer_sample_id_labelled_as_newest_is_found(tree: Tree) -> None:
    """It is a valid record of 0.2.0, but others judge it by its label, and refuse it."""
    old = sample(
        evaluation_id=row(0)["evaluation_id"],
        model_id=MODEL_ID,
        evaluation_name="gsm8k",
        sample_id=7,
    )
    old |= {"evaluation": {"score": 1.0, "is_correct": True}, "schema_version": "0.3.0"}
    del old["error"], old["sample_hash"]
    tree.add([row(0), old], result(1.0))
    group = only_group(tree)
    assert (group.code, group.message) == (
        "pair.version",
        "expected a record of 0.3.0, found one of 0.2.0",
    )
    assert group.locations[0].line == 2


@pytest.mark.parametrize("small", [False, True])
def test_rows_that_are_there_twice_are_found(tree: Tree, small: bool) -> None:
    """Twice the rows have the same mean; they may be in different pieces of the file."""
    lines = [row(number, 1.0) for number in range(40)]
    tree.add([*lines, *lines], result(1.0))
    with use_limits(Limits(task_bytes=4_000, small_input=0)) if small else use_limits(Limits()):
        group = only_group(tree)
    assert group.code == "pair.duplicate_row"
    assert "40 of 80" in group.message


@pytest.mark.parametrize("version", ["0.2.0", "0.3.0"])
def test_wrong_sample_hashes_are_found(tree: Tree, version: str) -> None:
    """One that some recipe gives is right.

    A hash of another row is wrong, although that row is right.
    """
    make = {"0.2.0": sample, "0.3.0": lambda **fields: sample_of("0.3.0", **fields)}[version]
    ids = {"evaluation_id": "e", "model_id": MODEL_ID, "evaluation_name": "gsm8k"}
    scores = {"evaluation": {"score": 1.0, "is_correct": True}}
    lines = [make(**ids, **scores, sample_id=f"q-{number}") for number in range(4)]
    for number, line in enumerate(lines):
        line["input"] = {"raw": f"question {number}", "reference": line["input"]["reference"]}
        del line["error"], line["sample_hash"]
    right = fastrec.decode(json.dumps(lines[0])).sample_hash
    lines[0]["sample_hash"] = lines[2]["sample_hash"] = right
    lines[3]["sample_hash"] = "0" * 64
    tree.add(lines, result(1.0, lines[0].get("evaluation_result_id")), evaluation_id="e")
    found = tree.check()
    assert (codes_of(found), found.reproduced) == ({"pair.sample_hash": 2}, 1)
    (group,) = [group for group in found.groups if group.code == "pair.sample_hash"]
    assert [place.line for place in group.locations] == [3, 4]


@pytest.mark.parametrize(
    ("stated", "codes"),
    [
        (4, {}),
        (2, {}),
        (3, {"pair.num_samples": 1}),
        (5, {}),
        (8, {"pair.num_samples": 1}),
        ("4", {"pair.schema": 1}),
        (0, {"pair.num_samples": 1}),
    ],
)
def test_num_samples_is_the_number_of_rows(tree: Tree, stated: Any, codes: dict[str, int]) -> None:
    """With or without rows that have an error; samples with two repeats have two rows each."""
    of_rows = result(0.75)
    of_rows["score_details"]["uncertainty"] = {"num_samples": stated}
    tree.add([*rows(), row(9, 0.0, error="timeout")], of_rows)
    assert tree.codes() == codes


def test_credentials_are_found(tree: Tree) -> None:
    """In aggregates, and in metadata of rows."""
    key = f"ghp_{'aB3' * 12}"
    tree.add(
        text_of([row(0), {"metadata": {}} | row(1, metadata={"token": key}), {}]).replace(
            b'": ', b'":'
        ),
        model_info=model_info("org/model", endpoint=f"https://x.com/?key={key}"),
        evaluation_results=[],
    )
    found = tree.check()
    assert found.codes["pair.secret"] == 2
    groups = [group for group in found.groups if group.code == "pair.secret"]
    places = sorted((group.path, group.locations[0].line) for group in groups)
    assert places == [("$.metadata.token", 2), ("$.model_info.additional_details.endpoint", 1)]
