"""`fastrec show`: finds the question, shows all answers, folds what is long, and lets no text
control a terminal.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import fastrec
from fastrec.answers import shown as implementation
from fastrec.answers.shown import ShownQuestion
from fastrec.errors import UsageError
from fastrec.judge.parse import spell
from fastrec.limits import Limits, use_limits
from tests.answers.small import answer, conversation, make_corpus
from tests.running import run_here
from tests.systems import in_terminal, needs_script

HOSTILE = "\x1b[2J\x1b]0;title\x07\u202eevil\u2028\x00\r"
AGENT: list[dict[str, Any]] = [
    {"role": "system", "content": "rules " * 100},
    {"role": "user", "content": "book a flight"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_trace": "think " * 50,
        "tool_calls": [
            {"id": "c1", "name": "search", "arguments": {"to": "Rome", "date": "May 1"}}
        ],
    },
    {"role": "tool", "content": "Error: no flights", "tool_call_id": ["c1"]},
    *(
        {"role": role, "content": f"{role} {number}"}
        for number in range(4)
        for role in ("user", "assistant")
    ),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few questions of each kind; read-only."""
    usage = {"token_usage": {"input_tokens": 1200, "output_tokens": 1, "total_tokens": 1201}}
    usage["performance"] = {"latency_ms": 1234.5}  # type: ignore[dict-item]
    prompts = {
        "input": {
            "raw": "2 + 2?",
            "formatted": "<s>2 + 2?",
            "reference": ["4", "four"],
            "choices": ["4", "5"],
        }
    }
    records = [
        answer("sums", "2 + 2?", "org/a", 1, text="It is 4.", sample_id="s2", **usage, **prompts),
        answer("sums", "2 + 2?", "org/b", 0, text="5", sample_id="s2", **prompts),
        answer("sums", "2 + 2?", "org/c", 0, text="", sample_id="s2", error="timeout", **prompts),
        *(
            answer("judged", "metrics?", "org/a", score, evaluation_result_id=metric, text="same")
            for metric, score in (("bleu", 0.25), ("exact", 1.0))
        ),
        *(
            answer("judged", "repeats?", "org/a", 1, text="same", metadata={"trial": trial})
            for trial in "12"
        ),
        conversation("agents", "a flight", "org/a", 0, AGENT),
        answer(
            "hostile", HOSTILE, f"org/{HOSTILE}", 0, text=HOSTILE + "日本語" * 100 + "y" * 5_000
        ),
        *(
            answer(f"many-{number}", f"question {number}", "org/a", 1, sample_id="m")
            for number in range(7)
        ),
        *(
            answer(f"two-{number}", f"both {number}", "org/a", 1, sample_id="two")
            for number in range(2)
        ),
    ]
    return make_corpus(tmp_path_factory.mktemp("show"), records)


def shown(corpus: Path, question: int | str, **filters: Any) -> ShownQuestion:
    (found,) = fastrec.show(corpus, question, **filters).questions
    return found


def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return run_here("show", *arguments)


def test_a_question_is_found_by_sample_id_and_by_the_beginning_of_its_hash(corpus: Path) -> None:
    found = shown(corpus, "s2")
    assert found.question == "2 + 2?"
    assert [one.model_id for one in found.answers] == ["org/a", "org/b", "org/c"]
    for length in (4, 10, 64):
        assert shown(corpus, found.sample_hash[:length]) == found
    with pytest.raises(UsageError, match="give at least 4 characters of a hash"):
        shown(corpus, found.sample_hash[:3])
    assert [one.evaluation_name for one in fastrec.show(corpus, "two").questions] == [
        "two-0",
        "two-1",
    ]


def test_several_questions_are_listed(corpus: Path) -> None:
    with pytest.raises(UsageError) as caught:
        fastrec.show(corpus, "m")
    first, *lines = str(caught.value).split("\n")
    assert first == "several questions have the sample_id 'm'; choose an --evaluation:"
    assert len(lines) == 7
    assert all("many-" in line and "question " in line for line in lines)
    assert shown(corpus, "m", evaluation="many-3").question == "question 3"


