"""`--where`: conditions on fields, in all commands with filters, compared with plain Python over
decoded records.
"""

from __future__ import annotations

import csv
import html
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import fastrec
from fastrec.commands.generate import Recipe
from fastrec.commands.generate import lines as lines_of
from fastrec.errors import NoMatchError, UsageError
from fastrec.limits import Limits, use_limits
from fastrec.statistics.adjust import benjamini_hochberg
from fastrec.where import parse_condition, parse_path, spell_path, values_of
from tests.answers.small import answer, make_corpus
from tests.normalize.normalizing import Corpus, write
from tests.running import run_command
from tests.samples import question, sample, sample_of
from tests.sizes import LONG
from tests.timing import grows_linearly


def lines(version: str) -> list[bytes]:
    """Records of all interaction types; some fields are rare, unknown, lists or null."""
    made = []
    is_new = version == "0.3.0"
    for number in range(120):
        record = sample_of(version, ("single_turn", "multi_turn", "agentic")[number % 3])
        record |= {"model_id": f"m{number % 4}", "evaluation_name": "law" if number % 5 else "zoo"}
        record |= {"sample_id": f"s{number // 4}"}
        record["input"] |= {"raw": question(number // 4)["raw"]}
        record["metadata"] = {
            "subject": ("law", "Law", "art")[number % 3],
            "level": str(number % 12),
        }
        if number % 2 == 0 and not is_new:
            record["zz"] = {"tags": ["a", None, {"deep": number}], "flag": number % 4 == 0}
            record["metadata"]["level"] = number % 12
        record["error"] = "" if number % 7 else "timeout after 30 s"
        if "output" in record:
            text = ("I'm SORRY, no", "yes", "It is 42\nand more words")[number // 3 % 3]
            record["output"]["raw"] = [text] if is_new and number % 2 else text
        made.append(json.dumps(record).encode())
    return made


@pytest.fixture(scope="module", params=["0.2.0", "0.3.0"])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("where")
    write(folder / "in.jsonl", lines(request.param))
    fastrec.normalize(folder / "in.jsonl", folder / "corpus", part_size=20_000)
    return Corpus(folder / "corpus")


def said(record: dict[str, Any]) -> list[str]:
    raw = (record.get("output") or {}).get("raw", [])
    turns = record.get("messages") or record.get("interactions") or []
    texts = [turn.get("content") for turn in turns if turn["role"] == "assistant"]
    return [*([raw] if isinstance(raw, str) else raw), *filter(None, texts)]


def tags(record: dict[str, Any]) -> list[Any]:
    return (record.get("zz") or {}).get("tags", [])


CASES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "metadata.subject=law": lambda r: r["metadata"]["subject"] == "law",
    "metadata.subject!=law": lambda r: r["metadata"]["subject"] != "law",
    "!metadata.subject=law": lambda r: r["metadata"]["subject"] != "law",
    "metadata.subject~LAW": lambda r: r["metadata"]["subject"] in ("law", "Law"),
    "metadata.level>=10": lambda r: int(r["metadata"]["level"]) >= 10,
    "metadata.level=3.0": lambda r: int(r["metadata"]["level"]) == 3,
    "output.raw~i'm sorry": lambda r: any("i'm sorry" in text.lower() for text in said(r)),
    "output.raw=~^(?i:YES)$": lambda r: any(text.lower() == "yes" for text in said(r)),
    "response.characters<20": lambda r: sum(map(len, said(r))) < 20,
    "response.words > 5": lambda r: sum(len(text.split()) for text in said(r)) > 5,
    "turns>1": lambda r: len(r.get("messages") or r.get("interactions") or [0]) > 1,
    "tool_calls>0": lambda r: any(
        turn.get("tool_calls") for turn in r.get("messages") or r.get("interactions") or []
    ),
    "error?": lambda r: bool(r.get("error")),
    "!error?": lambda r: not r.get("error"),
    "error~TIMEOUT": lambda r: "timeout" in (r.get("error") or ""),
    "zz.tags=a": lambda r: "a" in tags(r),
    "zz.tags.deep>50": lambda r: any(tag["deep"] > 50 for tag in tags(r) if isinstance(tag, dict)),
    "zz?": lambda r: "zz" in r,
    "zz.flag=true": lambda r: r.get("zz", {}).get("flag") is True,
    "zz.flag!=true": lambda r: r.get("zz", {}).get("flag") is False,
    "evaluation.is_correct=true": lambda r: r["evaluation"]["is_correct"],
    "model_id<m2": lambda r: r["model_id"] < "m2",
    "interaction_type=agentic": lambda r: r["interaction_type"] == "agentic",
    "metadata.subject==law": lambda r: r["metadata"]["subject"] == "law",
    'metadata.level == "10"': lambda r: str(r["metadata"]["level"]) == "10",
    'error==""': lambda r: r.get("error") == "",
    "output==null": lambda r: "output" not in r,
    "turns==1": lambda r: len(r.get("messages") or r.get("interactions") or [0]) == 1,
    'metadata."subject" = art': lambda r: r["metadata"]["subject"] == "art",
}


@cache
def decoded(line: bytes) -> dict[str, Any]:
    """A record, decoded once for all conditions; read-only."""
    return json.loads(line)


def naive(corpus: Corpus, *conditions: str) -> list[bytes]:
    return [line for line in corpus.lines if all(CASES[one](decoded(line)) for one in conditions)]


@pytest.mark.parametrize("condition", CASES)
def test_cat_finds_what_python_finds(condition: str, corpus: Corpus) -> None:
    expected = naive(corpus, condition)
    if condition.startswith("zz") and corpus.summary["schema"] == "0.3.0":
        pytest.skip("records of 0.3.0 have no unknown keys")
    assert 0 < len(expected) < len(corpus.lines)
    assert list(fastrec.cat(corpus.path, where=condition)) == expected
    both = [condition, "interaction_type=agentic"]
    assert list(fastrec.cat(corpus.path, where=both, model="m1")) == [
        line for line in naive(corpus, *both) if json.loads(line)["model_id"] == "m1"
    ]


@pytest.mark.parametrize("condition", list(CASES) if LONG else list(CASES)[::3])
def test_normalize_keeps_what_python_finds(condition: str, corpus: Corpus, tmp_path: Path) -> None:
    """From raw lines: unknown keys are seen in the fast path and in the slow path of the judge."""
    if condition.startswith("zz") and corpus.summary["schema"] == "0.3.0":
        pytest.skip("records of 0.3.0 have no unknown keys")
    write(tmp_path / "in.jsonl", lines(corpus.summary["schema"]))
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "out", where=condition)
    assert Corpus(tmp_path / "out").lines == naive(corpus, condition)


def test_an_unknown_key_is_seen_in_every_line(tmp_path: Path) -> None:
    """The decoder learns unknown keys from the slow path.

    Lines before and after that are filtered alike.
    """
    records = [
        sample("single_turn", sample_id=number) | ({"rare": number % 2} if number % 3 else {})
        for number in range(60)
    ]
    write(tmp_path / "in.jsonl", [json.dumps(record).encode() for record in records])
    summary = fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "out", where="rare=1")
    assert summary.line_counts.kept == sum(record.get("rare") == 1 for record in records)


