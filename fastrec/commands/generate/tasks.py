"""Tasks: questions of an evaluation, with the answers that models of any ability give to them.

A model gives a right answer with some probability, in one of four styles. A wrong answer has a
visible cause: a slip in one step, another choice, a result that was misread. Texts are in TOML
files in `data/`. All facts are common knowledge in our own words.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import zip_longest
from operator import add, floordiv, mul, sub, truediv
from typing import Any, NamedTuple

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.text import Rng, table

# How models write, by number: 0 briefly, 1 friendly, 2 step by step, 3 in Markdown and LaTeX.
STYLES = 4
Texts = Mapping[str, Any]
Facts = dict[str, Any]


class Trial(NamedTuple):
    """One attempt of a model: its probability of being right, and its style."""

    rng: Rng
    ability: float
    style: int

    def succeeds(self) -> bool:
        """Decide whether the answer, or one point of it, is right."""
        return self.rng.chance(self.ability)


class Reply(NamedTuple):
    """A model's answer to a question."""

    text: str
    extracted: str
    score: float  # A boolean, or for graded evaluations the share of what was asked for.
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


def draw(rng: Rng, specs: Texts, facts: Facts) -> None:
    """Add facts by name, as the tables in `data/` describe them.

    A number is drawn from `[low, high]` or `[low, high, step]`, and a text from a list or the name
    of a list; several names get the first items in random order. A table in a list is a further
    list of facts. Other texts are formulas that begin with `=`, or templates. `lines` are a
    listing, sorted by what follows a tab.
    """
    for names, given in specs.items():
        spec = facts.get(given, given) if isinstance(given, str) else given
        if isinstance(spec, dict):
            lines = [line.format(**facts) for line in spec["lines"]]
            facts[names] = "\n".join(sorted(lines, key=lambda line: line.rpartition("\t")[2]))
        elif not isinstance(spec, list):
            facts[names] = _computed(spec, facts) if isinstance(spec, str) else spec
        elif " " in names:
            items = range(spec[0], spec[1] + 1) if isinstance(spec[0], int) else spec
            facts.update(zip(names.split(), rng.shuffled(items), strict=False))
        elif isinstance(spec[0], int):
            facts[names] = rng.between(*spec)
        else:
            facts[names] = rng.choice(spec)
            if isinstance(facts[names], dict):
                draw(rng, facts.pop(names), facts)


def _computed(spec: str, facts: Facts) -> Any:
    if spec.startswith("= "):
        return _step(spec.removeprefix("= "), facts).value
    return spec.format(**facts)


def reply(shown: Facts, style: int, score: float, turns: Sequence[Record] = ()) -> Reply:
    """Fill in the texts of an answer: `value`, `tell`, the style, and `think`."""
    shown = {**shown, "value": shown["value"].format(**shown)}
    shown["told"] = shown["tell"].format(**shown)
    text = shown["styles"][style].format(**shown)
    return Reply(text, shown["value"], score, shown["think"].format(**shown), turns)


def _answer(shown: Facts, mistake: Callable[[Rng], Texts], trial: Trial) -> Reply:
    """Answer rightly, or with what `mistake` changes."""
    right = trial.succeeds()
    return reply(shown if right else {**shown, **mistake(trial.rng)}, trial.style, right)


def conversation(*contents: str) -> list[Record]:
    """Turns of a system prompt, then of user and assistant in turn."""
    roles = ("system", *("user", "assistant") * len(contents))
    return [
        {"role": role, "content": content} for role, content in zip(roles, contents, strict=False)
    ]


# Questions about facts with four choices. Wrong choices are values of similar rows of the same
# table.

_NEAR = 6  # wrong choices come from so many rows before and after a row


@cache
def facts() -> Sequence[Facts]:
    """The questions of all tables; the topics take turns.

    `others` are answers that are plausible and wrong, and `lure` is the wrong one that most would
    choose, or empty. `tell` is a sentence with `{chosen}` in place of the answer.
    """
    topics = [_topic(name, texts) for name, texts in table("facts")["topics"].items()]
    return [fact for turn in zip_longest(*topics) for fact in turn if fact]


