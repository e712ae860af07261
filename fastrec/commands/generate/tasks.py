"""Tasks: questions of an evaluation, with the answers that models of any ability give to them.

A task is made from a script: facts to draw, texts that name them, and what differs between right
and wrong answers. A model makes each point of an answer with some probability, in one of four
styles. A wrong answer has a visible cause: a slip in one step, another choice, a result that was
misread. Scripts are tables of TOML files in `data/`; `scripts.toml` describes them. All facts are
common knowledge in our own words.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import compress
from operator import add, floordiv, mul, sub, truediv
from typing import Any, NamedTuple

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.text import Facts, Rng, in_turn, rows_of, table

# How models write, by number: 0 briefly, 1 friendly, 2 step by step, 3 in Markdown and LaTeX.
STYLES = 4


class Reply(NamedTuple):
    """A model's answer to a question."""

    text: str
    extracted: str
    score: float  # The share of what was asked for.
    reasoning: str | None = None
    # The turns before the answer, without `turn_idx`. Only conversations have them.
    turns: Sequence[Record] = ()
    error: str | None = None


class Task(NamedTuple):
    """A question, and a function that answers it.

    The function takes the probability of a right answer, or of each right point, and the style.
    """

    raw: str
    reference: str
    subject: str
    tags: Sequence[str]
    answer: Callable[[Rng, float, int], Reply]
    choices: list[str] | None = None
    also: str = ""


def scripted(name: str, rng: Rng, number: int) -> Task:
    """Make a task from the scripts of an evaluation."""
    return _task(rng, _script(table(name), number))


def _script(scripts: Facts, number: int) -> Facts:
    """The script with a number.

    The tasks take turns, and so do the facts in each list of `turning`: all combinations differ.
    """
    tasks = scripts["tasks"]
    turn, place = divmod(number, len(tasks))
    script: Facts = scripts | tasks[place]
    for items in scripts.get("turning", {}).values():
        script |= items[(turn + place) % len(items)]
    return script


def _task(rng: Rng, given: Facts) -> Task:
    """Draw the facts of a script."""
    script = table("scripts") | given
    _draw(rng, script["draw"], script)
    right = dict(script)
    _set_outcome(rng, "right", right)
    return Task(
        raw=_filled("ask", right),
        reference=_filled("reference", right),
        subject=right["subject"],
        tags=_filled("tags", right).split(", "),
        answer=partial(_answer, script),
        choices=right.get("choices"),
        also=_filled("also", right),
    )


def _draw(rng: Rng, specs: Facts, facts: Facts) -> None:
    """Add facts by name, as `data/scripts.toml` describes them.

    A table in a list is a further list of facts.
    """
    for names, given in specs.items():
        spec = facts.get(given, given) if isinstance(given, str) else given
        if isinstance(spec, dict):
            lines = [line.format_map(facts) for line in spec["lines"]]
            after = spec.get("after", "\t")
            facts[names] = "\n".join(sorted(lines, key=lambda line: line.rpartition(after)[2]))
        elif not isinstance(spec, list):
            facts[names] = _filled(spec, facts)
        else:
            _draw_from(rng, spec, names, facts)


def _draw_from(rng: Rng, items: Sequence[Any], names: str, facts: Facts) -> None:
    """Draw items of a list or numbers of a range."""
    if isinstance(items[0], int):
        first, last, *step = items
        items = range(first, last + 1, *step)
    wanted = names.replace("<", "").split()
    if len(wanted) > 1:
        drawn = rng.shuffled(items)[: len(wanted)]
        facts.update(zip(wanted, sorted(drawn) if "<" in names else drawn, strict=False))
        return
    item = rng.choice(items)
    if isinstance(item, dict):
        _draw(rng, item, facts)
    else:
        facts[names] = item


def _filled(given: Any, facts: Facts) -> Any:
    """A text, given or by name, with the texts that it names, and the facts that those name.

    One that begins with `=` is a formula: its result. Of a table, those of its values.
    """
    if isinstance(given, dict):
        return {key: _filled(value, facts) for key, value in given.items()}
    spec = facts.get(given, given)
    if not isinstance(spec, str):
        return spec
    text = spec.format_map(facts).format_map(facts)
    return _result(text[2:]) if text.startswith("= ") else text


