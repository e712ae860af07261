"""What answers cost: sums by hand, prices that are missing, and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.answers.costs import find_costs, read_prices
from fastrec.corpus.manifest import read_manifest
from fastrec.errors import UsageError
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
    record = sample_of("0.3.0", model_id=model, sample_id=f"q{number}", evaluation_name="sums", **changes)
    record["input"]["raw"] = question(number)["raw"]
    record.pop("error", None)
    record["token_usage"] = usage and usage | {"total_tokens": usage["input_tokens"] + usage["output_tokens"]}
    del record["sample_hash"]
    return json.dumps(record).encode()


def test_costs_are_those_by_hand(tmp_path: Path) -> None:
    """Cached input and reasoning have their own prices; records of other metrics are the same answers."""
    right, wrong = {"score": 1.0, "is_correct": True}, {"score": 0.0, "is_correct": False}
    used = {"input_tokens": 1_000, "output_tokens": 300, "input_tokens_cache_read": 400, "reasoning_tokens": 100}
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
    prices, models = read_prices(str(tmp_path / "prices.toml")), {"org/a", "org/exact", "other"}
    corpus = str(tmp_path / "corpus")
    found = {one.model_id: one for one in find_costs(corpus, read_manifest(corpus), prices, {"sums": "em"}, models)}
    one_answer = (600 * 2 + 400 * 0.5 + 200 * 10 + 100 * 20) / 1e6
    assert (found["org/a"].answers, found["org/a"].unknown, found["org/a"].right) == (3, 1, 1)
    assert found["org/a"].cost == pytest.approx(2 * one_answer, rel=1e-15)
    assert found["org/a"].cost_per_right == found["org/a"].cost
    assert found["org/exact"].cost == 1e13 + 7 * 0.2 / 1e6
    assert found["org/exact"].cost_per_right is None
    assert (found["other"].cost, found["other"].right) == (None, 1)
    assert set(found) == models


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('["a"]\ninput = 1', "missing required field `output`"),
        ('["a"]\ninput = 1\noutput = -1', "not negative"),
        ('["a"]\ninput = 1\noutput = 2\ncache = 3', "unknown field `cache`"),
        ("a = 5", "Expected `object`"),
        ("[", "cannot be read"),
        (None, "No such file"),
    ],
)
def test_wrong_prices_are_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_prices(str(tmp_path / "prices.toml"))
    assert reason in str(caught.value)
