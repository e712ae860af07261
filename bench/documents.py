"""Documents from templates: `logs.json` and `shapes.json` say what is in them and what is drawn.

"{name}"      a fact, of any type; within a longer text, formatted as Python does
"$draw"       facts that are drawn for the object that it is in, one after the other
words     a text of as many phrases; `prose`, `log`, like output of tools, and `world`, in
another script, have a typical and a greatest number of phrases
list      as many times a template; `lines`: the `text` of each, one per line
choice    one of these values
sum       of other facts
real      a number up to this one; `bits`, `between`: integers
"""

from collections.abc import Callable
from operator import or_
from typing import Any

from fastrec.commands.generate.text import Rng, phrase_tables

Document = dict[str, Any]


Draw = Callable[[Document, Document], Document]


def filled(template: Any, facts: Document, draw: Draw = or_) -> Any:
    """Fill a template; `draw` draws further facts for an object."""
    if isinstance(template, list):
        return [filled(value, facts, draw) for value in template]
    if isinstance(template, dict):
        facts = draw(facts, template.get("$draw", {}))
        pairs = ((key, filled(value, facts, draw)) for key, value in template.items())
        return {key: value for key, value in pairs if key != "$draw"}
    if not isinstance(template, str) or "{" not in template:
        return template
    name = template[1:-1]
    return facts[name] if name in facts else template.format_map(facts)


class Documents:
    """Makes documents from templates; what it draws depends on the two numbers alone."""

    def __init__(self, templates: Document, seed: int, number: int = -1) -> None:
        self._templates = templates
        self._rng = Rng((seed << 32) + number)
        tables = phrase_tables(seed)
        self._tables = {
            "words": tables.latin[0],
            "prose": tables.latin[1],
            "log": tables.log,
            "world": self._rng.choice(tables.world),
        }

    def make(self, template: str, **facts: Any) -> Any:
        """Fill a template with facts and with what it draws."""
        return filled(self._templates[template], facts, self._draw)

    def _draw(self, facts: Document, draws: Document) -> Document:
        facts = {**facts}
        for name, (kind, *given) in draws.items():
            facts[name] = self._drawn(kind, given, facts)
        return facts

    def _drawn(self, kind: str, given: list[Any], facts: Document) -> Any:
        rng = self._rng
        if kind in self._tables:
            count = rng.between if kind == "words" else rng.long_tail
            return self._tables[kind].write(rng, count(*given))
        match kind:
            case "list":
                *counts, template = given
                return [filled(template, facts, self._draw) for _ in range(rng.between(*counts))]
            case "lines":
                return "\n".join(line["text"] for line in self._drawn("list", given, facts))
            case "choice":
                return rng.choice(filled(given[0], facts, self._draw))
            case "sum":
                return sum(facts[name] for name in given)
            case "real":
                return round(rng.random() * given[0], 4)
        return getattr(rng, kind)(*given)
