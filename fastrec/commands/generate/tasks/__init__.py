"""Tasks: questions that could be from an evaluation, with the answers that models of any ability give to them.

A model gives a right answer with some probability, in one of four styles. A wrong answer has a
visible cause: a slip in one step, another choice, a result that was misread. Texts are in TOML
files beside the modules. All facts are common knowledge in our own words.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import zip_longest
from operator import add, mul, sub, truediv
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Record, Reply
from fastrec.commands.generate.text import Rng

STYLES: Final = 4
"""How models write, by number: 0 briefly, 1 friendly, 2 step by step, 3 in Markdown and LaTeX."""


class Trial(NamedTuple):
    """One attempt of a model: its probability of being right, and its style."""

    rng: Rng
    ability: float
    style: int

    def succeeds(self) -> bool:
        """Decide whether the answer, or one point of it, is right."""
        return self.rng.chance(self.ability)


class Task(NamedTuple):
    """A question, and a function that answers it."""

    raw: str
    reference: str
    subject: str
    tags: Sequence[str]
    answer: Callable[[Trial], Reply]
    choices: list[str] | None = None
    also: str = ""


@cache
def table(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def said(role: str, content: str) -> Record:
    return {"role": role, "content": content}


def _draw(rng: Rng, low: int, high: int, step: int = 1) -> int:
    return low + step * rng.below((high - low) // step + 1)


# Questions about facts with four choices. Wrong choices are values of similar rows of the same
# table.

_LETTERS: Final = "ABCD"
_NEAR: Final = 6  # wrong choices come from so many rows before and after a row


class _Fact(NamedTuple):
    """A question about a row of a table, its answer, and answers that are plausible and wrong."""

    topic: str
    subject: str
    question: str
    answer: str
    others: Sequence[str]
    lure: str  # the wrong answer that most would choose, or empty
    statement: str  # a sentence with `{}` in place of the answer


@cache
def facts() -> Sequence[_Fact]:
    """The questions of all tables; the topics take turns."""
    topics = [list(_topic(name, **fields)) for name, fields in table("facts").items()]
    return [fact for turn in zip_longest(*topics) for fact in turn if fact]


def _topic(
    name: str, *, subject: str, ask: str, state: str, rows: str, ask_back: str = ""
) -> list[_Fact]:
    """Make the questions for values, followed by those for keys."""
    split = [(*map(str.strip, row.split("|")), "")[:3] for row in rows.strip().splitlines()]
    made = []
    marks = ("{key}", "{value}")
    for given, pattern in enumerate(filter(None, (ask, ask_back))):
        asked = 1 - given
        for number, row in enumerate(split):
            near = [
                other
                for other in split[max(0, number - _NEAR) : number + _NEAR + 1]
                if other[0] != row[0]
            ]
            others = [other[asked] for other in near]
            lure = "" if given else row[2]
            statement = state.replace(marks[given], row[given]).replace(marks[asked], "{}")
            question = pattern.format(key=row[0], value=row[1])
            made.append(_Fact(name, subject, question, row[asked], others, lure, statement))
    return made


def trivia(rng: Rng, number: int) -> Task:
    fact = facts()[number % len(facts())]
    others = [other for other in rng.shuffled(fact.others) if other not in (fact.answer, fact.lure)]
    wrong = [fact.lure, *others][:3] if fact.lure else others[:3]
    choices = rng.shuffled([fact.answer, *wrong])
    raw = "\n".join(
        [
            fact.question,
            *(f"{letter}. {text}" for letter, text in zip(_LETTERS, choices, strict=True)),
        ]
    )
    reference = _LETTERS[choices.index(fact.answer)]
    return Task(
        raw,
        reference,
        fact.subject,
        ["choice", fact.topic],
        partial(_choose, fact, choices),
        choices,
    )


def _choose(fact: _Fact, choices: list[str], trial: Trial) -> Reply:
    rng = trial.rng
    right = trial.succeeds()
    chosen = fact.answer
    if not right:
        if rng.chance(0.04):
            text = "I am not sure, and I would rather not guess."
            return Reply(
                text, "", 0, f"{fact.question} I do not remember this, and I should not guess."
            )
        tempting = fact.lure if fact.lure and rng.chance(0.6) else ""
        chosen = tempting or rng.choice([text for text in choices if text != fact.answer])
    letter = _LETTERS[choices.index(chosen)]
    statement = fact.statement.format(chosen)
    text = (
        letter,
        f"Good question! 😀 The answer is {letter}, {chosen}.",
        f"{statement} That is choice {letter}.\n\nAnswer: {letter}",
        f"**Answer: {letter}**\n\n{statement}",
    )[trial.style]
    options = ", ".join(f'"{text}"' for text in choices)
    doubts = next(text for text in choices if text != chosen)
    reasoning = (
        f"The question is: {fact.question} The choices are {options}. "
        f'I considered "{doubts}", but I remember it like this: {statement} So I choose {letter}.'
    )
    return Reply(text, letter, right, reasoning)


# Open questions, graded by how many points of the reference an answer makes.

_OPENINGS: Final = ("", "Happy to explain! 😀 ", "Step by step: ", "**Short answer.** ")  # by style


def explanation(_: Rng, number: int) -> Task:
    """Make an open question; all combinations of topic, reader and limit differ."""
    topics, readers, limits = (
        table("explanations")[name] for name in ("topics", "readers", "limits")
    )
    topic = topics[number % len(topics)]
    turn = number // len(topics) + number % len(topics)
    raw = " ".join(
        filter(None, (topic["ask"], readers[turn % len(readers)], limits[turn % len(limits)]))
    )
    reference = " ".join(topic["points"])
    tags = ["explanation", topic["ask"].partition(" ")[0].lower()]
    return Task(
        raw, reference, topic["subject"], tags, partial(_explain, topic), also=topic["short"]
    )


def _explain(topic: dict[str, Any], trial: Trial) -> Reply:
    points: list[str] = topic["points"]
    made = [point for point in points if trial.succeeds()]
    sentences = made if len(made) > 1 else [topic["myth"], *made]
    if trial.style == 3 and len(sentences) > 2:
        body = "\n".join(f"- {sentence}" for sentence in sentences)
        text = f"**In short: {topic['ask']}**\n\n{body}"
    else:
        text = _OPENINGS[trial.style] + " ".join(sentences)
    if trial.style == 3:
        text += f"\n\n[Read more](https://example.org/{topic['subject']})"
    reasoning = (
        f"The user asks: {topic['ask']} I need the cause, what follows from it, and a "
        "limit or an example. "
    )
    if len(made) < 2:
        reasoning += "I am not sure, so I begin with what people say."
    elif len(made) < len(points):
        reasoning += f"I am sure of {len(made)} points and keep it short."
    else:
        reasoning += "I go through all of it in order."
    return Reply(text, text, len(made) / len(points), reasoning)


# Word problems: numbers are drawn, the result follows from them, and answers show the steps. A
# wrong answer has one mistake: a slip in one step, the wrong operation, the last step forgotten, or
# a unit that was not converted. Later steps go on from the wrong value, so the cause is visible.

_OPERATIONS: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": add,
    "−": sub,
    "×": mul,
    "÷": truediv,
}
_CONFUSED: Final = {"+": "×", "−": "+", "×": "+", "÷": "×"}
"""The operation that a model takes by mistake."""
_LATEX: Final = {"×": r"\times", "÷": r"\div", "−": "-"}


class _Step(NamedTuple):
    """One step as written: `left operation right = value`."""

    left: float
    operation: str
    right: float
    value: float

    def __str__(self) -> str:
        return f"{self.left} {self.operation} {self.right} = {self.value}"


def problem(rng: Rng, number: int, language: str = "en") -> Task:
    """Make a word problem in a language; the kinds take turns."""
    kinds = table("problems")["kinds"]
    texts = table("problems")["texts"][language]
    names = [name for name in kinds if name in texts]
    name = names[number % len(names)]
    kind = kinds[name]
    numbers: dict[str, float] = {key: _draw(rng, *bounds) for key, bounds in kind["draw"].items()}
    for key, formula in kind.get("derive", {}).items():
        numbers[key] = _step(formula, numbers).value
    people = dict(
        zip(("name", "other", "third"), rng.shuffled(texts["names"].split()), strict=False)
    )
    solution = _solve(kind["steps"], numbers)
    tell = texts[name]["tell"].replace("{name}", people["name"])

    def answer(trial: Trial) -> Reply:
        right = trial.succeeds()
        style = trial.style
        steps = solution if right else _mistaken(trial.rng, kind, numbers, solution)
        result = str(steps[-1].value)
        lines = [str(step) for step in steps]
        told = tell.replace("{r}", result)
        if style == 3:
            for sign, command in _LATEX.items():
                lines = [line.replace(sign, command) for line in lines]
            text = "\n".join(
                [*(f"$${line}$$" for line in lines), "", told, "", f"$\\boxed{{{result}}}$"]
            )
        elif style == 2:
            text = "\n".join(
                [*(f"{number}. {line}" for number, line in enumerate(lines, 1)), "", told]
            )
        else:
            text = (f"{texts['hello']} " if style else "") + f"{', '.join(lines)}. {told}"
        reasoning = texts["think"].format(steps=", ".join(map(str, steps)), r=result)
        return Reply(text, result, right, reasoning)

    raw = texts[name]["ask"].format(**numbers, **people)
    tags = [name, language, "units"] if "unit" in kind else [name, language]
    return Task(raw, str(solution[-1].value), "arithmetic", tags, answer)


def _step(formula: str, numbers: Mapping[str, float]) -> _Step:
    left, operation, right = formula.split()
    one = numbers[left] if left in numbers else int(left)
    two = numbers[right] if right in numbers else int(right)
    value = _OPERATIONS[operation](one, two)
    # An integer is written without a point.
    return _Step(one, operation, two, int(value) if value == int(value) else round(value, 3))


def _solve(
    formulas: Sequence[str], given: Mapping[str, float], wrong: int = -1, mistake: str = ""
) -> list[_Step]:
    """Go through the steps, with a mistake in step number `wrong`."""
    numbers = dict(given)
    steps = []
    for number, formula in enumerate(formulas):
        if number == wrong and mistake == "operation":
            left, operation, right = formula.split()
            formula = f"{left} {_CONFUSED[operation]} {right}"
        step = _step(formula, numbers)
        numbers[f"s{number + 1}"] = step.value
        if number == wrong and mistake == "skip":
            numbers[f"s{number + 1}"] = step.left
            continue
        if number == wrong and mistake == "slip":
            # A slip that people make, too: one row off in the times table, or a lost carry.
            slip = step.right if step.operation == "×" else 10 if step.value > 40 else 1
            step = step._replace(value=step.value + (slip if step.left % 2 else -slip))
            numbers[f"s{number + 1}"] = step.value
        steps.append(step)
    return steps


def _mistaken(
    rng: Rng, kind: Mapping[str, Any], numbers: Mapping[str, float], solution: Sequence[_Step]
) -> Sequence[_Step]:
    formulas, unit = kind["steps"], kind.get("unit")  # the step that converts a unit, from 1
    if unit and rng.chance(0.5):
        return _solve(formulas, numbers, unit - 1, "skip")
    if rng.chance(0.2):
        return _solve(formulas[:-1], numbers)
    mistake = "operation" if rng.chance(0.3) else "slip"
    steps = _solve(formulas, numbers, rng.below(len(formulas)), mistake)
    if steps[-1].value == solution[-1].value:  # such as 2 + 2 instead of 2 × 2
        steps = _solve(formulas, numbers, len(formulas) - 1, "slip")
    return steps


# Questions in eight languages: word problems, and capitals with short answers.

LANGUAGES: Final = ("de", "zh", "es", "ar", "fr", "ja", "ru", "hi")
_CAPITALS: Final = 8
"""Capitals of each language; all further questions are word problems, which have more variety."""


@cache
def capitals() -> dict[str, dict[str, Any]]:
    """The texts of each language, with `rows` as a dictionary from countries to capitals."""
    return {
        language: {
            **texts,
            "rows": dict(row.split(" | ") for row in texts["rows"].strip().splitlines()),
        }
        for language, texts in table("tongues").items()
    }


def tongue(rng: Rng, number: int) -> Task:
    turn, place = divmod(number, len(LANGUAGES))
    language = LANGUAGES[place]
    # Every language begins with one or the other kind, so that the first few questions show both.
    nth, is_problem = divmod(turn + place % 2, 2)
    if is_problem or nth >= _CAPITALS:
        return problem(rng, turn, language)
    texts = capitals()[language]
    country, capital = list(texts["rows"].items())[nth]
    raw = texts["ask"].format(country=country)
    answer = partial(_name_capital, texts, country, capital)
    return Task(raw, capital, "geography", ["capitals", language], answer)


def _name_capital(texts: Mapping[str, Any], country: str, capital: str, trial: Trial) -> Reply:
    right = trial.succeeds()
    said = (
        capital
        if right
        else trial.rng.choice([other for other in texts["rows"].values() if other != capital])
    )
    sentence = texts["tell"].format(country=country, capital=said)
    text = (said, f"😀 {sentence}", sentence, f"**{said}**\n\n{sentence}")[trial.style]
    return Reply(text, said, right, texts["think"].format(country=country, capital=said))


def small_talk(rng: Rng, number: int) -> Task:
    """Make small talk.

    Its last question is about a sum or a city that the model was told some turns before.
    """
    turn, place = divmod(number, len(LANGUAGES))
    texts = table("chats")[LANGUAGES[place]]
    a = rng.between(2, 9)
    b = rng.between(2, 9)
    city, other = rng.shuffled(texts["cities"].split())[:2]
    told = {
        "name": rng.choice(texts["names"].split()),
        "city": city,
        "other": other,
        "a": a,
        "b": b,
        "n": a + b,
    }
    about = ("city", "sum")[(turn + place) % 2]
    raw = "\n".join(texts[key].format(**told) for key in ("hello", "animals", f"ask_{about}"))
    reference = str(told["n"]) if about == "sum" else city
    answer = partial(_remember, texts, told, about)
    return Task(raw, reference, "memory", [about, LANGUAGES[place]], answer)


def _remember(texts: Mapping[str, str], told: Mapping[str, Any], about: str, trial: Trial) -> Reply:
    right = trial.succeeds()
    if about == "sum":
        text, extracted = (
            (texts["right_sum"], told["n"]) if right else (texts["wrong_sum"], told["a"])
        )
    else:
        text = texts["tell_city"]
        extracted = told["city"] if right else told["other"]
    shown = {**told, "city": extracted}
    turns = [
        said("system", texts["system"]),
        said("user", texts["hello"].format(**told)),
        said("assistant", texts["welcome"].format(**told)),
        said("user", texts["animals"].format(**told)),
        said("assistant", texts["nice"] + " 😀" * (trial.style == 1)),
        said("user", texts[f"ask_{about}"]),
    ]
    if about == "city":
        reasoning = f"The user told me the city in the first message. It was {extracted}."
    elif right:
        reasoning = (
            f"Dogs: {told['a']}. Cats: {told['b']}. {told['a']} + {told['b']} = {told['n']}."
        )
    else:
        reasoning = f"Dogs: {told['a']}. I do not remember any other animals."
    return Reply(text.format(**shown), str(extracted), right, reasoning, turns)


def help_desk(rng: Rng, number: int) -> Task:
    """Make a conversation of a help desk, graded by four points: ask, compute, quote the rule, confirm."""
    cases = table("desk")["cases"]
    names = table("desk")["names"]
    case = cases[number % len(cases)]
    facts: dict[str, Any] = {"name": rng.choice(names), "missing": rng.choice(case["missing"])}
    facts |= {
        "rule": rng.choice(case["rule"]),
        **{key: case[key] for key in ("wrong_missing", "wrong_rule")},
    }
    facts |= {key: _draw(rng, *bounds) for key, bounds in case["numbers"].items()}
    facts["total"] = facts["price"] * facts["count"]
    raw = case["system"].format(**facts) + "\n\n" + case["ask"].format(**facts)
    reference = case["right"][-1].format(**facts)
    also = f"{facts['total']} euros"
    return Task(
        raw, reference, case["subject"], ["conversation"], partial(_serve, case, facts), also=also
    )


def _serve(case: Mapping[str, Any], facts: Mapping[str, Any], trial: Trial) -> Reply:
    points = table("desk")["points"]
    made = [trial.succeeds() for _ in points]
    pairs = zip(made, case["right"], case["wrong"], strict=True)
    replies = [(right if good else wrong).format(**facts) for good, right, wrong in pairs]
    replies[-1] += ("", " 😀", "", " **Thank you!**")[trial.style]
    turns = [said("system", case["system"].format(**facts))]
    for key, reply in zip(("ask", "tell", "doubt", "close"), replies, strict=True):
        turns += [said("user", case[key].format(**facts)), said("assistant", reply)]
    sure = [point for point, good in zip(points, made, strict=True) if good]
    reasoning = (
        "The customer agrees, so I confirm. "
        + ("; ".join(sure) or "The details do not matter much")
        + "."
    )
    return Reply(replies[-1], replies[-1], sum(made) / len(points), reasoning, turns[:-1])
