"""A corpus in a temporary directory, which is removed afterwards, also after errors and signals."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, Unpack

import msgspec

from fastrec.corpus.manifest import MANIFEST, Manifest, read_manifest
from fastrec.corpus.output import CORPUS
from fastrec.corpus.publish import LocalOutput
from fastrec.corpus.scan import VERIFY_HINT, parts_of
from fastrec.errors import BadShardsError, CorpusError
from fastrec.filters import Filters
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.sources.shard import Listed, Shard, shard_at
from fastrec.storage import join
from fastrec.summary.document import Summary

if TYPE_CHECKING:
    from fastrec.normalize.options import Options

SCRATCH_LEVEL: Final = -1  # the compression level of a corpus that is read only once
_CHUNK_BYTES: Final = 1 << 20


class Making(TypedDict, total=False):
    """How to make a scratch corpus: as in `Options`."""

    jobs: int
    progress: Progress | None
    work_dir: str | None


class ScratchCorpus(NamedTuple):
    directory: str
    manifest: Manifest
    summary: Summary


@contextlib.contextmanager
def scratch_corpus(
    shards: Sequence[Shard],
    options: Options,
    *,
    progress: Progress | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> Iterator[ScratchCorpus]:
    """Make a corpus by both passes, in a directory inside the work directory of the options."""
    from fastrec.normalize.run import run_passes  # noqa: PLC0415 - most corpora are read as they are

    if options.work_dir:
        Path(options.work_dir).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fastrec-", dir=options.work_dir) as scratch:
        output = LocalOutput(Path(scratch) / "corpus", CORPUS, join(scratch, "work"))
        output.prepare(fresh=True)
        made = run_passes(shards, options, output, progress=progress, notice=notice)
        yield ScratchCorpus(str(output.staging), made.manifest, made.summary)


@contextlib.contextmanager
def matching_corpus(corpus: str, filters: Filters, **making: Unpack[Making]) -> Iterator[str]:
    """Yield the directory of a corpus with only the matching records; without filters, the corpus itself.

    It is made by `normalize` from the parts of the corpus, with the same sort order, schema version and hashes. So
    nothing is counted in a second way.
    """
    if not filters:
        yield corpus
        return
    from fastrec.normalize.options import Options  # noqa: PLC0415 - as above

    manifest = read_manifest(corpus)
    given: dict[str, Any] = {**making}
    progress = given.pop("progress", None)
    options = Options(
        schema=CORPUS_LABELS[manifest.schema].name,
        hash_algorithm=str(manifest.options.get("hash", "sha256")),
        sample_hash="fill",
        sort_by=manifest.sort_fields,
        level=SCRATCH_LEVEL,
        filters=filters,
        **given,
    )
    shards = [
        msgspec.structs.replace(shard_at(part.path), listed=msgspec.convert(part.entry, Listed, from_attributes=True))
        for part in parts_of(corpus, manifest)
    ]
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(scratch_corpus(shards, options, progress=progress))
        except BadShardsError as exc:
            raise exc.errors[0] from exc
        _check(corpus, manifest, made.manifest)
        # What was skipped when the corpus was made is missing here, too.
        made.manifest.skipped = manifest.skipped
        Path(made.directory, MANIFEST).write_bytes(made.manifest.to_json())
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
