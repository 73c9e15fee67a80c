"""Every schedule that tuning can try of a nest is one that the nest takes: it is accepted, shown as it is, and computes what is right.

For products whose weights are constant, change, lie by columns, are converted or differ between batch entries, and for all other nests that
have a space. What is compared with the reference are runs of the command line with a tuning file, as of users.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.candidates import KINDS, Candidates, candidates
from benchgraph.cli import main
from benchgraph.harness.command_words import select_cases
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.schedule.tuning import Finding, store
from tests.support import graph_ir
from tests.support.graph_ir import nests

MOST = 10  # schedules of a nest that are tried

PRODUCTS = [
    "--matmul --wtag=ab 381x19:19x49",
    "--matmul --wtag=ab 98x18:18x795",
    "--matmul --wtag=ab 7x22:22x80",
    "--matmul --wtag=ba 7x22:22x80",
    "--matmul --wtag=ba 3x22:22x80",
    "--matmul --wtag=ab 1x22:22x80",
    "--matmul --wtag=ab 5x64:64x1",
    "--matmul --wtag=abc 4x24x50:4x50x89",
    "--matmul --wtag=acb 4x24x50:4x50x89",
    "--matmul --wtag=abc 4x24x50:1x50x89",
    "--matmul --wtag=any 4x24x50:1x50x89",
    "--matmul --wtag=any --attr-post-ops=relu+add:f32 9x50:50x89",
    "--matmul --wtag=any --dt=u8:s8:f32 9x50:50x89",
    "--matmul --wtag=ab --dt=u8:s8:f32 9x50:50x89",
    "--matmul --wtag=ba --dt=u8:s8:f32 9x50:50x89",
    "--matmul --wtag=any --dt=bf16:bf16:f32 9x50:50x89",
    "--matmul --wtag=ab --dt=bf16:bf16:f32 75x50:50x689",
    "--matmul --wtag=ab --dt=bf16:bf16:f32 1x50:50x89",
    "--matmul --wtag=abc --dt=bf16:bf16:f32 4x24x50:4x50x89",
    "--matmul --wtag=any --dt=f32:f16:f32 3x50:50x89",
]
OTHERS = [
    "--conv mb1ic16ih9oc32oh9kh3ph1",
    "--conv g2mb1ic16ih9oc64oh9kh3ph1",
    "--conv g8mb1ic8ih9oc8oh9kh3ph1",
    "--pool mb1ic16_ih8oh8kh3sh1ph1",
    "--resampling mb1ic3_ih8oh16",
    "--reduction --alg=sum 24x30:24x1",
    "--reduction --alg=sum 300x33:1x33",
    "--softmax --axis=1 24x300",
    "--softmax --axis=0 24x300",
    "--lnorm 24x300",
    "--sdpa 2x4x48x32:2x4x32x48:2x4x48x32",
    "--graph --case=op/matmul.json",
    "--graph --case=mlp.json",
]


def parts_of(words: str) -> list[Partition]:
    return [p for problem in select_cases("tune", tuple(words.split())).problems for p in partitions(problem.graph(), Policy.fused)]


def shown(p: Partition, target: Target) -> dict[str, str]:
    """The schedules of a partition's nests."""
    g = graph_ir.scheduled(p, target)
    found = (each for node in nests(g) if not g.value(node.outs[0]).is_constant for kind in KINDS for each in kind(g, node, target))
    return {each.nest: each.chosen.schedule for each in found}


def check_taken(p: Partition, space: Candidates, target: Target, seed: int) -> None:
    for forced in random.Random(seed).sample(space.legal, min(MOST, len(space.legal))):
        assert shown(replace(p, options=replace(p.options, forced=(forced,))), target)[space.nest] == forced.schedule


@pytest.mark.covering(1)
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("words", PRODUCTS + OTHERS)
def test_every_schedule_of_the_space_is_taken_as_it_is(words: str, cores: int) -> None:
    target = replace(current(), cores=cores)
    spaces = [(p, each) for p in parts_of(words) for each in candidates(p, target)]
    assert spaces or cores == 1
    for p, each in spaces:
        check_taken(p, each, target, 0)


@settings(max_examples=12)
@given(
    st.integers(1, 400), st.integers(1, 300), st.integers(1, 900), st.sampled_from(["any", "ab", "ba"]),
    st.sampled_from(["f32", "bf16:bf16:f32", "u8:s8:f32"]), st.integers(1, 3), st.integers(0, 99),
)  # fmt: skip
def test_so_it_is_for_products_of_any_shape(m: int, k: int, n: int, tag: str, dtypes: str, cores: int, seed: int) -> None:
    target = replace(current(), cores=cores)
    for p in parts_of(f"--matmul --dt={dtypes} --wtag={tag} {m}x{k}:{k}x{n}"):
        for each in candidates(p, target):
            for forced in random.Random(seed).sample(each.legal, 1):
                assert shown(replace(p, options=replace(p.options, forced=(forced,))), target)[each.nest] == forced.schedule


@pytest.mark.parametrize("words", PRODUCTS + OTHERS)
def test_what_a_drawn_schedule_computes_is_right(words: str, tmp_path: Path) -> None:
    """Of all nests of a case at once, twice."""
    spaces = [each for p in parts_of(words) for each in candidates(p)]
    rng = random.Random(1)
    for number in range(2):
        file = tmp_path / f"{number}.json"
        store(file, current(), [Finding(rng.choice(each.legal), 1.5) for each in spaces])
        result = CliRunner().invoke(main, [f"--tuning={file}", *words.split()])
        assert result.exit_code == 0, result.output
