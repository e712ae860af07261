"""The registry: what other folders ask about a schema version, and the functions generated for it."""

from __future__ import annotations

import pytest
from msgspec import UNSET, UnsetType

from fastrec.schemas.registry import SCHEMAS
from fastrec.schemas.schema import (
    Base,
    Rule,
    Schema,
    compile_drop_nulls,
    compile_follows_rules,
    shape_of,
)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_version_agrees_with_its_file(schema: Schema) -> None:
    """The file's own label is one of the version, and all fields that other folders use are
    properties.
    """
    assert schema.document["version"] in schema.labels
    assert schema.file == f"instance_level_eval_{schema.name}.schema.json"
    assert {
        *schema.identity,
        *schema.sort_fields,
        schema.turns_field,
    } <= schema.shape.fields.keys()


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_rules_cover_the_interaction_types(schema: Schema) -> None:
    """There are rules for exactly the interaction types of the schema, and each code occurs once."""
    assert {kind for rule in schema.rules for kind in rule.types} == set(
        schema.document["properties"]["interaction_type"]["enum"]
    )
    codes = [rule.code for rule in schema.rules]
    assert len(codes) == len(set(codes))


class Leaf(Base, kw_only=True):
    note: str | UnsetType | None = UNSET
    name: str


class Tree(Base, kw_only=True):
    one: Leaf | UnsetType | None = UNSET
    needed: Leaf
    many: list[Leaf] | UnsetType | None = UNSET
    plain: str | None


def test_nulls_are_dropped_at_every_level() -> None:
    """Only optional fields are unset: in objects, in lists of objects, and in required objects."""
    leaves = [Leaf(note=None, name="a"), Leaf(note="x", name="b"), Leaf(name="c")]
    tree = Tree(one=None, needed=Leaf(note=None, name="d"), many=leaves, plain=None)
    assert compile_drop_nulls(shape_of(Tree))(tree) == 3
    assert (tree.one, tree.needed.note, leaves[0].note, leaves[1].note) == (
        UNSET,
        UNSET,
        UNSET,
        "x",
    )
    assert tree.plain is None


def test_rules_apply_to_their_interaction_types_only() -> None:
    """A record of another type follows the rules, whatever its fields are."""

    class Record(Base, kw_only=True):
        interaction_type: str
        count: int

    rules = [
        Rule(("a",), "rule.a", "count", "", "record.count > 1"),
        Rule(("b", "c"), "rule.b", "count", "", "False"),
    ]
    follows_rules = compile_follows_rules(rules)
    cases = {("a", 2): True, ("a", 1): False, ("b", 2): False, ("c", 2): False, ("d", 0): True}
    assert {
        case: follows_rules(Record(interaction_type=case[0], count=case[1])) for case in cases
    } == cases
