"""`fastrec compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import explain_damage, format_p, print_found, print_notice, safe
from fastrec.cli.options import Count, command, complete_names, flag, format_option, option, shared
from fastrec.cli.progress import make_progress
from fastrec.cli.show import AnswerPrinter
from fastrec.cli.tables import Table, columns, print_hidden, print_table
from fastrec.errors import counted, listed
from fastrec.wording import TESTS, power_text, title_of, value_text

if TYPE_CHECKING:
    from fastrec.commands.compare import ComparedEvaluation, Comparison, Example


_MOST_POWERS: Final = 5  # lines about what could have been seen; JSON has all
_OPTIONAL: Final = ("ties", "p", "questions", "A", "B")  # hidden on a narrow terminal


@command("Compare two models of a corpus, and show where they differ.", ok="done, whatever the difference",
         usage="the command line is wrong, or A or B is not one model", failure="a part could not be read")  # fmt: skip
@shared("corpus")
@click.argument("a", required=False, shell_complete=complete_names("models"))
@click.argument("b", required=False, shell_complete=complete_names("models"))
@option("--metrics", "Compare two metrics (graders) on the same answers, instead of two models.",
        nargs=2, metavar="M1 M2")  # fmt: skip
@shared("filters", "group_by", "lower_is_better")
@option("--examples", "Show both answers to N questions of each evaluation and metric.",
        type=Count(min=0), metavar="N", default=2)  # fmt: skip
@shared("repeats_as")
@flag("--full", "Show the examples in full.")
@format_option("text", "json")
@shared("run")
def compare(corpus: str, full: bool, output_format: str, no_progress: bool, **options: Any) -> None:
    """Compare models A and B on the questions of CORPUS that both have answered.

    A and B are model_ids, or patterns that match only one model. Each evaluation and metric is compared by itself:
    questions on which A is better (wins), worse (losses) or equal (ties), and the accuracy of both. A model with
    several answers to a question counts with their mean, or as --repeats-as says; a record with an error is no answer.
    Graded metrics, which have scores other than 0 and 1, are compared by score; higher is better, unless the records or
    --lower-is-better say otherwise.

    p is the p-value of the exact McNemar test, or of a sign-flip test or t-test over questions if some have several
    answers, or if scores are compared. The adjusted p allows for the number of rows (Benjamini and Hochberg). A line
    per row says which difference these questions would show in 80 % of all cases (power), if the two models differ on
    as many questions as observed, and how many questions it would take for the observed one.

    The examples are the most distinguishing questions: one of the two is right and the other wrong, and the other
    models mostly agree with each other. Questions that A wins and questions that B wins take turns. For graded metrics,
    they are the questions with the largest differences. The filters choose the questions, and which other models count.

    --group-by adds a row for each group of records below that of its evaluation, the largest first.

    With --metrics, two metrics (evaluation_result_id) are compared on the answers that both have judged: how often
    they agree, Cohen's kappa with a 95 % interval (a jackknife over questions), and the first answers on which they
    differ. In the viewer, "another metric differs" lists these questions.

    \b
    Examples:
      fastrec compare corpus org/model other/model
      fastrec compare corpus 'org/m*' 'other/*' --evaluation GSM8K --examples 5
      fastrec compare corpus org/model other/model --group-by metadata.subject
      fastrec compare corpus org/model other/model --format json | jq .evaluations
    """
    from fastrec.commands.compare import compare as run

    stages = ("index", "sort", "merge") if options["group_by"] else ("index",)
    with make_progress(*stages, quiet=no_progress) as progress, explain_damage(corpus):
        found = run(corpus, **options | {"metrics": options["metrics"] or ()}, progress=progress, notice=print_notice)
    print_found(found, output_format, text=lambda: _print(found, full=full))


def _print_agreement(found: Comparison) -> None:
    names = ["evaluation", "answers", "agree", "kappa", "95% interval", "both right", "only M1", "only M2", "neither"]
    rows = []
    for one in found.agreement:
        counts = [one.both_right, one.only_first, one.only_second, one.both_wrong]
        kappa = "–" if one.kappa is None else f"{one.kappa:.3f}"
        interval = "–" if one.kappa_low is None else f"{one.kappa_low:.3f} to {one.kappa_high:.3f}"
        agree = value_text(one.agreement, graded=False)
        rows.append([one.evaluation_name, f"{one.answers:,}", agree, kappa, interval, *map("{:,}".format, counts)])
    for number, metric in enumerate(found.metrics, start=1):
        click.echo(f"M{number}  {click.style(safe(metric), bold=True)}")
    click.echo()
    hidden = print_table(Table(columns(names, hidden=("neither", "both right", "95% interval")), rows))
    click.echo(click.style("  only M1: right by M1, wrong by M2; interval: jackknife over questions", dim=True))
    for one in found.agreement:
        for answer in one.disputed:
            where = f"sample {safe(str(answer.sample_id))}, hash {safe(answer.sample_hash[:12])}"
            click.echo(f"  {safe(answer.model_id)}, {where}: right by {safe(answer.right_by)} only")
    print_hidden(hidden)


def _print(found: Comparison, *, full: bool) -> None:
    if found.metrics:
        _print_agreement(found)
        return
    for letter, model in (("A", found.a), ("B", found.b)):
        click.echo(f"{letter}  {click.style(safe(model), bold=True)}")
    if not found.evaluations:
        click.echo("\nno evaluation has records of both models")
        return
    names = ["evaluation", "questions", "A", "B", "points", "wins", "losses", "ties", "p", "adjusted p"]
    click.echo()
    hidden = print_table(Table(columns(names, hidden=_OPTIONAL), [_row(one) for one in found.evaluations]))
    _print_remarks(found)
    printer = AnswerPrinter(full=full)
    for scope in found.evaluations:
        for number, example in enumerate(scope.examples):
            click.echo(f"\n{click.style(_title(scope), bold=True)}, example {number + 1}: {_about(example, scope)}")
            question = example.question
            sample = f"sample {safe(str(question.sample_id))}, hash {safe(question.sample_hash)}"
            click.echo(click.style(sample, dim=True))
            printer.print_question(question)
            for answer in question.answers:
                click.echo()
                printer.print_answer(answer, "A  " if answer.model_id == found.a else "B  ")
    print_hidden(hidden)
    if printer.has_cut:
        print_notice("long texts are cut or folded; --full shows all")


def _print_remarks(found: Comparison) -> None:
    from fastrec.summary.present_ranking import repeats_in_words

    tests = dict.fromkeys(TESTS[one.test] for one in found.evaluations if one.test)
    if tests:
        click.echo(click.style(f"  p: {', '.join(tests)}; wins: A is better", dim=True))
    if found.repeats_as != "mean":
        click.echo(
            click.style("".join(f"  {line}\n" for line in repeats_in_words(found.repeats_as)), dim=True), nl=False
        )
    if any(one.graded for one in found.evaluations):
        click.echo(click.style("  * graded: mean scores; higher is better, where no ↓ says that lower is", dim=True))
    totals = [one for one in found.evaluations if one.group is None]
    for one in [one for one in totals if one.questions][:_MOST_POWERS]:
        points = [None if value is None else 100 * value for value in (one.detectable, one.difference)]
        click.echo(f"  {_title(one)}: {power_text([(points[0], points[1], one.questions_needed)])}")
    alone = [sum(getattr(one, field) for one in totals) for field in ("only_a", "only_b")]
    if any(alone):
        click.echo(f"  not compared: {counted(alone[0], 'question')} that only A has answered, {alone[1]:,} only B")
    if names := sorted({one.evaluation_name for one in found.uncompared}):
        click.echo(
            f"  not compared: {counted(len(names), 'evaluation')} without records of both models: {safe(listed(names))}"
        )
    if found.others:
        click.echo(f"  not compared: {counted(found.others, 'metric')} that judge no answer; --metric '*' compares all")


def _row(scope: ComparedEvaluation) -> list[str]:
    points = "–" if scope.difference is None else f"{100 * scope.difference:+.2f}" if scope.difference else "0.00"
    values = [value_text(value, graded=scope.graded) for value in (scope.a, scope.b)]
    counts = [f"{number:,}" for number in (scope.wins, scope.losses, scope.ties)]
    p_values = [format_p(p) for p in (scope.p, scope.p_adjusted)]
    marks = "*" * scope.graded + " ↓" * scope.lower_is_better
    return [_title(scope) + marks, f"{scope.questions:,}", *values, points, *counts, *p_values]


def _title(scope: ComparedEvaluation) -> str:
    name = scope.evaluation_name + (f" {scope.metric}" if scope.metric else "")
    return safe(title_of(name, None, 1, scope.group))


def _about(example: Example, scope: ComparedEvaluation) -> str:
    values = (example.a, example.b, example.others_value)
    a, b, others = (value_text(value, graded=scope.graded) for value in values)
    return f"A {a}, B {b}" + (f", {counted(example.others, 'other model')} {others}" if example.others else "")
