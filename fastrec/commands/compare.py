"""`fastrec compare`: two models on the questions that both have answered."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from fastrec.answers.choosing import (
    Chosen,
    check_questions,
    choose_model,
    open_scopes,
    other_metrics,
)
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.selection import parse_groups
from fastrec.answers.shown import ShownQuestion, read_question
from fastrec.answers.table import Query, Scope
from fastrec.answers.values import judged_pairs, value_rows
from fastrec.errors import NoMatchError, UsageError
from fastrec.filters import FilterArguments, Filters, Strings, as_tuple, make_filters
from fastrec.notebook import Rows, Tabular, flat
from fastrec.parameters import CORES, AnyPath, Names, Notice
from fastrec.progress import Progress
from fastrec.statistics.adjust import adjust_p_values
from fastrec.statistics.agreement import kappa_interval
from fastrec.statistics.exact import Value
from fastrec.statistics.intervals import OptionalNumber
from fastrec.statistics.paired import Test, compare_series
from fastrec.statistics.repeats import ERROR, MEAN, RIGHT, RepeatsAs, parse_repeats
from fastrec.summary.document import SampleId, ScopeNames, filled
from fastrec.where import GroupValues, empty_group, largest_groups, with_groups
from fastrec.wording import points_per_unit

# A question that may become an example: by what it is sorted, its name, and fields of `Example`.
_Candidate = tuple[float, float, int, str, dict[str, Any]]
_Values = Mapping[str, Sequence[Value]]  # by question, the values of both models


class Example(Struct):
    """A question on which the two models differ."""

    #: The value of A: the share of right answers, or the mean score.
    a: float
    #: The value of B.
    b: float
    #: Other models that answered it.
    others: int
    #: The mean of theirs.
    others_value: OptionalNumber
    #: With the answers of both models, those of A first.
    question: ShownQuestion


class ComparedEvaluation(ScopeNames, kw_only=True):
    """Two models on an evaluation and metric."""

    #: Whether the metric has scores other than 0 and 1.
    graded: bool
    #: Whether a lower score is better.
    lower_is_better: bool
    #: Whether the mean score of a model is below 0 or above 1, so that a point is a unit of the
    #: score.
    other_scale: bool
    #: Questions that both answered, which the numbers are about.
    questions: int
    #: Those that only A answered.
    only_a: int
    #: Those that only B answered.
    only_b: int
    #: Questions on which A is better.
    wins: int
    #: Questions on which B is better.
    losses: int
    #: The other questions.
    ties: int
    #: The accuracy of A, or the mean score of a graded metric.
    a: OptionalNumber
    #: The same of B.
    b: OptionalNumber
    #: `a` minus `b`.
    difference: OptionalNumber
    #: The test that gave `p` (docs/leaderboard.md#the-test-of-two-models); null if no question was
    #: compared.
    test: Test | None
    #: The p-value: how likely chance alone makes so large a difference.
    p: OptionalNumber
    #: The p-value adjusted for many tests (docs/leaderboard.md#many-tests).
    p_adjusted: OptionalNumber
    #: The smallest difference that would be found (docs/answers.md#two-models).
    detectable: OptionalNumber
    #: Questions that it takes to find the observed difference in 80 % of all cases.
    questions_needed: int | None
    #: With `--detect`: the chance to find such a difference (docs/answers.md#two-models).
    chance: OptionalNumber
    #: With `--detect`: questions for a chance of 80 %.
    detect_needed: int | None
    #: The most distinguishing questions.
    examples: list[Example]
    #: With --group-by: the value of each field, null for records without it; null in totals.
    group: GroupValues | None = None
    #: Clusters of the compared questions; without `--cluster`, each question is a cluster.
    clusters: int


class Uncompared(ScopeNames):
    """An evaluation and metric on which the two models cannot be compared."""

    #: Which of the two models lack records.
    missing: list[str]


class Disputed(Struct):
    """An answer on which two metrics differ."""

    #: The sample.
    sample_id: SampleId
    sample_hash: str
    #: The model.
    model_id: str
    #: The metric by which it is right.
    right_by: str


class Agreement(Struct):
    """Two metrics (graders) on the same answers of an evaluation."""

    #: The evaluation.
    evaluation_name: str
    #: Answers that both have judged (docs/answers.md#two-graders), without errors.
    answers: int
    #: Answers that only the first metric has judged.
    judged_by_first: int
    #: Answers that only the second has judged.
    judged_by_second: int
    #: Right by both.
    both_right: int
    #: Right by the first only.
    only_first: int
    #: Right by the second only.
    only_second: int
    #: Wrong by both.
    both_wrong: int
    #: The share of answers with the same verdict.
    agreement: OptionalNumber
    #: Cohen's kappa.
    kappa: OptionalNumber
    #: Lower end of the 95 % interval.
    kappa_low: OptionalNumber
    #: Upper end of the 95 % interval.
    kappa_high: OptionalNumber
    #: The first answers on which they differ.
    disputed: list[Disputed]


class Comparison(Tabular):
    """Two models on each evaluation and metric; or two metrics on each evaluation that has both."""

    #: The model A.
    a: str
    #: The model B.
    b: str
    #: What several answers of a model to a question become (docs/repeats.md#in-statistics).
    repeats_as: str
    #: Those for which both have records.
    evaluations: list[ComparedEvaluation]
    #: The others.
    uncompared: list[Uncompared]
    #: Metrics that are left out because they judge no answer: costs and bookkeeping.
    others: int = 0
    #: With `--metric-pair`: the two metrics.
    metrics: Names = ()
    #: With `--metric-pair`, by evaluation.
    agreement: list[Agreement] = []
    #: `--cluster`: tests are over clusters of questions with the same value of this field; null if
    #: they are over questions.
    cluster: str | None = None
    #: `--detect`: a difference in points.
    detect: OptionalNumber = None

    def rows(self) -> Rows:
        """A row for each evaluation, metric and group, or each evaluation with both metrics."""
        models = {"model_a": self.a, "model_b": self.b}
        no_group = empty_group(self.evaluations)
        rows = [
            flat(evaluation, models) | no_group | (evaluation.group or {})
            for evaluation in self.evaluations
        ]
        return rows + [flat(agreement) for agreement in self.agreement]


def compare(
    corpus: AnyPath,
    a: str | None = None,
    b: str | None = None,
    *,
    metric_pair: Strings = (),
    repeats_as: str = "mean",
    detect: OptionalNumber = None,
    examples: int = 2,
    group_by: Strings = (),
    cluster: str | None = None,
    lower_is_better: Strings = (),
    jobs: int = CORES,
    progress: Progress | None = None,
    notice: Notice | None = None,
    **filters: Unpack[FilterArguments],
) -> Comparison:
    """Compare two models on each evaluation and metric.

    Args:
        corpus: A directory or URL that `normalize` published.
        a: A model, or a pattern that matches only one.
        b: The other model.
        metric_pair: Instead of two models, two metrics that judge the same answers.
        repeats_as: What several answers of a model to a question become: `mean`, `pass@K`,
            `pass^K`, `majority` or `first`.
        detect: A difference in points: return the chance to find it with these questions.
        examples: The number of questions per evaluation and metric to return with both answers.
        group_by: Also compare the models on groups of records, as in `stats`. All p-values are
            adjusted together.
        cluster: Tests are over clusters of questions with the same value of this field.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower
            scores are better.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        notice: Receives notices for the user.
        **filters: Which questions are compared, and which other models count for the examples
            (`FilterArguments`).

    Raises:
        UsageError: There is no such model, or a pattern matches several.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    # Long because most lines are about options: what they mean, and which exclude each other.
    if detect is not None and not 0 < detect <= 100:
        raise UsageError(f"detect must be above 0 and at most 100, not {detect}")
    repeats = parse_repeats(repeats_as)
    chosen = make_filters(**filters)
    groups = parse_groups(group_by)
    graders = as_tuple("metric_pair", metric_pair)
    note = notice or (lambda _message: None)
    opened = partial(
        open_scopes,
        corpus,
        lower_is_better=lower_is_better,
        cluster=cluster,
        jobs=jobs,
        progress=progress,
    )
    if graders:
        if a is not None or len(set(graders)) != 2 or chosen.metric:
            raise UsageError(
                "name two models, or two metrics with --metric-pair; --model chooses models"
            )
        if groups or cluster:
            raise UsageError("--group-by and --cluster cannot be combined with --metric-pair")
        index, scopes = opened(replace(chosen, metric=graders))
        agreements = _agreements(index, scopes, graders, examples)
        return Comparison("", "", str(repeats), [], [], metrics=graders, agreement=agreements)
    if a is None or b is None:
        raise UsageError("name two models, A and B, or two metrics with --metric-pair")
    index, scopes = opened(chosen)
    models = {model for scope, _ in scopes for model in scope.models}
    first = choose_model(a, models)
    second = choose_model(b, models)
    if first == second:
        raise UsageError(f"{a!r} and {b!r} are the same model, {first}")
    check_questions(index, scopes, chosen)
    others = other_metrics(index, scopes, chosen)
    pair = first, second
    compare_scope = partial(_compare_scope, pair=pair, repeats=repeats, detect=detect)
    uncompared = []
    compared = []
    for scope, query in scopes:
        if missing := [model for model in pair if model not in scope.models]:
            uncompared.append(Uncompared(scope.evaluation_name, scope.metric, missing))
        else:
            compared.append(compare_scope(index, scope, query, examples=examples))
    if groups:
        by_group, group_scopes = opened(chosen, groups)
        parts = [
            compare_scope(by_group, scope, query, examples=0)
            for scope, query in group_scopes
            if {*pair}.issubset(scope.models)
        ]
        shown = largest_groups(
            compared, parts, groups, lambda evaluation: evaluation.questions, note
        )
        compared = with_groups(compared, shown, groups)
    adjust_p_values(compared)
    for text in index.selection.notes:
        note(text)
    return Comparison(
        first, second, str(repeats), compared, uncompared, others, cluster=cluster, detect=detect
    )


