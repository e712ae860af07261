"""Tasks for agents: with a shell, or with the tools of a travel assistant.

`data/agents.toml` has what agents are asked, what they do and what they say; here are the facts
that its tables cannot describe. A wrong answer has a visible cause: the agent reads the wrong line
of an output, misreads a result, runs a command that does something else than what was asked, or
gives up. Some calls fail and are repeated, in right answers too.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.tasks import (
    Facts,
    Reply,
    Task,
    Texts,
    Trial,
    conversation,
    draw,
    reply,
)
from fastrec.commands.generate.text import Rng, table


def agent(role: str, rng: Rng, number: int) -> Task:
    """Make a task for an agent with the tools of a role: `shell` or `travel`."""
    scripts = table("agents")[role]
    script = scripts["tasks"][number % len(scripts["tasks"])]
    shown = {"results": {}, **scripts, **script}
    draw(rng, script["draw"], shown)
    if add_facts := _FACTS.get(script["name"]):
        add_facts(rng, shown)
    right = dict(shown)
    _set_outcome(rng, "right", right)
    reference = right["value"].format(**right)
    raw = shown["ask"].format(**shown)
    return Task(raw, reference, shown["subject"], shown["tags"], partial(_act, shown, raw))


def _act(facts: Facts, ask: str, trial: Trial) -> Reply:
    """Do the steps of a script that its conditions allow, and answer."""
    rng = trial.rng
    shown = dict(facts)
    right = trial.succeeds()
    _set_outcome(rng, "right" if right else "wrong", shown)
    turns = conversation(shown["system"], ask)
    for step in shown["steps"]:
        if shown["outcome"] not in step.get("when", [shown["outcome"]]):
            continue
        if "chance" in step and not rng.chance(step["chance"]):
            continue
        turns += _turns(step, shown, trial)
        if not right and "mistakes" in step:
            _set_outcome(rng, rng.choice(step["mistakes"]), shown)
    return reply(shown, trial.style, right, turns)


def _set_outcome(rng: Rng, outcome: str, shown: Facts) -> None:
    shown |= {"outcome": outcome, **shown["results"].get(outcome, {})}
    draw(rng, shown["outcomes"].get(outcome, {}), shown)


def _turns(step: Texts, shown: Facts, trial: Trial) -> list[Record]:
    """The turns of a step: calls of tools, which may fail the first time, and their outputs."""
    turns = []
    comment = step.get("comment", "") if trial.style or "always" in step else ""
    calls = _calls(step, shown, trial.rng)
    if "fails" in step and trial.rng.chance(step["fails"]):
        turns += tool_turns(calls, comment.format(**shown), step["error"].format(**shown))
        if "retry" not in step:
            _set_outcome(trial.rng, "gives up", shown)
            return turns
        comment = step["retry"]
        calls = _calls(step, shown, trial.rng)
    draw(trial.rng, step.get("draw", {}), shown)
    if calls:
        turns += tool_turns(calls, comment.format(**shown), step["output"].format(**shown))
    return turns


def _calls(step: Texts, shown: Facts, rng: Rng) -> list[Record]:
    calls = []
    for template in step.get("calls", ()):
        call: Record = {"id": f"call_{rng.bits(48):012x}", "name": template["name"]}
        if "arguments" in template:
            call["arguments"] = {
                key: shown["seats"] if text == "{seats}" else text.format(**shown)
                for key, text in template["arguments"].items()
            }
        calls.append(call)
    return calls


def tool_turns(calls: list[Record], comment: str, output: str) -> list[Record]:
    """A turn with the calls, and a turn with what the tools returned."""
    turn: Record = {"role": "assistant", "tool_calls": calls}
    if comment:
        turn["content"] = comment
    ids = [call["id"] for call in calls]
    called = ids[0] if len(ids) == 1 else ids
    return [turn, {"role": "tool", "content": output, "tool_call_id": called}]


# Facts that are more than a draw, a formula or a template.


def _column(rng: Rng, facts: Facts) -> None:
    products = [facts[f"product{number}"] for number in range(facts["size"])]
    sold = [rng.between(3, 60) for _ in products]
    month = rng.between(1, 12)
    facts |= {
        "file": f"sales/2026-{month:02d}-{rng.between(1, 28):02d}.csv",
        "first": products[0],
        "last": products[-1],
        "total": sum(sold),
        "less": sum(sold[:-1]),
        "listing": "".join(
            f"{product},{count}\n" for product, count in zip(products, sold, strict=True)
        ),
    }


def _trains(rng: Rng, facts: Facts) -> None:
    latest = facts["latest"]
    hours = rng.shuffled(range(latest - 4, latest))[:3]
    prices = sorted(rng.shuffled(range(19, 96))[:4])
    # The cheapest train of all arrives too late; the others are in time.
    trains = [
        {
            "train": f"T{rng.between(100, 999)}",
            "arrives": f"{hour:02d}:{rng.below(12) * 5:02d}",
            "price": price,
        }
        for hour, price in zip((latest + rng.between(1, 3), *hours), prices, strict=True)
    ]
    by_arrival = sorted(trains, key=lambda train: str(train["arrives"]))
    facts["listing"] = "\n".join(map(json.dumps, by_arrival))
    late, best, *_ = trains

    def booked(train: Mapping[str, Any], seats: int) -> Facts:
        return {**train, "seats": seats, "total": seats * train["price"]}

    right = booked(best, facts["people"])
    facts["results"] = {
        "right": right,
        "late": booked(late, facts["people"]),
        "one": booked(best, 1),
        "gives up": right,
    }


def _money(_: Rng, facts: Facts) -> None:
    facts["quotient"] = round(facts["amount"] / facts["rate"], 2)


_FACTS: Mapping[str, Callable[[Rng, Facts], None]] = {
    "column": _column,
    "trains": _trains,
    "money": _money,
}
