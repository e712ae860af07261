"""Small talk in eight languages: the model must remember what it was told some turns before."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from fastrec.commands.generate.tasks.task import Given, Task, Trial, said, table
from fastrec.commands.generate.tasks.tongues import LANGUAGES
from fastrec.commands.generate.text import Rng

__all__ = ["small_talk"]


@cache
def _texts() -> dict[str, dict[str, str]]:
    return table("chats")


def small_talk(rng: Rng, number: int) -> Task:
    """Return a conversation in the language whose turn it is. The last question is about a sum or a city."""
    turn, place = divmod(number, len(LANGUAGES))
    texts = _texts()[LANGUAGES[place]]
    a, b = rng.between(2, 9), rng.between(2, 9)
    city, other = rng.shuffled(texts["cities"].split())[:2]
    told = {"name": rng.choice(texts["names"].split()), "city": city, "other": other, "a": a, "b": b, "n": a + b}
    about = ("city", "sum")[(turn + place) % 2]
    return Task(
        raw="\n".join(texts[key].format(**told) for key in ("hello", "animals", f"ask_{about}")),
        reference=str(told["n"]) if about == "sum" else city,
        subject="memory",
        tags=[about, LANGUAGES[place]],
        answer=partial(_answer, texts, told, about),
    )


def _answer(texts: Mapping[str, str], told: Mapping[str, Any], about: str, trial: Trial) -> Given:
    right = trial.succeeds()
    if about == "sum":
        text, extracted = (texts["right_sum"], told["n"]) if right else (texts["wrong_sum"], told["a"])
    else:
        text, extracted = texts["tell_city"], told["city"] if right else told["other"]
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
        reasoning = f"Dogs: {told['a']}. Cats: {told['b']}. {told['a']} + {told['b']} = {told['n']}."
    else:
        reasoning = f"Dogs: {told['a']}. I do not remember any other animals."
    return Given(text.format(**shown), str(extracted), right, reasoning, turns)
