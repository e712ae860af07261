"""The frame of every page: its head, its top bar, and help about keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastrec.commands.view.addresses import Addresses
from fastrec.html import Html
from fastrec.templates import render_template

MOST = 1_000  # models or answers of a page: a browser shows no more at once


@dataclass(frozen=True)
class Frame:
    addresses: Addresses
    corpus: str
    can_label: bool

    def page(
        self, name: str, title: str, trail: Sequence[tuple[str, str | None]] = (), **values: Any
    ) -> Html:
        """Fill the template of a page.

        `trail` has the names and addresses of the pages above it, and its own name.
        """
        return render_template(
            f"view/{name}.html",
            frame=self,
            addresses=self.addresses,
            title=title,
            trail=list(trail),
            **values,
        )
