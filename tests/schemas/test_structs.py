"""The Structs agree with the schema file: same fields, order, types and bounds."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import msgspec
import pytest

from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.v0_2_0 import Interaction, Record
from fastrec.schemas.widen import can_widen, widen

SHARED = pathlib.Path(__file__).parents[2].parent / "shared" / "schema" / "instance_level_eval_0.2.0.schema.json"
JSON_TYPES = {
    msgspec.inspect.StrType: "string",
    msgspec.inspect.IntType: "integer",
    msgspec.inspect.FloatType: "number",
    msgspec.inspect.BoolType: "boolean",
    msgspec.inspect.NoneType: "null",
    msgspec.inspect.ListType: "array",
    msgspec.inspect.DictType: "object",
    msgspec.inspect.StructType: "object",
    msgspec.inspect.LiteralType: "string",
}


def branches(kind: Any) -> list[Any]:
    return list(kind.types) if isinstance(kind, msgspec.inspect.UnionType) else [kind]


def compare(struct: Any, schema: dict[str, Any], path: str) -> None:
    assert [field.encode_name for field in struct.fields] == list(schema["properties"]), path
    for field in struct.fields:
        sub, at = schema["properties"][field.encode_name], f"{path}.{field.encode_name}"
        assert field.required == (field.encode_name in schema.get("required", [])), at
        compare_type(branches(field.type), sub, at)


def compare_type(kinds: list[Any], schema: dict[str, Any], at: str) -> None:
    forms = schema.get("oneOf", [schema])
    wanted = {name for form in forms for name in ([form["type"]] if isinstance(form["type"], str) else form["type"])}
    found = {JSON_TYPES[type(kind)] for kind in kinds}
    if "number" in found:
        found.discard("integer")
    assert found == wanted, at
    for kind in kinds:
        if isinstance(kind, (msgspec.inspect.IntType, msgspec.inspect.FloatType)):
            assert kind.ge == schema.get("minimum"), at
        elif isinstance(kind, msgspec.inspect.LiteralType):
            assert set(kind.values) == set(schema["enum"]), at
        elif isinstance(kind, msgspec.inspect.StructType):
            compare(kind, schema, at)
        elif isinstance(kind, msgspec.inspect.ListType):
            items = next(form["items"] for form in forms if "items" in form)
            compare_type(branches(kind.item_type), items, at + "[]")


def test_structs_agree_with_the_schema_field_by_field() -> None:
    """Every object of the schema has a Struct with the same fields, order, types, bounds and required fields."""
    compare(msgspec.inspect.type_info(Record), DEFAULT_SCHEMA.document, "$")


def test_the_schema_file_ships_unchanged() -> None:
    """The schema file of the package is the published one, byte for byte."""
    if not SHARED.exists():
        pytest.skip("the published schema file is not beside this checkout")
    assert DEFAULT_SCHEMA.source == SHARED.read_bytes()
    assert json.loads(DEFAULT_SCHEMA.source)["version"] == "instance_level_eval_0.2.0"


def test_shape_follows_the_schema() -> None:
    """The shape has the order, integers, nulls and nesting of the schema."""
    shape = DEFAULT_SCHEMA.shape
    assert list(shape.fields) == list(DEFAULT_SCHEMA.document["properties"])
    assert shape.fields["sample_id"].integer
    assert not shape.fields["evaluation"].shape.fields["score"].integer
    assert shape.fields["interactions"].drops_null
    assert shape.fields["interactions"].shape.fields["tool_calls"].shape.path == "interactions.tool_calls"
    assert not shape.fields["metadata"].drops_null


def test_widened_records_are_records_with_more_fields_in_order() -> None:
    """Fields of unknown keys come after the known ones by code point, at any level and for any name."""
    wide = widen(
        Record, {"": ["zz", "a b", "copy", "unknown_0"], "interactions.tool_calls": ["é"], "performance": ["price"]}
    )
    assert issubclass(wide, Record)
    assert wide.__struct_encode_fields__[len(Record.__struct_fields__) :] == (
        "a b",
        "copy",
        "unknown_0",
        "zz",
    )
    assert len(set(wide.__struct_fields__)) == len(wide.__struct_fields__)
    line = {
        "schema_version": "", "evaluation_id": "", "model_id": "", "evaluation_name": "", "sample_id": 1,
        "interaction_type": "agentic", "input": {"raw": "", "reference": ""}, "answer_attribution": [],
        "interactions": [{"turn_idx": 0, "role": "", "tool_calls": [{"id": "", "name": "", "é": [1]}]}],
        "evaluation": {"score": 1, "is_correct": True}, "performance": {"price": 0.5}, "zz": 3,
    }  # fmt: skip
    record = msgspec.json.decode(json.dumps(line), type=wide)
    assert record.performance.price == 0.5
    assert isinstance(record.interactions[0], Interaction)
    assert msgspec.json.decode(msgspec.json.encode(record)) == line


def test_keys_that_cannot_be_fields() -> None:
    """A key that JSON has to escape, or a very long one, cannot become a field."""
    assert can_widen("zz")
    assert not any(can_widen(key) for key in ['"', "\\", "\n", "x" * 257])
