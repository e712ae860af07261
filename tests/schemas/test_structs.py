"""The Structs of every version agree with its schema file: same fields, order, types and bounds."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from fastrec.judge.judge import Judge
from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS, fields_of
from fastrec.schemas.schema import Schema
from fastrec.schemas.v0_2_0 import Interaction, Record
from fastrec.schemas.widen import can_widen, widen
from tests.samples import sample_of

PUBLISHED = pathlib.Path(__file__).parents[2].parent / "shared" / "schema"
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
        sub = schema["properties"][field.encode_name]
        at = f"{path}.{field.encode_name}"
        assert field.required == (field.encode_name in schema.get("required", [])), at
        compare_type(branches(field.type), sub, at)


def compare_type(kinds: list[Any], schema: dict[str, Any], at: str) -> None:
    forms = schema.get("oneOf", [schema])
    wanted = {
        name
        for form in forms
        for name in ([form["type"]] if isinstance(form["type"], str) else form["type"])
    }
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
        elif isinstance(kind, msgspec.inspect.DictType) and isinstance(
            schema["additionalProperties"], dict
        ):
            compare_type(branches(kind.value_type), schema["additionalProperties"], at + ".*")
        elif isinstance(kind, msgspec.inspect.ListType):
            items = next(form["items"] for form in forms if "items" in form)
            compare_type(branches(kind.item_type), items, at + "[]")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_structs_agree_with_the_schema_field_by_field(schema: Schema) -> None:
    """Every object of the schema has a Struct with the same fields, order, types, bounds and
    required fields.
    """
    compare(msgspec.inspect.type_info(schema.record), schema.document, "$")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_structs_are_open_where_the_schema_is(schema: Schema) -> None:
    """Only the root is ever closed, and values of free-form objects are either texts or anything."""
    assert schema.closed == (schema.name in ("0.2.1", "0.3.0"))
    objects = list(schema.document["properties"].items())
    while objects:
        name, node = objects.pop()
        objects += node.get("properties", {}).items()
        objects += [("[]", node["items"])] if "items" in node else []
        if node.get("additionalProperties", True) is not True:
            assert node["additionalProperties"] == {"type": "string"}
            assert name in ("arguments", "metadata", "additional_details")


def published(name: str) -> bytes:
    """Return a published schema file."""
    path = PUBLISHED / name
    if not path.exists():
        pytest.skip(f"the published schema file {name} is not beside this checkout")
    return path.read_bytes()


def test_the_schema_file_ships_unchanged() -> None:
    """The schema file of 0.2.0 is the published one, byte for byte."""
    assert DEFAULT_SCHEMA.source == published("instance_level_eval_0.2.0.schema.json")
    assert json.loads(DEFAULT_SCHEMA.source)["version"] == "instance_level_eval_0.2.0"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("0.2.0-released", "0.2.0-released"),
        ("0.2.1", "0.2.1"),
        ("0.2.2", "0.3.0"),
        ("0.3.0", "0.3.0"),
    ],
)
def test_later_schema_files_have_the_published_structure(name: str, version: str) -> None:
    """Each file has the keywords, and the order of properties, of the published one.

    0.2.2 and 0.3.0 are equal.
    """
    theirs = structure(json.loads(published(f"versions/instance_level_eval_{name}.schema.json")))
    assert json.dumps(structure(SCHEMAS[version].document)) == json.dumps(theirs)


def structure(node: Any) -> Any:
    """Leave out prose and the version; a property may have such a name."""
    if isinstance(node, list):
        return [structure(item) for item in node]
    if not isinstance(node, dict):
        return node
    prose = ("description", "title", "$comment", "examples", "version")
    return {
        key: structure(child)
        for key, child in node.items()
        if key not in prose or isinstance(child, dict)
    }


def test_shape_follows_the_schema() -> None:
    """The shape has the order, integers, nulls and nesting of the schema."""
    shape = DEFAULT_SCHEMA.shape
    assert list(shape.fields) == list(DEFAULT_SCHEMA.document["properties"])
    assert shape.fields["sample_id"].integer
    assert not shape.fields["evaluation"].shape.fields["score"].integer
    assert shape.fields["interactions"].drops_null
    assert (
        shape.fields["interactions"].shape.fields["tool_calls"].shape.path
        == "interactions.tool_calls"
    )
    assert not shape.fields["metadata"].drops_null


def test_widened_records_are_records_with_more_fields_in_order() -> None:
    """Fields of unknown keys come after the known ones by code point, at any level and for any
    name.
    """
    wide = widen(
        Record,
        {
            "": ["zz", "a b", "copy", "unknown_0"],
            "interactions.tool_calls": ["é"],
            "performance": ["price"],
        },
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


def structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """The Structs in a type, with those of their fields."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
        for field in msgspec.structs.fields(hint):
            yield from structs_in(field.type)
    for argument in get_args(hint):
        yield from structs_in(argument)


@pytest.mark.parametrize("version", SCHEMAS)
def test_unknown_keys_do_not_move_known_ones(version: str) -> None:
    """In whichever objects they are: the order of fields is that of the normal form."""
    schema = SCHEMAS[version]
    objects = {".".join(path[:-1]) for path in fields_of([schema.shape])}
    assert "messages.tool_calls" in objects or "interactions.tool_calls" in objects
    for paths in (*([path] for path in objects), sorted(objects)):
        widened = widen(schema.record, {path: {"zz"} for path in paths})
        pairs = zip(structs_in(schema.record), structs_in(widened), strict=True)
        for struct, wide in pairs:
            known = [field.encode_name for field in msgspec.structs.fields(struct)]
            found = [field.encode_name for field in msgspec.structs.fields(wide)]
            assert found in (known, [*known, "zz"])


def test_unknown_keys_of_tool_calls_do_not_change_the_next_record() -> None:
    record = sample_of("0.3.0", "agentic")
    call = {"id": "1", "name": "f"}
    record["messages"] = [
        {"turn_idx": 0, "role": "assistant", "tool_calls": [call], "tool_call_id": ["1"]}
    ]
    usual = json.dumps(record).encode()
    record["messages"][0]["tool_calls"] = [call | {"zz": 1}]
    odd = json.dumps(record).encode()
    fresh, seasoned = bytearray(), bytearray()
    Judge().judge_chunk(usual, fresh)
    judge = Judge()
    judge.judge_chunk(odd, bytearray())
    judge.judge_chunk(usual, seasoned)
    assert seasoned == fresh
    assert fresh.index(b'"tool_calls"') < fresh.index(b'"tool_call_id"')
