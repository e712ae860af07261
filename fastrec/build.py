"""The identity of this build.

What decides the bytes of a corpus besides its records and the options.

The version number stays the same between two releases, so the identity has a digest of the
package's own source. It also has the versions of the libraries that encode, compress and judge.
Finished work is reused, and a Dask worker gets tasks, only if its identity is the same.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from xxhash import xxh3_128

from fastrec._version import __version__

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


_SUFFIXES = (".py", ".json")  # code and schemas; bytecode and files of editors do not count


@cache
def identity() -> dict[str, str]:
    """The identity of this process: names and versions. It takes a few milliseconds, once."""
    import msgspec  # noqa: PLC0415 - only needed here
    import zstandard  # noqa: PLC0415

    return {
        "fastrec": f"{__version__} (source {source_digest(package())[:12]})",
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "msgspec": msgspec.__version__,
        "zstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "jsonschema-rs": _installed_version("jsonschema_rs"),
    }


def differences(there: Mapping[str, object], here: Mapping[str, object]) -> list[str]:
    """List what differs between two identities: `zstd 1.5.5 instead of 1.5.7`."""
    return [
        f"{name} {there.get(name, 'unknown')} instead of {here.get(name, 'unknown')}"
        for name in dict.fromkeys([*here, *there])
        if there.get(name) != here.get(name)
    ]


def source_digest(package: Traversable) -> str:
    """A digest of the names and contents of all source files of a package."""
    digest = xxh3_128()
    for name, data in _sources(package, ""):
        for field in (name.encode(), data):
            digest.update(len(field).to_bytes(8, "big"))
            digest.update(field)
    return digest.hexdigest()


def package() -> Traversable:
    """The folder of the package, which may be in a zip file."""
    folder = Path(__file__).parent
    if folder.is_dir():
        return folder
    from importlib.resources import files  # noqa: PLC0415 - only for a package in a zip file, and takes 2 ms

    return files("fastrec")


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path of each source file in a folder, and its content.

    The folder may be in a zip file.
    """
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(_SUFFIXES):
            yield prefix + entry.name, entry.read_bytes()
        elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
            yield from _sources(entry, f"{prefix}{entry.name}/")


def _installed_version(package: str) -> str:
    """The version of a package that does not tell it, from the name of its directory `*.dist-info`.

    `importlib.metadata` does this too, but importing it takes longer than everything else here.
    """
    spec = find_spec(package)
    locations = (spec and spec.submodule_search_locations) or ()
    for location in locations:
        for path in sorted(Path(location).parent.glob(f"{package}-*.dist-info")):
            return path.stem.removeprefix(f"{package}-")
    return "unknown"
