"""docs/benchdnn-compatibility.md: its option strings are understood, one problem at least each."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchgraph.options.argv import parse
from benchgraph.options.repro import split_quoted

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchdnn-compatibility.md"
BLOCKS = re.findall(r"^```options\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
LINES = [line for block in BLOCKS for line in block.splitlines()]


def test_there_are_option_strings() -> None:
    assert len(LINES) > 20


@pytest.mark.parametrize("line", LINES)
def test_an_option_string_of_the_document_is_understood(line: str) -> None:
    problems = parse(shlex.split(line)).problems
    assert problems
    for problem in problems:
        assert problem.file is not None
        (again,) = parse(split_quoted(problem.repro)).problems
        assert again.knobs == problem.knobs
