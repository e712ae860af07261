"""One version of the record schema: everything that other folders have to know about it.

A version is a module of this folder that defines the Structs and one `Schema`, plus the JSON Schema file as it was
published. `registry` lists the versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import takewhile
from typing import Any

import msgspec

from fastrec.schemas.compiled import Rule, compile_drop_nulls, compile_follows_rules
from fastrec.schemas.hashes import Hash
from fastrec.schemas.shape import Shape, shape_of
from fastrec.schemas.structs import Base

__all__ = ["Schema"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Schema:
    """A version of the schema. Compared by identity: there is one object per version and process."""

    name: str
    """The value of `schema_version` in records and of `schema` in manifests."""
    file: str
    """The JSON Schema, in `files/`. The arbiter validates against it; the Structs are tested against it."""
    record: type[Any]
    """The Struct of a record."""
    rules: tuple[Rule, ...]
    """The conditional rules (`allOf` in the file), those of equal interaction types next to each other."""
    hashes: Mapping[str, Hash]
    """By algorithm, the function from `input.raw` and `input.reference` to `sample_hash`."""
    identity: tuple[str, ...]
    """The fields that identify a record. Records of equal identity are repeats."""
    sort_fields: tuple[str, ...]
    """The fields that records are sorted by, in the default order."""
    turns_field: str
    """The field with the turns of a conversation."""

    @cached_property
    def source(self) -> bytes:
        """The schema file, byte for byte."""
        return files("fastrec.schemas").joinpath("files", self.file).read_bytes()

    @cached_property
    def document(self) -> dict[str, Any]:
        """The schema file as a dict; do not change it."""
        document: dict[str, Any] = msgspec.json.decode(self.source)
        return document

    @cached_property
    def shape(self) -> Shape:
        """The known fields at every level, for code that walks plain dicts."""
        record: type[Base] = self.record
        return shape_of(record)

    @cached_property
    def head_fields(self) -> tuple[str, ...]:
        """The fields at the start of a line in normal form: all before the first object, none of them nested.

        An optional field other than `sample_hash` may be absent from a line.
        """
        return tuple(takewhile(lambda name: self.shape.fields[name].shape is None, self.shape.fields))

    @cached_property
    def follows_rules(self) -> Callable[[Any], bool]:
        """The function that says whether a record of the right types follows the conditional rules."""
        return compile_follows_rules(self.rules)

    @cached_property
    def drop_nulls(self) -> Callable[[Any], int]:
        """The function that unsets the nulls of a record that mean the same as absence, and counts them."""
        return compile_drop_nulls(self.shape)

    @cached_property
    def rules_by_type(self) -> dict[str, dict[str, Rule]]:
        """The conditional rules by interaction type, then by field."""
        types = {kind for rule in self.rules for kind in rule.types}
        return {kind: {rule.field: rule for rule in self.rules if kind in rule.types} for kind in types}