def test_stats_count_the_matching_records_of_each_model(corpus: Corpus) -> None:
    condition = "output.raw~i'm sorry"
    expected = Counter(json.loads(line)["model_id"] for line in naive(corpus, condition))
    evaluations = fastrec.stats(corpus.path, where=condition).evaluations
    found = [
        (model.model_id, model.records)
        for evaluation in evaluations
        for model in evaluation.by_model
    ]
    assert {
        name: sum(count for other, count in found if other == name) for name, _ in found
    } == expected


def test_questions_show_and_compare_work_on_matching_records(corpus: Corpus) -> None:
    condition = "metadata.subject=law"
    hashes = {json.loads(line)["sample_hash"] for line in naive(corpus, condition)}
    tables = fastrec.questions(corpus.path, where=condition, limit=1000).evaluations
    assert {one.sample_hash for table in tables for one in table.questions} == hashes
    wanted = min(hashes)
    shown = fastrec.show(corpus.path, wanted, where=condition)
    answers = sum(len(one.answers) for one in shown.questions)
    assert answers == sum(
        json.loads(line)["sample_hash"] == wanted for line in naive(corpus, condition)
    )


@pytest.mark.pairwise
@pytest.mark.parametrize("command", ["cat", "stats", "questions", "export", "report"])
@pytest.mark.parametrize("condition", ["metadata.subjct=law", "!metadata.subjct?"])
def test_an_unknown_field_is_an_error_with_the_nearest_names(
    command: str, condition: str, corpus: Corpus, tmp_path: Path
) -> None:
    output = ["-o", str(tmp_path / "out")] if command in ("export", "report") else []
    done = run_command(command, str(corpus.path), "--where", condition, *output)
    assert done.returncode == 2
    assert (
        b"no record has the field metadata.subjct; did you mean 'metadata.subject'" in done.stderr
    )
    assert not (tmp_path / "out").exists()


