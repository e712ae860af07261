"""Judge a line without the fast path: verdict, errors and normal form.

The arbiter is draft-07 over the schema file. It only says yes or no: its own list of errors takes a
thousand times the size of a hostile line. To explain a refusal, `_errors` walks a
value along the schema, and yields the errors in it. No list is made, so a caller can
count a million errors and keep a few. Tests compare the errors with those of another validator.
"""

import json
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import Any

from fastrec.judge.findings import NO_VALUE, Errors, Report, first_errors
from fastrec.judge.parse import Steps, kind_of, parse
from fastrec.schemas.registry import closest_version, contradicts_itself, version_of
from fastrec.schemas.schema import JsonObject, Schema, Shape, UnknownKeys
from fastrec.schemas.view import encode_json

_NO_VALUE = frozenset({"json.utf8", "json.depth", "json.syntax", "json.surrogate"})
_CONTRADICTION: Report = (
    "version.contradiction",
    ("messages",),
    "expected either `interactions` or `messages`, found both",
    NO_VALUE,
)
_UNKNOWN_KEY = "this version allows no such key here"
_UNEXPLAINED: Report = ("schema.type", (), "the record does not match the schema", NO_VALUE)


def judge_slowly(line: bytes, schema: Schema | None = None) -> tuple[JsonObject, Schema] | Errors:
    """Judge one line by a version, or by its shape.

    The errors are those of the version that it comes closest to.
    """
    return judge_value(*parse(line), schema)


def judge_value(
    value: Any, flaws: Iterable[Report], schema: Schema | None = None
) -> tuple[JsonObject, Schema] | Errors:
    if not schema and not flaws and (version := version_of(value, is_valid)):
        return value, version
    judged_by = schema or closest_version(value)
    errors = first_errors(_reports(value, flaws, judged_by, by_shape=not schema))
    if not errors.findings:
        return value, judged_by
    has_value = _NO_VALUE.isdisjoint(finding.code for finding in errors.findings)
    return errors._replace(version=judged_by.name) if has_value else errors


def _reports(
    value: Any, flaws: Iterable[Report], schema: Schema, *, by_shape: bool
) -> Iterator[Report]:
    """Yield the flaws of a line and, if it has a value, its schema errors.

    So nobody has to fix a line twice.
    """
    codes = set()
    for flaw in flaws:
        codes.add(flaw[0])
        yield flaw
    if not codes.isdisjoint(_NO_VALUE):
        return
    if by_shape and contradicts_itself(value):
        yield _CONTRADICTION
        return
    if is_valid(value, schema):
        return
    report = None
    for report in errors_of(value, schema):
        yield report
    if not report:  # the arbiter has the last word
        yield _UNEXPLAINED


def is_valid(value: Any, schema: Schema) -> bool:
    """The verdict of draft-07."""
    try:
        encode_json(value)  # which takes less time than a walk
    except TypeError:
        value = _plain(value)
    return bool(draft7(schema.source).is_valid(value))


@cache
def draft7(source: bytes) -> Any:
    """The validator of a schema file. Its messages say "the value" in place of values."""
    import jsonschema_rs  # noqa: PLC0415 - takes 20 ms to load, and most lines never need it

    return jsonschema_rs.Draft7Validator(source.decode(), mask="the value")


def _plain(value: Any) -> Any:
    """Replace the parser's own numbers with plain ones, which the validator accepts.

    Only the kind and the sign of a long integer matter to the schema. The validator misjudges
    integers beyond the range of a double (it takes -10**5000 for at least 0), so they are clamped.
    """
    if isinstance(value, dict):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-(2**62), min(int(value), 2**62))
    return float(value) if isinstance(value, float) else value


def errors_of(value: Any, schema: Schema) -> Iterator[Report]:
    """Yield every error of a value.

    First those of its fields, then the conditional rules that it breaks.
    """
    yield from field_errors(value, schema)
    kind = value.get("interaction_type") if isinstance(value, dict) else None
    # With a wrong interaction_type it is chance which rules apply. That error has been reported
    # already.
    by_field = {rule.field: rule for rule in schema.rules if kind in rule.types}
    seen = set()
    for _, steps, _, actual in _errors(_parts(schema)[1], value, []) if by_field else ():
        rule = by_field[str(steps[0])]
        if rule.code not in seen:
            seen.add(rule.code)
            text = f"{rule.message}, found nothing" if actual is NO_VALUE else rule.message
            yield rule.code, steps, text, actual


def field_errors(value: Any, schema: Schema) -> Iterator[Report]:
    """Yield the errors of the fields of a value, which may be repaired meanwhile."""
    return _errors(fields_of_document(schema), value, [])


