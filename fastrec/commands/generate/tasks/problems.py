"""Word problems: numbers are drawn, the result follows from them, and answers show the steps.

A wrong answer has one mistake: a slip in one step, the wrong operation, the last step forgotten, or a unit that was not
converted. Later steps go on from the wrong value, so the cause is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from operator import add, mul, sub, truediv
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.tasks.task import Given, Task, Trial, table
from fastrec.commands.generate.text import Rng

__all__ = ["problem", "word_problem"]

OPERATIONS: Final[Mapping[str, Callable[[float, float], float]]] = {"+": add, "−": sub, "×": mul, "÷": truediv}
CONFUSED: Final = {"+": "×", "−": "+", "×": "+", "÷": "×"}
"""The operation that a model takes by mistake."""
LATEX: Final = {"×": r"\times", "÷": r"\div", "−": "-"}


class Step(NamedTuple):
    """One step as written: `left operation right = value`."""

    left: float
    operation: str
    right: float
    value: float

    def __str__(self) -> str:
        return f"{self.left} {self.operation} {self.right} = {self.value}"


class Problem(NamedTuple):
    """A problem with its numbers; `unit` is the step that converts a unit, `tell` the sentence for the result."""

    steps: Sequence[str]
    unit: int | None
    numbers: Mapping[str, float]
    solution: Sequence[Step]
    texts: Mapping[str, Any]
    tell: str


@cache
def _tables() -> dict[str, Any]:
    return table("problems")


@cache
def _kinds(language: str) -> list[str]:
    return [name for name in _tables()["kinds"] if name in _tables()["texts"][language]]


def word_problem(rng: Rng, number: int) -> Task:
    """Return a word problem in English."""
    return problem(rng, "en", number)


def problem(rng: Rng, language: str, number: int) -> Task:
    """Return a word problem in a language; the kinds take turns."""
    kinds = _kinds(language)
    name = kinds[number % len(kinds)]
    kind, texts = _tables()["kinds"][name], _tables()["texts"][language]
    numbers: dict[str, float] = {}
    for key, (low, high, *step) in kind["draw"].items():
        size = step[0] if step else 1
        numbers[key] = low + size * rng.below((high - low) // size + 1)
    for key, formula in kind.get("derive", {}).items():
        numbers[key] = _step(formula, numbers).value
    people = dict(zip(("name", "other", "third"), rng.shuffled(texts["names"].split()), strict=False))
    found = Problem(
        steps=kind["steps"],
        unit=kind.get("unit"),
        numbers=numbers,
        solution=_solve(kind["steps"], numbers),
        texts=texts,
        tell=texts[name]["tell"].replace("{name}", people["name"]),
    )
    return Task(
        raw=texts[name]["ask"].format(**numbers, **people),
        reference=str(found.solution[-1].value),
        subject="arithmetic",
        tags=[name, language] if found.unit is None else [name, language, "units"],
        answer=partial(_answer, found),
    )


def _step(formula: str, numbers: Mapping[str, float]) -> Step:
    left, operation, right = formula.split()
    one = numbers[left] if left in numbers else int(left)
    two = numbers[right] if right in numbers else int(right)
    value = OPERATIONS[operation](one, two)
    return Step(one, operation, two, _plain(value))


def _plain(value: float) -> float:
    """Return an integer if the value is one, so that it is written without a point."""
    return int(value) if value == int(value) else round(value, 3)


def _solve(formulas: Sequence[str], given: Mapping[str, float], wrong: int = -1, mistake: str = "") -> list[Step]:
    """Go through the steps, with a mistake in step number `wrong`."""
    numbers, steps = dict(given), []
    for number, formula in enumerate(formulas):
        if number == wrong and mistake == "operation":
            left, operation, right = formula.split()
            formula = f"{left} {CONFUSED[operation]} {right}"
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


def _mistaken(rng: Rng, found: Problem) -> Sequence[Step]:
    """Return steps to a wrong result."""
    formulas, numbers = found.steps, found.numbers
    if found.unit and rng.chance(0.5):
        return _solve(formulas, numbers, found.unit - 1, "skip")
    if rng.chance(0.2):
        return _solve(formulas[:-1], numbers)
    mistake = "operation" if rng.chance(0.3) else "slip"
    steps = _solve(formulas, numbers, rng.below(len(formulas)), mistake)
    if steps[-1].value == found.solution[-1].value:  # such as 2 + 2 instead of 2 × 2
        steps = _solve(formulas, numbers, len(formulas) - 1, "slip")
    return steps


def _answer(found: Problem, trial: Trial) -> Given:
    right, style, texts = trial.succeeds(), trial.style, found.texts
    steps = found.solution if right else _mistaken(trial.rng, found)
    result = str(steps[-1].value)
    lines = [str(step) for step in steps]
    told = found.tell.replace("{r}", result)
    if style == 3:
        for sign, command in LATEX.items():
            lines = [line.replace(sign, command) for line in lines]
        text = "\n".join([*(f"$${line}$$" for line in lines), "", told, "", f"$\\boxed{{{result}}}$"])
    elif style == 2:
        text = "\n".join([*(f"{number}. {line}" for number, line in enumerate(lines, 1)), "", told])
    else:
        text = (f"{texts['hello']} " if style else "") + f"{', '.join(lines)}. {told}"
    reasoning = texts["think"].format(steps=", ".join(map(str, steps)), r=result)
    return Given(text, result, right, reasoning)
