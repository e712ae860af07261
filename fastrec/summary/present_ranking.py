"""Present a summary: rank the models of each evaluation and metric, and explain the numbers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fastrec.errors import UsageError, counted, listed
from fastrec.json_documents import CountsByName
from fastrec.notebook import Rows, Tabular
from fastrec.schemas.hashes import ABSENT, WRONG
from fastrec.statistics.intervals import (
    OptionalInt,
    OptionalNumber,
    score_interval,
    wilson_interval,
)
from fastrec.summary.document import (
    Latency,
    ModelSummary,
    ScopeNames,
    Summary,
    Tokens,
    filled,
    scope_rows,
)
from fastrec.summary.present_choice import Chosen, others_in_words
from fastrec.summary.rows import from_portable
from fastrec.where import GroupBy, GroupValues, with_groups
from fastrec.wording import by_count, cluster_in_words, title_of

_MOST = 5  # listed in a line
MIN_COVERAGE = 50.0  # Percent of the questions that a model must have answered to be ranked.


class CorpusFacts(Struct):
    """The corpus as a whole, whatever was chosen."""

    #: Schema version of the corpus.
    schema: str
    #: Valid lines, duplicates included, by schema version.
    versions: CountsByName
    #: Valid lines of another version than that of the corpus.
    upgraded: int
    #: By code, valid lines with a label or turns of another version, and lines that an upgrade or a
    #: repair changed.
    notes: CountsByName
    #: Identities with repeats.
    repeats: int
    #: Identities with contradictions.
    contradictions: int
    #: Records that `--same-run ignore` dropped.
    same_run: int
    #: Split hashes (docs/hashes.md), by evaluation and metric.
    split_hashes: int
    #: The recipe of the hashes in the corpus.
    recipe: str
    #: By the recipe of their hash; `absent`: without a hash; `wrong`: by no recipe.
    recipes: CountsByName


def rank_text(best: OptionalInt, worst: OptionalInt) -> str:
    """A rank, or a range of ranks; empty if there is none."""
    return "" if best is None else f"{best}" if best == worst else f"{best}–{worst}"


class ModelStats(Struct):
    """One model on one metric of an evaluation."""

    model_id: str
    #: With `--common`, on common questions.
    records: int
    #: Records with a non-empty error.
    errors: int
    #: Records that count: those without an error; with `--errors-as-wrong`, all; with `pass@K` and
    #: `pass^K`, only to questions with K of them.
    answers: int
    #: Questions with such answers.
    questions: int
    #: Answers by questions.
    answers_per_question: OptionalNumber
    #: The share of the evaluation's questions with such answers.
    coverage: float
    #: Answers with `is_correct`; a record with an error is never correct.
    correct: int
    #: Mean over questions of the share of correct answers.
    accuracy: OptionalNumber
    #: Standard error over questions.
    accuracy_standard_error: OptionalNumber
    #: Lower end of the 95 % interval.
    accuracy_low: OptionalNumber
    #: Upper end of the 95 % interval.
    accuracy_high: OptionalNumber
    #: Mean over questions of the mean score, where true is 1; null if it overflows a double.
    mean_score: OptionalNumber
    #: Standard error over questions.
    score_standard_error: OptionalNumber
    #: Lower end of the 95 % interval.
    score_low: OptionalNumber
    #: Upper end of the 95 % interval.
    score_high: OptionalNumber
    tokens: Tokens
    #: Mean over the records with a `token_usage`.
    tokens_per_record: OptionalNumber
    latency_ms: Latency
    #: The best rank that tests allow (docs/leaderboard.md#ranks).
    rank_best: OptionalInt = None
    #: The worst such rank.
    rank_worst: OptionalInt = None
    #: Why it is not ranked, and comes last.
    unranked: str = ""
    #: With several K, as in `--repeats-as pass^1..4`: the accuracy by each but the last.
    series: dict[str, OptionalNumber] = {}

    @property
    def rank(self) -> str:
        return rank_text(self.rank_best, self.rank_worst)


class EvaluationStats(ScopeNames):
    """One metric of an evaluation, or an evaluation without metrics."""

    #: Metrics that the evaluation has, chosen or not; none counts as one.
    metrics: int
    #: Whether the metric has scores other than 0 and 1.
    graded: bool
    #: What models are ranked by.
    by: str
    #: Whether a lower score is better.
    lower_is_better: bool
    #: Records of the chosen models; with `--common`, on common questions.
    records: int
    #: Records with a non-empty error.
    errors: int
    #: Models with records.
    models: int
    #: Models that were chosen.
    chosen: int
    #: Chosen models with answers.
    answering: int
    #: Questions of this evaluation.
    questions: int
    #: Values of `sample_id` with several `sample_hash` values.
    ids_with_many_hashes: int
    #: Questions answered by all chosen models with answers; null without `--common`.
    common_questions: OptionalInt
    #: The chosen models, best first; with `--common`, if they have a question in common.
    by_model: list[ModelStats]
    #: With `--cluster`: the clusters of its questions.
    clusters: OptionalInt = None
    #: With --group-by: the value of each field, null for records without it; null in totals.
    group: GroupValues | None = None

    @property
    def title(self) -> str:
        return title_of(
            self.evaluation_name, self.metric, self.metrics, self.group, lower=self.lower_is_better
        )


class Stats(Tabular):
    """How the models of each evaluation compare."""

    #: What models are ranked by. Unless it was chosen, graded metrics are ranked by score.
    by: str
    #: Whether tables show the accuracy of graded metrics, too.
    accuracy: bool
    #: Whether only common questions count: those answered by all chosen models of the evaluation
    #: that have answers.
    common: bool
    #: Whether records with an error count as wrong answers. If not, they do not count.
    errors_as_wrong: bool
    #: What several answers of a model to a question become (docs/repeats.md#in-statistics).
    repeats_as: str
    #: Unreadable shards that `--skip-bad-shards` left out of the corpus.
    skipped: list[str]
    corpus: CorpusFacts
    #: By evaluation and metric.
    evaluations: list[EvaluationStats]
    #: Metrics that are left out because they judge no answer: costs and bookkeeping.
    others: int = 0
    #: --cluster: standard errors, intervals and tests are over clusters of questions with the same
    #: value of this field; null if they are over questions.
    cluster: str | None = None
    #: With `--right`, `--wrong` or `--errors`: only records with these outcomes count.
    outcomes: tuple[str, ...] = ()
    #: Files of the corpus that are missing or cut, which these numbers do not need.
    damaged: list[str] = []

    def rows(self) -> Rows:
        """A row for each model of each evaluation and metric, best first."""
        return scope_rows(self.evaluations, "by_model")

    def shows_accuracy(self, evaluation: EvaluationStats) -> bool:
        """Whether to show the accuracy of models. `is_correct` of a graded metric means little."""
        return self.accuracy or not evaluation.graded


def add_groups(totals: Any, grouped: Iterable[Any], groups: Sequence[GroupBy]) -> None:
    """Put the groups of each evaluation and metric of a document behind it (`with_groups`).

    They have as many metrics as the evaluation.
    """
    metrics = {scope.evaluation_name: scope.metrics for scope in totals.evaluations}
    totals.evaluations = with_groups(totals.evaluations, grouped, groups)
    for evaluation in totals.evaluations:
        evaluation.metrics = metrics[evaluation.evaluation_name]


def largest(stats: Stats, number: int) -> Stats:
    every = stats.evaluations
    places = nlargest(number, range(len(every)), key=lambda at: every[at].records)
    return replace(stats, evaluations=[every[at] for at in sorted(places)])


# Sort keys by name: the best model has the smallest key, and None sorts last.
RANKINGS: dict[str, Callable[[ModelStats], Any]] = {
    "accuracy": lambda model: _highest_first(model.accuracy),
    "score": lambda model: _highest_first(model.mean_score),
    "coverage": lambda model: -model.coverage,
    "errors": lambda model: model.errors / model.records,
    "tokens": attrgetter("tokens_per_record"),
    "latency": attrgetter("latency_ms.p50"),
    "model": attrgetter("model_id"),
}


def _highest_first(value: OptionalNumber) -> OptionalNumber:
    return None if value is None else -value


def facts_of(summary: Summary) -> CorpusFacts:
    return filled(
        CorpusFacts,
        summary,
        upgraded=sum(
            count for version, count in summary.versions.items() if version != summary.schema
        ),
        repeats=summary.repeats.identities,
        contradictions=summary.contradictions.identities,
        same_run=summary.same_run.records,
        split_hashes=sum(evaluation.split_hashes for evaluation in summary.evaluations),
        recipe=summary.sample_hash.recipe,
        recipes=summary.sample_hash.by_recipe,
    )


def rank(
    chosen: Sequence[Chosen],
    corpus: CorpusFacts,
    by: str | None = None,
    *,
    accuracy: bool = False,
    common: bool = False,
    errors_as_wrong: bool = False,
    repeats_as: str = "mean",
    min_coverage: float = MIN_COVERAGE,
    skipped: Sequence[str] = (),
) -> Stats:
    """Rank the models of each evaluation and metric.

    By default, models are ranked by accuracy, or by score if the metric is graded. This also breaks
    ties, then the name does. With `errors_as_wrong`, records with an error count as wrong answers.
    Otherwise they do not count. If models are ranked by accuracy or score, those with less than
    `min_coverage` percent of the questions come last, unranked.
    """
    if not 0 <= min_coverage <= 100:
        raise UsageError(f"min_coverage must be between 0 and 100, not {min_coverage}")
    evaluations = []
    for choice in chosen:
        usual = "score" if choice.graded else "accuracy"
        ranked_by = by or usual
        models = [
            _model(
                model,
                choice.questions,
                errors_as_wrong=errors_as_wrong,
                reduced=repeats_as != "mean",
            )
            for model in choice.by_model
        ]
        if ranked_by in ("accuracy", "score"):
            least = 0.0 if common and choice.common_questions is not None else min_coverage
            for model in models:
                model.unranked = _why_unranked(model, least)
        models.sort(key=_order(ranked_by, usual, lower=choice.lower_is_better))
        evaluations.append(
            filled(
                EvaluationStats,
                choice,
                by=ranked_by,
                records=sum(model.records for model in models),
                errors=sum(model.errors for model in models),
                by_model=models,
            )
        )
    return Stats(
        by=by or "accuracy",
        accuracy=accuracy or by == "accuracy",
        common=common,
        errors_as_wrong=errors_as_wrong,
        repeats_as=repeats_as,
        skipped=list(skipped),
        corpus=corpus,
        evaluations=evaluations,
    )


def _why_unranked(model: ModelStats, min_coverage: float) -> str:
    if not model.questions:
        return "no answers"
    return f"{model.coverage:.1%} of the questions" if 100 * model.coverage < min_coverage else ""


def unranked_in_words(evaluation: EvaluationStats) -> list[str]:
    """Say which models are not ranked, and why, and whether models were asked in other words."""
    unranked = [model for model in evaluation.by_model if model.unranked]
    answering = [f"{model.model_id} ({model.unranked})" for model in unranked if model.questions]
    without = len(unranked) - len(answering)
    reasons = []
    if answering:
        reasons.append(listed(answering, _MOST))
    if without:
        reasons.append(f"{counted(without, 'model')} without answers")
    lines = [f"not ranked: {'; '.join(reasons)}"] if reasons else []
    # as many as if no two models were asked the same
    if evaluation.ids_with_many_hashes * evaluation.answering >= evaluation.questions > 0:
        several = counted(evaluation.ids_with_many_hashes, "sample_id")
        lines.append(
            f"{several} with several inputs or references, so models share fewer questions; if the "
            "id tells the question: import --question-by id"
        )
    return lines


def _order(*names: str, lower: bool) -> Callable[[ModelStats], tuple[Any, ...]]:
    keys = [
        attrgetter("mean_score") if lower and name == "score" else RANKINGS[name] for name in names
    ]

    def order(model: ModelStats) -> tuple[Any, ...]:
        values = [key(model) for key in keys]
        ranks = ((value is None, value or 0) for value in values)
        return bool(model.unranked), *ranks, model.model_id

    return order


def _model(
    model: ModelSummary, all_questions: int, *, errors_as_wrong: bool, reduced: bool
) -> ModelStats:
    """The numbers of a model; if repeats are `reduced` to one value, its answers count already."""
    means = model.errors_as_wrong if errors_as_wrong else model
    answers = model.records if errors_as_wrong and not reduced else model.answers
    questions = model.questions if errors_as_wrong else model.questions_answered
    low, high = wilson_interval(means.accuracy, means.accuracy_standard_error, questions, answers)
    score_low, score_high = score_interval(means.mean_score, means.score_standard_error)
    tokens = model.tokens
    try:
        per_record = from_portable(tokens.total) / tokens.records if tokens.records else None
    except OverflowError:  # too large for a double
        per_record = None
    return filled(
        ModelStats,
        means,
        model,
        answers=answers,
        questions=questions,
        answers_per_question=answers / questions if questions else None,
        coverage=questions / all_questions,
        accuracy_low=low,
        accuracy_high=high,
        score_low=score_low,
        score_high=score_high,
        tokens_per_record=per_record,
    )


def facts_in_words(facts: CorpusFacts) -> Iterator[str]:
    """Describe a corpus in a few short lines.

    What is as usual is left out, apart from the schema version.
    """
    text = f"schema {facts.schema}"
    if facts.upgraded:
        by_version = {f"of {version}": count for version, count in facts.versions.items()}
        text += f": {counted(facts.upgraded, 'line')} upgraded; lines: {_listed(by_version)}"
    yield text
    if facts.notes:
        yield f"notes on lines: {_listed(facts.notes)}"
    if facts.repeats or facts.contradictions:
        yield (
            f"identities with repeats: {facts.repeats:,}; with contradictions: "
            f"{facts.contradictions:,}"
        )
    if facts.split_hashes:
        text = "several sample_ids in one run: each sample_id is a question"
        yield (
            f"{facts.split_hashes:,} {'hash has' if facts.split_hashes == 1 else 'hashes have'} "
            f"{text}"
        )
    if facts.same_run:
        yield f"{counted(facts.same_run, 'record')} dropped that another run has, too"
    if facts.recipes.keys() - {facts.recipe, ABSENT}:
        names = {ABSENT: "without a hash", WRONG: "wrong"}
        spelled = {names.get(name, f"by {name}"): count for name, count in facts.recipes.items()}
        yield (
            f"hashes of lines: {_listed(spelled)}; the corpus has {facts.recipe} "
            "(overlap --by hashes)"
        )


def _listed(counts: Mapping[str, int]) -> str:
    named = [f"{count:,} {name}" for name, count in by_count(counts)]
    return ", ".join(named if len(named) <= _MOST else [*named[: _MOST - 1], "…"])


def about(evaluation: EvaluationStats) -> str:
    is_subset = evaluation.chosen < evaluation.models
    counts = [counted(evaluation.records, "record")]
    if evaluation.errors:
        counts.append(counted(evaluation.errors, "error"))
    counts.append(
        f"{f'{evaluation.chosen:,} of ' if is_subset else ''}{counted(evaluation.models, 'model')}"
    )
    counts.append(counted(evaluation.questions, "question"))
    if evaluation.clusters is not None:
        counts[-1] += f" in {counted(evaluation.clusters, 'cluster')}"
    if not evaluation.answering:
        counts.append("no answers")
    elif evaluation.common_questions is not None:
        everyone = f"all {'these ' if is_subset else ''}models"
        if evaluation.answering < evaluation.chosen:
            several = evaluation.answering > 1
            everyone = (
                f"all {evaluation.answering:,} models with answers"
                if several
                else "the one model with answers"
            )
        counts.append(f"{evaluation.common_questions:,} answered by {everyone}")
    return ", ".join(counts)


def has_repeats(evaluation: EvaluationStats) -> bool:
    return any(model.answers > model.questions for model in evaluation.by_model)


def repeats_in_words(repeats_as: str) -> list[str]:
    """Explain what several answers of a model to a question become, in short lines."""
    if repeats_as == "first":
        first = "Of several answers to a question, the first one counts: "
        return [f"{first}that of the lowest trial or epoch."]
    if repeats_as == "majority":
        first = (
            "majority: whether the answer that most trials gave is right, as it was "
            "extracted, or else the output."
        )
        return [first, "If two answers are as frequent, the question counts as wrong."]
    how_many = "at least one" if "@" in repeats_as else "all"
    number = counted(int(repeats_as[5:]), "answer")
    first = (
        f"{repeats_as}: the chance that {how_many} of {number} to a question would be right, "
        "estimated without bias"
    )
    return [first, f"from all of its answers. Questions with fewer than {number} do not count."]


def legend(stats: Stats) -> Iterator[str]:
    """Explain the tables of models."""
    if not any(evaluation.by_model for evaluation in stats.evaluations):
        return
    answered = [evaluation for evaluation in stats.evaluations if evaluation.answering]
    if any(map(stats.shows_accuracy, answered)):
        yield "95% interval: the range of accuracies that agree with the answers (Wilson)."
        yield "±: one standard error of the mean score. Both are computed over questions."
    if not all(map(stats.shows_accuracy, answered)):
        yield "Where scores are other than 0 and 1, the score counts; --accuracy shows both."
        yield "95% interval of a score: 1.96 standard errors over questions on each side."
    if any(model.rank for evaluation in answered for model in evaluation.by_model):
        yield "rank: what paired tests over common questions allow, 95 % jointly (Holm)."
    yield from cluster_in_words(stats.cluster)
    if stats.outcomes:
        chosen = " ".join(f"--{outcome}" for outcome in stats.outcomes)
        yield f"Only records chosen by {chosen} count: the accuracy says what was chosen."
    if any(evaluation.lower_is_better for evaluation in answered):
        yield "↓: lower scores are better."
    if stats.repeats_as != "mean":
        yield from repeats_in_words(stats.repeats_as)
    elif any(map(has_repeats, stats.evaluations)):
        yield "A question with several answers counts once, with the mean of its answers."
    if any(evaluation.errors for evaluation in stats.evaluations):
        if stats.errors_as_wrong:
            yield (
                "errors: records with an error. They count as wrong, with the score that they have."
            )
        else:
            yield "errors: records with an error. They do not count for accuracy and score;"
            yield "--errors-as-wrong counts them as wrong answers."
    yield from others_in_words(stats.others)
