"""User strides: results are right for any strides, and padding bytes keep their values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill

GUARD, PATTERN = 64, 0xA5


def matmul(b: GraphBuilder, m: int, k: int, n: int) -> None:
    b.op("Add", b.op("ReLU", b.op("MatMul", b.input((m, k)), b.input((k, n)))), b.input((m, n)))


def packed_matmul(b: GraphBuilder, m: int, k: int, n: int) -> None:
    x = b.op("ReLU", b.op("MatMul", b.input((m, k)), b.constant((k, n)), b.constant((n,))))
    b.op("MatMul", x, b.constant((n, k)))


def batched(b: GraphBuilder, m: int, k: int, n: int) -> None:
    b.op("SoftMax", b.op("MatMul", b.input((2, 3, m, k)), b.input((2, 1, n, k)), transpose_b=True), axis=-1)


def softmax(b: GraphBuilder, m: int, k: int, n: int) -> None:
    b.op("SoftMax", b.input((m, k, n)), axis=1)


def elementwise(b: GraphBuilder, m: int, k: int, n: int) -> None:
    b.op("Tanh", b.op("Multiply", b.op("Subtract", b.input((m, k, n)), b.input((k, 1))), b.input((m, k, n))))


def reduction(b: GraphBuilder, m: int, k: int, n: int) -> None:
    b.op("ReduceMean", b.input((m, k, n)), axes=[0, 2], keep_dims=True)


def norm(b: GraphBuilder, m: int, k: int, n: int) -> None:
    """Rows of 33: a few elements may be so much alike that only rounding errors are left to be scaled up."""
    b.outs("LayerNorm", b.input((m, k, 33)), b.input((33,)), b.input((33,)), dtypes=(None, None, None))


def movement(b: GraphBuilder, m: int, k: int, n: int) -> None:
    b.op("StaticTranspose", b.op("StaticReshape", b.input((m, k * n)), shape=[m, k, n], special_zero=False), order=[1, 2, 0])


def narrow(b: GraphBuilder, m: int, k: int, n: int) -> None:
    b.op("Add", b.input((m, k, n), DType.bf16), b.input((m, k, n), DType.bf16))


BUILDERS = (matmul, packed_matmul, batched, softmax, elementwise, reduction, norm, movement, narrow)


@st.composite
def strides(draw: st.DrawFn, shape: Shape, *, may_repeat: bool) -> Shape:
    """The dims in any order with padding between them; memory may repeat along some (stride 0)."""
    found, step = [0] * len(shape), draw(st.sampled_from([1, 1, 1, 2]))
    for axis in draw(st.permutations(range(len(shape)))):
        if may_repeat and draw(st.integers(0, 9)) == 0:
            continue
        found[axis] = step
        step = step * shape[axis] + draw(st.sampled_from([0, 0, 1, 5]))
    return tuple(found)


@st.composite
def cases(draw: st.DrawFn) -> Graph:
    b = GraphBuilder()
    build = draw(st.sampled_from(BUILDERS))
    build(b, *(draw(st.sampled_from([1, 3, 5, 8, 17, 33])) for _ in range(3)))
    g = b.graph()
    well_conditioned = build is not norm  # rows of equal elements have no variance
    border = dict.fromkeys(g.inputs, well_conditioned) | dict.fromkeys(g.outputs, False)
    return g.with_tensors(
        {t.id: replace(t, strides=draw(strides(t.known_shape, may_repeat=may_repeat))) for t, may_repeat in border.items()}
    )


def over(memory: NDArray[np.generic], t: LogicalTensor, offset: int = GUARD) -> NDArray[np.generic]:
    """The tensor `offset` bytes into memory."""
    size = t.dtype.numpy.itemsize
    return np.ndarray(t.known_shape, t.dtype.numpy, memory, offset, [s * size for s in t.known_strides])


class Guarded:
    """Memory for a tensor with guard bytes around it, all of one pattern."""

    def __init__(self, t: LogicalTensor) -> None:
        size = t.dtype.numpy.itemsize  # divides the guard
        self.memory = np.full(GUARD + t.storage_elements * size + GUARD, PATTERN, np.uint8)
        self.array = over(self.memory, t)
        owned = np.zeros(self.memory.size // size, np.bool_)
        over(owned, replace(t, dtype=DType.boolean), GUARD // size)[...] = True
        self.others = ~np.repeat(owned, size)

    def is_intact(self) -> bool:
        return bool((self.memory[self.others] == PATTERN).all())


def run(p: Partition, values: dict[int, NDArray[np.generic]]) -> dict[int, NDArray[np.generic]]:
    """The outputs of a partition, with the check that nothing beside them was written."""
    ins, outs = [Guarded(t) for t in p.inputs], [Guarded(t) for t in p.outputs]
    for guarded, t in zip(ins, p.inputs, strict=True):
        guarded.array[...] = values[t.id]
    before = [guarded.memory.copy() for guarded in ins]
    compile_partition(p).bind([g.array for g in ins], [g.array for g in outs])()
    for guarded, t in zip(outs, p.outputs, strict=True):
        assert guarded.is_intact(), f"bytes beside output {t.id} were written"
    for guarded, memory, t in zip(ins, before, p.inputs, strict=True):
        assert np.array_equal(guarded.memory, memory), f"input {t.id} was written"
    return {t.id: guarded.array for guarded, t in zip(outs, p.outputs, strict=True)}


def as_stored(value: NDArray[np.generic], t: LogicalTensor) -> NDArray[np.generic]:
    """What memory with these strides gives back: along a stride of 0 every element is the last one written."""
    guarded = Guarded(t)
    guarded.array[...] = value
    return guarded.array.copy()


@settings(max_examples=40, derandomize=True)
@given(cases())
def test_any_strides_give_the_right_results_and_leave_gaps_alone(graph: Graph) -> None:
    values = fill(graph, seed=2)
    values = {t.id: as_stored(values[t.id], t) for t in graph.inputs}
    want = evaluate(graph, values)
    (p,) = partitions(graph, Policy.fused)
    got = run(p, values)
    for t in graph.outputs:
        result = compare(got[t.id], want[t.id], t.dtype, tolerance(graph))
        assert result.ok, (t, result)


def test_a_stray_write_is_noticed() -> None:
    """Fault injection: the output said to be a little shorter than it is."""
    b = GraphBuilder()
    b.op("ReLU", b.input((4, 9)))
    guarded = Guarded(replace(b.graph().outputs[0], shape=(4, 8), strides=(9, 1)))
    guarded.array[...] = 0
    assert guarded.is_intact()
    over(guarded.memory, replace(b.graph().outputs[0], shape=(4, 9), strides=(9, 1)))[...] = 0
    assert not guarded.is_intact()


def graph_with(strides_of_output: Shape, strides_of_input: Shape = (8, 1)) -> Partition:
    b = GraphBuilder()
    b.op("ReLU", b.input((4, 8)))
    g = b.graph()
    (src,), (dst,) = g.inputs, g.outputs
    (p,) = partitions(
        g.with_tensors({src.id: replace(src, strides=strides_of_input), dst.id: replace(dst, strides=strides_of_output)}), Policy.fused
    )
    return p


@pytest.mark.parametrize("bad", [(0, 1), (8, 0), (7, 1), (1, 3), (1, 1)])
def test_outputs_whose_elements_overlap_are_refused(bad: Shape) -> None:
    with pytest.raises(InvalidArguments, match=r"elements of output 1 overlap: shape \(4, 8\) with strides .*; let the dim of"):
        compile_partition(graph_with(bad))


@pytest.mark.parametrize(("outputs", "inputs", "id"), [((-8, 1), (8, 1), 1), ((8, 1), (8, -1), 0)])
def test_strides_run_forwards(outputs: Shape, inputs: Shape, id: int) -> None:
    with pytest.raises(InvalidArguments, match=rf"strides .* of tensor {id} run backwards; use strides of 0 or more"):
        compile_partition(graph_with(outputs, inputs))


def test_outputs_with_gaps_or_columns_first_are_fine() -> None:
    for good in ((8, 1), (1, 4), (1, 5), (100, 2)):
        assert run(graph_with(good), {0: np.full((4, 8), 3, np.float32)})[1].min() == 3


def test_an_output_without_elements_may_have_any_strides() -> None:
    b = GraphBuilder()
    b.op("ReLU", b.input((0, 8)))
    g = b.graph()
    (p,) = partitions(g.with_tensors({1: replace(g.outputs[0], strides=(0, 0))}), Policy.fused)
    compile_partition(p)
