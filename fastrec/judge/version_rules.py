"""Count the colons of JSON text: each key has one, so a dropped key changes their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET
from stringzilla import count, find

from fastrec.judge.known_inputs import KnownInput, Learn
from fastrec.schemas.fast_upgrade import upgrade_input
from fastrec.schemas.hashes import Hash
from fastrec.schemas.registry import NEWEST_SCHEMA, SCHEMAS
from fastrec.schemas.schema import Schema, compile_drop_nulls
from fastrec.schemas.widen import LearningDecoder


def count_colons(text: bytes | memoryview) -> int:
    """Count the colons of JSON text, including escaped ones."""
    colons: int = count(text, b":")
    if find(text, b"\\u003") >= 0:
        colons += count(text, b"\\u003a") + count(text, b"\\u003A")
    return colons


# @@ lanes: Lanes of the judge: what the fast path needs to judge lines by one schema version.
#
# Most runs see records of one version. So a lane is made when it is first needed: its decoder and the functions that are
# generated for it take milliseconds.

REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises if it refuses a line."""


class Lane(NamedTuple):
    """What the fast path needs to judge a line by one version."""

    schema: Schema
    decoder: LearningDecoder
    sure_labels: frozenset[str]
    """With these labels, a record that decodes and follows the rules is of this version."""
    claims: Callable[[Any], bool]
    """Whether such a record with another label is surely of this version."""
    follows_rules: Callable[[Any], bool]
    target: Schema
    """The version that records are upgraded to, or their own one. The fields below are of this version."""
    drop_nulls: Callable[[Any], int]
    compute_hash: Hash
    recipe: str
    learn: Learn
    """Judges an input alone, for `known_inputs`."""


class Lanes:
    """The lanes of a judge: of one version alone, or of all of them."""

    def __init__(self, schema: Schema | None, target: Schema | None, algorithm: str) -> None:
        self._is_pinned = schema is not None
        self._schemas = [schema] if schema else list(SCHEMAS.values())
        self._target = target
        self._algorithm = algorithm
        self._lanes: dict[tuple[str, str], Lane] = {}

    @property
    def first(self) -> Lane:
        """The lane of the first version."""
        return self.of(self._schemas[0])

    def of(self, schema: Schema, target: Schema | None = None) -> Lane:
        """Return the lane of a version, to that of the lanes or to another target."""
        target = target or self._target or schema
        lane = self._lanes.get((schema.name, target.name))
        return lane or self._lanes.setdefault((schema.name, target.name), self._make(schema, target))

    def find(self, line: memoryview, but: Lane) -> Lane | None:
        """Return the lane of another version than that of a lane that a line is surely a record of; None if none is."""
        for schema in self._schemas:
            if schema is but.schema:
                continue
            lane = self.of(schema)
            try:
                record = lane.decoder.decode(line)
            except REFUSALS:
                continue
            if lane.follows_rules(record) and (record.schema_version in lane.sure_labels or lane.claims(record)):
                return lane
        return None

    def _make(self, schema: Schema, target: Schema) -> Lane:
        # A record with `messages` may be of two versions at once, which only the slow path can tell.
        decoder = LearningDecoder(schema.record, never=() if self._is_pinned else ("messages",))
        compute_hash = target.hashes[self._algorithm]
        return Lane(
            schema,
            decoder,
            schema.labels if self._is_pinned else schema.sure_labels,
            _always if self._is_pinned else schema.claims,
            schema.follows_rules,
            target,
            target.drop_nulls,
            compute_hash,
            target.recipe,
            _learner(schema, target, decoder, compute_hash),
        )


def _learner(schema: Schema, target: Schema, decoder: LearningDecoder, compute_hash: Hash) -> Learn:
    """Return the function that judges an input alone; it returns None if the fast path cannot."""
    if target not in (schema, NEWEST_SCHEMA):
        return lambda _: None  # records of later versions than the target are not upgraded
    encode = msgspec.json.Encoder(order="deterministic").encode
    shape = target.shape.fields["input"].shape
    assert shape
    drop_nulls = compile_drop_nulls(shape)

    def learn(text: bytes) -> KnownInput | None:
        try:
            decoded = asked = decoder.parts[1](text)
        except REFUSALS:
            return None
        if count(encode(decoded), b":") != count_colons(text):
            return None  # a key was dropped
        outline = decoded.__class__(
            raw="",
            formatted=None if decoded.formatted is None else UNSET,
            reference=decoded.reference[:1] if decoded.reference.__class__ is str else [],
            choices=None if decoded.choices is None else UNSET,
        )
        if target is not schema:
            asked = upgrade_input(decoded, schema)
        computed = compute_hash(asked.raw, asked.reference)
        drop_nulls(asked)
        normal = bytes(memoryview(encode(asked)))  # the buffer of the encoder may be half as long again
        return KnownInput(text, msgspec.Raw(normal), count(normal, b":"), computed, outline)

    return learn


def _always(record: Any) -> bool:  # noqa: ARG001 - it stands for the claims of a version
    return True
