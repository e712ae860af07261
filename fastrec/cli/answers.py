"""Commands that print answers: `cat` as records, `show` to a question, `compare` where two models differ."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    clip,
    explain_damage,
    format_p,
    print_exactly,
    print_found,
    print_notice,
    safe,
    safe_lines,
    terminal_width,
    wrap,
)
from fastrec.cli.options import Count, command, complete_names, flag, format_option, option, shared
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import Table, columns, print_hidden, print_table
from fastrec.errors import FastrecError, counted, listed
from fastrec.wording import (
    TESTS,
    latency_text,
    power_text,
    score_text,
    signs_of,
    title_of,
    tokens_text,
    value_text,
)

if TYPE_CHECKING:
    from fastrec.answers.shown import ShownAnswer, ShownQuestion, Verdict
    from fastrec.answers.transcript import Call, Turn
    from fastrec.commands.compare import ComparedEvaluation, Comparison, Example
    from fastrec.commands.show import Shown

_COLOURS: Final = {"right": "green", "wrong": "red", "error": "yellow"}
_FIRST_TURNS: Final = 2
_LAST_TURNS: Final = 3
_TRIAL: Final = 60  # columns of what tells an answer from others of its model
_CALL: Final = 160  # characters of a tool call in one line, if the terminal does not say
_MOST_POWERS: Final = 5  # lines about what could have been seen; JSON has all
_OPTIONAL: Final = ("ties", "p", "questions", "A", "B")  # hidden on a narrow terminal


@command("Print the records of a corpus, or some of them.", ok="done, also if no record matches",
         usage="the command line is wrong, or CORPUS is not a corpus", failure="a part could not be read")  # fmt: skip
@shared("corpus", "filters")
@option("--limit", "Print at most N records.", type=Count(min=1), metavar="N")
@flag("--source", 'Print where each record comes from, too: {"source": …, "line": …, "record": '
'{…}}. The corpus needs '
      "`normalize --track-sources`.")  # fmt: skip
@shared("jobs")
def cat(corpus: str, limit: int | None, source: bool, jobs: int, **options: Any) -> None:
    """Print the records of CORPUS in its order, byte for byte: all records, or only those that match every filter.

    The manifest tells which parts can contain a match. A filter on the first sort fields (the
    evaluation, then the hash) reads only a few parts; other filters read all of them. On a
    terminal, characters that could control it are printed as JSON escapes.

    \b
    Examples:
      fastrec cat corpus --evaluation GSM8K --limit 10 | jq .output.raw
      fastrec cat corpus --sample-id 5 | jq -c '[.model_id, .evaluation.score]'
      fastrec cat corpus --model org/a --model org/b --errors | jq -r .error
      fastrec cat corpus --source --errors | jq -r '[.source, .line] | @tsv'
    """
    from fastrec.commands.cat import cat_blocks
    from fastrec.corpus.manifest import read_manifest, read_summary
    from fastrec.filters import did_you_mean, make_filters, similar
    from fastrec.summary.present_choice import names_of

    found = False
    filters = make_filters(**options)
    with allow_broken_pipe(), explain_damage(corpus):
        for block in cat_blocks(corpus, filters, limit=limit, source=source, jobs=jobs):
            print_exactly(block)
            found = True
        if not found:
            hint = ""
            with contextlib.suppress(
                FastrecError
            ):  # the records were read, so a damaged summary is no error here
                names = names_of(read_summary(corpus, read_manifest(corpus)).evaluations)
                like = similar(filters.evaluation, names.evaluations) + similar(
                    filters.metric, names.metrics
                )
                hint = did_you_mean([*like, *similar(filters.model, names.models)])
                hint += f"; evaluations in this corpus: {listed(names.evaluations) or 'none'}"
                if filters.metric:
                    hint += (
                        f"; metrics: {listed([name for name in names.metrics if name]) or 'none'}"
                    )
                if filters.model or filters.exclude_model:
                    hint += f"; models: {listed(sorted(names.models)) or 'none'}"
            print_notice(f"no record matches{hint}")


class AnswerPrinter:
    """Prints questions and answers.

    Unless `full`, long texts are cut, and transcripts and reasoning are folded.
    """

    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._width = terminal_width()
        self.has_cut = False

    def print_question(self, question: ShownQuestion) -> None:
        self._section("question", question.question, most=(2_000, 30))
        if question.prompt and question.prompt != question.question:
            if self._full:
                self._section("prompt", question.prompt)
            else:
                self._note(f"prompt: {counted(len(question.prompt), 'character')}")
        for reference in question.references:
            self._section("reference", reference, most=(1_000, 12))
        self._choices(question.choices)

    def print_answer(self, answer: ShownAnswer, label: str = "") -> None:
        click.echo(f"{label}{_headline(answer)}")
        for verdict in answer.verdicts:
            for line in _facts(verdict, answer):
                self._text(line, "  ", most=(500, 5))
        if answer.prompt is not None:
            self._note(f"another prompt: {counted(len(answer.prompt), 'character')}")
        if answer.choices is not None:
            self._choices(answer.choices)
        self._turns(answer.turns, "  ")
        if not self._full:
            return
        facts = {"run": answer.evaluation_id, "sample": str(answer.sample_id)}
        for verdict in answer.verdicts:
            facts |= verdict.metadata | verdict.other
        for name, value in facts.items():
            self._lines(safe_lines(f"{name}: {value}"), "  ", dim=True)

    def _turns(self, turns: Sequence[Turn], indent: str) -> None:
        """Print a conversation; a result is printed with its call."""
        shown = [
            turn
            for turn in turns
            if not turn.is_result or turn.calls or turn.reasoning or turn.other
        ]
        is_long = not self._full and len(shown) > _FIRST_TURNS + _LAST_TURNS + 1
        start, end = (
            (_FIRST_TURNS, len(shown) - _LAST_TURNS) if is_long else (len(shown), len(shown))
        )
        for turn in shown[:start]:
            self._turn(turn, indent, alone=len(turns) == 1)
        if folded := shown[start:end]:
            calls = [call for turn in folded for call in turn.calls]
            failed = sum(call.failed for call in calls) + sum(turn.failed for turn in folded)
            about = [
                counted(len(folded), "turn"),
                *([counted(len(calls), "tool call")] if calls else []),
            ]
            self._note(f"{indent}… {', '.join(about)}{f', {failed:,} failed' if failed else ''} …")
        for turn in shown[end:]:
            self._turn(turn, indent, alone=len(turns) == 1)

    def _turn(self, turn: Turn, indent: str, *, alone: bool) -> None:
        if not alone:
            colour = {"user": "cyan", "assistant": "magenta"}.get(turn.role, "blue")
            failed = click.style(" failed", fg="red") if turn.failed else ""
            click.echo(
                f"{indent}{click.style(f'{turn.number} {safe(turn.role)}', fg=colour)}{failed}"
            )
            indent += "  "
        if turn.reasoning and not self._full:
            self._note(f"{indent}reasoning: {counted(len(turn.reasoning), 'character')}")
        elif turn.reasoning:
            click.echo(click.style(f"{indent}reasoning", dim=True))
            self._lines(safe_lines(turn.reasoning), f"{indent}  ", dim=True)
        if turn.role == "system" and not self._full:  # it is long, and the same for all models
            self._note(f"{indent}{counted(len(turn.text), 'character')}")
        elif turn.text:
            self._text(turn.text, indent, most=(1_500, 20) if alone else (400, 6))
        elif not (turn.reasoning or turn.calls):
            click.echo(click.style(f"{indent}(empty)", dim=True))
        for call in turn.calls:
            self._call(call, indent)
        if self._full:
            for name, value in turn.other.items():
                self._lines(safe_lines(f"{name}: {value}"), indent, dim=True)

    def _call(self, call: Call, indent: str) -> None:
        """Print a call with its result: each on one line, or in full."""
        failed = click.style(" failed", fg="red") if call.failed else ""
        if not self._full:
            spelled = ", ".join(f"{name}={value}" for name, value in call.arguments.items())
            self._line(f"{call.name}({spelled})", f"{indent}→ ")
            if call.result is not None:
                self._line(call.result, f"{indent}← ", failed)
            return
        click.echo(
            f"{indent}→ "
            f"{click.style(safe(call.name), bold=True)}{click.style(f'  {safe(call.id)}', dim=True)}"
        )
        for name, value in (call.arguments | call.other).items():
            self._lines(safe_lines(f"{name}: {value}"), f"{indent}    ")
        if call.result is not None:
            click.echo(f"{indent}← {click.style('result', dim=True)}{failed}")
            self._lines(safe_lines(call.result), f"{indent}    ")

    def _line(self, text: str, head: str, remark: str = "") -> None:
        most = (self._width or _CALL) - len(head) - len(click.unstyle(remark))
        spelled = clip(safe(" ".join(text[: 4 * most].split())), most)
        self.has_cut |= spelled.endswith("…") or len(text) > 4 * most
        click.echo(f"{head}{spelled}{remark}")

    def _choices(self, choices: Sequence[str]) -> None:
        for number, choice in enumerate(choices):
            letter = chr(ord("A") + number) if number < 26 else str(number + 1)
            self._section(
                "choices" if not number else "", choice, most=(400, 4), item=f"{letter}. "
            )

    def _section(
        self, name: str, text: str, most: tuple[int, int] | None = None, item: str = ""
    ) -> None:
        if name:
            click.echo(click.style(name, bold=True))
        self._text(text, "  ", most=most, item=item)

    def _note(self, text: str) -> None:
        self.has_cut = True
        click.echo(click.style(text, dim=True))

    def _text(
        self, text: str, indent: str, most: tuple[int, int] | None = None, item: str = ""
    ) -> None:
        """Print a text.

        At most this many characters and lines of it, unless it is printed in full.
        """
        chars, lines = (len(text), None) if self._full or most is None else most
        shown = [
            piece
            for line in safe_lines(item + text[:chars])
            for piece in wrap(line, self._width and max(self._width - len(indent), 10))
        ]
        is_cut = len(text) > chars or (lines is not None and len(shown) > lines)
        shown = shown[:lines]
        while is_cut and shown and not shown[-1].strip():
            shown.pop()
        if shown:
            self._lines(shown, indent)
        if is_cut:
            self._note(f"{indent}… {counted(len(text), 'character')} in all")

    def _lines(self, lines: Iterable[str], indent: str, *, dim: bool = False) -> None:
        """Print lines, all at once: a text can have a million of them."""
        width = self._width and max(self._width - len(indent), 10)
        text = "\n".join(
            f"{indent}{piece}".rstrip() for line in lines for piece in wrap(line, width)
        )
        click.echo(click.style(text, dim=True) if dim else text)


def _headline(answer: ShownAnswer) -> str:
    verdicts = [
        click.style(one.outcome, fg=_COLOURS.get(one.outcome), bold=True)
        + (f" {safe(one.metric)}" if one.metric and len(answer.verdicts) > 1 else "")
        + f" score {score_text(one.score)}"
        for one in answer.verdicts
    ]
    tokens = [
        f"{tokens_text(number)} {kind} {'token' if number == 1 else 'tokens'}"
        for kind, number in (("input", answer.input_tokens), ("output", answer.output_tokens))
        if number is not None
    ]
    latency = [latency_text(answer.latency_ms)] if answer.latency_ms is not None else []
    name = click.style(safe(answer.model_id), bold=True)
    return ", ".join([f"{name}  {_repeat(answer)}{verdicts[0]}", *verdicts[1:], *tokens, *latency])


def _repeat(answer: ShownAnswer) -> str:
    """Say which of several answers of its model it is."""
    if answer.total == 1:
        return ""
    trial = [clip(f"{name} {safe(value)}", _TRIAL) for name, value in answer.trial.items()]
    return f"{', '.join([f'answer {answer.number:,} of {answer.total:,}', *trial])}  "


def _facts(verdict: Verdict, answer: ShownAnswer) -> Iterator[str]:
    head = f"{verdict.metric}: " if verdict.metric and len(answer.verdicts) > 1 else ""
    if verdict.error:
        yield f"{head}error: {verdict.error}"
    said = {turn.text.strip() for turn in answer.turns}
    for extracted in verdict.extracted:
        if extracted.strip() not in said:
            yield f"{head}extracted: {extracted}"
    if verdict.source:
        yield f"{head}source: {verdict.source.shard}:{verdict.source.line}"


@command("Show a question with the answers of all models.",
         usage="the command line is wrong, or QUESTION is not one question; the message lists the "
"candidates",
         failure="a part could not be read")  # fmt: skip
@shared("corpus")
@click.argument("question")
@shared("filters")
@flag("--full", "Show everything: whole texts, all turns, reasoning, prompts, metadata.")
@format_option("text", "json", text="Output format; JSON has everything.")
@shared("run")
def show(
    corpus: str, question: str, full: bool, output_format: str, no_progress: bool, **options: Any
) -> None:
    """Show a question of CORPUS and the answers to it: verdict, score, tokens, latency, error and conversation.

    QUESTION is a sample_id, or the first characters of a sample_hash: at least 4. `fastrec
    questions` lists both. A sample_id that several evaluations have shows all of these questions.
    The filters choose the answers.

    Long texts are cut, and long conversations folded to their first and last turns; --full shows
    all. Records of several metrics that have the same conversation are one answer with several
    verdicts.

    \b
    Examples:
      fastrec show corpus 5 --evaluation GSM8K
      fastrec show corpus 5 --evaluation GSM8K --wrong --full | less
      fastrec show corpus 5 --model org/model --model other/model
      fastrec show corpus 5 --format json | jq '.questions[].answers[].model_id'
    """
    from fastrec.commands.show import show as run

    with make_progress("read", "search", quiet=no_progress) as progress, explain_damage(corpus):
        found = run(corpus, question, **options, progress=progress)
    print_found(found, output_format, text=lambda: _print_shown(found, full=full))


def _print_shown(found: Shown, *, full: bool) -> None:
    from fastrec.answers.shown import tally_facts

    printer = AnswerPrinter(full=full)
    for number, question in enumerate(found.questions):
        name = click.style(safe(question.evaluation_name), bold=True)
        head = (
            f"{name}, sample {clip(safe(str(question.sample_id)), 100)}, hash "
            f"{safe(question.sample_hash)}"
        )
        click.echo(f"{chr(10) if number else ''}{head}")
        for tally in question.tallies:
            metric = f"{safe(tally.metric)}: " if tally.metric else ""
            click.echo(metric + ", ".join(tally_facts(tally, graded=tally.graded)))
            for (model, total), some in groupby(
                question.answers, key=lambda one: (one.model_id, one.total)
            ):
                outcomes = [
                    one.outcome
                    for answer in some
                    for one in answer.verdicts
                    if one.metric == tally.metric
                ]
                if len(outcomes) == total > 1:  # filters leave out none
                    right = f"{outcomes.count('right')} of {len(outcomes)} right"
                    click.echo(f"{safe(model)}: {signs_of(outcomes)} ({right})")
        printer.print_question(question)
        for answer in question.answers:
            click.echo()
            printer.print_answer(answer)
        if not question.answers:
            click.echo("\nno answer matches the filters")
    if printer.has_cut:
        print_notice("long texts are cut or folded; --full shows all")


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

    A and B are model_ids, or patterns that match only one model. Each evaluation and metric is
    compared by itself: questions on which A is better (wins), worse (losses) or equal (ties), and
    the accuracy of both. A model with several answers to a question counts with their mean, or as
    --repeats-as says; a record with an error is no answer. Graded metrics, which have scores other
    than 0 and 1, are compared by score; higher is better, unless the records or --lower-is-better
    say otherwise.

    p is the p-value of the exact McNemar test if all questions that differ do so by the same size,
    as single answers do, else of the paired t-test over questions. The adjusted p allows for the
    number of rows (Benjamini and Hochberg). A line per row says which difference these questions
    would show in 80 % of all cases (power), if the two models differ on as many questions as
    observed, and how many questions it would take for the observed one.

    The examples are the most distinguishing questions: one of the two is right and the other wrong,
    and the other models mostly agree with each other. Questions that A wins and questions that B
    wins take turns. For graded metrics, they are the questions with the largest differences. The
    filters choose the questions, and which other models count.

    --group-by adds a row for each group of records below that of its evaluation, the largest first.

    With --metrics, two metrics (evaluation_result_id) are compared on the answers that both have
    judged: how often they agree, Cohen's kappa with a 95 % interval (a jackknife over questions),
    and the first answers on which they differ. In the viewer, "another metric differs" lists these
    questions.

    \b
    Examples:
      fastrec compare corpus org/model other/model
      fastrec compare corpus 'org/m*' 'other/*' --evaluation GSM8K --examples 5
      fastrec compare corpus org/model other/model --group-by metadata.subject
      fastrec compare corpus org/model other/model --format json | jq .evaluations
    """
    from fastrec.commands.compare import compare as run

    with make_progress("read", quiet=no_progress) as progress, explain_damage(corpus):
        found = run(
            corpus,
            **options | {"metrics": options["metrics"] or ()},
            progress=progress,
            notice=print_notice,
        )
    print_found(found, output_format, text=lambda: _print_comparison(found, full=full))


