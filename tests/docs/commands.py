"""docs/commands.md, generated from the click commands and their options."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from fastrec.cli import COMMANDS, cli
from fastrec.cli.options import options_by_heading
from tests.docs.documents import cell

_DOCS = Path(__file__).parents[2] / "docs"
# Examples that tests do not run.
NOT_RUN = {
    "view": "it runs until it is stopped",
    "calibration": "the records of the demo have no confidence",
    "items": "the demo has too few questions for a subset",
}
# Pages that say all that the help of a command says after its first paragraph, and more.
_PAGES = {
    "import": "import.md",
    "stats": "using-a-corpus.md#comparing-models",
    "leaderboard": "leaderboard.md",
    "questions": "answers.md#questions",
    "compare": "answers.md#two-models",
    "overlap": "hashes.md#why-do-two-models-share-no-question",
    "costs": "answers.md#cost",
    "calibration": "answers.md#two-graders",
    "sql": "ask.md#sql",
    "diff": "using-a-corpus.md#comparing-two-corpora",
    "trend": "answers.md#several-nights",
    "show": "answers.md#one-question",
    "check-pairs": "import.md#checking-pairs",
    "score": "benchmark.md#was-the-answer-read-correctly",
    "items": "benchmark.md#which-questions-are-good",
    "corrected": "repairs.md#corrected-scores",
    "view": "answers.md#in-the-browser",
    "export": "using-a-corpus.md#exporting-tables",
    "normalize": "../README.md#a-first-result",
    "rejects": "repairs.md#fixes",
    "cat": "using-a-corpus.md#finding-records",
    "clean": "incremental.md#what-is-kept-and-where",
}
# How many examples of a command are shown. Its help has all; the page that says more has its own.
_EXAMPLES = dict.fromkeys(_PAGES, 0) | {"completion": 4, "normalize": 3}
# Options that a page explains in full, by command and page; the default is on that page, too.
_EXPLAINED = {
    "normalize": {
        "repeats.md#options": "same-run conflicts repeats",
        "using-a-corpus.md#changing-a-corpus": "map keep-names",
        "repairs.md#fixes": "fixes",
        "repairs.md#labels": "labels strict-labels",
        "gates.md#normalize": "max-rejects allow-empty",
        "gates.md#credentials": "check-secrets",
        "guarantees.md#trust": "trust judge",
        "incremental.md": "incremental check fresh part-size",
        "hashes.md#recipes": "sample-hash",
        "versions.md#the-version-of-a-corpus": "schema",
        "normal-form.md#sort-order": "sort-by",
        "answers.md#where-a-record-comes-from": "track-sources",
        "guarantees.md#line-counts": "skip-bad-shards",
    },
    "stats": {"using-a-corpus.md#comparing-models": "common all"},
    "questions": {
        "answers.md#questions": "wrong-by right-by split missing",
        "ask.md#answers-that-contain-a-phrase": "text in",
    },
    "items": {"benchmark.md#which-questions-are-good": "subset"},
    "cat": {"answers.md#where-a-record-comes-from": "source"},
    "view": {"answers.md#in-the-browser": "no-browser labels"},
    "validate": {
        "versions.md#telling-versions-apart": "schema",
        "versions.md#upgrading": "upgrade-report",
    },
    "import": {
        "import.md#any-table": "columns guess id-column rows from-path scale null-verdict"
        " question-by",
        "import.md#metadata-of-samples": "metadata",
        "import.md#the-rows-add-up": "strict skip-bad-logs",
    },
    "score": {
        "benchmark.md#was-the-answer-read-correctly": "rules rule references replace dry-run"
    },
    "leaderboard": {"leaderboard.md#the-table-over-evaluations": "weights weight-by"},
    "compare": {"answers.md#two-models": "detect", "answers.md#two-graders": "metric-pair"},
    "corrected": {"repairs.md#corrected-scores": "labels pooled propose"},
    "diff": {
        "using-a-corpus.md#comparing-two-corpora": "by",
        "gates.md#diff": "fail-on p-adjust min-compared allow-missing",
    },
    "export": {
        "sharing.md#pairs-for-the-data-store": "details",
        "gates.md#credentials": "allow-secrets",
    },
    "filters": {"ask.md#conditions-on-fields": "where"},
    "shared": {
        "leaderboard.md#questions-that-come-in-groups": "cluster",
        "leaderboard.md#ranks": "min-coverage",
        "leaderboard.md#primary-metric": "primary",
        "leaderboard.md#kinds-and-directions-of-metrics": "metrics lower-is-better",
        "repeats.md#in-statistics": "repeats-as",
        "using-a-corpus.md#comparing-models": "accuracy errors-as-wrong",
        "ask.md#groups": "group-by",
        "answers.md#cost": "prices",
        "answers.md#two-graders": "confidence",
        "repairs.md": "repair",
    },
}
# What exit codes mean in every command: it is explained once.
_GENERAL = {
    "0": r"done|no .*|the corpus is OK|all .* are .*|ended .*",
    "1": r"there are no records",
    "2": r"(the command line is wrong|CORPUS is not a corpus|there is no corpus"
    r"|a pattern matches nothing|no record matches the filters|a name matches nothing|,? or |, )+",
    "3": r"(failed: )?[^,]* could not be (read|written)( or written)?|failed, nothing published",
    "130": r"interrupted.*",
    "143": r"terminated.*",
}
_EXIT_CODES = """\
`1` also means that there are no records, `2` that CORPUS is no corpus, or that a pattern, name or \
filter matches nothing. Commands list what else a code means.
"""

_HEAD = """\
# Commands

