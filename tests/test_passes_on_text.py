"""Golden tests of passes: files of tests/golden/opt, each with the command, what it is given and what it makes of it (docs/ir-text.md)."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.commands.opt import EXPECT
from benchgraph.gir import passes as gir
from benchgraph.gir.parse import parse_gir
from benchgraph.gir.text import print_gir
from benchgraph.tir import passes as tir
from benchgraph.tir.parse import parse_tir
from benchgraph.tir.text import print_tir
from tests.conftest import GOLDEN

FOLDER = GOLDEN / "opt"
FILES = sorted(FOLDER.rglob("*.txt"))
RUN = re.compile(r"# RUN: (opt .*)\n")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(FOLDER).with_suffix("")))
def test_a_pass_makes_what_is_expected(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    given, _, want = text.partition(f"{EXPECT}\n\n")
    command = RUN.match(given)
    assert command is not None, "the first line is '# RUN: opt --pipeline=...'"
    result = CliRunner().invoke(main, [*command[1].split(), str(path)])
    assert result.exit_code == 0, result.stderr
    if request.config.getoption("--update-golden"):
        path.write_text(f"{given}{EXPECT}\n\n{result.stdout}")
        return
    assert result.stdout == want, f"differs from {path}; if this is meant, run with --update-golden and review the diff"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(FOLDER).with_suffix("")))
def test_what_is_given_is_written_as_it_is_printed(path: Path) -> None:
    """So that the diff of what is given and what is expected shows what the pass does."""
    given = re.sub(r"^#.*\n", "", path.read_text().partition(EXPECT)[0], flags=re.MULTILINE).strip()
    assert given == printed_again(given)


def printed_again(text: str) -> str:
    return print_gir(parse_gir(text)) if text.startswith("graph(") else "\n".join(map(print_tir, parse_tir(text)))


def test_the_examples_of_the_grammar_are_as_printed() -> None:
    page = (GOLDEN.parents[1] / "docs" / "ir-text.md").read_text()
    examples = [dedent(text).strip() for text in re.findall(r"(?:^    (?:graph|func \w+)\(.*\n(?:    .*\n)*?    }\n)", page, re.MULTILINE)]
    assert [text.split("(")[0] for text in examples] == ["graph", "func main", "func f", "func f"]
    assert list(map(printed_again, examples)) == examples


def test_every_pass_has_a_file() -> None:
    assert {p.name for p in (*gir.PIPELINE, *tir.PIPELINE)} == {path.name for path in FOLDER.iterdir()}
