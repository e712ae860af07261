"""How titles, scores, shares and results are spelled in the terminal, browser and reports."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Protocol

from fastrec.errors import counted

_MOST_SIGNS = 16
_NO_METRIC = "(no metric)"

# The tests that compare a model's answers with others to the same questions.
TESTS = {
    "mcnemar": "exact McNemar test",
    "t": "paired t-test over questions",
}


def cluster_in_words(cluster: str | None) -> list[str]:
    """Say what the field of `--cluster` means for the numbers of a table, in one line."""
    same = f"clusters of questions with the same {cluster}, not over single questions"
    return [f"Standard errors, intervals and tests: over {same}."] if cluster else []


SIGNS = {"right": "✓", "wrong": "✗", "mixed": "±", "error": "!", "none": "·"}  # by outcome


class Scope(Protocol):
    """An evaluation and one of its metrics."""

    @property
    def evaluation_name(self) -> str: ...
    @property
    def metric(self) -> str | None: ...  # None if the records name none


def title_of(
    evaluation: str,
    metric: str | None,
    metrics: int,
    group: Mapping[str, str | None] | None = None,
    *,
    lower: bool = False,
) -> str:
    """The title of an evaluation that has this number of metrics, or of one of its groups.

    ↓ says that lower is better.

    >>> title_of("gsm8k", "f1", 2)
    'gsm8k · f1'
    >>> title_of("gsm8k", "f1", 1)
    'gsm8k'
    """
    title = (
        evaluation if metrics == 1 else f"{evaluation} · {_NO_METRIC if metric is None else metric}"
    )
    title += " ↓" * lower
    values = (
        f"without {key}" if value is None else f"{key}: {value}"
        for key, value in (group or {}).items()
    )
    return f"{title} [{', '.join(values)}]" if group else title


def cut_middle(text: str, most: int = 36) -> str:
    """Leave out the middle of a long name, because similar names often differ at their end.

    >>> cut_middle("openai/gsm8k-175b_verification", 20), cut_middle("short", 20)
    ('openai/gsm…ification', 'short')
    """
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-((most - 1) // 2) :]}"


def metrics_of(scopes: Iterable[Scope]) -> Counter[str]:
    """The number of metrics of each evaluation; records without a metric count as one."""
    return Counter(scope.evaluation_name for scope in scopes)


def titles_in(scopes: Iterable[Scope]) -> Callable[[Scope], str]:
    """Return a function that gives the title of each of these evaluations and metrics."""
    metrics = metrics_of(scopes)
    return lambda scope: title_of(
        scope.evaluation_name, scope.metric, metrics[scope.evaluation_name]
    )


NONE = "–"  # stands for a number that there is not
_LARGEST = 10**15  # larger numbers are rounded to four digits


def score_text(score: float | None) -> str:
    """Format a score with four digits, or as an integer if it is large.

    >>> [score_text(score) for score in (True, 1.0, 0.123456, 12_345.6, 10**400, None)]
    ['true', '1', '0.1235', '12,346', '1.000e+400', '–']
    """
    if score is None:
        return NONE
    if isinstance(score, bool):
        return str(score).lower()
    if 1_000 <= abs(score) < _LARGEST:
        return f"{score:,.0f}"
    return (
        f"{score:.4g}"
        if isinstance(score, float) or abs(score) < 1_000
        else f"{Decimal(score):.4g}"
    )


def even_scores(scores: Iterable[float | None]) -> list[str]:
    """Format the scores of a column, with the same number of decimals: four at most.

    >>> even_scores([1.0, 0.5, 0.123456, 12_345.6, None])
    ['1.0000', '0.5000', '0.1235', '12,346', '–']
    >>> even_scores([0.0, 1, True]), even_scores([8.5e-6, 2.4e-5])
    (['0', '1', 'true'], ['8.500e-06', '2.400e-05'])
    """
    pairs = [(score, score_text(score)) for score in scores]
    decimals = min(
        max((len(text.partition(".")[2]) for _, text in pairs if "e" not in text), default=0), 4
    )
    texts = []
    for score, text in pairs:
        if text.lstrip("-").replace(".", "").isdigit():
            text = f"{score:.{decimals}f}"
        elif "e-" in text:
            text = f"{score:.3e}"
        texts.append(text)
    return texts


def tokens_text(tokens: int) -> str:
    """Format a number of tokens.

    >>> tokens_text(12_345), tokens_text(10**400)
    ('12,345', '1.000e+400')
    """
    return f"{tokens:,}" if tokens < _LARGEST else f"{Decimal(tokens):.4g}"


def latency_text(milliseconds: float) -> str:
    """Format a time.

    >>> latency_text(12.345), latency_text(12_345), latency_text(10**400)
    ('12.3 ms', '12.3 s', '1.000e+397 s')
    """
    if milliseconds < 1_000:
        return f"{milliseconds:.3g} ms"
    return (
        f"{milliseconds / 1_000:,.1f} s"
        if milliseconds < _LARGEST
        else f"{Decimal(milliseconds) / 1_000:.4g} s"
    )


def cost_text(cost: float | None) -> str:
    """Format a cost, in whatever currency the prices are.

    >>> cost_text(12_345.678), cost_text(1.5), cost_text(0.0000123456), cost_text(None)
    ('12,345.68', '1.50', '0.0000123', '–')
    """
    if cost is None:
        return NONE
    return f"{cost:,.2f}" if cost >= 1 or not cost else format(Decimal(f"{cost:.3g}"), "f")


def percent(share: float | None) -> str:
    """Format a share. Only 0 is "0%", and only 1 is "100%".

    >>> [percent(share) for share in (0.5, 0.999, 0.001, 0, None)]
    ['50%', '>99%', '<1%', '0%', '–']
    """
    if share is None:
        return NONE
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def value_text(value: float | None, *, graded: bool, digits: int | None = None) -> str:
    """Format an accuracy, or a mean score if the metric is graded.

    `digits` are decimals of percentages; a score has two more.

    >>> value_text(0.5, graded=False), value_text(0.5, graded=True), value_text(None, graded=True)
    ('50.0%', '0.500', '–')
    >>> value_text(0.5, graded=True, digits=2)
    '0.5000'
    """
    if value is None:
        return NONE
    if graded and digits is None and abs(value) >= 10:
        return score_text(value)
    decimals = 1 if digits is None else digits
    return f"{value:,.{decimals + 2}f}" if graded else f"{value:.{decimals}%}"


POINTS = "a point is a hundredth, or a unit of the score if means are below 0 or above 1"


def points_per_unit(*, other_scale: bool) -> int:
    """How many points a difference of 1 is: percentage points, unless the score has another scale.

    >>> points_per_unit(other_scale=False), points_per_unit(other_scale=True)
    (100, 1)
    """
    return 1 if other_scale else 100


def power_text(differences: Sequence[tuple[float | None, float | None, int | None]]) -> str:
    """Say which differences could have been seen.

    Given are, for some models: the smallest one, the observed one, both in points, and how many
    questions this needs.

    >>> power_text([(3.1, -1.2, 9_120)])
    'detects 3.1 points with 80% power at p < 0.05; to detect 1.2 takes 9,120 questions'
    >>> power_text([(3.1, -1.2, 9_120), (4, 6, 70), (None, None, None)])[-49:]
    '; to detect 1.2 takes 9,120 questions, 6 takes 70'
    """
    least = sorted(smallest for smallest, _, _ in differences if smallest)
    ends = dict.fromkeys(f"{end:.3g}" for end in (*least[:1], *least[-1:]))
    found = "too few questions differ to tell what is detected"
    if ends:
        found = f"detects {' to '.join(ends)} points"
    needs = sorted(
        (abs(observed), needed) for _, observed, needed in differences if observed and needed
    )
    named = [
        f"{size:.3g} takes {number:,}" for size, number in dict.fromkeys([*needs[:1], *needs[-1:]])
    ]
    named[:1] = [f"; to detect {phrase} questions" for phrase in named[:1]]
    return f"{found} with 80% power at p < 0.05{', '.join(named)}"


def by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Counts, the greatest first, and of equal ones in the order of their names."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def signs_of(outcomes: Sequence[str]) -> str:
    """Show the outcomes of some trials, each with a sign; of many, only how many are right.

    >>> signs_of(["right", "wrong", "error"]), signs_of(["right"] * 40)
    ('✓✗!', '40/40')
    """
    if len(outcomes) > _MOST_SIGNS:
        return f"{outcomes.count('right')}/{len(outcomes)}"
    return "".join(map(SIGNS.__getitem__, outcomes))


def found_in(in_input: bool, answers: int) -> str:
    """Say where a text was found.

    >>> found_in(True, 2), found_in(False, 1), found_in(True, 0)
    ('input, 2 answers', '1 answer', 'input')
    """
    return ", ".join(["input"] * in_input + ([counted(answers, "answer")] if answers else []))
