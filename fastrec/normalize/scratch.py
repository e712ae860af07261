"""A corpus in a temporary directory, which is removed afterwards, also after errors and signals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.output import CORPUS
from fastrec.corpus.publish import LocalOutput
from fastrec.parameters import Notice
from fastrec.progress import Progress
from fastrec.sources.shard import Shards
from fastrec.storage import join
from fastrec.summary.document import Summary

if TYPE_CHECKING:
    from fastrec.normalize.options import Options

SCRATCH_LEVEL = -1  # the compression level of a corpus that is read only once
_CHUNK_BYTES = 1 << 20


class ScratchCorpus(NamedTuple):
    directory: str
    manifest: Manifest
    summary: Summary


@contextmanager
def scratch_output(directory: str | None = None) -> Iterator[LocalOutput]:
    """An output inside a directory, by default that of temporary files."""
    with TemporaryDirectory(prefix="fastrec-", dir=directory) as scratch:
        output = LocalOutput(Path(scratch) / "corpus", CORPUS, join(scratch, "work"))
        output.prepare(fresh=True)
        yield output


@contextmanager
def scratch_corpus(
    shards: Shards,
    options: Options,
    *,
    progress: Progress | None,
    notice: Notice,
) -> Iterator[ScratchCorpus]:
    """Make a corpus by both passes, in a directory inside the work directory of the options."""
    from fastrec.normalize.run import run_passes  # noqa: PLC0415 - most corpora are read as they are

    if options.work_dir:
        Path(options.work_dir).mkdir(parents=True, exist_ok=True)
    with scratch_output(options.work_dir) as output:
        corpus = run_passes(shards, options, output, progress=progress, notice=notice)
        yield ScratchCorpus(str(output.staging), corpus.manifest, corpus.summary)
