"""Lists of the fields of JSON documents, generated from msgspec Structs."""

from __future__ import annotations

import inspect
import re
import types
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

# Fields of a record that documents repeat; the schema explains them.
OF_A_RECORD = ("evaluation_name", "model_id", "sample_id", "sample_hash", "evaluation_id")

_NAMES = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    object: "any",
    type(None): "null",
}

Struct = type[msgspec.Struct]


def structs_of(root: Struct) -> Iterator[Struct]:
    """The classes of a document, each once, from the top down."""
    seen: dict[Struct, None] = {root: None}
    waiting = [root]
    while waiting:
        for found in _structs_in(list(get_type_hints(waiting.pop(0)).values())):
            if found not in seen:
                seen[found] = None
                waiting.append(found)
    yield from seen


def _structs_in(hints: list[Any]) -> Iterator[Struct]:
    for hint in hints:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield hint
        yield from _structs_in([part for part in get_args(hint) if part is not Ellipsis])


def json_schema(root: Struct) -> bytes:
    """The JSON Schema of a document, with the comments on fields as descriptions."""
    schema = msgspec.json.schema(root)
    for struct in structs_of(root):
        definition = schema["$defs"][struct.__name__]
        definition["description"] = description(struct)
        properties = definition["properties"]
        for name, text in _meanings(struct).items():
            properties[name] = {"description": " ".join(text.split()), **properties[name]}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


def shared_fields(structs: Iterable[Struct]) -> dict[str, tuple[str, str]]:
    """The type and meaning of fields that several classes have with the same meaning."""
    counts: Counter[tuple[str, str]] = Counter()
    kinds: dict[tuple[str, str], str] = {}
    for struct in structs:
        hints = get_type_hints(struct, include_extras=True)
        for name, meaning in _meanings(struct).items():
            counts[name, meaning] += 1
            if not list(_structs_in([hints[name]])):
                kinds.setdefault((name, meaning), _type_name(hints[name], {}))
    shared: dict[str, tuple[str, str]] = {}
    for (name, meaning), count in counts.most_common():
        by_itself = not (_is_plain(name, meaning) or _REFERS.search(meaning))
        if count > 1 and by_itself and name not in OF_A_RECORD:
            shared.setdefault(name, (kinds.get((name, meaning), ""), meaning))
    return dict(sorted(shared.items()))


def holders(structs: Iterable[Struct]) -> Counter[Struct]:
    """How many fields of these classes hold each class."""
    counts: Counter[Struct] = Counter()
    for struct in structs:
        for hint in get_type_hints(struct).values():
            counts.update(set(_structs_in([hint])))
    return counts


def fields_list(
    struct: Struct,
    anchors: dict[Struct, str],
    shared: Mapping[str, tuple[str, str]],
    options: Container[str] = (),
) -> list[str]:
    """The fields of a class as a list; classes with an anchor are linked, others nested.

    Fields that repeat options of the command come first, then those without a text, which are
    explained by their name, by the record, among the shared ones, or by the class they link to.
    """
    hints = get_type_hints(struct, include_extras=True)
    texts = _meanings(struct)
    config = struct.__struct_config__
    defaults = struct.__struct_fields__[
        len(struct.__struct_fields__) - len(struct.__struct_defaults__) :
    ]
    omitted = defaults if config.omit_defaults else ()
    as_options: list[str] = []
    unexplained: list[str] = []
    explained: list[str] = []
    base = struct.__base__
    of_base = base.__struct_fields__ if base in anchors else ()
    if of_base:
        unexplained.append(f"the fields of {_type_name(base, anchors)}")
    for name in struct.__struct_fields__:
        if name in of_base:
            continue
        kind = _type_name(hints[name], anchors) + ("?" if name in omitted else "")
        linked = list(_structs_in([hints[name]]))
        nested = [held for held in linked if held not in anchors]
        meaning = texts.get(name) or _description(hints[name])
        assert meaning or linked or name in OF_A_RECORD, (
            f"{struct.__name__}.{name} is not documented: add a comment above the field, with `#:`"
        )
        meaning = meaning or "".join(map(description, nested))
        usual, text = shared.get(name, ("", ""))
        known = (meaning or None) == text or any(
            _is_like(meaning, held) for held in linked if held in anchors
        )
        is_plain = name not in shared and _is_plain(name, meaning)
        as_usual = (meaning == text and kind == usual) or (
            is_plain and name in (*OF_A_RECORD, "metric")
        )
        spelled = struct.__struct_encode_fields__[struct.__struct_fields__.index(name)]
        field = named(spelled, "" if as_usual else kind)
        if name in options and name not in _OTHER_THAN_OPTIONS and not linked:
            as_options.append(f"`{name}`")
        elif (known or is_plain) and not nested:
            unexplained.append(field)
        else:
            explained.append(
                f"- {field}" if is_plain or known else f"- {field}: {linked_text(meaning)}"
            )
        for held in nested:
            explained += [f"  {line}" for line in fields_list(held, anchors, shared)]
    lines = [f"- {', '.join(as_options)}: as the options"] if as_options else []
    lines += [f"- {', '.join(unexplained)}"] if unexplained else []
    return lines + explained


