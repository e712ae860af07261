"""Conversations of a help desk, graded by four points: ask, compute, quote the rule, confirm."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from itertools import chain
from typing import Any, Final

from fastrec.commands.generate.tasks.task import Given, Task, Trial, said, table
from fastrec.commands.generate.text import Rng

__all__ = ["help_desk"]

NAMES: Final = ("Amara Okafor", "Lukas Weber", "Sofía Reyes", "Mei Tanaka", "Omar Haddad", "Ingrid Dahl", "Tom Baker")
POINTS: Final = ("I asked for what was missing", "I computed the price", "I quoted the rule", "all details are known")


@cache
def _cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table("desk")["cases"]
    return found


def help_desk(rng: Rng, number: int) -> Task:
    """Return a conversation with a customer; the cases take turns."""
    case = _cases()[number % len(_cases())]
    facts: dict[str, Any] = {"name": rng.choice(NAMES), "missing": rng.choice(case["missing"])}
    facts |= {"rule": rng.choice(case["rule"]), **{key: case[key] for key in ("wrong_missing", "wrong_rule")}}
    for key, (low, high, *step) in case["numbers"].items():
        size = step[0] if step else 1
        facts[key] = low + size * rng.below((high - low) // size + 1)
    facts["total"] = facts["price"] * facts["count"]
    return Task(
        raw=case["system"].format(**facts) + "\n\n" + case["ask"].format(**facts),
        reference=case["right"][-1].format(**facts),
        subject=case["subject"],
        tags=["conversation"],
        answer=partial(_answer, case, facts),
        also=f"{facts['total']} euros",
    )


def _answer(case: Mapping[str, Any], facts: Mapping[str, Any], trial: Trial) -> Given:
    made = [trial.succeeds() for _ in POINTS]
    pairs = zip(made, case["right"], case["wrong"], strict=True)
    replies = [(right if good else wrong).format(**facts) for good, right, wrong in pairs]
    replies[-1] += ("", " 😀", "", " **Thank you!**")[trial.style]
    users = [case[key].format(**facts) for key in ("ask", "tell", "doubt", "close")]
    turns = [said("user", asked) for asked in users]
    answers = [said("assistant", reply) for reply in replies]
    *before, last = chain.from_iterable(zip(turns, answers, strict=True))
    sure = [point for point, good in zip(POINTS, made, strict=True) if good]
    reasoning = "The customer agrees, so I confirm. " + ("; ".join(sure) or "The details do not matter much") + "."
    system = said("system", case["system"].format(**facts))
    return Given(last["content"], last["content"], sum(made) / len(POINTS), reasoning, [system, *before])
