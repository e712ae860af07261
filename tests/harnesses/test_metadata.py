"""Metadata of samples: what is kept, under which names, and what is counted as left out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrec
from fastrec.commands.import_logs import import_logs
from fastrec.errors import UsageError
from fastrec.harnesses.metadata import CUT, LONGEST, NO_PLACE, NOT_CHOSEN, MetadataKeeper, own_names
from fastrec.schemas.newest import Input
from tests.harnesses.helm_logs import completion, entry, instance, state, write_run
from tests.harnesses.inspect_logs import imported, sample, scored, write_json
from tests.harnesses.test_lighteval import generated
from tests.harnesses.test_lighteval import records_of as details_records
from tests.import_logs.sample_logs import CAPITALS, write_all
from tests.running import run_command

SHARED = Path(__file__).parents[3] / "shared" / "logs"
QUESTION = "How many of the forty apples are left when Ana has eaten two?"
ASKED = Input(raw=QUESTION, reference=["38"], choices=["38", "40"])


def kept(
    fields: dict[str, Any], chosen: frozenset[str] | None = None
) -> tuple[dict[str, str], dict[Any, int]]:
    keeper = MetadataKeeper("inspect", chosen)
    return keeper.keep(fields, ASKED, "sample"), dict(keeper.left_out)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("anatomy", "anatomy"),
        (3, "3"),
        (0, "0"),
        (False, "false"),
        (0.5, "0.5"),
        ({"b": [1, None]}, '{"b":[1,null]}'),
    ],
)
def test_text_is_kept_as_it_is_and_other_values_as_json(value: Any, text: str) -> None:
    assert kept({"subject": value}) == ({"subject": text}, {})


@pytest.mark.parametrize("value", [None, "", [], {}, QUESTION, QUESTION[5:45], ["38", "40"]])
def test_what_is_empty_or_in_the_input_is_not_repeated(value: Any) -> None:
    assert kept({"subject": value}) == ({}, {})


def test_a_short_text_is_kept_even_if_the_question_has_it() -> None:
    assert kept({"fruit": "apples"})[0] == {"fruit": "apples"}


def test_names_of_fastrec_get_a_prefix() -> None:
    fields = {"epoch": 7, "sample_epoch": 8, "level": 1}
    assert kept(fields)[0] == {"sample_epoch": "7", "sample_sample_epoch": "8", "level": "1"}


def test_long_values_are_cut_unless_the_user_names_them() -> None:
    text = "é" * (LONGEST + 1500)
    cut = text[:LONGEST] + "… [1,500 more characters]"
    assert kept({"notes": text}) == ({"notes": cut}, {("notes", CUT): 1})
    assert kept({"notes": text}, frozenset({"notes"})) == ({"notes": text}, {})


def test_fields_that_are_not_chosen_are_counted() -> None:
    found = kept({"level": 1, "notes": "x", "epoch": 2}, frozenset({"level", "epoch"}))
    assert found == ({"level": "1", "sample_epoch": "2"}, {("notes", NOT_CHOSEN): 1})


@given(
    st.dictionaries(
        st.text(max_size=8) | st.sampled_from(sorted(own_names("helm"))), st.integers(), max_size=8
    )
)
def test_no_field_is_lost_or_replaces_one_of_fastrec(fields: dict[str, int]) -> None:
    found = MetadataKeeper("helm").keep(fields, ASKED, "sample")
    assert Counter(found.values()) == Counter(map(str, fields.values()))
    assert own_names("helm").isdisjoint(found)


def records_in(directory: Path) -> list[dict[str, Any]]:
    """The records of an import; each is valid."""
    paths = sorted(directory.glob("*.zst"))
    return [
        msgspec.to_builtins(record)
        for path in paths
        for record in fastrec.read(path, schema="0.3.0")
    ]


def test_inspect(tmp_path: Path) -> None:
    """Metadata of the sample is in all its records, that of a score in its own record."""
    scores = {
        "match": {
            "value": "C",
            "explanation": "it says 42",
            "metadata": {"subject": "sums", "judge": [1]},
        },
        "other": {"value": "I", "metadata": {"explanation": "none"}},
    }
    one = sample(
        metadata={"subject": "law", "uuid": "mine"}, store={"a": 1}, scores=scores, uuid="u"
    )
    found = imported(write_json(tmp_path / "log.json", one))
    first, second = (record["metadata"] for record in found.records)
    assert first["subject"] == second["subject"] == "law"
    assert (first["uuid"], first["sample_uuid"]) == ("u", "mine")
    assert (first["explanation"], first["score_subject"], first["judge"]) == (
        "it says 42",
        "sums",
        "[1]",
    )
    assert second["explanation"] == "none"
    assert "judge" not in second
    assert found.converter.result.fields_left_out == {
        ("events", NO_PLACE): 1,
        ("store", NO_PLACE): 1,
    }


def test_inspect_with_values_that_only_python_reads(tmp_path: Path) -> None:
    one = scored(float("nan"), metadata={"bound": [float("inf")]}, store={"x": float("nan")})
    found = imported(write_json(tmp_path / "log.json", one))
    assert found.records[0]["metadata"]["bound"] == '["Infinity"]'
    assert ("store", NO_PLACE) in found.converter.result.fields_left_out


def test_lm_eval(tmp_path: Path) -> None:
    """The document is metadata, but for the question, the reference and the choices."""
    write_all(tmp_path / "logs")
    import_logs(tmp_path / "logs" / "lm-eval", tmp_path / "out")
    records = records_in(tmp_path / "out")
    capitals = [record for record in records if record["evaluation_name"] == "capitals"]
    assert {record["metadata"]["country"] for record in capitals} == {
        country for country, *_ in CAPITALS
    }
    assert all(
        "choices" not in record["metadata"] and record["metadata"]["gold"].isdigit()
        for record in capitals
    )
    others = [record for record in records if record["evaluation_name"] != "capitals"]
    assert others
    assert not any("question" in record["metadata"] for record in others)


def test_helm(tmp_path: Path) -> None:
    of = instance(1, extra_data={"level": 2, "trial": "a"})
    done = completion(tokens=[{"text": "Paris", "logprob": 0.0}])
    run = write_run(
        tmp_path / "run", [state(of, done, annotations={"judge": {"why": "ok"}})], [entry(of, em=1)]
    )
    import_logs(run, tmp_path / "out")
    metadata = records_in(tmp_path / "out")[0]["metadata"]
    assert (metadata["level"], metadata["sample_trial"], metadata["trial"]) == ("2", "a", "0")
    assert metadata["annotations"] == '{"judge":{"why":"ok"}}'
    (log,) = json.loads((tmp_path / "out" / "import.json").read_bytes())["logs"]
    assert log["fields_left_out"] == {"tokens": {NO_PLACE: 1}}
    assert log["metadata"] == ["annotations", "level", "sample_trial"]


def test_lighteval(tmp_path: Path) -> None:
    row = generated(1, ["x"], {"em": 1})
    row["doc"] |= {
        "specific": {"level": 3, "instruction": "b"},
        "instruction": "a",
        "images": ["?"],
    }
    (record,) = details_records(tmp_path, [row])
    metadata = record["metadata"]
    assert (metadata["level"], metadata["instruction"], metadata["specific_instruction"]) == (
        "3",
        "a",
        "b",
    )
    assert "images" not in metadata


def test_the_account_is_printed(tmp_path: Path) -> None:
    """What was left out is a table by field, and `import.json` has the same counts."""
    path = write_json(tmp_path / "log.json", sample(metadata={"a": "x", "b": "y" * 5000}))
    done = run_command("import", path, "-o", tmp_path / "out")
    lines = [line.split(maxsplit=3) for line in done.stdout.decode().splitlines()]
    assert ["inspect", "b", "1", CUT] in lines
    assert ["inspect", "events", "1", NO_PLACE] in lines
    done = run_command("import", path, "-o", tmp_path / "out", "--metadata", "none")
    assert b"not chosen by --metadata" in done.stdout
    assert records_in(tmp_path / "out")[0]["metadata"].keys() <= own_names("inspect")


@pytest.mark.parametrize(
    ("value", "words"), [("a,level", "no sample has the metadata 'level'"), (",", "not empty")]
)
def test_wrong_names_are_refused(tmp_path: Path, value: str, words: str) -> None:
    path = write_json(tmp_path / "log.json", sample(metadata={"a": "x"}))
    with pytest.raises(UsageError, match=words):
        import_logs(path, tmp_path / "out", metadata=value)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real logs are not beside the checkout")
def test_real_logs(tmp_path: Path) -> None:
    """Without metadata of samples, records have only names of fastrec.

    With them, nothing else changes.
    """
    whole = tmp_path / "whole"
    bare = tmp_path / "bare"
    for target, metadata in ((whole, "all"), (bare, "none")):
        import_logs(
            [SHARED / name for name in ("inspect", "helm", "lighteval")], target, metadata=metadata
        )
    for record, other in zip(records_in(whole), records_in(bare), strict=True):
        assert other["metadata"].keys() <= own_names(other["metadata"]["harness"])
        assert other["metadata"].items() <= record.pop("metadata").items()
        del other["metadata"]
        assert record == other
