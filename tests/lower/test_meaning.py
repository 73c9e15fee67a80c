"""Lowered functions compute what the graph does: the Tensor IR interpreter against the float64 reference, after every pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import load_inputs
from benchgraph.lower import Lowered
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.interpret import interpret
from benchgraph.tir.ir import Func, Module, Tensor
from benchgraph.tir.verify import verify
from benchgraph.tir.visit import tensors as used_tensors
from tests.support.lowering_graphs import GRAPHS
from tests.support.targets import TARGET
from tests.support.tensor_ir import lowered


def execute(low: Lowered, module: Module, ins: list[np.ndarray], outs: list[np.ndarray]) -> None:
    ins, outs = ([_as_lowered(a, t) for a, t in zip(*pair, strict=True)] for pair in ((ins, low.inputs), (outs, low.outputs)))
    constants = [np.zeros(t.shape, t.dtype.numpy) if d is None else d.copy() for t, d in zip(low.constants, low.literals, strict=True)]
    if module.init is not None:
        interpret(module.init, [*(ins[i] for i in low.init_inputs), *constants])
    interpret(module.main, [*ins, *outs, *constants])


def _as_lowered(array: np.ndarray, t: Tensor) -> np.ndarray:
    """With the shape that fold-batch gave the tensor: the same memory."""
    return array.reshape(t.shape) if array.ndim == len(t.shape) and not t.dtype.is_packed else array


Lowerings = list[tuple[Partition, Lowered]]


def lowerings(graph: Graph, policy: Policy) -> Lowerings:
    return [(p, lowered(p)) for p in partitions(graph, policy) if p.is_supported]


Arrays = dict[int, np.ndarray]


def given_and_wanted(graph: Graph) -> tuple[Arrays, Arrays]:
    """The graph's inputs, and its outputs by the reference."""
    filled = fill(graph, seed=1)
    return load_inputs(graph, dict(filled)), evaluate(graph, filled)


def assert_right(graph: Graph, lowerings: Lowerings, modules: Sequence[Module], given: Arrays, want: Arrays) -> None:
    """Every partition's module, with data flowing from one to the next."""
    tensors = dict(given)
    for (p, low), module in zip(lowerings, modules, strict=True):
        outs = [np.zeros(t.known_shape, t.dtype.numpy) for t in p.outputs]
        execute(low, module, [tensors[t.id] for t in p.inputs], outs)
        tensors |= {t.id: out for t, out in zip(p.outputs, outs, strict=True)}
    for t in graph.outputs:
        assert compare(tensors[t.id], want[t.id], t.dtype, tolerance(graph)).ok


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("policy", [Policy.one_op_each, Policy.post_ops])  # fused: by the test of every pass
def test_lowering_preserves_semantics(name: str, policy: Policy) -> None:
    graph = GRAPHS[name]()
    found = lowerings(graph, policy)
    assert_right(graph, found, [Module(*low.functions()) for _, low in found], *given_and_wanted(graph))


@pytest.mark.parametrize("name", GRAPHS)
def test_every_tensor_ir_pass_preserves_semantics(name: str) -> None:
    """Functions that a pass does not change are not run again."""
    graph = GRAPHS[name]()
    found = lowerings(graph, Policy.fused)
    given, want = given_and_wanted(graph)
    modules = [Module(*low.functions()) for _, low in found]
    for each in tir_passes.PIPELINE:
        after = [
            Module(*(verified(each.fn(f, TARGET), f, is_first=each is tir_passes.PIPELINE[0]) for f in (m.main, m.init) if f is not None))
            for m in modules
        ]
        if after != modules:
            assert_right(graph, found, after, given, want)
        modules = after


def verified(after: Func, before: Func, is_first: bool) -> Func:
    """A function after a pass, well formed: by a check if the pass has changed it, or is the first, before which it need not be."""
    if is_first or after is not before:
        verify(after)
    return after


def test_constant_four_bit_weights_are_dequantised_by_init_only() -> None:
    main, init = (
        {t.dtype for t in used_tensors(tir_passes.run(f, TARGET).body)}
        for f in lowered(GRAPHS["constant_weights_of_four_bits"]()).functions()
    )
    assert {DType.s4, DType.u4} <= init
    assert main == {DType.f32}


def test_init_is_lowered_on_demand() -> None:
    """Compiling main does not wait for it."""
    asked = list[str]()
    low = lowered(GRAPHS["constant_weights_of_four_bits"]())
    assert low.lower_init is not None
    made = low.lower_init()
    functions = replace(low, lower_init=lambda: asked.append("init") or made).functions()
    assert (next(functions), asked) == (low.main, [])
    assert (next(functions), asked) == (made, ["init"])


@pytest.mark.parametrize("name", ["weights_of_four_bits", "compressed_keys_and_values"])
def test_variable_four_bit_operands_are_dequantised_at_every_execution(name: str) -> None:
    low = lowered(GRAPHS[name]())
    assert low.lower_init is None
    assert DType.s4 in {t.dtype for t in used_tensors(low.main.body)}
