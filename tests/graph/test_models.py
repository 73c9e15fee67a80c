"""Whole networks through the whole command: right code passes, whatever its depth, and zeros make none of it mistrusted."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.options.argv import parse
from benchgraph.reference import is_deep

NETWORKS = ("perceptron_48", "convolutions_64", "unet_small", "decoder_8_small", "quantised_perceptron_24")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_passes(name: str) -> None:
    result = CliRunner().invoke(main, ["--policy=one_op_each", "--graph", f"--case=model/{name}.json"])
    assert "tests:1 passed:1 " in result.output, result.output


@pytest.mark.parametrize("options", [("--dt=bf16",), ("--dt=f16",), ("--mb=3",), ("--fill=reals",), ("--policy=post_ops",)])
def test_a_deep_perceptron_passes_in_other_ways_too(options: tuple[str, ...]) -> None:
    words = ["--policy=one_op_each", "--graph", *options, "--case=model/perceptron_48.json"]
    result = CliRunner().invoke(main, words)
    assert "tests:1 passed:1 " in result.output, result.output


def test_every_network_is_deep_and_no_other_case_of_every_day_is() -> None:
    assert all(is_deep(p.graph()) for p in parse(["--graph", "--batch=harness_graph_model_all"]).problems)
    assert not any(is_deep(p.graph()) for p in parse(["--graph", "--batch=test_graph_ci"]).problems)
