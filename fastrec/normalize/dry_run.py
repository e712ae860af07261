"""`normalize --dry-run`: what a run would do, without doing it.

How many parts an incremental run would write depends on the content of new and changed shards. So
these are judged, in a temporary directory. Neither the output nor the kept work is touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from fastrec.corpus.output import KEPT, work_root_of
from fastrec.corpus.publish import check_output
from fastrec.engine import make_engine
from fastrec.errors import utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.inputs import check_formats, find_records
from fastrec.normalize.kept import Base, KeptOrReason, read_kept
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import choose_target
from fastrec.normalize.pass1_driver import sort_shards
from fastrec.normalize.plan import plan_parts
from fastrec.normalize.run import run_attempts
from fastrec.normalize.scratch import scratch_output
from fastrec.parameters import AnyPath
from fastrec.progress import Progress
from fastrec.sorting.cuts import part_size_for
from fastrec.sources.shard import Shards, gather_tasks, total_text
from fastrec.storage import join, without_file_protocol


class Plan(Struct):
    """What a run would do, without doing it."""

    #: Files that would be in the corpus.
    shards: int
    #: Size of all files.
    input_bytes: int
    #: Size after decompression.
    estimated_text_bytes: int
    #: Schema version of the corpus; a guess, if it follows from the content.
    schema: str
    #: Tasks of the first pass, if all files are read.
    tasks: int
    #: Estimated number of parts.
    estimated_parts: int
    #: Of the files.
    paths: list[str]
    #: Notices for the user.
    notices: list[str]
    #: With `--incremental`: what would be reused.
    incremental: PlannedReuse | None = None


class PlannedReuse(Struct):
    """What an incremental run would reuse."""

    #: Files as the last run read them, not read again.
    unchanged: int
    #: Files that the last run did not have; all without `--incremental` or usable work.
    new: list[str]
    #: Files that changed since the last run.
    changed: list[str]
    #: Files of the last run that are not there any more.
    gone: list[str]
    #: Parts of the corpus.
    parts: int
    #: Parts that would be made.
    parts_written: int
    #: Whether these numbers are estimates, without kept work.
    is_estimate: bool


def plan(
    names: Sequence[AnyPath],
    output: AnyPath,
    options: Options,
    *,
    files_from: str | None = None,
) -> Plan:
    paths = list(map(without_file_protocol, names))
    target = without_file_protocol(output)
    shards, notices = find_records(paths, files_from=files_from)
    if not options.skip_bad_shards:
        check_formats(shards)
    text = total_text(shards)
    schema = choose_target(shards, options.line_settings(options.target))
    slices = [piece for shard in shards for piece in shard.slices(options.slice_bytes)]
    planned = Plan(
        shards=len(shards),
        input_bytes=sum(shard.size for shard in shards),
        estimated_text_bytes=text,
        schema=schema.name,
        tasks=len(gather_tasks(slices, options.slice_bytes * options.slices_per_task(text))),
        estimated_parts=_estimated_parts(text, options),
        paths=[utf8(shard.path) for shard in shards],
        notices=notices,
    )
    if options.incremental:
        check_output(target, paths, shards)
        kept = read_kept(join(work_root_of(target, options.work_dir), KEPT))
        planned.incremental = _plan_reuse(shards, kept, options, planned)
    return planned


def _plan_reuse(
    shards: Shards, kept: KeptOrReason, options: Options, planned: Plan
) -> PlannedReuse:
    """Judge new and changed shards on this machine, and plan the parts."""
    options = replace(options, engine="pool", scheduler=None)
    with scratch_output() as output:
        return run_attempts(
            _reuse,
            shards,
            options,
            output,
            make_engine(options.jobs),
            kept=kept,
            progress=Progress(),
            notice=planned.notices.append,
        )


def _reuse(shards: Shards, context: RunContext, base: Base) -> PlannedReuse:
    changes = base.changes
    if base.parts:
        plan = plan_parts(context, sort_shards(shards, context, base), base)
        parts = len(plan.ranges)
        written = parts - len(plan.unchanged)
    else:
        parts = written = _estimated_parts(total_text(shards), context.options)
    return PlannedReuse(
        unchanged=len(changes.unchanged),
        new=[utf8(shards[number].path) for number in changes.new],
        changed=[utf8(shards[number].path) for number in changes.changed],
        gone=sorted(map(utf8, base.paths_gone)),
        parts=parts,
        parts_written=written,
        is_estimate=not base.parts,
    )


def _estimated_parts(text: int, options: Options) -> int:
    return -(-text // part_size_for(text, options.part_size))
