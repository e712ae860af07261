"""`fastrec show`: a question once, then each answer with its verdict and its conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import clip, explain_damage, print_found, print_notice, safe, safe_lines, terminal_width, wrap
from fastrec.cli.options import command, flag, format_option, shared
from fastrec.cli.progress import make_progress
from fastrec.errors import counted
from fastrec.wording import latency_text, score_text, signs_of, tally_facts, tokens_text

if TYPE_CHECKING:
    from fastrec.answers.shown import ShownAnswer, ShownQuestion, Verdict
    from fastrec.answers.transcript import Call, Turn
    from fastrec.commands.show import Shown


_COLOURS: Final = {"right": "green", "wrong": "red", "error": "yellow"}
_FIRST_TURNS: Final = 2
_LAST_TURNS: Final = 3
_TRIAL: Final = 60  # columns of what tells an answer from others of its model
_CALL: Final = 160  # characters of a tool call in one line, if the terminal does not say


class AnswerPrinter:
    """Prints questions and answers. Unless `full`, long texts are cut, and transcripts and reasoning are folded."""

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
                self._fold("prompt", question.prompt)
        for reference in question.references:
            self._section("reference", reference, most=(1_000, 12))
        self._choices(question.choices)

    def print_answer(self, answer: ShownAnswer, label: str = "") -> None:
        click.echo(f"{label}{_headline(answer)}")
        for verdict in answer.verdicts:
            for line in _facts(verdict, answer):
                self._text(line, "  ", most=(500, 5))
        if answer.prompt is not None:
            self._fold("another prompt", answer.prompt)
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
        shown = [turn for turn in turns if not turn.is_result or turn.calls or turn.reasoning or turn.other]
        is_long = not self._full and len(shown) > _FIRST_TURNS + _LAST_TURNS + 1
        start, end = (_FIRST_TURNS, len(shown) - _LAST_TURNS) if is_long else (len(shown), len(shown))
        for turn in shown[:start]:
            self._turn(turn, indent, alone=len(turns) == 1)
        if folded := shown[start:end]:
            calls = [call for turn in folded for call in turn.calls]
            failed = sum(call.failed for call in calls) + sum(turn.failed for turn in folded)
            about = [counted(len(folded), "turn"), *([counted(len(calls), "tool call")] if calls else [])]
            self._note(f"{indent}… {', '.join(about)}{f', {failed:,} failed' if failed else ''} …")
        for turn in shown[end:]:
            self._turn(turn, indent, alone=len(turns) == 1)

    def _turn(self, turn: Turn, indent: str, *, alone: bool) -> None:
        if not alone:
            colour = {"user": "cyan", "assistant": "magenta"}.get(turn.role, "blue")
            failed = click.style(" failed", fg="red") if turn.failed else ""
            click.echo(f"{indent}{click.style(f'{turn.number} {safe(turn.role)}', fg=colour)}{failed}")
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
        click.echo(f"{indent}→ {click.style(safe(call.name), bold=True)}{click.style(f'  {safe(call.id)}', dim=True)}")
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
            self._section("choices" if not number else "", choice, most=(400, 4), item=f"{letter}. ")

    def _section(self, name: str, text: str, most: tuple[int, int] | None = None, item: str = "") -> None:
        if name:
            click.echo(click.style(name, bold=True))
        self._text(text, "  ", most=most, item=item)

    def _fold(self, name: str, text: str) -> None:
        self._note(f"{name}: {counted(len(text), 'character')}")

    def _note(self, text: str) -> None:
        self.has_cut = True
        click.echo(click.style(text, dim=True))

    def _text(self, text: str, indent: str, most: tuple[int, int] | None = None, item: str = "") -> None:
        """Print a text; at most this many characters and lines of it, unless it is printed in full."""
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
        text = "\n".join(f"{indent}{piece}".rstrip() for line in lines for piece in wrap(line, width))
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
         usage="the command line is wrong, or QUESTION is not one question; the message lists the candidates",
         failure="a part could not be read")  # fmt: skip
@shared("corpus")
@click.argument("question")
@shared("filters")
@flag("--full", "Show everything: whole texts, all turns, reasoning, prompts, metadata.")
@format_option("text", "json", text="Output format; JSON has everything.")
@shared("run")
def show(corpus: str, question: str, full: bool, output_format: str, no_progress: bool, **options: Any) -> None:
    """Show a question of CORPUS and the answers to it: verdict, score, tokens, latency, error and conversation.

    QUESTION is a sample_id, or the first characters of a sample_hash: at least 4. `fastrec questions` lists both. A
    sample_id that several evaluations have shows all of these questions. The filters choose the answers.

    Long texts are cut, and long conversations folded to their first and last turns; --full shows all. Records of
    several metrics that have the same conversation are one answer with several verdicts.

    The first use of a corpus reads all of it, and keeps an index in the cache directory (FASTREC_CACHE, by default
    ~/.cache/fastrec).

    \b
    Examples:
      fastrec show corpus 5 --evaluation GSM8K
      fastrec show corpus 5 --evaluation GSM8K --wrong --full | less
      fastrec show corpus 5 --model org/model --model other/model
      fastrec show corpus 5 --format json | jq '.questions[].answers[].model_id'
    """
    from fastrec.commands.show import show as run

    with make_progress("index", quiet=no_progress) as progress, explain_damage(corpus):
        found = run(corpus, question, **options, progress=progress)
    print_found(found, output_format, text=lambda: _print(found, full=full))


def _print(found: Shown, *, full: bool) -> None:
    printer = AnswerPrinter(full=full)
    for number, question in enumerate(found.questions):
        name = click.style(safe(question.evaluation_name), bold=True)
        head = f"{name}, sample {clip(safe(str(question.sample_id)), 100)}, hash {safe(question.sample_hash)}"
        click.echo(f"{chr(10) if number else ''}{head}")
        for tally in question.tallies:
            metric = f"{safe(tally.metric)}: " if tally.metric else ""
            click.echo(metric + ", ".join(tally_facts(tally, graded=tally.graded)))
            for (model, total), some in groupby(question.answers, key=lambda one: (one.model_id, one.total)):
                outcomes = [one.outcome for answer in some for one in answer.verdicts if one.metric == tally.metric]
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
