"""Access to files: on this machine, or in an object store that fsspec knows by a URL (`s3://`, `gs://`, `memory://`).

    storage_of(path)      chooses the storage of a path
    base                  the interface, `Storage`
    local                 files of this machine
    object_store          objects, through fsspec; loaded when the first URL appears
    paths                 paths as strings
    digests               checksums of files

A path is a string; one with `://` in it is a URL. An object store has no directories and no rename: an object appears
as a whole when its writer is finished, or not at all.
"""

from __future__ import annotations

from fastrec.storage.base import Storage
from fastrec.storage.local import LOCAL
from fastrec.storage.paths import is_url

__all__ = ["storage_of"]


def storage_of(path: str) -> Storage:
    """Return the storage that a path belongs to."""
    if not is_url(path):
        return LOCAL
    from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only URLs need it

    return OBJECT_STORE