def test_an_ambiguous_beginning_lists_the_candidates(tmp_path: Path) -> None:
    """Hashes of 100,000 questions are tried until two begin with the same 4 characters."""
    seen: dict[str, str] = {}
    for number in range(100_000):
        asked = f"question {number}"
        spelled = json.dumps({"raw": asked, "reference": ["yes"]}, separators=(",", ":"))
        prefix = hashlib.sha256(spelled.encode()).hexdigest()[:4]
        if prefix in seen:
            break
        seen[prefix] = asked
    corpus = make_corpus(tmp_path, [answer("e", one, "org/a", 1) for one in (seen[prefix], asked)])
    done = run(corpus, prefix)
    assert done.returncode == 2
    message = done.stderr.decode().splitlines()
    assert (
        message[0] == f"error: '{prefix}' is the beginning of several hashes; give more characters:"
    )
    assert {line.split("  ")[-1] for line in message[1:]} == {asked, seen[prefix]}
    for row in fastrec.questions(corpus).evaluations[0].questions:
        assert shown(corpus, row.prefix).sample_hash == row.sample_hash


@pytest.mark.parametrize(
    ("question", "filters", "message"),
    [
        ("nothing", {}, "no question has the sample_id 'nothing'"),
        ("", {}, "no question has the sample_id ''"),
        (
            "s2",
            {"evaluation": "judged"},
            "the filters leave out the question 's2'; it belongs to these evaluations: sums",
        ),
        ("s2", {"model": "x"}, "no model matches 'x'"),
        (None, {}, "question must be a string or an integer, not None"),
    ],
)
def test_what_is_wrong_is_said(
    corpus: Path, question: Any, filters: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        fastrec.show(corpus, question, **filters)


def test_filters_choose_answers(corpus: Path) -> None:
    def models(**filters: Any) -> list[str]:
        return [one.model_id for one in shown(corpus, "s2", **filters).answers]

    assert models(model="org/[ab]") == ["org/a", "org/b"]
    assert models(exclude_model="org/a") == ["org/b", "org/c"]
    assert models(right=True) == ["org/a"]
    assert models(wrong=True, errors=True) == ["org/b", "org/c"]
    assert models(model="org/a", wrong=True) == []


def test_metrics_are_verdicts_on_one_answer_and_repeats_are_answers(corpus: Path) -> None:
    (one,) = shown(corpus, "id of metrics?").answers
    assert [(verdict.metric, verdict.outcome, verdict.score) for verdict in one.verdicts] == [
        ("bleu", "wrong", 0.25),
        ("exact", "right", 1.0),
    ]
    repeats = shown(corpus, "id of repeats?").answers
    assert [[verdict.metadata for verdict in one.verdicts] for one in repeats] == [
        [{"trial": "1"}],
        [{"trial": "2"}],
    ]


def test_several_answers_of_a_model_are_told_apart(tmp_path: Path) -> None:
    """By their number, whatever the filters, and by what differs: run, sample, trial."""
    records = [
        answer("sums", "1 + 1?", "org/a", 1, text="2", metadata={"trial": "1", "seed": "7"}),
        answer("sums", "1 + 1?", "org/a", 0, text="3", metadata={"trial": "2", "seed": "7"}),
        answer(
            "sums", "1 + 1?", "org/a", 0, text="3", metadata={"trial": "2"}, evaluation_id="run 2"
        ),
        answer("sums", "1 + 1?", "org/b", 0, text="4", metadata={"trial": "1"}),
    ]
    corpus = make_corpus(tmp_path, records)
    found = shown(corpus, "id of 1 + 1?").answers
    assert [(one.model_id, one.number, one.total) for one in found] == [
        *(("org/a", number, 3) for number in (1, 2, 3)),
        ("org/b", 1, 1),
    ]
    assert [one.trial for one in found] == [
        {"evaluation_id": "run 2", "trial": "2"},
        {"evaluation_id": "sums/run", "trial": "1", "seed": "7"},
        {"evaluation_id": "sums/run", "trial": "2", "seed": "7"},
        {},
    ]
    assert shown(corpus, "id of 1 + 1?", wrong=True).answers == [found[0], *found[2:]]
    lines = run(corpus, "id of 1 + 1?", "--wrong").stdout.decode().splitlines()
    assert [line for line in lines if line.startswith("org/")] == [
        "org/a  answer 1 of 3, evaluation_id run 2, trial 2  wrong score 0",
        "org/a  answer 3 of 3, evaluation_id sums/run, trial 2, seed 7  wrong score 0",
        "org/b  wrong score 0",
    ]


def test_a_sample_id_chooses_answers(tmp_path: Path) -> None:
    """One question may have several of them."""
    records = [answer("sums", "1 + 1?", f"org/{name}", 1, sample_id=name) for name in "ab"]
    corpus = make_corpus(tmp_path, records)
    assert [one.sample_id for one in shown(corpus, "a").answers] == ["a", "b"]
    assert [one.sample_id for one in shown(corpus, "a", sample_id="b").answers] == ["b"]
    with pytest.raises(UsageError, match="the filters leave out all answers to the question 'a'"):
        shown(corpus, "a", sample_id="c")


def test_the_text(corpus: Path) -> None:
    """A question with three answers, in full; no wrapping, because stdout is no terminal."""
    done = run(corpus, "s2")
    first, *lines = done.stdout.decode().splitlines()
    assert first.startswith("sums, sample s2, hash ")
    assert lines == [
        "1 of 2 models right (50%), disagreement 1.00, 1 model with errors only",
        "question",
        "  2 + 2?",
        "prompt: 9 characters",
        "reference",
        "  4",
        "reference",
        "  four",
        "choices",
        "  A. 4",
        "  B. 5",
        "",
        "org/a  right score 1, 1,200 input tokens, 1 output token, 1.2 s",
        "  It is 4.",
        "",
        "org/b  wrong score 0",
        "  5",
        "",
        "org/c  error score 0",
        "  error: timeout",
        "  (empty)",
    ]
    assert "--full shows all" in done.stderr.decode()


def test_a_transcript_is_folded(corpus: Path) -> None:
    lines = run(corpus, "id of a flight").stdout.decode().splitlines()
    assert lines[lines.index("org/a  wrong score 0") + 1 :] == [
        "  0 system",
        "    600 characters",
        "  1 user",
        "    book a flight",
        "  … 6 turns, 1 tool call, 1 failed …",
        "  9 assistant",
        "    assistant 2",
        "  10 user",
        "    user 3",
        "  11 assistant",
        "    assistant 3",
    ]


def test_full_shows_everything(corpus: Path) -> None:
    done = run(corpus, "id of a flight", "--full")
    text = done.stdout.decode()
    assert done.stderr == b""
    for turn in AGENT:
        for part in (turn["content"], turn.get("reasoning_trace")):
            assert (part or "").strip() in text
    start = text.index("    → search  c1")
    assert text[start:].splitlines()[:5] == [
        "    → search  c1",
        "        date: May 1",
        "        to: Rome",
        "    ← result failed",
        "        Error: no flights",
    ]
    assert "y" * 5_000 in run(corpus, "id of " + HOSTILE, "--full").stdout.decode()


def test_hostile_text_cannot_control_a_terminal(corpus: Path) -> None:
    for options in ([], ["--full"], ["--format", "json"]):
        out = run(corpus, "id of " + HOSTILE, *options).stdout.decode()
        assert not set(out) & set("\x1b\x07\x00\u202e\u2028\r")
        assert "日本語" in out
    assert "y" * 5_000 not in run(corpus, "id of " + HOSTILE).stdout.decode()


def test_json_has_everything(corpus: Path) -> None:
    (found,) = json.loads(run(corpus, "id of a flight", "--format", "json").stdout)["questions"]
    (one,) = found["answers"]
    assert [turn["text"] for turn in one["turns"]] == [turn["content"] or "" for turn in AGENT]
    (call,) = one["turns"][2]["calls"]
    assert (call["result"], call["failed"], call["result_turn"]) == ("Error: no flights", True, 3)
    (sums,) = json.loads(run(corpus, "s2", "--format", "json").stdout)["questions"]
    assert sums["tallies"][0] == {
        "metric": None, "graded": False, "models": 2, "right": 1.0, "mean_score": 0.5, "disagreement": 1.0, "errors": 1,
    }  # fmt: skip


def test_the_source_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n" + json.dumps(answer("e", "where?", "org/a", 1)) + "\n")
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", track_sources=True)
    source = shown(tmp_path / "corpus", "id of where?").answers[0].verdicts[0].source
    assert source
    assert (Path(source.shard).name, source.line) == ("a.jsonl", 2)
    assert (
        f"  source: {source.shard}:2\n" in run(tmp_path / "corpus", "id of where?").stdout.decode()
    )


@needs_script
@pytest.mark.parametrize(("colours", "columns"), [(True, 60), (False, 100)])
def test_on_a_terminal_lines_fit_and_verdicts_have_colours(
    corpus: Path, colours: bool, columns: int
) -> None:
    run_show = f"{sys.executable} -m fastrec show --no-progress {corpus}"
    command = f"stty cols {columns}; {run_show} s2; {run_show} 'id of a flight'"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")
    }
    environment |= {} if colours else {"NO_COLOR": "1"}
    done = subprocess.run(
        in_terminal(command), capture_output=True, env=environment, timeout=60, check=True
    )
    text = done.stdout.decode()
    assert ("\x1b[32m\x1b[1mright" in text) is colours
    assert ("\x1b" in text) is colours
    assert (
        max(len(line) for line in click.unstyle(text).splitlines() if line.startswith("  "))
        <= columns
    )