def test_nothing_matches_a_known_field(corpus: Corpus) -> None:
    assert list(fastrec.cat(corpus.path, where="metadata.subject=none")) == []
    with pytest.raises(
        NoMatchError,
        match=r"no record matches --where metadata.subject=none; evaluations: law, zoo",
    ):
        fastrec.stats(corpus.path, where="metadata.subject=none")


@pytest.mark.each_value
@pytest.mark.parametrize(
    "text", ["", "x", "=1", "x?1", "x~", "a..b=1", "a.=1", "x<>1,", "output.raw=~(", "a =~ (?<=x)y"]
)
def test_what_is_not_a_condition_is_refused_at_the_call(text: str, corpus: Corpus) -> None:
    if text == "x<>1,":
        assert parse_condition(text).operator == "<"
        return
    with pytest.raises(UsageError):
        fastrec.cat(corpus.path, where=text)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_any_path_can_be_written(path: list[str]) -> None:
    path = [key.encode("utf-8", "replace").decode() for key in path]
    assert parse_path(spell_path(path)) == tuple(path)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    JSON,
    st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "~", "=~"]),
    st.text(max_size=3) | st.integers().map(str),
)
def test_any_value_can_be_compared(value: Any, operator: str, wanted: str) -> None:
    """No value makes a comparison fail, and a condition and its negation never agree."""
    record = {"a": value}
    try:
        condition = parse_condition(f"a{operator}{wanted}")
        negated = parse_condition(f"!a{operator}{wanted}")
    except UsageError:
        return
    assert condition.matches(record) is not negated.matches(record)
    if not list(values_of(record, ("a",))):
        assert not condition.matches(record)


def test_a_regular_expression_takes_linear_time() -> None:
    """A pattern that takes exponential time in other engines."""
    holds = parse_condition("a=~(a*)*b").holds
    assert grows_linearly(lambda size: holds("a" * size), 20_000)


# Groups


def test_a_group_has_the_numbers_of_its_records(corpus: Corpus) -> None:
    """Each group is what `stats` says about the records with this value, and totals come first."""
    found = fastrec.stats(corpus.path, group_by="metadata.subject").evaluations
    totals = fastrec.stats(corpus.path).evaluations
    assert [one for one in found if one.group is None] == totals
    names = [(one.evaluation_name, one.metric, one.group is None) for one in found]
    assert all(
        names[number][2]
        for number in range(len(names))
        if number == 0 or names[number][:2] != names[number - 1][:2]
    )
    for value in ("law", "Law", "art"):
        expected = fastrec.stats(corpus.path, where=f"metadata.subject={value}").evaluations
        groups = [one for one in found if one.group == {"metadata.subject": value}]
        for one in groups:
            one.group = None
        assert [one.by_model for one in groups] == [one.by_model for one in expected]


def test_records_without_the_field_are_a_group(corpus: Corpus) -> None:
    found = fastrec.stats(
        corpus.path, group_by=["error", "metadata.subject"], model=["m0", "m1"]
    ).evaluations
    groups = [one for one in found if one.group is not None]
    expected = Counter(
        (record["evaluation_name"], record.get("error") or None, record["metadata"]["subject"])
        for record in map(json.loads, corpus.lines)
        if record["model_id"] in ("m0", "m1")
    )
    assert {
        (one.evaluation_name, one.group["error"] or None, one.group["metadata.subject"])
        for one in groups
    } == set(expected)
    assert sum(one.records for one in groups) == expected.total()


