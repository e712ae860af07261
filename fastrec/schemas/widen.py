"""Structs with fields for unknown keys.

The schema allows further keys everywhere, and producers use them.

The new fields come after the known ones, by code point, as in the normal form. The first record
with unknown keys takes the slow path; the widened class then decodes the following ones at full
speed.
"""

import types
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, defstruct

from fastrec.schemas.schema import (
    AnyStruct,
    Base,
    Free,
    UnknownKeys,
    rewrite_hint,
)
from fastrec.schemas.view import json_decoder

Decode = Callable[[bytes | memoryview], Any]

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
    fields = []
    for field in msgspec.structs.fields(struct):

        def replace(hint: Any, path: str = f"{path}.{field.name}".lstrip(".")) -> Any:
            return (
                widen(hint, unknown, path)
                if isinstance(hint, type) and issubclass(hint, Base)
                else hint
            )

        hint = rewrite_hint(field.type, replace)
        if hint is not field.type:
            fields.append((field.name, hint, NODEFAULT if field.required else field.default))
    rename = {}
    for number, key in enumerate(sorted(unknown.get(path, ()))):
        plain = key.isidentifier() and not key.startswith("unknown_") and not hasattr(struct, key)
        name = key if plain else f"unknown_{number}"
        rename[name] = key
        fields.append((name, hints.get(key, Free), UNSET))
    if not fields:
        return struct
    # A redefined field keeps its position, since all fields of its Struct are keywords; a new one
    # goes to the end.
    return defstruct(  # type: ignore[return-value]
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
        hints: Mapping[str, Any] = types.MappingProxyType({}),
    ) -> None:
        """Decode records of this class.

        `hints` has types of unknown keys of the root: a line with another value there is refused.
        """
        self._record = record
        self._hints = hints
        self._learned: UnknownKeys = {}
        self._seen = set[tuple[str, str]]()  # unknown keys that the next decoder will know
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
            known = self._learned.get(path, ())
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
        for name in ("parts", "decode_null_id"):  # of the class before
            self.__dict__.pop(name, None)
        self.decode: Decode = json_decoder(record)

    @cached_property
    def parts(self) -> tuple[Decode, Decode]:
        """The decoders of records with an integer in place of their input, and of inputs alone.

        Made at first use.
        """
        fields = msgspec.structs.fields(self._known)
        asked = next(field.type for field in fields if field.name == "input")
        return self._decode_with("input", int), json_decoder(asked)

    @cached_property
    def decode_null_id(self) -> Decode:
        """The decoder of records with a null, which is wrong, in `evaluation_result_id`."""
        return self._decode_with("evaluation_result_id", None)

    def _decode_with(self, field: str, hint: Any) -> Decode:
        """Make the decoder of records with another type of a field, which is required."""
        known = self._known
        fields = [(field, hint)]
        record = defstruct(
            known.__name__,
            fields,
            bases=(known,),
            module=known.__module__,
            kw_only=True,
            gc=False,
        )
        return json_decoder(record)