What each command does, its own options, and examples, unless a page that says more has them;
`fastrec COMMAND --help` has all. Most people need `fastrec normalize runs/ -o corpus`. [Filters](#filters),
[shared options](#shared-options), [settings](#settings) and [exit codes](#exit-codes) are explained
once. An option with `...` may be repeated. Of values with `|` in between, the first is the default.
"""
_SETTINGS = """\
### Settings

Settings come from `fastrec.toml`, or from `[tool.fastrec]` in `pyproject.toml`. A key is an option \
without the dashes; one that may be repeated also takes a list. A key at the top level applies to \
every command that has the option, a key in the table of a command to that command. The command \
line counts before the environment, and the environment before the settings. `engine` and \
`scheduler` count only in a file that `--config` or `FASTREC_CONFIG` names: the directory of \
somebody else cannot choose them.
"""


def commands_page() -> str:
    """The page."""
    lines = [_HEAD]
    for heading, names in COMMANDS.items():
        links = ", ".join(f"[`{name}`](#fastrec-{name})" for name in names)
        lines.append(f"- {heading}: {links}")
    lines.append("")
    lines += _program()
    for name in _names():
        lines += [f"## fastrec {name}", "", *_about(name)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _names() -> list[str]:
    return cli.list_commands(click.Context(cli))


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command
    return command


def _context(name: str) -> click.Context:
    # click caches the help option of a command, so it needs the settings of the program here.
    return click.Context(_command(name), info_name=f"fastrec {name}", **cli.context_settings)


def _program() -> Iterator[str]:
    """What holds for all commands: variables, exit codes, settings, filters, shared options."""
    plain, titled = paragraphs(cli.help or "")
    context = click.Context(cli, info_name="fastrec", **cli.context_settings)
    usage = " ".join(cli.collect_usage_pieces(context))
    yield from ("## fastrec", "", f"`fastrec {usage}`", "", *plain, "")
    yield from (*_options(options_by_heading(cli, context)["Options"], context), "")
    yield from ("### Exit codes", "", *_list(titled["Exit codes"]), "")
    yield _EXIT_CODES.rstrip()
    yield from ("", "### Variables", "")
    yield "An option below says if an environment variable sets it. There are also:"
    variables = [row for row in titled["Environment"] if "same as" not in row]
    yield from ("", *_list(variables), "", _SETTINGS, "```toml")
    yield from (*(row.strip() for row in titled["Settings"]), "```", "")
    yield from ("### Filters", "", "A record must match every kind of filter that is given.", "")
    cat = _context("cat")
    filters = options_by_heading(_command("cat"), cat)["Filters"]
    yield from (
        *_options(filters, cat, "filters"),
        *_explained("filters", _command("cat"), cat),
        "",
    )
    yield from ("### Shared options", "", *_shared_options(), _formats(), "")


def _about(name: str) -> Iterator[str]:
    """The section of a command: usage, text, its own options, exit codes, and examples."""
    command = _command(name)
    context = _context(name)
    plain, titled = paragraphs(command.help or "")
    arguments = command.collect_usage_pieces(context)[1:]
    yield from (f"`{' '.join(['fastrec', name, *arguments])}`", "")
    if name in _PAGES:
        plain = [f"{plain[0]} [More]({_PAGES[name]})."]
    for text in plain:
        yield from (_with_code(text), "")
    listed: list[str] = []
    rare: list[str] = []
    also: list[str] = []
    for heading, options in options_by_heading(command, context).items():
        if heading == "Filters":
            also.append("[filters](#filters)")
            continue
        own = [option for option in options if _line(option, context) not in _shared()]
        own = [option for option in own if not {"--help", "--format"} & set(option.opts)]
        (rare if heading == "Rarely needed" else listed).extend(_options(own, context, name))
        also += [_name(option, context) for option in options if option not in own]
    also = [name for name in also if name not in ("`--help`", "`--verbose`")]
    listed += _explained(name, command, context)
    if also:
        listed.append(f"- {', '.join(also)}")
    yield from (*listed, "")
    if rare:
        yield from ("Rarely needed:", "", *rare, "")
    codes = [
        f"{code}: {_with_code(_own_reasons(text))}"
        for code, text in _pairs(titled["Exit codes"])
        if not re.fullmatch(_GENERAL[code], text)
    ]
    if codes:
        yield from (f"Exit code {'; '.join(codes)}.", "")
    if most := _EXAMPLES.get(name, 3):
        yield from ("```sh", *examples(name)[:most], "```", "")


def _own_reasons(text: str) -> str:
    """The reasons of an exit code without those that all commands have."""
    for general in ("there are no records, or ", "the command line is wrong, or "):
        if text.startswith(general):
            return text.removeprefix(general)
    if not text.startswith("the command line is wrong"):
        return text
    reasons = re.split(r",? or |, ", text)
    return ", or ".join(reason for reason in reasons if not re.fullmatch(_GENERAL["2"], reason))


def examples(name: str) -> list[str]:
    """The examples in the help of a command."""
    return [row.strip() for row in paragraphs(_command(name).help or "")[1]["Examples"]]


@cache
def _shared() -> list[str]:
    """The lines of options that several commands have, besides filters and `--format`."""
    lines: Counter[str] = Counter()
    for name in _names():
        context = _context(name)
        for heading, options in options_by_heading(_command(name), context).items():
            if heading != "Filters":
                lines.update(_line(option, context) for option in options)
    several = [line for line, commands in lines.items() if commands > 1]
    return [line for line in several if "--help" not in line and "--format" not in line]


def _shared_options() -> Iterator[str]:
    """The shared options, those that a page explains last."""
    explained: dict[str, str] = {}
    for name in _names():
        context = _context(name)
        for option in _command(name).params:
            page = isinstance(option, click.Option) and _page("shared", option)
            if page and _line(option, context) in _shared():
                explained[_line(option, context)] = f"{_usage(option, context)}: {page}"
    yield from (line for line in _shared() if line not in explained)
    yield from (f"- {text}" for text in explained.values())


def _page(name: str, option: click.Option) -> str:
    """The link to the page that explains an option of a command in full, if there is one."""
    long = option.opts[-1].removeprefix("--")
    for link, options in _EXPLAINED.get(name, {}).items():
        if long in options.split():
            page = link.partition("#")[0]
            assert f"--{long}" in (_DOCS / page).read_text(), f"{page} does not explain --{long}"
            return f"[{page.removesuffix('.md')}]({link})"
    return ""


def _explained(name: str, command: click.Command, context: click.Context) -> Iterator[str]:
    """The options of a command that pages explain, by page."""
    by_page: dict[str, list[str]] = {}
    for option in command.params:
        if isinstance(option, click.Option) and (page := _page(name, option)):
            by_page.setdefault(page, []).append(_usage(option, context))
    yield from (f"- {', '.join(names)}: {page}" for page, names in by_page.items())


def _formats() -> str:
    """The line of `--format`: what each of its values is for."""
    uses: dict[str, str] = {}
    for name in _names():
        for option in _command(name).params:
            if "--format" in option.opts and isinstance(option, click.Option):
                uses |= re.findall(r"(\w+) (for .*?)(?=, \w+ for |\.$)", option.help or "")
    listed = ", ".join(f"`{name}` {use}" for name, use in uses.items())
    return f"- `--format` (default: `text`): Output format: {listed}."


def _options(options: list[click.Option], context: click.Context, command: str = "") -> list[str]:
    return [
        _line(option, context)
        for option in options
        if "--help" not in option.opts and not _page(command, option)
    ]


def _line(option: click.Option, context: click.Context) -> str:
    """An option as an item of a list: its names, default and meaning."""
    default = option.show_default if isinstance(option.show_default, str) else ""
    if option.show_default is True:
        default = f"`{option.default}`"
    is_usual = default in ("", "`0.0`") or f"{default.strip('`')}|" in _usage(option, context)
    note = "" if is_usual else f" (default: {default})"
    if option.required:
        note = " (required)"
    variable = f" Variable: `{option.envvar}`." if option.envvar else ""
    text = re.sub(r"[.;] [Mm]ay be repeated\.", ".", option.help or "") + variable
    return f"- {_usage(option, context)}{note}: {_with_code(text)}"


def _usage(option: click.Option, context: click.Context) -> str:
    """The names of an option and what stands for its value."""
    value = "" if option.is_flag or option.count else option.make_metavar(context).strip("[]")
    several = "..." if option.multiple else ""
    return f"`{', '.join(option.opts)} {value}{several}".rstrip() + "`"


def _name(option: click.Option, context: click.Context) -> str:
    """The long name of a shared option; of `--format`, with its values."""
    return _usage(option, context) if "--format" in option.opts else f"`{option.opts[-1]}`"


def option_names(command: str) -> set[str]:
    """The names of the options of a command as fields of a document; none if it is no command."""
    if command not in _names():
        return set()
    options = [one for one in _command(command).params if isinstance(one, click.Option)]
    return {option.opts[-1].removeprefix("--").replace("-", "_") for option in options}


def paragraphs(help_text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Split a help text into plain paragraphs and titled ones.

    Titled paragraphs keep their line breaks: their rows are listed by title.
    """
    plain = []
    titled = {}
    for text in re.split(r"\n\s*\n", inspect.cleandoc(help_text)):
        if text.startswith("\b"):
            head, *rows = text.removeprefix("\b\n").splitlines()
            titled[re.split(r"[,:]", head)[0]] = rows
        else:
            plain.append(" ".join(text.split()))
    return plain, titled


def _pairs(rows: list[str]) -> list[tuple[str, str]]:
    """Names and texts from rows of a name, two or more spaces, and a text.

    The text may continue on the next line.
    """
    pairs: list[tuple[str, str]] = []
    for row in rows:
        if row.startswith(" " * 8):
            name, text = pairs[-1]
            pairs[-1] = (name, f"{text} {row.strip()}")
        else:
            name, text = re.split(r"\s{2,}", row.strip(), maxsplit=1)
            pairs.append((name, text))
    return pairs


def _list(rows: list[str]) -> list[str]:
    return [f"- `{name}`: {_with_code(cell(text))}" for name, text in _pairs(rows)]


def _with_code(text: str) -> str:
    """Format options and file names in a text as code, except where it has code already."""
    pieces = re.split(r"(`[^`]*`)", text)
    for at in range(0, len(pieces), 2):
        pieces[at] = re.sub(
            r"(?<![\w-])(--?[a-z][a-z-]*|\S*\*\S*\w\*?|[a-z]+_[a-z_]+)", r"`\1`", pieces[at]
        )
    return "".join(pieces)
