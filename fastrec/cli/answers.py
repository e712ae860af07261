"""Commands that print answers: `cat` as records, `show` of a question, `compare` of two models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from fastrec.cli.console import (
    allow_broken_pipe,
    clip,
    explain_damage,
    print_error,
    print_exactly,
    print_lines,
    print_notice,
    safe,
    safe_lines,
    say,
    spell,
    styled,
    terminal_width,
    wrap,
)
from fastrec.cli.options import command
from fastrec.cli.output import print_answer, run_reading
from fastrec.cli.tables import more_rows, table_lines, table_of
from fastrec.errors import FastrecError, counted, listed
from fastrec.wording import (
    NONE,
    POINTS,
    TESTS,
    cluster_in_words,
    latency_text,
    points_per_unit,
    power_text,
    signs_of,
    title_of,
    tokens_text,
    value_text,
)

if TYPE_CHECKING:
    from fastrec.answers.shown import ShownAnswer, ShownQuestion, Tally, Verdict
    from fastrec.answers.transcript import Call, Turn
    from fastrec.commands.compare import Agreement, ComparedEvaluation, Comparison, Example
    from fastrec.commands.show import Shown
    from fastrec.filters import Filters

_COLOURS = {"right": "green", "wrong": "red", "error": "yellow"}
_ROLES = {"user": "cyan", "assistant": "magenta"}  # colours; blue for others
_FIRST_TURNS = 2
_LAST_TURNS = 3
_TRIAL = 60  # columns of what tells an answer from others of its model
_CALL = 160  # characters of a tool call in one line, if the terminal does not say
_MOST_POWERS = 5  # lines about what could have been seen; JSON has all


@command()
def cat(corpus: str, limit: int | None, source: bool, jobs: int, **options: Any) -> None:
    """Print the records of CORPUS that match every filter, in its order, byte for byte.

    Only parts that have a matching record are read. On a terminal, characters that could control
    it are printed as JSON escapes.

    \b
    Exit codes:
      0     done, also if no record matches
      2     the command line is wrong, or CORPUS is not a corpus
      3     a part could not be read

    \b
    Examples:
      fastrec cat corpus --evaluation GSM8K --limit 10 | jq .output.raw
      fastrec cat corpus --sample-id 5 | jq -c '[.model_id, .evaluation.score]'
      fastrec cat corpus --model org/a --model org/b --errors | jq -r .error
      fastrec cat corpus --source --errors | jq -r '[.source, .line] | @tsv'
    """
    from fastrec.commands.cat import cat_blocks
    from fastrec.filters import make_filters

    filters = make_filters(**options)
    is_empty = True
    with allow_broken_pipe(), explain_damage(corpus):
        for block in cat_blocks(corpus, filters, limit=limit, source=source, jobs=jobs):
            print_exactly(block)
            is_empty = False
        if is_empty:
            print_notice(_nothing_matches(corpus, filters))


def _nothing_matches(corpus: str, filters: Filters) -> str:
    from fastrec.corpus.manifest import read_manifest, read_summary
    from fastrec.summary.present_choice import no_match

    if not filters:
        return "there are no records"
    try:
        summary = read_summary(corpus, read_manifest(corpus))
    except FastrecError:  # the records were read, so a damaged summary is no error here
        return f"no record matches {filters}"
    return str(no_match(filters, summary.evaluations))


class AnswerPrinter:
    """Prints questions and answers.

    Unless `full`, long texts are cut, and transcripts and reasoning are folded.
    """

    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._width = terminal_width()
        self._has_cut = False
        self._graded = set[str | None]()  # metrics whose answers are not right or wrong

    def print(self, question: ShownQuestion, labels: Mapping[str, str] = {}) -> None:
        """Print a question and its answers, with the labels of their models."""
        self._question(question)
        for answer in question.answers:
            click.echo()
            self._answer(answer, labels.get(answer.model_id, ""))

    def _question(self, question: ShownQuestion) -> None:
        self._graded = {tally.metric for tally in question.tallies if tally.graded}
        self._section("question", question.question, (2_000, 30))
        if question.prompt and question.prompt != question.question:
            if self._full:  # so no limit applies
                self._section("prompt", question.prompt, (0, 0))
            else:
                self._fold("", "prompt: {prompt:character}", question)
        for reference in question.references:
            self._section("reference", reference, (1_000, 12))
        self._choices(question.choices)

    def _answer(self, answer: ShownAnswer, label: str) -> None:
        click.echo(label + _headline(answer, self._graded))
        for verdict in answer.verdicts:
            for line in _facts(verdict, answer):
                self._text(line, "  ", (500, 5))
        if answer.prompt is not None:
            self._fold("", "another prompt: {prompt:character}", answer)
        self._choices(answer.choices or ())
        self._turns(answer.turns)
        if self._full:
            self._values({"run": answer.evaluation_id, "sample": str(answer.sample_id)}, "  ")
            for verdict in answer.verdicts:
                self._values(verdict.metadata | verdict.other, "  ")

    def print_notice(self) -> None:
        """Say how to see what was cut."""
        if self._has_cut:
            print_notice("long texts are cut or folded; --full shows all")

    def _turns(self, turns: Sequence[Turn]) -> None:
        """Print a conversation; a result is printed with its call."""
        shown = [
            turn
            for turn in turns
            if not turn.is_result or turn.calls or turn.reasoning or turn.other
        ]
        first = last = len(shown)
        if not self._full and len(shown) > _FIRST_TURNS + _LAST_TURNS + 1:
            first = _FIRST_TURNS
            last -= _LAST_TURNS
        for turn in shown[:first]:
            self._turn(turn, alone=len(turns) == 1)
        if folded := shown[first:last]:
            calls = [call for turn in folded for call in turn.calls]
            self._fold(
                "  ",
                "… {turns:turn}[?, {calls:tool call}][?, {failed:,} failed] …",
                turns=folded,
                calls=calls,
                failed=sum(call.failed for call in calls) + sum(turn.failed for turn in folded),
            )
        for turn in shown[last:]:
            self._turn(turn, alone=False)

    def _turn(self, turn: Turn, *, alone: bool) -> None:
        indent = "  "
        if not alone:
            head = styled(f"{turn.number} {turn.role}", fg=_ROLES.get(turn.role, "blue"))
            say("  {head}{good:/ failed}", head=head, good=not turn.failed)
            indent = "    "
        if turn.reasoning and not self._full:
            self._fold(indent, "reasoning: {reasoning:character}", turn)
        elif turn.reasoning:
            say("{:dim}", f"{indent}reasoning")
            self._text(turn.reasoning, f"{indent}  ", dim=True)
        if turn.role == "system" and not self._full:  # it is long, and the same for all models
            self._fold(indent, "{text:character}", turn)
        elif turn.text:
            self._text(turn.text, indent, (1_500, 20) if alone else (400, 6))
        elif not (turn.reasoning or turn.calls):
            say("{:dim}", f"{indent}(empty)")
        for call in turn.calls:
            self._call(call, indent)
        if self._full:
            self._values(turn.other, indent)

    def _call(self, call: Call, indent: str) -> None:
        """Print a call with its result: each on one line, or in full."""
        if not self._full:
            arguments = ", ".join(f"{name}={value}" for name, value in call.arguments.items())
            self._line(f"{call.name}({arguments})", f"{indent}→ ")
            if call.result is not None:
                self._line(call.result, f"{indent}← ", failed=call.failed)
            return
        say("{indent}→ {name:bold}{id:dim}", indent=indent, name=call.name, id=f"  {call.id}")
        self._values(call.arguments | call.other, f"{indent}    ", dim=False)
        if call.result is not None:
            line = "{indent}← {word:dim}{good:/ failed}"
            say(line, indent=indent, word="result", good=not call.failed)
            self._text(call.result, f"{indent}    ")

    def _line(self, text: str, head: str, *, failed: bool = False) -> None:
        """Print as much of a text as fits on one line."""
        most = (self._width or _CALL) - len(head) - len(" failed" if failed else "")
        line = clip(safe(" ".join(text[: 4 * most].split())), most)
        self._has_cut |= line.endswith("…") or len(text) > 4 * most
        say("{head}{line}{good:/ failed}", head=head, line=line, good=not failed)

    def _choices(self, choices: Sequence[str]) -> None:
        if choices:
            say("{:bold}", "choices")
        for number, choice in enumerate(choices):
            letter = chr(ord("A") + number) if number < 26 else str(number + 1)
            self._text(choice, "  ", (400, 4), f"{letter}. ")

    def _section(self, name: str, text: str, most: tuple[int, int]) -> None:
        say("{:bold}", name)
        self._text(text, "  ", most)

    def _fold(self, indent: str, template: str, item: object = None, **values: object) -> None:
        self._has_cut = True
        say("{:dim}", indent + spell(template, item, **values))

    def _text(
        self,
        text: str,
        indent: str,
        most: tuple[int, int] = (0, 0),
        label: str = "",
        *,
        dim: bool = False,
    ) -> None:
        """Print a text after a label.

        At most this many characters and lines of it, unless it is printed in full.
        """
        chars, lines = (len(text), None) if self._full else most
        width = self._width and max(self._width - len(indent), 10)
        pieces = (piece for line in safe_lines(label + text[:chars]) for piece in wrap(line, width))
        shown = [f"{indent}{piece}".rstrip() for piece in pieces]
        is_cut = len(text) > chars or (lines is not None and len(shown) > lines)
        shown = shown[:lines]
        while is_cut and shown and not shown[-1]:
            shown.pop()
        if shown:
            block = "\n".join(shown)  # at once: there can be a million lines
            click.echo(click.style(block, dim=True) if dim else block)
        if is_cut:
            self._fold(indent, "… {:character} in all", text)

    def _values(self, values: dict[str, str], indent: str, *, dim: bool = True) -> None:
        for name, value in values.items():
            self._text(f"{name}: {value}", indent, dim=dim)


def _headline(answer: ShownAnswer, graded: Collection[str | None]) -> str:
    facts = []
    for verdict in answer.verdicts:
        sign = ""
        if verdict.metric not in graded or verdict.outcome == "error":
            sign = styled(verdict.outcome, fg=_COLOURS.get(verdict.outcome), bold=True)
        name = verdict.metric if len(answer.verdicts) > 1 else ""
        line = "[?{sign} ][?{name} ]score {score:score}"
        facts.append(spell(line, verdict, sign=sign, name=name))
    for kind, number in (("input", answer.input_tokens), ("output", answer.output_tokens)):
        if number is not None:
            facts.append(f"{tokens_text(number)} {kind} {'token' if number == 1 else 'tokens'}")
    if answer.latency_ms is not None:
        facts.append(latency_text(answer.latency_ms))
    return spell("{model_id:bold}  {repeat}", answer, repeat=_repeat(answer)) + ", ".join(facts)


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


@command()
def show(corpus: str, question: str, full: bool, **options: Any) -> None:
    """Show a question of CORPUS and the answers to it, with verdicts and conversations.

    QUESTION is a sample_id, or the first characters of a sample_hash: at least 4. `fastrec
    questions` lists both. A sample_id that several evaluations have shows all of these questions.
    The filters choose the answers.

    Long texts are cut, and long conversations folded to their first and last turns; --full shows
    all. Records of several metrics that have the same conversation are one answer with several
    verdicts. --format html makes one file with everything, to be mailed: it needs no server.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or QUESTION is not one question; the
            message lists the candidates
      3     a part could not be read

    \b
    Examples:
      fastrec show corpus 5 --evaluation GSM8K
      fastrec show corpus 5 --evaluation GSM8K --wrong --full | less
      fastrec show corpus 5 --model org/model --model other/model
      fastrec show corpus 5 --format json | jq '.questions[].answers[].model_id'
      fastrec show corpus 5 --format html > question-5.html
    """
    from fastrec.commands.show import show as run

    stages = ("read", "search")
    shown = run_reading(run, corpus, question, stages=stages, limited=False, **options)
    print_answer(
        shown,
        text=partial(_print_shown, full=full),
        html=lambda shown: print_exactly(shown.to_page(corpus)),
    )


def _print_shown(shown: Shown, *, full: bool) -> None:
    printer = AnswerPrinter(full=full)
    for number, question in enumerate(shown.questions):
        if number:
            click.echo()
        sample = clip(safe(str(question.sample_id)), 100)
        say("{evaluation_name:bold}, sample {sample}, hash {sample_hash}", question, sample=sample)
        for tally in question.tallies:
            _print_tally(tally, question)
        printer.print(question)
        if not question.answers:
            click.echo("\nno answer matches the filters")
    printer.print_notice()


def _print_tally(tally: Tally, question: ShownQuestion) -> None:
    from fastrec.answers.shown import tally_facts

    facts = ", ".join(tally_facts(tally, graded=tally.graded))
    say("[?{metric}: ]{facts}", tally, facts=facts)
    for model, group in groupby(question.answers, key=attrgetter("model_id")):
        answers = list(group)
        total = answers[0].total
        verdicts = [verdict for answer in answers for verdict in answer.verdicts]
        outcomes = [verdict.outcome for verdict in verdicts if verdict.metric == tally.metric]
        if len(outcomes) == total > 1:  # filters leave out none
            right = f"{outcomes.count('right')} of {total} right"
            say("{}: {signs} ({right})", model, signs=signs_of(outcomes), right=right)


@command()
def compare(corpus: str, full: bool, **options: Any) -> None:
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
    observed, and how many questions it would take for the observed one. --detect 2 says how likely
    these questions show a difference of 2 points, and how many would in 80 % of all cases.

    The examples are the most distinguishing questions: one of the two is right and the other wrong,
    and the other models mostly agree with each other. Questions that A wins and questions that B
    wins take turns. For graded metrics, they are the questions with the largest differences. The
    filters choose the questions, and which other models count.

    --group-by adds a row for each group of records below that of its evaluation, the largest first.

    With --metric-pair, two metrics (evaluation_result_id) are compared on the answers that both
    have judged: how often they agree, Cohen's kappa with a 95 % interval (a jackknife over
    questions), and the first answers on which they differ. In the viewer, "another metric differs"
    lists these questions.

    \b
    Exit codes:
      0     done, whatever the difference
      1     no evaluation has records of both models
      2     the command line is wrong, or A or B is not one model
      3     a part could not be read

    \b
    Examples:
      fastrec compare corpus org/model other/model
      fastrec compare corpus 'org/m*' 'other/*' --evaluation GSM8K --examples 5
      fastrec compare corpus org/model other/model --detect 2
      fastrec compare corpus org/model other/model --group-by metadata.subject
      fastrec compare corpus org/model other/model --format json | jq .evaluations
    """
    from fastrec.commands.compare import compare as run

    options["metric_pair"] = options["metric_pair"] or ()
    result = run_reading(run, corpus, **options, notice=print_notice, limited=False)
    print_answer(result, text=partial(_print_comparison, full=full))
    if not result.evaluations and not result.metrics:
        print_error(f"no evaluation has records of both {result.a} and {result.b}")
        raise Exit(1)


