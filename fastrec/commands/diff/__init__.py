"""`diff`: what changed between two corpora: records, fields, and results of questions.

1. Read both manifests and summaries; refuse corpora that cannot be compared (`plan`).
2. Cut both corpora into ranges of sort positions (`plan`).
3. Match the records of each range by their columns, and count what differs (`compare`). Tasks
   read the lines of pairs with different fingerprints (`fields`).
4. Test the differences for significance, and decide about failures.

Two matched records are equal if their lines have equal 64-bit fingerprints and equal sizes. The
chance that a difference is not noticed is 2⁻⁶⁴ for each pair of records with equal keys.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, islice
from math import inf
from time import perf_counter
from typing import Any, Literal, Unpack

from msgspec import convert

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.selection import Selection, check_known_fields, filter_selections
from fastrec.commands.diff.compare import Changes, Comparison, Records, Rules
from fastrec.commands.diff.document import (
    ChangedField,
    Counts,
    Difference,
    Examples,
    Failure,
    ModelDifference,
    Side,
    Status,
)
from fastrec.commands.diff.fields import CAUSES, LinesTask, compare_lines
from fastrec.commands.diff.names import rename_notices
from fastrec.commands.diff.plan import (
    BY,
    check_by,
    fields_to_compare,
    make_ranges,
    notices_of,
    numbers_in,
    position_fields,
    scopes_with,
    split_hashes,
)
from fastrec.corpus.scan import VERIFY_HINT, run_in_order
from fastrec.engine import check_jobs
from fastrec.errors import CorpusError, UsageError, check_choice, counted, utf8
from fastrec.filters import (
    FilterArguments,
    Strings,
    as_tuple,
    field_names,
    make_filters,
)
from fastrec.parameters import CORES, AnyPath
from fastrec.statistics.adjust import adjust_p_values
from fastrec.statistics.exact import to_double
from fastrec.statistics.paired import Differences, differences_of, p_values_of, power
from fastrec.summary.document import ModelName, ModelSummary, filled, scope_order
from fastrec.summary.present_choice import matches_one, names_of_scope
from fastrec.where import ScopeName
from fastrec.wording import by_count, points_per_unit

_COUNTED = (
    "old_records",
    "new_records",
    "old_questions",
    "new_questions",
    "old_answered",
    "questions",
)


def _compare(corpora: Sequence[QuestionTable], rules: Rules, jobs: int) -> Changes:
    """Compare the corpora range by range; lines are compared in several processes if that pays."""
    changes = Changes(rules.examples)
    ranges = make_ranges(corpora, rules.question)
    old, new = (corpus.selection for corpus in corpora)
    waiting = deque[Comparison]()  # for the result of their lines

    def make_tasks() -> Iterator[LinesTask]:
        for of_old, of_new in ranges:
            numbers = numbers_in(old, of_old), numbers_in(new, of_new)
            comparison = Comparison(Records(old, new, numbers), rules, changes)
            if comparison.text_bytes:
                waiting.append(comparison)
                yield comparison.lines()

    tasks = make_tasks()
    every = chain(list(islice(tasks, 1)), tasks)
    # The first lines tell how many there may be to read.
    text_bytes = sum(comparison.text_bytes for comparison in waiting) * len(ranges)
    most = min(jobs, len(ranges))
    for result in run_in_order(compare_lines, every, text_bytes=text_bytes, jobs=most):
        waiting.popleft().add_lines(*result)
    return changes


def _compare_models(
    corpora: Sequence[QuestionTable],
    changes: Changes,
    difference: Difference,
    *,
    scored: Collection[ScopeName],
    lower: Collection[ScopeName],
) -> list[ModelDifference]:
    """Make the results of all models.

    CorpusError if the records and the two summaries do not add up.
    """
    old, new = corpora
    graded = scopes_with("graded", corpora)
    other_scales = scopes_with("other_scale", corpora)
    models = []
    tested = []
    names = {*old.results, *new.results, *changes.numbers}
    for name in sorted(names, key=lambda name: (scope_order(name[:2]), name[2])):
        counts = changes.numbers[name]
        _check_records(old, name, counts["old_records"])
        _check_records(new, name, counts["new_records"])
        scope = name[:2]
        by_score = scope in scored
        is_lower = by_score and scope in lower
        differences = differences_of(changes.differences[name], counts["questions"])
        over = differences
        if difference.cluster:
            sums = changes.clusters[name].values()
            over = differences_of(Counter(map(Fraction, sums)), len(sums))
        before = old.results.get(name)
        after = new.results.get(name)
        model = ModelDifference(
            *name,
            graded=scope in graded,
            measure="score" if by_score else "accuracy",
            lower_is_better=is_lower,
            status=_status(before, after, counts, difference.min_compared),
            old_errors=before.errors if before else 0,
            new_errors=after.errors if after else 0,
            **{field: counts[field] for field in _COUNTED},
            other_scale=by_score and scope in other_scales,
            worse=differences.rose if is_lower else differences.fell,
            better=differences.fell if is_lower else differences.rose,
            clusters=over.questions,
            counts=convert(counts, Counts),
            losses={cause: counts[cause] for cause in CAUSES if counts[cause]},
            lost=changes.listed[name, "lost"],
            flips=[*changes.listed[name, is_lower], *changes.listed[name, not is_lower]],
        )
        models.append(model)
        if differences.questions:
            _add_statistics(model, counts, differences, over)
            tested.append((model, over))
    for (model, _), p in zip(tested, p_values_of([over for _, over in tested]), strict=True):
        model.p = p
    adjust_p_values(models)
    return models


def _check_records(corpus: QuestionTable, name: ModelName, records: int) -> None:
    if records != (corpus.results[name].records if name in corpus.results else 0):
        evaluation, metric, model_id = name
        by = "" if metric is None else f" by the metric {metric!r}"
        records_of = f"its records of {model_id!r} on {evaluation!r}{by}"
        raise CorpusError(
            corpus.corpus, f"{records_of} and its summary do not add up; {VERIFY_HINT}"
        )


def _status(
    before: ModelSummary | None,
    after: ModelSummary | None,
    counts: Mapping[str, Any],
    min_compared: float,
) -> Status:
    if not after:
        return "missing"
    if not before:
        return "new"
    if not counts["old_answered"]:
        return "unanswered"
    least = Fraction(str(min_compared)) * counts["old_answered"]
    return "compared" if 100 * counts["questions"] >= least else "incomplete"


def _add_statistics(
    model: ModelDifference, counts: Mapping[str, Any], differences: Differences, over: Differences
) -> None:
    """Add the means and the power of a test `over` these questions or their clusters."""
    for side in ("old", "new"):
        total = counts[f"{side}_means"]
        if not isinstance(total, float):
            setattr(model, f"{side}_{model.measure}", to_double(total / differences.questions))
    points_each = points_per_unit(other_scale=model.other_scale)
    gain = -differences.total if model.lower_is_better else differences.total
    model.points = to_double(points_each * gain / differences.questions)
    model.test = over.test
    detectable, model.questions_needed, *_ = power(
        over, graded=model.measure == "score", all_questions=differences.questions
    )
    if detectable is not None:
        model.detectable = points_each * detectable


def _side(corpus: QuestionTable) -> Side:
    records = sum(model.records for model in corpus.results.values())
    return filled(Side, corpus.manifest, corpus=utf8(corpus.corpus), records=records)


def _check_gate(*, fail_on: float | None, p: float, p_adjust: str, min_compared: float) -> None:
    if not 0 <= p <= 1 or (fail_on is not None and not 0 <= fail_on < inf):
        raise UsageError(
            "fail_on is a number of points, at least 0, and p a probability, from 0 to 1"
        )
    if not 0 <= min_compared <= 100:
        raise UsageError(f"min_compared is a percentage, from 0 to 100, not {min_compared}")
    check_choice("p_adjust", p_adjust, ("bh", "none"))


def _find_failures(difference: Difference) -> Iterator[Failure]:
    """Mark the models that regressed, and yield why the exit code is 1; nothing without `fail_on`.

        regressed    accuracy or mean score fell by more than the limit, not only by chance
        missing      OLD has records of the model on this evaluation and metric, NEW has none
        incomplete   too few of the questions that it answered in OLD could be compared

    A model without any answer in OLD has nothing to lose: its status says that it was not compared.
    """
    if difference.fail_on is None:
        return
    regressed = f"lost more than {difference.fail_on:g} points with {difference.threshold}"
    for model in difference.models:
        if model.points is not None and difference.is_significant(model):
            model.regressed = -model.points > difference.fail_on
        if model.regressed:
            yield filled(Failure, model, reason="regressed", message=regressed)
    for reason in ("missing", "incomplete"):
        for model in difference.models:
            if model.status == reason and not any(
                _matches(pattern, model) for pattern in difference.allow_missing
            ):
                message = "is missing in NEW" if reason == "missing" else _shortfall(model)
                yield filled(Failure, model, reason=reason, message=message)


def _find_scopes(
    patterns: Sequence[str], scored: Collection[ScopeName]
) -> tuple[set[ScopeName], list[str]]:
    """Find what is compared by score and matches a pattern.

    Return it with notices of patterns that match nothing.
    """
    scopes = set()
    notices = []
    for pattern in patterns:
        matching = {scope for scope in scored if matches_one(pattern, names_of_scope(*scope))}
        if not matching:
            notices.append(
                f"--lower-is-better {pattern!r} matches nothing that is compared by score"
            )
        scopes |= matching
    return scopes, notices


def _matches(pattern: str, model: ModelDifference) -> bool:
    """Whether a pattern matches the model, the evaluation, the metric, or them joined by `/`."""
    evaluation, *others = names_of_scope(model.evaluation_name, model.metric)
    # Not `metric/model`: it would look like `evaluation/model`.
    names = [model.model_id, evaluation, *others, f"{evaluation}/{model.model_id}"]
    names += [f"{name}/{model.model_id}" for name in others[1:]]
    return matches_one(pattern, names)


def _shortfall(model: ModelDifference) -> str:
    """Say how much of an incomplete model was compared, and whether errors may be the reason."""
    text = f"was compared on {model.questions:,} of {counted(model.old_answered, 'question')} only"
    if model.old_errors or model.new_errors:
        text += f" ({counted(model.old_errors, 'error')} in OLD, {model.new_errors:,} in NEW)"
    return text


def diff(
    old: AnyPath,
    new: AnyPath,
    *,
    by: Strings = BY,
    fail_on: float | None = None,
    p: float = 0.05,
    p_adjust: Literal["bh", "none"] = "bh",
    min_compared: float = 95,
    allow_missing: Strings = (),
    errors_as_wrong: bool = False,
    accuracy: bool = False,
    lower_is_better: Strings = (),
    cluster: str | None = None,
    examples: int = 10,
    jobs: int = CORES,
    **filters: Unpack[FilterArguments],
) -> Difference:
    """Compare two corpora that `normalize` published.

    Args:
        old: The earlier corpus.
        new: The later corpus.
        by: The fields in which matched records must agree. Their metrics (`evaluation_result_id`)
            always agree.
        fail_on: A model regressed if its accuracy on an evaluation fell by more than this many
            percentage points, or its mean score by more than this many hundredths …
        p: … and the p-value is below this one. Without `fail_on`, nothing is a failure.
        p_adjust: `bh` compares the p-value adjusted for the number of models with `p`, `none` the
            p-value itself.
        min_compared: A model is incomplete if less than this percentage of the questions that it
            answered in OLD could be compared.
        allow_missing: Shell-style patterns of model ids, evaluation names, metrics,
            `evaluation/model`, `evaluation/metric` or `evaluation/metric/model`: these may be
            missing in NEW, or incomplete.
        errors_as_wrong: Count a record with an error as a wrong answer, instead of as none.
        accuracy: Compare accuracies for graded metrics, too, instead of their scores.
        lower_is_better: Shell-style patterns of metrics, evaluation names, or `evaluation/metric`:
            of graded metrics that match, a lower score counts as better.
        cluster: Tests are over clusters of questions with the same value of this field in OLD.
        examples: Flips to list per direction, evaluation and model, and records to list per kind of
            change.
        jobs: Processes to use; small corpora are compared in this process.
        **filters: Compare only records that match these (`FilterArguments`).

    Raises:
        UsageError: A path is not a corpus, the corpora cannot be compared, no record matches, or
            another argument is invalid.
        CorpusError: A file of a corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    started = perf_counter()
    check_jobs(jobs)
    if examples < 0:
        raise UsageError(f"examples must be at least 0, not {examples}")
    allowed = as_tuple("allow_missing", allow_missing)
    lower = as_tuple("lower_is_better", lower_is_better)
    _check_gate(fail_on=fail_on, p=p, p_adjust=p_adjust, min_compared=min_compared)
    match_by = check_by(field_names("by", by))
    wanted = make_filters(**filters)
    selections = [Selection(corpus, jobs=jobs) for corpus in (old, new)]
    check_known_fields(selections, wanted, cluster=cluster)
    # One of them may have no matching record: then its models are missing.
    first, second = filter_selections(selections, wanted)
    if cluster and first.scopes:
        first.set_clusters(cluster)
    corpora = QuestionTable(first), QuestionTable(second)
    before, after = corpora
    scored = frozenset() if accuracy else scopes_with("graded", corpora)
    match_by = fields_to_compare(before, after, match_by)
    rules = Rules(
        question=position_fields(before, after, match_by),
        by=match_by,
        scored=scored,
        errors_as_wrong=errors_as_wrong,
        split=split_hashes(corpora),
        examples=examples,
    )
    changes = _compare(corpora, rules, jobs)
    lower_scopes, notices = _find_scopes(lower, scored)
    texts = [{part.entry.text_xxh3_128 for part in corpus.selection.parts} for corpus in corpora]
    difference = filled(
        Difference,
        rules,
        old=_side(before),
        new=_side(after),
        accuracy=accuracy,
        cluster=cluster,
        lower_is_better=lower,
        fail_on=fail_on,
        p=p,
        p_adjust=p_adjust,
        min_compared=min_compared,
        allow_missing=allowed,
        failures=[],
        counts=Counts(),
        models=[],
        fields=[
            ChangedField(path=path, records=records) for path, records in by_count(changes.fields)
        ],
        examples=Examples(**{kind: changes.listed[kind] for kind in Examples.__struct_fields__}),
        filters=wanted.spelled(),
        notices=[*notices_of(before, after, wanted), *notices, *rename_notices(before, after)],
        text_bytes=before.manifest.text_bytes + after.manifest.text_bytes,
        parts_skipped=len(set.intersection(*texts)),
        seconds=0.0,
    )
    lower_scopes |= scopes_with("lower_is_better", corpora)
    difference.models = _compare_models(
        corpora, changes, difference, scored=scored, lower=lower_scopes
    )
    for model in difference.models:
        difference.counts += model.counts
    for pattern in allowed:
        if not any(model.old_records and _matches(pattern, model) for model in difference.models):
            difference.notices.append(
                f"--allow-missing {pattern!r} matches no model and no evaluation of OLD"
            )
    difference.failures = list(_find_failures(difference))
    difference.seconds = perf_counter() - started
    return difference