def named(name: str, kind: str) -> str:
    """The name of a field with its type, which is an integer if nothing else is said."""
    return f"`{name}`" if kind in ("", "integer") else f"`{name}` {kind}"


def linked_text(meaning: str) -> str:
    """The text of a field on one line, with links to the pages that it names."""
    text = _NOTHING.sub("", cell(meaning)).removesuffix(".").removeprefix("Whether ")
    text = re.sub(r"(?<=\]\()docs/(?=[\w-]+\.md)", "", text)
    return re.sub(r"(?:[Ss]ee )?(?<!\]\()docs/(([\w-]+)\.md[\w#-]*)", r"[\2](\1)", text)


def _is_like(meaning: str, struct: Struct) -> bool:
    """Whether the text of a field says about the same as that of the class it links to."""
    words = meaning.rstrip(".").split()
    others = description(struct).rstrip(".").split()
    return not words or SequenceMatcher(None, words, others).ratio() > _ALIKE


_ALIKE = 0.7
_FILLING = {
    "the",
    "a",
    "its",
    "their",
    "these",
    "of",
    "this",
    "all",
    "in",
    "record",
    "as",
    "one",
    "number",
}
# Words with which a text refers to the other fields of its class.
_REFERS = re.compile(r"\b(its|their|these|them|those|one|the same|how many)\b", re.IGNORECASE)
# Fields that have the name of an option by chance.
_OTHER_THAN_OPTIONS = ("format", "output", "schema", "examples")
_NOTHING = re.compile(
    r"; null (without (common |such )?(answers|questions)|if there (are|is) none"
    r"|for fewer than two questions)(?=[.,]|$)"
)
_METRIC = re.compile(
    r"(The )?(`?evaluation_result_id`?( of the records)?|metric)"
    r"; null (if|for) .* (none|without one)."
)


_END = re.compile(r"(Lower|Upper) end of the 95 % interval\.")  # the page says so once


def _is_plain(name: str, meaning: str) -> bool:
    """Whether a text says no more of a field than its name does, or the record."""
    if name == "metric" and _METRIC.fullmatch(meaning):
        return True
    if name.endswith(("low", "high")) and _END.fullmatch(meaning):
        return True
    if name.startswith("new_") and meaning == "The same in NEW.":
        return True
    words = {word.removesuffix("s") for word in re.findall(r"\w+", meaning.lower())}
    said = {word.removesuffix("s") for word in [*name.split("_"), *_FILLING]}
    return words <= said


def cell(text: str) -> str:
    """Text on one line, escaped for a table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def description(struct: Struct) -> str:
    """A class docstring on one line."""
    return " ".join((inspect.getdoc(struct) or "").split())


@cache  # `getsource` parses the whole module each time
def _meanings(struct: Struct) -> dict[str, str]:
    """The comments above fields that begin with `#:`, inherited ones too, by field."""
    meanings = {} if struct.__base__ is msgspec.Struct else dict(_meanings(struct.__base__))
    comment: list[str] = []
    for line in map(str.strip, inspect.getsource(struct).splitlines()):
        if line.startswith("#:"):
            comment.append(line.removeprefix("#:").strip())
        elif comment:
            meanings[line.partition(":")[0]] = " ".join(comment)
            comment = []
    return meanings


def _description(hint: Any) -> str:
    if get_origin(hint) is not Annotated:
        return ""
    return next(
        (meta.description for meta in hint.__metadata__ if getattr(meta, "description", None)), ""
    )


def _type_name(hint: Any, anchors: dict[Struct, str]) -> str:
    """A type in the words of JSON: `string[]` is an array, `{string}` an object of strings."""
    origin = get_origin(hint)
    parts = get_args(hint)
    if origin is Annotated:
        return _type_name(parts[0], anchors)
    if origin in (Union, types.UnionType):
        optional = "?" if msgspec.UnsetType in parts else ""
        kinds = [_type_name(part, anchors) for part in parts if part is not msgspec.UnsetType]
        return "/".join(dict.fromkeys(kinds)) + optional
    if origin is Literal:
        return "/".join(f"`{part}`" for part in parts)
    if origin in (list, tuple):
        item = _type_name(parts[0], anchors)
        return f"({item})[]" if "/" in item else f"{item}[]"
    if origin is dict:
        return f"{{{_type_name(parts[1], anchors)}}}"
    if hint in _NAMES:
        return _NAMES[hint]
    if hint in anchors:
        return f"[{hint.__name__}](#{anchors[hint]})"
    assert issubclass(hint, msgspec.Struct), hint
    return "object"
