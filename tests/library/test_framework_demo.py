"""A framework in small hands parts of its graph to the library, the way MXNet, PyTorch and the like do.

Its graph is a list of nodes that it can run itself with numpy. A pass offers every node it has a counterpart for, and the others as
Wildcard, asks for partitions, and puts one custom node in the place of each supported one. The custom node compiles when it first meets a
set of shapes, keeps that, and executes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph import CompiledPartition, DType, Engine, Graph, LogicalTensor, Op, Partition, PropertyType, Stream, Tensor

Array = NDArray[np.float32]
RUN: dict[str, Callable[..., Array]] = {
    "dense": lambda x, w: x @ w,
    "relu": lambda x: np.maximum(x, 0),
    "add": np.add,
    "softmax": lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
    "sort": lambda x: np.sort(x, axis=-1),
}
COUNTERPART: dict[str, tuple[str, dict[str, object]]] = {
    "dense": ("MatMul", {}),
    "relu": ("ReLU", {}),
    "add": ("Add", {}),
    "softmax": ("SoftMax", {"axis": -1}),
}


@dataclass(frozen=True)
class Node:
    """What the framework runs: an op of its own, or the stand-in for a partition."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    run: Callable[..., tuple[Array, ...]]


@dataclass
class Custom:
    """A partition as one op of the framework. names: its ports' ids as the framework names them."""

    partition: Partition
    engine: Engine
    kernels: dict[tuple[tuple[int, ...], ...], CompiledPartition] = field(default_factory=dict)

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        shapes = tuple(a.shape for a in arrays)
        ports = list({t.id: t for t in self.partition.input_ports}.values())
        if shapes not in self.kernels:
            given = [t.with_shape(shape) for t, shape in zip(ports, shapes, strict=True)]
            self.kernels[shapes] = self.partition.compile(given, self.partition.output_ports, self.engine)
        kernel = self.kernels[shapes]
        ins = [Tensor(kernel.query_logical_tensor(t.id), self.engine, a) for t, a in zip(ports, arrays, strict=True)]
        outs = [Tensor(kernel.query_logical_tensor(t.id), self.engine) for t in self.partition.output_ports]
        kernel.execute(Stream(self.engine), ins, outs)
        return tuple(t.array for t in outs)


def own(op: str, inputs: str, output: str) -> Node:
    return Node(op, tuple(inputs.split()), (output,), lambda *arrays: (RUN[op](*arrays),))


def run(nodes: list[Node], data: dict[str, Array]) -> dict[str, Array]:
    live = dict(data)
    for node in nodes:
        live |= dict(zip(node.outputs, node.run(*(live[name] for name in node.inputs)), strict=True))
    return live


def offload(nodes: list[Node], constants: set[str], engine: Engine) -> list[Node]:
    """The pass: nodes in, nodes out, with partitions in the place of the ops they cover."""
    names = list(dict.fromkeys(name for node in nodes for name in (*node.inputs, *node.outputs)))

    def tensor(name: str) -> LogicalTensor:
        kind = PropertyType.constant if name in constants else PropertyType.variable
        return LogicalTensor(names.index(name), DType.f32, property_type=kind)

    g = Graph()
    for id, node in enumerate(nodes):
        kind, attrs = COUNTERPART.get(node.op, ("Wildcard", {}))
        g.add_op(Op(id, kind, node.op, inputs=map(tensor, node.inputs), outputs=map(tensor, node.outputs), **attrs))
    g.finalize()
    rewritten = []
    for partition in g.get_partitions():
        if not partition.is_supported:
            rewritten += [nodes[id] for id in partition.ops]
            continue
        ins = tuple(dict.fromkeys(names[t.id] for t in partition.input_ports))
        outs = tuple(names[t.id] for t in partition.output_ports)
        rewritten.append(Node(f"onednn_{partition.id}", ins, outs, Custom(partition, engine)))
    return rewritten


MODEL = [
    own("dense", "x w0", "a"),
    own("relu", "a", "b"),
    own("sort", "b", "c"),
    own("dense", "c w1", "d"),
    own("add", "d b1", "e"),
    own("softmax", "e", "y"),
]


def data(rows: int) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes = {"x": (rows, 16), "w0": (16, 24), "w1": (24, 10), "b1": (10,)}
    return {name: rng.random(shape, np.float32) - np.float32(0.5) for name, shape in shapes.items()}


def test_the_rewritten_graph_computes_the_same() -> None:
    """Op replacement, kernels compiled at run time, once per set of shapes."""
    rewritten = offload(MODEL, {"w0", "w1", "b1"}, Engine())
    assert [node.op.partition("_")[0] for node in rewritten] == ["onednn", "sort", "onednn"]
    for rows in (4, 9, 4):
        got, want = run(rewritten, data(rows))["y"], run(MODEL, data(rows))["y"]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    kernels = [node.run.kernels for node in rewritten if isinstance(node.run, Custom)]
    assert [len(k) for k in kernels] == [2, 2]


@pytest.mark.parametrize("unknown", ["dense", "relu", "softmax"])
def test_a_framework_that_knows_fewer_counterparts_gets_the_same_numbers(unknown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library is not told of stays with the framework."""
    monkeypatch.delitem(COUNTERPART, unknown)
    rewritten = offload(MODEL, set(), Engine())
    assert any(node.op == unknown for node in rewritten)
    np.testing.assert_allclose(run(rewritten, data(5))["y"], run(MODEL, data(5))["y"], rtol=1e-4, atol=1e-6)
