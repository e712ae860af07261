"""Integers with more digits than Python and msgspec convert: every command that shows answers shows
them, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.table import Query
from tests.commands.viewing import Client, serving
from tests.running import run_here
from tests.samples import sample

HUGE = "1" + "0" * 5_000


def line(model: str, right: bool) -> bytes:
    """Return a record whose sample_id, score, tokens, latency and an unknown key are huge."""
    record: dict[str, Any] = sample(model_id=model, sample_id="<id>")
    del record["error"]
    record["evaluation"] = {"score": "<score>", "is_correct": right}
    record["metadata"] = {"subject": "x"}
    record["unknown"] = "<unknown>"
    record["token_usage"] = {"input_tokens": "<id>", "output_tokens": 1, "total_tokens": "<id>"}
    record["performance"] = {"latency_ms": "<id>"}
    text = json.dumps(record).replace('"<id>"', HUGE).replace('"<unknown>"', f"[{HUGE}]")
    return text.replace('"<score>"', HUGE if right else "0").encode()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("huge")
    (folder / "a.jsonl").write_bytes(b"\n".join([line("a", True), line("b", False)]))
    assert fastrec.normalize(folder / "a.jsonl", folder / "corpus").line_counts.kept == 2
    return folder / "corpus"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["show", "{}", HUGE],
            "a  score 1.000e+5000, 1.000e+5000 input tokens, 1 output token, 1.000e+4997 s",
        ),
        (["show", "{}", HUGE, "--full"], f"unknown: [{HUGE}]"),
        (["show", "{}", HUGE, "--format", "json"], f'"score": {HUGE},'),
        (["questions", "{}"], "arithmetic: 1 question, 2 models"),
        (["questions", "{}", "--format", "json"], f'"sample_id": {HUGE},'),
        (["questions", "{}", "--format", "csv"], HUGE),
        (["compare", "{}", "a", "b"], "A  a  score 1.000e+5000"),
        (["compare", "{}", "a", "b", "--format", "json"], f'"score": {HUGE},'),
        (["report", "{}", "-o", "-"], "1.000e+5000"),
    ],
)
def test_commands_show_huge_integers(arguments: list[str], expected: str, corpus: Path) -> None:
    done = run_here(*(one.format(corpus) for one in arguments))
    assert done.returncode == 0
    assert expected in done.stdout.decode()


@pytest.mark.parametrize(
    ("condition", "records"),
    [
        ("token_usage!=x", 2),
        ("token_usage~0000000000", 2),
        ("token_usage.total_tokens>5", 2),
        (f"token_usage.total_tokens={HUGE}", 2),
        ("unknown!=x", 2),
        ("evaluation~1000000000000", 1),
    ],
)
def test_conditions_on_huge_integers(condition: str, records: int, corpus: Path) -> None:
    done = run_here("cat", str(corpus), "--where", condition)
    assert done.stderr == b""
    assert len(done.stdout.splitlines()) == records


def test_groups_by_huge_integers(tmp_path: Path) -> None:
    """As values, and as borders of bins."""
    ends = [("b", "0"), ("c", "00"), ("a", "")]
    numbered = [
        line(model, False).replace(HUGE.encode(), (HUGE + end).encode()) for model, end in ends
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(numbered))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    found = fastrec.stats(tmp_path / "corpus", group_by=["token_usage.total_tokens:3"])
    groups = {one.group["token_usage.total_tokens"] for one in found.evaluations if one.group}
    assert groups == {
        "up to 1.000000000e+5000",
        "1.000000000e+5000 to 1.000000000e+5001",
        "above 1.000000000e+5001",
    }
    found = fastrec.stats(tmp_path / "corpus", group_by=["token_usage.total_tokens"])
    assert {one.group["token_usage.total_tokens"] for one in found.evaluations if one.group} == {
        HUGE + end for _, end in ends
    }


def test_pages_show_huge_integers(corpus: Path) -> None:
    index = open_index(corpus)
    (row,) = index.page(Query(evaluation_name="arithmetic")).rows
    with serving(corpus) as opened:
        client = Client(opened.address)
        assert HUGE in client.page("/questions?evaluation=arithmetic")
        page = client.page(f"/question/{row.sample_hash}?evaluation=arithmetic")
        assert all(text in page for text in ("1.000e+5000 → 1", "1.000e+4997 s"))
        page = client.page(f"/answer/{row.sample_hash}?evaluation=arithmetic&show=a")
        assert f"[{HUGE}]" in page  # the unknown key
        assert HUGE in client.page(f"/record/{row.sample_hash}?evaluation=arithmetic&show=a")
