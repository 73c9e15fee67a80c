"""The Graph IR of small graphs before, inside and after the pipeline of passes."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import LAYOUTS, Layout
from benchgraph.core.passes import Pass
from benchgraph.core.tensor import LayoutType
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import FusedOp, Graph, Op, Stage
from benchgraph.gir.passes import PIPELINE
from benchgraph.gir.verify import verify
from benchgraph.machine.target import Target
from benchgraph.ops import spec
from tests.support.partitions import Build, Source, graph_of, partition_of
from tests.support.targets import TARGET


def gir(build: Build, layouts: dict[int, Layout | None] | None = None) -> Graph:
    """The Graph IR before all passes. layouts: of tensors at the border, by id; None where the compiler chooses."""
    layouts = layouts or {}
    graph = graph_of(build)
    opaque = {
        id: replace(graph.tensors[id], layout_type=LayoutType.opaque, layout_id=LAYOUTS.id(layout), strides=None)
        for id, layout in layouts.items()
        if layout is not None
    }
    return from_partition(partition_of(graph.with_tensors(opaque)), [id for id, layout in layouts.items() if layout is None])


def up_to(g: Graph, last: str, target: Target = TARGET) -> Graph:
    """The graph after the passes up to and including `last`, each of which is verified."""
    for p in PIPELINE:
        g = p.fn(g, target)
        verify(g)
        if p.name == last:
            return g
    raise KeyError(last)


def unverified(source: Source, target: Target = TARGET, pipeline: tuple[Pass[Graph], ...] = PIPELINE) -> Graph:
    """The graph after the passes alone: for tests that count what passes do."""
    g = from_partition(partition_of(source))
    for p in pipeline:
        g = p.fn(g, target)
    return g


def given_to(name: str, source: Source, target: Target = TARGET) -> Graph:
    """The graph that the pass of this name is given."""
    return unverified(source, target, PIPELINE[: [p.name for p in PIPELINE].index(name)])


def scheduled(source: Source, target: Target = TARGET) -> Graph:
    """The graph after all passes that the options of its partition leave on, each of which is verified."""
    partition = partition_of(source)
    g = from_partition(partition)
    for p in PIPELINE:
        if not p.switch or p.switch not in partition.options.off:
            g = p.fn(g, target)
            verify(g)
    return g


def nests(g: Graph) -> list[FusedOp]:
    return [n for n in g.nodes if isinstance(n, FusedOp)]


def kernels(g: Graph) -> list[Stage]:
    """The stages that are matrix products."""
    return [s for n in nests(g) for s in n.stages if s.parameters is not None]


def products(g: Graph) -> list[tuple[DType, DType, DType]]:
    """(src, wei, dst) of every product."""
    ops = [op for node in g.nodes for op in (node.ops if isinstance(node, FusedOp) else (node,))]
    return [
        (g.value(op.ins[0]).dtype, g.value(op.ins[1]).dtype, g.value(op.outs[0]).dtype)
        for op in ops
        if isinstance(op, Op) and spec(op.kind).lowering.is_contraction
    ]


def renumbered(g: Graph) -> Graph:
    """A graph before fusion and without views, its values numbered as its inputs and ops mention them; the others are left out."""
    order = dict.fromkeys((*g.ins, *(v for op in g.ops for v in (*op.ins, *op.outs)), *g.outs))
    number = {id: n for n, id in enumerate(order)}
    ops = (replace(op, ins=tuple(number[v] for v in op.ins), outs=tuple(number[v] for v in op.outs)) for op in g.ops)
    ins, outs = (tuple(number[v] for v in border) for border in (g.ins, g.outs))
    return replace(g, values=tuple(replace(g.value(id), id=n) for id, n in number.items()), nodes=tuple(ops), ins=ins, outs=outs)
