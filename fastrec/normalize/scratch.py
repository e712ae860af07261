"""A corpus in a temporary directory, which is removed afterwards, also after errors and signals."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fastrec.corpus.documents import MANIFEST
from fastrec.corpus.local_output import LocalOutput
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.output import CORPUS
from fastrec.normalize.options import Options
from fastrec.normalize.run import run_passes
from fastrec.progress import Progress
from fastrec.sources.shard import Shard
from fastrec.storage import join
from fastrec.summary.document import Summary

__all__ = ["SCRATCH_LEVEL", "ScratchCorpus", "scratch_corpus"]

SCRATCH_LEVEL: Final = -1
"""The compression level of a corpus that is read only once."""


class ScratchCorpus(NamedTuple):
    """A corpus that is not published."""

    directory: str
    manifest: Manifest
    summary: Summary

    def write_manifest(self) -> None:
        """Write the manifest again, after a change."""
        Path(self.directory, MANIFEST).write_bytes(self.manifest.to_json())


@contextlib.contextmanager
def scratch_corpus(
    shards: Sequence[Shard],
    options: Options,
    *,
    progress: Progress | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> Iterator[ScratchCorpus]:
    """Make a corpus by both passes, in a directory inside the work directory of the options.

    Raises:
        BadShardsError: Some shards cannot be read completely.
        NoMatchError: No record matches the filters.
    """
    if options.work_dir:
        Path(options.work_dir).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fastrec-", dir=options.work_dir) as scratch:
        output = LocalOutput(Path(scratch) / "corpus", CORPUS, join(scratch, "work"))
        output.prepare(fresh=True)
        made = run_passes(shards, options, output, progress=progress, notice=notice)
        yield ScratchCorpus(str(output.staging), made.manifest, made.summary)
