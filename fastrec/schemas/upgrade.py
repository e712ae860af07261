"""Upgrade records to the newest version."""

from __future__ import annotations

from typing import Any

from fastrec.schemas.schema import Schema

__all__ = ["upgrade_record", "upgrade_value"]


def upgrade_value(value: dict[str, Any], schema: Schema) -> tuple[dict[str, Any], list[str]]:
    """Upgrade a valid record of a version, given as a dict; return also the codes of its lossy or ambiguous steps."""
    raise NotImplementedError(schema.name, value)


def upgrade_record(record: Any, schema: Schema) -> tuple[Any, list[str]] | None:
    """Upgrade a decoded record; None if it has unknown keys, which only `upgrade_value` upgrades."""
    raise NotImplementedError(schema.name, record)
