"""Gradients of weights in parts: blocks of windows that a cache holds, few channels and taps as rows together, and the sum of it all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import Graph as Gir
from benchgraph.gir.ir import Op
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.machine.target import current
from benchgraph.ops.convolution import weights_in_parts
from benchgraph.ops.convolution.depthwise import positions
from benchgraph.ops.convolution.problem import Problem, by_weights
from benchgraph.ops.spatial import windows
from benchgraph.ops.spec import Indices
from benchgraph.tir.ir import Brgemm, Const
from benchgraph.tir.visit import walk
from tests.lower.products import with_padding_multiplied
from tests.support.graph_ir import scheduled
from tests.support.partitions import partition_of
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET


@dataclass(frozen=True)
class Case:
    """src: images, spatial dims, channels. kernel: with the channels of the result."""

    src: Shape
    kernel: Shape
    out: int
    strides: Shape = (1, 1)
    dilations: Shape = (1, 1)
    begin: Shape = (0, 0)
    end: Shape = (0, 0)
    groups: int = 1
    ncx: bool = False
    auto_pad: str = "None"
    dtype: DType = DType.f32

    @property
    def attrs(self) -> Attrs:
        return Attrs(
            strides=self.strides, dilations=self.dilations, pads_begin=self.begin, pads_end=self.end, groups=self.groups,
            data_format="NCX" if self.ncx else "NXC", weights_format="OIX" if self.ncx else "XIO", auto_pad=self.auto_pad,
            weights_shape=(self.out, self.src[-1] // self.groups, *self.kernel) if self.ncx else self.wei,
        )  # fmt: skip

    @property
    def wei(self) -> Shape:
        return (*self.kernel, self.src[-1] // self.groups, self.out)

    @property
    def problem(self) -> Problem:
        """With channels last."""
        w = windows(self.attrs, self.src[1:-1], self.kernel)
        return Problem(self.src, self.wei, (self.src[0], *w.count(self.src[1:-1]), self.out), w, self.groups)

    def append(self, b: GraphBuilder) -> None:
        shapes = (self.src, self.problem.dst)
        ins = ((s[0], s[-1], *s[1:-1]) for s in shapes) if self.ncx else shapes
        b.append("ConvolutionBackwardWeights", tuple(b.input(s, self.dtype) for s in ins), self.attrs)

    def graph(self) -> Graph:
        b = GraphBuilder()
        self.append(b)
        return b.graph()


CASES = {
    "plain": Case((2, 42, 40, 24), (3, 3), 32),
    "few channels": Case((2, 42, 62, 3), (3, 3), 40, begin=(1, 1), end=(1, 1)),
    "few channels, stride 2, channels first": Case((2, 64, 62, 3), (5, 7), 70, strides=(2, 2), begin=(3, 3), end=(2, 3), ncx=True),
    "few channels, strides apart, an end left out": Case((1, 50, 201, 5), (2, 3), 48, strides=(1, 4)),
    "few channels, dilated": Case((1, 64, 64, 3), (3, 3), 40, dilations=(1, 2)),
    "few channels, dilated along y alone": Case((1, 64, 64, 3), (3, 3), 40, dilations=(2, 1)),
    "one channel, dilated": Case((1, 70, 64, 1), (3, 4), 40, dilations=(1, 3)),
    "groups": Case((2, 40, 40, 12), (3, 3), 36, begin=(1, 1), end=(1, 1), groups=3),
    "groups of one channel": Case((2, 60, 40, 3), (3, 3), 48, begin=(1, 1), end=(1, 1), groups=3),
    "a row beyond a block": Case((1, 12002, 8), (3,), 16, (1,), (1,), (0,), (0,)),
    "3 spatial dims": Case((1, 12, 30, 26, 3), (3, 2, 3), 32, (1, 1, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0)),
    "SAME_UPPER": Case((2, 40, 42, 20), (3, 2), 32, strides=(1, 2), auto_pad="SAME_UPPER"),
    "bf16": Case((2, 42, 40, 24), (3, 3), 32, begin=(1, 1), end=(1, 1), dtype=DType.bf16),
    "bf16, few channels": Case((2, 42, 40, 3), (3, 3), 32, dtype=DType.bf16),
    "bf16, stride 2, odd rows, channels first": Case((2, 43, 45, 24), (3, 3), 32, (2, 2), begin=(1, 1), ncx=True, dtype=DType.bf16),
    "bf16, a stride and dilations, an end left out": Case((1, 40, 64, 20), (2, 3), 32, (1, 3), (1, 2), dtype=DType.bf16),
    "bf16, stride beyond the kernel": Case((2, 40, 62, 20), (1, 1), 32, (2, 3), dtype=DType.bf16),
    "bf16, groups": Case((2, 40, 40, 12), (3, 3), 36, begin=(1, 1), end=(1, 1), groups=3, dtype=DType.bf16),
    "bf16, 1 spatial dim": Case((2, 4002, 8), (3,), 16, (1,), (1,), (0,), (0,), dtype=DType.bf16),
    "f16": Case((2, 42, 40, 24), (3, 3), 32, ncx=True, dtype=DType.f16),
}
MERGED = [name for name in CASES if "few channels" in name or "one channel," in name]
NARROW = replace(TARGET, emulated=frozenset({DType.bf16}))


def partial(g: Gir) -> Op:
    (op,) = (op for node in g.nodes for op in getattr(node, "ops", (node,)) if op.kind.endswith("PartialWeights"))
    return op


@pytest.mark.parametrize("name", CASES)
def test_parts_sum_to_the_gradient(name: str) -> None:
    case = CASES[name]
    sizes = partial(scheduled(case.append)).attrs.integers("blocks")
    assert prod(sizes) < prod(case.problem.dst[:-1]), "a case of several parts"
    assert matches_reference(case.graph())


@pytest.mark.parametrize("name", [name for name in CASES if "bf16" in name])
def test_bf16_products_stay_bf16(name: str) -> None:
    """Its dot products take several windows along x."""
    g = scheduled(CASES[name].append, NARROW)
    op = partial(g)
    assert (op.kind, {g.value(v).dtype for v in op.ins}) == ("_TransposedPartialWeights", {DType.bf16})


@pytest.mark.parametrize("name", CASES)
def test_blocks_divide_the_windows_and_parts_are_few(name: str) -> None:
    p = CASES[name].problem
    sizes = weights_in_parts.blocks(p)
    assert all(n % size == 0 for n, size in zip(p.dst[:-1], sizes, strict=True))
    parts = prod(weights_in_parts.counts(p, sizes))
    read = prod(p.dst[:-1]) * (p.dst[-1] + p.src[-1] * prod(p.windows.strides))
    assert parts * prod(p.wei) * weights_in_parts.READ_PER_SUM <= read


def test_a_block_fits_a_cache_where_windows_are_many() -> None:
    p = replace(CASES["few channels"].problem, dst=(1, 114 * 130, 130, 32))
    sizes = weights_in_parts.blocks(p)
    assert weights_in_parts.BLOCK // 16 < prod(sizes) * (32 + 3) <= weights_in_parts.BLOCK


@pytest.mark.parametrize("dst", [(1, 14, 14, 128), (1, 1, 1, 4), (2, 127, 131, 8)], ids=["little", "one window", "primes, large weights"])
def test_windows_are_not_split_where_parts_cost_more(dst: Shape) -> None:
    p = replace(CASES["plain"].problem, dst=dst, wei=(3, 3, 2048, dst[-1]))
    assert weights_in_parts.blocks(p) == dst[:-1]


def rows_of_calls(case: Case) -> int:
    """Of the calls along all rows of a product, which are one or two, one row apart or alike."""
    calls = [s.m for s in walk(with_padding_multiplied(case.graph()).body) if isinstance(s, Brgemm)]
    return calls[0] if len(set(calls)) == 1 else sum(sorted(set(calls)))


@pytest.mark.parametrize("name", MERGED)
def test_few_channels_and_taps_are_rows_together(name: str) -> None:
    """By the reference: a src with that layout has the same gradient, element for element."""
    case = CASES[name]
    p = case.problem
    none = (0,) * len(p.kernel)
    padded = tuple(n + b + e for n, b, e in zip(p.src[1:-1], p.windows.pads_begin, p.windows.pads_end, strict=True))
    p = replace(p, src=(p.src[0], *padded, p.src[-1]), windows=replace(p.windows, pads_begin=none, pads_end=none))
    q = weights_in_parts.joined(p)
    assert q.windows.count(q.src[1:-1]) == p.dst[1:-1]
    rng = np.random.default_rng(1)
    src, dst = rng.standard_normal(p.src), rng.standard_normal(p.dst)
    reach, step = p.windows.reach[-1], p.windows.dilations[-1]
    seen = sliding_window_view(src, reach, axis=-2)[..., :: p.windows.strides[-1], :, ::step]
    assert np.allclose(by_weights(q, np.swapaxes(seen, -1, -2).reshape(q.src), dst).reshape(p.wei), by_weights(p, src, dst))
    assert rows_of_calls(case) == p.kernel[-1] * p.group_in


@pytest.mark.parametrize("name", ["plain", "groups of one channel"])
def test_many_channels_and_groups_have_rows_of_their_own(name: str) -> None:
    case = CASES[name]
    assert case.problem.group_in % rows_of_calls(case) == 0


@pytest.mark.parametrize("name", ["plain", "few channels"])
def test_blocks_do_not_depend_on_the_machine(name: str) -> None:
    """So the order of additions, and every bit, is the same for all numbers of threads."""
    one, many = (partial(scheduled(CASES[name].append, replace(TARGET, cores=cores))) for cores in (1, 16))
    assert one.attrs == many.attrs


def test_bits_do_not_depend_on_threads() -> None:
    p = partition_of(CASES["few channels"].graph())
    rng = np.random.default_rng(1)
    ins = [rng.standard_normal(t.known_shape).astype(np.float32) for t in p.inputs]
    found = []
    for cores in (1, 2, 3):
        out = np.zeros(p.outputs[0].known_shape, np.float32)
        compile_partition(p, replace(current(), cores=cores)).bind(ins, [out])()
        found.append(out.tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("fault", ["windows of another block", "taps elsewhere"])
def test_fault_is_detected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = weights_in_parts.contraction

    def first_block(p: Problem, sizes: Shape, at: Indices, over: Indices, *, is_transposed: bool) -> tuple[Indices, Indices]:
        return index(p, sizes, (at[0], Const(0), *at[2:]), over, is_transposed=is_transposed)

    if fault == "windows of another block":
        monkeypatch.setattr(weights_in_parts, "contraction", first_block)
        assert not matches_reference(Case((2, 42, 61, 24), (3, 3), 40).graph())  # shapes of their own, as compiled code is kept
    else:
        monkeypatch.setattr(weights_in_parts, "positions", lambda p, o, t: positions(_nearer(p), o, t))
        assert not matches_reference(Case((2, 42, 59, 24), (3, 3), 40, strides=(2, 1)).graph())


def _nearer(p: Problem) -> Problem:
    return replace(p, windows=replace(p.windows, strides=(1, 1)))
