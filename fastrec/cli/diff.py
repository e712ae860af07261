"""`fastrec diff`: tables for a terminal, and Markdown for a pull request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import (
    explain_damage,
    format_p,
    format_timing,
    print_found,
    print_notice,
    print_stderr,
    safe,
)
from fastrec.cli.options import (
    Count,
    Number,
    choice_option,
    command,
    flag,
    format_option,
    option,
    shared,
)
from fastrec.cli.tables import (
    Section,
    Table,
    columns,
    markdown_table,
    more_rows,
    print_hidden,
    print_notes,
    print_section,
    print_table,
)
from fastrec.errors import counted, listed
from fastrec.wording import power_text, titles

if TYPE_CHECKING:
    from fastrec.commands.diff.document import Difference, ModelDifference


_MOST_MODELS: Final = 20  # per evaluation
_MOST_ROWS: Final = 50  # in a Markdown table
_MOST_FIELDS: Final = 10
_MOST_NAMES: Final = 3  # in a sentence
_HEAD: Final = ("questions", "old", "new", "points", "worse", "better", "p", "adjusted p")
_OPTIONAL: Final = ("better", "worse", "old", "p", "questions")  # hidden on a narrow terminal
_WORDS: Final = {"regressed": "regression", "missing": "missing", "incomplete": "incomplete"}
_REMARKS: Final = {
    "compared": "",
    "unanswered": "no answers in OLD",
}  # the other names are words already
_TESTS: Final = {
    "mcnemar": "exact McNemar test",
    "t": "paired t-test over questions, because some have several answers",
}
_SCORE_TESTS: Final = _TESTS | {"t": "paired t-test over scores"}


def _ranked(models: Sequence[ModelDifference]) -> list[ModelDifference]:
    """Sort the worst first: regressed, missing and incomplete models, then by the loss."""
    ranks = {"missing": 0, "incomplete": 1}
    return sorted(
        models,
        key=lambda m: (not m.regressed, ranks.get(m.status, 2), m.points is None, m.points or 0),
    )


def _cells(model: ModelDifference, *, errors: bool) -> tuple[str, ...]:
    """Return the cells of a model; `errors` says whether there is a column for them."""
    if model.status in ("missing", "new"):
        numbers = (
            f"{model.old_errors:,} → –"
            if model.status == "missing"
            else f"– → {model.new_errors:,}",
        )
        return ("–",) * len(_HEAD) + numbers * errors
    numbers = (
        f"{model.old_errors:,} → {model.new_errors:,}"
        if model.old_errors or model.new_errors
        else "0",
    )
    of = f" of {model.old_answered:,}" if model.questions < model.old_answered else ""
    means = (model.old_accuracy, model.new_accuracy)
    spelling = "{:.1%}"
    if model.measure == "score":
        means = (model.old_score, model.new_score)
        spelling = "{:.4g}"
    return (
        f"{model.questions:,}{of}",
        *("–" if mean is None else spelling.format(mean) for mean in means),
        "–" if model.points is None else f"{model.points:+.2f}" if model.points else "0.00",
        f"{model.worse:,}",
        f"{model.better:,}",
        *(format_p(p) for p in (model.p, model.p_adjusted)),
        *(numbers * errors),
    )


def _remark(model: ModelDifference) -> str:
    status = _REMARKS.get(model.status, model.status)
    relabelled = [f"{model.counts.relabelled:,} relabelled"] * bool(model.counts.relabelled)
    return ", ".join(["regressed"] * model.regressed + [status] * (status != "") + relabelled)


def _columns(models: Sequence[ModelDifference]) -> tuple[bool, tuple[str, ...]]:
    """Return whether there is a column for errors, and the names of all columns after the model."""
    errors = any(model.old_errors or model.new_errors for model in models)
    return errors, (*_HEAD, *(("errors",) * errors), "")


def _titles(found: Difference) -> dict[tuple[str, str | None], str]:
    """Return the titles of all evaluations and metrics: the metric is in it only if the evaluation has several."""
    scopes = {(model.evaluation_name, model.metric): model for model in found.models}
    return dict(zip(scopes, titles(scopes.values()), strict=True))


def _power_lines(models: Sequence[ModelDifference]) -> list[str]:
    tested = [
        (model.detectable, model.points, model.questions_needed)
        for model in models
        if model.p is not None
    ]
    return [power_text(tested)] if tested else []


def _legend(found: Difference) -> Iterator[str]:
    answers = "questions that both corpora answered"
    if found.errors_as_wrong:
        answers += "; a record with an error is a wrong answer"
    elif any(model.old_errors or model.new_errors for model in found.models):
        answers += "; a record with an error is no answer"
    measures = {model.measure for model in found.models}
    if measures == {"score"}:
        yield f"old, new: mean score on the {answers}; a point is a hundredth"
    elif "score" in measures:
        yield f"old, new: accuracy, or mean score if without %, on the {answers}; a point is a hundredth"
    else:
        yield f"old, new: accuracy on the {answers}"
    if "score" in measures:
        yield "graded metrics (scores other than 0 and 1) are compared by score; --accuracy compares their accuracy"
        titles = _titles(found)
        if lower := {
            titles[model.evaluation_name, model.metric]
            for model in found.models
            if model.lower_is_better
        }:
            yield f"a lower score is better, so a rise is a loss of points: {', '.join(sorted(map(safe, lower)))}"
    used = Counter(
        (_SCORE_TESTS if m.measure == "score" else _TESTS)[m.test] for m in found.models if m.test
    )
    tests = [
        f"{text} ({counted(used[text], 'model')})" if len(used) > 1 else text
        for text in dict.fromkeys((*_TESTS.values(), *_SCORE_TESTS.values()))
        if used[text]
    ]
    if found.counts.relabelled:
        yield "relabelled: a label in NEW changed the verdict (`normalize --labels`), so the model may not have changed"
    if tests:
        adjusted = f"adjusted p: for {counted(used.total(), 'model')}, by Benjamini and Hochberg"
        yield f"p: {'; '.join(tests)}. {adjusted}"


def _print_tables(found: Difference) -> None:
    hidden: list[str] = []
    titles = _titles(found)
    for name, group in groupby(
        found.models, key=lambda model: titles[model.evaluation_name, model.metric]
    ):
        models = _ranked(list(group))
        errors, head = _columns(models)
        rows = [(m.model_id, *_cells(m, errors=errors), _remark(m)) for m in models[:_MOST_MODELS]]
        table = Table(columns(("model", *head), hidden=_OPTIONAL), rows)
        notes = more_rows(len(models) - _MOST_MODELS, "model", "--format json")
        notes += _power_lines(models)
        hidden += print_section(Section(name, counted(len(models), "model"), table, notes))
        click.echo()
    print_hidden(hidden)
    if found.models:
        click.echo("".join(f"{click.style(line, dim=True)}\n" for line in _legend(found)))
    if found.fields:
        click.echo(click.style("changed fields", bold=True))
        fields = [(field.path, f"{field.records:,}") for field in found.fields[:_MOST_FIELDS]]
        print_table(Table(columns(("field", "records")), fields))
        print_notes(more_rows(len(found.fields) - _MOST_FIELDS, "field", "--format json"))
        click.echo()
    for title, head, lists in _lists(found):
        click.echo(click.style(title, bold=True))
        print_table(Table(columns(head), lists))
        click.echo()
    click.echo(f"{_counts(found)} ({format_timing(found.text_bytes, found.seconds)})")
    word, sentence = _outcome_of(found, safe)
    colour = "red" if found.failed else "green" if found.fail_on is not None else None
    click.echo(f"{click.style(word, fg=colour, bold=True)}: {sentence}")


def _lists(found: Difference) -> Iterator[tuple[str, tuple[str, ...], Sequence[Sequence[str]]]]:
    """Yield the examples, if any: a title, column names and rows for each kind."""
    titles = _titles(found)
    flips = []
    for m in found.models:
        title = titles[m.evaluation_name, m.metric]
        spell = ("{:.4g}" if m.measure == "score" else "{:.0%}").format
        flips += [
            (title, m.model_id, str(flip.sample_id), spell(flip.old), spell(flip.new))
            for flip in m.flips
        ]
    if flips:
        yield "worse or better", ("evaluation", "model", "sample_id", "old", "new"), flips
    for kind in ("added", "removed", "changed", "relabelled", "repeats"):
        if records := getattr(found.examples, kind):
            rows = [
                (
                    titles[name.evaluation_name, name.metric],
                    name.model_id,
                    str(name.sample_id),
                    name.evaluation_id,
                )
                for name in records
            ]
            yield kind, ("evaluation", "model", "sample_id", "run"), rows


def _counts(found: Difference) -> str:
    counts = found.counts
    pairs = f"{counted(counts.unchanged + counts.changed, 'pair')}: {counts.unchanged:,} unchanged"
    relabelled = f" ({counts.relabelled:,} relabelled)" if counts.relabelled else ""
    text = (
        f"{pairs}, {counts.changed:,} changed{relabelled}; {counts.added:,} added, "
        f"{counts.removed:,} removed"
    )
    if counts.repeats_old or counts.repeats_new:
        text += f"; {counts.repeats_old:,} of OLD and {counts.repeats_new:,} of NEW are repeats without a pair"
    return text


def _outcome_of(found: Difference, spell: Callable[[str], str]) -> tuple[str, str]:
    """Return the result as a word and a sentence; `spell` escapes names."""
    titles = _titles(found)
    of = Counter(model.status for model in found.models)
    numbers = (
        f"{counted(of['compared'], 'model')} compared, {of['missing']:,} missing, "
        f"{of['incomplete']:,} incomplete"
    )
    if of["unanswered"]:
        numbers += f", {of['unanswered']:,} without answers in OLD"
    p_value = f"{'adjusted p' if found.p_adjust == 'bh' else 'p'} < {found.p:g}"
    per_metric = " and metric" if len(titles) > len({name for name, _ in titles}) else ""
    if found.fail_on is None:
        ps = [
            (m.points or 0, m.p_adjusted if found.p_adjust == "bh" else m.p) for m in found.models
        ]
        sure = [points for points, p in ps if p is not None and p < found.p]
        worse = sum(points < 0 for points in sure)
        changes = f"{worse:,} worse and {len(sure) - worse:,} better with {p_value}"
        return "compared", f"{changes}; {numbers} (counted per evaluation{per_metric})"
    if not found.failed:
        return (
            "no regression",
            f"no model lost more than {found.fail_on:g} points with {p_value}; {numbers}",
        )
    reasons = []
    for message, group in groupby(found.failures, key=lambda failure: failure.message):
        names = [
            f"{spell(one.model_id)} on {spell(titles[one.evaluation_name, one.metric])}"
            for one in group
        ]
        if len(names) > 1:
            verb, rest = message.split(" ", 1)
            message = " ".join([{"is": "are", "was": "were"}.get(verb, verb), rest])
        reasons.append(f"{listed(names, _MOST_NAMES)} {message}")
    more = f"; and {len(reasons) - _MOST_NAMES:,} more" if len(reasons) > _MOST_NAMES else ""
    return _WORDS[found.failures[0].reason], f"{'; '.join(reasons[:_MOST_NAMES])}{more}; {numbers}"


def _markdown_of(found: Difference) -> Iterator[str]:
    """Yield the lines of a comment on a pull request: the result, then the tables."""
    word, sentence = _outcome_of(found, _code)
    corpora = f"{_code(found.old.corpus)} → {_code(found.new.corpus)}"
    yield from (f"**{word}**: {sentence}", "", f"{corpora}: {_counts(found)}")
    errors, head = _columns(found.models)
    titles = _titles(found)
    rows = [
        (
            _code(titles[m.evaluation_name, m.metric]),
            _code(m.model_id),
            *_cells(m, errors=errors),
            f"**{remark}**" * bool(remark),
        )
        for m in _ranked(found.models)
        for remark in [_remark(m)]
    ]
    yield from _markdown_table(
        Table(columns(("evaluation", "model", *head), left=("model",)), rows)
    )
    for line in (*_power_lines(found.models), *_legend(found)):
        yield from ("", line)
    fields = [(_code(field.path), f"{field.records:,}") for field in found.fields]
    if fields:
        yield from _markdown_table(
            Table(columns(("changed field", "records")), fields[:_MOST_FIELDS])
        )
    for title, head, lists in _lists(found):
        yield from ("", f"<details><summary>{title}</summary>")
        yield from _markdown_table(
            Table(columns(head, left=head), [tuple(map(_code, row)) for row in lists])
        )
        yield from ("", "</details>")


def _markdown_table(table: Table) -> Iterator[str]:
    """Yield the lines of a table whose cells are Markdown already.

    Of a long one, only the first rows.
    """
    yield ""
    yield from markdown_table(table._replace(rows=table.rows[:_MOST_ROWS]), spell=str)
    if len(table.rows) > _MOST_ROWS:
        yield from ("", f"… and {len(table.rows) - _MOST_ROWS:,} more; `--format json` lists all")


def _code(text: str) -> str:
    """Return a Markdown code span, with more backticks around the text than it has in a row."""
    text = safe(text).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text or not text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"


class Percentage(Number):
    """A percentage, with or without its sign."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text: Any = value.strip().removesuffix("%") if isinstance(value, str) else value
        return super().convert(text, param, ctx)


