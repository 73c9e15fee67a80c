"""Small graphs and their arrays, for tests of the executor."""

from __future__ import annotations

from numpy.typing import NDArray as Array

from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.prepack import panels
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.library.engine import Engine
from benchgraph.reference import compare, evaluate, fill, tolerance


def mlp(rows: int = 4, width: int = 128) -> Graph:
    """Two products with post-ops: tensor 0 the input, 1 and 2 weights, 3 a bias; 8 the output."""
    b = GraphBuilder()
    x, w0, w1, bias = b.input((rows, 96)), b.constant((96, width)), b.constant((width, 64)), b.constant((64,))
    y = b.op("MatMul", b.op("ReLU", b.op("MatMul", x, w0)), w1)
    b.op("Sigmoid", b.op("Add", y, bias))
    return b.graph()


def arrays(g: Graph, seed: int = 1) -> tuple[dict[int, Array], dict[int, NDArray], dict[int, NDArray]]:
    """(values, inputs, parameters) of a graph."""
    values = fill(g, seed)
    made = {t.id: NDArray.of(values[t.id], t.dtype, f"tensor {t.id}") for t in g.inputs}
    constant = {t.id for t in g.inputs if t.is_constant}
    return values, {i: a for i, a in made.items() if i not in constant}, {i: a for i, a in made.items() if i in constant}


def panelled(params: dict[int, NDArray]) -> int:
    """How many of the parameters this machine's products want in panels: the narrower its vectors, the more. At least one of mlp's."""
    found = sum(panels(a.dtype, a.shape, Engine()) is not None for a in params.values())
    assert found
    return found


def right(g: Graph, outs: dict[int, NDArray], values: dict[int, Array]) -> None:
    """Fail where an output is not what the reference computes of the graph's inputs."""
    want, rtol = evaluate(g, values), tolerance(g)
    for t in g.outputs:
        c = compare(outs[t.id].numpy(), want[t.id], t.dtype, rtol)
        assert c.ok, f"tensor {t.id}: {c.points[0]}"
