"""The judge: turns a chunk of lines into records in normal form and invalid lines.

The fast path, for each line: decode into Structs (types, bounds, required and unknown keys, UTF-8,
numbers), check the conditional rules, compute `sample_hash`, drop nulls, encode. A line that fails
a step goes to the slow path, which decides. So the fast path may refuse too much, but never accepts
too much.

A shard is nearly always of one schema version, so a line is decoded as the version of the line
before. If that fails, the other versions are tried before the slow path.

The decoder misses one flaw: of two equal keys it silently keeps the last. Each dropped key drops a
colon, so the judge compares the number of colons in a chunk and in its normal form, once per chunk
and at memory speed. Only if they differ does it compare line by line.

`validate` needs no normal forms. Its judge encodes each record only to count the colons, into a
buffer that is small enough for the processor's cache, without nulls dropped and hashes filled in.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET
from stringzilla import count, find, find_first_not_of

from fastrec.errors import out_of_memory
from fastrec.judge.batch import Batch, HashReplaced, InvalidLine, RecordFilter
from fastrec.judge.findings import Finding, label_code, warnings_of
from fastrec.judge.known_inputs import PLACEHOLDER_BYTES, KnownInput, KnownInputs
from fastrec.judge.parse import spell
from fastrec.judge.slow import FindRecipe, SlowPath
from fastrec.judge.version_rules import (
    JudgeSettings,
    RulesByVersion,
    VersionRules,
    count_colons,
)
from fastrec.limits import current_limits
from fastrec.schemas.hashes import ABSENT, WRONG, RecipeFinder
from fastrec.schemas.registry import NEWEST_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.schemas.upgrade import upgrade_record
from fastrec.schemas.view import REFUSALS
from fastrec.schemas.widen import LearningDecoder
from fastrec.sources.formats import MAX_WINDOW
from fastrec.sources.lines import MAX_LINE_BYTES, LongLine, ReadStats, count_newlines
from fastrec.sources.shard import Slice

_GIANT = 16 << 20
_ROOM = 6  # bytes of memory per byte of a chunk: up to four per character, and copies
_BLANK = b" \t\r\n"


class OpenChunk:
    """A chunk of lines and how far it was judged."""

    def __init__(self, data: bytes, line: int, offset: int) -> None:
        self._data = data
        self._offset = offset
        self.line = line
        self.text = data
        # The known input of each line, if any are replaced.
        self.inputs: list[KnownInput | None] | None = None
        self.rules: VersionRules | None = None  # the rules of the version of these inputs
        self.position = self.number = 0  # of the next line
        self.saved = 0  # bytes by which the text up to the position is shorter than the lines
        # Colons that the text up to the position has more than the output, for good reason.
        self.excess = 0
        self.next_null = 0  # no null is between the position and here

    def skip_blank(self) -> int:
        """Move on past blank lines, at memory speed: a bomb can be made of nothing else.

        Return their number.
        """
        start = self.position
        size = len(self.text)
        end = find_first_not_of(self.text, _BLANK, start)
        end = size if end < 0 else self.text.rfind(b"\n", start, end) + 1
        if end <= start:
            return 0
        lines = count_newlines(memoryview(self.text)[start:end]) + (
            not self.text.endswith(b"\n", 0, end)
        )
        self.position = end
        self.number += lines
        return lines

    def next_line(self) -> tuple[bytes, int, bool]:
        """Move on by a line, which is refused.

        Return it as it was read, its offset, and if it is short in the text.
        """
        start = self.position
        end = self.text.find(b"\n", start)
        if end < 0:
            end = len(self.text)
        known = self.inputs[self.number] if self.inputs else None
        begin = start + self.saved
        if known:
            self.saved += len(known.text) - PLACEHOLDER_BYTES
        self.position = end + 1
        self.number += 1
        self.excess += count_colons(memoryview(self.text)[start:end])
        return self._data[begin : end + self.saved], self._offset + begin, known is not None

    def is_balanced(self, into: bytearray, start: int) -> bool:
        """Whether no key was dropped, now that the output from `start` on is complete."""
        return count_colons(self.text) == self.excess + _count_output(into, start)


class Judge:
    """Judges lines.

    Make one per process: it learns the unknown keys of its input, and decoders do not pickle.
    """

    def __init__(self, settings: JudgeSettings = JudgeSettings()) -> None:  # noqa: B008 - it is frozen
        self._settings = settings
        self._filter = RecordFilter(settings.filters) if settings.filters else None
        # Without normal forms, known inputs save no more than it costs to find them.
        self._known_inputs = KnownInputs(settings.known_input_bytes if settings.normal else 0)
        self._find_recipe: FindRecipe = (
            RecipeFinder().find if settings.any_recipe else lambda *_: None
        )
        self._encode_into = msgspec.json.Encoder(order="deterministic").encode_into
        self._all_rules = RulesByVersion(settings)
        self._rules = self._all_rules.of(self._all_rules.schemas[0])
        self._judge_slow = SlowPath(
            settings, self._all_rules, self._accepted, self._find_recipe, self._filter
        ).judge

    def judge_chunk(self, data: bytes, into: bytearray, *, line: int = 1, offset: int = 0) -> Batch:
        """Judge a chunk of whole lines.

        The normal forms of its records, if any, are appended to `into`, newlines included.

        `line` is the number of the first line, and `offset` is where the chunk begins in the
        shard's text.
        """
        if len(data) > _GIANT:
            # The decoder crashes when memory runs out. So allocate what it may need, untouched, and
            # free it at once: if there is not enough, this raises MemoryError.
            bytearray(_ROOM * len(data))
        start = len(into)
        batch = Batch()
        chunk = OpenChunk(data, line, offset)
        if len(data) <= _GIANT and (
            shortened := self._known_inputs.shorten(data, self._rules.learn)
        ):
            chunk.text, chunk.inputs = shortened
            chunk.rules = self._rules
        while not self._judge_fast(chunk, into, batch, self._rules):
            self._judge_next(chunk, into, batch, refused=True)
        if batch.blank == chunk.number or chunk.is_balanced(into, start):
            batch.lines = chunk.number
            return batch
        # A key was dropped somewhere in the chunk. Compare line by line: lines with a difference
        # take the slow path, which sees duplicate keys.
        del into[start:]
        batch = Batch()
        chunk = OpenChunk(data, line, offset)
        while chunk.position < len(data):
            self._judge_next(chunk, into, batch, refused=False)
        batch.lines = chunk.number
        return batch

    def _judge_fast(
        self, chunk: OpenChunk, into: bytearray, batch: Batch, rules: VersionRules
    ) -> bool:
        """Judge the lines of a chunk by a version, up to the first one that the fast path refuses.

        Return whether it refused none.

        This is the hottest loop of fastrec. It is one long function, because a call per record
        costs more than most of its steps. The decoder gets views into the chunk, which saves a copy
        of every line.
        """
        records = batch.records
        numbers = batch.numbers
        ends = batch.ends
        recipes = batch.recipe_names
        encode_into = self._encode_into
        settings = self._settings
        with_warnings = settings.warnings
        with_normal = settings.normal
        with_records = with_normal or settings.records
        schema, decoder, sure_labels, claims, target, compute_hash, _ = rules
        follows_rules = schema.follows_rules
        drop_nulls = target.drop_nulls
        own_recipe = target.recipe
        decode = decoder.decode
        encoded = bytearray()  # the last record, if there are no normal forms
        text = chunk.text
        known_inputs = chunk.inputs
        secret = self._known_inputs.number
        # The known inputs of another version say nothing about this one.
        decode_short = decoder.parts[0] if known_inputs and chunk.rules is rules else _refuse
        view = memoryview(text)
        size = len(text)
        next_newline = text.find
        known = None
        position = chunk.position
        number = chunk.number
        saved = chunk.saved
        excess = chunk.excess
        next_null = chunk.next_null
        filters_out = self._filter and self._filter.filters_out
        filtered = 0
        while position < size:
            end = next_newline(b"\n", position)
            if end < 0:
                end = size
            try:
                if known_inputs and (known := known_inputs[number]):
                    record = decode_short(view[position:end])
                    if record.input != secret:
                        break
                    record.input = known.outline
                else:
                    record = decode(view[position:end])
                label = record.schema_version
                is_sure = label in sure_labels
                if not (follows_rules(record) and (is_sure or claims(record))):
                    break
            except REFUSALS:
                break
            if (
                not is_sure
                and label in schema.replaced_labels
                and record.evaluation_result_id is UNSET
            ):
                record.schema_version = schema.label
            if target is not schema:
                colons = count_colons(view[position:end])
                with_line = excess + colons  # the excess if nothing of the line were in the output
                upgraded = self._upgraded(record, known, colons, schema)
                if upgraded is None:
                    break
                record, upgrades = upgraded
            given = record.sample_hash
            asked = record.input
            recipe = ABSENT
            if with_normal or (given is not UNSET and given is not None):
                computed = known.sample_hash if known else compute_hash(asked.raw, asked.reference)
                if given == computed:
                    recipe = own_recipe
                elif given is UNSET or given is None:
                    excess -= given is UNSET
                    record.sample_hash = computed
                else:
                    recipe = self._recipe(asked, known, given, decoder)
                    if recipe == WRONG and settings.sample_hash == "verify":
                        break
                    if settings.sample_hash != "fill":
                        record.sample_hash = computed
            if not with_normal:
                encode_into(record, encoded)
                excess += count(encoded, b":")
            else:
                if next_null < end:
                    if known:
                        record.input = UNSET  # its normal form has no nulls
                    excess += drop_nulls(record)
                    next_null = find(text, b"null", end)
                    if next_null < 0:
                        next_null = size
                if known:
                    record.input = known.normal
                    excess -= known.colons
                    saved += len(known.text) - PLACEHOLDER_BYTES
                if filters_out and (names := filters_out(record, target)):
                    if target is not schema:
                        excess = with_line
                    else:  # the normal form has the colons that the line may have
                        excess += count(spell(record), b":")
                    batch.filtered_out[names] += 1
                    filtered += 1
                    position = end + 1
                    number += 1
                    continue
                length = len(into)
                encode_into(record, into, -1)
                if target is not schema:
                    excess = with_line - count(memoryview(into)[length:], b":")
                    batch.notes.update(upgrades)
                into.append(10)
                recipes.append(recipe)
                ends.append(len(into))
            if recipe == WRONG:
                batch.replaced.append(HashReplaced.of(record, given, computed))
            if with_warnings:
                for finding in warnings_of(
                    record, target, label, schema, wrong_hash=recipe == WRONG
                ):
                    batch.warnings.append((chunk.line + number, finding))
            if not is_sure and label not in schema.labels:
                batch.notes[label_code(label)] += 1
            if with_records:
                records.append(record)
                numbers.append(chunk.line + number)
            position = end + 1
            number += 1
        batch.versions[schema.name] += number - chunk.number - filtered
        chunk.position = position
        chunk.number = number
        chunk.saved = saved
        chunk.excess = excess
        chunk.next_null = next_null
        return position >= size

    def _judge_next(
        self, chunk: OpenChunk, into: bytearray, batch: Batch, *, refused: bool
    ) -> None:
        """Judge the next line alone.

        Try all versions, except for the current one if it has `refused` the line, then the slow
        path.
        """
        if blank := chunk.skip_blank():
            batch.blank += blank
            return
        raw, offset, was_short = chunk.next_line()
        line = chunk.line + chunk.number - 1
        length = len(into)
        known = self._rules if refused and not was_short else None
        for schema in self._all_rules.schemas:
            rules = self._all_rules.of(schema)
            if rules is known:
                continue
            if judged := self._accepted(raw, into, line, offset, rules):
                self._rules = rules
                batch += judged
                break
        else:
            self._judge_slow(raw, into, batch, line, offset)
        chunk.excess -= _count_output(into, length)

    def _accepted(
        self, raw: bytes, into: bytearray, line: int, offset: int, rules: VersionRules
    ) -> Batch | None:
        """Judge one line by the fast path as a record of a version.

        None if that refuses the line, or drops a key.
        """
        start = len(into)
        batch = Batch()
        chunk = OpenChunk(raw, line, offset)
        is_judged = raw and self._judge_fast(chunk, into, batch, rules)
        if is_judged and chunk.is_balanced(into, start):
            return batch
        del into[start:]
        return None

    def _upgraded(
        self, record: Any, known: KnownInput | None, colons: int, schema: Schema
    ) -> tuple[Any, list[str]] | None:
        """Upgrade a record to the target, and list the codes of lossy steps.

        None if the slow path has to do it.
        """
        if known:
            record.input = 0
        if self._all_rules.target is not NEWEST_SCHEMA or count(spell(record), b":") != colons:
            return None  # the record is too new, or a key was dropped
        if known:
            record.input = known.outline
        return upgrade_record(record, schema)

    def _recipe(
        self, asked: Any, known: KnownInput | None, given: str, decoder: LearningDecoder
    ) -> str:
        """Find the recipe of a `sample_hash` that the recipe of the target does not give.

        WRONG if none does.
        """
        if known:
            if known.recipe[0] == given:
                return known.recipe[1]
            asked = decoder.parts[1](known.text)
        recipe = self._find_recipe(asked.raw, asked.reference, given) or WRONG
        # Longer hashes are wrong, and may be very long.
        if known and len(given) <= len(known.sample_hash):
            known.recipe = given, recipe
        return recipe


def _count_output(into: bytearray, start: int) -> int:
    """Count the colons of the output from `start` on."""
    colons: int = count(memoryview(into)[start:], b":")
    return colons


def _refuse(line: memoryview) -> Any:  # noqa: ARG001 - it stands for a decoder
    raise msgspec.ValidationError


class JudgedChunk(NamedTuple):
    """A chunk of lines and what the judge made of it.

    A line that is too long comes as a chunk of its own.
    """

    batch: Batch
    normal: bytearray  # The normal forms of the records. The next chunk overwrites them.
    data: bytes  # the lines as they were read; empty if the line was too long to be held
    line: int  # number of the first line


# The judge of this process with some settings: it learns, and making one takes milliseconds.
judge_of = lru_cache(maxsize=2)(Judge)


def judge_slice(
    judge: Judge,
    piece: Slice,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_window: int = MAX_WINDOW,
    line: int = 1,
    offset: int = 0,
    stats: ReadStats | None = None,
    source: str | None = None,
) -> Iterator[JudgedChunk]:
    """Read a slice and judge its lines chunk by chunk.

    Every command that reads records does it here.

    The first line gets the number `line`, and `offset` is added to all offsets. A line longer than
    `max_line_bytes` is invalid, and never held in memory. ShardError if the slice cannot be read to
    its end; then none of it may be used. If memory runs out, the error names `source`, the original
    of a temporary file.
    """
    normal = bytearray()
    try:
        for chunk in piece.shard.read(
            piece.start,
            piece.end,
            chunk_bytes=current_limits().chunk_bytes,
            max_line_bytes=max_line_bytes,
            max_window=max_window,
            stats=stats,
        ):
            normal.clear()
            first = line - 1 + chunk.line
            start = offset + chunk.offset
            if isinstance(chunk, LongLine):
                rejected = invalid_line(chunk._replace(line=first, offset=start), max_line_bytes)
                yield JudgedChunk(Batch(lines=1, rejected=[rejected]), normal, b"", first)
            else:
                batch = judge.judge_chunk(chunk.data, normal, line=first, offset=start)
                yield JudgedChunk(batch, normal, chunk.data, first)
    except MemoryError as exc:
        raise out_of_memory(source or piece.shard.path) from exc


def invalid_line(line: LongLine, max_line_bytes: int) -> InvalidLine:
    """Describe a line that is too long as an invalid line; only its head is kept."""
    message = f"expected at most {max_line_bytes:,} bytes in a line, found {line.length:,}"
    finding = Finding("line.too_long", "$", message)
    return InvalidLine(line.line, line.offset, (finding,), line.head, truncated=True)
