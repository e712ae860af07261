"""What answers cost: sums by hand, prices that are missing, and files that are wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.costs import find_costs, read_prices
from fastrec.answers.table import Query
from fastrec.errors import UsageError
from tests.running import run_here
from tests.samples import question, sample_of

PRICES = """
["org/*"]
input = 2
output = 10
cached = 0.5
reasoning = 20

["org/exact"]
input = 0.1
output = 0.2
"""


def line(model: str, number: int, usage: dict[str, int] | None, **changes: Any) -> bytes:
    fields = {"evaluation_name": "sums"} | changes
    record = sample_of("0.3.0", model_id=model, sample_id=f"q{number}", **fields)
    record["input"]["raw"] = question(number)["raw"]
    record.pop("error", None)
    record["token_usage"] = usage and usage | {
        "total_tokens": usage["input_tokens"] + usage["output_tokens"]
    }
    del record["sample_hash"]
    return json.dumps(record).encode()


def test_costs_are_those_by_hand(tmp_path: Path) -> None:
    """Cached input and reasoning have their own prices.

    Records of other metrics are the same answers.
    """
    right = {"score": 1.0, "is_correct": True}
    wrong = {"score": 0.0, "is_correct": False}
    used = {
        "input_tokens": 1_000,
        "output_tokens": 300,
        "input_tokens_cache_read": 400,
        "reasoning_tokens": 100,
    }
    plain = {"input_tokens": 10**20, "output_tokens": 7}
    lines = [
        line("org/a", 1, used, evaluation=right, evaluation_result_id="em"),
        line("org/a", 1, used, evaluation=right, evaluation_result_id="f1"),
        line("org/a", 2, used, evaluation=wrong, evaluation_result_id="em"),
        line("org/a", 3, None, evaluation=right, evaluation_result_id="em"),
        line("org/exact", 1, plain, evaluation=wrong, evaluation_result_id="em"),
        line("other", 1, used, evaluation=right, evaluation_result_id="em"),
        line("unwanted", 1, used, evaluation=right, evaluation_result_id="em"),
    ]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    (tmp_path / "prices.toml").write_text(PRICES)
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "corpus")
    prices = read_prices(str(tmp_path / "prices.toml"))
    models = ("org/a", "org/exact", "other")
    query = Query(evaluation_name="sums", metric="em", models=models)
    index = open_index(tmp_path / "corpus")
    found = {one.model_id: one for one in find_costs(index, prices, [query])}
    one_answer = (600 * 2 + 400 * 0.5 + 200 * 10 + 100 * 20) / 1e6
    assert (found["org/a"].answers, found["org/a"].unknown, found["org/a"].right) == (3, 1, 1)
    assert found["org/a"].cost == pytest.approx(2 * one_answer, rel=1e-15)
    assert found["org/a"].cost_per_right == found["org/a"].cost
    assert found["org/exact"].cost == 1e13 + 7 * 0.2 / 1e6
    assert found["org/exact"].cost_per_right is None
    assert (found["other"].cost, found["other"].right) == (None, 1)
    assert set(found) == {*models}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two evaluations; the metric `f1` of one is primary, so that `em` does not count."""
    folder = tmp_path_factory.mktemp("costs")
    right = {"score": 1.0, "is_correct": True}
    wrong = {"score": 0.0, "is_correct": False}
    used = {"input_tokens": 1_000, "output_tokens": 300}
    primary: dict[str, Any] = {"evaluation_result_id": "f1", "metadata": {"primary_metric": "true"}}
    lines = [
        *(line("org/a", number, used, evaluation=right, **primary) for number in (1, 2)),
        *(
            line("org/a", number, used, evaluation=wrong, evaluation_result_id="em")
            for number in (1, 2)
        ),
        line("org/a", 3, None, evaluation=right, **primary),
        line(
            "org/a", 1, used, evaluation=wrong, evaluation_name="words", evaluation_result_id="em"
        ),
        line("org/exact", 1, used, evaluation=right, **primary),
        line("org/silent", 1, None, evaluation=right, **primary),
        line("other", 1, used, evaluation=right, **primary),
    ]
    (folder / "in.jsonl").write_bytes(b"\n".join(lines))
    (folder / "prices.toml").write_text(PRICES)
    fastrec.normalize(folder / "in.jsonl", folder / "corpus")
    return folder