def _topic(name: str, texts: Texts) -> list[Facts]:
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
    fact = facts()[number % len(facts())]
    answer = fact["answer"]
    lure = fact["lure"]
    wrong = [other for other in rng.shuffled(fact["others"]) if other not in (answer, lure)]
    if lure:
        wrong.insert(0, lure)
    choices = rng.shuffled([answer, *wrong[:3]])
    letters = dict(zip(choices, "ABCD", strict=True))
    raw = "\n".join([fact["question"], *(f"{letters[choice]}. {choice}" for choice in choices)])
    quoted = ", ".join(f'"{choice}"' for choice in choices)
    right = _chosen(letters, answer)
    shown = {**table("facts"), **fact, "choices": quoted, **right}
    tags = ["choice", fact["topic"]]
    reply_to = partial(_answer, shown, partial(_wrong_choice, fact, letters))
    return Task(raw, right["value"], fact["subject"], tags, reply_to, choices)


def _chosen(letters: Mapping[str, str], chosen: str) -> dict[str, str]:
    doubt = next(choice for choice in letters if choice != chosen)
    return {"chosen": chosen, "value": letters[chosen], "doubt": doubt}


def _wrong_choice(fact: Facts, letters: Mapping[str, str], rng: Rng) -> Texts:
    if rng.chance(0.04):
        unsure: Texts = table("facts")["unsure"]
        return unsure
    if fact["lure"] and rng.chance(0.6):
        return _chosen(letters, fact["lure"])
    return _chosen(letters, rng.choice([choice for choice in letters if choice != fact["answer"]]))


# Open questions, graded by how many points of the reference an answer makes.


def explanation(_: Rng, number: int) -> Task:
    """Make an open question; all combinations of topic, reader and limit differ."""
    texts = table("explanations")
    round_number, place = divmod(number, len(texts["topics"]))
    topic = texts["topics"][place]
    turn = round_number + place
    reader = texts["readers"][turn % len(texts["readers"])]
    limit = texts["limits"][turn % len(texts["limits"])]
    raw = " ".join(filter(None, (topic["ask"], reader, limit)))
    tags = ["explanation", topic["ask"].partition(" ")[0].lower()]
    answer = partial(_explain, topic)
    return Task(raw, " ".join(topic["points"]), topic["subject"], tags, answer, also=topic["short"])


def _explain(topic: Texts, trial: Trial) -> Reply:
    texts = table("explanations")
    total = len(topic["points"])
    points = [point for point in topic["points"] if trial.succeeds()]
    count = len(points)
    sentences = points if count > 1 else [topic["myth"], *points]
    text = texts["openings"][trial.style] + " ".join(sentences)
    if trial.style == 3:
        if len(sentences) > 2:
            bullets = "\n".join(f"- {sentence}" for sentence in sentences)
            text = texts["list"].format(ask=topic["ask"], list=bullets)
        text += texts["link"].format(**topic)
    unsure, partly_sure, sure = texts["sure"]
    doubt = unsure if count < 2 else partly_sure if count < total else sure
    reasoning = (texts["reasoning"] + doubt).format(ask=topic["ask"], count=count)
    return Reply(text, text, count / total, reasoning)


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
# The operation that a model takes by mistake.
_CONFUSED = {"+": "×", "−": "+", "×": "+", "÷": "×"}
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
    kind = problems["kinds"][name]
    shown = {**problems, **texts, **texts[name]}
    draw(rng, {**kind["draw"], "name other third": "names"}, shown)
    shown |= _written(_solve(kind["steps"], shown))
    answer = partial(_answer, shown, lambda rng: _written(_mistaken(rng, kind, shown)))
    tags = [name, language, "units"] if "unit" in kind else [name, language]
    return Task(shown["ask"].format(**shown), shown["value"], "arithmetic", tags, answer)


def _written(solution: Sequence[_Step]) -> dict[str, str]:
    """The steps and their result as texts."""
    steps = [str(step) for step in solution]
    return {
        "value": str(solution[-1].value),
        "steps": ", ".join(steps),
        "numbered": "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        "latex": "\n".join(f"$${step.translate(_LATEX)}$$" for step in steps),
    }


def _step(formula: str, numbers: Texts) -> _Step:
    """Compute `left operation right`, in which names stand for numbers."""
    left_name, operation, right_name = formula.split()
    left = numbers[left_name] if left_name in numbers else int(left_name)
    right = numbers[right_name] if right_name in numbers else int(right_name)
    value = _OPERATIONS[operation](left, right)
    # An integer is written without a point.
    return _Step(left, operation, right, int(value) if value == int(value) else round(value, 3))


