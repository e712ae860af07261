"""The plans of the benchmark corpora: what each is made of. `bench.corpora` makes them."""

from __future__ import annotations

from typing import Final

import msgspec

from fastrec.commands.generate import Recipe

__all__ = [
    "CORPORA",
    "Copied",
    "Generated",
    "Halves",
    "Logged",
    "Nights",
    "Plan",
    "Published",
    "Real",
    "Resharded",
]
__all__ += ["Shaped", "Shuffled"]


class Generated(msgspec.Struct, frozen=True, tag=True):
    """The lines of a recipe in shards of equal size; `small` truncates long texts."""

    recipe: Recipe
    shards: int
    small: bool = False


class Shaped(msgspec.Struct, frozen=True, tag=True):
    """A shape of `bench.shapes`, from a seed."""

    shape: str
    seed: int


class Resharded(msgspec.Struct, frozen=True, tag=True):
    """The lines of another corpus in a different number of shards."""

    of: str
    shards: int


class Copied(msgspec.Struct, frozen=True, tag=True):
    """Several copies of another corpus, each with different model names."""

    of: str
    times: int


class Real(msgspec.Struct, frozen=True, tag=True):
    """The real records, of all evaluations or one, in several versions; see `bench.real`."""

    times: int
    only: str = ""


class Shuffled(msgspec.Struct, frozen=True, tag=True):
    """The real records in many versions, each with the words of its answers in another order.

    See `bench.real`.
    """

    times: int


class Published(msgspec.Struct, frozen=True, tag=True):
    """The normalized form of another corpus: its parts and manifest."""

    of: str


class Logged(msgspec.Struct, frozen=True, tag=True):
    """A log of a harness, from a seed; see `bench.logs`."""

    kind: str
    seed: int
    size: int
    """Questions, samples or instances."""


class Nights(msgspec.Struct, frozen=True, tag=True):
    """Two corpora, `old` and `new`, made from another one; see `bench.nights`."""

    of: str
    anew: bool


class Halves(msgspec.Struct, frozen=True, tag=True):
    """Two corpora, `a` and `b`, each made from every second shard of another one."""

    of: str


Plan = (
    Halves | Generated | Shaped | Resharded | Copied | Logged | Real | Shuffled | Published | Nights
)

CORPORA: Final[dict[str, Plan]] = {
    "mixed": Generated(Recipe(text="words", records=30_000, seed=1), 24),
    "small": Generated(
        Recipe(text="words", records=200_000, seed=2, mix="single_turn"), 16, small=True
    ),
    "agentic": Generated(Recipe(text="words", records=5_000, seed=3, mix="agentic"), 16),
    "unknown-keys": Generated(Recipe(text="words", records=20_000, seed=4, unknown_keys=1.0), 16),
    "half-duplicates": Generated(Recipe(text="words", records=30_000, seed=5, duplicates=0.5), 16),
    "many-evaluations": Shaped("many-evaluations", seed=8),
    "transcripts": Shaped("transcripts", seed=9),
    "giant-shard": Resharded("mixed", 1),
    "2000-shards": Resharded("small", 2_000),
    "2-shards": Resharded("small", 2),
    "ten-lines": Generated(Recipe(text="words", records=10, seed=6), 1),
    "real": Real(1),
    "real-x10": Real(10),
    "alpaca-x10": Real(10, only="alpaca"),  # Polars can read it: all values of a key have one type
    "shuffled-5GB": Shuffled(62),
    "shuffled-20GB": Shuffled(248),
    "shuffled-50GB": Shuffled(620),
    "mixed-x10": Copied("mixed", 10),
    "mixed-x4": Copied("mixed", 4),  # about 1 GB of text
    "published-mixed-x4": Published("mixed-x4"),
    "published-mixed": Published("mixed"),
    "published-real": Published("real"),
    "published-real-x10": Published("real-x10"),
    "nights": Nights("real-x10", anew=False),
    "nights-anew": Nights("real-x10", anew=True),
    "nights-small": Nights("real", anew=False),
    "halves": Halves("real-x10"),
    "logs-lm-eval": Logged("lm-eval", seed=11, size=33_000),
    "logs-lm-eval-shots": Logged("lm-eval-shots", seed=11, size=11_000),
    "logs-inspect": Logged("inspect", seed=12, size=1_250),
    "logs-helm": Logged("helm", seed=13, size=13_500),
    "logs-table": Logged("table", seed=14, size=100_000),
}
