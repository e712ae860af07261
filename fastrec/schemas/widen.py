"""Structs with fields for unknown keys.

The schema allows further keys everywhere, and producers use them.

The new fields come after the known ones, by code point, as in the normal form. The first record
with unknown keys takes the slow path; the widened class then decodes the following ones at full
speed.
"""

import types
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from itertools import islice
from keyword import iskeyword
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.schemas.schema import (
    AnyStruct,
    Base,
    Free,
    UnknownKeys,
    compile_function,
    rewrite_hint,
)

# Count the strings of a record: its keys, and the texts among its values. The decoder silently
# keeps the last of two equal keys, so a record with fewer strings than its line has lost a key. The
# function is generated from the types of a record class: an object of a few fields is counted in
# less time than one call takes.

_NULL = type(None)
# By the types of a value, the expression for the number of its strings; `float` stands for all
# numbers.
_STRINGS: dict[frozenset[Any], str] = {
    frozenset({float}): "0",
    frozenset({float, _NULL}): "0",
    frozenset({str}): "1",
    frozenset({str, _NULL}): "(0 if {0} is None else 1)",
    frozenset({str, float}): "(1 if type({0}) is str else 0)",
    frozenset({list[str]}): "len({0})",
    frozenset({list[str], _NULL}): "len({0} or ())",
    frozenset({list[str], str}): "(1 if type({0}) is str else len({0}))",
    frozenset({dict[str, str]}): "2 * len({0})",
    frozenset({dict[str, str], _NULL}): "2 * len({0} or ())",
}


def _counts(struct: type[Any], name: str, depth: int) -> Iterator[str]:
    """Yield the lines of code that count the strings of the object in the variable `name`."""
    indent = "    " * depth
    always = 0  # strings that each object of this class has
    for field in msgspec.structs.fields(struct):
        kinds = frozenset(_alternatives(field.type)) - {UnsetType}
        child = f"{name}_{field.name}" if field.name.isascii() else f"{name}_"
        # A learned field may have the name of a keyword, or one that Python would normalize.
        is_plain = field.name.isascii() and not iskeyword(field.name)
        value = f"{name}.{field.name}" if is_plain else f"getattr({name}, {field.name!r})"
        objects = next((kind for kind in kinds if _struct_in(kind)), None)
        strings = "0" if objects else _STRINGS.get(kinds, "count_free({0})").format(child)
        if not field.required:
            yield f"{indent}if ({child} := {value}) is not UNSET:"
            yield f"{indent}    n += 1 + {strings}"
        else:
            always += 1
            if strings.isdigit() and not objects:
                always += int(strings)
                continue
            yield f"{indent}{child} = {value}"
            if not objects:
                yield f"{indent}n += {strings}"
        if objects:
            yield from _object_counts(objects, child, depth)
    if always:
        yield f"{indent}n += {always}"


def _object_counts(kind: Any, name: str, depth: int) -> Iterator[str]:
    """Yield the lines of code that count the strings of the object or objects in a variable.

    It may be null.
    """
    indent = "    " * depth
    struct = _struct_in(kind)
    assert struct
    if struct is kind:
        yield f"{indent}if {name}:"
        yield from _counts(struct, name, depth + 1)
    elif inner := list(_counts(struct, f"{name}_item", depth + 1)):
        # If each of them has the same number of strings, nothing is looked at one by one.
        if len(inner) == 1:
            yield f"{indent}n += len({name} or ()) * {inner[0].split()[-1]}"
        else:
            yield f"{indent}for {name}_item in {name} or ():"
            yield from inner


def _struct_in(kind: Any) -> type[Base] | None:
    """The Struct if a type is one, or a list of one."""
    inner = get_args(kind)[0] if get_origin(kind) is list else kind
    return inner if isinstance(inner, type) and issubclass(inner, Base) else None