def _compare_scope(
    index: QuestionTable,
    scope: Scope,
    query: Query,
    pair: tuple[str, str],
    *,
    repeats: RepeatsAs,
    detect: OptionalNumber,
    examples: int,
) -> ComparedEvaluation:
    if query.models:
        query = replace(query, models=tuple(sorted({*query.models, *pair})))
    graded = scope.graded and not repeats.by_verdict
    means = value_rows(index, query, pair, graded=graded)
    values = means if repeats == MEAN else value_rows(index, query, pair, repeats=repeats)
    series = ((b, a) for a, b in values.values())
    clusters = index.table(query).clusters_of(values)
    difference = None
    if detect is not None:
        difference = detect / points_per_unit(other_scale=graded and scope.other_scale)
    (paired,) = compare_series([series], graded=graded, clusters=clusters, detect=difference)
    is_lower = graded and scope.lower_is_better  # not if verdicts are compared
    wins, losses = (paired.fell, paired.rose) if is_lower else (paired.rose, paired.fell)
    distinguishing: list[Example] = []
    if examples and wins + losses:
        distinguishing = _distinguishing_questions(
            index, query, pair, means, graded=graded, is_lower=is_lower, number=examples
        )
    return filled(
        ComparedEvaluation,
        paired,
        scope,
        graded=graded,
        lower_is_better=is_lower,
        other_scale=graded and scope.other_scale,
        only_a=paired.only_second,
        only_b=paired.only_first,
        wins=wins,
        losses=losses,
        ties=paired.questions - wins - losses,
        a=paired.second,
        b=paired.first,
        p_adjusted=None,
        questions_needed=paired.needed,
        examples=distinguishing,
    )


