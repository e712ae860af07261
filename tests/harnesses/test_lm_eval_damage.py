"""lm-eval: files are told by their content; damage is named, wherever it is.

Slices hold every sample once.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.errors import LogError, ShardError
from fastrec.harnesses import lm_eval
from fastrec.harnesses.convert import Converter
from fastrec.harnesses.lm_eval import files as lines
from fastrec.harnesses.log import HEAD_BYTES, Log
from fastrec.harnesses.recognise import role_in
from tests.harnesses.converting import lines_of
from tests.harnesses.lm_eval_logs import (
    choice,
    generation,
    old,
    records_of,
    results,
    write_lines,
    write_log,
)
from tests.sizes import examples

EM = {"exact_match,strict-match": 1.0}


def head(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent).encode()[:HEAD_BYTES]


@pytest.mark.parametrize(
    ("text", "role"),
    [
        (head(generation()) + b"\n", "samples"),
        (head(choice()), "samples"),
        (head(old(choice())) + b"\n" + head(old(choice())), "samples"),
        (head([old(generation())], indent=2), "samples"),
        (head(dict(sorted(generation().items()))) + b"\n", "samples"),
        (head({"doc_id": 1, "doc": {"text": "x" * HEAD_BYTES}}), "samples"),
        (head({"doc_id": 1, "text": "a line of something else"}), None),
        (head({"doc_id": 1, "target": "a line of something else"}) + b"\n", None),
        (head(results(EM), indent=2), "results"),
        (head(results({"acc,none": 1.0, "acc_stderr,none": float("nan")}), indent=2), "results"),
        (head(dict(sorted(results(EM).items()))), "results"),
        (head(results({f"acc_{n},none": 0.5 for n in range(9_000)}), indent=2), None),
        (
            head(
                results({f"acc{e},none": 0.5 for n in range(9_000) for e in (n, f"{n}_stderr")}),
                indent=2,
            ),
            "results",
        ),
        (
            head(
                {
                    "config_general": {},
                    "results": {"all": {"acc": 1.0, "acc_stderr": 0.1}},
                    "versions": {},
                }
            ),
            None,
        ),
        (head({"version": 2, "status": "success", "eval": {}, "results": {"scores": []}}), None),
        (head({"results": [1]}), None),
        (head({"schema_version": "0.3.0", "evaluation_id": "e", "sample_id": "1"}), None),
        (b"", None),
        (b"{", None),
        (b"[", None),
        (b"[]", None),
        (b"\x28\xb5\x2f\xfd", None),
        (b"\xff\xfe{\x00", None),
    ],
)
def test_roles(text: bytes, role: str | None) -> None:
    assert role_in("any name", text, ["lm-eval"]) == (role and ("lm-eval", role))


@given(st.binary(max_size=200))
def test_any_bytes_have_a_role_or_none(text: bytes) -> None:
    role_in("x", text, ["lm-eval"])
    role_in("x", b'{"results": {' + text, ["lm-eval"])


def test_every_cut_is_named_or_harmless(tmp_path: Path) -> None:
    """A file that ends in the middle of a line says so.

    One that ends after a line only has fewer samples.
    """
    log = write_log(tmp_path, [generation(n) for n in range(3)], results(EM))
    path = Path(log.path)
    plan = lm_eval.plan(log)
    text = path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(text) if byte == ord("\n")]
    for size in range(1, len(text), 7):
        path.write_bytes(text[:size])
        number = sum(end <= size for end in ends) + 1
        plan = lm_eval.plan(log)
        if size in ends or size + 1 in ends:
            assert len(records_of(log, plan)) == number - (size in ends)
            continue
        with pytest.raises(LogError) as caught:
            records_of(log, plan)
        assert caught.value.reason.startswith(
            f"line {number} is not a sample of lm-eval, or cut off"
        )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "malformed"),
        ("[1]", "Expected `object`, got `array`"),
        ("7", "Expected `object`, got `int`"),
        ("{}", "doc_id"),
        (json.dumps(generation(doc_id=None)), "doc_id"),
        (json.dumps(generation(arguments=7)), "arguments"),
        (json.dumps(generation(arguments={})), "it has no prompt"),
        (json.dumps(generation(arguments=[])), "it has no prompt"),
        (json.dumps(generation(arguments={"gen_args_0": {}})), "it has no prompt"),
        (json.dumps(choice(arguments=[["?", " a"], ["?", None], ["?", " c"]])), "no continuation"),
        (json.dumps(generation(metrics=[1])), "metrics"),
        (json.dumps(generation(filter=1)), "filter"),
        ('{"doc_id": ' + "[" * 100_000, "malformed|deep|truncated"),
        ('{"doc_id": 1, "doc": ' + "[" * 50_000 + "]" * 50_000 + "}", "deep"),
        (json.dumps(generation()) + "}", "malformed"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    log = write_log(tmp_path, [generation(0)], results(EM))
    good = json.dumps(generation(1))
    Path(log.path).write_text(f"{good}\n\n{good}\n{line}\n{good}\n")
    with pytest.raises(LogError, match=reason) as caught:
        records_of(log)
    assert caught.value.reason.startswith("line 4 is not a sample of lm-eval, or cut off: ")
    assert caught.value.path == log.path


def test_a_damaged_item_of_an_array_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path, [generation(0)], results(EM))
    Path(log.path).write_text(json.dumps([old(generation(0)), {"doc_id": 7}], indent=2))
    with pytest.raises(
        LogError,
        match="item 2 is not a sample of lm-eval, or cut off: Object missing required field `arguments`",
    ):
        records_of(log)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    log = write_log(tmp_path, [generation(0)], results(EM))
    Path(log.path).write_bytes(
        json.dumps(generation(0)).encode().replace(b"It is", b"\xff\xfe") + b"\n"
    )
    with pytest.raises(LogError, match="line 1 is not a sample"):
        records_of(log)


def test_samples_that_are_gone(tmp_path: Path) -> None:
    log = write_log(tmp_path, [generation(0)], results(EM))
    Path(log.path).unlink()
    with pytest.raises(ShardError, match="cannot be found"):
        lm_eval.plan(log)


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_LONGEST", 1 << 20)
    log = write_log(
        tmp_path, [generation(0), generation(1, resps=[["x" * (2 << 20)]])], results(EM)
    )
    with pytest.raises(LogError, match="line 2 is longer than 1 MiB"):
        records_of(log)


def test_an_empty_file(tmp_path: Path) -> None:
    log = write_log(tmp_path, [generation(0)], results(EM))
    Path(log.path).write_text("")
    assert records_of(log) == []


def test_slices_hold_every_sample_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices are byte ranges; damage is named by its line in the file, in whichever slice it is."""
    monkeypatch.setattr(lm_eval, "_SLICE_BYTES", 5_000)
    monkeypatch.setattr("fastrec.sources.shard._SMALLEST", 1)
    rows = [generation(n, resps=[["x" * (n % 50 * 20)]]) for n in range(400)]
    rows[123]["exact_match"] = float("nan")
    log = write_log(tmp_path, rows, results(EM))
    plan = lm_eval.plan(log)
    assert len(plan.slices) > 10
    assert [record["sample_id"] for record in records_of(log, plan)] == [str(n) for n in range(400)]
    rows[301] = {"doc_id": 301}
    write_lines(Path(log.path), rows)
    with pytest.raises(LogError, match="line 302 is not a sample"):
        records_of(log)


