"""The arbiter: draft-07 over the schema file itself decides; its errors become findings that a person understands."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastrec.judge.findings import Finding, describe, in_order, json_path
from fastrec.schemas.shape import schema_bytes, schema_document

__all__ = ["errors_of", "is_valid"]

# The schema's two conditional branches, by their place in `allOf` and the field that a branch speaks of.
_RULES: Final = {
    (0, "output"): ("rule.single_turn_output", "single_turn needs `output` as an object"),
    (0, "interactions"): ("rule.single_turn_interactions", "single_turn has no `interactions`"),
    (1, "interactions"): (
        "rule.multi_turn_interactions",
        "multi_turn and agentic need `interactions` as an array",
    ),
    (1, "output"): ("rule.multi_turn_output", "multi_turn and agentic have no `output`"),
    (1, "metrics"): (
        "rule.metrics_num_turns",
        "multi_turn and agentic: a `metrics` object needs `num_turns`",
    ),
}
_ARTICLES: Final = {
    "object": "an object",
    "array": "an array",
    "integer": "an integer",
    "string": "a string",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


@cache
def _validator() -> Any:
    import jsonschema_rs  # noqa: PLC0415 - takes 20 ms to load, and most lines never need it

    return jsonschema_rs.Draft7Validator(schema_bytes().decode())


def is_valid(value: Any) -> bool:
    """Tell whether draft-07 accepts a value."""
    verdict: bool
    try:
        verdict = _validator().is_valid(value)
    except ValueError:
        verdict = _validator().is_valid(_plain(value))
    return verdict


def errors_of(value: Any) -> tuple[Finding, ...]:
    """List every reason for which draft-07 refuses a value."""
    try:
        errors = list(_validator().iter_errors(value))
    except ValueError:
        errors = list(_validator().iter_errors(_plain(value)))
    findings = [_finding(value, error) for error in errors]
    if any(finding.path == "$.interaction_type" for finding in findings):
        # Without a good interaction_type the branches fire or not by accident: they say nothing about the record.
        findings = [finding for finding in findings if not finding.code.startswith("rule.")]
    return in_order(findings)


def _plain(value: Any) -> Any:
    """Put plain numbers in place of the parser's own, which the validator does not know.

    Of a long integer only the kind and the sign can matter to the schema. The validator gets those of integers
    beyond a double's range wrong: it takes -10**5000 for at least 0.
    """
    if isinstance(value, dict):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-(2**62), min(int(value), 2**62))
    return float(value) if isinstance(value, float) else value


def _finding(root: Any, error: Any) -> Finding:
    """Turn one error of the validator into a finding, by the place in the schema that it comes from."""
    steps, schema_path = list(error.instance_path), list(error.schema_path)
    keyword = schema_path[-1]
    if keyword == "required":
        steps.append(error.kind.property)
    found = "nothing" if keyword == "required" else describe(_at(root, steps))
    if schema_path[0] == "allOf":
        code, rule = _RULES[schema_path[1], steps[0]]
        return Finding(code, json_path(steps), f"{rule}, found {found}")
    schema = _at(schema_document(), schema_path[:-1])
    expected = _EXPECTED[keyword](schema)
    return Finding(_CODES[keyword], json_path(steps), f"expected {expected}, found {found}")


def _types(schema: dict[str, Any]) -> str:
    types = schema["type"]
    return _either([_ARTICLES[name] for name in ([types] if isinstance(types, str) else types)])


def _forms(schema: dict[str, Any]) -> str:
    """Say what a `oneOf` of plain types and arrays of plain types wants."""
    return _either(
        [f"{_types(form)} of {form['items']['type']}s" if "items" in form else _types(form) for form in schema["oneOf"]]
    )


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _at(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        value = value[step]
    return value


_CODES: Final = {
    "type": "schema.type",
    "required": "schema.required",
    "enum": "schema.enum",
    "minimum": "schema.minimum",
    "oneOf": "schema.one_of",
}
_EXPECTED: Final = {
    "type": _types,
    "required": lambda schema: "a value, since the field is required",
    "enum": lambda schema: _either([f'"{option}"' for option in schema["enum"]]),
    "minimum": lambda schema: f"at least {schema['minimum']}",
    "oneOf": _forms,
}
