"""`diff`: what changed between two corpora: records, fields, and how many samples flipped from right to wrong and back.

1. Read both manifests and summaries; refuse corpora that cannot be compared (`plan`).
2. Leave out parts that are the same in both; cut the rest into ranges of places (`plan`, `places`).
3. One task per range: merge, and count what is not equal (`merge`, `side`, `fields`, `changes`).
4. From the two summaries and what is not equal follows how many pairs are, and their accuracy; test the flips
   (`mcnemar`). The books must balance.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from fractions import Fraction

from fastrec.commands.diff.changes import Changes, ModelChanges
from fastrec.commands.diff.document import (
    DIFF_FORMAT,
    ChangedField,
    Counts,
    Difference,
    Examples,
    Flip,
    ModelDifference,
    RecordName,
    Side,
)
from fastrec.commands.diff.mcnemar import mcnemar
from fastrec.commands.diff.merge import OTHER_FIELDS, compare_range
from fastrec.commands.diff.places import BY, check_by
from fastrec.commands.diff.plan import Corpus, make_plan, read_corpus
from fastrec.engine import make_engine
from fastrec.engine.jobs import jobs_for
from fastrec.errors import CorpusError, UsageError, shown, utf8

__all__ = [
    "BY",
    "DIFF_FORMAT",
    "OTHER_FIELDS",
    "ChangedField",
    "Counts",
    "Difference",
    "Examples",
    "Flip",
    "ModelDifference",
    "RecordName",
    "Side",
    "diff",
    "mcnemar",
]


def diff(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    by: Sequence[str] = BY,
    fail_on: float | None = None,
    p: float = 0.05,
    examples: int = 10,
    jobs: int = 1,
) -> Difference:
    """Compare two corpora that `normalize` published.

    Args:
        old: The corpus of before.
        new: The corpus of now.
        by: The fields by which records of both are partners.
        fail_on: A model has regressed if its accuracy on an evaluation fell by more than so many percentage points …
        p: … and the exact McNemar test gives a p-value below this one.
        examples: How many flips of each kind, for each evaluation and model, and records of each kind to list.
        jobs: Processes to use; small corpora are compared in this one anyway.

    Raises:
        UsageError: One is no corpus, or the two cannot be compared, or another argument makes no sense.
        CorpusError: A file of one of them is damaged.
        ShardError: A part could not be read whole.
    """
    started = time.perf_counter()
    if jobs < 1:
        raise UsageError(f"there must be at least one job, not {jobs}")
    if examples < 0:
        raise UsageError(f"there cannot be {examples} examples")
    if not 0 <= p <= 1 or (fail_on is not None and not 0 <= fail_on <= 100):
        raise UsageError("fail_on is a number of percentage points, from 0 to 100, and p a probability, from 0 to 1")
    before, after = read_corpus(os.fspath(old)), read_corpus(os.fspath(new))
    planned = make_plan(before, after, check_by(by), examples)
    changes = Changes()
    with make_engine(jobs_for(planned.text_bytes, len(planned.ranges), jobs)) as engine:
        results = dict(engine.run(compare_range, planned.ranges))
    for _, result in sorted(results.items(), key=lambda numbered: numbered[0]):
        changes.add(result, examples)
    models = _models(before, after, changes, fail_on, p)
    return Difference(
        old=_side(before),
        new=_side(after),
        by=planned.by,
        fail_on=fail_on,
        p=p,
        counts=_total(models),
        models=models,
        fields=[
            ChangedField(path=path, records=records)
            for path, records in sorted(changes.fields.items(), key=lambda field: (-field[1], field[0]))
        ],
        examples=changes.examples,
        notices=planned.notices,
        text_bytes=before.manifest.text_bytes + after.manifest.text_bytes,
        parts_skipped=planned.skipped,
        seconds=time.perf_counter() - started,
    )


def _side(corpus: Corpus) -> Side:
    manifest = corpus.manifest
    return Side(corpus=utf8(corpus.path), records=manifest.records, text_sha256=manifest.text_sha256)


def _models(old: Corpus, new: Corpus, changes: Changes, fail_on: float | None, p: float) -> list[ModelDifference]:
    """Put together what is known of each evaluation and model."""
    models = []
    for key in sorted(old.accounts.keys() | new.accounts.keys() | changes.models.keys()):
        found = changes.models.get(key, ModelChanges())
        counts = found.counts
        old_records, old_correct = old.accounts.get(key, (0, 0))
        new_records, new_correct = new.accounts.get(key, (0, 0))
        common = old_records - counts.removed - counts.ambiguous_old
        old_right = old_correct - found.correct_removed
        new_right = new_correct - found.correct_added
        gained = found.wrong_to_right - found.right_to_wrong
        balanced = common == new_records - counts.added - counts.ambiguous_new and new_right - old_right == gained
        if not balanced or not 0 <= counts.changed <= common:
            raise CorpusError(
                str(new.path),
                f"its records of {key[1]!r} on {key[0]!r}, those of {shown(str(old.path))} and the two summaries do "
                "not add up: one of the corpora is damaged, `fastrec verify` says which",
            )
        counts.unchanged = common - counts.changed
        value = mcnemar(found.right_to_wrong, found.wrong_to_right)
        models.append(
            ModelDifference(
                evaluation_name=key[0],
                model_id=key[1],
                common=common,
                old_correct=old_right,
                new_correct=new_right,
                old_accuracy=old_right / common if common else None,
                new_accuracy=new_right / common if common else None,
                points=100 * gained / common if common else None,
                right_to_wrong=found.right_to_wrong,
                wrong_to_right=found.wrong_to_right,
                p=value,
                regressed=fail_on is not None and value < p and -100 * gained > Fraction(str(fail_on)) * common,
                counts=counts,
                flips=found.flips[False] + found.flips[True],
            )
        )
    return models


def _total(models: Sequence[ModelDifference]) -> Counts:
    return Counts(**{name: sum(getattr(model.counts, name) for model in models) for name in Counts.__struct_fields__})
