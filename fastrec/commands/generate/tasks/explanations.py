"""Open questions, graded by how many points of the reference an answer makes."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

from fastrec.commands.generate.tasks.task import Given, Task, Trial, table
from fastrec.commands.generate.text import Rng

__all__ = ["explanation", "topics"]

READERS: Final = (
    "",
    "Explain it to a child of ten years.",
    "Explain it to a colleague who never studied the subject.",
    "Write it for the newsletter of a library.",
    "Write it for the first page of a school book.",
    "Answer as you would in an oral exam.",
)
LIMITS: Final = (
    "",
    "Use at most five sentences.",
    "Use at most eighty words.",
    "Use no formulas.",
    "Give the most important cause first.",
    "Do not use a list.",
    "End with what follows from it in daily life.",
)
OPENINGS: Final = (
    "",
    "Happy to explain! 😀 ",
    "Step by step: ",
    "**Short answer.** ",
)


@cache
def topics() -> list[dict[str, Any]]:
    """Return the topics."""
    found: list[dict[str, Any]] = table("explanations")["topics"]
    return found


def explanation(_: Rng, number: int) -> Task:
    """Return an open question; all combinations of topic, reader and limit differ."""
    count = len(topics())
    topic, turn = topics()[number % count], number // count + number % count
    raw = " ".join(filter(None, (topic["ask"], READERS[turn % len(READERS)], LIMITS[turn % len(LIMITS)])))
    return Task(
        raw=raw,
        reference=" ".join(topic["points"]),
        subject=topic["subject"],
        tags=["explanation", topic["ask"].partition(" ")[0].lower()],
        answer=partial(_answer, topic),
        also=topic["short"],
    )


def _answer(topic: dict[str, Any], trial: Trial) -> Given:
    points: list[str] = topic["points"]
    made = [point for point in points if trial.succeeds()]
    sentences = made if len(made) > 1 else [topic["myth"], *made]
    if trial.style == 3 and len(sentences) > 2:
        body = "\n".join(f"- {sentence}" for sentence in sentences)
        text = f"**In short: {topic['ask']}**\n\n{body}"
    else:
        text = OPENINGS[trial.style] + " ".join(sentences)
    if trial.style == 3:
        text += f"\n\n[Read more](https://example.org/{topic['subject']})"
    left_out = len(points) - len(made)
    reasoning = f"The user asks: {topic['ask']} I need the cause, what follows from it, and a limit or an example. "
    if len(made) < 2:
        reasoning += "I am not sure, so I begin with what people say."
    elif left_out:
        reasoning += f"I am sure of {len(made)} points and keep it short."
    else:
        reasoning += "I go through all of it in order."
    return Given(text, text, len(made) / len(points), reasoning)