def test_totals_by_hand(two: Path) -> None:
    """Three answers of org/a cost 0.005 each, and two of them are right.

    One record has no tokens.
    """
    arguments = ("costs", two / "corpus", "--prices", two / "prices.toml")
    lines = [
        re.split("  +", row.strip()) for row in run_here(*arguments).stdout.decode().splitlines()
    ]
    assert lines[0] == ["cost: 4 models, 2 evaluations"]
    assert lines[2:] == [
        ["org/exact", "1 of 1", "1", "0", "1", "0.00016", "0.00016", "0.00016"],
        ["org/a", "2 of 2", "4", "1", "2", "0.015", "0.005", "0.0075"],
        ["org/silent", "0 of 1", "1", "1", "0", "–", "–", "–"],
        ["other", "0 of 1", "1", "0", "1", "no price", "–", "–"],
        ["cost, right: of the records with token counts; evaluations: those with a cost"],
        ["no price for 1 model: other"],
    ]
    assert (
        "| org/a | 2 of 2 | 4 | 1 | 2 | 0.015 |"
        in run_here(*arguments, "--format", "markdown").stdout.decode()
    )


def test_costs_by_evaluation(two: Path) -> None:
    arguments = (
        "costs",
        two / "corpus",
        "--prices",
        two / "prices.toml",
        "--model",
        "org/a",
        "--format",
    )
    by_evaluation = json.loads(run_here(*arguments, "json").stdout)["costs"]
    common = {"model_id": "org/a", "priced": True}
    assert by_evaluation == [
        {
            "evaluation_name": "sums",
            "answers": 3,
            "unknown": 1,
            "right": 2,
            "cost": 0.01,
            "cost_per_right": 0.005,
        }
        | common,
        {
            "evaluation_name": "words",
            "answers": 1,
            "unknown": 0,
            "right": 0,
            "cost": 0.005,
            "cost_per_right": None,
        }
        | common,
    ]
    assert run_here(*arguments, "csv").stdout.decode().splitlines() == [
        "evaluation_name,model_id,answers,unknown,right,priced,cost,cost_per_right",
        "sums,org/a,3,1,2,true,0.01,0.005",
        "words,org/a,1,0,0,true,0.005,",
    ]


def test_report_by_hand(two: Path) -> None:
    """The table of totals.

    Circles at the corners of the frame, and the model that another one beats is not filled.
    """
    fastrec.report(
        two / "corpus", two / "report.html", prices=two / "prices.toml", examples=0, overwrite=True
    )
    page = (two / "report.html").read_text()
    section = page[page.index("<h2>Cost</h2>") :]
    assert re.search("org/a</span></th>.*?2 of 2.*?>0.015<.*?>0.005<.*?>0.0075<", section)
    assert "no price for 1 model: other" in section
    plot = page[page.index("Result against the cost of an answer, 2 models") :]
    circles = re.findall('<circle cx="(.*?)" cy="(.*?)" r="5"(.*?)><title>(.*?)</title>', plot)
    assert circles[:2] == [
        ("0", "140", "", "org/exact: 100.0%, 0.00016"),
        ("520", "140", ' class="beaten"', "org/a: 100.0%, 0.005"),
    ]
    assert re.findall("<text .*?>(.*?)</text>", plot)[2:4] == ["org/exact", "org/a"]


def test_a_missing_file_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    ended = run_here("costs", tmp_path / "no corpus", "--prices", tmp_path / "none.toml")
    assert ended.returncode == 2
    assert b"none.toml: the prices cannot be read: No such file" in ended.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('["a"]\ninput = 1', "missing required field `output`"),
        ('["a"]\ninput = 1\noutput = -1', "not negative"),
        ('["a"]\ninput = 1\noutput = 2\ncache = 3', "unknown field `cache`"),
        ("a = 5", "Expected `object`"),
        ("[", "are not TOML"),
        (None, "No such file"),
    ],
)
def test_wrong_prices_are_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_prices(str(tmp_path / "prices.toml"))
    assert reason in str(caught.value)


def test_tables_of_groups_have_no_costs(tmp_path: Path) -> None:
    """In a report: costs are those of whole evaluations."""
    used = {"input_tokens": 1_000, "output_tokens": 300}
    lines = [
        line(model, number, used, metadata={"kind": "ab"[number % 2]})
        for number in range(4)
        for model in ("org/a", "org/b")
    ]
    (tmp_path / "shard.jsonl").write_bytes(b"\n".join(lines))
    fastrec.normalize(tmp_path / "shard.jsonl", tmp_path / "corpus")
    prices = tmp_path / "prices.toml"
    prices.write_text('["*"]\ninput = 2.0\noutput = 8.0\n')
    page = tmp_path / "page.html"
    fastrec.report(tmp_path / "corpus", page, prices=prices)
    columns = page.read_text().count("cost/answer")
    assert columns
    fastrec.report(
        tmp_path / "corpus", page, prices=prices, group_by="metadata.kind", overwrite=True
    )
    assert "[metadata.kind: a]" in page.read_text()
    assert page.read_text().count("cost/answer") == columns
