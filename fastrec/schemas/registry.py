"""The schema versions that fastrec knows. To add one, write a module like `v0_2_0` and add its `SCHEMA` here."""

from __future__ import annotations

from typing import Final

from fastrec.schemas.schema import Schema
from fastrec.schemas.v0_2_0 import SCHEMA as V0_2_0
from fastrec.schemas.v0_2_0 import Record

__all__ = ["DEFAULT_SCHEMA", "SCHEMAS", "Record"]

SCHEMAS: Final[dict[str, Schema]] = {schema.name: schema for schema in (V0_2_0,)}
"""Every version by name, the oldest first."""

DEFAULT_SCHEMA: Final = V0_2_0
"""The version of records and corpora unless a caller chooses another. `Record` is its Struct."""
