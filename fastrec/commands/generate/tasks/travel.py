"""A travel assistant with tools for trains, weather, exchange rates and arithmetic.

A wrong answer misreads what a tool returned, takes the wrong row, or gives up. Some calls fail and are repeated, in
right answers too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.tasks.task import Given, Task, Trial, call, day, said, tool_output
from fastrec.commands.generate.text import Rng

__all__ = ["booking"]

CITIES: Final = (
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
SYSTEM: Final = "You are a travel assistant. Use the tools, and answer with what they return. All prices are in euros."
WARM: Final = ("Lisbon", "Madrid", "Seville", "Athens", "Palermo", "Valencia", "Málaga")
COLD: Final = ("Oslo", "Warsaw", "Prague", "Berlin", "Hamburg", "Vienna", "Zürich", "Helsinki")
RATES: Final = {"JPY": (155, 172), "SEK": (10, 12), "INR": (85, 98), "CZK": (23, 26), "HUF": (380, 410)}


def booking(rng: Rng, number: int) -> Task:
    """Return a task of a travel assistant; trains, weather and money take turns."""
    return (_trains, _weather, _money)[number % 3](rng)


def _turn(*calls: Record, content: str = "") -> Record:
    turn: Record = {"role": "assistant", "tool_calls": list(calls)}
    return {**turn, "content": content} if content else turn


# Trains: the cheapest one that arrives in time


def _trains(rng: Rng) -> Task:
    start, end = rng.shuffled(CITIES)[:2]
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
    turns = [said("system", SYSTEM), said("user", ask)]
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
    one, two, cold, warm = rng.choice(COLD), rng.choice(WARM), -rng.between(1, 9), rng.between(11, 19)
    date = f"2026-{rng.choice(('01', '02', '12'))}-{rng.between(1, 28):02d}"
    ask = f"How many degrees warmer is it in {two} than in {one} on {date}?"
    degrees = dict(rng.shuffled(((one, cold), (two, warm))))
    return Task(ask, str(warm - cold), "weather", ["tools", "parallel calls"], partial(_compare, ask, degrees, date))


def _compare(ask: str, degrees: Mapping[str, int], date: str, trial: Trial) -> Given:
    rng, right, style = trial.rng, trial.succeeds(), trial.style
    turns = [said("system", SYSTEM), said("user", ask)]
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
    currency = rng.choice(list(RATES))
    rate, amount = rng.between(*RATES[currency]), rng.between(100, 2500)
    ask = f"How many {currency} do I get for {amount} EUR at today's rate?"
    return Task(
        ask, str(amount * rate), "money", ["tools", "calculator"], partial(_convert, ask, currency, rate, amount)
    )


def _convert(ask: str, currency: str, rate: int, amount: int, trial: Trial) -> Given:
    rng, right, style = trial.rng, trial.succeeds(), trial.style
    turns = [said("system", SYSTEM), said("user", ask)]
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
