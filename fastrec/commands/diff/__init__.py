"""`diff`: what changed between two corpora: records, fields, and the accuracy or score of each question.

1. Read both manifests and summaries; refuse corpora that cannot be compared (`plan`).
2. Skip parts that are the same in both; cut the rest into ranges of sort positions (`plan`).
3. One task per range merges both corpora and counts what differs (`merge`, `reader`, `fields`, `changes`).
4. The numbers of questions that were not read follow from the two summaries, and must add up (`questions`, `models`).
5. Test the differences for significance, and decide about failures (`significance`, `gate`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import Literal, Unpack

from fastrec.arguments import Strings, field_names, several
from fastrec.commands.diff.changes import Changes
from fastrec.commands.diff.document import ChangedField, Counts, Difference, Examples, ModelDifference, Side
from fastrec.commands.diff.gate import Gate, find_scopes
from fastrec.commands.diff.merge import compare_range
from fastrec.commands.diff.models import compare_models
from fastrec.commands.diff.plan import BY, Corpus, check_by, make_plan, read_corpus
from fastrec.corpus.scan import run_in_order
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, utf8
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.limits import LIMITS, Limits
from fastrec.normalize.matching import matching_corpus

__all__ = ["Difference", "ModelDifference", "diff"]


def diff(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
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
    examples: int = 10,
    jobs: int = 1,
    limits: Limits = LIMITS,
    **filters: Unpack[FilterArguments],
) -> Difference:
    """Compare two corpora that `normalize` published.

    Args:
        old: The earlier corpus.
        new: The later corpus.
        by: The fields in which matched records must agree. Their metrics (`evaluation_result_id`) always agree.
        fail_on: A model regressed if its accuracy on an evaluation fell by more than this many percentage points, or
            its mean score by more than this many hundredths …
        p: … and the p-value is below this one. Without `fail_on`, nothing is a failure.
        p_adjust: `bh` compares the p-value adjusted for the number of models with `p`, `none` the p-value itself.
        min_compared: A model is incomplete if less than this percentage of the questions that it answered in OLD could
            be compared.
        allow_missing: Shell-style patterns of model ids, evaluation names, metrics, `evaluation/model`,
            `evaluation/metric` or `evaluation/metric/model`: these may be missing in NEW, or incomplete.
        errors_as_wrong: Count a record with an error as a wrong answer, instead of as none.
        accuracy: Compare accuracies for graded metrics, too, instead of their scores.
        lower_is_better: Shell-style patterns of metrics, evaluation names, or `evaluation/metric`: of graded metrics
            that match, a lower score counts as better.
        examples: Flips to list per direction, evaluation and model, and records to list per kind of change.
        jobs: Processes to use; small corpora are compared in this process.
        limits: Sizes of buffers and ranges.
        **filters: Compare only records that match these (`FilterArguments`).

    Raises:
        UsageError: A path is not a corpus, the corpora cannot be compared, no record matches, or another argument is
            invalid.
        CorpusError: A file of a corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    started = time.perf_counter()
    check_jobs(jobs)
    if examples < 0:
        raise UsageError(f"examples must be at least 0, not {examples}")
    allowed, lower = several("allow_missing", allow_missing), several("lower_is_better", lower_is_better)
    gate = Gate(fail_on=fail_on, p=p, p_adjust=p_adjust, min_compared=min_compared, allow_missing=allowed)
    gate.check()
    match_by = check_by(field_names("by", by))
    wanted = make_filters(**filters)
    with contextlib.ExitStack() as stack:
        before, after = _read(stack, os.fspath(old), os.fspath(new), wanted, jobs=jobs, limits=limits)
        scored = frozenset() if accuracy else before.graded | after.graded
        plan = make_plan(
            before, after, match_by, scored, errors_as_wrong=errors_as_wrong, examples=examples, limits=limits
        )
        changes = Changes(scored)
        for result in run_in_order(compare_range, plan.tasks, text_bytes=plan.text_bytes, jobs=jobs, limits=limits):
            changes.add(result, examples)
    lower_scopes, lower_notices = find_scopes(lower, scored)
    models = compare_models(
        before,
        after,
        changes,
        lower_is_better=lower_scopes,
        min_compared=min_compared,
        errors_as_wrong=errors_as_wrong,
        all_read=plan.read_all,
    )
    gate.mark_regressed(models)
    changed = sorted(changes.fields.items(), key=lambda field: (-field[1], field[0]))
    sides = [
        Side(
            corpus=utf8(corpus.path),
            records=corpus.manifest.records,
            text_xxh3_128=corpus.manifest.text_xxh3_128,
            text_sha256=corpus.manifest.text_sha256,
        )
        for corpus in (before, after)
    ]
    return Difference(
        old=sides[0],
        new=sides[1],
        by=plan.by,
        question=plan.fields,
        errors_as_wrong=errors_as_wrong,
        accuracy=accuracy,
        lower_is_better=lower,
        fail_on=fail_on,
        p=p,
        p_adjust=p_adjust,
        min_compared=min_compared,
        allow_missing=gate.allow_missing,
        failures=list(gate.failures(models)),
        counts=total(models),
        models=models,
        fields=[ChangedField(path=path, records=records) for path, records in changed],
        examples=Examples(**{kind: changes.examples[kind] for kind in Examples.__struct_fields__}),
        filters=str(wanted),
        notices=[
            *([f"only records that match {wanted}"] if wanted else []),
            *plan.notices,
            *lower_notices,
            *gate.notices(models),
        ],
        text_bytes=before.manifest.text_bytes + after.manifest.text_bytes,
        parts_skipped=plan.skipped,
        seconds=time.perf_counter() - started,
    )


def _read(
    stack: contextlib.ExitStack, old: str, new: str, filters: Filters, *, jobs: int, limits: Limits
) -> tuple[Corpus, Corpus]:
    """Read both corpora, or what matches of them. One of them may have no matching record: its models are missing."""
    found: list[Corpus] = []
    for path in (old, new):
        may_be_empty = not found or found[0].manifest.records > 0
        matching = matching_corpus(path, filters, jobs=jobs, may_be_empty=may_be_empty, limits=limits)
        found.append(read_corpus(stack.enter_context(matching), path))
    return found[0], found[1]


def total(models: Sequence[ModelDifference]) -> Counts:
    """Add up the counts of all models."""
    return Counts(**{name: sum(getattr(model.counts, name) for model in models) for name in Counts.__struct_fields__})
