"""An agent with a shell: it counts lines, looks for files and adds up a column.

A wrong answer takes the wrong line of the output, or a command that does something else than what was asked.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.tasks.task import Given, Task, Trial, call, day, said, tool_output
from fastrec.commands.generate.text import Rng

__all__ = ["shell"]

SYSTEM: Final = "You work in a Linux shell through the tool run_command. Answer with the result alone at the end."
SERVICES: Final = ("billing", "search", "mailer", "gateway", "worker", "login")
VERBS: Final = ("parse", "load", "send", "read", "merge", "open", "check", "store")
NOUNS: Final = ("date", "config", "mail", "rows", "users", "cache", "header", "price", "report", "token")
MODULES: Final = ("helpers", "main", "models", "service", "tasks", "views")
PROJECTS: Final = ("atlas", "beacon", "cedar", "delta", "ember", "fjord", "garnet", "harbor")
FOLDERS: Final = ("app", "core", "jobs", "tools", "web")
PRODUCTS: Final = ("tea", "coffee", "honey", "rice", "salt", "oil")


def shell(rng: Rng, number: int) -> Task:
    """Return a task for the shell; the kinds take turns."""
    return (_count, _definition, _largest, _column)[number % 4](rng)


class _Session:
    """The turns of an agent that runs one command after the other."""

    def __init__(self, ask: str, trial: Trial) -> None:
        self.rng, self.style = trial.rng, trial.style
        self.turns: list[Record] = [said("system", SYSTEM), said("user", ask)]

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
    services = rng.shuffled(SERVICES)[:4]
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
    name, project = f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}", rng.choice(PROJECTS)
    files = [f"{project}/{folder}/{rng.choice(MODULES)}.py" for folder in rng.shuffled(FOLDERS)[:3]]
    line = rng.between(10, 300)
    ask = f"Which file of the project {project} defines the Python function {name}?"
    return Task(ask, files[0], "code", ["shell", "search"], partial(_find, ask, name, files, line))


def _find(ask: str, name: str, files: list[str], line: int, trial: Trial) -> Given:
    rng, right, session = trial.rng, trial.succeeds(), _Session(ask, trial)
    home, user, third = files
    listed = "\n".join(("README.md", *sorted(FOLDERS)))
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
    names = [f"{product}.parquet" for product in rng.shuffled(PRODUCTS)[:4]]
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
    rows = [(product, rng.between(3, 60)) for product in rng.shuffled(PRODUCTS)[: rng.between(4, 6)]]
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
