"""The text that reads like an evaluation: every answer is judged again from the text alone."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import pytest

from fastrec.commands.generate import Recipe, lines
from fastrec.commands.generate.evaluation import QuestionBank
from fastrec.commands.generate.producers import producer
from fastrec.commands.generate.tasks import (
    STYLES,
    answer,
    draw_facts,
    facts_with_choices,
    make_task,
    problem,
)
from fastrec.commands.generate.text import Rng, table

Record = dict[str, Any]
EVALUATIONS = [row["name"] for row in table("evaluations")["evaluations"]]

# What each problem in English asks for, computed from the numbers in the order of the text.
RESULTS = {
    "notebooks": lambda a, p, b, q, n: n - a * p - b * q,
    "train travels": lambda h, v, g, u: h * v + g * u,
    "coat": lambda c, d: c - c * d / 100,
    "hall": lambda a, b, e: a * b - e,
    "film": lambda h, m, b: 60 * h + m + b,
    "bicycle": lambda s, w, k, c: s + w * k - c,
    "boxes": lambda b, k, g: b * k / g,
    "recipe": lambda p, f, q: f / p * q,
    "twice as old": lambda k, a: 2 * a + k,
    "garden": lambda l, w, c: 2 * (l + w) * c,  # noqa: E741
    "tap": lambda i, o, t: (i - o) * t,
    "rice": lambda b, k, g: b * k * 1000 / g,
    "eggs": lambda e, o, p, d: (e - o) * p * d / 100,
}
STEP = re.compile(r"(-?[\d.]+) ([+−×÷]) (-?[\d.]+) = (-?[\d.]+)")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [json.loads(line) for line in lines(Recipe(records=4_000, seed=11))]


@pytest.fixture(scope="module")
def agents() -> list[Record]:
    return [json.loads(line) for line in lines(Recipe(records=800, seed=2, mix="agentic"))]


def those(records: list[Record], evaluation: str) -> list[Record]:
    """Return the records of an evaluation without an error."""
    found = [
        one for one in records if one["evaluation_name"] == evaluation and not one.get("error")
    ]
    assert found
    return found


def answer_of(record: Record) -> str:
    """Return the text of the final answer."""
    turns = record.get("interactions")
    return str(turns[-1]["content"] if turns else record["output"]["raw"])


def numbers_in(text: str) -> list[Fraction]:
    return [Fraction(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def true_steps(text: str) -> list[bool]:
    """Return for each step whether its arithmetic is right."""
    text = text.replace(r"\times", "×").replace(r"\div", "÷").replace(" - ", " − ")
    found = []
    for left, operation, right, value in STEP.findall(text):
        one = Fraction(left)
        two = Fraction(right)
        result = {"+": one + two, "−": one - two, "×": one * two, "÷": one / two}[operation]
        found.append(abs(result - Fraction(value.rstrip("."))) < Fraction(1, 1000))
    return found


# Every answer again


def test_word_problems(records: list[Record]) -> None:
    """The reference follows from the text; answers with that result are right, and only those."""
    kinds = set()
    for record in those(records, "word_problems"):
        asked = record["input"]["raw"]
        kind, result = next((kind, result) for kind, result in RESULTS.items() if kind in asked)
        kinds.add(kind)
        assert result(*numbers_in(asked)) == Fraction(record["input"]["reference"]), asked
        check_arithmetic(record)
    assert len(kinds) == len(RESULTS)


def check_arithmetic(record: Record) -> None:
    """Check that right answers have right steps, and that wrong ones have another result."""
    text = answer_of(record)
    reference = record["input"]["reference"]
    assert true_steps(text), text
    said = re.findall(r"-?\d+(?:\.\d+)?", text)[-1]
    assert said == record["answer_attribution"][0]["extracted_value"]
    assert (said == reference) == record["evaluation"]["is_correct"], text
    if record["evaluation"]["is_correct"]:
        assert all(true_steps(text)), text


def test_mistakes_are_visible(records: list[Record]) -> None:
    """A wrong answer has a false step, or other steps than right answers to the question have."""
    right: dict[Any, set[int]] = defaultdict(set)
    for record in those(records, "word_problems"):
        if record["evaluation"]["is_correct"]:
            right[record["sample_id"]].add(len(true_steps(answer_of(record))))
    causes: Counter[str] = Counter()
    for record in those(records, "word_problems"):
        steps = true_steps(answer_of(record))
        if not record["evaluation"]["is_correct"] and record["sample_id"] in right:
            false = not all(steps)
            fewer = len(steps) < min(right[record["sample_id"]])
            causes["slip" if false else "left out" if fewer else "operation"] += 1
    assert set(causes) == {"slip", "left out", "operation"}


def test_choices(records: list[Record]) -> None:
    """The reference is the letter of the fact; a wrong answer names another choice, or none."""
    values = defaultdict(set)
    for fact in facts_with_choices():
        values[fact["question"].format(**fact)].add(fact["answer"])
    for record in those(records, "trivia_choice"):
        asked = record["input"]["raw"]
        choices = record["input"]["choices"]
        question, *options = asked.split("\n")
        assert options == [
            f"{letter}. {text}" for letter, text in zip("ABCD", choices, strict=True)
        ]
        assert len(set(choices)) == 4
        reference = record["input"]["reference"]
        assert {choices["ABCD".index(reference)]} == values[question]
        assert values[question].isdisjoint(set(choices) - {choices["ABCD".index(reference)]})
        letter = record["answer_attribution"][0]["extracted_value"]
        assert (letter == reference) == record["evaluation"]["is_correct"]
        if letter:
            text = answer_of(record)
            assert re.search(rf"\b{letter}\b", text)
            assert text == letter or choices["ABCD".index(letter)] in text
        else:
            assert "not sure" in answer_of(record)


def test_open_answers(records: list[Record]) -> None:
    """The score is the share of points that an answer makes.

    An answer with fewer than two has a popular mistake.
    """
    for record in those(records, "open_answers"):
        topic = next(
            topic
            for topic in table("open_answers")["tasks"]
            if record["input"]["raw"].startswith(topic["question"])
        )
        text = answer_of(record)
        made = [point in text for point in topic["points"]]
        assert record["evaluation"]["score"] == sum(made) / 4
        assert (topic["myth"] in text) == (sum(made) < 2)


def test_world_tongues(records: list[Record]) -> None:
    """Answers in eight languages are right if they have what the reference has."""
    capital_of = {
        texts["asks"]["fact"].format(key=country): capital
        for texts in table("tongues")["tasks"]
        for country, capital in texts["rows"]
    }
    seen = set()
    for record in those(records, "world_tongues"):
        asked = record["input"]["raw"]
        reference = record["input"]["reference"]
        text = answer_of(record)
        seen.add(script_of(asked))
        if asked in capital_of:
            assert capital_of[asked] == reference
            assert (reference in text) == record["evaluation"]["is_correct"]
        else:
            check_arithmetic(record)
    assert seen == {"Latin", "Cyrillic", "Han", "Kana", "Arabic", "Devanagari"}


SCRIPTS = {
    "Kana": "[ぁ-ヿ]",
    "Han": "[一-鿿]",
    "Cyrillic": "[А-я]",
    "Arabic": "[ؠ-ۿ]",
    "Devanagari": "[ऄ-ह]",
}


def script_of(text: str) -> str:
    return next((name for name, letters in SCRIPTS.items() if re.search(letters, text)), "Latin")


@pytest.mark.parametrize("language", [texts["language"] for texts in table("tongues")["tasks"]])
def test_languages_agree(language: str) -> None:
    """A problem in another language has the result of the same problem in English."""
    speed_first = {"zh", "ja", "ar"}
    order = {
        "discount": "cd",
        "seats": "abe",
        "minutes": "hmb",
        "trip": "vhug" if language in speed_first else "hvgu",
    }
    for number in range(8):
        task = draw_facts(Rng(number), problem(number, language))
        kind = task["kind"]
        found = numbers_in(task["ask"])
        value = dict(zip(order[kind], found, strict=True))
        expected = {
            "trip": lambda h, v, g, u: h * v + g * u,
            "discount": lambda c, d: c - c * d / 100,
            "seats": lambda a, b, e: a * b - e,
            "minutes": lambda h, m, b: 60 * h + m + b,
        }[kind](**value)  # type: ignore[operator]
        assert Fraction(task["reference"]) == expected, task["ask"]


def test_help_desk(records: list[Record]) -> None:
    """The score is the share of four points: to ask, to compute, to quote the rule, to confirm."""
    scores = set()
    for record in those(records, "help_desk"):
        turns = record["interactions"]
        assert [turn["role"] for turn in turns] == ["system", *(["user", "assistant"] * 4)]
        system = turns[0]["content"]
        (ask, price, rule, last) = [turn["content"] for turn in turns[2::2]]
        each = numbers_in(re.search(r"costs (\d+) euros", system)[1])[0]  # type: ignore[index]
        count = numbers_in(turns[1]["content"])[0]
        allowed = re.search(r"(?:until|kept for|returned by) (.+?)(?: before|\. Ask)", system)
        assert allowed
        points = [
            "?" in ask,
            each * count in numbers_in(price),
            allowed[1] in rule,
            last.startswith(record["input"]["reference"]),
        ]
        assert record["evaluation"]["score"] == sum(points) / 4, turns
        scores.add(record["evaluation"]["score"])
    assert scores == {0, 0.25, 0.5, 0.75, 1}


def test_small_talk(records: list[Record]) -> None:
    """The reference was said earlier, or is the sum of two numbers.

    A wrong answer forgot some of it.
    """
    for record in those(records, "small_talk_world"):
        turns = record["interactions"]
        reference = record["input"]["reference"]
        if reference.isdigit():
            assert reference == str(sum(numbers_in(turns[3]["content"])))
            right = reference in re.findall(r"\d+", answer_of(record))
        else:
            assert reference in turns[1]["content"]
            right = reference in answer_of(record)
        assert right == record["evaluation"]["is_correct"]


def test_agents(agents: list[Record]) -> None:
    """An agent is right if its answer has what the tools returned."""
    for record in agents:
        if record.get("error"):
            continue
        found = record["answer_attribution"][0]["extracted_value"]
        reference = record["input"]["reference"]
        right = record["evaluation"]["is_correct"]
        text = answer_of(record)
        assert (found == reference) == right
        assert found == "none" or all(
            part.removesuffix(" euros") in text for part in found.split(", ")
        )
        outputs = [turn["content"] for turn in record["interactions"] if turn["role"] == "tool"]
        assert expected_of(record["input"]["raw"], outputs) == reference, record["interactions"]


def expected_of(asked: str, outputs: list[str]) -> str:
    """Solve the task of an agent from the outputs of its tools."""
    if "train" in asked:
        latest, people = re.search(r"before (\d+):00, for (\d+) people", asked).groups()  # type: ignore[union-attr]
        output = next(output for output in outputs if "arrives" in output)
        trains = map(json.loads, output.splitlines())
        best = min(
            (train for train in trains if train["arrives"] < f"{latest}:00"),
            key=lambda train: train["price"],
        )
        return f"{best['train']}, {best['price'] * int(people)} euros"
    if "warmer" in asked:
        rows = [json.loads(row) for row in outputs[-1].split("\n")]
        degrees = {row["city"]: row["celsius"] for row in rows}
        warm, cold = re.search(r"in (\S+) than in (\S+) on", asked).groups()  # type: ignore[union-attr]
        return str(degrees[warm] - degrees[cold])
    if "rate" in asked:
        rate = next(json.loads(output)["rate"] for output in outputs if "rate" in output)
        return str(int(re.search(r"for (\d+) EUR", asked)[1]) * rate)  # type: ignore[index]
    if "ERROR" in asked:
        path = re.search(r"of (\S+) contain", asked)[1]  # type: ignore[index]
        return re.search(rf"^{re.escape(path)}:(\d+)$", outputs[-1], re.MULTILINE)[1]  # type: ignore[index]
    if "defines" in asked:
        plain = re.sub(r"\x1b\[[\d;]*m", "", outputs[-1])
        return re.search(r"^(\S+?):\d+:def ", plain, re.MULTILINE)[1]  # type: ignore[index]
    if "largest" in asked:
        sizes = [row.split("\t") for row in outputs[-1].splitlines()]
        _, path = max(sizes, key=lambda row: float(row[0][:-1]) * {"K": 1, "M": 1024}[row[0][-1]])
        return path.rpartition("/")[2]
    return str(sum(int(row.split(",")[1]) for row in outputs[0].splitlines()[1:]))


def test_tools_fail_sometimes(agents: list[Record]) -> None:
    """Some calls fail, before right answers too; some turns have two calls."""
    failures = Counter()
    calls = []
    for record in agents:
        turns = record["interactions"]
        outputs = [turn["content"] for turn in turns if turn["role"] == "tool"]
        failed = any(re.search("error|not found|cannot", output) for output in outputs)
        failures[failed, record["evaluation"]["is_correct"]] += 1
        calls += [turn["tool_calls"] for turn in turns if turn.get("tool_calls")]
    assert min(failures[True, True], failures[True, False], failures[False, True]) > 20
    assert {len(made) for made in calls} == {1, 2}
    assert {"arguments" in call for made in calls for call in made} == {True, False}
    names = "book_train calculate get_rate get_weather run_command search_trains today"
    assert {call["name"] for made in calls for call in made} == set(names.split())


# The corpus as a whole


def test_no_placeholder_is_left(records: list[Record], agents: list[Record]) -> None:
    """No text has a name in braces, a Python value or a double space."""
    for record in records + agents:
        texts = [
            *strings(record["input"]),
            *strings(record.get("output")),
            *strings(record.get("interactions")),
        ]
        for text in texts:
            if "awk" not in text and '"' not in text:
                assert not re.search(
                    r"\{[^}]*[a-z_]+\}|None|True|False|<function", text.replace("\\boxed{", "")
                ), text
            if not re.search(r"[:=] {2,}", text):  # indented code that a tool found
                assert "  " not in text, text


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


def test_errors_have_no_answer(records: list[Record]) -> None:
    """A record with an error is wrong, and its answer is empty or a refusal."""
    failed = [record for record in records if record.get("error")]
    assert 0.005 < len(failed) / len(records) < 0.04
    for record in failed:
        assert not record["evaluation"]["is_correct"]
        assert answer_of(record) == (
            "I am sorry, but I cannot help with that." if record["error"] == "refusal" else ""
        )


def test_models_differ(records: list[Record]) -> None:
    """The largest models answer far more questions correctly than the smallest."""
    answers: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for record in records:
        size = record["model_id"].partition("-")[2].partition("model-")[2]
        answers[record["evaluation_name"], size].append(record["evaluation"]["is_correct"])
    for name in EVALUATIONS:
        small = answers[name, "1b"]
        large = answers[name, "70b"]
        assert sum(large) / len(large) > sum(small) / len(small) + 0.15, name
    assert 0.3 < sum(record["evaluation"]["is_correct"] for record in records) / len(records) < 0.8


def test_questions_differ(records: list[Record]) -> None:
    """Some questions are easy and some are hard, and most divide the models."""
    found = defaultdict(list)
    for record in records:
        found[record["evaluation_name"], record["sample_id"]].append(
            record["evaluation"]["is_correct"]
        )
    shares = [sum(answers) / len(answers) for answers in found.values()]
    assert sum(share > 0.8 for share in shares) > 0.05 * len(shares)
    assert sum(share < 0.2 for share in shares) > 0.02 * len(shares)
    assert sum(0.2 <= share <= 0.8 for share in shares) > 0.5 * len(shares)


@pytest.mark.parametrize("mix", ["mixed", "single_turn", "agentic"])
def test_every_question_is_asked_once(mix: str) -> None:
    """Even a corpus with as many questions as possible has no two with the same text."""
    bank = QuestionBank(Rng(96), Recipe(records=40_000, seed=96, mix=mix))
    asked = []
    for kind in ("single_turn", "multi_turn", "agentic"):
        question, author = next(bank.asked[kind])
        while author.number == 0:
            asked.append(question.raw)
            question, author = next(bank.asked[kind])
    assert len(asked) == len(set(asked)) >= 2_500


@pytest.mark.parametrize("name", EVALUATIONS)
def test_certain_answers(name: str) -> None:
    """A model that is always right has the full score, and one that never is has none."""
    rng = Rng(5)
    for number in range(30):
        task = make_task(rng, name, number)
        for style in range(STYLES):
            assert answer(task, rng, 1.0, style).score == 1
            assert answer(task, rng, 0.0, style).score == 0


def test_abilities() -> None:
    """Abilities are probabilities, and a new version of a model is not worse."""
    for number in range(600):
        one = producer(0, number)
        next_version = producer(0, number + 78)
        assert 0 < one.ability <= next_version.ability <= 1.1


def test_tables() -> None:
    """Values are unique within a table of facts, and a lure is not the answer."""
    for topic in table("facts")["tasks"]:
        rows = topic["rows"]
        for column in (0, 1):
            assert len({row[column] for row in rows}) == len(rows), topic["topic"]
        assert all(row[1] not in row[2:] for row in rows)
        assert len(rows) >= 8
