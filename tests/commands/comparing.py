"""The expected result of `diff`, computed by loading both corpora with the stdlib, and corpora to
compare.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from operator import mul
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fastrec
from tests.lazily import Library
from tests.normalize.normalizing import Corpus
from tests.summary.naive import hash_of, split_hashes

scipy_stats: Any = Library("scipy.stats")
BY = ("evaluation_name", "sample_hash", "model_id", "sample_id")
Model = tuple[str, str | None, str]
KINDS = ("unchanged", "changed", "relabelled", "added", "removed", "repeats_old", "repeats_new")


def corpus_of(records: Iterable[dict[str, Any]], path: Path, **options: Any) -> Path:
    """Normalize some records."""
    shard = path.with_name(f"{path.name}.jsonl")
    shard.write_text("".join(json.dumps(record) + "\n" for record in records))
    options = {
        "part_size": 1 << 12,
        "memory": 8 << 20,
        "allow_empty": True,
    } | options  # little memory, because touching more takes time
    assert fastrec.normalize(shard, path, **options).line_counts.rejected == 0
    return path


def spelled(line: bytes) -> Any:
    """Decode a record so that numbers compare as they are spelled: 1, 1.0 and true are three
    values.
    """
    return json.loads(
        line, parse_int=lambda text: ("int", text), parse_float=lambda text: ("float", text)
    )


def differing(old: Any, new: Any, path: str = "$") -> set[str]:
    """The paths of all values that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = set()
        for key in old.keys() | new.keys():
            step = (
                f"{path}.{key}"
                if key.isidentifier()
                else f"{path}[{json.dumps(key, ensure_ascii=False)}]"
            )
            if key not in old or key not in new:
                found.add(step)
            else:
                found |= differing(old[key], new[key], step)
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return set().union(
            *(differing(ours, theirs, f"{path}[*]") for ours, theirs in zip(old, new, strict=True))
        )
    return set() if old == new else {path}


def matched(olds: list[Any], news: list[Any]) -> tuple[list[tuple[Any, Any]], list[Any], list[Any]]:
    """Pairs among records that agree in the fields to compare by, and the unmatched records of each
    corpus.
    """
    pairs = []
    if olds and news and len(olds) + len(news) > 2:
        for old in list(olds):
            whole = [{key: old[key] for key in ("evaluation_id", "sample_id", "sample_hash")}]
            twins = [
                [each for each in side if [{key: each[key] for key in whole[0]}] == whole]
                for side in (olds, news)
            ]
            if len(twins[0]) == len(twins[1]) == 1:
                pairs.append((old, twins[1][0]))
                olds = [each for each in olds if each is not old]
                news = [each for each in news if each is not twins[1][0]]
    if len(olds) == len(news) == 1:
        return [*pairs, (olds[0], news[0])], [], []
    return pairs, olds, news


def question_fields(sort_fields: Sequence[str], by: Sequence[str]) -> list[str]:
    """The first fields of the sort order that name an evaluation, a model, and a sample."""
    for end in range(1, len(sort_fields) + 1):
        fields = set(sort_fields[:end])
        if {"evaluation_name", "model_id"} <= fields <= set(by) and fields & {
            "sample_hash",
            "sample_id",
        }:
            return list(sort_fields[:end])
    raise AssertionError


def mean(records: Sequence[Any], errors_as_wrong: bool, scored: bool) -> Fraction | None:
    """The share of right answers, or the mean score; None if there are no answers."""
    answers = [
        score(record)
        if scored
        else Fraction(record["evaluation"]["is_correct"] and not record.get("error"))
        for record in records
        if errors_as_wrong or not record.get("error")
    ]
    return sum(answers, Fraction()) / len(answers) if answers else None


def score(record: Any) -> Fraction:
    """The score as it is spelled in a record of `spelled`."""
    value = record["evaluation"]["score"]
    return Fraction(value) if isinstance(value, bool) else Fraction(value[1])


def graded(records: Iterable[Any]) -> set[tuple[str, str | None]]:
    """The evaluations and metrics of which an answer has another score than 0 and 1."""
    return {
        scope(record)
        for record in records
        if not record.get("error") and score(record) not in (0, 1)
    }


def scope(record: Any) -> tuple[str, str | None]:
    return record["evaluation_name"], record.get("evaluation_result_id")


def p_value(one: int, other: int) -> float:
    """The sum of the formula of the McNemar test, term by term."""
    tail = sum(comb(one + other, flips) for flips in range(min(one, other) + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2 ** (one + other))))


def flipped(differences: Sequence[Fraction]) -> float:
    """The sign-flip test: all choices of signs, one by one."""
    changed = [difference for difference in differences if difference]
    ways = [sum(map(mul, signs, changed)) for signs in product((-1, 1), repeat=len(changed))]
    return float(Fraction(sum(abs(way) >= abs(sum(changed)) for way in ways), len(ways)))


def paired(differences: Sequence[Fraction]) -> tuple[str, float]:
    """The test of differences and its p-value: McNemar's if all have one size, else a t-test with
    its floor.
    """
    changed = [difference for difference in differences if difference]
    if len({abs(difference) for difference in changed}) <= 1:
        rose = sum(difference > 0 for difference in changed)
        return "mcnemar", p_value(rose, len(changed) - rose)
    found = scipy_stats.ttest_1samp([float(difference) for difference in differences], 0)
    return "t", max(float(found.pvalue), 2 / 2 ** len(changed))


def adjusted(values: Mapping[Any, float]) -> dict[Any, float]:
    """The method of Benjamini and Hochberg, by its definition."""
    ranked = sorted(values.values())
    return {
        key: min(1.0, *(p * len(ranked) / rank for rank, p in enumerate(ranked, 1) if p >= value))
        for key, value in values.items()
    }


