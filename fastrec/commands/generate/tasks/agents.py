"""An agent with a shell: it counts lines, looks for files and adds up a column.

A wrong answer takes the wrong line of the output, or a command that does something else than what was asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.tasks import Given, Task, Trial, call, day, said, tool_output
from fastrec.commands.generate.text import Rng

_SYSTEM: Final = "You work in a Linux shell through the tool run_command. Answer with the result alone at the end."
_SERVICES: Final = ("billing", "search", "mailer", "gateway", "worker", "login")
_VERBS: Final = ("parse", "load", "send", "read", "merge", "open", "check", "store")
_NOUNS: Final = ("date", "config", "mail", "rows", "users", "cache", "header", "price", "report", "token")
_MODULES: Final = ("helpers", "main", "models", "service", "tasks", "views")
_PROJECTS: Final = ("atlas", "beacon", "cedar", "delta", "ember", "fjord", "garnet", "harbor")
_FOLDERS: Final = ("app", "core", "jobs", "tools", "web")
_PRODUCTS: Final = ("tea", "coffee", "honey", "rice", "salt", "oil")


def shell(rng: Rng, number: int) -> Task:
    """Return a task for the shell; the kinds take turns."""
    return (_count, _definition, _largest, _column)[number % 4](rng)


class _Session:
    """The turns of an agent that runs one command after the other."""

    def __init__(self, ask: str, trial: Trial) -> None:
        self.rng, self.style = trial.rng, trial.style
        self.turns: list[Record] = [said("system", _SYSTEM), said("user", ask)]

    def run(self, command: str, output: str, comment: str = "") -> None:
        """Add a command and its output."""
        made = call(self.rng, "run_command", command=command)
        turn: Record = {"role": "assistant", "tool_calls": [made]}
        if comment and self.style:
            turn["content"] = comment
        self.turns += [turn, tool_output(output, made)]

    def answer(self, value: str, sentence: str, right: bool, reasoning: str) -> Given:
        """Return the final answer."""
        text = (value, f"Done! 😀 {sentence}", sentence, f"{sentence}\n\n```\n{value}\n```")[self.style]
        return Given(text, value, right, reasoning, self.turns)


# How many lines of a log have errors?


def _count(rng: Rng) -> Task:
    services = rng.shuffled(_SERVICES)[:4]
    errors = dict(zip(services, rng.shuffled(range(3, 240))[:4], strict=True))
    service, folder = rng.choice(services), f"logs/{day(rng)}"
    ask = f"How many lines of {folder}/{service}.log contain the word ERROR?"
    return Task(ask, str(errors[service]), "logs", ["shell", "grep"], partial(_grep, ask, folder, service, errors))


def _grep(ask: str, folder: str, service: str, errors: dict[str, int], trial: Trial) -> Given:
    rng, right, session = trial.rng, trial.succeeds(), _Session(ask, trial)
    if rng.chance(0.3):
        session.run(f"rg -c ERROR {folder}/{service}.log", "bash: rg: command not found", "I count the lines with rg.")
    command = f"grep -c ERROR {folder}/*.log"
    output = "".join(f"{folder}/{name}.log:{count}\n" for name, count in sorted(errors.items()))
    session.run(command, output, "I count the lines of every log.")
    other = rng.choice([name for name in errors if name != service])
    value = errors[service]
    reasoning = f"The line for {service} says {value}."
    if not right and rng.chance(0.4):
        value = sum(errors.values())
        reasoning = f"I add up all lines: {value}."
    elif not right:
        value = errors[other]
        reasoning = f"The line for {other} says {value}."
    return session.answer(str(value), f"The log has {value} lines with ERROR.", right, reasoning)


# Which file defines a function?


def _definition(rng: Rng) -> Task:
    name, project = f"{rng.choice(_VERBS)}_{rng.choice(_NOUNS)}", rng.choice(_PROJECTS)
    files = [f"{project}/{folder}/{rng.choice(_MODULES)}.py" for folder in rng.shuffled(_FOLDERS)[:3]]
    line = rng.between(10, 300)
    ask = f"Which file of the project {project} defines the Python function {name}?"
    return Task(ask, files[0], "code", ["shell", "search"], partial(_find, ask, name, files, line))


def _find(ask: str, name: str, files: list[str], line: int, trial: Trial) -> Given:
    rng, right, session = trial.rng, trial.succeeds(), _Session(ask, trial)
    home, user, third = files
    listed = "\n".join(("README.md", *sorted(_FOLDERS)))
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


# Which file is the largest?


def _largest(rng: Rng) -> Task:
    names = [f"{product}.parquet" for product in rng.shuffled(_PRODUCTS)[:4]]
    # The largest has megabytes, and another one has more digits.
    sizes = [f"{rng.between(11, 98) / 10}M", f"{rng.between(200, 990)}K", f"{rng.between(20, 190)}K"]
    sizes.append(f"{rng.between(11, 98) / 10}K")
    files = dict(zip(names, sizes, strict=True))
    folder = f"data/{day(rng)}"
    ask = f"Which of the {len(names)} files in {folder} is the largest?"
    return Task(ask, names[0], "files", ["shell"], partial(_list, ask, folder, files))


def _list(ask: str, folder: str, files: dict[str, str], trial: Trial) -> Given:
    rng, right, session = trial.rng, trial.succeeds(), _Session(ask, trial)
    if rng.chance(0.3):
        session.run(f"du -h /{folder}/*", f"du: cannot access '/{folder}/*': No such file or directory")
    output = "".join(f"{size}\t{folder}/{name}\n" for name, size in sorted(files.items()))
    session.run(f"du -h --apparent-size {folder}/*", output, "I list the sizes.")
    first, second, *_ = files
    value = first if right else second
    reasoning = f"{value} has {files[value]}."
    if not right:
        reasoning += f" {files[value][:-1]} is the largest number in the list."
    return session.answer(value, f"The largest file is {value}.", right, reasoning)


# What is the sum of a column?


def _column(rng: Rng) -> Task:
    rows = [(product, rng.between(3, 60)) for product in rng.shuffled(_PRODUCTS)[: rng.between(4, 6)]]
    total = sum(number for _, number in rows)
    file = f"sales/{day(rng)}.csv"
    span = f"from {rows[0][0]} to {rows[-1][0]}"
    ask = f"The table {file} has the columns product and sold. How much was sold in all, {span}?"
    return Task(ask, str(total), "tables", ["shell", "csv"], partial(_add, ask, file, rows))


def _add(ask: str, file: str, rows: list[tuple[str, int]], trial: Trial) -> Given:
    right, session = trial.succeeds(), _Session(ask, trial)
    listed = "product,sold\n" + "".join(f"{product},{number}\n" for product, number in rows)
    session.run(f"cat {file}", listed, "I look at the file.")
    value = total = sum(number for _, number in rows)
    reasoning = f"The sum of the column is {total}."
    if not right:
        value = total - rows[-1][1]
        reasoning = f"I add the numbers without the last row: {value}."
        session.run(
            f"head -n {len(rows)} {file} | awk -F, '{{s += $2}} END {{print s}}'", f"{value}\n", "I add them up."
        )
    else:
        session.run(f"awk -F, 'NR > 1 {{s += $2}} END {{print s}}' {file}", f"{value}\n", "I add up the second column.")
    return session.answer(str(value), f"In all, {value} were sold.", right, reasoning)


# @@ travel: A travel assistant with tools for trains, weather, exchange rates and arithmetic.
#
# A wrong answer misreads what a tool returned, takes the wrong row, or gives up. Some calls fail and are repeated, in
# right answers too.

_CITIES: Final = (
    "Lisbon",
    "Madrid",
    "Lyon",
    "Milan",
    "Vienna",
    "Prague",
    "Berlin",
    "Hamburg",
    "Oslo",
    "Warsaw",
    "Zürich",
)
_TRAVEL_SYSTEM: Final = (
    "You are a travel assistant. Use the tools, and answer with what they return. All prices are in euros."
)
_WARM: Final = ("Lisbon", "Madrid", "Seville", "Athens", "Palermo", "Valencia", "Málaga")
_COLD: Final = ("Oslo", "Warsaw", "Prague", "Berlin", "Hamburg", "Vienna", "Zürich", "Helsinki")
_RATES: Final = {"JPY": (155, 172), "SEK": (10, 12), "INR": (85, 98), "CZK": (23, 26), "HUF": (380, 410)}


def booking(rng: Rng, number: int) -> Task:
    """Return a task of a travel assistant; trains, weather and money take turns."""
    return (_trains, _weather, _money)[number % 3](rng)


def _turn(*calls: Record, content: str = "") -> Record:
    turn: Record = {"role": "assistant", "tool_calls": list(calls)}
    return {**turn, "content": content} if content else turn


# Trains: the cheapest one that arrives in time


def _trains(rng: Rng) -> Task:
    start, end = rng.shuffled(_CITIES)[:2]
    people, date, latest = rng.between(2, 5), day(rng), rng.between(14, 19)
    hours = rng.shuffled(range(latest - 4, latest))[:3]
    prices = sorted(rng.shuffled(range(19, 96))[:4])
    # The cheapest train of all arrives too late; the others are in time.
    trains = [
        {"train": f"T{rng.between(100, 999)}", "arrives": f"{hour:02d}:{rng.below(12) * 5:02d}", "price": price}
        for hour, price in zip((latest + rng.between(1, 3), *hours), prices, strict=True)
    ]
    late, best = trains[0], trains[1]
    ask = (
        f"Book the cheapest train from {start} to {end} on {date} that arrives before {latest}:00, "
        f"for {people} people. Which train is it, and what does it cost in all?"
    )
    facts = {"start": start, "end": end, "date": date, "people": people, "latest": latest, "late": late, "best": best}
    facts["trains"] = sorted(trains, key=lambda train: str(train["arrives"]))
    reference = f"{best['train']}, {people * best['price']} euros"  # type: ignore[operator]
    return Task(ask, reference, "trains", ["tools", "search"], partial(_book, ask, facts))


def _book(ask: str, facts: Mapping[str, Any], trial: Trial) -> Given:
    rng, right, style = trial.rng, trial.succeeds(), trial.style
    turns = [said("system", _TRAVEL_SYSTEM), said("user", ask)]
    where = {"from": facts["start"], "to": facts["end"]}
    if rng.chance(0.3):
        year, month, nth = facts["date"].split("-")
        failed = call(rng, "search_trains", **where, date=f"{nth}.{month}.{year}")
        turns += [_turn(failed), tool_output('{"error": "date must look like YYYY-MM-DD"}', failed)]
    search = call(rng, "search_trains", **where, date=facts["date"])
    turns += [_turn(search, content="I search for trains on that day." if style else "")]
    turns += [tool_output("\n".join(map(json.dumps, facts["trains"])), search)]
    mistake = "" if right else rng.choice(("late", "one", "gives up"))
    train = facts["late"] if mistake == "late" else facts["best"]
    seats = 1 if mistake == "one" else facts["people"]
    total = train["price"] * seats
    book = call(rng, "book_train", train=train["train"], seats=seats)
    turns.append(_turn(book, content=f"The cheapest one is {train['train']}."))
    if mistake == "gives up" or rng.chance(0.2):
        turns.append(tool_output('{"error": "the booking system is busy, try again"}', book))
        if mistake:
            text = "The booking failed, so I could not book a train."
            return Given(text, "none", right, "There was an error. I tell the user.", turns)
        book = call(rng, "book_train", train=train["train"], seats=seats)
        turns.append(_turn(book, content="I try again."))
    turns.append(tool_output(json.dumps({"status": "booked", "train": train["train"], "total": total}), book))
    text = f"I booked {train['train']}, which arrives at {train['arrives']}. It costs {total} euros in all."
    reasoning = f"{train['train']} costs {train['price']} euros. It arrives at {train['arrives']}, so it is in time."
    return Given(text + " 😀" * (style == 1), f"{train['train']}, {total} euros", right, reasoning, turns)


# Weather: the difference of two temperatures


def _weather(rng: Rng) -> Task:
    one, two, cold, warm = rng.choice(_COLD), rng.choice(_WARM), -rng.between(1, 9), rng.between(11, 19)
    date = f"2026-{rng.choice(('01', '02', '12'))}-{rng.between(1, 28):02d}"
    ask = f"How many degrees warmer is it in {two} than in {one} on {date}?"
    degrees = dict(rng.shuffled(((one, cold), (two, warm))))
    return Task(ask, str(warm - cold), "weather", ["tools", "parallel calls"], partial(_compare, ask, degrees, date))


def _compare(ask: str, degrees: Mapping[str, int], date: str, trial: Trial) -> Given:
    rng, right, style = trial.rng, trial.succeeds(), trial.style
    turns = [said("system", _TRAVEL_SYSTEM), said("user", ask)]
    calls = [call(rng, "get_weather", city=city, date=date) for city in degrees]
    turns.append(_turn(*calls, content="I look up both cities." if style else ""))
    if rng.chance(0.2):
        turns.append(tool_output('{"error": "timeout after 10 s"}', *calls))
        calls = [call(rng, "get_weather", city=city, date=date) for city in degrees]
        turns.append(_turn(*calls, content="The service did not answer. I try again."))
    found = [
        {"city": city, "celsius": value, "sky": rng.choice(("clear", "cloudy"))} for city, value in degrees.items()
    ]
    turns.append(tool_output("\n".join(map(json.dumps, found)), *calls))
    (cold, there), (warm, here) = sorted((value, city) for city, value in degrees.items())
    read = cold if right else -cold  # the mistake is to miss the minus sign
    reasoning = f"{here}: {warm} degrees. {there}: {read} degrees. {warm} − ({read}) = {warm - read}."
    text = f"It is {warm - read} degrees warmer in {here} than in {there}."
    if style >= 2:
        text = f"{here}: {warm} °C\n{there}: {read} °C\n\n{text}"
    return Given(text, str(warm - read), right, reasoning, turns)


# Money: multiply by an exchange rate


def _money(rng: Rng) -> Task:
    currency = rng.choice(list(_RATES))
    rate, amount = rng.between(*_RATES[currency]), rng.between(100, 2500)
    ask = f"How many {currency} do I get for {amount} EUR at today's rate?"
    return Task(
        ask, str(amount * rate), "money", ["tools", "calculator"], partial(_convert, ask, currency, rate, amount)
    )


def _convert(ask: str, currency: str, rate: int, amount: int, trial: Trial) -> Given:
    rng, right, style = trial.rng, trial.succeeds(), trial.style
    turns = [said("system", _TRAVEL_SYSTEM), said("user", ask)]
    today = call(rng, "today")
    turns += [_turn(today), tool_output("2026-11-16", today)]
    look = call(rng, "get_rate", base="EUR", quote=currency, date="2026-11-16")
    turns += [_turn(look), tool_output(json.dumps({"base": "EUR", "quote": currency, "rate": rate}), look)]
    formula, value = f"{amount} * {rate}", str(amount * rate)
    if not right and rng.chance(0.5):
        formula, value = f"{amount} / {rate}", str(round(amount / rate, 2))  # the wrong operation
    elif not right:
        formula, value = f"{amount // 10} * {rate}", str(amount // 10 * rate)  # a zero is lost
    if rng.chance(0.25):
        failed = call(rng, "calculate", expression=f"{amount} EUR in {currency}")
        turns += [_turn(failed), tool_output("error: not an expression: 'EUR'", failed)]
    compute = call(rng, "calculate", expression=formula)
    turns += [_turn(compute, content="Now I calculate." if style else ""), tool_output(value, compute)]
    text = f"For {amount} EUR you get {value} {currency}."
    if style >= 2:
        text += f" The rate is {rate}, and {formula} = {value}."
    return Given(text, value, right, f"The rate is {rate}. {formula} = {value}.", turns)