def _print_agreement(found: Comparison) -> None:
    names = [
        "evaluation",
        "answers",
        "agree",
        "kappa",
        "95% interval",
        "both right",
        "only M1",
        "only M2",
        "neither",
    ]
    rows = []
    for one in found.agreement:
        counts = [one.both_right, one.only_first, one.only_second, one.both_wrong]
        kappa = "–" if one.kappa is None else f"{one.kappa:.3f}"
        interval = "–" if one.kappa_low is None else f"{one.kappa_low:.3f} to {one.kappa_high:.3f}"
        agree = value_text(one.agreement, graded=False)
        rows.append(
            [
                one.evaluation_name,
                f"{one.answers:,}",
                agree,
                kappa,
                interval,
                *map("{:,}".format, counts),
            ]
        )
    for number, metric in enumerate(found.metrics, start=1):
        click.echo(f"M{number}  {click.style(safe(metric), bold=True)}")
    click.echo()
    hidden = print_table(
        Table(columns(names, hidden=("neither", "both right", "95% interval")), rows)
    )
    click.echo(
        click.style(
            "  only M1: right by M1, wrong by M2; interval: jackknife over questions", dim=True
        )
    )
    for one in found.agreement:
        for number, metric in ((one.judged_by_first, "M1"), (one.judged_by_second, "M2")):
            if number:
                are = "is" if number == 1 else "are"
                name = safe(one.evaluation_name)
                click.echo(
                    f"  {name}: {counted(number, 'answer')} {are} judged by {metric} only, and "
                    "left out"
                )
        for answer in one.disputed:
            where = f"sample {safe(str(answer.sample_id))}, hash {safe(answer.sample_hash[:12])}"
            click.echo(f"  {safe(answer.model_id)}, {where}: right by {safe(answer.right_by)} only")
    print_hidden(hidden)


