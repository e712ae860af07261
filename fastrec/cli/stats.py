"""`fastrec stats`: a table of models for each evaluation and metric."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fastrec.cli.console import (
    allow_broken_pipe,
    exit_if_incomplete,
    print_lines,
    print_notice,
    print_warning,
    safe,
)
from fastrec.cli.options import command
from fastrec.cli.output import asked, print_answer, print_csv, run_reading, warn_of_terminal
from fastrec.cli.tables import (
    Section,
    Spellings,
    Table,
    described,
    escaped,
    make_table,
    more_rows,
    spelled,
)
from fastrec.errors import counted
from fastrec.parameters import Names
from fastrec.wording import value_text

if TYPE_CHECKING:
    from fastrec.summary.document import Tokens
    from fastrec.summary.present_ranking import EvaluationStats, ModelStats, Stats


_REPEATS = {"questions", "answers", "answers/question"}  # instead of n, if there are repeats
_NOT_GRADED = {"accuracy", "95% interval", "score ±"}  # left out if the score is shown instead
_RANKED_BY = {"tokens": "tokens/record", "latency": "p50 ms"}
_MOST_ROWS = 100  # of all tables together: more do not fit on two screens
_LEAST_ROWS = 10  # of a table
_NO_COMMON = (
    "no question was answered by all of them; choose fewer models with --model, or omit --common"
)
_NO_ANSWERS = (
    "every record has an error, so there are no answers; --errors-as-wrong counts them as wrong"
)


def _interval(low: float | None, high: float | None, digits: int | None) -> str:
    decimals = 1 if digits is None else digits
    return "" if low is None or high is None else f"{100 * low:.{decimals}f}–{high:.{decimals}%}"


def _columns(digits: int | None) -> Spellings:
    """The columns with their spellings."""
    score = ".4g" if digits is None else f".{digits + 2}f"
    formats = {
        "SHARE": f".{1 if digits is None else digits}%",
        "SCORE": score,
        "ERROR": ".2g" if digits is None else score,
    }
    columns = {}
    for name, spelling in described("stats", "columns").items():
        columns[name] = re.sub("[A-Z]+", lambda match: formats[match[0]], spelling)
    return columns | {
        "95% interval": lambda model: _interval(model.accuracy_low, model.accuracy_high, digits),
        "tokens": lambda model: _total(model.tokens),
    }


def _total(tokens: Tokens) -> str:
    if not tokens.records:
        return ""
    return f"{tokens.total:,}" if isinstance(tokens.total, int) else "huge"


def _sections(ranking: Stats, most: int | None) -> Iterator[Section]:
    """Make a table for each evaluation; with `most`, of so many models, on about two screens."""
    from fastrec.summary.present_ranking import about, unranked_in_words

    for evaluation in ranking.evaluations[: most and _MOST_ROWS // most]:
        models = evaluation.by_model[:most]
        table: Table | str = _NO_COMMON if evaluation.answering else _NO_ANSWERS
        if models:
            table = _models_table(ranking, evaluation, models)
        notes = more_rows(len(evaluation.by_model) - len(models), "model", "`--all`")
        notes += unranked_in_words(evaluation)
        yield Section(evaluation.title, about(evaluation), table, notes)


def _legends(ranking: Stats, most: int | None) -> Iterator[Sequence[str]]:
    from fastrec.answers.similar_names import probable_pairs
    from fastrec.summary.present_ranking import facts_in_words, legend

    yield list(legend(ranking))
    names = {model.model_id for evaluation in ranking.evaluations for model in evaluation.by_model}
    pairs = probable_pairs(names)
    similar = [
        f"{counted(pairs, 'pair')} of models with names that differ only in spelling, such as "
        f"{first} and {second} (overlap --by names)"
        for first, second in pairs[:1]
    ]
    yield [*facts_in_words(ranking.corpus), *similar]
    rows = [len(evaluation.by_model) for evaluation in ranking.evaluations]
    if most and (left := sum(rows) - sum(min(size, most) for size in rows[: _MOST_ROWS // most])):
        text = f"left out: {left:,} of {sum(rows):,} rows; --all shows them"
        yield [f"{text}, --format json and csv always have all"]


def _models_table(
    ranking: Stats, evaluation: EvaluationStats, models: Sequence[ModelStats]
) -> Table:
    left_out = {"score interval"} if ranking.shows_accuracy(evaluation) else _NOT_GRADED
    repeats = any(model.answers > model.questions for model in models)
    left_out = left_out | ({"n"} if repeats else _REPEATS)
    if evaluation.by != "errors" and not any(model.errors for model in models):
        left_out.add("errors")
    headings = {"score interval": "95% interval"}
    if ranking.repeats_as != "mean":
        headings["accuracy"] = ranking.repeats_as
    digits = asked().digits
    spellings: Spellings = {}
    for name, spelling in _columns(digits).items():
        if name == "accuracy":
            spellings |= {how: partial(_of_series, how, digits) for how in models[0].series}
        if name not in left_out:
            spellings[headings.get(name, name)] = spelling
    ranked_by = _RANKED_BY.get(evaluation.by, evaluation.by)
    optional = [name for name in described("stats", "hidden") if name != ranked_by]
    rows = [[spelled(spelling, model) for spelling in spellings.values()] for model in models]
    table = make_table(list(spellings), rows, described("stats", "left"), optional)
    return [column for column in table if any(column.cells)]


def _of_series(how: str, digits: int | None, model: ModelStats) -> str:
    return value_text(model.series[how], graded=False, digits=digits)


def _print_csv(ranking: Stats) -> None:
    """Print one table of all models and scopes, with numbers in full precision."""
    fields = described("stats", "fields")
    rows = []
    for evaluation in ranking.evaluations:
        for rank, model in enumerate(evaluation.by_model, 1):
            row: dict[str, Any] = {
                "evaluation_name": evaluation.evaluation_name,
                "metric": evaluation.metric,
                "rank": rank,
                "graded": evaluation.graded,
            }
            columns = [name for name in described("stats", "csv") if name not in row]
            row |= {name: attrgetter(fields.get(name, name))(model) for name in columns}
            rows.append(row | model.series)
    print_csv(rows, dict.fromkeys(chain(described("stats", "csv"), *rows)))


@command()
def stats(paths: Names, show_all: bool, **options: Any) -> None:
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

    output_format = asked().output_format
    quiet = asked().quiet
    warn_of_terminal(paths)
    notice = None if quiet else print_notice
    ranking = run_reading(run, paths, stages=("sort", "merge", "read"), notice=notice, **options)
    missing = skipped_lines(ranking.skipped)
    with allow_broken_pipe():
        if output_format in ("json", "csv", "latex"):
            if not quiet:
                print_warning(missing)
        elif missing and output_format == "text":
            print_lines([*map(safe, missing), ""])
        elif missing:  # indented lines become a list
            print_lines([*(re.sub("^  ", "- ", escaped(line)) for line in missing), ""])
    rows = sum(len(evaluation.by_model) for evaluation in ranking.evaluations)
    most = None
    if rows > _MOST_ROWS and output_format == "text" and not show_all:
        most = max(_MOST_ROWS // len(ranking.evaluations), _LEAST_ROWS)
    sections = _sections(ranking, most)
    legends = _legends(ranking, most)
    print_answer(ranking, sections, legends, for_paper=True, csv=_print_csv)
    exit_if_incomplete(ranking.evaluations, ranking.damaged)
