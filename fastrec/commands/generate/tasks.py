"""Tasks: questions of an evaluation, with the answers that models of any ability give to them.

A task is made from a script: facts to draw, texts that name them, and what differs between right
and wrong answers. A model makes each point of an answer with some probability, in one of four
styles. A wrong answer has a visible cause: a slip in one step, another choice, a result that was
misread. Scripts are tables of TOML files in `data/`; `scripts.toml` describes them. All facts are
common knowledge in our own words.
"""

from collections.abc import Sequence
from functools import cache
from itertools import compress
from operator import add, floordiv, getitem, mul, sub, truediv
from typing import Any, NamedTuple

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.text import Facts, Rng, in_turn, table

# How models write, by number:
#
#     0  briefly
#     1  friendly
#     2  step by step
#     3  in Markdown and LaTeX
STYLES = 4


class Reply(NamedTuple):
    """A model's answer to a question."""

    text: str
    extracted: str
    score: float  # The share of what was asked for.
    reasoning: str | None
    # The turns before the answer, without `turn_idx`. Only conversations have them.
    turns: list[Record]
    error: str | None = None


def make_task(rng: Rng, name: str, number: int) -> Facts:
    """Make a task of an evaluation; neighbouring numbers give different kinds of tasks."""
    makers = {
        "trivia_choice": trivia,
        "word_problems": problem,
        "world_tongues": tongue,
    }
    script = makers[name](number) if name in makers else _script(table(name), number)
    return draw_facts(rng, script)


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


def draw_facts(rng: Rng, script: Facts) -> Facts:
    """Draw the facts of a script, and fill in its question and the right answers."""
    facts = table("scripts") | script
    _draw(rng, facts["draw"], facts)
    if "choices" in facts:
        _draw_choices(rng, facts)
    _set_outcome(rng, "right", facts)
    for name in ("ask", "reference", "also", "tags"):
        facts[name] = _filled(name, facts)
    return facts


def _set_outcome(rng: Rng, outcome: str, facts: Facts) -> None:
    """Add the facts of an outcome; those that it does not have stay as they are."""
    facts["outcome"] = outcome
    _draw(rng, facts["outcomes"].get(outcome, {}), facts)
    if "choices" in facts:
        _choose(rng, facts)
    if "formulas" in facts:
        _calculate(rng, facts)


# Facts and texts


def _draw(rng: Rng, specs: Facts, facts: Facts) -> None:
    """Add facts by name, as `data/scripts.toml` describes them."""
    for names, given in specs.items():
        spec = _filled(given, facts) if isinstance(given, str) else given
        if isinstance(spec, list):
            _draw_from(rng, spec, names, facts)
        elif isinstance(spec, dict):
            facts[names] = _listing(facts, **spec)
        else:
            facts[names] = spec


def _draw_from(rng: Rng, items: Sequence[Any], names: str, facts: Facts) -> None:
    """Draw items of a list or numbers of a range. An item that is a table has further facts."""
    if isinstance(items[0], int):
        first, last, *step = items
        items = range(first, last + 1, *step)
    wanted = names.replace("<", "").split()
    if len(wanted) > 1:
        drawn = rng.shuffled(items)[: len(wanted)]
        if "<" in names:
            drawn.sort()
        facts |= zip(wanted, drawn, strict=False)  # short lists lack the last ones
        return
    item = rng.choice(items)
    if isinstance(item, dict):
        _draw(rng, item, facts)
    else:
        facts[names] = item


def _listing(facts: Facts, lines: Sequence[str], after: str = "\t") -> str:
    """The lines, sorted by what is after the last `after`."""
    filled = [line.format_map(facts) for line in lines]
    filled.sort(key=lambda line: line.rpartition(after)[2])
    return "\n".join(filled)


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


# Answers


def answer(task: Facts, rng: Rng, ability: float, style: int) -> Reply:
    """Make as many points as the model can, do the steps that the outcome allows, and answer.

    `ability` is the probability of a right answer, or of each right point.
    """
    facts = dict(task)
    points = facts["points"]
    successes = [rng.chance(ability) for _ in points]
    count = sum(successes)
    facts["made"] = list(compress(points, successes))
    facts["said"] = list(map(getitem, facts["said"], successes))
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
    return Reply(
        text,
        extracted=facts.get("value", text),
        score=count / len(points),
        reasoning=_filled("think", facts),
        turns=turns,
    )


def _turns(rng: Rng, step: Facts, style: int, facts: Facts) -> list[Record]:
    """The turns of a step: calls of tools, which may fail the first time, and their outputs."""
    calls = [
        {
            "id": f"call_{rng.bits(48):012x}",
            **_filled(call, facts),
        }
        for call in step["calls"]
    ]
    turn = {"role": "assistant", "tool_calls": calls}
    comment = step.get("always") or (step.get("comment") if style else None)
    if comment:
        turn["content"] = comment.format_map(facts)

    output = step["output"]
    fails = "fails" in step and rng.chance(step["fails"])
    if fails:
        output = step["error"]
    else:
        _draw(rng, step.get("draw", {}), facts)
    ids = [call["id"] for call in calls]
    result = {
        "role": "tool",
        "content": output.format_map(facts),
        "tool_call_id": ids[0] if len(ids) == 1 else ids,
    }

    turns = [turn, result]
    if fails and "retry" in step:
        turns += _turns(rng, step["retry"], style, facts)
    elif fails:
        _set_outcome(rng, "gives up", facts)
    return turns