def _interval(agreement: Agreement) -> str:
    if agreement.kappa_low is None:
        return NONE
    return spell("{kappa_low:.3f} to {kappa_high:.3f}", agreement)


def _print_agreement(result: Comparison) -> None:
    for number, metric in enumerate(result.metrics, start=1):
        say("M{number}  {metric:bold}", number=number, metric=metric)
    table = table_of("agreement", result.agreement, {"95% interval": _interval})
    print_lines(["", *table_lines(table)])
    explanations = ["only M1: right by M1, wrong by M2; interval: jackknife over questions"]
    for line in explanations + cluster_in_words(result.cluster):
        say("  {:dim}", line)
    for agreement in result.agreement:
        judged = {"M1": agreement.judged_by_first, "M2": agreement.judged_by_second}
        for metric, number in judged.items():
            if number:
                verb = "is" if number == 1 else "are"
                line = (
                    "  {evaluation_name}: {number:answer} {verb} judged by {by} only, and left out"
                )
                say(line, agreement, number=number, verb=verb, by=metric)
        for answer in agreement.disputed:
            line = (
                "  {model_id}, sample {sample_id}, hash {sample_hash:.12}: right by {right_by} only"
            )
            say(line, answer)


def _print_comparison(result: Comparison, *, full: bool) -> None:
    if result.metrics:
        _print_agreement(result)
        return
    say("A  {a:bold}\nB  {b:bold}\n", result)
    if result.evaluations:
        print_lines(table_lines(table_of("compared", result.evaluations, _COMPARED)))
    _print_remarks(result)
    printer = AnswerPrinter(full=full)
    for scope in result.evaluations:
        for number, example in enumerate(scope.examples, start=1):
            click.echo()
            head = "{title:bold}, example {number}: {about}"
            say(head, title=_title(scope), number=number, about=_about(example, scope))
            question = example.question
            say("{:dim}", spell("sample {sample_id}, hash {sample_hash}", question))
            printer.print(question, {result.b: "B  ", result.a: "A  "})
    printer.print_notice()