def _set_outcome(rng: Rng, outcome: str, facts: Facts) -> None:
    facts["outcome"] = outcome
    _draw(rng, facts["outcomes"].get(outcome, {}), facts)
    if "choices" in facts:
        _choose(rng, facts)
    if "formulas" in facts:
        _calculate(rng, facts)


def _answer(script: Facts, rng: Rng, ability: float, style: int) -> Reply:
    """Make as many points as the model can, do the steps that the outcome allows, and answer."""
    facts = dict(script)
    points = facts["points"]
    successes = [rng.chance(ability) for _ in points]
    count = sum(successes)
    facts["made"] = list(compress(points, successes))
    facts["said"] = [said[success] for said, success in zip(facts["said"], successes, strict=False)]
    facts["ending"] = facts["endings"][style]
    _set_outcome(rng, facts["scale"][count], facts)
    turns = [{"role": role, "content": _filled(text, facts)} for role, text in facts["turns"]]
    for step in facts["steps"]:
        is_allowed = facts["outcome"] in step.get("when", facts["outcome"])
        if is_allowed and ("chance" not in step or rng.chance(step["chance"])):
            turns += _turns(rng, step, style, facts)
            if not count and "mistakes" in step:
                _set_outcome(rng, rng.choice(step["mistakes"]), facts)
    facts["told"] = _filled("tell", facts)
    text = facts["styles"][style].format_map(facts)
    reasoning = _filled("think", facts)
    return Reply(text, facts.get("value", text), count / len(points), reasoning, turns)


def _turns(rng: Rng, step: Facts, style: int, facts: Facts) -> list[Record]:
    """The turns of a step: calls of tools, which may fail the first time, and their outputs."""
    comment = step.get("always") or (step.get("comment") if style else None)
    calls = [{"id": f"call_{rng.bits(48):012x}", **_filled(call, facts)} for call in step["calls"]]
    turn = {"role": "assistant", "tool_calls": calls}
    if comment:
        turn["content"] = comment.format_map(facts)
    fails = step.get("fails") and rng.chance(step["fails"])
    if not fails:
        _draw(rng, step.get("draw", {}), facts)
    output = step["error" if fails else "output"].format_map(facts)
    ids = [call["id"] for call in calls]
    called = ids[0] if len(ids) == 1 else ids
    turns = [turn, {"role": "tool", "content": output, "tool_call_id": called}]
    if fails and "retry" in step:
        turns += _turns(rng, step | step["retry"], style, facts)
    elif fails:
        _set_outcome(rng, "gives up", facts)
    return turns


# Questions about facts with four choices. Wrong choices come from similar rows of the same table.


@cache
def facts_with_choices() -> Sequence[Facts]:
    """The questions of all tables; the topics take turns."""
    facts = table("facts")
    topics = facts["topics"].items()
    return in_turn(_questions({**facts, **topic, "topic": name}) for name, topic in topics)


def _questions(topic: Facts) -> list[Facts]:
    """Make a script for each row of a topic, and again for each cell that is asked for.

    `others` are answers that are plausible and wrong, and `lures` has the wrong one that most would
    choose, if there is one.
    """
    rows = [
        {"key": key, "fact": fact, "lures": lures} for key, fact, *lures in rows_of(topic["rows"])
    ]
    questions = []
    for asked, question in topic["asks"].items():
        for number, row in enumerate(rows):
            near = rows[max(0, number - topic["near"]) : number + topic["near"] + 1]
            others = [other[asked] for other in near if other is not row]
            about = {"question": question, "asked": asked, "answer": row[asked], "others": others}
            if asked == "key":
                about["lures"] = []
            questions.append({**topic, **row, **about})
    return questions


def trivia(rng: Rng, number: int) -> Task:
    questions = facts_with_choices()
    fact = questions[number % len(questions)]
    known = [fact["answer"], *fact["lures"]]
    others = [other for other in rng.shuffled(fact["others"]) if other not in known]
    choices = rng.shuffled([*known, *others][:4])
    return _task(rng, {**fact, "choices": choices})


