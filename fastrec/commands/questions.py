"""`fastrec questions`: the questions of each evaluation and metric, with their results."""

import sys
from collections.abc import Sequence
from glob import escape
from typing import Unpack

from msgspec.structs import replace

from fastrec.answers.choosing import (
    Chosen,
    check_questions,
    choose_model,
    open_scopes,
    other_metrics,
)
from fastrec.answers.finding import shortest_prefixes
from fastrec.answers.items import FLAGS
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import (
    PLACES,
    SORTS,
    PhraseModel,
    Place,
    Question,
    Scope,
    Sort,
)
from fastrec.errors import UsageError, check_choice
from fastrec.filters import FilterArguments, Strings, as_tuple, make_filters, matches_any
from fastrec.notebook import Rows, Tabular
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.summary.document import ScopeNames, filled, scope_rows
from fastrec.summary.present_choice import check_patterns

_SHORTEST = 8  # characters of a hash


class EvaluationQuestions(ScopeNames):
    """Questions of an evaluation and metric."""

    #: Whether the metric has scores other than 0 and 1.
    graded: bool
    #: Models that count.
    models: int
    #: How many questions match; at most `--limit` are listed.
    total: int
    #: In the order of `--sort`.
    questions: list[Question]
    #: With `--text`, but not only in the input: the answers that have it, the largest share first.
    phrase_models: list[PhraseModel]


class Questions(Tabular):
    """Questions of a corpus: a table for each evaluation and metric."""

    #: By evaluation and metric.
    evaluations: list[EvaluationQuestions]
    #: Metrics that are left out because they judge no answer: costs and bookkeeping.
    others: int = 0

    def rows(self) -> Rows:
        """A row for each question of each evaluation and metric."""
        return scope_rows(self.evaluations, "questions")


def questions(
    corpus: AnyPath,
    *,
    sort: Sort = "hardest",
    wrong_by: Strings = (),
    right_by: Strings = (),
    split: Sequence[str] | None = None,
    missing: str | None = None,
    text: str = "",
    in_: Place = "both",
    flag: Strings = (),
    limit: int = 20,
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Questions:
    """Return a table of questions for each evaluation and metric.

    Args:
        corpus: A directory or URL that `normalize` published.
        sort: The order of the questions.
        wrong_by: Only questions that these models get wrong: patterns, or `all` for all models that
            count.
        right_by: Only questions that these models get right.
        split: Two models: only questions that the first one gets right and the second one gets
            wrong.
        missing: A model: all questions whose `sample_id` it has no record of, whatever `limit` is.
        text: Only questions with this text in the input or a reference, or in something that a
            model said; case does not matter.
        in_: Where this text must be: `input`, `answers` or `both`, which means any of them.
        flag: Only questions with one of these flags of `items`: `suspected_key`, `all_wrong`,
            `all_right`, `near_duplicate`.
        limit: The largest number of questions in a table.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower
            scores are better.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: Which records count, and which questions (`FilterArguments`).

    Raises:
        UsageError: A pattern matches nothing.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    check_choice("sort", sort, SORTS)
    check_choice("in_", in_, PLACES)
    if split is not None and (isinstance(split, str) or len(split) != 2):
        raise UsageError(f"split must be two models, not {split!r}")
    right = as_tuple("right_by", right_by)
    wrong = as_tuple("wrong_by", wrong_by)
    if "all" in right and "all" in wrong:
        raise UsageError(
            "no question is both right and wrong by all models: choose one of --right-by and "
            "--wrong-by"
        )
    flags = as_tuple("flag", flag)
    for name in flags:
        check_choice("flag", name, FLAGS)
    which = "all-right" if "all" in right else "all-wrong" if "all" in wrong else "all"
    chosen = make_filters(**filters)
    index, scopes = open_scopes(
        corpus,
        chosen,
        metrics=metrics,
        lower_is_better=lower_is_better,
        jobs=jobs,
        progress=progress,
    )
    check_questions(index, scopes, chosen)
    everyone = {model for scope, _ in scopes for model in scope.models}
    of_right = [pattern for pattern in right if pattern != "all"]
    of_wrong = [pattern for pattern in wrong if pattern != "all"]
    check_patterns("model", [*of_right, *of_wrong], everyone)
    if split:
        # Both are names, even if they look like patterns.
        of_right.append(escape(choose_model(split[0], everyone)))
        of_wrong.append(escape(choose_model(split[1], everyone)))
    if text:
        names = {scope.evaluation_name for scope, _ in scopes}
        index.phrases.search(
            text, names.pop() if len(names) == 1 else None, jobs=jobs, progress=progress
        )
    lacking = "" if missing is None else choose_model(missing, index.models)
    matching = []
    asked = {"which": which, "flags": flags, "text": text, "place": in_, "sort": sort}
    for scope, query in scopes:
        models = {"right": _models_of(scope, of_right), "wrong": _models_of(scope, of_wrong)}
        if None not in models.values():
            query = replace(query, **asked, **models, missing=lacking)
            matching.append((scope, query))
    most = sys.maxsize if lacking else limit
    return Questions(_tables(index, matching, most), other_metrics(index, scopes, chosen))


def _tables(index: QuestionTable, scopes: Chosen, limit: int) -> list[EvaluationQuestions]:
    """The first questions of each scope, with unique beginnings of their hashes."""
    pages = index.pages([query for _, query in scopes], limit)
    hashes = [row.sample_hash for page in pages for row in page.rows]
    prefixes = shortest_prefixes(index.selection, hashes, _SHORTEST)
    tables = []
    for (scope, query), page in zip(scopes, pages, strict=True):
        rows = [filled(Question, row, prefix=prefixes[row.sample_hash]) for row in page.rows]
        models = len(query.models or scope.models)
        tables.append(filled(EvaluationQuestions, scope, page, models=models, questions=rows))
    return tables


def _models_of(scope: Scope, patterns: Sequence[str]) -> tuple[str, ...] | None:
    """Return the models of a scope that match any of some patterns.

    None if a pattern matches none of them.
    """
    by_pattern = [
        {model for model in scope.models if matches_any(model, [pattern])} for pattern in patterns
    ]
    if not all(by_pattern):
        return None
    return tuple(model for model in scope.models if model in set().union(*by_pattern))