def _alternatives(hint: Any) -> Iterator[Any]:
    """Yield the types that a type is the union of, without their bounds."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        for argument in get_args(hint):
            yield from _alternatives(argument)
    elif origin is Annotated:
        yield from _alternatives(get_args(hint)[0])
    elif origin is Literal:
        yield from map(type, get_args(hint))
    else:
        yield float if hint in (int, bool) else hint


def _count_free(value: Any) -> int:
    strings = 0
    values = [value]
    for child in values:  # which grows meanwhile
        # Half the time of `child.__class__`, since types vary from value to value.
        kind = type(child)
        if kind is str:
            strings += 1
        elif kind is dict:
            strings += len(child)
            values += child.values()
        elif kind is list:
            values += child
    return strings


Decode = Callable[[bytes | memoryview], Any]
Count = Callable[[Any], int]

# The decoder compares the bytes of keys, so msgspec refuses names that JSON has to escape.
_UNSPELLABLE = frozenset('"\\') | {chr(code) for code in range(0x20)}
_LONGEST_KEY = 256
_MOST_LEARNED = 256  # unknown keys that become fields; records with further ones take the slow path


def can_widen(key: str) -> bool:
    return len(key) <= _LONGEST_KEY and _UNSPELLABLE.isdisjoint(key)


def widen(
    struct: type[AnyStruct],
    unknown: Mapping[str, Collection[str]],
    path: str = "",
    hints: Mapping[str, Any] = types.MappingProxyType({}),
) -> type[AnyStruct]:
    """Make a subclass of a Struct with fields for unknown keys.

    The keys are given by the path of their object.

    `hints` has the types of keys of this object that may not have every value.
    """
    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(struct):

        def replace(hint: Any, path: str = f"{path}.{field.name}".lstrip(".")) -> Any:
            return (
                widen(hint, unknown, path)
                if isinstance(hint, type) and issubclass(hint, Base)
                else hint
            )

        hint = rewrite_hint(field.type, replace)
        if hint is not field.type:
            fields.append(
                (field.name, hint, msgspec.NODEFAULT if field.required else field.default)
            )
    rename: dict[str, str] = {}
    for number, key in enumerate(sorted(unknown.get(path, ()))):
        plain = key.isidentifier() and not key.startswith("unknown_") and not hasattr(struct, key)
        name = key if plain else f"unknown_{number}"
        rename[name] = key
        fields.append((name, hints.get(key, Free), UNSET))
    if not fields:
        return struct
    # A redefined field keeps its position; a new one goes to the end.
    return msgspec.defstruct(  # type: ignore[return-value]
        struct.__name__,
        fields,
        bases=(struct,),
        module=struct.__module__,
        kw_only=True,
        rename=rename,
        gc=False,
    )


class LearningDecoder:
    """Decodes lines into records, and learns unknown keys.

    Further records with these keys decode at full speed.
    """

    def __init__(
        self,
        record: type[Any],
        never: Collection[str] = (),
        hints: Mapping[str, Any] = types.MappingProxyType({}),
    ) -> None:
        """Decode records of this class. `never` and `hints` are about unknown keys of the root.

        Those of `never` are not learned. Those of `hints` are, but a line with a value of another
        type is refused.
        """
        self._record = record
        self._never = frozenset(never)
        self._hints = hints
        self._learned: UnknownKeys = {}
        self._seen: set[tuple[str, str]] = set()  # unknown keys that the next decoder will know
        self._wait = 1  # records with unknown keys until the next decoder is built
        self.built = 0  # decoders built so far
        self._use(record)

    def learn(self, unknown: Mapping[str, Collection[str]]) -> None:
        """Turn unknown keys into fields of a new record class.

        `unknown` has them by the path of their object.

        A class and its decoder take a millisecond or two to build, so the wait for the next one
        doubles each time: input with new keys in every record spends almost no time on decoders
        that do not help.
        """
        if not unknown:
            return
        room = _MOST_LEARNED - sum(map(len, self._learned.values()))
        for path, keys in unknown.items():
            known = self._learned.get(path, set()) | (set() if path else self._never)
            new = ((path, key) for key in sorted(keys) if key not in known and can_widen(key))
            # Every line may have keys of its own, so only as many are remembered as can be learned.
            self._seen.update(islice(new, max(room - len(self._seen), 0)))
        if not self._seen or room <= 0:
            return
        self._wait -= 1
        if self._wait > 0:
            return
        for path, key in self._seen:
            self._learned.setdefault(path, set()).add(key)
        self._seen.clear()
        self.built += 1
        self._wait = 2**self.built
        self._use(widen(self._record, self._learned, hints=self._hints))

    def _use(self, record: type[Any]) -> None:
        self._known = record  # the class with fields for all keys learned so far
        for name in ("parts", "count_strings"):  # of the class before
            self.__dict__.pop(name, None)
        self.decode: Decode = msgspec.json.Decoder(record).decode

    @cached_property
    def parts(self) -> tuple[Decode, Decode]:
        """The decoders of records with an integer in place of their input, and of inputs alone.

        Made at first use.
        """
        record = self._known
        asked = next(
            field.type for field in msgspec.structs.fields(record) if field.name == "input"
        )
        without = msgspec.defstruct(
            record.__name__,
            [("input", int)],
            bases=(record,),
            module=record.__module__,
            kw_only=True,
            gc=False,
        )
        return msgspec.json.Decoder(without).decode, msgspec.json.Decoder(asked).decode

    @cached_property
    def count_strings(self) -> Count:
        """The function that counts the strings of a record, keys included; made at first use."""
        counts = _counts(self._known, "record", 1)
        lines = ["def count_strings(record, UNSET=UNSET):", "    n = 0", *counts, "    return n"]
        return compile_function("count_strings", lines, count_free=_count_free)
