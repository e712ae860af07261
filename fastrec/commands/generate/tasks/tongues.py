"""Questions in eight languages: word problems, and capitals with short answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final

from fastrec.commands.generate.tasks.problems import problem
from fastrec.commands.generate.tasks.task import Given, Task, Trial, table
from fastrec.commands.generate.text import Rng

__all__ = ["LANGUAGES", "capitals", "tongue"]

LANGUAGES: Final = ("de", "zh", "es", "ar", "fr", "ja", "ru", "hi")
CAPITALS: Final = 8
"""Capitals of each language; all further questions are word problems, which have more variety."""


@cache
def capitals() -> dict[str, dict[str, Any]]:
    """Return the texts of each language, with `rows` as a dictionary from countries to capitals."""
    found = table("tongues")
    for texts in found.values():
        texts["rows"] = dict(row.split(" | ") for row in texts["rows"].strip().splitlines())
    return found


def tongue(rng: Rng, number: int) -> Task:
    """Return a question in the language whose turn it is."""
    turn, place = divmod(number, len(LANGUAGES))
    language = LANGUAGES[place]
    # Every language begins with one or the other kind, so that the first few questions show both.
    nth, is_problem = divmod(turn + place % 2, 2)
    if is_problem or nth >= CAPITALS:
        return problem(rng, language, turn)
    texts = capitals()[language]
    country, capital = list(texts["rows"].items())[nth]
    return Task(
        raw=texts["ask"].format(country=country),
        reference=capital,
        subject="geography",
        tags=["capitals", language],
        answer=partial(_answer, texts, country, capital),
    )


def _answer(texts: Mapping[str, Any], country: str, capital: str, trial: Trial) -> Given:
    right = trial.succeeds()
    said = capital if right else trial.rng.choice([other for other in texts["rows"].values() if other != capital])
    sentence = texts["tell"].format(country=country, capital=said)
    text = (said, f"😀 {sentence}", sentence, f"**{said}**\n\n{sentence}")[trial.style]
    return Given(text, said, right, texts["think"].format(country=country, capital=said))
