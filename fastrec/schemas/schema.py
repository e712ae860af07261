"""One version of the record schema: everything that other folders have to know about it.

A version is a `Schema` with its Structs, in a module of this folder, plus the JSON Schema file as
it was published. `registry` lists the versions.

Functions that run for every record are generated from the Structs and rules. Their code is what one
would write by hand for one version: attribute by attribute, without loops over field names. That
makes it as fast as hand-written code, and a new version gets it for free. The slow path walks plain
dicts by their `Shape`, and builds Structs from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, reduce
from itertools import groupby
from operator import or_
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fastrec.build import package
from fastrec.schemas.hashes import LIST_HASHES, TEXT_HASHES, Hash

JsonObject = dict[str, Any]
UnknownKeys = dict[str, set[str]]  # by the path of their object
Test = Callable[[Any], bool]  # of a record


def without_nulls(values: JsonObject) -> JsonObject:
    return {name: value for name, value in values.items() if value is not None}


def _json_value(levels: int) -> Any:
    """Build the type of a JSON value with at most this many levels of nesting.

    Each level is wrapped in a NewType. Otherwise `typing` walks the levels as a tree that doubles
    with each level.
    """
    scalar = None | bool | int | float | str
    value: Any = scalar
    for level in range(levels):
        value = NewType(f"Free{level}", scalar | list[value] | dict[str, value])  # type: ignore[misc,no-redef]
    return value


# The value of a free-form object. `Any` would accept every depth; this type sends deeper values to
# the slow path, which counts levels exactly. It costs the decoder no time.
if TYPE_CHECKING:
    Free = Any
else:
    Free = _json_value(6)

Count = Annotated[int, Meta(ge=0)]
PositiveCount = Annotated[int, Meta(ge=1)]
Milliseconds = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]

_Value = TypeVar("_Value")
Nullable: TypeAlias = _Value | UnsetType | None  # the type of an optional field that may be null


class Base(Struct, forbid_unknown_fields=True, gc=False):
    """The base of every object of a record.

    - `forbid_unknown_fields`: otherwise the decoder skips an unknown key without checking its
      bytes, and drops it.
    - `gc=False`: a record holds only strings, numbers and containers of them, never a cycle.
      Untracked objects save the garbage collector a walk over millions of them.
    - `kw_only` is not inherited, so each class sets it: required and optional fields are mixed in
      schema order.
    """


def rewrite_hint(hint: Any, replace: Callable[[Any], Any]) -> Any:
    """Replace types inside a type; `replace` returns the same object for a type that stays."""
    if (replaced := replace(hint)) is not hint:
        return replaced
    arguments = get_args(hint)
    rewritten = tuple(rewrite_hint(argument, replace) for argument in arguments)
    if all(new is old for new, old in zip(rewritten, arguments, strict=True)):
        return hint
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, rewritten)
    return get_origin(hint)[rewritten]


# Labels are what producers write into `schema_version`. The schema allows any string there, and
# producers use both spellings of each version, so a label proves nothing. But one that names no
# version, or another version than the one that the record follows, is a likely mistake.


def labels_of(*versions: str) -> frozenset[str]:
    """The labels of published versions: each version, with and without the prefix."""
    return frozenset(
        prefix + version for version in versions for prefix in ("", "instance_level_eval_")
    )


# The labels of all published versions, whether or not fastrec can judge records by them.
LABELS = labels_of("0.0.1", "0.2.0", "0.2.1", "0.2.2", "0.2.3", "0.3.0")

AnyStruct = TypeVar("AnyStruct", bound=Base)


class Field(Struct, frozen=True):
    """What the normal form needs to know about one known field."""

    name: str
    integer: bool  # the normal form spells an integral number here as an integer
    drops_null: bool  # the field is optional and nullable: `null` means the same as absence
    is_list: bool
    shape: Shape | None  # the shape of the object here, or of each object in the array here


class Shape(Struct, frozen=True):
    """The known fields of one kind of object by key, in the order of the normal form."""

    # Field names that lead to such an object, joined with dots: `interactions.tool_calls`; empty
    # for the record.
    path: str
    struct: type[Base]
    fields: dict[str, Field]


@cache
def shape_of(struct: type[Base], path: str = "") -> Shape:
    fields = {}
    for field in msgspec.structs.fields(struct):
        types = set(_types_in(field.type))
        child = next(
            (hint for hint in types if isinstance(hint, type) and issubclass(hint, Base)), None
        )
        fields[field.encode_name] = Field(
            name=field.name,
            integer=int in types and float not in types,
            drops_null=not field.required and type(None) in get_args(field.type),
            is_list=list in types,
            shape=shape_of(child, f"{path}.{field.encode_name}".lstrip(".")) if child else None,
        )
    return Shape(path, struct, fields)


def _types_in(hint: Any) -> Iterator[Any]:
    yield get_origin(hint) or hint
    for argument in get_args(hint):
        yield from _types_in(argument)


def build(struct: type[AnyStruct], value: JsonObject) -> AnyStruct:
    """Make a Struct from a valid object without checking its types again.

    Keys without a field are left out.
    """
    record: AnyStruct = _build(shape_of(struct), value)
    return record


def _build(shape: Shape | None, value: Any) -> Any:
    if not shape or value is None:
        return value
    if isinstance(value, list):
        return [_build(shape, item) for item in value]
    known = [(field, value[key]) for key, field in shape.fields.items() if key in value]
    return shape.struct(**{field.name: _build(field.shape, child) for field, child in known})


ONE = ("single_turn",)
MANY = ("multi_turn", "agentic")  # the interaction types of conversations


class Rule(NamedTuple):
    """A conditional rule of a schema: what records of some interaction types must have or lack."""

    types: tuple[str, ...]  # the interaction types that the rule applies to
    code: str
    field: str
    message: str
    # a Python expression over `record` that is true if a record of the right types follows the rule
    test: str


# Of each rule: types, code, field, message and test; TURNS is the field of turns.
_RULES = (
    (
        ONE,
        "rule.single_turn_output",
        "output",
        "single_turn must have `output` as an object",
        "record.output",
    ),
    (
        ONE,
        "rule.single_turn_TURNS",
        "TURNS",
        "single_turn must not have `TURNS`",
        "record.TURNS.__class__ is not list",
    ),
    (
        MANY,
        "rule.multi_turn_TURNS",
        "TURNS",
        "multi_turn and agentic must have `TURNS` as an array",
        "record.TURNS.__class__ is list",
    ),
    (
        MANY,
        "rule.multi_turn_output",
        "output",
        "multi_turn and agentic must not have `output`",
        "not record.output",
    ),
    # All versions have this rule, although `metrics` is not one of their properties.
    (
        MANY,
        "rule.metrics_num_turns",
        "metrics",
        "in multi_turn and agentic, a `metrics` object must have `num_turns`",
        'getattr(record, "metrics", None).__class__ is not dict or "num_turns" in record.metrics',
    ),
)


class Schema(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A version of the schema.

    Compared by identity: there is one object per version and process.
    """

    name: str
    about: str
    # the `schema_version` of records that are upgraded to this version, and `schema` in manifests
    label: str
    labels: frozenset[
        str
    ]  # the values of `schema_version` that name this version; others are worth a warning
    # labels of an earlier version, which become `label` in records that name no metric: once nulls
    # are left out, such a label would mean that version
    replaced_labels: frozenset[str] = frozenset()
    record: type[Any]
    recipe: str  # the recipe of `sample_hash`
    # With one of its labels, a record that decodes as this version, and follows its rules, is of
    # this version.
    has_sure_labels: bool = True
    # Whether such a record with another label is surely of this version.
    #
    # It may say no too often, never yes too often: then the rules for telling versions apart decide
    # (`registry`).
    claims: Test

    @cached_property
    def closed(self) -> bool:
        """Whether a record must not have unknown keys at its root."""
        return self.document.get("additionalProperties") is False

    @property
    def file(self) -> str:
        """The JSON Schema, in `files/`.

        The arbiter validates against it; the Structs are tested against it.
        """
        return f"instance_level_eval_{self.name}.schema.json"

    @property
    def hashes(self) -> Mapping[str, Hash]:
        """By algorithm, the function from `input.raw` and `input.reference` to `sample_hash`."""
        return TEXT_HASHES if self.recipe == "R1" else LIST_HASHES

    @cached_property
    def turns_field(self) -> str:
        return "messages" if "messages" in self.shape.fields else "interactions"

    @cached_property
    def sort_fields(self) -> tuple[str, ...]:
        fields = (
            "evaluation_name",
            "sample_hash",
            "model_id",
            "evaluation_id",
            "sample_id",
            "evaluation_result_id",
        )
        return tuple(name for name in fields if name in self.shape.fields)

    @cached_property
    def identity(self) -> tuple[str, ...]:
        """The fields that identify a record. Records of equal identity are repeats."""
        return tuple(sorted({*self.sort_fields} - {"sample_hash"}))

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The conditional rules: `allOf` in the file.

        Those of equal interaction types are next to each other.
        """
        return tuple(
            Rule(types, *(text.replace("TURNS", self.turns_field) for text in texts))
            for types, *texts in _RULES
        )

    @cached_property
    def source(self) -> bytes:
        return package().joinpath("schemas", "files", self.file).read_bytes()

    @cached_property
    def document(self) -> JsonObject:
        """The schema file as a dict; do not change it."""
        document: JsonObject = msgspec.json.decode(self.source)
        return document

    @cached_property
    def shape(self) -> Shape:
        record: type[Base] = self.record
        return shape_of(record)

    @cached_property
    def follows_rules(self) -> Test:
        # Where the root has no unknown keys, the decoder refuses them.
        return compile_follows_rules(
            [rule for rule in self.rules if not self.closed or rule.field in self.shape.fields]
        )

    @cached_property
    def drop_nulls(self) -> Callable[[Any], int]:
        return compile_drop_nulls(self.shape)


def compile_follows_rules(rules: Sequence[Rule]) -> Test:
    """Generate the function that says whether a record of the right types follows all rules."""
    lines = ["def follows_rules(record):", "    kind = record.interaction_type"]
    for types, group in groupby(rules, key=lambda rule: rule.types):
        tests = " and ".join(f"({rule.test})" for rule in group)
        lines += [f"    if kind {f'== {types[0]!r}' if len(types) == 1 else f'in {types!r}'}:"]
        lines += [f"        return True if {tests} else False"]
    return compile_function("follows_rules", [*lines, "    return True"])


def compile_drop_nulls(shape: Shape) -> Callable[[Any], int]:
    """Generate the function that unsets nulls that mean the same as absence.

    It returns how many there were.
    """
    body = list(_null_checks(shape, "record", 1))
    return compile_function(
        "drop_nulls", ["def drop_nulls(record):", "    dropped = 0", *body, "    return dropped"]
    )


def _null_checks(shape: Shape, name: str, depth: int) -> Iterator[str]:
    """Yield the lines of code that check the fields of the object in the variable `name`."""
    indent = "    " * depth
    for field in shape.fields.values():
        value = f"{name}.{field.name}"
        child = f"{field.name}_{depth}"
        if field.drops_null:
            yield f"{indent}if {value} is None:"
            yield f"{indent}    {value} = UNSET"
            yield f"{indent}    dropped += 1"
        inner = list(_null_checks(field.shape, child, depth + 1)) if field.shape else []
        if inner:
            head = f"for {child} in {value} or ()" if field.is_list else f"if {child} := {value}"
            yield f"{indent}{'el' if field.drops_null and not field.is_list else ''}{head}:"
            yield from inner


def compile_function(name: str, lines: Sequence[str], **names: Any) -> Callable[[Any], Any]:
    """Compile the source of a function, which may use UNSET and the given names."""
    namespace = {"UNSET": UNSET, **names}
    exec("\n".join(lines), namespace)  # noqa: S102 - the source comes from our own classes and rules
    function: Callable[[Any], Any] = namespace[name]
    return function