def _print_comparison(found: Comparison, *, full: bool) -> None:
    if found.metrics:
        _print_agreement(found)
        return
    for letter, model in (("A", found.a), ("B", found.b)):
        click.echo(f"{letter}  {click.style(safe(model), bold=True)}")
    if not found.evaluations:
        click.echo("\nno evaluation has records of both models")
        return
    names = [
        "evaluation",
        "questions",
        "A",
        "B",
        "points",
        "wins",
        "losses",
        "ties",
        "p",
        "adjusted p",
    ]
    click.echo()
    hidden = print_table(
        Table(columns(names, hidden=_OPTIONAL), [_row(one) for one in found.evaluations])
    )
    _print_remarks(found)
    printer = AnswerPrinter(full=full)
    for scope in found.evaluations:
        for number, example in enumerate(scope.examples):
            click.echo(
                f"\n{click.style(_title(scope), bold=True)}, example {number + 1}: "
                f"{_about(example, scope)}"
            )
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
        for line in repeats_in_words(found.repeats_as):
            click.echo(click.style(f"  {line}", dim=True))
    if any(one.graded for one in found.evaluations):
        click.echo(
            click.style(
                "  * graded: mean scores; higher is better, where no ↓ says that lower is", dim=True
            )
        )
    totals = [one for one in found.evaluations if one.group is None]
    for one in [one for one in totals if one.questions][:_MOST_POWERS]:
        points = [
            None if value is None else 100 * value for value in (one.detectable, one.difference)
        ]
        click.echo(f"  {_title(one)}: {power_text([(points[0], points[1], one.questions_needed)])}")
    alone = [sum(getattr(one, field) for one in totals) for field in ("only_a", "only_b")]
    if any(alone):
        click.echo(
            f"  not compared: {counted(alone[0], 'question')} that only A has answered, "
            f"{alone[1]:,} only B"
        )
    if names := sorted({one.evaluation_name for one in found.uncompared}):
        click.echo(
            f"  not compared: {counted(len(names), 'evaluation')} without records of both models: "
            f"{safe(listed(names))}"
        )
    if found.others:
        click.echo(
            f"  not compared: {counted(found.others, 'metric')} that judge no answer; --metric "
            "'*' compares all"
        )


def _row(scope: ComparedEvaluation) -> list[str]:
    points = (
        "–"
        if scope.difference is None
        else f"{100 * scope.difference:+.2f}"
        if scope.difference
        else "0.00"
    )
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
    return f"A {a}, B {b}" + (
        f", {counted(example.others, 'other model')} {others}" if example.others else ""
    )
