"""The judge: turns a chunk of lines into records in normal form and invalid lines.

The fast path, for each line: decode into Structs (types, bounds, required and unknown keys, UTF-8, numbers), check the
conditional rules, compute `sample_hash`, drop nulls, encode. A line that fails a step goes to the slow path, which
decides. So the fast path may refuse too much, but never accepts too much.

The decoder misses one flaw: of two equal keys it silently keeps the last. Each dropped key drops a colon, so the judge
compares the number of colons in a chunk and in its normal form, once per chunk and at memory speed. Only if they differ
does it compare line by line.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import UNSET
from stringzilla import count, find

from fastrec.judge.arbiter import judge_slowly, normal_form
from fastrec.judge.batch import Batch, HashReplaced, InvalidLine
from fastrec.judge.findings import Errors, Finding, describe
from fastrec.judge.parse import spell
from fastrec.judge.warnings import warnings_of
from fastrec.schemas.hashes import cached_hash
from fastrec.schemas.registry import DEFAULT_SCHEMA, Record
from fastrec.schemas.schema import Schema
from fastrec.schemas.shape import build
from fastrec.schemas.widen import LearningDecoder

__all__ = ["Judge", "SampleHashMode"]

SampleHashMode = Literal["replace", "fill", "verify"]

_GIANT: Final = 16 << 20
_ROOM: Final = 6  # bytes of memory per byte of a chunk: up to four per character, and copies
_REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Judge:
    """Judges lines. Make one per process: it learns the unknown keys of its input, and decoders do not pickle."""

    def __init__(
        self,
        schema: Schema = DEFAULT_SCHEMA,
        *,
        algorithm: str = "sha256",
        sample_hash: SampleHashMode = "replace",
        warnings: bool = False,
        fill: bool = True,
    ) -> None:
        """Make a judge by a schema version that computes `sample_hash` with `algorithm`.

        `sample_hash` says what to do with a wrong one. Without `fill` a missing one is not computed: judging is faster,
        but normal forms may lack the field.
        """
        self._schema = schema
        self._hash = cached_hash(schema.hashes[algorithm])
        self._mode = sample_hash
        self._warnings = warnings
        self._fill = fill
        self._decoder = LearningDecoder(schema.record)
        self._encode_into = msgspec.json.Encoder(order="deterministic").encode_into

    def judge_chunk(self, data: bytes, into: bytearray, *, line: int = 1, offset: int = 0) -> Batch:
        """Judge a chunk of whole lines and append the normal form of each record, newline included, to `into`.

        `line` is the number of the first line, and `offset` is where the chunk begins in the shard's text.
        """
        start = len(into)
        if len(data) > _GIANT:
            # The decoder crashes when memory runs out. So allocate what it may need, untouched, and free it at once: if
            # there is not enough, this raises MemoryError.
            bytearray(_ROOM * len(data))
        batch, balanced = self._judge_fast(data, into, line, offset)
        if balanced:
            return batch
        # A key was dropped somewhere in the chunk. Compare line by line: lines with a difference take the slow path,
        # which sees duplicate keys.
        del into[start:]
        batch = Batch()
        position = 0
        while position < len(data):
            end = data.find(b"\n", position) + 1 or len(data)
            location = line + batch.lines, offset + position
            start = len(into)
            judged, balanced = self._judge_fast(data[position:end], into, *location)
            if not balanced:
                del into[start:]
                judged = Batch(lines=1)
                self._judge_slow(data[position:end].removesuffix(b"\n"), into, judged, *location)
            batch += judged
            position = end
        return batch

    def _judge_fast(self, data: bytes, into: bytearray, line: int, offset: int) -> tuple[Batch, bool]:
        """Judge a chunk; return also whether the colons balance, which means that no key was dropped.

        This is the hottest loop of fastrec. It is one long function because a call per record costs more than most of
        its steps. It passes views into the chunk to the decoder, which saves a copy of every line.
        """
        batch = Batch()
        records, numbers, ends = batch.records, batch.numbers, batch.ends
        decode, encode_into, compute_hash = self._decoder.decode, self._encode_into, self._hash
        follows_rules, drop_nulls = self._schema.follows_rules, self._schema.drop_nulls
        mode, with_warnings, fill = self._mode, self._warnings, self._fill
        view = memoryview(data)
        size = len(data)
        start = len(into)
        next_newline = data.find
        next_null = find(data, b"null") % (size + 1)  # -1 becomes size: after every line
        excess = 0  # colons that the input has more than the output for good reason
        filled = verified = number = position = 0
        while position < size:
            end = next_newline(b"\n", position)
            if end < 0:
                end = size
            try:
                record = decode(view[position:end])
                valid = follows_rules(record)
            except _REFUSALS:
                valid = False
            if valid:
                asked = record.input
                given = record.sample_hash
                computed = compute_hash(asked.raw, asked.reference) if fill or given is not UNSET else ""
                if given is UNSET:
                    filled += 1
                    if fill:
                        excess -= 1
                        record.sample_hash = computed
                elif given == computed:
                    verified += 1
                elif mode == "verify":
                    valid = False
                else:
                    batch.replaced.append(_replaced(record, given, computed))
                    if mode == "replace":
                        record.sample_hash = computed
            if valid:
                if with_warnings:
                    for finding in warnings_of(record, self._schema, given, computed):
                        batch.warnings.append((line + number, finding))
                if next_null < end:
                    excess += drop_nulls(record)
                    next_null = find(data, b"null", end) % (size + 1)
                encode_into(record, into, -1)
                into.append(10)
                records.append(record)
                numbers.append(line + number)
                ends.append(len(into))
            else:
                raw = bytes(view[position:end])
                length = len(into)
                self._judge_slow(raw, into, batch, line + number, offset + position)
                excess += _colons(raw) - count(memoryview(into)[length:], b":")
                decode = self._decoder.decode  # it may know more keys now
            position = end + 1
            number += 1
        batch.lines = number
        batch.filled += filled
        batch.verified += verified
        return batch, _colons(data) - count(memoryview(into)[start:], b":") == excess

    def _judge_slow(self, raw: bytes, into: bytearray, batch: Batch, line: int, offset: int) -> None:
        """Judge one line by the slow path and add the result to the batch."""
        if not raw.strip(b" \t\r"):
            batch.blank += 1
            return
        value = judge_slowly(raw, self._schema)
        if isinstance(value, Errors):
            batch.rejected.append(InvalidLine(line, offset, value.findings, raw, unlisted=value.unlisted))
            return
        computed = self._hash(value["input"]["raw"], value["input"]["reference"])
        given = value.get("sample_hash", UNSET)
        if self._mode == "verify" and given is not UNSET and given != computed:
            finding = Finding("hash.mismatch", "$.sample_hash", f"expected {computed}, found {describe(given)}")
            batch.rejected.append(InvalidLine(line, offset, (finding,), raw))
            return
        if self._mode == "replace" or given is UNSET:
            value["sample_hash"] = computed
        unknown: dict[str, set[str]] = {}
        normal = normal_form(value, self._schema.shape, unknown)
        record = build(self._schema.record, normal)
        if given is UNSET:
            batch.filled += 1
        elif given == computed:
            batch.verified += 1
        else:
            batch.replaced.append(_replaced(record, given, computed))
        if self._warnings:
            batch.warnings += [(line, finding) for finding in warnings_of(record, self._schema, given, computed)]
        into += spell(normal)
        into.append(10)
        batch.records.append(record)
        batch.numbers.append(line)
        batch.ends.append(len(into))
        batch.slow += 1
        if unknown:
            self._decoder.learn(unknown)


def _colons(text: bytes) -> int:
    """Count the colons of JSON text, including escaped ones."""
    colons: int = count(text, b":")
    if find(text, b"\\u003") >= 0:
        colons += count(text, b"\\u003a") + count(text, b"\\u003A")
    return colons


def _replaced(record: Record, given: str, computed: str) -> HashReplaced:
    return HashReplaced(record.evaluation_name, record.model_id, record.sample_id, given, computed)
