"""Tasks for agents: a shell in which to count, search and add up, and a travel assistant with tools.

A wrong answer has a visible cause: the agent reads the wrong line of an output, misreads a result,
runs a command that does something else than what was asked, or gives up. Some calls fail and are
repeated, in right answers too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from fastrec.commands.generate.producers import Record, Reply
from fastrec.commands.generate.tasks import Task, Trial, said, table
from fastrec.commands.generate.text import Rng


def shell(rng: Rng, number: int) -> Task:
    make = (_count, _definition, _largest, _column)[number % 4]
    return make(rng, table("agents")["shell"])


def booking(rng: Rng, number: int) -> Task:
    make = (_trains, _weather, _money)[number % 3]
    return make(rng, table("agents")["travel"])


class _Session:
    """The turns of an agent that calls tools, one call or several at a time."""

    def __init__(self, kind: str, ask: str, trial: Trial) -> None:
        self.rng = trial.rng
        self.style = trial.style
        self.turns: list[Record] = [
            said("system", table("agents")[kind]["system"]),
            said("user", ask),
        ]

    def call(self, name: str, **arguments: Any) -> Record:
        made: Record = {"id": f"call_{self.rng.bits(48):012x}", "name": name}
        if arguments:
            made["arguments"] = arguments
        return made

    def use(self, output: str, *calls: Record, comment: str = "") -> None:
        """Add a turn with the calls, and a turn with what the tools returned."""
        turn: Record = {"role": "assistant", "tool_calls": list(calls)}
        if comment:
            turn["content"] = comment
        ids = [made["id"] for made in calls]
        answered: Record = {
            "role": "tool",
            "content": output,
            "tool_call_id": ids[0] if len(ids) == 1 else ids,
        }
        self.turns += [turn, answered]

    def run(self, command: str, output: str, comment: str = "") -> None:
        """Run a command in the shell; agents of style 0 do not comment."""
        self.use(
            output, self.call("run_command", command=command), comment=comment if self.style else ""
        )

    def answer(self, value: str, sentence: str, right: bool, reasoning: str) -> Reply:
        """Make the final answer of an agent with a shell."""
        text = (value, f"Done! 😀 {sentence}", sentence, f"{sentence}\n\n```\n{value}\n```")[
            self.style
        ]
        return Reply(text, value, right, reasoning, self.turns)


def _day(rng: Rng) -> str:
    return f"2026-{rng.between(1, 12):02d}-{rng.between(1, 28):02d}"


def _count(rng: Rng, words: Mapping[str, Any]) -> Task:
    """How many lines of a log have errors?"""
    services = rng.shuffled(words["services"])[:4]
    errors = dict(zip(services, rng.shuffled(range(3, 240))[:4], strict=True))
    service = rng.choice(services)
    folder = f"logs/{_day(rng)}"
    ask = f"How many lines of {folder}/{service}.log contain the word ERROR?"
    return Task(
        ask,
        str(errors[service]),
        "logs",
        ["shell", "grep"],
        partial(_grep, ask, folder, service, errors),
    )


def _grep(ask: str, folder: str, service: str, errors: dict[str, int], trial: Trial) -> Reply:
    rng = trial.rng
    right = trial.succeeds()
    session = _Session("shell", ask, trial)
    if rng.chance(0.3):
        session.run(
            f"rg -c ERROR {folder}/{service}.log",
            "bash: rg: command not found",
            "I count the lines with rg.",
        )
    output = "".join(f"{folder}/{name}.log:{count}\n" for name, count in sorted(errors.items()))
    session.run(f"grep -c ERROR {folder}/*.log", output, "I count the lines of every log.")
    other = rng.choice([name for name in errors if name != service])
    value = errors[service if right else other]
    reasoning = f"The line for {service if right else other} says {value}."
    if not right and rng.chance(0.4):
        value = sum(errors.values())
        reasoning = f"I add up all lines: {value}."
    return session.answer(str(value), f"The log has {value} lines with ERROR.", right, reasoning)


def _definition(rng: Rng, words: Mapping[str, Any]) -> Task:
    """Which file defines a function?"""
    name = f"{rng.choice(words['verbs'])}_{rng.choice(words['nouns'])}"
    project = rng.choice(words["projects"])
    folders = rng.shuffled(words["folders"])[:3]
    files = [f"{project}/{folder}/{rng.choice(words['modules'])}.py" for folder in folders]
    line = rng.between(10, 300)
    ask = f"Which file of the project {project} defines the Python function {name}?"
    return Task(ask, files[0], "code", ["shell", "search"], partial(_find, ask, name, files, line))


def _find(ask: str, name: str, files: list[str], line: int, trial: Trial) -> Reply:
    rng = trial.rng
    right = trial.succeeds()
    session = _Session("shell", ask, trial)
    home, user, third = files
    listed = "\n".join(("README.md", *sorted(table("agents")["shell"]["folders"])))
    session.run(f"ls {home.partition('/')[0]}", listed, "First I look at the project.")
    rows = [
        f"{home}:{line}:def {name}(value, *, strict=True):",
        f"{user}:{line // 2}:    result = {name}(value)",
        f'{third}:7:    """Calls {name}; see C:\\tools\\notes.txt."""',
        f"notes.txt:3:{name}\u2028was moved last year",
    ]
    output = "\n".join(sorted(rows))
    if rng.chance(0.2):  # grep marks what it found, if it is told to
        output = output.replace(name, f"\x1b[01;31m{name}\x1b[m")
    session.run(f"grep -rn {name} .", output, "I search all files for the name.")
    value = home if right else rng.choice((user, third))
    why = f"has the line with def {name}" if right else f"mentions {name}"
    return session.answer(value, f"The function is defined in {value}.", right, f"{value} {why}.")


def _largest(rng: Rng, words: Mapping[str, Any]) -> Task:
    """Which file is the largest?"""
    names = [f"{product}.parquet" for product in rng.shuffled(words["products"])[:4]]
    # The largest has megabytes, and another one has more digits.
    sizes = [
        f"{rng.between(11, 98) / 10}M",
        f"{rng.between(200, 990)}K",
        f"{rng.between(20, 190)}K",
    ]
    sizes.append(f"{rng.between(11, 98) / 10}K")
    files = dict(zip(names, sizes, strict=True))
    folder = f"data/{_day(rng)}"
    ask = f"Which of the {len(names)} files in {folder} is the largest?"
    return Task(ask, names[0], "files", ["shell"], partial(_list, ask, folder, files))


def _list(ask: str, folder: str, files: dict[str, str], trial: Trial) -> Reply:
    rng = trial.rng
    right = trial.succeeds()
    session = _Session("shell", ask, trial)
    if rng.chance(0.3):
        session.run(
            f"du -h /{folder}/*", f"du: cannot access '/{folder}/*': No such file or directory"
        )
    output = "".join(f"{size}\t{folder}/{name}\n" for name, size in sorted(files.items()))
    session.run(f"du -h --apparent-size {folder}/*", output, "I list the sizes.")
    first, second, *_ = files
    value = first if right else second
    reasoning = f"{value} has {files[value]}."
    if not right:
        reasoning += f" {files[value][:-1]} is the largest number in the list."
    return session.answer(value, f"The largest file is {value}.", right, reasoning)


def _column(rng: Rng, words: Mapping[str, Any]) -> Task:
    """What is the sum of a column?"""
    rows = [
        (product, rng.between(3, 60))
        for product in rng.shuffled(words["products"])[: rng.between(4, 6)]
    ]
    total = sum(number for _, number in rows)
    file = f"sales/{_day(rng)}.csv"
    span = f"from {rows[0][0]} to {rows[-1][0]}"
    ask = f"The table {file} has the columns product and sold. How much was sold in all, {span}?"
    return Task(ask, str(total), "tables", ["shell", "csv"], partial(_add, ask, file, rows))


def _add(ask: str, file: str, rows: list[tuple[str, int]], trial: Trial) -> Reply:
    right = trial.succeeds()
    session = _Session("shell", ask, trial)
    listed = "product,sold\n" + "".join(f"{product},{number}\n" for product, number in rows)
    session.run(f"cat {file}", listed, "I look at the file.")
    value = sum(number for _, number in rows)
    reasoning = f"The sum of the column is {value}."
    command = f"awk -F, 'NR > 1 {{s += $2}} END {{print s}}' {file}"
    comment = "I add up the second column."
    if not right:
        value -= rows[-1][1]
        reasoning = f"I add the numbers without the last row: {value}."
        command = f"head -n {len(rows)} {file} | awk -F, '{{s += $2}} END {{print s}}'"
        comment = "I add them up."
    session.run(command, f"{value}\n", comment)
    return session.answer(str(value), f"In all, {value} were sold.", right, reasoning)


def _trains(rng: Rng, words: Mapping[str, Any]) -> Task:
    """The cheapest train that arrives in time."""
    start, end = rng.shuffled(words["cities"])[:2]
    people = rng.between(2, 5)
    date = _day(rng)
    latest = rng.between(14, 19)
    hours = rng.shuffled(range(latest - 4, latest))[:3]
    prices = sorted(rng.shuffled(range(19, 96))[:4])
    # The cheapest train of all arrives too late; the others are in time.
    trains: list[dict[str, Any]] = [
        {
            "train": f"T{rng.between(100, 999)}",
            "arrives": f"{hour:02d}:{rng.below(12) * 5:02d}",
            "price": price,
        }
        for hour, price in zip((latest + rng.between(1, 3), *hours), prices, strict=True)
    ]
    ask = (
        f"Book the cheapest train from {start} to {end} on {date} that arrives before {latest}:00, "
        f"for {people} people. Which train is it, and what does it cost in all?"
    )
    reference = f"{trains[1]['train']}, {people * trains[1]['price']} euros"
    where = {"from": start, "to": end}
    return Task(
        ask,
        reference,
        "trains",
        ["tools", "search"],
        partial(_book, ask, where, date, people, trains),
    )


def _book(  # noqa: PLR0917
    ask: str,
    where: dict[str, str],
    date: str,
    people: int,
    trains: list[dict[str, Any]],
    trial: Trial,
) -> Reply:
    rng = trial.rng
    right = trial.succeeds()
    session = _Session("travel", ask, trial)
    if rng.chance(0.3):
        other_date = ".".join(reversed(date.split("-")))
        failed = session.call("search_trains", **where, date=other_date)
        session.use('{"error": "date must look like YYYY-MM-DD"}', failed)
    found = "\n".join(map(json.dumps, sorted(trains, key=lambda train: str(train["arrives"]))))
    search = session.call("search_trains", **where, date=date)
    session.use(found, search, comment="I search for trains on that day." if trial.style else "")
    mistake = "" if right else rng.choice(("late", "one", "gives up"))
    late, best, *_ = trains
    train = late if mistake == "late" else best
    seats = 1 if mistake == "one" else people
    name = train["train"]
    total = train["price"] * seats
    book = session.call("book_train", train=name, seats=seats)
    comment = f"The cheapest one is {name}."
    if mistake == "gives up" or rng.chance(0.2):
        session.use('{"error": "the booking system is busy, try again"}', book, comment=comment)
        if mistake:
            text = "The booking failed, so I could not book a train."
            return Reply(text, "none", right, "There was an error. I tell the user.", session.turns)
        book = session.call("book_train", train=name, seats=seats)
        comment = "I try again."
    session.use(
        json.dumps({"status": "booked", "train": name, "total": total}), book, comment=comment
    )
    text = f"I booked {name}, which arrives at {train['arrives']}. It costs {total} euros in all."
    reasoning = (
        f"{name} costs {train['price']} euros. It arrives at {train['arrives']}, so it is in time."
    )
    return Reply(
        text + " 😀" * (trial.style == 1), f"{name}, {total} euros", right, reasoning, session.turns
    )


def _weather(rng: Rng, words: Mapping[str, Any]) -> Task:
    """The difference of two temperatures."""
    one = rng.choice(words["cold"])
    two = rng.choice(words["warm"])
    cold = -rng.between(1, 9)
    warm = rng.between(11, 19)
    date = f"2026-{rng.choice(('01', '02', '12'))}-{rng.between(1, 28):02d}"
    ask = f"How many degrees warmer is it in {two} than in {one} on {date}?"
    degrees = dict(rng.shuffled(((one, cold), (two, warm))))
    return Task(
        ask,
        str(warm - cold),
        "weather",
        ["tools", "parallel calls"],
        partial(_compare, ask, degrees, date),
    )


def _compare(ask: str, degrees: Mapping[str, int], date: str, trial: Trial) -> Reply:
    rng = trial.rng
    right = trial.succeeds()
    session = _Session("travel", ask, trial)
    calls = [session.call("get_weather", city=city, date=date) for city in degrees]
    comment = "I look up both cities." if trial.style else ""
    if rng.chance(0.2):
        session.use('{"error": "timeout after 10 s"}', *calls, comment=comment)
        calls = [session.call("get_weather", city=city, date=date) for city in degrees]
        comment = "The service did not answer. I try again."
    found = [
        {"city": city, "celsius": value, "sky": rng.choice(("clear", "cloudy"))}
        for city, value in degrees.items()
    ]
    session.use("\n".join(map(json.dumps, found)), *calls, comment=comment)
    (cold, there), (warm, here) = sorted((value, city) for city, value in degrees.items())
    read = cold if right else -cold  # the mistake is to miss the minus sign
    reasoning = (
        f"{here}: {warm} degrees. {there}: {read} degrees. {warm} − ({read}) = {warm - read}."
    )
    text = f"It is {warm - read} degrees warmer in {here} than in {there}."
    if trial.style >= 2:
        text = f"{here}: {warm} °C\n{there}: {read} °C\n\n{text}"
    return Reply(text, str(warm - read), right, reasoning, session.turns)


def _money(rng: Rng, words: Mapping[str, Any]) -> Task:
    """Multiply by an exchange rate."""
    currency = rng.choice(list(words["rates"]))
    rate = rng.between(*words["rates"][currency])
    amount = rng.between(100, 2500)
    ask = f"How many {currency} do I get for {amount} EUR at today's rate?"
    answer = partial(_convert, ask, currency, rate, amount)
    return Task(ask, str(amount * rate), "money", ["tools", "calculator"], answer)


def _convert(ask: str, currency: str, rate: int, amount: int, trial: Trial) -> Reply:
    rng = trial.rng
    right = trial.succeeds()
    session = _Session("travel", ask, trial)
    session.use("2026-11-16", session.call("today"))
    look = session.call("get_rate", base="EUR", quote=currency, date="2026-11-16")
    session.use(json.dumps({"base": "EUR", "quote": currency, "rate": rate}), look)
    formula = f"{amount} * {rate}"
    value = str(amount * rate)
    if not right and rng.chance(0.5):
        formula, value = f"{amount} / {rate}", str(round(amount / rate, 2))  # the wrong operation
    elif not right:
        formula, value = f"{amount // 10} * {rate}", str(amount // 10 * rate)  # a zero is lost
    if rng.chance(0.25):
        failed = session.call("calculate", expression=f"{amount} EUR in {currency}")
        session.use("error: not an expression: 'EUR'", failed)
    compute = session.call("calculate", expression=formula)
    session.use(value, compute, comment="Now I calculate." if trial.style else "")
    text = f"For {amount} EUR you get {value} {currency}."
    if trial.style >= 2:
        text += f" The rate is {rate}, and {formula} = {value}."
    return Reply(text, value, right, f"The rate is {rate}. {formula} = {value}.", session.turns)
