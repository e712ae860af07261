"""Manifests as earlier versions wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastrec.sources.shard import shard_at


def edit_manifest(corpus: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of a corpus."""
    path = corpus / "manifest.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document, indent=2))


def to_format_2(corpus: Path) -> None:
    """Rewrite a manifest as earlier versions wrote it."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["format"] = 2
        for part in manifest["parts"]:
            del part["text_xxh3_128"]
            part["text_sha256"] = sha256(_text_of(corpus / part["file"])).hexdigest()
        del manifest["text_xxh3_128"]
        digests = (bytes.fromhex(part["text_sha256"]) for part in manifest["parts"])
        manifest["text_sha256"] = sha256(b"".join(digests)).hexdigest()

    edit_manifest(corpus, change)


def _text_of(path: Path) -> bytes:
    return b"".join(chunk.data for chunk in shard_at(str(path)).read())