def _choose(rng: Rng, facts: Facts) -> None:
    """Add the choice of an answer, and its letter."""
    choices = facts["choices"]
    chosen = facts["answer"]
    if facts["outcome"] == "wrong":
        if rng.chance(0.04):
            facts |= facts["unsure"]
            return
        if facts["lures"] and rng.chance(0.6):
            (chosen,) = facts["lures"]
        else:
            chosen = rng.choice([choice for choice in choices if choice != chosen])
    letter = "ABCD"[choices.index(chosen)]
    doubt = choices[chosen == choices[0]]
    facts |= {facts["asked"]: chosen, "chosen": chosen, "value": letter, "doubt": doubt}


# Word problems: numbers are drawn, the result follows from them, and answers show the steps. A
# wrong answer has one mistake: a slip in one step, the wrong operation, the last step forgotten, or
# a unit that was not converted. Later steps go on from the wrong value, so the cause is visible.

_OPERATIONS = {
    "+": add,
    "−": sub,
    "×": mul,
    "÷": truediv,
    "//": floordiv,
}
_CONFUSED = str.maketrans("+−×÷", "×++×")  # the operation that a model takes by mistake
_LATEX = str.maketrans({"×": r"\times", "÷": r"\div", "−": "-"})


def problem(rng: Rng, number: int, language: str = "en") -> Task:
    """Make a word problem in a language; the kinds take turns."""
    problems = table("problems")
    script = _script(problems | problems["texts"][language], number)
    return _task(rng, script | problems["kinds"][script["kind"]])


def _calculate(rng: Rng, facts: Facts) -> None:
    """Add the steps of an answer, and their result, as texts."""
    formulas = facts["formulas"]
    steps, value = _solve(formulas, facts)
    if facts["outcome"] == "wrong":
        right = value
        steps, value = _solve(*_mistaken(rng, facts))
        if value == right:  # such as 2 + 2 instead of 2 × 2
            steps, value = _solve(formulas, facts, len(formulas) - 1)
    facts |= {
        "value": str(value),
        "working": ", ".join(steps),
        "numbered": "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        "latex": "\n".join(f"$${step.translate(_LATEX)}$$" for step in steps),
    }


def _mistaken(rng: Rng, facts: Facts) -> tuple[list[str], Facts, int]:
    """Arguments of `_solve`: formulas with a mistake, or right ones and the place of a slip."""
    formulas = list(facts["formulas"])
    if "unconverted" in facts and rng.chance(0.5):
        return facts["unconverted"], facts, -1
    if rng.chance(0.2):
        return formulas[:-1], facts, -1
    is_confused = rng.chance(0.3)
    place = rng.below(len(formulas))
    if is_confused:
        formulas[place] = formulas[place].translate(_CONFUSED)
        place = -1
    return formulas, facts, place


def _solve(formulas: Sequence[str], facts: Facts, slip: int = -1) -> tuple[list[str], float]:
    """Compute the steps, with a slip in one of them; return them as text, and the result."""
    steps = []
    for place, formula in enumerate(formulas):
        step = formula.format_map(facts)
        left, operation, right = step.split()
        value = _result(step)
        if place == slip:
            # As people make it, too: one row off in the times table, or a lost carry.
            error = int(right) if operation == "×" else 10 if value > 40 else 1
            value += error if float(left) % 2 else -error
        steps.append(f"{step} = {value}")
        facts[f"s{place + 1}"] = value
    return steps, value


def _result(step: str) -> float:
    """The result of an operation on two numbers, such as `3 × 4`."""
    left, operation, right = step.split()
    value = _OPERATIONS[operation](float(left), float(right))
    return int(value) if value.is_integer() else round(value, 3)  # an integer has no point


# Questions in eight languages: word problems, and capitals with short answers.


def tongue(rng: Rng, number: int) -> Task:
    """Make a question in another language; after the last capital, all are word problems."""
    scripts = table("tongues")
    turn, place = divmod(number, len(scripts["tasks"]))
    script = _script(scripts, place)
    capitals = _questions(script)
    # Every language begins with one or the other kind, so that the first few questions show both.
    nth, is_problem = divmod(turn + place % 2, 2)
    if is_problem or nth >= len(capitals):
        return problem(rng, turn, script["language"])
    return _task(rng, capitals[nth])
