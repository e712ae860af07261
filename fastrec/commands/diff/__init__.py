"""`diff`: what changed between two corpora: records, fields, and answers that flipped between right and wrong.

1. Read both manifests and summaries; refuse corpora that cannot be compared (`plan`).
2. Skip parts that are the same in both; cut the rest into ranges of sort positions (`plan`).
3. One task per range merges both corpora and counts what differs (`merge`, `reader`, `fields`, `changes`).
4. The unchanged pairs and their accuracy follow from the two summaries. The counts must add up. Test the flips for
   significance (`mcnemar`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from fractions import Fraction

from fastrec.commands.diff.changes import Changes, ModelChanges
from fastrec.commands.diff.document import ChangedField, Counts, Difference, ModelDifference, Side
from fastrec.commands.diff.mcnemar import mcnemar
from fastrec.commands.diff.merge import compare_range
from fastrec.commands.diff.plan import BY, Corpus, check_by, make_plan, read_corpus
from fastrec.corpus.scan import VERIFY_HINT, run_in_order
from fastrec.engine import check_jobs
from fastrec.errors import CorpusError, UsageError, shown, utf8
from fastrec.limits import LIMITS, Limits

__all__ = ["Difference", "ModelDifference", "diff"]


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
    fields = check_by(by)
    before, after = read_corpus(os.fspath(old)), read_corpus(os.fspath(new))
    plan = make_plan(before, after, fields, examples, limits)
    changes = Changes()
    for result in run_in_order(compare_range, plan.tasks, text_bytes=plan.text_bytes, jobs=jobs, limits=limits):
        changes.add(result, examples)
    models = [
        _compare_models(before, after, key, changes.models.get(key, ModelChanges()), fail_on=fail_on, p=p)
        for key in sorted(before.models.keys() | after.models.keys() | changes.models.keys())
    ]
    return Difference(
        old=_side(before),
        new=_side(after),
        by=fields,
        fail_on=fail_on,
        p=p,
        counts=total(models),
        models=models,
        fields=[
            ChangedField(path=path, records=records)
            for path, records in sorted(changes.fields.items(), key=lambda field: (-field[1], field[0]))
        ],
        examples=changes.examples,
        notices=plan.notices,
        text_bytes=before.manifest.text_bytes + after.manifest.text_bytes,
        parts_skipped=plan.skipped,
        seconds=time.perf_counter() - started,
    )


def _side(corpus: Corpus) -> Side:
    manifest = corpus.manifest
    return Side(corpus=utf8(corpus.path), records=manifest.records, text_sha256=manifest.text_sha256)


def _compare_models(
    old: Corpus, new: Corpus, key: tuple[str, str], changes: ModelChanges, *, fail_on: float | None, p: float
) -> ModelDifference:
    """Combine the summaries of one model on one evaluation with what the tasks counted."""
    counts = changes.counts
    old_records, old_correct = old.models.get(key, (0, 0))
    new_records, new_correct = new.models.get(key, (0, 0))
    common = old_records - counts["removed"] - counts["ambiguous_old"]
    old_correct -= counts["correct_old"]
    new_correct -= counts["correct_new"]
    gained = counts["wrong_to_right"] - counts["right_to_wrong"]
    adds_up = common == new_records - counts["added"] - counts["ambiguous_new"] and new_correct - old_correct == gained
    if not adds_up or counts["changed"] > common:
        raise CorpusError(
            new.path,
            f"its records of {key[1]!r} on {key[0]!r}, those of {shown(old.path)} and the two summaries do not add up: "
            f"one of the corpora is damaged; {VERIFY_HINT}",
        )
    kinds = {name: counts[name] for name in Counts.__struct_fields__ if name != "unchanged"}
    value = mcnemar(counts["right_to_wrong"], counts["wrong_to_right"])
    return ModelDifference(
        evaluation_name=key[0],
        model_id=key[1],
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
        flips=changes.flips[False] + changes.flips[True],
    )


def total(models: Sequence[ModelDifference]) -> Counts:
    """Add up the counts of all models."""
    return Counts(**{name: sum(getattr(model.counts, name) for model in models) for name in Counts.__struct_fields__})
