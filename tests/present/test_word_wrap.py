"""Sentences on terminals."""

from __future__ import annotations

import io
import sys

import pytest

from benchgraph.present.screen import warn
from benchgraph.present.word_wrap import folded


@pytest.mark.parametrize(
    ("text", "width", "want"),
    [
        ("a short line", 12, "a short line"),
        ("too few to tell a change from noise", 20, "too few to tell a\nchange from noise"),
        ("a-word-that-is-longer than that", 10, "a-word-that-is-longer\nthan that"),
        ("use 'benchgraph history --add=a.json' for it", 20, "use\n'benchgraph history --add=a.json'\nfor it"),
        ("or `benchgraph ops --kind=NAME`, then", 20, "or\n`benchgraph ops --kind=NAME`,\nthen"),
        ("the machine's peak isn't what it was", 20, "the machine's peak\nisn't what it was"),
        ("first\n  second one", 10, "first\n  second\none"),
        ("", 10, ""),
        ("            ", 10, "            "),
    ],
)
def test_lines_end_between_words_and_not_within_quotes(text: str, width: int, want: str) -> None:
    assert folded(text, width) == want


def test_continuation_lines_are_indented() -> None:
    assert folded("  one two three four", 12, indent=4) == "  one two\n    three\n    four"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_warnings_are_folded_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "30")
    warn("38 of 38 series have fewer than 8 runs")
    said = "38 of 38 series\nhave fewer than 8 runs\n" if is_terminal else "38 of 38 series have fewer than 8 runs\n"
    assert stream.getvalue() == f"benchgraph: {said}"