# Questions about facts with four choices. Wrong choices come from similar rows of the same table.


@cache
def facts_with_choices() -> Sequence[Facts]:
    """The questions of all tables; the topics take turns."""
    facts = table("facts")
    return in_turn(_questions(facts | topic) for topic in facts["tasks"])


def _questions(topic: Facts) -> list[Facts]:
    """Make a script for each row of a topic, and again for each cell that is asked for.

    `others` are answers that are plausible and wrong, and `lures` has the wrong one that most would
    choose, if there is one.
    """
    rows = [
        {
            "key": key,
            "fact": fact,
            "lures": lures,
        }
        for key, fact, *lures in topic["rows"]
    ]
    questions = []
    for asked, question in topic["asks"].items():
        for number, row in enumerate(rows):
            near = rows[max(0, number - topic["near"]) : number + topic["near"] + 1]
            about = {
                "question": question,
                "asked": asked,
                "answer": row[asked],
                "others": [other[asked] for other in near if other is not row],
                "lures": row["lures"] if asked == "fact" else [],
            }
            questions.append({**topic, **row, **about})
    return questions


def trivia(number: int) -> Facts:
    """The script of a question with choices."""
    questions = facts_with_choices()
    return questions[number % len(questions)]


def _draw_choices(rng: Rng, facts: Facts) -> None:
    """Draw the choices: the answer, its lure if there is one, and others; each once."""
    choices = dict.fromkeys([facts["answer"], *facts["lures"], *rng.shuffled(facts["others"])])
    facts["choices"] = rng.shuffled([*choices][: facts["choices"]])


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
    facts |= {
        facts["asked"]: chosen,
        "chosen": chosen,
        "value": letter,
        "doubt": doubt,
    }


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
_SLIP = "; slip"  # after a formula: its result is wrong
_CONFUSED = str.maketrans("+−×÷", "×++×")  # the operation that a model takes by mistake
_LATEX = str.maketrans(
    {
        "×": r"\times",
        "÷": r"\div",
        "−": "-",
    }
)


def problem(number: int, language: str = "en") -> Facts:
    """The script of a word problem in a language; the kinds take turns."""
    problems = table("problems")
    script = _script(problems | problems["texts"][language], number)
    script |= problems["kinds"][script["kind"]]
    return script


def _calculate(rng: Rng, facts: Facts) -> None:
    """Add the steps of an answer, and their result, as texts."""
    formulas = facts["formulas"]
    steps = _solve(formulas, facts)
    if facts["outcome"] == "wrong":
        right = facts["value"]
        steps = _solve(_mistaken(rng, facts), facts)
        if facts["value"] == right:  # such as 2 + 2 instead of 2 × 2
            steps = _solve([*formulas[:-1], formulas[-1] + _SLIP], facts)

    facts |= {
        "working": ", ".join(steps),
        "numbered": "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        "latex": "$$\n$$".join(steps).translate(_LATEX),
    }


def _mistaken(rng: Rng, facts: Facts) -> list[str]:
    """The formulas with a mistake."""
    formulas: list[str] = list(facts["formulas"])
    if "unconverted" in facts and rng.chance(0.5):
        formulas = facts["unconverted"]
    elif rng.chance(0.2):
        formulas.pop()
    else:
        is_confused = rng.chance(0.3)
        place = rng.below(len(formulas))
        formula = formulas[place]
        formulas[place] = formula.translate(_CONFUSED) if is_confused else formula + _SLIP
    return formulas


def _solve(formulas: Sequence[str], facts: Facts) -> list[str]:
    """Compute the steps, and return them as texts; add their results, and the last one."""
    steps = []
    for number, formula in enumerate(formulas, 1):
        step = formula.removesuffix(_SLIP).format_map(facts)
        left, operation, right = step.split()
        value = _result(step)
        if formula.endswith(_SLIP):
            # As people make it, too: one row off in the times table, or a lost carry.
            error = int(right) if operation == "×" else 10 if value > 40 else 1
            value += error if float(left) % 2 else -error
        steps.append(f"{step} = {value}")
        facts |= {
            f"s{number}": value,
            "value": str(value),
        }
    return steps


def _result(step: str) -> float:
    """The result of an operation on two numbers, such as `3 × 4`."""
    left, operation, right = step.split()
    value = _OPERATIONS[operation](float(left), float(right))
    return int(value) if value.is_integer() else round(value, 3)  # an integer has no point


# Questions in eight languages: word problems, and capitals with short answers.


def tongue(number: int) -> Facts:
    """A question in another language; after the last capital, all are word problems."""
    scripts = table("tongues")
    turn, place = divmod(number, len(scripts["tasks"]))
    script = _script(scripts, place)
    capitals = _questions(script)
    # Every language begins with one or the other kind, so that the first few questions show both.
    nth, is_problem = divmod(turn + place % 2, 2)
    if is_problem or nth >= len(capitals):
        return problem(turn, script["language"])
    return capitals[nth]