def test_bins_of_numbers_have_about_the_same_size(corpus: Corpus) -> None:
    found = fastrec.stats(corpus.path, group_by="metadata.level:3").evaluations
    sizes: Counter[str | None] = Counter()
    for one in found:
        if one.group is not None:
            sizes[one.group["metadata.level"]] += one.records
    assert sizes == {"up to 3": 40, "3 to 7": 40, "above 7": 40}


@pytest.mark.each_value
@pytest.mark.parametrize("text", ["", "a..b", "metadata.level:1", "metadata.nothing"])
def test_wrong_groups_are_refused(text: str, corpus: Corpus) -> None:
    with pytest.raises(UsageError):
        fastrec.stats(corpus.path, group_by=text)


def test_many_groups_are_cut_with_a_note(tmp_path: Path) -> None:
    records = [
        sample("single_turn", sample_id=number, metadata={"n": f"v{number}: x"})
        for number in range(60)
    ]
    write(tmp_path / "in.jsonl", [json.dumps(record).encode() for record in records])
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "out")
    done = run_command("stats", str(tmp_path / "out"), "--group-by", "metadata.n")
    assert b"the 50 largest of 60 groups are shown" in done.stderr
    assert done.stdout.count(b"[metadata.n: v") == 50


def test_only_groups_that_are_shown_are_ranked_and_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        sample(
            "single_turn",
            sample_id=number,
            model_id=model,
            input=question(number),
            metadata={"n": f"v{number}"},
        )
        for number in range(60)
        for model in "ab"
    ]
    write(tmp_path / "in.jsonl", [json.dumps(record).encode() for record in records])
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "out")
    tested: list[str] = []
    monkeypatch.setattr(
        "fastrec.commands.stats.add_ranks",
        lambda some, _, *, common: tested.extend(one.evaluation_name for one in some),
    )
    found = fastrec.stats(tmp_path / "out", group_by="metadata.n").evaluations
    assert len(found) == len(tested) == 51


@pytest.mark.parametrize("command", [fastrec.stats, fastrec.leaderboard])
def test_too_many_groups_are_refused(command: Callable[..., Any], corpus: Corpus) -> None:
    with use_limits(Limits(group_results=20)), pytest.raises(UsageError) as caught:
        command(corpus.path, group_by=["sample_id", "metadata.subject"])
    assert str(caught.value) == (
        "sample_id, metadata.subject has too many values to group by: there are more than 20 "
        "results, each of a group, "
        "metric and model. Choose another field, FIELD:N for N bins of its numbers, or fewer "
        "records"
    )
    with use_limits(Limits(group_results=1)):
        assert command(corpus.path)  # without groups, it is no limit


def test_a_group_of_compare_is_the_comparison_of_its_records(corpus: Corpus) -> None:
    """Each group is what `compare` says about its records.

    Totals come first, and all p-values are adjusted.
    """
    found = fastrec.compare(
        corpus.path, "m0", "m3", group_by="metadata.subject", examples=1
    ).evaluations
    totals = fastrec.compare(corpus.path, "m0", "m3", examples=1).evaluations
    assert [replace(one, p_adjusted=None) for one in found if one.group is None] == [
        replace(one, p_adjusted=None) for one in totals
    ]
    assert found[0].group is None
    for value in ("law", "Law", "art"):
        where = f"metadata.subject={value}"
        expected = fastrec.compare(corpus.path, "m0", "m3", where=where, examples=0).evaluations
        groups = [one for one in found if one.group == {"metadata.subject": value}]
        assert sum(one.questions for one in groups) > 0
        assert [replace(one, group=None, p_adjusted=None) for one in groups] == [
            replace(one, p_adjusted=None) for one in expected
        ]
    tested = [one for one in found if one.p is not None]
    assert [one.p_adjusted for one in tested] == benjamini_hochberg([one.p for one in tested])
    rows = fastrec.open(corpus.path).compare("m0", "m3", group_by="metadata.subject").rows()
    assert [row["metadata.subject"] for row in rows] == [
        (one.group or {}).get("metadata.subject") for one in found
    ]
    done = run_command(
        "compare",
        str(corpus.path),
        "m0",
        "m3",
        "--group-by",
        "metadata.subject",
        "--evaluation",
        "zoo",
    )
    assert b"[metadata.subject: art]" in done.stdout
    assert b"\n  law" not in done.stdout