@command("Compare two corpora.", ok="no regression",
         check="with --fail-on: a model regressed, is missing, or is incomplete",
         usage="the command line is wrong, these corpora cannot be compared, or no record of them "
"matches the filters",
         failure="a corpus could not be read")  # fmt: skip
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@option("--by", "Match records that have the same values in these comma-separated fields; and the "
"same metric "
        "(evaluation_result_id), where they name one.", metavar="FIELDS",
        default="evaluation_name,sample_hash,model_id,sample_id",
        show_default="evaluation_name, sample_hash, model_id, sample_id")  # fmt: skip
@option("--fail-on", "Exit 1 if a model lost more than this many percentage points (hundredths of "
"a score) on an "
        "evaluation with p < --p, is missing, or could not be compared.",
        type=Number(min=0), metavar="POINTS")  # fmt: skip
@option("--p", "Significance level.", type=Number(0, 1), metavar="P", default=0.05)
@choice_option("--p-adjust", ["bh", "none"], "Which p --fail-on uses: adjusted for the number of "
"models by the method "
               "of Benjamini and Hochberg, or that of each model by itself.")  # fmt: skip
@option("--min-compared", "With --fail-on, exit 1 if less than this percentage of the questions "
"that a model answered "
        "in OLD could be compared.", type=Percentage(0, 100), metavar="PERCENT", default=95)  # fmt: skip
