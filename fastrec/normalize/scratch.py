"""A corpus in a temporary directory, which is removed afterwards, also after errors and signals."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, Unpack

import msgspec

from fastrec.answers.index import Index, cache_of, choose_scopes, open_index
from fastrec.answers.table import Query, Scope
from fastrec.corpus.manifest import MANIFEST, Manifest, read_manifest
from fastrec.corpus.output import CORPUS
from fastrec.corpus.publish import LocalOutput
from fastrec.corpus.scan import VERIFY_HINT, decode_lines, parts_of
from fastrec.errors import BadShardsError, CorpusError, TooManyResultsError, UsageError
from fastrec.filters import Filters, Strings, as_tuple
from fastrec.judge.parse import parse
from fastrec.limits import current_limits, use_limits
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.sources.shard import Listed, Shard, shard_at
from fastrec.storage import join
from fastrec.summary.document import Summary
from fastrec.where import GroupBy, parse_group, values_of, with_edges

if TYPE_CHECKING:
    from fastrec.normalize.options import Options

SCRATCH_LEVEL: Final = -1  # the compression level of a corpus that is read only once
_CHUNK_BYTES: Final = 1 << 20


class Reading(TypedDict, total=False):
    """How to read a corpus, and to make a scratch corpus of it: as in `Options`."""

    jobs: int
    progress: Progress | None


class Making(Reading, total=False):
    allow_empty: bool
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
def matching_corpus(
    corpus: str,
    filters: Filters,
    group_by: tuple[GroupBy, ...] = (),
    **making: Unpack[Making],
) -> Iterator[str]:
    """Yield the directory of a corpus with only the matching records; without filters, the corpus itself.

    It is made by `normalize` from the parts of the corpus, with the same sort order, schema version and hashes. So
    nothing is counted in a second way.
    """
    if not filters and not group_by:
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
        group_by=group_by,
        **given,
    )
    shards = [
        msgspec.structs.replace(shard_at(part.path), listed=msgspec.convert(part.entry, Listed, from_attributes=True))
        for part in parts_of(corpus, manifest)
    ]
    limits = current_limits()
    if group_by:
        limits = msgspec.structs.replace(limits, most_results=limits.group_results)
    with contextlib.ExitStack() as stack:
        try:
            with use_limits(limits):
                made = stack.enter_context(scratch_corpus(shards, options, progress=progress))
        except BadShardsError as exc:
            raise exc.errors[0] from exc
        except TooManyResultsError as exc:
            if not group_by:
                raise
            fields = ", ".join(group.field for group in group_by)
            raise UsageError(
                f"{fields} has too many values to group by: there are more than {exc.most:,} results, each of a group, "
                "metric and model. Choose another field, FIELD:N for N bins of its numbers, or fewer records"
            ) from exc
        _check(corpus, manifest, made.manifest)
        # What was skipped when the corpus was made is missing here, too.
        made.manifest.skipped = manifest.skipped
        Path(made.directory, MANIFEST).write_bytes(made.manifest.to_json())
        yield made.directory


@contextlib.contextmanager
def grouped_corpora(
    corpora: Sequence[str], filters: Filters, group_by: tuple[GroupBy, ...], **making: Unpack[Making]
) -> Iterator[list[str]]:
    """Yield directories of corpora with the matching records of others, where each group is an evaluation.

    The borders of bins follow from the matching records of all corpora.
    """
    with contextlib.ExitStack() as stack:
        if any(one.bins for one in group_by):
            corpora = [stack.enter_context(matching_corpus(corpus, filters, **making)) for corpus in corpora]
            filters = Filters()
            group_by = tuple(with_edges(one, _values(corpora, one)) if one.bins else one for one in group_by)
        yield [stack.enter_context(matching_corpus(corpus, filters, group_by, **making)) for corpus in corpora]


def _values(corpora: Sequence[str], group: GroupBy) -> Iterator[Any]:
    """Yield the first value of the field in each record that has one."""
    for corpus in corpora:
        manifest = read_manifest(corpus)
        for part in parts_of(corpus, manifest):
            for records, _ in decode_lines(part, lambda line: parse(line)[0], _CHUNK_BYTES, manifest.sort_fields):
                for record in records:
                    yield from islice(values_of(record, group.path), 1)


def parse_groups(fields: Strings) -> tuple[GroupBy, ...]:
    return tuple(map(parse_group, as_tuple("group_by", fields)))


@contextlib.contextmanager
def open_scopes(
    corpus: str | os.PathLike[str],
    filters: Filters,
    group_by: tuple[GroupBy, ...] = (),
    *,
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    **reading: Unpack[Reading],
) -> Iterator[tuple[Index, list[tuple[Scope, Query]]]]:
    """Open the index of a corpus, and choose its scopes by filters: how commands about questions begin.

    With `group_by`, it is the index of a corpus in which each group is an evaluation.
    """
    by_record = Filters(where=filters.where)
    if group_by:
        names = {"evaluation": filters.evaluation, "exclude_evaluation": filters.exclude_evaluation}
        by_record = msgspec.structs.replace(by_record, **names)
        filters = msgspec.structs.replace(filters, **dict.fromkeys(names, ()))
    with open_matching(corpus, by_record, group_by, **reading) as index:
        index.direct(as_tuple("lower_is_better", lower_is_better))
        yield index, choose_scopes(index.scopes, filters, "all" if group_by else metrics)


@contextlib.contextmanager
def open_matching(
    corpus: str | os.PathLike[str],
    by_record: Filters,
    group_by: tuple[GroupBy, ...] = (),
    **reading: Unpack[Reading],
) -> Iterator[Index]:
    """Open the index of the records that match; without any filter, that of the corpus.

    The index of a corpus knows names, ids, hashes and outcomes, but no other fields.
    """
    with (
        grouped_corpora([os.fspath(corpus)], by_record, group_by, **reading) as (directory,),
        open_index(directory, cache=cache_of(directory, (os.fspath(corpus),)), **reading) as index,
    ):
        yield index


def _check(corpus: str, manifest: Manifest, made: Manifest) -> None:
    """Check that every line of each part was a record, and that there are as many as the manifest says."""
    for part, found in zip(manifest.parts, made.inputs, strict=True):
        path = join(corpus, part.file)
        if found.rejected or found.blank:
            raise CorpusError(path, f"has lines that are not records in normal form; {VERIFY_HINT}")
        if (records := found.lines + found.filtered) != part.records:
            reason = f"has {records:,} records, but the manifest says {part.records:,}; {VERIFY_HINT}"
            raise CorpusError(path, reason)
