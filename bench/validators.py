"""Other libraries that validate records: the JSON parser of the standard library, made strict, and a validator.

All of them run in the same pool as fastrec and count invalid lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import zstandard

from bench.job import Contender, Job, batches
from fastrec.engine import make_engine
from fastrec.schemas.registry import DEFAULT_SCHEMA

__all__ = ["VALIDATORS", "strict_loads"]

IsValid = Callable[[Any], bool]


def strict_loads(line: bytes) -> Any:
    """Parse a line.

    ValueError if it is not UTF-8, not JSON, repeats a key, or has NaN or an infinity.
    """
    return json.loads(line.decode(), object_pairs_hook=_once, parse_constant=_refuse)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key in an object")
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class Validator:
    """A strict JSON parser followed by a validation library."""

    def __init__(self, label: str, leaves_out: str, make: Callable[[], IsValid]) -> None:
        self.label = label
        self.leaves_out = leaves_out
        self._make = make

    def run(self, job: Job) -> tuple[int, int]:
        """Check all lines; returns the number of lines and of invalid lines."""
        lines = invalid = 0
        with make_engine(job.jobs) as engine:
            for _, (some, wrong) in engine.run(
                _check, ((self._make, batch) for batch in batches(job))
            ):
                lines += some
                invalid += wrong
        return lines, invalid


def _check(task: tuple[Callable[[], IsValid], list[str]]) -> tuple[int, int]:
    make, shards = task
    is_valid = make()
    lines = invalid = 0
    for shard in shards:
        for line in _lines(shard):
            lines += 1
            try:
                invalid += not is_valid(strict_loads(line))
            except (ValueError, RecursionError):  # pydantic's errors are ValueErrors too
                invalid += 1
    return lines, invalid


def _lines(shard: str) -> Iterator[bytes]:
    with (
        Path(shard).open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader,
    ):
        yield from reader.read().removesuffix(b"\n").split(b"\n")


@lru_cache(maxsize=1)
def _pydantic() -> IsValid:
    from bench.pydantic_record import Record  # noqa: PLC0415

    return lambda value: bool(Record.model_validate(value))


@lru_cache(maxsize=1)
def _jsonschema() -> IsValid:
    from jsonschema import Draft7Validator  # noqa: PLC0415

    is_valid: IsValid = Draft7Validator(json.loads(DEFAULT_SCHEMA.source)).is_valid
    return is_valid


@lru_cache(maxsize=1)
def _jsonschema_rs() -> IsValid:
    import jsonschema_rs  # noqa: PLC0415

    is_valid: IsValid = jsonschema_rs.Draft7Validator(json.loads(DEFAULT_SCHEMA.source)).is_valid
    return is_valid


_MISSING: Final = "lone surrogates, `1e999`, depth, locations of errors, hashes, warnings"

VALIDATORS: Final[tuple[Contender, ...]] = (
    Validator("pydantic + strict json", f"{_MISSING}; refuses `1.0` as an integer", _pydantic),
    Validator("jsonschema-rs + strict json", _MISSING, _jsonschema_rs),
    Validator("jsonschema + strict json", _MISSING, _jsonschema),
)