def reference(
    old: Path,
    new: Path,
    by: Sequence[str] = BY,
    *,
    errors_as_wrong: bool = False,
    accuracy: bool = False,
) -> dict[str, Any]:
    """The result of `diff`, in the form of `found`, computed from all records of both corpora."""
    corpora = Corpus(old), Corpus(new)
    if "evaluation_result_id" in corpora[0].manifest["sort_fields"]:
        by = [*by, "evaluation_result_id"]
    scored = (
        set() if accuracy else graded(spelled(line) for corpus in corpora for line in corpus.lines)
    )
    fields = question_fields(corpora[0].manifest["sort_fields"], by)
    same = set(corpora[0].lines) & set(corpora[1].lines)
    split = set().union(*(split_hashes(map(spelled, corpus.lines)) for corpus in corpora))
    questions: dict[str, dict[str, Any]] = defaultdict(lambda: defaultdict(lambda: ([], [])))
    for side, corpus in enumerate(corpora):
        for line in corpus.lines:
            record = spelled(line) | {"line": line}
            metric = "evaluation_result_id"
            question, group = (
                json.dumps([record.get(field) for field in some])
                for some in ([*fields, metric], by)
            )
            if "sample_id" not in fields and hash_of(record) in split:
                question += json.dumps(record["sample_id"])
            questions[question][group][side].append(record)
    changed: Counter[str] = Counter()
    counts: dict[Model, Counter[str]] = defaultdict(Counter)
    means: dict[Model, list[tuple[Fraction, Fraction]]] = defaultdict(list)
    flips: dict[Model, list[tuple[str, float, float]]] = defaultdict(list)
    for groups in questions.values():
        first = next(record for group in groups.values() for side in group for record in side)
        model = *scope(first), first["model_id"]
        by_score = scope(first) in scored
        count = counts[model]
        whole = [[record for group in groups.values() for record in group[side]] for side in (0, 1)]
        compared: list[list[Any]] = [[], []]
        for olds, news in groups.values():
            if not (olds and news):
                count.update({"removed": len(olds), "added": len(news)})
                continue
            compared[0] += olds
            compared[1] += news
            equal = [(record, record) for record in olds if record["line"] in same]
            pairs, *left = matched(
                *(
                    [record for record in side if record["line"] not in same]
                    for side in (olds, news)
                )
            )
            count.update({"repeats_old": len(left[0]), "repeats_new": len(left[1])})
            for one, other in equal + pairs:
                paths = differing(one, other) - {"$.evaluation_id", "$.line"}
                changed.update(paths)
                count["changed" if paths else "unchanged"] += 1
        for side, name in enumerate(("old", "new")):
            count[f"{name}_records"] += len(whole[side])
            count[f"{name}_questions"] += bool(whole[side])
            count[f"{name}_answered"] += mean(whole[side], errors_as_wrong, by_score) is not None
            count[f"{name}_errors"] += sum(bool(record.get("error")) for record in whole[side])
        was, now = (mean(side, errors_as_wrong, by_score) for side in compared)
        if was is None or now is None:
            continue
        means[model].append((was, now))
        if was != now:
            flips[model].append((compared[1][0]["sample_hash"], float(was), float(now)))
    tests = {model: paired([now - was for was, now in some]) for model, some in means.items()}
    ps = {model: p for model, (_, p) in tests.items()}
    return {
        "models": {
            model: {name: count[name] for name in (*KINDS, *FIGURES)}
            | _statistics(means[model], "score" if model[:2] in scored else "accuracy")
            | {
                "test": tests[model][0] if means[model] else None,
                "p": pytest.approx(ps[model], rel=1e-9) if means[model] else None,
                "p_adjusted": pytest.approx(adjusted(ps)[model], rel=1e-9)
                if means[model]
                else None,
                "flips": sorted(flips[model]),
            }
            for model, count in counts.items()
        },
        "fields": changed,
    }


def _statistics(means: Sequence[tuple[Fraction, Fraction]], measure: str) -> dict[str, Any]:
    number = len(means)
    olds, news = (sum((pair[side] for pair in means), Fraction()) for side in (0, 1))
    other = {"accuracy": "score", "score": "accuracy"}[measure]
    return {
        "questions": number,
        "measure": measure,
        f"old_{measure}": pytest.approx(float(olds / number), abs=1e-12) if number else None,
        f"new_{measure}": pytest.approx(float(news / number), abs=1e-12) if number else None,
        f"old_{other}": None,
        f"new_{other}": None,
        "points": float(100 * (news - olds) / number) if number else None,
        "worse": sum(was > now for was, now in means),
        "better": sum(was < now for was, now in means),
    }


FIGURES = (
    "old_records",
    "new_records",
    "old_errors",
    "new_errors",
    "old_questions",
    "new_questions",
    "old_answered",
)
MEANS = ("measure", "old_accuracy", "new_accuracy", "old_score", "new_score", "points")
STATISTICS = ("questions", *MEANS, "worse", "better", "test", "p", "p_adjusted")


def found(difference: fastrec.Difference) -> dict[str, Any]:
    """The result of `diff` in the form of `reference`."""
    return {
        "models": {
            (model.evaluation_name, model.metric, model.model_id): msgspec.to_builtins(model.counts)
            | {name: getattr(model, name) for name in (*FIGURES, *STATISTICS)}
            | {"flips": sorted((flip.sample_hash, flip.old, flip.new) for flip in model.flips)}
            for model in difference.models
        },
        "fields": Counter({field.path: field.records for field in difference.fields}),
    }