def _title(scope: ComparedEvaluation) -> str:
    name = scope.evaluation_name + (f" {scope.metric}" if scope.metric else "")
    return title_of(name, None, 1, scope.group)


def _marked_title(scope: ComparedEvaluation) -> str:
    return _title(scope) + "*" * scope.graded + " ↓" * scope.lower_is_better


def _points(scope: ComparedEvaluation, difference: float | None) -> float | None:
    if difference is None:
        return None
    return difference * points_per_unit(other_scale=scope.other_scale)


_GRADED = "* graded: mean scores; higher is better, where no ↓ says that lower is"
_COMPARED = {
    "evaluation": _marked_title,
    "A": lambda scope: value_text(scope.a, graded=scope.graded),
    "B": lambda scope: value_text(scope.b, graded=scope.graded),
    "points": lambda scope: spell("{:points}", _points(scope, scope.difference)),
}


def _print_remarks(result: Comparison) -> None:
    from fastrec.summary.present_ranking import repeats_in_words

    tests = dict.fromkeys(TESTS[scope.test] for scope in result.evaluations if scope.test)
    explanations = [f"p: {', '.join(tests)}; wins: A is better"] if tests else []
    if result.repeats_as != "mean":
        explanations += repeats_in_words(result.repeats_as)
    if any(scope.graded for scope in result.evaluations):
        explanations += [_GRADED, POINTS]
    for line in explanations + cluster_in_words(result.cluster):
        say("{:dim}", f"  {line}")
    totals = [scope for scope in result.evaluations if scope.group is None]
    compared = [scope for scope in totals if scope.questions]
    for scope in compared[:_MOST_POWERS]:
        observed = _points(scope, scope.difference)
        power = power_text([(_points(scope, scope.detectable), observed, scope.questions_needed)])
        say("  {}: {power}", _title(scope), power=power)
        if scope.chance is not None:
            text = "    the chance to find a difference of {detect:g} points is {chance:.0%}"
            text += "[?; for 80% it takes {detect_needed:question}]"
            say(text, scope, detect=result.detect)
    for line in more_rows(len(compared) - _MOST_POWERS, "evaluation", "--format json"):
        click.echo(f"  {line}")
    only_a, only_b = (sum(map(attrgetter(name), totals)) for name in ("only_a", "only_b"))
    if only_a or only_b:
        text = "  not compared: {a:question} that only A has answered, {b:,} only B"
        say(text, a=only_a, b=only_b)
    if names := sorted({scope.evaluation_name for scope in result.uncompared}):
        text = "  not compared: {names:evaluation} without records of both models: {listed}"
        say(text, names=names, listed=listed(names))
    if result.others:
        text = "  not compared: {others:metric} that judge no answer; --metric '*' compares all"
        say(text, result)


def _about(example: Example, scope: ComparedEvaluation) -> str:
    values = (example.a, example.b, example.others_value)
    a, b, others = (value_text(value, graded=scope.graded) for value in values)
    more = f", {counted(example.others, 'other model')} {others}" if example.others else ""
    return f"A {a}, B {b}{more}"
