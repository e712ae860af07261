"""The list of what `diff --fail-on` does, made by running every combination."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from fastrec.cli import cli
from fastrec.schemas.registry import NEWEST_SCHEMA
from tests.commands.comparing import corpus_of
from tests.samples import sample, sample_of

_QUESTIONS: Final = 20

# Verdicts of model `m` on 20 questions in OLD and NEW: `+` is a right answer, `-` a wrong one, `!`
# an error, a space no record at all. A list has several trials of each question.
_RIGHT: Final = "+" * _QUESTIONS
_CASES: Final = {
    "no change": (_RIGHT, _RIGHT),
    "8 of 20 questions become wrong": (_RIGHT, "-" * 8 + "+" * 12),
    "8 of 20 questions become right": ("-" * 8 + "+" * 12, _RIGHT),
    "3 of 20 become wrong: not significant": (_RIGHT, "-" * 3 + "+" * 17),
    "6 of 20 become wrong: significant alone (p = 0.03), not among 4 models": (
        _RIGHT,
        "-" * 6 + "+" * 14,
    ),
    "10 of 20 questions lose one of several right answers": (
        ["++--"] * 20,
        ["+---"] * 10 + ["++--"] * 10,
    ),
    "4 trials per question become 1 with the same accuracy": (["++--"] * 20, "+-" * 10),
    "1 of 20 questions is missing": (_RIGHT, " " + "+" * 19),
    "2 of 20 questions are missing": (_RIGHT, "  " + "+" * 18),
    "2 of 20 questions have an error in NEW": (_RIGHT, "!!" + "+" * 18),
    "8 of 20 questions have an error in NEW": (_RIGHT, "!" * 8 + "+" * 12),
    "2 of 20 questions had an error in OLD": ("!!" + "+" * 18, _RIGHT),
    "2 of 20 questions have an error in both": ("!!" + "+" * 18, "!!" + "+" * 18),
    "the model has errors only, in both": ("!" * 20, "!" * 20),
    "the model has errors only, in OLD": ("!" * 20, _RIGHT),
    "the model has errors only, in NEW": (_RIGHT, "!" * 20),
    "the model is missing": (_RIGHT, ""),
    "the model is new": ("", _RIGHT),
}
_SPECIAL: Final = (
    "the evaluation is missing",
    "all prompts changed, and so the hashes",
    "OLD has no records",
)

# By metric (None: records name none), the scores of model `m` in OLD and NEW. An answer is right
# from 0.5 on.
_HIGH: Final = [0.9] * _QUESTIONS
_METRICS: Final[dict[str, tuple[dict[str | None, list[float]], dict[str | None, list[float]]]]] = {
    "a metric is missing, another one stays": (
        {"exact": [1.0] * 20, "f1": _HIGH},
        {"exact": [1.0] * 20},
    ),
    "a metric is new": ({"exact": [1.0] * 20}, {"exact": [1.0] * 20, "f1": _HIGH}),
    "records of NEW name a metric, those of OLD none": ({None: _HIGH}, {"f1": _HIGH}),
    "a graded metric: 8 of 20 scores fall from 0.9 to 0.6": (
        {"f1": _HIGH},
        {"f1": [0.6] * 8 + [0.9] * 12},
    ),
    "a graded metric: 8 of 20 scores fall from 0.51 to 0.49": (
        {"f1": [0.51] * 8 + [0.9] * 12},
        {"f1": [0.49] * 8 + [0.9] * 12},
    ),
}
_OPTIONS: Final = {
    "without `--fail-on`": [],
    "`--fail-on 1`": [],
    "`--fail-on 50`": ["--fail-on", "50"],
    "`--p-adjust none`": ["--p-adjust", "none"],
    "`--min-compared 80`": ["--min-compared", "80"],
    "`--allow-missing m`": ["--allow-missing", "m"],
    "`--errors-as-wrong`": ["--errors-as-wrong"],
    "`--accuracy`": ["--accuracy"],
}


def diff_gates() -> str:
    """The list of `diff`: the exit code and the reasons for each change and option."""
    cases: dict[tuple[str, str], list[str]] = {}
    made: dict[str, Path] = {}  # the corpora, by their records: many cases share one
    with tempfile.TemporaryDirectory(prefix="fastrec-gates-") as name:
        folder = Path(name)
        for number, case in enumerate([*_CASES, *_SPECIAL, *_METRICS]):
            options = {"schema": NEWEST_SCHEMA.name} if case in _METRICS else {}
            pair = []
            for side, records in zip(("old", "new"), _nights(case), strict=True):
                content = json.dumps([records, options])
                if content not in made:
                    path = folder / f"{side}-{number}"
                    made[content] = corpus_of(records, path, part_size=1 << 20, **options)
                pair.append(made[content])
            outcomes = {column: _run(*pair, *_arguments(column)) for column in _OPTIONS}
            assert outcomes.pop("without `--fail-on`") == "0"
            usual = outcomes.pop("`--fail-on 1`")
            cases.setdefault((usual, but(usual, outcomes)), []).append(case)
    return "\n".join(
        f"- {usual}{f' ({other})' if other else ''}: {'; '.join(same)}"
        for (usual, other), same in cases.items()
    )


def but(usual: str, outcomes: Mapping[str, str]) -> str:
    """What happens with options that change the outcome: each outcome, and its options."""
    options: dict[str, list[str]] = {}
    for option, outcome in outcomes.items():
        if outcome != usual:
            options.setdefault(outcome, []).append(option)
    return "; ".join(f"{outcome} with {', '.join(names)}" for outcome, names in options.items())


def _nights(case: str) -> tuple[list[Any], list[Any]]:
    """The records of OLD and NEW: those of model `m`, and of three models that do not change."""
    if case in _METRICS:
        olds, news = (
            list(_scores(*side)) for side in zip(_METRICS[case], ("monday", "tuesday"), strict=True)
        )
        return olds, news
    others = [record for model in ("n", "o", "p") for record in _answers("++", "any", model=model)]
    if case in _CASES:
        olds, news = (
            list(_answers(v, run))
            for v, run in zip(_CASES[case], ("monday", "tuesday"), strict=True)
        )
        return others + olds, others + news
    answers = list(_answers(_RIGHT, "any"))
    if case == "OLD has no records":
        return [], others + answers
    if case == "the evaluation is missing":
        return others + [record | {"evaluation_name": "gone"} for record in answers], others
    return others + answers, others + list(_answers(_RIGHT, "any", prompt="new prompt"))


def _answers(
    questions: Iterable[str], run: str, *, model: str = "m", prompt: str = "prompt"
) -> Iterable[Any]:
    """A record for each trial of each question."""
    for number, trials in enumerate(questions):
        for trial, verdict in enumerate(trials.strip()):
            yield sample(model_id=model, sample_id=number, evaluation_id=run) | {
                "input": {"raw": f"{prompt} {number}", "reference": ""},
                "output": {"raw": f"trial {trial} of {run}"},
                "evaluation": {"score": float(verdict == "+"), "is_correct": verdict == "+"},
                "error": "timeout" if verdict == "!" else None,
            }


def _scores(scores: Mapping[str | None, Sequence[float]], run: str) -> Iterable[Any]:
    """A record for each metric and question, of model `m` and of three that do not change."""
    for metric, of_m in scores.items():
        for model, values in (("m", of_m), *((other, [1.0, 0.0]) for other in ("n", "o", "p"))):
            for number, score in enumerate(values):
                made = sample_of(
                    "0.3.0", model_id=model, sample_id=str(number), evaluation_id=run, error=None
                )
                del made["evaluation_result_id"]
                yield (
                    made
                    | ({} if metric is None else {"evaluation_result_id": metric})
                    | {
                        "input": {"raw": f"prompt {number}", "reference": []},
                        "evaluation": {"score": score, "is_correct": score >= 0.5},
                    }
                )


def _arguments(column: str) -> list[str]:
    options = _OPTIONS[column]
    return (
        options
        if column.startswith("without") or "--fail-on" in options
        else ["--fail-on", "1", *options]
    )


def _run(old: Path, new: Path, *options: str) -> str:
    """The exit code of `fastrec diff`, in this process, and the reasons in its JSON."""
    result = CliRunner().invoke(
        cli, ["diff", str(old), str(new), "--format", "json", "--jobs", "1", *options]
    )
    reasons = sorted(
        {failure["reason"] for failure in json.loads(result.stdout)["failures"]}, reverse=True
    )
    assert result.exit_code == bool(reasons)
    return f"1, {', '.join(reasons)}" if reasons else "0"
