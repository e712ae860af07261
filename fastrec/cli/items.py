"""Commands about the benchmark itself: `score` scores answers again, `items` judges questions."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import clip, print_notice, spell, terminal_width
from fastrec.cli.options import command
from fastrec.cli.output import csv_text, print_answer, run_reading
from fastrec.cli.tables import Section, Spelling, Table, described, more_rows, table_of
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.answers.items import EvaluationItems, Item
    from fastrec.commands.items import Items
    from fastrec.commands.score import Scored, ScoreExample


_MOST_CHARS = 30  # of a text in a table


@command()
def score(corpus: str, dry_run: bool, **options: Any) -> None:
    """Score the answers of CORPUS by rules, and publish a corpus with the new verdicts.

    A rule says which records it scores, how to extract the answer from what the model said, what to
    clean, and how to compare it with the references. Each rule adds a metric with its name: every
    record that it matches gets a record of this metric beside it, with the extracted text in
    answer_attribution. Nothing is generated, and no model is needed.

    An answer that several metrics have judged is scored once. Patterns are those of re2, which take
    linear time.

    \b
    Exit codes:
      0     done
      2     the command line or a rule is wrong, or no record matches
      3     something could not be read or written

    \b
    Examples:
      fastrec score corpus --rule number --dry-run
      fastrec score corpus --rule number -o scored
      fastrec score corpus --rules rules.toml -o scored --overwrite
      fastrec score corpus --rule choice --replace -o replaced
    """
    from fastrec.commands.score import score as run

    if dry_run == (options["output"] is not None):
        raise click.UsageError("give either --output or --dry-run")
    scored = run_reading(run, corpus, stages=("score", "sort", "merge"), dry_run=dry_run, **options)
    print_notice(*scored.notices)
    print_answer(scored, _score_sections(scored, dry_run=dry_run), table="score")


def _score_sections(scored: Scored, *, dry_run: bool) -> Iterator[Section]:
    scope_of = attrgetter("evaluation_name", "rule")
    for scope in dict.fromkeys(map(scope_of, scored.models)):
        models = [model for model in scored.models if scope_of(model) == scope]
        answers = sum(model.records for model in models)
        about = spell("{models:model}, {answers:answer}", models=models, answers=answers)
        notes = []
        for example in scored.examples if dry_run else ():
            if scope_of(example) == scope:
                notes += _example_lines(example)
        without = () if any(model.errors for model in models) else ("errors",)
        yield Section(" · ".join(scope), about, table_of("score", models, {}, without), notes)


def _example_lines(example: ScoreExample) -> list[str]:
    width = (terminal_width() or 100) - 4
    text = _one_line(example.text)
    value = "nothing" if example.extracted is None else example.extracted
    key = " | ".join(_one_line(reference)[-60:] for reference in example.references)
    return [
        f"{example.kind}: {example.model_id}, sample_id {example.sample_id}",
        f"  …{text[-(width - 6) :]}",
        clip(f"  extracted: {value}   reference: {key}", width),
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


@command()
def items(corpus: str, limit: int, **options: Any) -> None:
    """Tell which questions of CORPUS are good, and how well they tell models apart.

    For each evaluation and metric: reliability, and the questions whose key is probably wrong
    (strong models fail where weak ones succeed), with what strong models answered. Other questions
    that tell nothing are counted: all models are right, or all are wrong; or another question has
    nearly the same text. --format json has the numbers of every question.

    With fewer than 8 models, only difficulty and flags are known. docs/benchmark.md explains the
    numbers, and says how many wrong keys are found.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or a pattern matches nothing
      3     a part could not be read

    \b
    Examples:
      fastrec items corpus
      fastrec items corpus --evaluation GSM8K --format json
      fastrec items corpus --evaluation GSM8K --subset 100 -o subset.txt
    """
    from fastrec.commands.items import items as run

    found = run_reading(run, corpus, **options)
    sections = _item_sections(found, limit)
    print_answer(found, sections, table="items", csv=lambda: _print_csv(found))


_FLAGS = {
    "all_right": "that all models get right",
    "all_wrong": "that all models get wrong",
    "near_duplicate": "with a near duplicate",
}


def _print_csv(found: Items) -> None:
    questions = [question for scope in found.evaluations for question in scope.questions]
    flags = [{"flags": " ".join(question.flags)} for question in questions]
    rows = [row | more for row, more in zip(found.rows(), flags, strict=True)]
    click.echo(csv_text(rows, described("items", "csv")), nl=False)


def _item_sections(found: Items, limit: int) -> Iterator[Section]:
    for scope in found.evaluations:
        title = " · ".join(filter(None, (scope.evaluation_name, scope.metric)))
        suspects = [question for question in scope.questions if "suspected_key" in question.flags]
        table: Table | str = table_of("items", suspects[:limit], _SUSPECT)
        if scope.too_few_models:
            table = "fewer than 8 models: nothing can be said about keys and reliability"
        elif not suspects:
            table = "no key is suspected to be wrong"
        notes = more_rows(len(suspects) - limit, "suspected key", "--format json")
        about = spell("{total:question}, {models:model}", scope)
        yield Section(title, about, table, [*notes, *_item_notes(scope)])


def _agreed(question: Item) -> str:
    value = clip(_one_line(question.agreed_value or ""), _MOST_CHARS)
    return f"{value} ({question.agreed_by:,})" if question.agreed_value else ""


_SUSPECT: dict[str, Spelling] = {
    "sample": lambda question: str(question.sample_ids[0]),
    "reference": lambda question: clip(_one_line(" | ".join(question.references)), _MOST_CHARS),
    "strong models say": _agreed,
}


def _item_notes(scope: EvaluationItems) -> Iterator[str]:
    for flag_name, fact in _FLAGS.items():
        if number := scope.flags.get(flag_name):
            yield f"{counted(number, 'question')} {fact}"
    if scope.reliability is not None:
        yield spell(
            "reliability {reliability:.3f} (95 %: {reliability_low:.3f} to {reliability_high:.3f}) "
            "over {complete_questions:question} and {complete_models:model}",
            scope,
        )
        yield spell("standard error of measurement {standard_error:.3f}", scope)
        if scope.questions_needed is not None:
            yield spell("a reliability of 0.9 needs {questions_needed:question}", scope)
    if scope.subset is None:
        return
    for name, fidelity in (("chosen", scope.subset.chosen), ("random", scope.subset.random)):
        yield spell(
            "subset of {questions:question}, {name}: rank correlation {rank_correlation:.3f} "
            "± {rank_correlation_spread:.3f}, error of means {error:.3f} "
            "± {error_spread:.3f}, on models left out",
            fidelity,
            name=name,
            questions=scope.subset.questions,
        )
