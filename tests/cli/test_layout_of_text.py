"""Text on a terminal: no line is wider than the terminal, and no character gets lost."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.shell_completion import ShellComplete
from hypothesis import given
from hypothesis import strategies as st

from fastrec.cli import cli, tables
from fastrec.cli.console import UNSAFE, clip, safe_lines, spell, styled, width_of, wrap
from fastrec.cli.tables import make_table, table_lines
from tests.answers.small import answer, make_corpus
from tests.timing import grows_linearly

TEXTS = st.text(st.sampled_from("ab  日本é\u0301,"), max_size=60)


@given(TEXTS, st.integers(2, 30))
def test_wrapped_lines_fit_and_keep_every_word(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(width_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert wrap(text, None) == [text]
    if width_of(text) <= width:
        assert lines == [text]


@given(TEXTS, st.integers(2, 30))
def test_clipped_text_fits_and_says_that_it_is_cut(text: str, width: int) -> None:
    cut = clip(text, width)
    assert width_of(cut) <= width
    assert cut == text or (
        cut.endswith("…") and text.startswith(cut[:-1]) and width_of(text) > width
    )


@given(st.text(max_size=40))
def test_lines_are_safe(text: str) -> None:
    assert not any(UNSAFE.search(line) for line in safe_lines(text))


def test_words_break_only_if_they_must() -> None:
    assert wrap("a list:  of things", 8) == ["a list:", "of", "things"]
    assert wrap("see https://example.org/x now", 10) == ["see", "https://ex", "ample.org/", "x now"]
    assert wrap("日本語日本語", 5) == ["日本", "語日", "本語"]
    assert wrap("x" * 1_000_000, 80)[:2] == ["x" * 80, "x" * 80]


@pytest.mark.parametrize(
    ("arguments", "incomplete", "found"),
    [
        (["compare", "{}"], "org/", ["org/a", "org/b"]),
        (["compare", "{}", "org/a"], "", ["org/a", "org/b", "x"]),
        (["questions", "{}", "--wrong-by"], "x", ["x"]),
        (["questions", "{}", "--split", "org/a"], "org/b", ["org/b"]),
        (["questions", "{}", "--model"], "org/a", ["org/a"]),
        (["show", "{}", "id", "--evaluation"], "", ["exam"]),
    ],
)
def test_models_are_completed_from_the_corpus(
    arguments: list[str],
    incomplete: str,
    found: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    corpus = make_corpus(
        tmp_path_factory.mktemp("complete"),
        [answer("exam", "q", model, 1) for model in ("org/a", "org/b", "x")],
    )
    complete = ShellComplete(cli, {}, "fastrec", "_FASTREC_COMPLETE")
    words = [word.format(corpus) for word in arguments]
    assert [one.value for one in complete.get_completions(words, incomplete)] == found


def test_the_work_per_row_of_a_table_does_not_grow_with_their_number() -> None:
    def lines(size: int) -> list[str]:
        return list(
            table_lines(make_table(["name", "number"], [(f"row {n}", n) for n in range(size)]))
        )

    assert lines(11)[:2] == [click.style("  name    number", dim=True), "  row 0        0"]
    assert grows_linearly(lines, 2_000)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{name}", "a\\x1bb"),
        ("{none}: {none:,}", "–: –"),
        ("{lines:line}, {kinds:kind}, {name:character}", "1 line, 2 kinds, 3 characters"),
        ("{kinds:,} {share:.1%} {mean:g}", "2 50.0% 1"),
        ("{counts.kept:,}", "1,205"),
        ("x[?, {zero:,} blank][?, {lines:,} kept][? ({none})]", "x, 1 kept"),
        ("x[?, {lines:,} of {zero:,}]", "x"),
        ("[?{zero:if}never][?{lines:if}always]", "always"),
        ("{short:<4}|{short:>4}|", "ab  |  ab|"),
        ("{ready}", "\x1b[1mx\x1b[0m"),
        ("{zero:OK/damaged}", click.style("damaged", fg="red", bold=True)),
        ("{lines:OK/damaged}", click.style("OK", fg="green", bold=True)),
        ("{name:bold}", click.style("a\\x1bb", bold=True)),
        ("{name:red}", click.style("a\\x1bb", fg="red")),
    ],
)
def test_templates(template: str, expected: str) -> None:
    """Texts are escaped, None is a dash, and a part without a value is left out."""
    item = SimpleNamespace(name="a\x1bb", none=None, lines=1, kinds=["x", "y"], share=0.5)
    item.counts = SimpleNamespace(kept=1205)
    values = {"mean": 1.0, "zero": 0, "short": "ab", "ready": styled("x", bold=True)}
    assert spell(template, item, **values) == expected


def test_tables_align_and_hide_columns_that_they_have() -> None:
    """A misspelled name in `tables.toml` would have no effect."""
    descriptions = tomllib.loads(Path(tables.__file__).with_suffix(".toml").read_text("utf-8"))
    for name, about in descriptions.items():
        named = {*about.get("left", ()), *about.get("hidden", ())}
        assert named <= about.get("columns", {}).keys(), name
