"""`diff`: what changed between two corpora: records, fields, and answers that flipped between right and wrong.

1. Read both manifests and summaries; refuse corpora that cannot be compared (`plan`).
2. Skip parts that are the same in both; cut the rest into ranges of sort positions (`plan`).
3. One task per range merges both corpora and counts what differs (`merge`, `reader`, `fields`).
4. The unchanged pairs and their accuracy follow from the two summaries. The counts must add up. Test the flips for
   significance.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from fastrec.commands.diff.document import ChangedField, Counts, Difference, Examples, ModelDifference, Side
from fastrec.commands.diff.merge import Changes, compare_range
from fastrec.commands.diff.plan import BY, Corpus, check_by, make_plan, read_corpus
from fastrec.corpus.scan import VERIFY_HINT, run_in_order
from fastrec.engine import check_jobs
from fastrec.errors import CorpusError, UsageError, shown, utf8
from fastrec.limits import LIMITS, Limits

__all__ = ["Difference", "ModelDifference", "diff"]

_BITS: Final = 128  # precision of the McNemar test; a double has 53 bits


def diff(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    by: Sequence[str] = BY,
    fail_on: float | None = None,
    p: float = 0.05,
    examples: int = 10,
    jobs: int = 1,
    limits: Limits = LIMITS,
) -> Difference:
    """Compare two corpora that `normalize` published.

    Args:
        old: The earlier corpus.
        new: The later corpus.
        by: The fields in which matched records must agree.
        fail_on: A model regressed if its accuracy on an evaluation fell by more than this many percentage points …
        p: … and the p-value of the exact McNemar test is below this one.
        examples: Flips to list per verdict, evaluation and model, and records to list per kind of change.
        jobs: Processes to use; small corpora are compared in this process.
        limits: Sizes of buffers and ranges.

    Raises:
        UsageError: A path is not a corpus, the corpora cannot be compared, or another argument is invalid.
        CorpusError: A file of a corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    started = time.perf_counter()
    check_jobs(jobs)
    if examples < 0:
        raise UsageError(f"examples must be at least 0, not {examples}")
    if not 0 <= p <= 1 or (fail_on is not None and not 0 <= fail_on <= 100):
        raise UsageError("fail_on is a number of percentage points, from 0 to 100, and p a probability, from 0 to 1")
    match_by = check_by(by)
    before, after = read_corpus(os.fspath(old)), read_corpus(os.fspath(new))
    plan = make_plan(before, after, match_by, examples, limits)
    changes = Changes()
    for result in run_in_order(compare_range, plan.tasks, text_bytes=plan.text_bytes, jobs=jobs, limits=limits):
        changes.add(result, examples)
    models = [
        _compare_models(before, after, model, changes, fail_on=fail_on, p=p)
        for model in sorted(before.models.keys() | after.models.keys() | changes.counts.keys())
    ]
    fields = sorted(changes.fields.items(), key=lambda field: (-field[1], field[0]))
    sides = [
        Side(corpus=utf8(corpus.path), records=corpus.manifest.records, text_sha256=corpus.manifest.text_sha256)
        for corpus in (before, after)
    ]
    return Difference(
        old=sides[0],
        new=sides[1],
        by=match_by,
        fail_on=fail_on,
        p=p,
        counts=total(models),
        models=models,
        fields=[ChangedField(path=path, records=records) for path, records in fields],
        examples=Examples(**{kind: changes.examples[kind] for kind in Examples.__struct_fields__}),
        notices=plan.notices,
        text_bytes=before.manifest.text_bytes + after.manifest.text_bytes,
        parts_skipped=plan.skipped,
        seconds=time.perf_counter() - started,
    )


def _compare_models(
    old: Corpus, new: Corpus, model: tuple[str, str], changes: Changes, *, fail_on: float | None, p: float
) -> ModelDifference:
    """Combine the summaries of one model on one evaluation with what the tasks counted."""
    evaluation_name, model_id = model
    counts = changes.counts[model]
    old_records, old_correct = old.models.get(model, (0, 0))
    new_records, new_correct = new.models.get(model, (0, 0))
    common = old_records - counts["removed"] - counts["ambiguous_old"]
    old_correct -= counts["correct_old"]
    new_correct -= counts["correct_new"]
    gained = counts["wrong_to_right"] - counts["right_to_wrong"]
    adds_up = common == new_records - counts["added"] - counts["ambiguous_new"] and new_correct - old_correct == gained
    if not adds_up or counts["changed"] > common:
        reason = f"its records of {model_id!r} on {evaluation_name!r}, those of {shown(old.path)} and the two summaries"
        raise CorpusError(new.path, f"{reason} do not add up: one of the corpora is damaged; {VERIFY_HINT}")
    kinds = {name: counts[name] for name in Counts.__struct_fields__ if name != "unchanged"}
    value = mcnemar(counts["right_to_wrong"], counts["wrong_to_right"])
    return ModelDifference(
        evaluation_name=evaluation_name,
        model_id=model_id,
        common=common,
        old_correct=old_correct,
        new_correct=new_correct,
        old_accuracy=old_correct / common if common else None,
        new_accuracy=new_correct / common if common else None,
        points=100 * gained / common if common else None,
        right_to_wrong=counts["right_to_wrong"],
        wrong_to_right=counts["wrong_to_right"],
        p=value,
        regressed=fail_on is not None and value < p and -100 * gained > Fraction(str(fail_on)) * common,
        counts=Counts(unchanged=common - counts["changed"], **kinds),
        flips=changes.examples[*model, "wrong"] + changes.examples[*model, "right"],
    )


def total(models: Sequence[ModelDifference]) -> Counts:
    """Add up the counts of all models."""
    return Counts(**{name: sum(getattr(model.counts, name) for model in models) for name in Counts.__struct_fields__})


def mcnemar(one_way: int, other_way: int) -> float:
    """Return the p-value of the two-sided exact McNemar test: are the flips more one-sided than chance explains?

    If nothing really changed, each of n flipped answers is as likely to flip one way as the other. So the number of
    flips one way is binomial with probability one half, and the p-value is twice the tail up to the smaller count, at
    most 1:

        p = 2 · (C(n, 0) + C(n, 1) + … + C(n, min)) / 2ⁿ

    >>> mcnemar(0, 0), mcnemar(5, 5), mcnemar(0, 5), mcnemar(10, 2)
    (1.0, 1.0, 0.0625, 0.03857421875)
    """
    flips = one_way + other_way
    term = tail = 1
    dropped = 0  # low bits of both: keeping all bits would take seconds for a million flips
    for rank in range(min(one_way, other_way)):
        term = term * (flips - rank) // (rank + 1)
        tail += term
        if tail >> 2 * _BITS:
            term >>= _BITS
            tail >>= _BITS
            dropped += _BITS
    return min(1.0, 2 * tail / (1 << flips - dropped))  # Python divides integers exactly and rounds once
