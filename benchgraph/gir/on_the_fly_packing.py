"""On-the-fly packing: weights that a product converts or packs block by block, each right before the microkernel reads it.

A nest that makes wei of a product from something else (a conversion, a dequantisation, a packing) can become a stage at the product's panel
anchor: it then makes a block [ks, ns] of wei at a time, in a temporary of that size. `cuts` are how its iteration space is cut by the
product's loops over k and over panels:

    wei: f32[K,N] = Multiply(%1: f32[G,32,N], scales: f32[G,1,N])      cuts = (axis 0 by 32, axis 2): a block of 64 rows is two groups
    zero points: f32[G,1,N] = TypeCast(%2: u4[G,1,N])                  cuts = (axis 0 by 32, axis 2) too: those of a block's groups
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from benchgraph.gir.batch_invariants import read_index
from benchgraph.gir.domain import Domain, domain_of, trace
from benchgraph.gir.ir import Cut, FusedOp, Graph, Op, Stage
from benchgraph.gir.product import K, N
from benchgraph.gir.views import Index, nest_index, root_index
from benchgraph.ops.spec import LayoutOp
from benchgraph.ops.unit_steps import step
from benchgraph.tir.ir import Var

Cuts: TypeAlias = tuple[Cut | None, Cut | None]


@dataclass(frozen=True)
class Reader:
    """An operand of an op of a stage."""

    stage: Stage
    op: Op
    port: int


def product_after(node: FusedOp, stage: Stage) -> Stage:
    """The product whose blocks a stage at the panel anchor makes."""
    return next(s for s in node.stages[node.stages.index(stage) :] if s.is_product)


def packing_stages(node: FusedOp, kernel: Stage) -> tuple[Stage, ...]:
    """The stages that make blocks for a product, in order."""
    return tuple(s for s in node.stages if s.is_packing and product_after(node, s) is kernel)


def cuts_of(g: Graph, maker: Stage, readers: Iterable[Reader]) -> Cuts | None:
    """The cuts of a stage that makes blocks for these readers: a product, or stages at its panel anchor. None: it cannot make blocks."""
    domain = trace(g, maker.ops)
    if domain is None or not domain.has_whole_rows or domain.scattered or domain.reduced:
        return None
    by_reader = [_cuts_for(g, maker, domain, reader) for reader in readers]
    known = [c for c in by_reader if c is not None]
    if not known or len(known) < len(by_reader):
        return None
    k, n = (column.pop() if len(column := {c[loop] for c in known}) == 1 else None for loop in (0, 1))
    return k, n


def _cuts_for(g: Graph, maker: Stage, domain: Domain, reader: Reader) -> Cuts | None:
    read = _read_index(g, reader)
    if read is None:
        return None
    loops = _loops(reader)
    v = reader.op.ins[reader.port]
    at = root_index(g, v, read)
    names, cuts = _names(domain), list[Cut | None]((None, None))
    for w in (w for op in maker.ops for w in op.outs if g.root(w) == g.root(v)):
        written = root_index(g, w, nest_index(domain.axes[w], names))
        for dim, e in enumerate(at):
            moving = [var for var in loops if step(e, var) != 0]
            if not moving:
                continue
            loop, unit = loops[moving[0]]
            if e != moving[0] or cuts[loop] is not None:
                return None
            axis = _outermost(domain, names, written, dim)
            if axis is None:
                return None
            cuts[loop] = Cut(axis.axis, axis.unit * unit)
    return cuts[0], cuts[1]


def _read_index(g: Graph, reader: Reader) -> Index | None:
    """The index at which the operand is read, in the reader's axes."""
    domain, op = domain_of(g, reader.stage.ops), reader.op
    form = op.lowering.form
    if not isinstance(form, LayoutOp):
        return read_index(g, reader.stage, domain, op, reader.port, 0)
    at = nest_index(domain.axes[op.outs[0]], _names(domain))
    return form.source(op.attrs, g.value(op.ins[reader.port]).shape, g.value(op.outs[0]).shape, at)


def _names(domain: Domain) -> tuple[Var, ...]:
    """Of its axes."""
    return tuple(Var(f"$x{i}") for i in range(len(domain.extents)))


def _loops(reader: Reader) -> dict[Var, tuple[int, int]]:
    """The reader's axes that run along k (0) and along the panels (1), and how many indices of k or of the columns one of theirs is."""
    if reader.op.lowering.is_contraction:
        return {K: (0, 1), N: (1, 1)}
    return {Var(f"$x{cut.axis}"): (loop, cut.unit) for loop, cut in enumerate(reader.stage.cuts) if cut is not None}


def _outermost(domain: Domain, names: tuple[Var, ...], written: Index, dim: int) -> Cut | None:
    """Of the axes that together run densely through a dim, and through no other dim, the one with the largest step."""
    cuts: list[Cut] = []
    for axis, name in enumerate(names):
        steps = [step(e, name) for e in written]
        by = steps[dim]
        if by == 0 or domain.extents[axis] == 1:
            continue
        if by is None or sum(s != 0 for s in steps) != 1:
            return None
        cuts.append(Cut(axis, by))
    cuts.sort(key=lambda c: c.unit)
    size = 1
    for cut in cuts:
        if cut.unit != size:
            return None
        size *= domain.extents[cut.axis]
    return cuts[-1] if cuts else None
