"""Find what looks like a credential in metadata and configurations: keys, tokens, passwords.

Texts of questions and answers are not searched: they are what was evaluated. In the normal form of
a record they come before `evaluation`, so the rest of a line is short. Most lines have none of the
literals that a credential begins with, and are not decoded.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from stringzilla import find

from fastrec.errors import shown
from fastrec.judge.findings import Finding, json_path
from fastrec.judge.parse import Steps, walk
from fastrec.schemas.schema import JsonObject
from fastrec.schemas.view import REFUSALS, json_decoder

# Each repetition is bounded or ends a pattern, so that the time does not grow faster than the text.
_KINDS = {
    "an Anthropic key": r"sk-ant-[\w-]{20,}",
    "an OpenAI key": r"sk-(?=[\w-]{0,60}\d)[\w-]{20,}",
    "a Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
    "a GitHub token": r"(?:gh[oprsu]_[A-Za-z0-9]{30,}|github_pat_\w{40,})",
    "a Google key": r"AIza[\w-]{35,}",
    "an AWS key": r"(?:AKIA|ASIA)[A-Z0-9]{16,}",
    "a Slack token": r"xox[abeprs]-[\w-]{10,}",
    "a JSON web token": r"eyJ[\w-]{8,200}\.eyJ[\w-]{8,}[\w.-]*",
    "a bearer token": r"[Bb]earer +(?=[\w.~+/-]{0,60}\d)[\w.~+/=-]{16,}",
    "a password in a URL": r"://[^\s/?#:@\"]{0,100}:[^\s/?#@\"*<>{}$]{3,200}@",
    "a token in a URL": r"[?&](?:(?:api|access)[_-]?key|key|(?:access[_-]?)?token|password|secret"
    r"|sig(?:nature)?)=[\w.~%+/=-]{8,}",
}
_NAMES = tuple(_KINDS)
_PATTERN = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?=[:?&]))(?:"
    + "|".join(f"({pattern})" for pattern in _KINDS.values())
    + ")",
    re.ASCII,
)
_LITERALS = tuple(
    b"sk- hf_ ghp_ gho_ ghr_ ghs_ ghu_ github_pat_ AIza AKIA ASIA xox eyJ earer :// key= token= "
    b"word= secret= sig= ature=".split()
)
_MARK = b',"evaluation":{'
_TEXTS = frozenset(["input", "output", "messages", "interactions", "answer_attribution"])
_SHOWN = 6  # characters of a credential that a message has

_decode = json_decoder(JsonObject)


def secrets_in(value: Any) -> Iterator[Finding]:
    """Yield what looks like a credential in the texts of a JSON value.

    No message has more than its beginning.

    >>> [secret.message for secret in secrets_in({"args": ["--key", "hf_" + "a1" * 17]})]
    ['looks like a Hugging Face token: hf_a1a… of 37 characters']
    """
    steps: Steps = []
    for text in walk(value, steps):
        if isinstance(text, str) and (matched := _PATTERN.search(text)):
            kind = _NAMES[(matched.lastindex or 1) - 1]
            secret = matched[0]
            message = f"looks like {kind}: {secret[:_SHOWN]}… of {len(secret)} characters"
            yield Finding("pair.secret", json_path(steps), message)


def secrets_of(lines: Sequence[bytes]) -> Iterator[tuple[int, Finding]]:
    """Yield what looks like a credential in records in normal form.

    With the number of the line, from 0 on.
    """
    ends = [line[max(find(line, _MARK), 0) :] for line in lines]
    together = b"\n".join(ends)
    literals = [literal for literal in _LITERALS if find(together, literal) >= 0]
    if not literals:
        return
    for number, end in enumerate(ends):
        if not any(literal in end for literal in literals):
            continue
        try:
            record = _decode(lines[number])
        except REFUSALS:  # it is no record, which others report
            continue
        ids = map(record.get, ("evaluation_name", "model_id", "sample_id"))
        name = shown(" ".join(map(str, ids)))
        searched = {field: value for field, value in record.items() if field not in _TEXTS}
        for secret in secrets_in(searched):
            yield number, Finding(secret.code, secret.path, f"{secret.message} in {name}")
