r"""Clean an extracted value and a reference, and compare both.

Cleaners take a text and return a text. They apply to the value and to every reference. A value is
right if it agrees with any reference.
"""

import re
import string
from collections.abc import Callable, Sequence
from decimal import Context, Decimal

from fastrec.errors import UsageError
from fastrec.scoring.extract import NUMBER

Cleaner = Callable[[str], str]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CURRENCY = re.compile(r"\\?[$€£¥₹]|\b(?:USD|EUR|GBP|dollars?|euros?|cents?)\b", re.IGNORECASE)
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|textbf|mathbf|operatorname|mbox)\s*\{([^{}]*)\}")
_LATEX_SPACE = re.compile(r"\\(?:left|right|displaystyle|[,;:! ])|(?<!\\)\$|\\[()\[\]]|~")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_SHORT_FRACTION = re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)")
# A whole number before a fraction, such as 1\frac{1}{2}.
_MIXED = re.compile(r"(?<![\w.])(\d+)\s*\\[dt]?frac\s*(?:\{(\d+)\}\s*\{(\d+)\}|(\d)\s*(\d))")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\,)\s?(?=\d{3}(?!\d))")


def _latex(text: str) -> str:
    while True:
        plain = _TEXT_COMMAND.sub(r"\1", text)
        if plain == text:
            return _LATEX_SPACE.sub("", plain)
        text = plain


def _improper(match: re.Match[str]) -> str:
    whole, above, below = map(int, filter(None, match.groups()))
    return f"{whole * below + above}/{below}"


def _fraction(text: str) -> str:
    text = _MIXED.sub(_improper, text)
    text = _FRACTION.sub(r"\1/\2", text)
    return _SHORT_FRACTION.sub(r"\1/\2", text)


CLEANERS = {
    "case": str.casefold,
    "punctuation": lambda text: text.translate(_PUNCTUATION),
    "articles": lambda text: _ARTICLE.sub(" ", text),
    "thousands": lambda text: _THOUSANDS.sub("", text),
    "currency": lambda text: _CURRENCY.sub("", text),
    "percent": lambda text: re.sub(r"\\?%|\bper ?cent\b", "", text),
    "latex": _latex,
    "fraction": _fraction,
}


def cleaner_of(names: Sequence[str]) -> Cleaner:
    """One function that cleans by all of these names, in order, and unites white space."""
    for name in names:
        if name not in CLEANERS:
            raise UsageError(f"clean has {name!r}: expected {', '.join(CLEANERS)}")
    cleaners = [CLEANERS[name] for name in names]

    def clean(text: str) -> str:
        for cleaner in cleaners:
            text = cleaner(text)
        return " ".join(text.split())

    return clean


_EXACT = Context(prec=50, traps=[])


def number_of(text: str) -> Decimal | None:
    """The first number of a text; a fraction is divided."""
    match = NUMBER.search(text)
    if not match:
        return None
    above = _decimal(match[1])
    below = _decimal(match[2]) if match[2] else Decimal(1)
    return _EXACT.divide(above, below) if below else above


def is_number(text: str) -> bool:
    """Whether a text is a number and nothing else."""
    return NUMBER.fullmatch(text) is not None


def _decimal(text: str) -> Decimal:
    return Decimal(re.sub(r"[,$]", "", text).replace("−", "-"))


Compare = Callable[[str, str, Sequence[str]], bool]


def _same_choice(value: str, reference: str, choices: Sequence[str]) -> bool:
    """Whether both name the same choice, each by its letter or by its text."""
    return _choice_of(value, choices) == _choice_of(reference, choices)


def _choice_of(text: str, choices: Sequence[str]) -> str:
    if text in choices:
        return LETTERS[choices.index(text)] if choices.index(text) < len(LETTERS) else text
    letter = text.strip("().: ").upper()
    return letter if len(letter) == 1 and letter in LETTERS else text


def comparison_of(name: str, tolerance: float) -> Compare:
    """The function that tells whether a clean value agrees with a clean reference."""
    if name == "number":
        limit = Decimal(repr(tolerance))

        def close(value: str, reference: str, _choices: Sequence[str]) -> bool:
            number = number_of(value)
            wanted = number_of(reference)
            if number is None or wanted is None:
                return False
            return number == wanted or abs(_EXACT.subtract(number, wanted)) <= limit

        return close
    if tolerance:
        raise UsageError(f'tolerance is for compare = "number", not for {name!r}')
    return COMPARISONS[name]


COMPARISONS = {
    "equal": lambda value, reference, _choices: value == reference,
    "contains": lambda value, reference, _choices: bool(reference) and reference in value,
    "choice": _same_choice,
}
