"""Compare the shards of a run with those that an earlier run kept work of: unchanged, new, changed or gone.

A kept shard is matched with the shard of the same path first, then with one of another path: it was renamed or moved.
What has to be equal:

    by signature    size, modification time and inode, or ETag; no file is read
    by content      the hash of all bytes; every shard that has the size of a kept one is read

A signature proves nothing if the file was modified just before it was read: a later write may have the same time. Nor
does it if the store tells no version. Then the hash has to be equal, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from fastrec.engine.base import Engine
from fastrec.sources.shard import Shard
from fastrec.storage.digests import hash_of_file

__all__ = ["Changes", "KeptShard", "match_shards"]


class KeptShard(msgspec.Struct, frozen=True, array_like=True):
    """A shard as an earlier run read it."""

    path: str
    signature: str
    """`Shard.signature`; empty for a stream."""
    hash: str
    """128-bit xxh3 of the bytes of the file; empty if unknown."""
    certain: bool
    """Whether it was last modified so long before it was read that a later change has another time."""


class Changes(msgspec.Struct):
    """How the shards of a run differ from those that were kept. All lists are in ascending order."""

    unchanged: dict[int, int]
    """Numbers of shards, with the position of the kept shard that has the same content."""
    new: list[int]
    """Numbers of shards that have no kept shard of the same content or path."""
    changed: list[int]
    """Numbers of shards that have another content than the kept shard of the same path."""
    gone: list[int]
    """Positions of the kept shards that no shard matches; also those of shards that changed."""


def match_shards(shards: Sequence[Shard], kept: Sequence[KeptShard], *, by_content: bool, engine: Engine) -> Changes:
    """Find out which shards are unchanged. Files are read in parallel, and only if their content decides."""
    proofs = _Proofs(shards, kept, by_content=by_content, engine=engine)
    shard_proofs = {number: proof for number, shard in enumerate(shards) if (proof := proofs.of_shard(shard))}
    kept_proofs = {position: proof for position, one in enumerate(kept) if (proof := proofs.of_kept(one))}
    unchanged: dict[int, int] = {}

    def match(shard_key: Callable[[int], Any], kept_key: Callable[[int], Any]) -> None:
        matched = set(unchanged.values())
        left = _grouped((number for number in shard_proofs if number not in unchanged), shard_key)
        kept_left = _grouped((position for position in kept_proofs if position not in matched), kept_key)
        for key in left.keys() & kept_left.keys():
            # Sorted by path, so that the order of the shards does not matter.
            numbers = sorted(left[key], key=lambda number: shards[number].path)
            positions = sorted(kept_left[key], key=lambda position: kept[position].path)
            unchanged.update(zip(numbers, positions, strict=False))

    match(lambda n: (shards[n].path, shard_proofs[n]), lambda p: (kept[p].path, kept_proofs[p]))
    match(shard_proofs.__getitem__, kept_proofs.__getitem__)
    paths = {one.path for one in kept if one.signature}
    others = [number for number in range(len(shards)) if number not in unchanged]
    changed = [number for number in others if not shards[number].stream and shards[number].path in paths]
    return Changes(
        unchanged=dict(sorted(unchanged.items())),
        new=sorted(set(others).difference(changed)),
        changed=changed,
        gone=sorted(set(range(len(kept))).difference(unchanged.values())),
    )


class _Proofs:
    """What has to be equal for a shard to be the same as a kept one."""

    def __init__(self, shards: Sequence[Shard], kept: Sequence[KeptShard], *, by_content: bool, engine: Engine) -> None:
        self._by_content = by_content
        self._doubtful = {one.signature for one in kept if not one.certain}
        self._doubtful.update(shard.signature for shard in shards if not shard.version)
        sizes = {_size_in(one.signature) for one in kept}
        signatures = {one.signature for one in kept}
        paths = [
            shard.path
            for shard in shards
            if shard.signature
            and (
                _size_in(shard.signature) in sizes
                if by_content
                else shard.signature in self._doubtful and shard.signature in signatures
            )
        ]
        self._hashes = {paths[number]: found for number, found in engine.run(_hash_of, paths)}

    def of_shard(self, shard: Shard) -> tuple[str, str] | None:
        """Return what has to be equal for a shard; None if it cannot match."""
        return self._proof(shard.signature, self._hashes.get(shard.path, ""))

    def of_kept(self, kept: KeptShard) -> tuple[str, str] | None:
        """Return what has to be equal for a kept shard; None if it cannot match."""
        return self._proof(kept.signature, kept.hash)

    def _proof(self, signature: str, content: str) -> tuple[str, str] | None:
        if not signature:
            return None
        if not self._by_content and signature not in self._doubtful:
            return signature, ""
        if not content:
            return None
        return ("", content) if self._by_content else (signature, content)


def _grouped(numbers: Iterable[int], key: Callable[[int], Any]) -> dict[Any, list[int]]:
    groups: defaultdict[Any, list[int]] = defaultdict(list)
    for number in numbers:
        groups[key(number)].append(number)
    return groups


def _size_in(signature: str) -> str:
    return signature.partition("-")[0]


def _hash_of(path: str) -> str:
    """Hash a file; empty if it cannot be read, which pass 1 will report. Runs in a worker."""
    try:
        return hash_of_file(path)[1]
    except OSError:
        return ""