def convert(log: Log) -> None:
    plan = lm_eval.plan(log)
    converter = Converter("lm-eval", plan.run)
    for piece in plan.slices:
        for sample in lm_eval.samples(log, plan.run, piece):
            lines_of(converter, sample)


VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["-1.5", "True"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(13, 240))
@given(
    base=st.sampled_from([generation(), choice(), old(generation()), old(choice())]),
    changes=st.dictionaries(st.sampled_from([*generation(), "acc", "other"]), VALUES, max_size=4),
    is_array=st.booleans(),
)
def test_samples_of_any_shape(
    tmp_path_factory: pytest.TempPathFactory,
    base: dict[str, Any],
    changes: dict[str, Any],
    is_array: bool,
) -> None:
    """Whatever the types of the values: records, or an error that names the place."""
    directory = tmp_path_factory.mktemp("log")
    log = write_log(
        directory,
        [generation()],
        results(EM | {"acc,none": 1.0}, config={"doc_to_text": "{{question}}"}),
    )
    row = json.dumps(base | changes)
    Path(log.path).write_text(f"[{row}]" if is_array else f"{row}\n")
    with suppress(LogError):
        records_of(log)


@settings(max_examples=examples(13, 240))
@given(
    fields=st.dictionaries(
        st.sampled_from([*results(EM), "n-samples", "task_hashes", "model_name"]), VALUES
    )
)
def test_results_of_any_shape(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log = write_log(directory, [generation()], results(EM))
    Path(log.files[1].path).write_text(json.dumps(results(EM) | fields))
    lm_eval.logs_of(log.files)
    with suppress(LogError):
        convert(log)


@settings(max_examples=examples(13, 240))
@given(config=VALUES, figures=VALUES)
def test_settings_of_any_shape(
    tmp_path_factory: pytest.TempPathFactory, config: Any, figures: Any
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log = write_log(directory, [generation()], results(EM))
    document = results(EM)
    keys = (
        "doc_to_text",
        "doc_to_target",
        "metric_list",
        "filter_list",
        "target_delimiter",
        "output_type",
    )
    document["configs"]["task"] |= dict.fromkeys(keys, config)
    document["results"]["task"] |= {"acc,none": figures, "exact_match,": figures}
    Path(log.files[1].path).write_text(json.dumps(document))
    with suppress(LogError):
        convert(log)