def test_a_group_of_trend_is_the_trend_of_its_records(tmp_path: Path) -> None:
    """Each group is what `trend` says about corpora of its records alone.

    Bins are the same in all corpora.
    """
    made = []
    for night in range(3):
        records = [
            sample(
                model_id=f"m{number % 2}",
                sample_id=f"s{number // 2}",
                input=question(number // 2),
                evaluation={"score": float(number % 5 > night), "is_correct": number % 5 > night},
                metadata={"level": number // 2 + night, "kind": "ab"[number // 2 % 2]}
                if number % 16
                else {},
            )
            for number in range(64)
        ]
        write(tmp_path / f"in{night}.jsonl", [json.dumps(record).encode() for record in records])
        for kind in ("", "a", "b"):
            where = [f"metadata.kind={kind}"] if kind else []
            path = tmp_path / f"nights{kind}" / f"night-{night}"
            fastrec.normalize(tmp_path / f"in{night}.jsonl", path, where=where)
        made.append(records)
    found = fastrec.trend(tmp_path / "nights", group_by="metadata.kind")
    assert [one.group and one.group["metadata.kind"] for one in found.evaluations] == [
        None,
        "b",
        "a",
        None,
    ]
    for kind, one in zip(("", "b", "a"), found.evaluations, strict=False):
        (expected,) = fastrec.trend(tmp_path / f"nights{kind}").evaluations
        for model, same in zip(one.models, expected.models, strict=True):
            assert model.points == same.points
            assert [
                replace(change, p_adjusted=None, significant=False) for change in model.changes
            ] == [replace(change, p_adjusted=None, significant=False) for change in same.changes]
    changes = [
        change for one in found.evaluations for model in one.models for change in model.changes
    ]
    assert found.comparisons == len(changes)
    adjusted = benjamini_hochberg([change.p for change in changes])
    assert sorted(change.p_adjusted for change in changes) == sorted(adjusted)
    levels = sorted(
        one["metadata"]["level"] for records in made for one in records if one["metadata"]
    )
    border = levels[len(levels) // 2 - 1]
    low, high, without = fastrec.trend(
        tmp_path / "nights", group_by="metadata.level:2", model="m0"
    ).evaluations[1:]
    assert [one.group["metadata.level"] for one in (low, high)] == [
        f"up to {border}",
        f"above {border}",
    ]
    for night, records in enumerate(made):
        some = [one for one in records if one["model_id"] == "m0" and one["metadata"]]
        assert low.models[0].points[night].records == sum(
            one["metadata"]["level"] <= border for one in some
        )
    assert without.group == {"metadata.level": None}
    done = run_command(
        "trend", str(tmp_path / "nights"), "--group-by", "metadata.kind", "--format", "csv"
    )
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    assert {row["metadata.kind"] for row in rows} == {"", "a", "b"}


def test_a_report_has_the_groups_of_stats(corpus: Corpus, tmp_path: Path) -> None:
    fastrec.open(corpus.path).report(
        tmp_path / "page.html", group_by="metadata.subject", examples=0
    )
    page = html.unescape((tmp_path / "page.html").read_text())
    for one in fastrec.stats(corpus.path, group_by="metadata.subject").evaluations:
        assert one.title in page


@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        ("n>1e100", [1e308, 10**400]),
        ("n>1000000000000000000", [2**70, 1e308, 10**400]),
        ("n>18446744073709551615", [2**70, 1e308, 10**400]),
        ("n<1e400", [-3, 0.25, "2.5", True, 7, 2**70, 1e308]),
        ("n<=1e400", [-3, 0.25, "2.5", True, 7, 2**70, 1e308, 10**400]),
        ("n>+1e5", [2**70, 1e308, 10**400]),
        ("n>.5e3", [2**70, 1e308, 10**400]),
        (f"n={2**70}", [2**70]),
        (f"n={10**400}", [10**400]),
        (f"n<{10**400}", [-3, 0.25, "2.5", True, 7, 2**70, 1e308]),
        ("n<.5", [-3, 0.25]),
        ("n>+5", [7, 2**70, 1e308, 10**400]),
        ("n<=05.", [-3, 0.25, "2.5", True]),
        ("n>1", ["2.5", 7, 2**70, 1e308, 10**400]),
        ("n=.25", []),
        ("n=1", [True]),
        ("n=true", [True]),
        ("n>abc", []),
        ("n<50%", ["2.5"]),
        ("n==1", []),
        ("n==7", [7]),
        ("n==null", []),
    ],
)
def test_numbers_and_limits(condition: str, matching: list[Any]) -> None:
    """A limit may be spelled in more ways than a value, and only a text is compared with a text."""
    values = [-3, 0.25, "2.5", True, 7, 2**70, 1e308, 10**400, {"n": 9}]
    holds = parse_condition(condition).matches
    assert [value for value in values if holds({"n": value})] == matching


def test_names_that_look_like_numbers() -> None:
    for value, condition in (("007", "n=007"), ("１2", "n=１2"), ("2026-02-03", "n>2026-01")):
        assert parse_condition(condition).matches({"n": value})
    others = [("007", "n=7"), (7, "n=007"), ("１2", "n=12")]
    # These are too large or too small for a double.
    others += [("2e400", "n=1e500"), ("98e9999", "n=12e4567"), ("7e-9999", "n=0")]
    for value, condition in others:
        assert not parse_condition(condition).matches({"n": value})


@pytest.mark.each_value
@pytest.mark.parametrize("command", ["compare", "report", "trend"])
def test_groups_that_no_record_has_are_refused(
    command: str, corpus: Corpus, tmp_path: Path
) -> None:
    models = {"compare": ["m0", "m1"], "report": ["-o", str(tmp_path / "page.html")], "trend": []}[
        command
    ]
    for field, message in (
        ("metadata.nothing", b"no record has the field metadata.nothing"),
        ("metadata.subject:4", b"no record has a number in metadata.subject"),
        ("a..b", b"not a field"),
    ):
        done = run_command(command, str(corpus.path), *models, "--group-by", field)
        assert done.returncode == 2
        assert message in done.stderr
    assert not (tmp_path / "page.html").exists()


# Overlap


def test_planted_copies_in_two_evaluations_are_found(tmp_path: Path) -> None:
    """Exact copies have the same hash; copies with other white space only the same input.

    Others do not count.
    """
    lines = []
    for number in range(60):
        text = f"What is {number} plus {number}?"
        for model in ("a", "b"):
            record = sample(
                "single_turn", sample_id=f"s{number}", model_id=model, evaluation_name="old"
            )
            record["input"] |= {"raw": text, "reference": str(2 * number)}
            record.pop("sample_hash", None)
            lines.append(json.dumps(record))
            if number < 20:
                copied = text if number < 12 else text.replace(" ", "  ") + "\n"
                record |= {"evaluation_name": "new", "sample_id": f"n{number}"}
                record["input"] |= {"raw": copied}
                lines.append(json.dumps(record))
            elif number < 30:
                record |= {"evaluation_name": "other"}
                record["input"] |= {"raw": text.upper() + "!"}
                lines.append(json.dumps(record))
    write(tmp_path / "in.jsonl", [line.encode() for line in lines])
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "out", part_size=20_000)
    (pair,) = fastrec.overlap(tmp_path / "out", by="evaluations").evaluations or []
    assert (pair.evaluation_name, pair.other_evaluation_name, pair.hashes, pair.inputs) == (
        "new",
        "old",
        12,
        20,
    )
    for example in pair.examples:
        assert str(example.sample_id).removeprefix("n") == str(
            example.other_sample_id
        ).removeprefix("s")
    only = fastrec.overlap(tmp_path / "out", by="evaluations", evaluation=["new", "other"])
    assert only.evaluations == []
    done = run_command("overlap", str(tmp_path / "out"), "--by", "evaluations")
    assert b"overlap: 1 pair of evaluations" in done.stdout
    assert b"new         old                      12          20" in done.stdout
    rows = (
        run_command("overlap", str(tmp_path / "out"), "--by", "evaluations", "--format", "csv")
        .stdout.decode()
        .splitlines()
    )
    assert rows == ["evaluation_name,other_evaluation_name,hashes,inputs", "new,old,12,20"]


