"""`benchgraph compile-times`: every figure from a new process."""

from __future__ import annotations

import re

from click.testing import CliRunner, Result

from benchgraph.cli import main


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["compile-times", *words])


def test_a_row_per_partition_with_first_and_warm_starts() -> None:
    result = run("--runs=1", "--graph", "--policy=fused,one_op_each", "--case=op/relu.json")
    assert result.exit_code == 0, result.output
    head, *rows = result.output.splitlines()
    assert re.fullmatch(r"first min +median +warm min +median  ms, of 1 runs", head)
    assert len(rows) >= 1
    for row in rows:
        assert re.fullmatch(r"( +\d+\.\d){4}  .*--case=op/relu\.json (fused|one_op_each) \d+: ReLU", row)


def test_words_may_come_in_any_order_and_graph_is_the_driver() -> None:
    result = run("--case", "op/relu.json", "--runs", "1", "--policy=fused")
    assert result.exit_code == 0, result.output
    assert "--case=op/relu.json fused 0: ReLU" in result.output


def test_cases_that_cannot_be_timed_are_reported() -> None:
    for words, message in (
        (["--runs=0", "--case=mlp.json"], "--runs: bad value '0'; give an integer from 1 on"),
        (["--runs=x", "--case=mlp.json"], "--runs: bad value 'x'; give an integer from 1 on"),
        ([f"--runs={'9' * 5000}", "--case=mlp.json"], "; give an integer of at most 4000 digits"),
        ([], "no case to compile"),
        (["--library=onednn", "--graph", "--case=mlp.json"], "only our own compiler is timed"),
    ):
        result = run(*words)
        assert result.exit_code == 2, result.output
        assert message in result.output


def test_a_case_that_does_not_compile_names_itself() -> None:
    result = run("--runs=1", "--graph", "--case=no_such.json")
    assert result.exit_code in (1, 2)
    assert "no_such.json" in result.output
