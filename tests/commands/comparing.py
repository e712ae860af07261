"""The expected result of `diff`, computed by loading both corpora with the stdlib, and corpora to compare."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import msgspec

import fastrec
from tests.normalize.normalizing import Corpus

BY = ("evaluation_name", "sample_hash", "model_id", "sample_id")
KINDS = ("unchanged", "changed", "added", "removed", "ambiguous_old", "ambiguous_new")


def corpus_of(records: Iterable[dict[str, Any]], path: Path, **options: Any) -> Path:
    """Normalize some records."""
    shard = path.with_name(f"{path.name}.jsonl")
    shard.write_text("".join(json.dumps(record) + "\n" for record in records))
    fastrec.normalize(shard, path, part_size=options.pop("part_size", 1 << 10), **options)
    return path


def spelled(line: bytes) -> Any:
    """Decode a record so that numbers compare as they are spelled: 1, 1.0 and true are three values."""
    return json.loads(line, parse_int=lambda text: ("int", text), parse_float=lambda text: ("float", text))


def differing(old: Any, new: Any, path: str = "$") -> set[str]:
    """The paths of all values that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = set()
        for key in old.keys() | new.keys():
            step = f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key, ensure_ascii=False)}]"
            if key not in old or key not in new:
                found.add(step)
            else:
                found |= differing(old[key], new[key], step)
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return set().union(*(differing(ours, theirs, f"{path}[*]") for ours, theirs in zip(old, new, strict=True)))
    return set() if old == new else {path}


def matched(olds: list[Any], news: list[Any]) -> tuple[list[tuple[Any, Any]], list[Any], list[Any]]:
    """Pairs among records that agree in the fields to compare by, and the unmatched records of each corpus."""
    pairs = []
    if olds and news and len(olds) + len(news) > 2:
        for old in list(olds):
            whole = [{key: old[key] for key in ("evaluation_id", "sample_id", "sample_hash")}]
            twins = [
                [each for each in side if [{key: each[key] for key in whole[0]}] == whole] for side in (olds, news)
            ]
            if len(twins[0]) == len(twins[1]) == 1:
                pairs.append((old, twins[1][0]))
                olds = [each for each in olds if each is not old]
                news = [each for each in news if each is not twins[1][0]]
    if len(olds) == len(news) == 1:
        return [*pairs, (olds[0], news[0])], [], []
    return pairs, olds, news


def p_value(one: int, other: int) -> float:
    """The sum of the formula, term by term."""
    tail = sum(comb(one + other, flips) for flips in range(min(one, other) + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2 ** (one + other))))


def reference(old: Path, new: Path, by: Sequence[str] = BY) -> dict[str, Any]:
    """The counts per model, the fields that differ, and the flips."""
    old_lines, new_lines = Corpus(old).lines, Corpus(new).lines
    same = set(old_lines) & set(new_lines)
    groups: dict[str, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for side, lines in enumerate((old_lines, new_lines)):
        for line in lines:
            if line not in same:
                record = spelled(line)
                groups[json.dumps([record[field] for field in by])][side].append(record)
    pairs = [(spelled(line), spelled(line)) for line in same]
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for olds, news in groups.values():
        model = (olds + news)[0]["evaluation_name"], (olds + news)[0]["model_id"]
        some, left_olds, left_news = matched(olds, news)
        pairs += some
        ambiguous = bool(left_olds and left_news)
        counts[model]["ambiguous_old" if ambiguous else "removed"] += len(left_olds)
        counts[model]["ambiguous_new" if ambiguous else "added"] += len(left_news)
    fields: Counter[str] = Counter()
    flips: dict[tuple[str, str], set[tuple[str, str, str]]] = defaultdict(set)
    for one, other in pairs:
        model = one["evaluation_name"], one["model_id"]
        paths = differing(one, other) - {"$.evaluation_id"}
        fields.update(paths)
        counts[model]["changed" if paths else "unchanged"] += 1
        was, now = (record["evaluation"]["is_correct"] for record in (one, other))
        counts[model]["old_correct"] += was
        counts[model]["new_correct"] += now
        if was != now:
            counts[model]["wrong_to_right" if now else "right_to_wrong"] += 1
            sample_id = other["sample_id"]
            spelling = sample_id if isinstance(sample_id, str) else f"int {sample_id[1]}"
            flips[model].add((spelling, other["sample_hash"], "right" if now else "wrong"))
    return {
        "models": {
            model: {name: count[name] for name in (*KINDS, *FIGURES)}
            | {"p": p_value(count["right_to_wrong"], count["wrong_to_right"])}
            for model, count in counts.items()
        },
        "fields": fields,
        "flips": {model: some for model, some in flips.items() if some},
    }


FIGURES = ("old_correct", "new_correct", "right_to_wrong", "wrong_to_right")


def found(difference: fastrec.Difference) -> dict[str, Any]:
    """The result of `diff` in the form of `reference`."""
    models = difference.models
    return {
        "models": {
            (model.evaluation_name, model.model_id): msgspec.to_builtins(model.counts)
            | {name: getattr(model, name) for name in (*FIGURES, "p")}
            for model in models
        },
        "fields": Counter({field.path: field.records for field in difference.fields}),
        "flips": {
            (model.evaluation_name, model.model_id): {
                (f if isinstance(f := flip.sample_id, str) else f"int {f}", flip.sample_hash, flip.now)
                for flip in model.flips
            }
            for model in models
            if model.flips
        },
    }
