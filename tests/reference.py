"""A reference implementation of what fastrec promises, slow and obvious: stdlib json, jsonschema, sorted.

It uses nothing of fastrec but the schema file, so it can serve as an oracle.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema


@cache
def schema() -> dict[str, Any]:
    path = files("fastrec.schemas") / "files" / "instance_level_eval_0.2.0.schema.json"
    return json.loads(path.read_bytes())


@cache
def validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(schema())


def is_valid(value: Any) -> bool:
    return validator().is_valid(value)


def sample_hash(record: dict[str, Any]) -> str:
    return hashlib.sha256((record["input"]["raw"] + record["input"]["reference"]).encode()).hexdigest()


def normal_record(value: dict[str, Any]) -> dict[str, Any]:
    """Return the normal form of a record, by the five rules, on plain dicts."""
    return _normal({**value, "sample_hash": sample_hash(value)}, schema())


def _normal(value: Any, node: dict[str, Any]) -> Any:
    if isinstance(value, list) and "items" in node:
        return [_normal(item, node["items"]) for item in value]
    if not isinstance(value, dict) or "properties" not in node:
        return _free(value)
    known = node["properties"]
    required = node.get("required", [])
    out = {}
    for key in [*(key for key in known if key in value), *sorted(key for key in value if key not in known)]:
        child, sub = value[key], known.get(key, {})
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