def test_each_question_of_the_docs_is_one_command(tmp_path: Path) -> None:
    """The table at the top of docs/ask.md: each command counts what plain Python counts."""
    made = [json.loads(line) for line in lines_of(Recipe(records=400, seed=7))]
    for number, one in enumerate(made):
        if number % 9 == 0 and one.get("token_usage"):
            one["token_usage"]["total_tokens"] += 500
        if number % 7 == 0 and one.get("performance"):
            one["performance"]["latency_ms"] = 20_000.0
    write(tmp_path / "in.jsonl", [json.dumps(one).encode() for one in made])
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "corpus")
    records = [json.loads(line) for line in Corpus(tmp_path / "corpus").lines]
    table = (Path(__file__).parents[2] / "docs" / "ask.md").read_text()
    expected = {
        "output.raw~euros": lambda one: any("euros" in text.casefold() for text in said(one)),
        "response.characters<20": lambda one: sum(map(len, said(one))) < 20,
        "token_usage.total_tokens>500": lambda one: (
            (one.get("token_usage") or {}).get("total_tokens", 0) > 500
        ),
        "performance.latency_ms>10000": lambda one: (
            (one.get("performance") or {}).get("latency_ms", 0) > 10_000
        ),
    }
    for condition, holds in expected.items():
        assert f"`fastrec stats corpus --where '{condition}'`" in table
        by_model = Counter(one["model_id"] for one in records if holds(one))
        done = run_command("stats", tmp_path / "corpus", "--where", condition, "--format", "json")
        found: Counter[str] = Counter()
        for one in json.loads(done.stdout)["evaluations"] if by_model else ():
            found.update({model["model_id"]: model["records"] for model in one["by_model"]})
        assert found == by_model
        assert by_model, condition


