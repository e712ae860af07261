"""Keep the metadata of samples: fields of a log that no other field of a record holds.

A harness gives them as they are in the log. Here they become texts, for all harnesses alike:

    a value                                              becomes
    text                                                 itself
    anything else                                        compact JSON
    null or empty                                        nothing
    what the input has: a long text, choices             nothing: it would be there twice
    more than 4,096 characters, unless named by the      its beginning, and how much is missing; counted
    user
    a field that the user did not choose                 nothing; counted

A name that the harness uses itself gets a prefix, `sample_` or `score_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from fastrec.errors import UsageError
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import Input

LONGEST: Final = 4096
"""Characters of a value that are kept."""
_COPIED: Final = 32  # characters of a text that is no accident if the input has it, too

_NUMBERS: Final = (int, float, bool)

NO_PLACE: Final = "a record has no place for it"
NOT_CHOSEN: Final = "not chosen by --metadata"
CUT: Final = f"cut after {LONGEST:,} characters"

FieldCounts = Counter[tuple[str, str]]
"""Values of a log that are not in its records, or not whole, by name and reason."""

_ALL: Final = frozenset({"harness", "harness_version", "reference_index", "choice_index",
                         "graded", "metric_kind", "lower_is_better", "primary_metric"})  # fmt: skip
_LIKELIHOODS: Final = {"log_likelihood", "log_likelihoods"}
_OWN: Final[Mapping[str, Collection[str]]] = {
    "lm-eval": {*_LIKELIHOODS, "doc_hash", "filter", "num_fewshot", "task_version"},
    "inspect": {
        *("eval_id", "run_id", "dataset", "epoch", "uuid", "stop_reason", "output_error", "limit", "error_retries"),
        *("score_reason", "score_edited", "assistant_message", "completions"),
    },
    "helm": {
        *("scenario", "adapter_method", "model_deployment", "trial", "split", "sub_split", "perturbation"),
        *("log_likelihoods", "stop_reason"),
    },
    "lighteval": {*_LIKELIHOODS, "split", "task_version", "num_fewshot"},
    "mt-bench": {"judge"},
    "openai-evals": {"run_id", "split"},
    "promptfoo": {"provider_label", "prompt_label", "eval_id"},
}
"""Names of metadata that harnesses write themselves. A name means one thing in all records of a log."""


def own_names(harness: str) -> frozenset[str]:
    return _ALL.union(_OWN.get(harness, ()))


def chosen_names(metadata: str) -> frozenset[str] | None:
    """The names in a value of --metadata: `all` (None), `none`, or names separated by commas; UsageError if empty.

    >>> chosen_names("all"), sorted(chosen_names("subject, level")), chosen_names("none")
    (None, ['level', 'subject'], frozenset())
    """
    names = frozenset(filter(None, map(str.strip, metadata.split(","))))
    if not names:
        raise UsageError("metadata must be all, none, or names separated by commas, not empty")
    return None if names == {"all"} else frozenset() if names == {"none"} else names


def names_of(field: str) -> tuple[str, ...]:
    """The names that a field of a log may have in records."""
    return field, f"sample_{field}", f"score_{field}"


class MetadataKeeper:
    """Turns fields of samples and scores into metadata, and counts what it leaves out."""

    def __init__(self, harness: str, chosen: frozenset[str] | None = None) -> None:
        """Keep all fields (None) or the chosen ones."""
        self._own = own_names(harness)
        self._chosen = chosen
        self.left_out: FieldCounts = Counter()
        self.names: set[str] = set()
        """All names that came up, as records have them."""

    def keep(self, fields: Mapping[str, Any], asked: Input, prefix: str, taken: Collection[str] = ()) -> dict[str, str]:
        """The metadata of some fields; `taken` are names that the record has besides the harness's own."""
        kept: dict[str, str] = {}
        own, chosen = self._own, self._chosen
        for field, value in fields.items():
            if not value and value.__class__ not in _NUMBERS:
                continue
            name = field
            while name in own or name in taken or name in kept:
                name = f"{prefix}_{name}"
            self.names.add(name)
            if chosen is not None and name not in chosen and field not in chosen:
                self.left_out[name, NOT_CHOSEN] += 1
                continue
            if value.__class__ in _NUMBERS:
                kept[name] = spell(value) if value.__class__ is not int else str(value)
                continue
            if _is_in(asked, value):
                continue
            text = spell(value)
            if len(text) > LONGEST and chosen is None:
                text = f"{text[:LONGEST]}… [{len(text) - LONGEST:,} more characters]"
                self.left_out[name, CUT] += 1
            kept[name] = text
        return kept


def _is_in(asked: Input, value: Any) -> bool:
    """Whether the input of a record has a value."""
    if value.__class__ is str:
        if len(value) < _COPIED:
            return False
        return value in asked.raw or (asked.formatted.__class__ is str and value in asked.formatted)
    return value.__class__ is list and value == asked.choices
