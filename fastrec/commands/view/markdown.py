"""Markdown in answers, made of our own elements: raw HTML, links and images stay text, so a page loads nothing."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from fastrec.commands.view.layout import block
from fastrec.html import Html, multiline, tag

_LONGEST: Final = 20_000  # characters; a longer text is shown as it is
_NAMES: Final = ("p", "ul", "ol", "li", "blockquote", "em", "strong", "s", "table", "thead", "tbody", "tr", "th", "td")
_ELEMENTS: Final = {name: name for name in _NAMES} | dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "h4")
_BREAKS: Final = {"softbreak": Html("<br>"), "hardbreak": Html("<br>"), "hr": Html("<hr>")}
_PLAIN: Final = {"paragraph_open", "paragraph_close", "text", "softbreak"}
_OFF: Final = ("html_block", "html_inline", "link", "image", "autolink", "reference", "code", "entity")
_parse = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(_OFF).parse


def answer_text(text: str, most: int | None, whole: str | None, *, plain: bool) -> Html:
    """Show what a model said: rendered, unless the text is long, has no Markdown, or is wanted as it is."""
    rendered = None if plain or len(text) > min(_LONGEST, most or _LONGEST) else render(text)
    return rendered or block(text, most, whole)


def render(text: str) -> Html | None:
    """Make HTML from Markdown; None if there is nothing but paragraphs, or if words were lost (in large tables)."""
    tokens = [one for token in _parse(text) for one in (token.children or () if token.type == "inline" else [token])]
    kept = " ".join(f"{token.info} {token.content}" for token in tokens)
    words, kept_words = (Counter(re.findall(r"[^\W_]+|\0", one)) for one in (text, kept))
    if all(token.type in _PLAIN for token in tokens) or words != kept_words:
        return None
    return tag("div", *map(_markup, tokens), class_="text rendered", dir="auto")


def _markup(token: Token) -> Html:
    if token.type in _BREAKS or token.hidden:
        return _BREAKS.get(token.type, Html(""))
    if token.nesting:
        name = _ELEMENTS[token.tag]
        start = token.attrs.get("start")  # of a list; no other attribute is taken over
        return Html(f"</{name}>" if token.nesting < 0 else tag(name, start=start).removesuffix(f"</{name}>"))
    content = multiline(token.content)
    content = tag("code", content) if token.tag == "code" else content
    return tag("pre", content, title=token.info or None) if token.type == "fence" else content