def _agreements(
    index: QuestionTable,
    scopes: Chosen,
    graders: Names,
    examples: int,
) -> list[Agreement]:
    """Compare two metrics on each evaluation that has both."""
    queries = {(scope.evaluation_name, scope.metric): query for scope, query in scopes}
    agreements = []
    for name in dict.fromkeys(name for name, _ in queries):
        first, second = (queries.get((name, metric)) for metric in graders)
        if first is not None and second is not None:
            agreements.append(_agreement(index, first, second, examples))
    if not agreements:
        raise NoMatchError(f"no evaluation has both metrics, {' and '.join(graders)}")
    return agreements


def _agreement(index: QuestionTable, first: Query, second: Query, examples: int) -> Agreement:
    tables: dict[str, list[int]] = {}
    disputed: list[Disputed] = []
    by_one = [0, 0]
    for name, model, *pair in judged_pairs(index, first, second):
        verdicts = [
            None if not trial or trial.flag == ERROR else trial.flag == RIGHT for trial in pair
        ]
        if None not in verdicts:
            cell = 2 * (not verdicts[0]) + (not verdicts[1])
            tables.setdefault(name, [0] * 4)[cell] += 1
            if cell in (1, 2) and len(disputed) < examples and (row := index.row(first, name)):
                right_by = first.metric if cell == 1 else second.metric
                disputed.append(Disputed(row.sample_id, row.sample_hash, model, right_by or ""))
        elif verdicts != [None, None]:
            by_one[verdicts[0] is None] += 1
    both, only_first, only_second, neither = map(sum, zip([0] * 4, *tables.values(), strict=True))
    answers = both + only_first + only_second + neither
    kappa, low, high = kappa_interval(Counter(map(tuple, tables.values())))
    return Agreement(
        evaluation_name=first.evaluation_name,
        answers=answers,
        judged_by_first=by_one[0],
        judged_by_second=by_one[1],
        both_right=both,
        only_first=only_first,
        only_second=only_second,
        both_wrong=neither,
        agreement=(both + neither) / answers if answers else None,
        kappa=kappa,
        kappa_low=low,
        kappa_high=high,
        disputed=disputed,
    )