class _Node(JsonObject):
    """A node of the schema document.

    It keeps what is the same for all values: errors take half the time.
    """

    @cached_property
    def names(self) -> list[str]:
        """The types that the node names; none if all are allowed."""
        names = self.get("type", [])
        return [names] if isinstance(names, str) else names

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that are allowed; empty if all are."""
        return frozenset([*self.names, "integer"] if "number" in self.names else self.names)

    @cached_property
    def kind(self) -> str:
        return _either([_NAMES.get(name, f"a {name}") for name in self.names])

    @cached_property
    def options(self) -> list[str]:
        """The values that `enum` or `const` allows, which are all strings; none if all are."""
        options: list[str] = self.get("enum", [self["const"]] if "const" in self else [])
        return options

    @cached_property
    def choice(self) -> str:
        """What `enum`, `const` or `oneOf` expects."""
        if forms := self.get("oneOf"):
            items = [f" of {form['items']['type']}s" if "items" in form else "" for form in forms]
            return _either([form.kind + each for form, each in zip(forms, items, strict=True)])
        return _either([f'"{option}"' for option in self.options])


@cache
def _parts(schema: Schema) -> tuple[_Node, _Node]:
    """The schema document without its conditional rules, and these."""
    document = json.loads(schema.source, object_hook=_Node)
    return document, _Node(allOf=document.pop("allOf", []))


def fields_of_document(schema: Schema) -> _Node:
    return _parts(schema)[0]


def _errors(node: _Node, value: Any, steps: Steps) -> Iterator[Report]:
    """Yield what the keywords of a node say against a value, and then the errors below it."""
    if node.types and kind_of(value) not in node.types:
        yield "schema.type", steps, f"expected {node.kind}", value
    if node.options and value not in node.options:
        yield "schema.enum", steps, f"expected {node.choice}", value
    if "minimum" in node and kind_of(value) in ("integer", "number") and value < node["minimum"]:
        yield "schema.minimum", steps, f"expected at least {node['minimum']}", value
    if "oneOf" in node and sum(_is_valid(form, value) for form in node["oneOf"]) != 1:
        yield "schema.one_of", steps, f"expected {node.choice}", value
    if "not" in node and _is_valid(node["not"], value):
        yield "schema.type", steps, f"expected anything but {node['not'].kind}", value
    for child in node.get("allOf", ()):
        yield from _errors(child, value, steps)
    if "if" in node and _is_valid(node["if"], value):
        yield from _errors(node["then"], value, steps)
    if isinstance(value, dict):
        for name in node.get("required", ()):
            if name not in value:
                yield "schema.required", [*steps, name], "the required field is missing", NO_VALUE
        if node.get("additionalProperties") is False:
            for name in value:
                if name not in node["properties"]:
                    yield "schema.unknown_key", [*steps, name], _UNKNOWN_KEY, NO_VALUE
    for step, inner, child in _children(node, value):
        steps.append(step)
        yield from _errors(inner, child, steps)
        steps.pop()


def _children(node: _Node, value: Any) -> Iterator[tuple[str | int, _Node, Any]]:
    """Yield the fields or items of a value that have nodes of their own."""
    if isinstance(value, dict):
        fields = node.get("properties", {})
        for name, field in fields.items():
            if name in value:
                yield name, field, value[name]
        entries = node.get("additionalProperties")
        if isinstance(entries, _Node):
            for name, child in value.items():
                if name not in fields:
                    yield name, entries, child
    elif isinstance(value, list) and "items" in node:
        for index, item in enumerate(value):
            yield index, node["items"], item


def _is_valid(node: _Node, value: Any) -> bool:
    return next(_errors(node, value, []), None) is None


_NAMES = {
    "object": "an object",
    "array": "an array",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
}


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def normal_form(value: JsonObject, shape: Shape, unknown: UnknownKeys) -> JsonObject:
    """Bring an object into normal form.

    Its unknown keys are added to `unknown`, by the path of their object.

    Known keys come in schema order, then unknown keys by code point. The value itself may change.
    """
    normal = {}
    for name, field in shape.fields.items():
        if name not in value:
            continue
        child = value[name]
        if child is None and field.drops_null:
            continue
        if isinstance(child, list) and field.shape:
            for index, item in enumerate(child):
                child[index] = normal_form(item, field.shape, unknown)
        elif field.shape:
            child = normal_form(child, field.shape, unknown)
        elif field.integer and type(child) is float:
            child = int(child)
        else:
            child = _free(child)
        normal[name] = child
    further = value.keys() - shape.fields.keys()
    if further:
        unknown.setdefault(shape.path, set()).update(further)
        for name in sorted(further):
            normal[name] = _free(value[name])
    return normal


def _free(value: Any) -> Any:
    """Sort the keys of objects at every level.

    In place where possible, because a copy takes as much memory again.
    """
    children: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        keys = sorted(value)
        if keys != list(value):
            value = {key: value[key] for key in keys}
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    else:
        return value
    for step, child in children:
        if isinstance(child, (dict, list)):
            value[step] = _free(child)
    return value
