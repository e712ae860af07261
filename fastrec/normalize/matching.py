"""A corpus of the records that match some filters, for commands that need the statistics of these records.

It is made by `normalize` in a temporary directory, from the parts of another corpus: with the same sort order, schema
version and hashes. So nothing is counted in a second way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fastrec.corpus.documents import read_manifest
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import VERIFY_HINT, parts_of
from fastrec.errors import BadShardsError, CorpusError
from fastrec.filters import Filters
from fastrec.limits import LIMITS, Limits
from fastrec.normalize.options import Options
from fastrec.normalize.scratch import SCRATCH_LEVEL, scratch_corpus
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.sources.shard import shard_at
from fastrec.storage import join

__all__ = ["matching_corpus"]


@contextlib.contextmanager
def matching_corpus(
    corpus: str,
    filters: Filters,
    *,
    jobs: int = 1,
    may_be_empty: bool = False,
    work_dir: str | None = None,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
) -> Iterator[str]:
    """Yield the directory of a corpus with only the matching records; without filters, the corpus itself.

    Raises:
        UsageError: The directory is not a corpus, or no record matches and it must not be empty.
        CorpusError: The corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    if not filters:
        yield corpus
        return
    manifest = read_manifest(corpus)
    options = Options(
        schema=CORPUS_LABELS[manifest.schema].name,
        hash_algorithm=str(manifest.options.get("hash", "sha256")),
        sample_hash="fill",
        sort_by=manifest.sort_fields,
        level=SCRATCH_LEVEL,
        jobs=jobs,
        filters=filters,
        may_be_empty=may_be_empty,
        work_dir=work_dir,
        limits=limits,
    )
    shards = [shard_at(part.path) for part in parts_of(corpus, manifest)]
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(scratch_corpus(shards, options, progress=progress))
        except BadShardsError as exc:
            raise exc.errors[0] from exc
        _check(corpus, manifest, made.manifest)
        # What was skipped when the corpus was made is missing here, too.
        made.manifest.skipped = manifest.skipped
        made.write_manifest()
        yield made.directory


def _check(corpus: str, manifest: Manifest, made: Manifest) -> None:
    """Check that every line of each part was a record, and that there are as many as the manifest says."""
    for part, found in zip(manifest.parts, made.inputs, strict=True):
        path = join(corpus, part.file)
        if found.rejected or found.blank:
            raise CorpusError(path, f"has lines that are not records in normal form; {VERIFY_HINT}")
        if (records := found.lines + found.filtered) != part.records:
            reason = f"has {records:,} records, but the manifest says {part.records:,}; {VERIFY_HINT}"
            raise CorpusError(path, reason)