def _distinguishing_questions(
    index: QuestionTable,
    query: Query,
    pair: tuple[str, str],
    values: _Values,
    *,
    graded: bool,
    is_lower: bool,
    number: int,
) -> list[Example]:
    """Read the most distinguishing questions: the two models differ, and most others agree.

    If the others agree with A, it shows a weakness of B; if they agree with B, a strength of A. If
    a metric is graded, only the size of the difference counts. Questions that A wins and those that
    B wins take turns.
    """
    facts = index.facts(query)
    numbers = index.table(query).numbers
    won: list[_Candidate] = []
    lost: list[_Candidate] = []
    for name, (first, second) in values.items():
        # Verdicts on one of several answers tell less than those on all of them.
        if first is None or second is None or not (graded or abs(first - second) == 1):
            continue
        a, b = float(first), float(second)
        if a == b:
            continue
        at = numbers[name]
        models = int(facts.models[at])
        mean = float(facts.score[at] if graded else facts.right[at] / models)
        others = models - 2
        others_value = (mean * models - a - b) / others if others else None
        agreement = 0.0
        if others_value is not None and not graded:
            agreement = abs(2 * others_value - 1)
        known = {"a": a, "b": b, "others": others, "others_value": others_value}
        candidate = -abs(a - b), -agreement, -others, name, known
        (won if (a > b) != is_lower else lost).append(candidate)
    turns = filter(None, chain.from_iterable(zip_longest(sorted(won), sorted(lost))))
    examples = []
    for *_, name, known in islice(turns, number):
        shown = read_question(index, [query], name, Filters(), pair)
        if shown:
            shown.answers.sort(key=lambda answer: pair.index(answer.model_id))
            examples.append(Example(**known, question=shown))
    return examples