def test_repeats_with_the_same_conversation_take_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record is looked up once, not once for each record before it."""
    records = [answer("e", "q", "m", 1, text="same", metadata={"epoch": str(n)}) for n in range(40)]
    records += [
        answer("e", "q", "m", 1, text="same", evaluation_result_id="other", metadata={"epoch": "0"})
    ]
    corpus = make_corpus(tmp_path, records)
    spelled: list[Any] = []

    def spelling(value: Any) -> bytes:
        spelled.append(value)
        return spell(value)

    monkeypatch.setattr(implementation, "spell", spelling)
    found = shown(corpus, "id of q").answers
    assert len(spelled) == 41
    assert [(one.number, one.total) for one in found] == [(number, 40) for number in range(1, 41)]
    assert [len(one.verdicts) for one in found] == [2] + [1] * 39


def test_too_many_answers_are_refused_while_they_are_read(tmp_path: Path) -> None:
    records = [
        answer("e", "q", f"m{n % 2}", 1, text=f"{n}", metadata={"epoch": str(n)}) for n in range(6)
    ]
    corpus = make_corpus(tmp_path, records)
    with use_limits(Limits(shown_answers=5)):
        with pytest.raises(
            UsageError, match="more than 5 answers, too many to show; choose some"
        ) as caught:
            fastrec.show(corpus, "id of q")
        assert len(shown(corpus, "id of q", model="m0").answers) == 3
    hash_ = str(caught.value).rpartition("--hash ")[2].rstrip("`")
    assert len(list(fastrec.cat(corpus, hash=hash_))) == 6


def test_a_question_whose_answers_are_in_several_buffers(tmp_path: Path) -> None:
    """Lines are taken from each buffer, and their numbers lead to their sources."""
    records = [answer("e", f"q{n % 3}", f"m{n}", 1) for n in range(30)]
    corpus = make_corpus(tmp_path, records)
    found = [shown(corpus, f"id of q{n}") for n in range(3)]
    with use_limits(Limits(skim_bytes=600)):
        assert [shown(corpus, f"id of q{n}") for n in range(3)] == found
    assert [len(one.answers) for one in found] == [10, 10, 10]
