"""Questions about facts with four choices. Wrong choices are values of similar rows of the same table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import chain, zip_longest
from typing import Final, NamedTuple

from fastrec.commands.generate.tasks.task import Given, Task, Trial, table
from fastrec.commands.generate.text import Rng

__all__ = ["LETTERS", "Fact", "facts", "trivia"]

LETTERS: Final = "ABCD"
NEAR: Final = 6
"""Wrong choices come from so many rows before and after a row."""


class Fact(NamedTuple):
    """A question about a row of a table, its answer, and answers that are plausible and wrong."""

    topic: str
    subject: str
    question: str
    answer: str
    others: Sequence[str]
    lure: str
    """The wrong answer that most would choose, or empty."""
    statement: str
    """A sentence with `{}` in place of the answer."""


@cache
def facts() -> Sequence[Fact]:
    """Return the questions of all tables; the topics take turns."""
    topics = [list(_topic(name, **fields)) for name, fields in table("facts").items()]
    return [fact for turn in zip_longest(*topics) for fact in turn if fact]


def _topic(name: str, *, subject: str, ask: str, state: str, rows: str, ask_back: str = "") -> list[Fact]:
    """Return the questions for values, followed by those for keys."""
    split = [(*map(str.strip, row.split("|")), "")[:3] for row in rows.strip().splitlines()]
    forward, back = [], []
    for number, (key, value, lure) in enumerate(split):
        near = [row for row in split[max(0, number - NEAR) : number + NEAR + 1] if row[0] != key]
        others = [other for _, other, _ in near]
        statement = state.replace("{key}", key).replace("{value}", "{}")
        forward.append(Fact(name, subject, ask.format(key=key), value, others, lure, statement))
        if ask_back:
            keys = [other for other, _, _ in near]
            statement = state.replace("{value}", value).replace("{key}", "{}")
            back.append(Fact(name, subject, ask_back.format(value=value), key, keys, "", statement))
    return list(chain(forward, back))


def trivia(rng: Rng, number: int) -> Task:
    """Return a question with choices."""
    fact = facts()[number % len(facts())]
    others = [other for other in rng.shuffled(fact.others) if other not in (fact.answer, fact.lure)]
    wrong = [fact.lure, *others][:3] if fact.lure else others[:3]
    choices = rng.shuffled([fact.answer, *wrong])
    raw = "\n".join([fact.question, *(f"{letter}. {text}" for letter, text in zip(LETTERS, choices, strict=True))])
    return Task(
        raw=raw,
        reference=LETTERS[choices.index(fact.answer)],
        subject=fact.subject,
        tags=["choice", fact.topic],
        answer=partial(_answer, fact, choices),
        choices=choices,
    )


def _answer(fact: Fact, choices: list[str], trial: Trial) -> Given:
    rng, right = trial.rng, trial.succeeds()
    chosen = fact.answer
    if not right:
        if rng.chance(0.04):
            text = "I am not sure, and I would rather not guess."
            return Given(text, "", 0, f"{fact.question} I do not remember this, and I should not guess.")
        tempting = fact.lure if fact.lure and rng.chance(0.6) else ""
        chosen = tempting or rng.choice([text for text in choices if text != fact.answer])
    letter = LETTERS[choices.index(chosen)]
    statement = fact.statement.format(chosen)
    text = (
        letter,
        f"Good question! 😀 The answer is {letter}, {chosen}.",
        f"{statement} That is choice {letter}.\n\nAnswer: {letter}",
        f"**Answer: {letter}**\n\n{statement}",
    )[trial.style]
    return Given(text, letter, right, _reasoning(fact, choices, chosen, letter))


def _reasoning(fact: Fact, choices: list[str], chosen: str, letter: str) -> str:
    options = ", ".join(f'"{text}"' for text in choices)
    doubts = next(text for text in choices if text != chosen)
    return (
        f"The question is: {fact.question} The choices are {options}. "
        f'I considered "{doubts}", but I remember it like this: {fact.statement.format(chosen)} So I choose {letter}.'
    )
