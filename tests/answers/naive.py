"""The table of questions, computed from all records of a corpus in the simplest way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from fastrec.answers.table import Query
from tests.normalize.normalizing import Corpus

Record = dict[str, Any]
Row = dict[str, Any]


class Naive:
    """All records of a corpus, in memory."""

    def __init__(self, corpus: Path) -> None:
        self.lines = Corpus(corpus).lines
        self.records: list[Record] = [json.loads(line) for line in self.lines]

    def scopes(self) -> list[tuple[str, str | None]]:
        found = {(one["evaluation_name"], one.get("evaluation_result_id")) for one in self.records}
        return sorted(found, key=lambda scope: (scope[0], scope[1] is not None, scope[1] or ""))

    def models(self, scope: tuple[str, str | None]) -> list[str]:
        return sorted({one["model_id"] for one in self.records if scope_of(one) == scope})

    def graded(self, scope: tuple[str, str | None]) -> bool:
        return any(one["evaluation"]["score"] not in (0, 1) for one in self.answers(scope))

    def answers(self, scope: tuple[str, str | None]) -> list[Record]:
        return [one for one in self.records if scope_of(one) == scope and not one.get("error")]

    def of(
        self, scope: tuple[str, str | None], sample_hash: str, models: Sequence[str]
    ) -> list[Record]:
        return [
            one
            for one in self.records
            if scope_of(one) == scope
            and one["sample_hash"] == sample_hash
            and (not models or one["model_id"] in models)
        ]

    def means(self, records: Sequence[Record], value_of: Any) -> dict[str, float]:
        """The mean of a value over the answers of each model."""
        models = sorted({one["model_id"] for one in records if not one.get("error")})
        values = {
            model: [
                value_of(one)
                for one in records
                if one["model_id"] == model and not one.get("error")
            ]
            for model in models
        }
        return {model: fmean(found) for model, found in values.items()}

    def value_of(self, scope: tuple[str, str | None]) -> Any:
        return score_of if self.graded(scope) else right_of

    def range_of(self, scope: tuple[str, str | None]) -> float:
        """How far apart the mean scores of models on questions are."""
        if not self.graded(scope):
            return 1.0
        hashes = {one["sample_hash"] for one in self.answers(scope)}
        found = [
            mean
            for each in hashes
            for mean in self.means(self.of(scope, each, ()), score_of).values()
        ]
        return max(found) - min(found) or 1.0

    def asked(self, evaluation: str, sample_hash: str) -> dict[str, Any]:
        """The input of a question."""
        same = (one for one in self.records if one["evaluation_name"] == evaluation)
        found: dict[str, Any] = next(
            one["input"] for one in same if one["sample_hash"] == sample_hash
        )
        return found

    def row(self, query: Query, sample_hash: str) -> Row:
        scope = query.evaluation_name, query.metric
        everyone = self.of(scope, sample_hash, ())
        asked = self.asked(query.evaluation_name, sample_hash)
        records = self.of(scope, sample_hash, query.models)
        shares = self.means(records, right_of)
        scores = self.means(records, score_of)
        values = list(self.means(records, self.value_of(scope)).values())
        failed = {one["model_id"] for one in records if one.get("error")} - shares.keys()
        return {
            "sample_hash": sample_hash,
            "sample_id": everyone[0]["sample_id"],
            "models": len(shares),
            "right": sum(shares.values()),
            "share": fmean(shares.values()) if shares else None,
            "mean_score": fmean(scores.values()) if scores else None,
            "disagreement": 2 * pstdev(values) / self.range_of(scope) if values else None,
            "errors": len(failed),
            "input_chars": len(asked["raw"]),
            "output_chars": fmean(self.means(records, length_of).values()) if shares else None,
            "excerpt": " ".join(asked["raw"].split())[:200],
            "in_input": self._has(query.text, texts_asked(asked)) if query.text else None,
            "in_answers": sum(self._has(query.text, said(one)) for one in records)
            if query.text
            else None,
        }

    def _has(self, phrase: str, texts: Sequence[str]) -> bool:
        return any(phrase.casefold() in text.casefold() for text in texts)

    def outcome(self, scope: tuple[str, str | None], sample_hash: str, model: str) -> str:
        records = self.of(scope, sample_hash, [model])
        share = self.means(records, right_of).get(model)
        if share is None:
            return "error" if records else "none"
        return "right" if share == 1 else "wrong" if share == 0 else "mixed"

    def chosen(self, query: Query) -> list[str]:
        """The hashes of the questions that a query chooses, in its order."""
        scope = query.evaluation_name, query.metric
        hashes = dict.fromkeys(
            one["sample_hash"] for one in self.records if one["evaluation_name"] == scope[0]
        )
        rows = [self.row(query, each) for each in hashes if self._accepts(query, each)]
        by = "mean_score" if self.graded(scope) else "share"
        column, sign = {
            "order": (None, 1),
            "hardest": (by, 1),
            "easiest": (by, -1),
            "disagreement": ("disagreement", -1),
            "longest-input": ("input_chars", -1),
            "longest-output": ("output_chars", -1),
            "errors": ("errors", -1),
        }[query.sort]
        if column:
            rows.sort(key=lambda row: (row[column] is None, sign * round(row[column] or 0, 9)))
        return [row["sample_hash"] for row in rows]

    def _differs(self, scope: tuple[str, str | None], sample_hash: str) -> bool:
        """Whether another metric that judged the same models has other outcomes of some model."""
        others = [
            one
            for one in self.scopes()
            if one[0] == scope[0] and self.models(one) == self.models(scope)
        ]
        records = [self.of(one, sample_hash, ()) for one in (scope, *others)]
        kinds = [
            {(one["model_id"], "error" if one.get("error") else right_of(one)) for one in some}
            for some in records
            if some
        ]
        return any(one != kinds[0] for one in kinds)

    def _accepts(self, query: Query, sample_hash: str) -> bool:
        scope = query.evaluation_name, query.metric
        records = self.of(scope, sample_hash, query.models)
        if not records:
            return False
        row = self.row(query, sample_hash)
        outcomes = {
            "error" if one.get("error") else "right" if right_of(one) else "wrong"
            for one in records
        }
        everyone = self.of(scope, sample_hash, ())
        places = {"input": row["in_input"], "answers": row["in_answers"]}
        which = {
            "all": True,
            "all-wrong": outcomes - {"error"} == {"wrong"},
            "all-right": outcomes - {"error"} == {"right"},
            "disagreement": bool(row["disagreement"] and round(row["disagreement"], 9)),
            "metrics-differ": self._differs(scope, sample_hash),
            "errors": "error" in outcomes,
        }
        return (
            which[query.which]
            and (not query.outcomes or not outcomes.isdisjoint(query.outcomes))
            and all(self.outcome(scope, sample_hash, model) == "right" for model in query.right)
            and all(self.outcome(scope, sample_hash, model) == "wrong" for model in query.wrong)
            and (
                query.least_score is None
                or (row["mean_score"] is not None and row["mean_score"] >= query.least_score)
            )
            and (
                query.most_score is None
                or (9e9 if row["mean_score"] is None else row["mean_score"]) <= query.most_score
            )
            and (
                not query.text
                or any(found for place, found in places.items() if query.place in (place, "both"))
            )
            and (not query.hashes or any(fnmatchcase(sample_hash, one) for one in query.hashes))
            and (
                not query.sample_ids
                or any(
                    fnmatchcase(str(each["sample_id"]), one)
                    for each in everyone
                    for one in query.sample_ids
                )
            )
        )


def scope_of(record: Record) -> tuple[str, str | None]:
    return record["evaluation_name"], record.get("evaluation_result_id")


def texts_asked(asked: dict[str, Any]) -> list[str]:
    reference = asked["reference"]
    return [asked["raw"], *(reference if isinstance(reference, list) else [reference])]


def said(record: Record) -> list[str]:
    """The outputs, and the turns of the assistant."""
    raw = record.get("output", {}).get("raw", [])
    turns = record.get("messages", record.get("interactions", ()))
    spoken = [
        turn["content"] for turn in turns if turn["role"] == "assistant" and turn.get("content")
    ]
    return [*([raw] if isinstance(raw, str) else raw), *spoken]


def right_of(record: Record) -> float:
    return float(record["evaluation"]["is_correct"])


def score_of(record: Record) -> float:
    return float(record["evaluation"]["score"])


def length_of(record: Record) -> int:
    """The characters of what the model said."""
    return sum(map(len, said(record)))
