"""`benchgraph ops`: the table as people see it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.ops import OPS


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["ops", *words])
    return result.exit_code, result.output


def test_every_row_has_its_line() -> None:
    code, text = run()
    assert code == 0
    assert {line.split(" ")[0] for line in text.splitlines()[2:-1]} == set(OPS)


@pytest.mark.parametrize("kind", OPS)
def test_every_row_prints_in_full(kind: str) -> None:
    code, text = run(f"--kind={kind}")
    assert code == 0
    assert text.startswith(f"{kind}: ")
    assert text.count("  sample ") == len(OPS[kind].testing.samples)


def test_one_row_shows_ports_attributes_and_laws() -> None:
    _, text = run("--kind", "SoftMax")
    assert "SoftMax: role row, category complex, compiled by decomposition" in text
    assert "  in   src: f32 bf16 f16 (T1)" in text
    assert "  attr axis: s64, default 1" in text
    assert "  attr beta: f32, required, finite numbers\n" in run("--kind", "Pow")[1]


def test_the_bare_word_is_a_kind() -> None:
    assert run("Pow") == run("--kind=Pow")
    assert run("pow") == (1, "benchgraph: ops: unknown op kind 'pow'; did you mean 'Pow'?\n")


def test_a_misspelt_kind_gets_a_suggestion() -> None:
    assert run("--kind=softmax") == (1, "benchgraph: ops: unknown op kind 'softmax'; did you mean 'SoftMax'?\n")


@pytest.mark.parametrize("words", [("--kindd=SoftMax",), ("--kind=",), ("--kind", "SoftMax", "more"), ("Pow", "SoftMax")])
def test_other_words_are_refused(words: tuple[str, ...]) -> None:
    assert run(*words)[0] == 2
