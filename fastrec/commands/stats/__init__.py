"""`stats`: how the models of each evaluation compare.

1. What is given is one published corpus: its summary says it all. Or it is any pile of shards: both passes of
   `normalize` make a corpus of them in a scratch directory, so that copies count once and every number is the one
   that the corpus would have; nothing is published.
2. With `common`, read the records (`common`): only samples that all chosen models answered count.
3. Choose evaluations and models, and rank them (`ranking`).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fastrec.commands.stats.choice import choose
from fastrec.commands.stats.common import only_common
from fastrec.commands.stats.document import EvaluationStats, ModelStats, Stats
from fastrec.commands.stats.ranking import RANKINGS, rank
from fastrec.corpus.documents import MANIFEST, read_manifest, read_summary
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.publish import Kind, Workplace
from fastrec.errors import BadShardsError, FastrecError, UsageError
from fastrec.normalize.options import Options
from fastrec.normalize.progress import Progress
from fastrec.normalize.run import run_passes
from fastrec.sorting.keys import FIELDS
from fastrec.sources.inputs import find_shards
from fastrec.storage import exists, join
from fastrec.summary.document import Summary

__all__ = ["RANKINGS", "EvaluationStats", "ModelStats", "Stats", "stats", "stats_of"]

_LEVEL: Final = -1  # of compression in the scratch directory: what is read once need not be small
_SIDE_BY_SIDE: Final = set(FIELDS[:2])
"""A corpus that is sorted by these two first has the same question side by side."""


def stats(
    inputs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    by: str = "accuracy",
    evaluations: Sequence[str] = (),
    models: Sequence[str] = (),
    common: bool = False,
    jobs: int = 1,
    work_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
) -> Stats:
    """Compare the models of each evaluation.

    Args:
        inputs: One corpus that `normalize` published; or shards: files, directories, globs, or `-`.
        by: What to rank by, one of `RANKINGS`.
        evaluations: Patterns of evaluation names, as in a shell; all if there are none.
        models: Patterns of model ids.
        common: Count only samples that all chosen models of an evaluation answered.
        jobs: Processes to use.
        work_dir: Where to put temporary files; the system's place for those by default.
        progress: Hears how far it is, if shards have to be read.
        notice: Hears what is good to know.

    Raises:
        UsageError: An argument makes no sense, or a pattern matches nothing.
        CorpusError: The manifest, the summary or a part of the corpus is damaged.
        ShardError: A part of the corpus could not be read whole.
        FastrecError: Some shards could not be read whole; all of them are named.
    """
    if by not in RANKINGS:
        raise UsageError(f"by must be one of {', '.join(RANKINGS)}, not {by!r}")
    names = [os.fspath(name) for name in ([inputs] if isinstance(inputs, (str, os.PathLike)) else inputs)]
    note = notice or (lambda _message: None)
    options = Options(level=_LEVEL, jobs=jobs, work_dir=None if work_dir is None else os.fspath(work_dir))
    with contextlib.ExitStack() as stack:
        if len(names) == 1 and exists(join(names[0], MANIFEST)):
            corpus = names[0]
            manifest = read_manifest(corpus)
            summary = read_summary(corpus, manifest)
        else:
            corpus, manifest, summary = stack.enter_context(_sorted(names, options, progress=progress, notice=note))
            counts = summary.line_counts
            if counts.rejected:
                note(f"{counts.rejected:,} of {counts.lines:,} lines are not valid, and do not count")
        chosen = choose(summary, evaluations, models)
        if not common:
            return rank(chosen, by)
        if set(manifest.sort_fields[:2]) != _SIDE_BY_SIDE:
            order = ", ".join(manifest.sort_fields[:2])
            note(f"the corpus is sorted by {order}: it is sorted anew to find the common samples")
            options = msgspec.structs.replace(options, sample_hash="fill")  # those of the corpus stand
            corpus, manifest, _ = stack.enter_context(_sorted([corpus], options, progress=progress, notice=note))
        return rank(only_common(chosen, corpus, manifest, jobs=jobs), by)


def stats_of(summary: Summary) -> Stats:
    """Rank all models of a summary by accuracy."""
    return rank(choose(summary, (), ()), "accuracy")


@contextlib.contextmanager
def _sorted(
    names: Sequence[str],
    options: Options,
    *,
    progress: Progress | None,
    notice: Callable[[str], None],
) -> Iterator[tuple[str, Manifest, Summary]]:
    """Make a corpus that is gone after use."""
    shards, notices = find_shards(names)
    for message in notices:
        notice(message)
    if options.work_dir:
        Path(options.work_dir).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fastrec-", dir=options.work_dir) as scratch:
        place = Workplace(Path(scratch) / "corpus", Kind("a corpus", MANIFEST), join(scratch, "work"))
        place.prepare(fresh=True)
        try:
            manifest, summary = run_passes(shards, options, place, progress=progress, notice=notice)
        except BadShardsError as exc:
            raise _without_statistics(exc) from exc
        yield str(place.staging), manifest, summary


def _without_statistics(exc: BadShardsError) -> FastrecError:
    count = "1 shard" if len(exc.errors) == 1 else f"{len(exc.errors):,} shards"
    return FastrecError(
        "\n".join(
            [
                f"{count} could not be read whole, so there are no statistics:",
                *(f"  {error}" for error in exc.errors),
                "Fetch them again, or leave them out.",
            ]
        )
    )
