"""Template parameters as data: the paper's relations, forced ones, every legal choice, and that all of them compute the product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import ceil

import numpy as np
import pytest

from benchgraph.candidates import candidates
from benchgraph.compile import compile_partition
from benchgraph.core.divisors import block_sizes
from benchgraph.core.options import Forced, Options
from benchgraph.gir.parameters import Parameters
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, Target, current
from benchgraph.partition.ir import Partition
from benchgraph.schedule.primitives import parse
from benchgraph.schedule.space import Tiling, panel_widths
from tests.support import graph_ir
from tests.support.graph_ir import nests
from tests.support.partitions import partition_of

TARGET = Target(ISAS["avx512_core"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=4)
Shape = tuple[int, ...]

# (src, wei, attributes): k = 13 and 479 of the paper, one column, fewer rows than a tile, batched, broadcast both ways, transposed.
PROBLEMS = [
    ((32, 13), (13, 512), {}),
    ((9, 479), (479, 70), {}),
    ((33, 256), (256, 1), {}),
    ((1, 64), (64, 200), {}),
    ((3, 2, 17, 24), (3, 2, 24, 40), {}),
    ((3, 2, 17, 24), (24, 40), {}),
    ((17, 24), (5, 24, 40), {}),
    ((24, 35), (24, 80), {"transpose_a": True}),
    ((35, 24), (80, 24), {"transpose_b": True}),
]
IDS = ["k13", "k479", "n1", "m1", "batched", "broadcast_wei", "broadcast_src", "transposed_src", "transposed_wei"]


def partition(src: Shape, wei: Shape, attrs: dict[str, bool], *, constant: bool = True) -> Partition:
    b = GraphBuilder()
    w = b.constant(wei) if constant else b.input(wei)
    b.op("ReLU", b.op("MatMul", b.input(src), w, **attrs))
    return partition_of(b.graph())


def scheduled(p: Partition, target: Target = TARGET) -> Parameters:
    found = [n.parameters for n in nests(graph_ir.scheduled(p, target)) if n.parameters is not None]
    assert len(found) == 1
    return found[0]


def nest_of(p: Partition) -> str:
    """The nest as the compiler spells it; schedules forced for another one are ignored."""
    src, wei = (t.known_shape for t in p.inputs)
    attrs = p.ops[0].attrs
    m, k = src[-2:][:: -1 if attrs.get("transpose_a") else 1]
    n = wei[-2] if attrs.get("transpose_b") else wei[-1]
    batch = np.broadcast_shapes(src[:-2], wei[:-2])
    return f"f32:f32 {'x'.join(map(str, (*batch, m, k, n)))} {'constant' if p.inputs[1].is_constant else 'variable'}"


def choices(p: Partition, target: Target) -> list[Forced]:
    (found,) = candidates(p, target)
    return list(found.legal)


@pytest.mark.parametrize(("src", "wei", "attrs"), PROBLEMS, ids=IDS)
def test_the_papers_relations_hold(src: Shape, wei: Shape, attrs: dict[str, bool]) -> None:
    p = scheduled(partition(src, wei, attrs))
    assert (p.mpn, p.msn) == (ceil(p.m / (p.mb * p.msn)), 1)
    assert p.npn * p.nsn >= ceil(p.n / p.nb) == p.panels
    assert p.ksn * (p.ks or p.k) >= p.k
    assert p.tasks == p.batch * p.mpn * p.npn
    assert {r.parameter for r in p.why} >= {"mb", "nb"}
    assert all(r.text for r in p.why)


@pytest.mark.parametrize(("src", "wei", "attrs"), PROBLEMS, ids=IDS)
def test_the_choice_wastes_no_padding_and_is_legal(src: Shape, wei: Shape, attrs: dict[str, bool]) -> None:
    p = scheduled(partition(src, wei, attrs))
    assert 1 <= p.mb <= p.m
    assert p.mb in block_sizes(p.m)
    assert p.nb in panel_widths(p.n, TARGET.lanes)
    assert p.panels * p.nb - p.n < TARGET.lanes * p.panels


def test_a_forced_schedule_applies_to_its_nest_only() -> None:
    p = partition((64, 32), (32, 96), {})
    forced = Forced(nest_of(p), str(Tiling(4, 16, spreads=True).schedule((), ())))
    found = scheduled(replace(p, options=Options(forced=(forced,))))
    assert (found.mb, found.nb, found.split_n) == (4, 16, True)
    why = {r.parameter: r.text for r in found.why}
    assert (why["mb"], why["nb"]) == (f"{forced.schedule}: given by the options", "given by the options")
    other = replace(forced, nest=forced.nest.replace("64x", "65x"))
    assert scheduled(replace(p, options=Options(forced=(other,)))) == scheduled(p) != found


def test_a_nest_of_several_products_takes_nothing_that_is_for_one() -> None:
    b = GraphBuilder()
    b.op("MatMul", b.op("ReLU", b.op("MatMul", b.input((64, 32)), b.constant((32, 96)))), b.constant((96, 48)))
    p = partition_of(b.graph())
    forced = Forced("f32:f32 64x32x96 constant", str(Tiling(8, 32).schedule((), ())))
    assert scheduled(replace(p, options=Options(forced=(forced,)))) == scheduled(p)


@pytest.mark.covering(1)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "variable"])
@pytest.mark.parametrize(("src", "wei", "attrs"), PROBLEMS, ids=IDS)
def test_legal_choices_compute_the_product(src: Shape, wei: Shape, attrs: dict[str, bool], constant: bool) -> None:
    """Two of each problem's, spread over the space, with its last panel and its last rows ragged; others where weights are constant."""
    p, target = partition(src, wei, attrs, constant=constant), current()
    every = choices(p, target)
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in (src, wei))
    a = x.swapaxes(-1, -2) if attrs.get("transpose_a") else x
    b = w.swapaxes(-1, -2) if attrs.get("transpose_b") else w
    want = np.maximum(a @ b, 0)
    for forced in _spread(every, 4)[constant::2]:
        dst, asked = np.full(want.shape, np.nan, np.float32), replace(p, options=Options(forced=(forced,)))
        compile_partition(asked).bind([x, w], [dst])()
        found = scheduled(asked, target)
        given = Tiling.of(parse(forced.schedule))
        columns = found.ns if found.ks and found.nb != given.nb else found.nb  # of weights that are read in place
        assert (found.mb, columns, found.split_n or found.panels_first, found.ks, found.prefetch and found.ks > 0) == (
            given.mb,
            given.nb,
            given.spreads,
            given.ks,
            given.fetches,
        )
        assert given.ns == (found.ns if found.panels_first or found.ks else 0)
        np.testing.assert_array_equal(dst, want, err_msg=str(forced))


def _spread(every: Sequence[Forced], count: int) -> list[Forced]:
    return list(islice(every, 0, None, max(len(every) // count, 1)))