SKILLS = ("algebra", "geometry", "tables")


def test_a_list_counts_under_each_of_its_values(tmp_path: Path) -> None:
    """As text in the metadata of 0.3.0, in any spelling; twice the same value counts once."""
    rng = random.Random(7)
    records = []
    expected: dict[tuple[str, str | None], list[bool]] = {}
    for number in range(60):
        skills = rng.sample(SKILLS, rng.randrange(4))
        right = rng.random() < 0.5
        spelled = json.dumps(skills * 2) if number % 2 else json.dumps(skills).replace(" ", "")
        level = str(number % 3)
        metadata = {"skills": spelled, "level": level, "odd": "[no list"}
        records.append(answer("e", f"q{number}", "org/m", float(right), metadata=metadata))
        for skill in skills or [None]:
            expected.setdefault((level, skill), []).append(right)
    corpus = make_corpus(tmp_path, records)
    found = fastrec.stats(corpus, group_by=["metadata.level", "metadata.skills"]).evaluations
    groups = {
        (one.group["metadata.level"], one.group["metadata.skills"]): one.by_model[0]
        for one in found
        if one.group
    }
    assert {key: (one.questions, one.correct) for key, one in groups.items()} == {
        key: (len(rights), sum(rights)) for key, rights in expected.items()
    }
    assert found[0].by_model[0].questions == 60
    (_, odd) = fastrec.stats(corpus, group_by="metadata.odd").evaluations
    assert odd.group == {"metadata.odd": "[no list"}
    (_, *deep) = fastrec.stats(corpus, group_by="metadata.skills", where="output.raw?").evaluations
    assert sum(one.by_model[0].questions for one in deep) == sum(map(len, expected.values()))


def test_outcomes_are_a_field(tmp_path: Path) -> None:
    records = [
        answer("e", f"q{number}", "org/m", number % 2, error="timeout" if number > 6 else None)
        for number in range(9)
    ]
    records = [
        {key: record[key] for key in record if record[key] is not None} for record in records
    ]
    corpus = make_corpus(tmp_path, records)
    found = fastrec.stats(corpus, group_by="outcome").evaluations
    assert {one.group["outcome"]: one.records for one in found if one.group} == {
        "wrong": 4,
        "right": 3,
        "error": 2,
    }
    wrong = list(fastrec.cat(corpus, where="outcome=wrong"))
    assert wrong == list(fastrec.cat(corpus, wrong=True))
    shards = list(fastrec.read(tmp_path / "shard.jsonl", where="outcome=error"))
    assert len(shards) == 2
