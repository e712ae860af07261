"""The driver: gives the orders of both passes, and makes a corpus of what comes back.

It holds counts, a sample of keys and where parts begin in runs, never records; all of it is bounded, whatever the
corpus, but for some kilobytes for each task and each part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

import msgspec
import zstandard

from fastrec._version import __version__
from fastrec.corpus.manifest import Manifest, RejectsEntry, tree_hash
from fastrec.corpus.rejects import write_rejects
from fastrec.errors import BadShardsError, ShardError, utf8
from fastrec.normalize.collector import RunCollector
from fastrec.normalize.context import RunContext
from fastrec.normalize.journal import MergeDone, TaskDone
from fastrec.normalize.line_counts import (
    check_line_counts,
    count_codes,
    count_hashes,
    input_entries,
    total_line_counts,
)
from fastrec.normalize.merging import Merged
from fastrec.normalize.options import Options
from fastrec.normalize.parts import Parts
from fastrec.normalize.pass1 import SortResult, SortTask, sort_pieces
from fastrec.normalize.pass1_tasks import SortTasks
from fastrec.normalize.pass2 import Part, PieceLocation
from fastrec.normalize.resume import find_tasks, without_merged
from fastrec.normalize.rounds import Rounds, live_runs
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.sorting.cuts import cut_keys
from fastrec.sorting.key_sample import KeySample
from fastrec.sources.shard import Shard
from fastrec.sources.tasks import total_text
from fastrec.storage import storage_of
from fastrec.summary.document import Summary
from fastrec.summary.part_counts import add_part_counts
from fastrec.summary.summarize import summarize

__all__ = ["Normalizer", "purpose_of"]

_LASTING: Final = ("hash", "sample_hash", "conflicts", "part_size", "compression", "level", "max_line_bytes")


def purpose_of(options: Options) -> dict[str, Any]:
    """Say what the work of a run is good for: what makes the bytes of a corpus, beside its records."""
    lasting = {name: getattr(options, name) for name in (*_LASTING, "max_window", "sort_fields")}
    return {"fastrec": __version__, "zstd": zstandard.ZSTD_VERSION, "journal": 3, **lasting}


class Normalizer:
    """One run, from shards to a corpus that is ready to be published."""

    def __init__(self, shards: Sequence[Shard], context: RunContext) -> None:
        self._shards = shards
        self._context = context
        self._feeder = SortTasks(shards, context.output.work, context.options)
        self._intake = RunCollector()
        self._orders: dict[int, SortTask] = {}
        self._merged: list[Merged] = []
        self._sampled: set[int] = set()
        self._lasting: set[int] = set()
        """Orders whose results the journal has, and will find again as long as the shards are the same."""
        self._skipped: dict[int, ShardError] = {}
        self._rounds = Rounds(context, self._lasting.__contains__)
        self._parts = Parts(context)

    def run(self) -> tuple[Manifest, Summary]:
        """Make the corpus in the place it is published from; what it is made of stays behind."""
        results = self._pass1()
        sample = self._intake.sample
        cuts = cut_keys(sample.kept, sample.one_in, self._context.options.part_size)
        sample.kept.clear()
        merged = self._rounds.run(results, self._orders, self._merged, cuts)
        parts, census = self._parts.make(results, live_runs(results, merged), cuts, self._places(results))
        options = self._context.options
        prefixes = [self._parts.census_path(part.number) for part in parts]
        counts = add_part_counts(prefixes, self._context.engine, options.limits.part_counts_per_task)
        for one in merged:
            counts.copies.update(one.run.dropped)
        summary = summarize(
            total_line_counts(results, parts, counts),
            count_codes(results, parts),
            count_hashes(results, options.hash),
            counts.tally,
            census,
        )
        inputs = input_entries(self._shards, results, counts, self._feeder.fed)
        check_line_counts(summary, inputs)
        rejects = self._write_rejects(results, parts)
        parts = self._parts.number([part for part in parts if part.records])
        document = summary.to_json()
        summary_file = self._context.output.named("summary", ".json")
        manifest = Manifest(
            fastrec=__version__,
            schema=DEFAULT_SCHEMA.name,
            options={name: getattr(self._context.options, name) for name in _LASTING},
            sort_fields=self._context.options.sort_fields,
            records=summary.line_counts.kept,
            text_bytes=sum(part.written.text_bytes for part in parts),
            text_sha256=tree_hash(part.written.text_sha256 for part in parts),
            parts=[self._parts.entry_of(part) for part in parts],
            rejects=rejects,
            summary_file=summary_file,
            summary_sha256=sha256(document).hexdigest(),
            inputs=[entry for number, entry in enumerate(inputs) if number not in self._skipped],
            skipped=[str(error) for _, error in sorted(self._skipped.items())],
        )
        self._context.output.write(summary_file, document)
        self._context.output.write_marker(manifest.to_json())
        return manifest, summary

    def _pass1(self) -> list[SortResult]:
        """Sort all shards into runs."""
        self._context.progress.start("sort", total_text(self._shards))
        results: dict[int, SortResult] = {}
        self._use(self._find_earlier(), results)
        for result in self._sort(self._feeder.orders()):
            results[result.order] = result
        self._use(self._feeder.met_again, results)
        bad = self._skipped
        while found := self._bad(results.values()):
            bad |= found
            if not self._context.options.skip_bad_shards:
                raise BadShardsError([error for _, error in sorted(bad.items())])
            # What a bad shard has a share in is done again without it: its records count only as a whole. Another
            # shard may turn bad by then.
            spoilt = {order.number for order in self._orders.values() if any(p.shard in bad for p in order.pieces)}
            self._merged, spoilt = without_merged(self._merged, spoilt)
            again = [
                rest for number in sorted(spoilt) if (rest := self._feeder.without(self._orders[number], set(bad)))
            ]
            for number in spoilt:
                del results[number], self._orders[number]
            for result in self._sort(again):
                results[result.order] = result
        self._complete_sample(results)
        self._context.progress.finish()
        self._note_marks(results.values())
        return list(results.values())

    def _complete_sample(self, results: dict[int, SortResult]) -> None:
        """Sample what was not sampled while it was sorted."""
        missing = [result for number, result in results.items() if number not in self._sampled]
        if self._skipped:  # the sample has records of bad shards, and what they drove out is gone
            self._intake.sample = KeySample()
            missing = list(results.values())
        if missing:
            self._intake.sample_again(live_runs(missing, self._merged), self._context.engine)

    def _bad(self, results: Iterable[SortResult]) -> dict[int, ShardError]:
        """Give the shards that turned out to be bad, but for those that are known."""
        bad = dict(self._feeder.bad)
        for result in results:
            bad |= {books.shard: books.error for books in result.pieces if books.error}
        return {shard: error for shard, error in bad.items() if shard not in self._skipped}

    def _sort(self, orders: Iterable[SortTask]) -> Iterator[SortResult]:
        """Carry out orders, and note them."""
        for _, result in self._context.engine.run(sort_pieces, self._noted(orders)):
            pieces = self._orders[result.order].pieces
            for piece in pieces:
                if piece.temporary:
                    path = piece.slice.shard.path
                    storage_of(path).remove(path)
            self._intake.take_sample(result)
            self._sampled.add(result.order)
            stream = any(piece.slice.shard.stream for piece in pieces)
            if not stream and not any(books.error for books in result.pieces):
                noted = self._context.journal.add(TaskDone(pieces, result))
                if noted and not pieces[0].temporary:
                    self._lasting.add(result.order)
            self._intake.slim(result)
            self._advance(result)
            yield result

    def _noted(self, orders: Iterable[SortTask]) -> Iterator[SortTask]:
        for order in orders:
            self._orders[order.number] = order
            yield self._intake.asking(order)

    def _advance(self, result: SortResult) -> None:
        self._context.progress.advance(
            sum(books.text_bytes for books in result.pieces),
            sum(books.lines for books in result.pieces),
            sum(books.rejected for books in result.pieces),
        )

    def _find_earlier(self) -> list[tuple[SortTask, SortResult]]:
        """Find what an earlier run has sorted, and remove what is of no use."""
        make_order = partial(SortTask, directory=self._context.output.work, options=self._context.options)
        earlier = find_tasks(self._context.journal.entries, self._feeder.pieces(), self._context.engine, make_order)
        self._context.output.sweep({*self._context.journal.files(), *earlier.files(), *self._parts.earlier_files()})
        self._feeder.go_on_from(earlier)
        if count := len(earlier.tasks) + len(earlier.chunks):
            of = sum(isinstance(entry, TaskDone) for entry in self._context.journal.entries)
            self._context.notice(f"going on from an earlier run: {count:,} of its {of:,} finished tasks are used again")
        self._lasting.update(order.number for order, _ in earlier.tasks)
        self._merged = earlier.merged
        self._context.journal.forget(TaskDone)
        self._context.journal.forget(MergeDone)
        return earlier.tasks

    def _use(self, done: Iterable[tuple[SortTask, SortResult]], results: dict[int, SortResult]) -> None:
        """Take the results of orders that need not be given."""
        for order, result in done:
            self._orders[order.number] = order
            results[order.number] = result
            self._intake.slim(result)
            self._advance(result)

    def _note_marks(self, results: Any) -> None:
        marked = {books.shard for result in results for books in result.pieces if books.bom}
        marked |= {shard for shard, stats in self._feeder.fed.items() if stats.bom}
        for shard in sorted(marked):
            self._context.notice(f"{utf8(self._shards[shard].path)} begins with a byte order mark, which was skipped")

    def _places(self, results: Sequence[SortResult]) -> dict[int, PieceLocation]:
        """Tell where each piece stands, if records may be left out and must be named."""
        if self._context.options.conflicts == "keep":
            return {}
        return {
            books.number: PieceLocation(utf8(self._shards[books.shard].path), base)
            for books, base in self._with_line_bases(results)
        }

    def _with_line_bases(self, results: Sequence[SortResult]) -> Any:
        """Give the books of all pieces, each with the number of lines of its shard that stand before it."""
        pieces = sorted((books for result in results for books in result.pieces), key=lambda books: books.number)
        shard, base = -1, 0
        for books in pieces:
            if books.shard != shard:
                shard, base = books.shard, 0
            # What was fed in chunks has its line numbers right already.
            yield books, 0 if books.shard in self._feeder.fed else base
            base += books.lines

    def _write_rejects(self, results: Sequence[SortResult], parts: Sequence[Part]) -> RejectsEntry | None:
        bases = {books.number: base for books, base in self._with_line_bases(results)}
        ranges = [
            msgspec.structs.replace(piece, line_base=bases[books.number])
            for result in results
            for books, piece in zip(result.pieces, result.rejects, strict=True)
        ]
        keeps = self._context.options.conflicts == "keep"
        conflicts = [] if keeps else [f"{self._parts.census_path(part.number)}-conflicts" for part in parts]
        name = self._context.output.named("rejects", ".jsonl.zst")
        names = [utf8(shard.path) for shard in self._shards]
        written = write_rejects(self._context.output.staged(name), ranges, conflicts, names)
        if written is None:
            return None
        count = sum(books.rejected for result in results for books in result.pieces)
        count += sum(part.left_out.total() for part in parts)
        return RejectsEntry(file=name, records=count, bytes=written.bytes, sha256=written.sha256)
