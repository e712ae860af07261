"""The settings of a judge, and what the fast path needs for each schema version.

Most runs see records of one version. So the rules of a version are made when they are first needed:
its decoder and the functions that are generated for it take milliseconds.
"""

from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET
from stringzilla import count, find

from fastrec.filters import Filters
from fastrec.judge.known_inputs import KNOWN_INPUT_BYTES, KnownInput, Learn
from fastrec.schemas.hashes import Hash
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, SCHEMAS, TARGETS, chosen_schema
from fastrec.schemas.schema import Schema, Test, compile_drop_nulls
from fastrec.schemas.upgrade import upgrade_input
from fastrec.schemas.view import REFUSALS
from fastrec.schemas.widen import LearningDecoder

SampleHashMode = Literal["replace", "fill", "verify"]

# The type of an unknown key `evaluation_result_id` that names no metric.
#
# Text would name a metric, which decides the target. The decoder refuses text there, so that the
# slow path sees it. Other records are judged at full speed.
NO_METRIC = None | bool | int | float
# The type of an unknown key whose value only the slow path may see: no value is of it.
_NO_VALUE = Annotated[int, msgspec.Meta(ge=1, le=0)]


class JudgeSettings(msgspec.Struct, frozen=True):
    """The settings of a judge; versions are given by name."""

    # The version to judge by; `auto` is the version of each record, told by its shape.
    schema: str = "auto"
    # The version that records are upgraded to; None if each keeps its version.
    target: str | None = None
    # The target becomes the newest version as soon as there is a newer record (`--schema auto`).
    #
    # That is a record of a later version than the default one, or one that names a metric. So such
    # a record counts as one that repairs would keep.
    target_is_guess: bool = False
    algorithm: str = "sha256"
    sample_hash: SampleHashMode = "replace"  # what to do with a wrong `sample_hash`
    any_recipe: bool = True  # a hash by another recipe than that of the target is not wrong
    warnings: bool = False
    # Without it there are only verdicts, which is much faster: no records, no normal forms and no
    # upgrades.
    normal: bool = True
    records: bool = False  # batches have records and their line numbers even if `normal` is false
    repairs: frozenset[str] = frozenset()
    # Memory for known inputs. They make judging faster, but records with them have no `input` of
    # their own.
    known_input_bytes: int = KNOWN_INPUT_BYTES
    # Valid records that do not match are counted, and are otherwise not there; this needs a
    # target.
    filters: Filters = Filters()

    def __post_init__(self) -> None:
        assert self.normal or not self.target
        assert self.target or not self.filters


def count_colons(text: bytes | memoryview) -> int:
    """Count the colons of JSON text, including escaped ones."""
    colons: int = count(text, b":")
    if find(text, b"\\u003") >= 0:
        colons += count(text, b"\\u003a") + count(text, b"\\u003A")
    return colons


class VersionRules(NamedTuple):
    """What the fast path needs to judge a line by one version."""

    schema: Schema
    decoder: LearningDecoder
    # With these labels, a record that decodes and follows the rules is of this version.
    sure_labels: frozenset[str]
    # Whether such a record with another label is surely of this version.
    claims: Test
    # The version that records are upgraded to, or their own one. The hash is of this version.
    target: Schema
    compute_hash: Hash
    learn: Learn  # judges an input alone, for `known_inputs`


class RulesByVersion:
    """The rules of the versions that a judge may find: one version alone, or all of them."""

    def __init__(self, settings: JudgeSettings) -> None:
        self.schema = chosen_schema(settings.schema)
        self.target = TARGETS[settings.target] if settings.target else None
        self.schemas = [self.schema] if self.schema else list(SCHEMAS.values())
        self._settings = settings
        self._made = cache(self._make)

    def of(self, schema: Schema, target: Schema | None = None) -> VersionRules:
        """The rules of a version.

        Its records are upgraded to the target of the judge, or to another one.
        """
        return self._made(schema, target or self.target or schema)

    def _make(self, schema: Schema, target: Schema) -> VersionRules:
        hints: dict[str, Any] = {}
        if not self.schema:
            # A record with `messages` beside `interactions` gets a note, which only the slow path
            # makes.
            hints["messages"] = _NO_VALUE
        if self._settings.target_is_guess and target is DEFAULT_SCHEMA:
            hints["evaluation_result_id"] = NO_METRIC
        decoder = LearningDecoder(schema.record, hints)
        compute_hash = target.hashes[self._settings.algorithm]
        return VersionRules(
            schema,
            decoder,
            schema.labels if self.schema or schema.has_sure_labels else frozenset(),
            (lambda _: True) if self.schema else schema.claims,
            target,
            compute_hash,
            _learner(schema, target, decoder, compute_hash),
        )


def _learner(schema: Schema, target: Schema, decoder: LearningDecoder, compute_hash: Hash) -> Learn:
    """Make the function that judges an input alone; it returns None if the fast path cannot."""
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
        # the buffer of the encoder may be half as long again
        normal = bytes(memoryview(encode(asked)))
        return KnownInput(text, msgspec.Raw(normal), count(normal, b":"), computed, outline)

    return learn