def _solve(
    formulas: Sequence[str], given: Texts, wrong: int = -1, mistake: str = ""
) -> list[_Step]:
    """Go through the steps, with a mistake in step number `wrong`."""
    numbers = dict(given)
    steps = []
    for number, formula in enumerate(formulas):
        made = mistake if number == wrong else ""
        if made == "operation":
            left, operation, right = formula.split()
            formula = f"{left} {_CONFUSED[operation]} {right}"
        step = _step(formula, numbers)
        if made == "slip":
            # A slip that people make, too: one row off in the times table, or a lost carry.
            slip = step.right if step.operation == "×" else 10 if step.value > 40 else 1
            step = step._replace(value=step.value + (slip if step.left % 2 else -slip))
        if made != "skip":
            steps.append(step)
        numbers[f"s{number + 1}"] = step.left if made == "skip" else step.value
    return steps


def _mistaken(rng: Rng, kind: Texts, numbers: Texts) -> Sequence[_Step]:
    formulas = kind["steps"]
    unit = kind.get("unit")  # the step that converts a unit, from 1
    if unit and rng.chance(0.5):
        return _solve(formulas, numbers, unit - 1, "skip")
    if rng.chance(0.2):
        return _solve(formulas[:-1], numbers)
    mistake = "operation" if rng.chance(0.3) else "slip"
    steps = _solve(formulas, numbers, rng.below(len(formulas)), mistake)
    if steps[-1].value == _solve(formulas, numbers)[-1].value:  # such as 2 + 2 instead of 2 × 2
        steps = _solve(formulas, numbers, len(formulas) - 1, "slip")
    return steps


# Questions in eight languages: word problems, and capitals with short answers.

LANGUAGES = ("de", "zh", "es", "ar", "fr", "ja", "ru", "hi")


def _texts_in(language: str, name: str) -> Facts:
    """The texts of a file in `data/`, those of a language among them."""
    return {**table(name), **table(name)["languages"][language]}


def capitals(language: str) -> dict[str, str]:
    """Countries and their capitals in a language."""
    rows = _texts_in(language, "tongues")["rows"].strip().splitlines()
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
    shown = _texts_in(language, "tongues") | {"country": country, "value": capital}
    others = [city for city in cities.values() if city != capital]
    answer = partial(_answer, shown, lambda rng: {"value": rng.choice(others)})
    raw = shown["ask"].format(**shown)
    return Task(raw, capital, "geography", ["capitals", language], answer)


# Conversations: small talk and a help desk.


def small_talk(rng: Rng, number: int) -> Task:
    """Make small talk that ends with a question about something that was said before."""
    turn, place = divmod(number, len(LANGUAGES))
    shown = _texts_in(LANGUAGES[place], "chats")
    draw(rng, shown["draw"], shown)
    about = ("city", "sum")[(turn + place) % 2]
    ask = shown[f"ask_{about}"]
    raw = "\n".join([shown["hello"], shown["animals"], ask]).format(**shown)
    reference = shown["answers"][f"right_{about}"]["value"].format(**shown)
    answer = partial(_remember, shown, about)
    return Task(raw, reference, "memory", [about, LANGUAGES[place]], answer)


def _remember(shown: Facts, about: str, trial: Trial) -> Reply:
    right = trial.succeeds()
    outcome = f"right_{about}" if right else f"wrong_{about}"
    said = [shown[key].format(**shown) for key in shown["turns"]]
    said[-1] += shown["endings"][trial.style]
    turns = conversation(*said, shown[f"ask_{about}"])
    answer = {**shown["answers"][outcome], "tell": shown[outcome]}
    return reply({**shown, **answer}, trial.style, right, turns)


def help_desk(rng: Rng, number: int) -> Task:
    """Make a conversation of a help desk, graded by four points.

    They are: ask, compute, quote the rule, confirm.
    """
    cases = table("desk")["cases"]
    case = cases[number % len(cases)]
    shown = {**table("desk"), **case}
    draw(rng, {**shown["draw"], **case["numbers"]}, shown)
    raw = (case["system"] + "\n\n" + case["asks"][0]).format(**shown)
    reference = case["right"][-1].format(**shown)
    also = f"{shown['total']} euros"
    answer = partial(_serve, shown)
    return Task(raw, reference, case["subject"], ["conversation"], answer, also=also)


def _serve(shown: Facts, trial: Trial) -> Reply:
    said = [shown["system"]]
    sure = []
    for number, point in enumerate(shown["points"]):
        good = trial.succeeds()
        if good:
            sure.append(point)
        said += [shown["asks"][number], shown["right" if good else "wrong"][number]]
    said[-1] += shown["endings"][trial.style]
    *turns, last = conversation(*(text.format(**shown) for text in said))
    text = last["content"]
    reasoning = shown["reasoning"].format(sure="; ".join(sure) or shown["unsure"])
    return Reply(text, text, len(sure) / len(shown["points"]), reasoning, turns)
