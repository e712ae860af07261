"""Attachments, and placeholders for images and other media.

Inspect takes long texts and data URLs out of a sample: `attachment://HASH` refers to the sample's `attachments`, and
`attachment://INDEX` to the attachments of a chunked sample. A record has the text itself. An image, sound, video or
document is named by its media type and the SHA-256 of its bytes.
"""

from __future__ import annotations

import binascii
import contextlib
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from fastrec.harnesses.inspect.sample_structs import Part

__all__ = ["MEDIA", "Attachments", "placeholder"]

MEDIA: Final = ("image", "audio", "video", "document")
"""Types of content whose data is not text."""

_MARK: Final = "://"
_WHOLE: Final = re.compile(r"(?:attachment|tc)://(\w+)")  # "tc" until 2024-10
_INSIDE: Final = re.compile(r"attachment://([0-9a-f]{32})")
_REMOVED: Final = "<base64-data-removed>"
_MAX_URL: Final = 2000  # what is longer is data, not the URL or path of it
_FORMATS: Final = {"wav": "audio/wav", "mp3": "audio/mpeg", "mp4": "video/mp4", "mpeg": "video/mpeg"}
_FORMATS["mov"] = "video/quicktime"


class Attachments:
    """The attachments of a sample, which are decoded when the first of them is needed."""

    def __init__(self, load: Callable[[], Mapping[str, str]]) -> None:
        self._load = load
        self._texts: Mapping[str, str] | None = None

    def resolve(self, text: str) -> str:
        """Return a text with its references replaced by what they refer to; unknown ones stay."""
        if _MARK not in text:
            return text
        if found := _WHOLE.fullmatch(text):
            return self._all().get(found[1], text)
        if "attachment://" in text:
            return _INSIDE.sub(lambda found: self._all().get(found[1], found[0]), text)
        return text

    def resolve_all(self, value: Any) -> Any:
        """Return a JSON value with all references in its texts replaced."""
        if isinstance(value, str):
            return self.resolve(value)
        if isinstance(value, list):
            return [self.resolve_all(item) for item in value]
        if isinstance(value, dict):
            return {key: self.resolve_all(item) for key, item in value.items()}
        return value

    def _all(self) -> Mapping[str, str]:
        if self._texts is None:
            self._texts = self._load()
        return self._texts


def placeholder(part: Part, attachments: Attachments) -> str:
    """Return the name of an image, sound, video or document.

    >>> none = Attachments(dict)
    >>> placeholder(Part(type="image", image="data:image/png;base64,aGk="), none)
    '[image: image/png, sha256:8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4]'
    >>> placeholder(Part(type="image", image="https://example.org/cat.png"), none)
    '[image: https://example.org/cat.png]'
    """
    data = attachments.resolve(getattr(part, part.type) or "")
    declared = part.mime_type or _FORMATS.get(part.format or "", part.format) or ""
    if data.startswith("data:"):
        details = _of_data_url(data, declared)
    elif data == _REMOVED or not data:
        details = [declared, "its data is not in the log"]
    elif data.startswith("attachment://"):
        details = [declared, f"{data} is not in the log"]
    elif len(data) > _MAX_URL:
        details = [declared, f"sha256:{sha256(data.encode()).hexdigest()}"]
    else:
        details = [declared, data]
    name = [part.filename] if part.filename and part.filename != data else []
    return f"[{part.type}: {', '.join(filter(None, [*name, *details]))}]"


def _of_data_url(url: str, declared: str) -> list[str]:
    """Return media type and digest of a data URL: of the bytes if it is base64, or else of its text."""
    head, _, body = url[5:].partition(",")
    media_type, *parameters = head.split(";")
    data = body.encode(errors="replace")
    if "base64" in parameters:
        with contextlib.suppress(binascii.Error):
            data = binascii.a2b_base64(data)
    return [media_type or declared, f"sha256:{sha256(data).hexdigest()}"]
