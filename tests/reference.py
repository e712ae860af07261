"""A reference implementation of what fastrec promises, slow and obvious: stdlib json, jsonschema,
sorted.

It uses nothing of fastrec but the schema files, so it can serve as an oracle. Without a version,
records are of 0.2.0.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema

VERSIONS = ("0.2.0", "0.2.0-released", "0.2.1", "0.3.0")


@cache
def schema(version: str = "0.2.0") -> dict[str, Any]:
    path = files("fastrec.schemas") / "files" / f"instance_level_eval_{version}.schema.json"
    return json.loads(path.read_bytes())


@cache
def validator(version: str = "0.2.0") -> jsonschema.Draft7Validator:
    """A validator that makes those of its subschemas once, not for every value: a quarter faster."""
    kind = jsonschema.validators.extend(jsonschema.Draft7Validator)
    make = kind.evolve
    made = {}

    def evolve(self: Any, schema: Any, **changes: Any) -> Any:
        if id(schema) not in made:
            made[id(schema)] = (
                make(self, schema=schema, **changes),
                schema,
            )  # a schema that is kept keeps its id
        return made[id(schema)][0]

    kind.evolve = evolve
    return kind(schema(version))


def is_valid(value: Any, version: str = "0.2.0") -> bool:
    return validator(version).is_valid(value)


def version_of(value: Any) -> str | None:
    """Return the version of a record: one that it is valid by; if there are several, shape and
    label decide.
    """
    fitting = [version for version in VERSIONS if is_valid(value, version)]
    if len(fitting) < 2 or "0.2.0" in fitting:
        return fitting[0] if fitting else None
    label = value["schema_version"].removeprefix("instance_level_eval_")
    named = {"0.2.0": "0.2.0-released", "0.2.1": "0.2.1"}.get(label)
    return named if named in fitting and "evaluation_result_id" not in value else "0.3.0"


def sample_hash(record: dict[str, Any], version: str = "0.2.0") -> str:
    raw = record["input"]["raw"]
    reference = record["input"]["reference"]
    text = raw + reference if version == "0.2.0" else _question(raw, reference)
    return hashlib.sha256(text.encode()).hexdigest()


def _question(raw: str, reference: str | list[str]) -> str:
    references = [reference] if isinstance(reference, str) else reference
    return json.dumps({"raw": raw, "reference": references}, sort_keys=True, separators=(",", ":"))


def normal_record(value: dict[str, Any], version: str = "0.2.0") -> dict[str, Any]:
    """Return the normal form of a record, by the five rules, on plain dicts."""
    changed = {"sample_hash": sample_hash(value, version)}
    if (
        version == "0.3.0"
        and "evaluation_result_id" not in value
        and value["schema_version"].removeprefix("instance_level_eval_") == "0.2.0"
    ):
        changed["schema_version"] = "0.3.0"
    return _normal({**value, **changed}, schema(version))


def _normal(value: Any, node: dict[str, Any]) -> Any:
    if isinstance(value, list) and "items" in node:
        return [_normal(item, node["items"]) for item in value]
    if not isinstance(value, dict) or "properties" not in node:
        return _free(value)
    known = node["properties"]
    required = node.get("required", [])
    out = {}
    for key in [
        *(key for key in known if key in value),
        *sorted(key for key in value if key not in known),
    ]:
        child = value[key]
        sub = known.get(key, {})
        types = sub.get("type", [])
        types = [types] if isinstance(types, str) else types
        if child is None and "null" in types and key not in required:
            continue
        if isinstance(child, float) and "integer" in types and "number" not in types:
            child = int(child)
        out[key] = _normal(child, sub)
    return out


def _free(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _free(value[key]) for key in sorted(value)}
    return [_free(item) for item in value] if isinstance(value, list) else value


def same(left: Any, right: Any) -> bool:
    """Compare with key order, and distinguish 1, 1.0 and true, and 0.0 and -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right)