@option("--allow-missing", "Models that may be missing or incomplete: a pattern of model ids, "
"evaluation names, "
        "metrics, evaluation/model, or evaluation/metric/model. Can be repeated.",
        multiple=True, metavar="PATTERN")  # fmt: skip
@flag("--errors-as-wrong", "Count a record with an error as a wrong answer, instead of as none.")
@flag("--accuracy", "Compare the accuracy even where scores are other than 0 and 1.")
@shared("lower_is_better")
@option("--examples", "List this many flips per model, and this many records of each kind.",
        type=Count(min=0), metavar="N", show_default="10 in JSON, else 0")  # fmt: skip
@format_option("table", "json", "markdown", text="Output format; markdown suits a pull request.")
@shared("filters", "jobs")
def diff(
    old: str, new: str, by: str, examples: int | None, output_format: str, **options: Any
) -> None:
    """Compare two corpora: records, fields, and how many questions were answered better or worse.

    OLD and NEW are directories that `fastrec normalize` published, with the same schema, sort order
    and hash. Records match if they have the same evaluation, question, model and sample_id. The run
    (evaluation_id) is ignored, because it is a new one every night. Several records of one
    question, such as trials, are compared by their mean. Each metric of an evaluation
    (evaluation_result_id) is compared by itself.

    Accuracies cover questions that both corpora answered; a record with an error is no answer.
    Graded metrics, which have scores other than 0 and 1, are compared by mean score; higher is
    better, unless the records or --lower-is-better say otherwise. p is the p-value of the exact
    McNemar test if all questions that changed did so by the same size, as single answers do, else
    of the paired t-test over questions. Below each table: which change these questions would show
    in 80 % of all cases (power), if as many answers change as observed, and how many questions the
    observed ones would need.

    Without --fail-on, the exit code is 0 whatever changed. With it, a model that NEW lacks or that
    could hardly be compared is a failure, too.

    \b
    Examples:
      fastrec diff corpus-monday corpus-tuesday
      fastrec diff corpus-monday corpus-tuesday --fail-on 0.5 --p 0.01
      fastrec diff old-corpus corpus --fail-on 0.5 --allow-missing 'org/old-*'
      fastrec diff corpus-monday corpus-tuesday --format markdown > comment.md
      fastrec diff corpus-monday corpus-tuesday --format json | jq .counts
      fastrec diff corpus-monday corpus-tuesday --evaluation 'GSM*'
    """
    from fastrec.commands.diff import diff as run

    listed = 10 if examples is None and output_format == "json" else examples or 0
    with explain_damage(old, new):
        found = run(old, new, by=by, examples=listed, **options)
    print_notice(*found.notices)
    print_found(
        found,
        output_format,
        table=lambda: _print_tables(found),
        markdown=lambda: click.echo("\n".join(_markdown_of(found))),
    )
    if found.failed:
        if (
            output_format != "table"
        ):  # the output may go to a file, but the reason belongs into the log of a job
            print_stderr(": ".join(_outcome_of(found, safe)))
        raise click.exceptions.Exit(1)
