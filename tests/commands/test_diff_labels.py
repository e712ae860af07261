"""`diff` of a corpus and the same one with corrected verdicts: relabelled answers are counted
apart.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.diff.fields import is_relabelled, split_object
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of ten answers of each model, labels change three of a and none of b.

    One more of each changes otherwise.
    """
    folder = tmp_path_factory.mktemp("labels")

    def records(changed: float) -> list[Record]:
        scores = {("a", 9): changed, ("b", 9): changed}
        return [
            answer(
                "e",
                f"q{number}",
                model,
                scores.get((model, number), 1.0),
                text="same",
                metadata={"kept": "yes"},
            )
            for model in "ab"
            for number in range(10)
        ]

    for name, changed in (("old", 1.0), ("new", 0.0)):
        (folder / name).mkdir()
        make_corpus(folder / name, records(changed))
    labels = [
        {
            "evaluation": "e",
            "model": "a",
            "sample_id": f"id of q{number}",
            "is_correct": False,
            "reason": "misread",
        }
        for number in range(3)
    ]
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    fastrec.normalize(
        folder / "new" / "corpus", folder / "labelled", labels=folder / "labels.jsonl"
    )
    return folder / "old" / "corpus", folder / "labelled"


def test_counts_by_hand(corpora: tuple[Path, Path]) -> None:
    found = fastrec.diff(*corpora)
    assert (found.counts.changed, found.counts.relabelled, found.counts.unchanged) == (5, 3, 15)
    assert {model.model_id: (model.counts.relabelled, model.worse) for model in found.models} == {
        "a": (3, 4),
        "b": (0, 1),
    }
    assert [one.sample_id for one in found.examples.changed] == ["id of q9"] * 2
    assert sorted(str(one.sample_id) for one in found.examples.relabelled) == [
        f"id of q{n}" for n in range(3)
    ]


def test_text_and_markdown(corpora: tuple[Path, Path]) -> None:
    text = run_here("diff", *corpora, "--examples", "5").stdout.decode()
    assert "15 unchanged, 5 changed (3 relabelled)" in text
    assert text.count("3 relabelled") == 2
    assert "relabelled: a label in NEW changed the verdict" in text
    markdown = run_here("diff", *corpora, "--examples", "5", "--format", "markdown").stdout.decode()
    assert "| 3 relabelled |" in markdown
    assert "**relabelled**: 3 examples" in markdown


def test_the_way_back_and_the_same_labels_are_not_relabelled(corpora: tuple[Path, Path]) -> None:
    """Only NEW must have the label; without any, nothing is said about labels."""
    old, labelled = corpora
    for pair in ((labelled, old), (labelled, labelled)):
        assert fastrec.diff(*pair).counts.relabelled == 0
        assert "relabel" not in run_here("diff", *pair).stdout.decode()


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (None, {"original_is_correct": "true"}, True),
        ({}, {"label_reason": "r"}, True),
        ({"label_at": "1"}, {"label_at": "2"}, True),
        ({"original_score": "1"}, {"original_score": "1"}, False),
        ({"original_score": "1"}, None, False),
        ({}, {"original_model_id": "m"}, False),
    ],
)
def test_what_is_a_label(was: Record | None, now: Record | None, expected: bool) -> None:
    old, new = (
        split_object(json.dumps({} if one is None else {"metadata": one})) for one in (was, now)
    )
    assert is_relabelled(old, new, ["$.metadata", "$.evaluation.score"]) is expected
    assert not is_relabelled(old, new, ["$.metadata"])


def _extracted(value: str) -> list[dict[str, Any]]:
    part = {"turn_idx": 0, "source": "output.raw", "extraction_method": "test"}
    return [part | {"extracted_value": value, "is_terminal": True}] if value else []


LOSSES: dict[str, dict[str, Any]] = {
    "error": {"error": "timeout", "text": ""},
    "same_output": {"answer_attribution": _extracted("8")},
    "cut_short": {"text": "The ans", "answer_attribution": _extracted("")},
    "no_value": {"text": "No idea", "answer_attribution": _extracted("")},
    "other_value": {"text": "It is 8", "answer_attribution": _extracted("8")},
    "other_output": {"text": "It is seven"},
}
LIMIT = {"text": "Let me think about", "metadata": {"stop_reason": "max_tokens"}}


def test_losses_by_cause(tmp_path: Path) -> None:
    """Each cause has as many losses as were made; gains and answers that stay wrong have none."""
    corpora = []
    for side in ("old", "new"):
        records = []
        for number, (cause, change) in enumerate([*LOSSES.items(), ("cut_short", LIMIT)]):
            for copy in range(number + 1):
                whole = {"text": "The answer is 7", "answer_attribution": _extracted("7")}
                more = whole | (change if side == "new" else {})
                score = float(side == "old")
                records.append(answer("e", f"{cause} {number} {copy}", "org/a", score, **more))
        records.append(answer("e", "gain", "org/a", float(side == "new"), text=side))
        records.append(answer("e", "wrong", "org/a", 0.0, text=side))
        (tmp_path / side).mkdir()
        corpora.append(make_corpus(tmp_path / side, records))
    (model,) = fastrec.diff(*corpora, examples=2).models
    expected = {cause: number + 1 for number, cause in enumerate(LOSSES)}
    expected["cut_short"] += len(LOSSES) + 1
    assert model.losses == expected
    assert len(model.lost) == 2
    assert all(str(loss.sample_id).startswith(f"id of {loss.cause}") for loss in model.lost)
    text = run_here("diff", *corpora, "--examples", "1").stdout.decode()
    table = text[text.index("right answers that are wrong now: by cause") :].splitlines()
    causes = "1 error, 2 same output, 10 cut short, 4 no value, 5 other value, 6 other output"
    assert table[2].split() == ["org/a", "e", *causes.split()]
    assert "lost: org/a" in text
    assert "by cause" not in run_here("diff", corpora[0], corpora[0]).stdout.decode()
