"""The schema versions that fastrec knows. To add one, write a module like `v0_2_0` and add its `SCHEMA` here."""

from __future__ import annotations

from typing import Final

from fastrec.errors import UsageError
from fastrec.schemas.schema import Schema
from fastrec.schemas.v0_2_0 import SCHEMA as V0_2_0
from fastrec.schemas.v0_2_0 import Record
from fastrec.schemas.v0_2_0_released import SCHEMA as V0_2_0_RELEASED
from fastrec.schemas.v0_2_0_released import Record as ReleasedRecord
from fastrec.schemas.v0_2_1 import SCHEMA as V0_2_1
from fastrec.schemas.v0_2_1 import Record as Record021
from fastrec.schemas.v0_3_0 import SCHEMA as V0_3_0
from fastrec.schemas.v0_3_0 import Record as Record030

__all__ = [
    "CORPUS_LABELS",
    "DEFAULT_SCHEMA",
    "NEWEST_SCHEMA",
    "SCHEMAS",
    "TARGETS",
    "AnyRecord",
    "Record",
    "chosen_schema",
    "schema_named",
    "schema_of",
]

SCHEMAS: Final[dict[str, Schema]] = {schema.name: schema for schema in (V0_2_0, V0_2_0_RELEASED, V0_2_1, V0_3_0)}
"""Every version by name, the oldest first."""

DEFAULT_SCHEMA: Final = V0_2_0
"""The version of a corpus if all of its records are of this version. `Record` is its Struct."""

NEWEST_SCHEMA: Final = V0_3_0
"""The version of a corpus otherwise: all records are upgraded to it."""

TARGETS: Final[dict[str, Schema]] = {schema.name: schema for schema in (DEFAULT_SCHEMA, NEWEST_SCHEMA)}
"""The versions that a corpus can have, by name."""

CORPUS_LABELS: Final[dict[str, Schema]] = {schema.label: schema for schema in TARGETS.values()}
"""The same by what manifests say."""


AnyRecord = Record | ReleasedRecord | Record021 | Record030
"""A record of any version."""

_BY_RECORD: Final = {schema.record: schema for schema in SCHEMAS.values()}


def schema_of(record: AnyRecord) -> Schema:
    """Return the version of a decoded record, by its class or the one that it widens."""
    return next(_BY_RECORD[kind] for kind in type(record).__mro__ if kind in _BY_RECORD)


def chosen_schema(name: str) -> Schema | None:
    """Return the version that a user chose, or None for `auto`: the version of each record, told by its shape."""
    return None if name == "auto" else schema_named(name)


def schema_named(name: str) -> Schema:
    """Return the version with this name.

    >>> schema_named("0.3.0").turns_field
    'messages'
    """
    if name not in SCHEMAS:
        raise UsageError(f"there is no schema version {name!r}; the versions are {', '.join(SCHEMAS)}")
    return SCHEMAS[name]
