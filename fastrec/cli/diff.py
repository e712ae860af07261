"""`fastrec diff`: tables for a terminal, and Markdown for a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from click.exceptions import Exit

from fastrec.cli.console import (
    explain_damage,
    print_lines,
    print_notice,
    print_stderr,
    safe,
    say,
    spell,
    styled,
)
from fastrec.cli.options import command
from fastrec.cli.output import asked, print_answer
from fastrec.cli.tables import (
    Section,
    escaped,
    markdown_lines,
    more_rows,
    table_of,
    text_lines,
)
from fastrec.errors import counted, listed
from fastrec.wording import NONE, POINTS, cluster_in_words, power_text, titles_in

if TYPE_CHECKING:
    from fastrec.commands.diff.document import Difference, ModelDifference


_MOST_MODELS = 20  # per evaluation
_MOST_FIELDS = 10
_MOST_NAMES = 3  # in a sentence
_ALONE = ("missing", "new")  # the model has records in one of the corpora only
_TESTS = {
    ("accuracy", "mcnemar"): "exact McNemar test",
    ("score", "mcnemar"): "exact McNemar test",
    ("accuracy", "t"): "paired t-test over questions, because some have several answers",
    ("score", "t"): "paired t-test over scores",
}
_VERBS = {"is": "are", "was": "were"}


_scope = attrgetter("evaluation_name", "metric")


def _rank(model: ModelDifference) -> tuple[object, ...]:
    """Sort the worst first: regressed, missing and incomplete models, then by the loss."""
    status = {"missing": 0, "incomplete": 1}.get(model.status, 2)
    return not model.regressed, status, model.points is None, model.points or 0


def _number(model: ModelDifference, number: int) -> str:
    return NONE if model.status in _ALONE else f"{number:,}"


def _questions(model: ModelDifference) -> str:
    number = _number(model, model.questions)
    is_less = model.questions < model.old_answered and model.status not in _ALONE
    return f"{number} of {model.old_answered:,}" if is_less else number


def _mean(model: ModelDifference, accuracy: float | None, score: float | None) -> str:
    return spell("{:.4g}", score) if model.measure == "score" else spell("{:.1%}", accuracy)


def _errors(model: ModelDifference) -> str:
    if model.status not in _ALONE and not (model.old_errors or model.new_errors):
        return "0"
    old = None if model.status == "new" else model.old_errors
    new = None if model.status == "missing" else model.new_errors
    return spell("{old:,} → {new:,}", old=old, new=new)


def _remark(model: ModelDifference) -> str:
    remarks = ["regressed"] if model.regressed else []
    if model.status != "compared":
        remarks.append("no answers in OLD" if model.status == "unanswered" else model.status)
    if model.counts.relabelled:
        remarks.append(f"{model.counts.relabelled:,} relabelled")
    return ", ".join(remarks)


_COLUMNS = {
    "questions": _questions,
    "old": lambda model: _mean(model, model.old_accuracy, model.old_score),
    "new": lambda model: _mean(model, model.new_accuracy, model.new_score),
    "worse": lambda model: _number(model, model.worse),
    "better": lambda model: _number(model, model.better),
    "errors": _errors,
    "": _remark,
}


def _titles(result: Difference) -> Callable[[Any], str]:
    """Return a function that gives the title of the evaluation and metric of a model or record.

    The metric is in it only if the evaluation has several.
    """
    return titles_in({_scope(model): model for model in result.models}.values())


def _model_sections(result: Difference) -> Iterator[Section]:
    title_of = _titles(result)
    for _, group in groupby(result.models, key=_scope):
        models = sorted(group, key=_rank)
        without = () if _has_errors(models) else ("errors",)
        table = table_of("diff", models[:_MOST_MODELS], _COLUMNS, without)
        notes = more_rows(len(models) - _MOST_MODELS, "model", "--format json")
        tested = [
            (model.detectable, model.points, model.questions_needed)
            for model in models
            if model.p is not None
        ]
        if tested:
            notes.append(power_text(tested))
        yield Section(title_of(models[0]), counted(models, "model"), table, notes)


def _has_errors(models: Iterable[ModelDifference]) -> bool:
    return any(model.old_errors or model.new_errors for model in models)


def _legend(result: Difference) -> Iterator[str]:
    """Explain the tables of models."""
    if not result.models:
        return
    answers = "questions that both corpora answered"
    if result.errors_as_wrong:
        answers += "; a record with an error is a wrong answer"
    elif _has_errors(result.models):
        answers += "; a record with an error is no answer"
    measures = {model.measure for model in result.models}
    means = "accuracy, or mean score if without %," if len(measures) > 1 else "accuracy"
    if measures == {"score"}:
        means = "mean score"
    hundredth = f"; {POINTS}" if "score" in measures else ""
    yield f"old, new: {means} on the {answers}{hundredth}"
    if "score" in measures:
        yield (
            "graded metrics (scores other than 0 and 1) are compared by score; --accuracy compares "
            "their accuracy"
        )
    lower = set(map(_titles(result), filter(attrgetter("lower_is_better"), result.models)))
    if lower:
        yield f"a lower score is better, so a rise is a loss of points: {', '.join(sorted(lower))}"
    if result.counts.relabelled:
        yield (
            "relabelled: a label in NEW changed the verdict (`normalize --labels`), so the model "
            "may not have changed"
        )
    yield from _tests(result.models)
    yield from cluster_in_words(result.cluster)


def _tests(models: Sequence[ModelDifference]) -> Iterator[str]:
    used = Counter(_TESTS[model.measure, model.test] for model in models if model.test)
    tests = [text for text in dict.fromkeys(_TESTS.values()) if used[text]]
    if len(tests) > 1:
        tests = [f"{text} ({counted(used[text], 'model')})" for text in tests]
    if tests:
        adjusted = f"adjusted p: for {counted(used.total(), 'model')}, by Benjamini and Hochberg"
        yield f"p: {'; '.join(tests)}. {adjusted}"


def _other_sections(result: Difference) -> Iterator[Section]:
    """Make tables of changed fields, and of examples of each kind."""
    if result.fields:
        fields = table_of("fields", result.fields[:_MOST_FIELDS])
        notes = more_rows(len(result.fields) - _MOST_FIELDS, "field", "--format json")
        yield Section("changed fields", counted(result.fields, "field"), fields, notes)
    title_of = _titles(result)
    if losing := [model for model in result.models if model.losses]:
        own = {"evaluation": title_of, "causes": _causes}
        table = table_of("losses", losing[:_MOST_MODELS], own)
        notes = more_rows(len(losing) - _MOST_MODELS, "model", "--format json")
        yield Section("right answers that are wrong now", "by cause", table, notes)
    for model in result.models:
        title = title_of(model)
        if model.lost:
            yield Section(f"lost: {model.model_id}", title, table_of("lost", model.lost))
        if model.flips:
            mean = ".4g" if model.measure == "score" else ".0%"
            means = {"old": f"{{old:{mean}}}", "new": f"{{new:{mean}}}"}
            table = table_of("flips", model.flips, means)
            yield Section(f"worse or better: {model.model_id}", title, table)
    for kind in ("added", "removed", "changed", "relabelled", "repeats"):
        if examples := getattr(result.examples, kind):
            table = table_of("examples", examples, {"evaluation": title_of})
            yield Section(kind, counted(examples, "example"), table)


def _causes(model: ModelDifference) -> str:
    return ", ".join(
        f"{number:,} {cause.replace('_', ' ')}" for cause, number in model.losses.items()
    )


def _counts(result: Difference) -> str:
    counts = result.counts
    repeats = "{repeats_old:,} of OLD and {repeats_new:,} of NEW are repeats without a pair"
    return spell(
        "{pairs:pair}: {unchanged:,} unchanged, {changed:,} changed[? ({relabelled:,} relabelled)]"
        "; {added:,} added, {removed:,} removed[?; {repeats}]",
        counts,
        pairs=counts.unchanged + counts.changed,
        repeats=spell(repeats, counts) if counts.repeats_old or counts.repeats_new else "",
    )


def _verdict(result: Difference) -> tuple[str, str]:
    """Return the result as a word and a sentence."""
    statuses = Counter(model.status for model in result.models)
    numbers = spell(
        "{compared:model} compared, {missing:,} missing, {incomplete:,} incomplete"
        "[?, {unanswered:,} without answers in OLD]",
        **dict.fromkeys(("compared", "missing", "incomplete", "unanswered"), 0) | statuses,
    )
    if result.failed:
        word = result.failures[0].reason.replace("regressed", "regression")
        return word, f"{_reasons(result)}; {numbers}"
    if result.fail_on is not None:
        lost = f"no model lost more than {result.fail_on:g} points with {result.threshold}"
        return "no regression", f"{lost}; {numbers}"
    changes = [model.points or 0 for model in filter(result.is_significant, result.models)]
    worse = sum(points < 0 for points in changes)
    scopes = set(map(_scope, result.models))
    per_metric = " and metric" if len(scopes) > len({name for name, _ in scopes}) else ""
    better = f"{worse:,} worse and {len(changes) - worse:,} better with {result.threshold}"
    return "compared", f"{better}; {numbers} (counted per evaluation{per_metric})"


def _reasons(result: Difference) -> str:
    """Say why the comparison failed: the models of each reason."""
    title_of = _titles(result)
    reasons = []
    for message, group in groupby(result.failures, key=attrgetter("message")):
        names = [f"{failure.model_id} on {title_of(failure)}" for failure in group]
        verb, rest = message.split(" ", 1)
        if len(names) > 1:
            verb = _VERBS.get(verb, verb)
        reasons.append(f"{listed(names, _MOST_NAMES)} {verb} {rest}")
    more = f"; and {len(reasons) - _MOST_NAMES:,} more" if len(reasons) > _MOST_NAMES else ""
    return "; ".join(reasons[:_MOST_NAMES]) + more


def _print_text(result: Difference) -> None:
    models = text_lines(_model_sections(result), [list(_legend(result))])
    for lines in (list(models), list(text_lines(_other_sections(result)))):
        if lines:
            print_lines([*lines, ""])
    say("{counts} ({:timing})", result, counts=_counts(result))
    word, sentence = _verdict(result)
    colour = "red" if result.failed else "green" if result.fail_on is not None else None
    say("{word}: {sentence}", word=styled(word, fg=colour, bold=True), sentence=sentence)


def _markdown(result: Difference) -> Iterator[str]:
    """Yield the lines of a comment on a pull request: the result, then the tables."""
    word, sentence = _verdict(result)
    yield f"**{word}**: {escaped(sentence)}"
    yield ""
    corpora = escaped(f"{result.old.corpus} → {result.new.corpus}")
    yield f"{corpora}: {_counts(result)}"
    sections = [*_model_sections(result), *_other_sections(result)]
    if sections:
        yield ""
        yield from markdown_lines(sections, [list(_legend(result))])


@command()
def diff(old: str, new: str, by: str, examples: int | None, **options: Any) -> None:
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

    A note names metrics that look like the same under other names, and what to give to
    `normalize --map` to join them.

    Right answers that are wrong now are counted by cause: an error, no extracted value or another
    one, an output that was cut short, the same output with another verdict, or another output.

    Without --fail-on, the exit code is 0 whatever changed. With it, a model that NEW lacks or that
    could hardly be compared is a failure, too.

    \b
    Exit codes:
      0     no regression
      1     with --fail-on: a model regressed, is missing, or is incomplete
      2     the command line is wrong, these corpora cannot be compared, or no
            record of them matches the filters
      3     a corpus could not be read

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

    output_format = asked().output_format
    if examples is None:
        examples = 10 if output_format == "json" else 0
    with explain_damage(old, new):
        result = run(old, new, by=by, examples=examples, **options)
    print_notice(*result.notices)
    print_answer(
        result,
        text=_print_text,
        markdown=lambda result: print_lines(_markdown(result)),
    )
    if result.failed:
        # The output may go to a file, but the reason belongs into the log of a job.
        if output_format != "text":
            print_stderr(safe(": ".join(_verdict(result))))
        raise Exit(1)
