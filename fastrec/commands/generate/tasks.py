"""Tasks: questions of an evaluation, with the answers that models of any ability give to them.

A task is made from a script: facts to draw, texts that name them, and what differs between right
and wrong answers. A model makes each point of an answer with some probability, in one of four
styles. A wrong answer has a visible cause: a slip in one step, another choice, a result that was
misread. Scripts are tables of TOML files in `data/`; `agents.toml` describes them. All facts are
common knowledge in our own words.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import chain, compress, cycle, zip_longest
from operator import add, floordiv, mul, sub, truediv
from typing import Any, NamedTuple

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.text import Rng, table

# How models write, by number: 0 briefly, 1 friendly, 2 step by step, 3 in Markdown and LaTeX.
STYLES = 4
Facts = dict[str, Any]
Mistake = Callable[[Rng, Facts], None]  # changes the facts of a right answer


class Trial(NamedTuple):
    """One attempt of a model: its probability of being right, and its style."""

    rng: Rng
    ability: float
    style: int


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
    """A question, and a function that answers it."""

    raw: str
    reference: str
    subject: str
    tags: Sequence[str]
    answer: Callable[[Trial], Reply]
    choices: list[str] | None = None
    also: str = ""


def scripted(file: str, rng: Rng, number: int, role: str = "") -> Task:
    """Make a task from a file of scripts, or from the part of it for a role; they take turns."""
    scripts = table(file)[role] if role else table(file)
    tasks = scripts["tasks"]
    return _task(rng, {**scripts, **tasks[number % len(tasks)]})


def _task(rng: Rng, script: Facts, mistake: Mistake | None = None) -> Task:
    """Draw the facts of a script. `mistake` makes them wrong; without it, an outcome does."""
    _draw(rng, script.get("draw", {}), script)
    right = dict(script)
    _set_outcome(rng, "right", right)
    return Task(
        raw=_fill(right["ask"], right),
        reference=_fill(right.get("reference", "{value}"), right),
        subject=right["subject"],
        tags=[tag.format(**right) for tag in right["tags"]],
        answer=partial(_answer, script, mistake),
        choices=right.get("choices"),
        also=right.get("also", "").format(**right),
    )


def _fill(text: str, facts: Facts) -> str:
    """Fill in the texts that a text names, and the facts that those name."""
    return text.format(**facts).format(**facts)


def _draw(rng: Rng, specs: Mapping[str, Any], facts: Facts) -> None:
    """Add facts by name, as `data/agents.toml` describes them.

    A table in a list is a further list of facts.
    """
    for names, given in specs.items():
        spec = facts.get(given, given) if isinstance(given, str) else given
        if isinstance(spec, dict):
            lines = [line.format(**facts) for line in spec["lines"]]
            after = spec.get("after", "\t")
            facts[names] = "\n".join(sorted(lines, key=lambda line: line.rpartition(after)[2]))
        elif not isinstance(spec, list):
            facts[names] = _computed(spec, facts)
        elif " " in names:
            items = range(spec[0], spec[1] + 1) if isinstance(spec[0], int) else spec
            wanted = names.replace("<", "").split()
            drawn = rng.shuffled(items)[: len(wanted)]
            facts.update(zip(wanted, sorted(drawn) if "<" in names else drawn, strict=False))
        elif isinstance(spec[0], int):
            facts[names] = rng.between(*spec)
        else:
            facts[names] = rng.choice(spec)
            if isinstance(facts[names], dict):
                _draw(rng, facts.pop(names), facts)


def _computed(spec: Any, facts: Facts) -> Any:
    """The result of a formula, which begins with `=`; a text with its facts; or a number."""
    if not isinstance(spec, str):
        return spec
    return _step(spec[2:], facts).value if spec.startswith("= ") else spec.format(**facts)


def _set_outcome(rng: Rng, outcome: str, facts: Facts) -> None:
    facts["outcome"] = outcome
    _draw(rng, facts.get("outcomes", {}).get(outcome, {}), facts)


def _answer(script: Facts, mistake: Mistake | None, trial: Trial) -> Reply:
    """Make as many points as the model can, do the steps that the outcome allows, and answer."""
    rng = trial.rng
    style = trial.style
    facts = dict(script)
    points = facts.get("points", [""])
    successes = [rng.chance(trial.ability) for _ in points]
    count = sum(successes)
    facts["made"] = list(compress(points, successes))
    if "said" in facts:  # a wrong and a right text for each point
        facts["said"] = [
            said[success] for said, success in zip(facts["said"], successes, strict=True)
        ]
    if "endings" in facts:
        facts["ending"] = facts["endings"][style]
    if mistake and not count:
        mistake(rng, facts)
    else:
        _set_outcome(rng, facts.get("scale", ("wrong", "right"))[count], facts)
    roles = chain(["system"], cycle(["user", "assistant"]))
    turns = [
        {"role": role, "content": _fill(text, facts)}
        for text, role in zip(facts.get("turns", ()), roles, strict=False)
    ]
    for step in facts.get("steps", ()):
        is_allowed = facts["outcome"] in step.get("when", facts["outcome"])
        if is_allowed and ("chance" not in step or rng.chance(step["chance"])):
            turns += _turns(step, facts, trial)
            if not count and "mistakes" in step:
                _set_outcome(rng, rng.choice(step["mistakes"]), facts)
    if "value" in facts:
        facts["value"] = _fill(facts["value"], facts)
    facts["told"] = _fill(facts["tell"], facts)
    text = facts["styles"][style].format(**facts)
    reasoning = facts["think"].format(**facts)
    return Reply(text, facts.get("value", text), count / len(points), reasoning, turns)


def _turns(step: Facts, facts: Facts, trial: Trial) -> list[Record]:
    """The turns of a step: calls of tools, which may fail the first time, and their outputs."""
    rng = trial.rng
    turns = []
    comment = step.get("comment", "") if trial.style or "always" in step else ""
    calls = _calls(step, facts, rng)
    if "fails" in step and rng.chance(step["fails"]):
        turns = _tool_turns(calls, comment, step["error"], facts)
        if "retry" not in step:
            _set_outcome(rng, "gives up", facts)
            return turns
        comment = step["retry"]
        calls = _calls(step, facts, rng)
    _draw(rng, step.get("draw", {}), facts)
    if calls:
        turns += _tool_turns(calls, comment, step["output"], facts)
    return turns


def _calls(step: Facts, facts: Facts, rng: Rng) -> list[Record]:
    calls = []
    for template in step.get("calls", ()):
        call: Record = {"id": f"call_{rng.bits(48):012x}", "name": template["name"]}
        if "arguments" in template:
            arguments = template["arguments"].items()
            call["arguments"] = {key: _computed(value, facts) for key, value in arguments}
        calls.append(call)
    return calls


def _tool_turns(calls: list[Record], comment: str, output: str, facts: Facts) -> list[Record]:
    """A turn with the calls, and a turn with what the tools returned."""
    turn: Record = {"role": "assistant", "tool_calls": calls}
    if comment:
        turn["content"] = comment.format(**facts)
    ids = [call["id"] for call in calls]
    called = ids[0] if len(ids) == 1 else ids
    return [turn, {"role": "tool", "content": output.format(**facts), "tool_call_id": called}]


# Questions about facts with four choices. Wrong choices are values of similar rows of the same
# table.

_NEAR = 6  # wrong choices come from so many rows before and after a row


@cache
def facts_with_choices() -> Sequence[Facts]:
    """The questions of all tables; the topics take turns.

    `others` are answers that are plausible and wrong, and `lure` is the wrong one that most would
    choose, or empty. `tell` is a sentence with `{chosen}` in place of the answer.
    """
    topics = [_topic(name, texts) for name, texts in table("facts")["topics"].items()]
    return [fact for turn in zip_longest(*topics) for fact in turn if fact]


def _topic(name: str, texts: Facts) -> list[Facts]:
    """Make the questions for values, followed by those for keys."""
    rows = [(*map(str.strip, row.split("|")), "") for row in texts["rows"].strip().splitlines()]
    questions = []
    for asked, pattern in ((1, texts["ask"]), (0, texts.get("ask_back", ""))):
        for number, (key, value, lure, *_) in enumerate(rows if pattern else ()):
            near = rows[max(0, number - _NEAR) : number + _NEAR + 1]
            shown = {"key": key, "value": value, "value" if asked else "key": "{chosen}"}
            fact = {
                "topic": name,
                "subject": texts["subject"],
                "question": pattern.format(key=key, value=value),
                "answer": value if asked else key,
                "others": [other[asked] for other in near if other[0] != key],
                "lure": lure if asked else "",
                "tell": texts["state"].format(**shown),
            }
            questions.append(fact)
    return questions


def trivia(rng: Rng, number: int) -> Task:
    questions = facts_with_choices()
    fact = questions[number % len(questions)]
    known = (fact["answer"], fact["lure"])
    others = [other for other in rng.shuffled(fact["others"]) if other not in known]
    wrong = [fact["lure"], *others] if fact["lure"] else others
    choices = rng.shuffled([fact["answer"], *wrong[:3]])
    script = {**table("facts"), **fact, "choices": choices}
    _choose(script, fact["answer"])
    return _task(rng, script, _choose_wrong)


def _choose(facts: Facts, chosen: str) -> None:
    choices = facts["choices"]
    letter = "ABCD"[choices.index(chosen)]
    facts |= {"chosen": chosen, "value": letter, "doubt": choices[chosen == choices[0]]}


def _choose_wrong(rng: Rng, facts: Facts) -> None:
    if rng.chance(0.04):
        facts |= facts["unsure"]
    elif facts["lure"] and rng.chance(0.6):
        _choose(facts, facts["lure"])
    else:
        wrong = [choice for choice in facts["choices"] if choice != facts["answer"]]
        _choose(facts, rng.choice(wrong))


def explanation(rng: Rng, number: int) -> Task:
    """Make an open question; all combinations of topic, reader and limit differ."""
    texts = table("explanations")
    round_number, place = divmod(number, len(texts["tasks"]))
    turn = round_number + place
    script = {
        **texts,
        **texts["tasks"][place],
        "reader": texts["readers"][turn % len(texts["readers"])],
        "limit": texts["limits"][turn % len(texts["limits"])],
    }
    return _task(rng, script)


# Word problems: numbers are drawn, the result follows from them, and answers show the steps. A
# wrong answer has one mistake: a slip in one step, the wrong operation, the last step forgotten, or
# a unit that was not converted. Later steps go on from the wrong value, so the cause is visible.

_OPERATIONS: Mapping[str, Callable[[float, float], float]] = {
    "+": add,
    "−": sub,
    "×": mul,
    "÷": truediv,
    "//": floordiv,
}
_CONFUSED = str.maketrans("+−×÷", "×++×")  # the operation that a model takes by mistake
_LATEX = str.maketrans({"×": r"\times", "÷": r"\div", "−": "-"})


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
    problems = table("problems")
    texts = problems["texts"][language]
    names = [name for name in problems["kinds"] if name in texts]
    name = names[number % len(names)]
    script = {**problems, **texts, **problems["kinds"][name], **texts[name]}
    script |= {"kind": name, "language": language}
    _draw(rng, script.pop("draw"), script)
    _write(script, _solve(script["formulas"], script))
    return _task(rng, script, _miscalculate)


def _write(facts: Facts, solution: Sequence[_Step]) -> None:
    """Add the steps and their result as texts."""
    steps = [str(step) for step in solution]
    facts |= {
        "value": str(solution[-1].value),
        "working": ", ".join(steps),
        "numbered": "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        "latex": "\n".join(f"$${step.translate(_LATEX)}$$" for step in steps),
    }


def _step(formula: str, numbers: Facts) -> _Step:
    """Compute `left operation right`, in which names stand for numbers."""
    left_name, operation, right_name = formula.split()
    left = numbers[left_name] if left_name in numbers else int(left_name)
    right = numbers[right_name] if right_name in numbers else int(right_name)
    value = _OPERATIONS[operation](left, right)
    # An integer is written without a point.
    return _Step(left, operation, right, int(value) if value == int(value) else round(value, 3))


def _solve(formulas: Sequence[str], facts: Facts, slip: int = -1) -> list[_Step]:
    """Compute the steps, with a slip in one of them."""
    numbers = dict(facts)
    steps = []
    for number, formula in enumerate(formulas):
        step = _step(formula, numbers)
        if number == slip:
            # As people make it, too: one row off in the times table, or a lost carry.
            error = step.right if step.operation == "×" else 10 if step.value > 40 else 1
            step = step._replace(value=step.value + (error if step.left % 2 else -error))
        steps.append(step)
        numbers[f"s{number + 1}"] = step.value
    return steps


def _miscalculate(rng: Rng, facts: Facts) -> None:
    right = formulas = facts["formulas"]
    slip = -1
    if "unconverted" in facts and rng.chance(0.5):
        formulas = facts["unconverted"]
    elif rng.chance(0.2):
        formulas = right[:-1]
    else:
        is_confused = rng.chance(0.3)
        slip = rng.below(len(right))
        if is_confused:
            confused = right[slip].translate(_CONFUSED)
            formulas = [*right[:slip], confused, *right[slip + 1 :]]
            slip = -1
    steps = _solve(formulas, facts, slip)
    if str(steps[-1].value) == facts["value"]:  # such as 2 + 2 instead of 2 × 2
        steps = _solve(right, facts, len(right) - 1)
    _write(facts, steps)


# Questions in eight languages: word problems, capitals with short answers, and small talk.

LANGUAGES = ("de", "zh", "es", "ar", "fr", "ja", "ru", "hi")


def capitals(language: str) -> dict[str, str]:
    """Countries and their capitals in a language."""
    rows = table("tongues")["languages"][language]["rows"].strip().splitlines()
    return dict(row.split(" | ") for row in rows)


def tongue(rng: Rng, number: int) -> Task:
    """Make a question in another language; after the last capital, all are word problems."""
    turn, place = divmod(number, len(LANGUAGES))
    language = LANGUAGES[place]
    # Every language begins with one or the other kind, so that the first few questions show both.
    nth, is_problem = divmod(turn + place % 2, 2)
    cities = capitals(language)
    if is_problem or nth >= len(cities):
        return problem(rng, turn, language)
    country, capital = list(cities.items())[nth]
    script = {
        **_texts_in(language, "tongues"),
        "country": country,
        "value": capital,
        "others": [city for city in cities.values() if city != capital],
    }
    return _task(rng, script)


def _texts_in(language: str, file: str) -> Facts:
    """The texts of a file, those of a language among them."""
    return {**table(file), **table(file)["languages"][language], "language": language}


def small_talk(rng: Rng, number: int) -> Task:
    """Make small talk that ends with a question about something that was said before."""
    turn, place = divmod(number, len(LANGUAGES))
    about = ("city", "sum")[(turn + place) % 2]
    texts = _texts_in(LANGUAGES[place], "chats")
    outcomes = texts["outcomes"][about]
    return _task(rng, {**texts, **texts[about], "about": about, "outcomes": outcomes})
