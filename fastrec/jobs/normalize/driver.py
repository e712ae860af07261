"""The driver: gives the orders of both passes, and makes a corpus of what comes back.

It holds counts, fences and samples, never records; what a run takes in memory is in the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

import msgspec
import zstandard

from fastrec import __version__
from fastrec.engine import Engine
from fastrec.errors import BadShardsError, ShardError, utf8
from fastrec.jobs.manifest import Manifest, RejectsEntry
from fastrec.jobs.normalize.books import check_books, input_entries, summarize, tree_hash
from fastrec.jobs.normalize.earlier import find_tasks
from fastrec.jobs.normalize.feed import Feeder
from fastrec.jobs.normalize.journal import Journal, TaskDone
from fastrec.jobs.normalize.options import Options
from fastrec.jobs.normalize.parts import Parts
from fastrec.jobs.normalize.pass1 import PIECES, Order, Sorted, sort_pieces
from fastrec.jobs.normalize.pass2 import Part, Place
from fastrec.jobs.normalize.progress import Progress
from fastrec.jobs.normalize.rejects import write_rejects
from fastrec.jobs.plan import estimated_text
from fastrec.jobs.publish import Workplace
from fastrec.records import SCHEMA_VERSION
from fastrec.stages.shards import Shard
from fastrec.stages.summary import Summary
from fastrec.storage import remove, write_all

__all__ = ["Normalizer", "purpose_of"]

_LASTING: Final = ("hash", "sample_hash", "conflicts", "part_size", "compression", "level", "max_line_bytes")


def purpose_of(options: Options) -> dict[str, Any]:
    """Say what the work of a run is good for: what makes the bytes of a corpus, beside its records."""
    lasting = {name: getattr(options, name) for name in (*_LASTING, "max_window", "order")}
    return {"fastrec": __version__, "zstd": zstandard.ZSTD_VERSION, "journal": 2, **lasting}


class Normalizer:
    """One run, from shards to a corpus that is ready to be published."""

    def __init__(
        self,
        shards: Sequence[Shard],
        options: Options,
        place: Workplace,
        engine: Engine,
        *,
        progress: Progress,
        journal: Journal,
        notice: Callable[[str], None],
    ) -> None:
        self._shards = shards
        self._options = options
        self._place = place
        self._engine = engine
        self._progress = progress
        self._journal = journal
        self._notice = notice
        self._feeder = Feeder(shards, place.work, options)
        self._skipped: dict[int, ShardError] = {}
        self._parts = Parts(options, place, engine, progress=progress, journal=journal, notice=notice)

    def run(self) -> tuple[Manifest, Summary]:
        """Make the corpus in the place it is published from; what it is made of stays behind."""
        results = self._pass1()
        parts, census = self._parts.make(results, self._places(results))
        summary = summarize(results, parts, census, self._options)
        inputs = input_entries(self._shards, results, parts, self._feeder.fed, PIECES)
        check_books(summary, inputs)
        rejects = self._write_rejects(results, parts)
        parts = self._parts.number([part for part in parts if part.records])
        document = summary.to_json()
        summary_file = self._place.named("summary", ".json")
        manifest = Manifest(
            fastrec=__version__,
            schema=SCHEMA_VERSION,
            options={name: getattr(self._options, name) for name in _LASTING},
            order=self._options.order,
            records=summary.books.kept,
            text_bytes=sum(part.written.text_bytes for part in parts),
            text_sha256=tree_hash(part.written.text_sha256 for part in parts),
            parts=[self._parts.entry_of(part) for part in parts],
            rejects=rejects,
            summary_file=summary_file,
            summary_sha256=sha256(document).hexdigest(),
            inputs=[entry for number, entry in enumerate(inputs) if number not in self._skipped],
            skipped=[str(error) for _, error in sorted(self._skipped.items())],
        )
        write_all(self._place.staged(summary_file), document)
        self._place.write_manifest(manifest.to_json())
        return manifest, summary

    def _pass1(self) -> list[Sorted]:
        """Sort all shards into runs."""
        self._progress.start("sort", sum(map(estimated_text, self._shards)))
        orders: dict[int, Order] = {}
        results: dict[int, Sorted] = {}
        self._use(self._find_earlier(), orders, results)
        results |= {result.order: result for result in self._sort(self._feeder.orders(), orders)}
        self._use(self._feeder.met_again, orders, results)
        bad = self._skipped
        while found := self._bad(results.values()):
            bad |= found
            if not self._options.skip_bad_shards:
                raise BadShardsError([error for _, error in sorted(bad.items())])
            # What a bad shard has a share in is done again without it: its records count only as a whole. Another
            # shard may turn bad by then.
            spoilt = [order for order in orders.values() if any(piece.shard in bad for piece in order.pieces)]
            for order in spoilt:
                del results[order.number], orders[order.number]
            again = [rest for order in spoilt if (rest := self._feeder.without(order, set(bad)))]
            results |= {result.order: result for result in self._sort(again, orders)}
        self._progress.finish()
        self._note_marks(results.values())
        return list(results.values())

    def _bad(self, results: Iterable[Sorted]) -> dict[int, ShardError]:
        """Give the shards that turned out to be bad, but for those that are known."""
        bad = dict(self._feeder.bad)
        for result in results:
            bad |= {books.shard: books.error for books in result.books if books.error}
        return {shard: error for shard, error in bad.items() if shard not in self._skipped}

    def _sort(self, orders: Iterable[Order], noted: dict[int, Order]) -> Iterator[Sorted]:
        """Carry out orders, and note them."""
        for _, result in self._engine.run(sort_pieces, _noted(orders, noted)):
            pieces = noted[result.order].pieces
            for piece in pieces:
                if piece.temporary:
                    remove(piece.slice.shard.path)
            if not any(books.error for books in result.books) and not any(piece.slice.shard.stream for piece in pieces):
                self._journal.add(TaskDone(pieces, result))
            self._advance(result)
            yield result

    def _advance(self, result: Sorted) -> None:
        self._progress.advance(
            sum(books.text_bytes for books in result.books),
            sum(books.lines for books in result.books),
            sum(books.rejected for books in result.books),
        )

    def _find_earlier(self) -> list[tuple[Order, Sorted]]:
        """Find what an earlier run has sorted, and remove what is of no use."""
        make_order = partial(Order, directory=self._place.work, options=self._options)
        earlier = find_tasks(self._journal.entries, self._feeder.pieces(), self._engine, make_order)
        self._place.sweep({*self._journal.files(), *earlier.files(), *self._parts.earlier_files()})
        self._feeder.go_on_from(earlier)
        if count := len(earlier.tasks) + len(earlier.chunks):
            of = sum(isinstance(entry, TaskDone) for entry in self._journal.entries)
            self._notice(f"going on from an earlier run: {count:,} of its {of:,} finished tasks are used again")
        return earlier.tasks

    def _use(self, done: Iterable[tuple[Order, Sorted]], orders: dict[int, Order], results: dict[int, Sorted]) -> None:
        """Take the results of orders that need not be given."""
        for order, result in done:
            orders[order.number] = order
            results[order.number] = result
            self._advance(result)

    def _note_marks(self, results: Any) -> None:
        marked = {books.shard for result in results for books in result.books if books.bom}
        marked |= {shard for shard, stats in self._feeder.fed.items() if stats.bom}
        for shard in sorted(marked):
            self._notice(f"{utf8(self._shards[shard].path)} begins with a byte order mark, which was skipped")

    def _places(self, results: Sequence[Sorted]) -> dict[int, Place]:
        """Tell where each piece stands, if records may be left out and must be named."""
        if self._options.conflicts == "keep":
            return {}
        return {
            books.number: Place(utf8(self._shards[books.shard].path), base)
            for books, base in self._with_line_bases(results)
        }

    def _with_line_bases(self, results: Sequence[Sorted]) -> Any:
        """Give the books of all pieces, each with the number of lines of its shard that stand before it."""
        pieces = sorted((books for result in results for books in result.books), key=lambda books: books.number)
        shard, base = -1, 0
        for books in pieces:
            if books.shard != shard:
                shard, base = books.shard, 0
            # What was fed in chunks has its line numbers right already.
            yield books, 0 if books.shard in self._feeder.fed else base
            base += books.lines

    def _write_rejects(self, results: Sequence[Sorted], parts: Sequence[Part]) -> RejectsEntry | None:
        bases = {books.number: base for books, base in self._with_line_bases(results)}
        ranges = [
            msgspec.structs.replace(piece, line_base=bases[books.number])
            for result in results
            for books, piece in zip(result.books, result.rejects, strict=True)
        ]
        keeps = self._options.conflicts == "keep"
        conflicts = [] if keeps else [f"{self._parts.census_path(part.number)}-conflicts" for part in parts]
        name = self._place.named("rejects", ".jsonl.zst")
        names = [utf8(shard.path) for shard in self._shards]
        written = write_rejects(self._place.staged(name), ranges, conflicts, names)
        if written is None:
            return None
        count = sum(books.rejected for result in results for books in result.books)
        count += sum(part.left_out.total() for part in parts)
        return RejectsEntry(file=name, records=count, bytes=written.bytes, sha256=written.sha256)


def _noted(orders: Iterable[Order], into: dict[int, Order]) -> Iterator[Order]:
    for order in orders:
        into[order.number] = order
        yield order
