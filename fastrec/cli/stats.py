"""`fastrec stats`: a table of models for each evaluation and metric."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    exit_if_damaged,
    print_error,
    print_notice,
    print_warning,
    safe,
)
from fastrec.cli.options import command
from fastrec.cli.output import (
    asked,
    csv_text,
    print_for_paper,
    run_reading,
    warn_of_terminal,
)
from fastrec.cli.tables import Section, Spellings, Table, escaped, make_table, more_rows, spelled
from fastrec.errors import counted
from fastrec.wording import value_text

if TYPE_CHECKING:
    from fastrec.summary.document import Tokens
    from fastrec.summary.present_ranking import EvaluationStats, ModelStats, Stats


_REPEATS = (
    "questions",
    "answers",
    "answers/question",
)  # instead of n, if a question has several answers
_NOT_GRADED = (
    "accuracy",
    "95% interval",
    "score ±",
)  # left out if the score is shown instead of the accuracy
# Columns that a narrow terminal hides, the least important first. The column that models are ranked
# by stays, and so does the number of errors: without it, accuracy can mislead.
_OPTIONAL = (
    "tokens", "p99 ms", "score ±", "tokens/record", "p50 ms", "answers", "score", "coverage",
    "answers/question", "95% interval",
)  # fmt: skip
_RANKED_BY = {"tokens": "tokens/record", "latency": "p50 ms"}
_MOST_ROWS = 100  # of all tables together: more do not fit on two screens
_LEAST_ROWS = 10  # of a table
_NO_COMMON = (
    "no question was answered by all of them; choose fewer models with --model, or omit --common"
)
_NO_ANSWERS = (
    "every record has an error, so there are no answers; --errors-as-wrong counts them as wrong"
)

# Columns of the CSV table: first those that have the name of an attribute, then names and
# attributes.
_CSV_ATTRIBUTES = (
    "model_id", "records", "errors", "answers", "questions", "answers_per_question", "coverage",
    "correct", "accuracy", "accuracy_standard_error", "accuracy_low", "accuracy_high", "mean_score",
    "score_standard_error",
)  # fmt: skip
_CSV_FIELDS = dict(zip(_CSV_ATTRIBUTES, _CSV_ATTRIBUTES, strict=True)) | {
    "records_with_tokens": "tokens.records",
    "input_tokens": "tokens.input",
    "output_tokens": "tokens.output",
    "total_tokens": "tokens.total",
    "records_with_latency": "latency_ms.records",
    "latency_ms_p50": "latency_ms.p50",
    "latency_ms_p90": "latency_ms.p90",
    "latency_ms_p99": "latency_ms.p99",
    "score_low": "score_low",
    "score_high": "score_high",
}
_CSV_RANKS = ("rank_best", "rank_worst", "unranked")


Sections = tuple[list[Section], list[Sequence[str]]]  # tables, and the lines that explain them


def _interval(low: float | None, high: float | None, digits: int | None) -> str:
    decimals = 1 if digits is None else digits
    return "" if low is None or high is None else f"{100 * low:.{decimals}f}–{high:.{decimals}%}"


def _columns(digits: int | None) -> Spellings:
    """Columns and their cells.

    A column that is empty for all models of an evaluation is left out.
    """
    share = f".{1 if digits is None else digits}%"
    score = ".4g" if digits is None else f".{digits + 2}f"
    error = ".2g" if digits is None else score
    return {
        "rank": "{rank}",
        "model": "{model_id}",
        "n": "{questions:,}",
        "questions": "{questions:,}",
        "answers": "{answers:,}",
        "answers/question": "[??{answers_per_question:.3g}]",
        "coverage": f"{{coverage:{share}}}",
        "accuracy": f"{{accuracy:{share}}}",
        "95% interval": lambda model: _interval(model.accuracy_low, model.accuracy_high, digits),
        "score": f"[??{{mean_score:{score}}}]",
        "score interval": f"[??{{score_low:{score}}} to {{score_high:{score}}}]",
        "score ±": f"[??± {{score_standard_error:{error}}}]",
        "errors": "{errors:,}",
        "tokens": lambda model: _total(model.tokens),
        "tokens/record": "[??{tokens_per_record:,.0f}]",
        "p50 ms": "[??{latency_ms.p50:,.0f}]",
        "p99 ms": "[??{latency_ms.p99:,.0f}]",
    }


def _total(tokens: Tokens) -> str:
    if not tokens.records:
        return ""
    return f"{tokens.total:,}" if isinstance(tokens.total, int) else "huge"


def stats_sections(found: Stats, *, show_all: bool = True, digits: int | None = None) -> Sections:
    """Make a table for each evaluation; unless `show_all`, about two screens of them."""
    from fastrec.commands.overlap.names import probable_pairs
    from fastrec.summary.present_ranking import about, facts_in_words, legend, unranked_in_words

    sections = []
    rows = sum(len(one.by_model) for one in found.evaluations)
    most = None
    if rows > _MOST_ROWS and not show_all:
        most = max(_MOST_ROWS // len(found.evaluations), _LEAST_ROWS)
    left = rows
    for one in found.evaluations[: most and _MOST_ROWS // most]:
        shown = one.by_model[:most]
        left -= len(shown)
        table: Table | str = _NO_COMMON if one.answering else _NO_ANSWERS
        if shown:
            table = _models_table(found, one, shown, digits)
        notes = [
            *more_rows(len(one.by_model) - len(shown), "model", "`--all`"),
            *unranked_in_words(one),
        ]
        sections.append(Section(one.title, about(one), table, notes))
    names = {model.model_id for one in found.evaluations for model in one.by_model}
    pairs = probable_pairs(names)
    similar = [
        f"{counted(len(pairs), 'pair')} of models with names that differ only in spelling, such as "
        f"{first} and {second} (overlap --by names)"
        for first, second in pairs[:1]
    ]
    legends: list[Sequence[str]] = [legend(found), [*facts_in_words(found.corpus), *similar]]
    if left:
        text = f"left out: {left:,} of {rows:,} rows; --all shows them"
        legends.append([f"{text}, --format json and csv always have all"])
    return sections, legends


def _models_table(
    found: Stats, one: EvaluationStats, models: Sequence[ModelStats], digits: int | None
) -> Table:
    left_out = ("score interval",) if found.shows_accuracy(one) else _NOT_GRADED
    headings = {"score interval": "95% interval"}
    if found.repeats_as != "mean":
        headings["accuracy"] = found.repeats_as
    spellings: Spellings = {}
    for name, spelling in _columns(digits).items():
        if name == "accuracy":
            spellings |= {how: _of_series(how, digits) for how in models[0].series}
        if name not in left_out:
            spellings[headings.get(name, name)] = spelling
    cells = {
        name: [spelled(spelling, model) for model in models] for name, spelling in spellings.items()
    }
    cells = {name: column for name, column in cells.items() if any(column)}
    repeats = any(model.answers > model.questions for model in models)
    for name in ("n",) if repeats else _REPEATS:
        cells.pop(name, None)
    if one.by != "errors" and not any(model.errors for model in models):
        del cells["errors"]
    optional = [name for name in _OPTIONAL if name != _RANKED_BY.get(one.by, one.by)]
    rows = list(zip(*cells.values(), strict=True))
    return make_table(list(cells), rows, left=("model",), hidden=optional)


def _of_series(how: str, digits: int | None) -> Callable[[ModelStats], str]:
    return lambda model: value_text(model.series[how], graded=False, digits=digits)


def _print_csv(found: Stats) -> None:
    """Print one table of all models of all evaluations and metrics, with numbers in full precision.

    New columns are at the end, for readers that go by position.
    """
    rows = []
    series: dict[str, None] = {}
    for one in found.evaluations:
        for rank, model in enumerate(one.by_model, 1):
            row = {"evaluation_name": one.evaluation_name, "rank": rank}
            row |= {name: attrgetter(field)(model) for name, field in _CSV_FIELDS.items()}
            row |= {"metric": one.metric, "graded": one.graded}
            row |= {name: getattr(model, name) for name in _CSV_RANKS}
            rows.append(row | model.series)
            series |= dict.fromkeys(model.series)
    names = ["evaluation_name", "rank", *_CSV_FIELDS, "metric", "graded", *_CSV_RANKS, *series]
    click.echo(csv_text(rows, names), nl=False)


@command()
def stats(paths: tuple[str, ...], show_all: bool, **options: Any) -> None:
    """Compare the models of each evaluation and metric: accuracy, score, errors, tokens, latency.

    PATHS are either one corpus that `fastrec normalize` published, whose summary has all the
    numbers, or any shards. Shards are read and sorted, so that duplicates count once; nothing is
    published.

    An answer is a record without an error. Accuracy and score are means over questions: a model
    with several answers to a question counts with their mean. In the tables, n is the number of
    questions that a model answered, and coverage is their share of the evaluation's questions.
    Models that answered different questions are not comparable; --common counts only the questions
    that all models with answers have answered.

    A metric is an evaluation_result_id. Each metric has its own table. If a metric has scores other
    than 0 and 1, its table shows the mean score and its interval instead of the accuracy, and
    models are ranked by score.

    The rank of a model is a range if tests cannot place it: 2–4 means that one model is
    significantly better, and that the others below 4 are significantly worse. All pairs of models
    are compared on the questions that both answered (exact McNemar test, or paired t-test),
    adjusted for their number (Holm). A model with answers to less than --min-coverage of the
    questions is listed last, without a rank. With --errors-as-wrong, evaluations with errors have
    no ranks.

    Filters by name choose rows of these tables; the numbers in a row stay the same. With
    --sample-id, --hash, --right, --wrong or --errors, all numbers are those of the matching records
    alone.

    --group-by adds a table for each group of records below the table of its evaluation: by subject,
    by difficulty, by the number of tokens. Fields are those of --where.

    `fastrec overlap` says which questions models have in common, `fastrec costs` what answers cost,
    and `fastrec calibration` whether models know which answers are right.

    \b
    Exit codes:
      0     done
      1     there are no records, or the corpus is damaged
      2     the command line is wrong, or a pattern matches nothing
      3     something could not be read

    \b
    Examples:
      fastrec stats corpus
      fastrec stats new-corpus --metric acc --metric 'rouge*'
      fastrec stats corpus --common --model 'org/*' --model other/model
      fastrec stats corpus --group-by metadata.subject
      fastrec stats corpus --repeats-as majority --format latex
      fastrec stats runs/ --by latency --format csv > models.csv
    """
    from fastrec.commands.stats import stats as run
    from fastrec.corpus.manifest import skipped_lines

    output_format, _, digits, _, quiet, _ = asked()
    warn_of_terminal(paths)
    notice = None if quiet else print_notice
    found = run_reading(run, paths, stages=("sort", "merge", "read"), notice=notice, **options)
    missing = skipped_lines(found.skipped)
    with allow_broken_pipe():
        if output_format in ("json", "csv", "latex"):
            if not quiet:
                print_warning(missing)
        elif missing:
            # In Markdown, indented lines become a list.
            spell = (
                safe if output_format == "text" else lambda line: re.sub("^  ", "- ", escaped(line))
            )
            click.echo("\n".join([*map(spell, missing), ""]))
    show_all = show_all or output_format != "text"
    sections, legends = stats_sections(found, show_all=show_all, digits=digits)
    printers: dict[str, Any] = {"csv": lambda: _print_csv(found)}
    if not found.evaluations:
        printers["text"] = lambda: None
    print_for_paper(found, sections, legends, **printers)
    if not found.evaluations:
        print_error("there are no records")
        raise click.exceptions.Exit(1)
    exit_if_damaged(found.damaged)
