"""Nests without a tunable op: pointwise chains, softmax, reductions, data movement.

Kept axes are the parallel tasks. A purely pointwise nest over dense tensors is one long axis, cut into chunks:

    parallel for c in ceil(n / CHUNK): for i in min(CHUNK, n - c * CHUNK): dst[..] = f(src[..])
"""

from __future__ import annotations

from math import prod

from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.domain import Domain, trace
from benchgraph.gir.ir import Fused, Graph
from benchgraph.lower.access import Coord, Storage
from benchgraph.lower.region import Region, Span
from benchgraph.ops import affine, spec
from benchgraph.ops.spec import Elementwise
from benchgraph.tir.build import add, floordiv, minimum, mod, mul, seq, sub
from benchgraph.tir.ir import Const, For, LoopKind, Stmt, Var

CHUNK = 4096  # elements of one task of a pointwise nest: 16 KiB of f32, half of a common L1
SMALL = 16384  # elements below which a nest is not worth waking other threads


def lower_loops(storage: Storage, node: Fused) -> Stmt:
    (stage,) = node.stages
    domain = trace(storage.g, stage.ops)
    assert domain is not None
    return _LoopNest(storage, node, domain).lower()


class _LoopNest:
    def __init__(self, storage: Storage, node: Fused, domain: Domain) -> None:
        self.storage, self.node, self.domain, self.g = storage, node, domain, storage.g
        self.kind = LoopKind.parallel if prod(domain.extents) > SMALL else LoopKind.serial

    def lower(self) -> Stmt:
        extents = self.domain.extents
        if not extents:
            return Region(self.storage, self.domain, ()).emit(self.node.ops)
        merged = _mergeable(self.g, self.node, self.domain)
        if merged > 1:
            return self._flat(merged)
        block = next((b.layout.blocks[0][1] for op in self.node.ops for v in op.outs if (b := self.g.value(v)).layout.blocks), 0)
        if block and not self.domain.reduced:
            return self._by_blocks(block)
        local = self.domain.reduced | {len(extents) - 1}
        return self._nest(tuple(a for a in range(len(extents)) if a not in local), {})

    def _nest(self, outer: tuple[int, ...], given: dict[int, Span]) -> Stmt:
        """Parallel loops over the outer axes, a region over the others; given: spans already decided."""
        loops = {a: self.storage.var("t") for a in outer}
        spans = []
        for axis, extent in enumerate(self.domain.extents):
            if axis in given:
                spans.append(given[axis])
            elif axis in loops:
                spans.append(Span(Const(1), outer=loops[axis]))
            else:
                spans.append(Span(Const(extent), tile=max(extent, 1)))
        return self._over(loops, Region(self.storage, self.domain, tuple(spans)).emit(self.node.ops))

    def _over(self, loops: dict[int, Var], body: Stmt) -> Stmt:
        for axis in sorted(loops, reverse=True):
            body = For(loops[axis], Const(self.domain.extents[axis]), body, self.kind)
        return body

    def _by_blocks(self, block: int) -> Stmt:
        """The last axis in the blocks of the layout, so that indices inside a block step by one."""
        last = len(self.domain.extents) - 1
        full, tail = divmod(self.domain.extents[last], block)
        no = self.storage.var("no")
        outer = tuple(range(last))
        parts: list[Stmt] = []
        if full:
            parts.append(For(no, Const(full), self._nest(outer, {last: Span(Const(block), no, block)}), self.kind))
        if tail:
            parts.append(self._nest(outer, {last: Span(Const(tail), Const(full), block)}))
        return seq(*parts)

    def _flat(self, merged: int) -> Stmt:
        """The last `merged` axes as one, in chunks; the axes before them as parallel loops."""
        extents = self.domain.extents
        first = len(extents) - merged
        total = prod(extents[first:])
        loops = {a: self.storage.var("t") for a in range(first)}
        chunk, i = self.storage.var("c"), self.storage.var("i")
        whole = min(CHUNK, total)
        flat = add(mul(chunk, whole), i)
        coords, inner = [Coord(loops[a]) for a in range(first)], dense_strides(extents[first:])
        for extent, step in zip(extents[first:], inner, strict=True):
            outermost = step * extent >= total
            coords.append(Coord(floordiv(flat, step) if outermost else mod(floordiv(flat, step), extent)))
        region = Region(self.storage, self.domain, (Span(Const(1)),) * len(extents), tuple(coords))
        count = Const(whole) if total % whole == 0 else minimum(whole, sub(total, mul(chunk, whole)))
        body: Stmt = For(i, count, region.emit(self.node.ops))
        return self._over(loops, For(chunk, Const(-(-total // whole)), body, self.kind))


def _mergeable(g: Graph, node: Fused, domain: Domain) -> int:
    """How many of the last axes every value runs through as if they were one: densely, or not at all. Reductions and views: none."""
    if (
        domain.reduced
        or domain.scattered
        or any(g.value(v).view or g.value(v).layout.blocks for op in node.ops for v in (*op.ins, *op.outs))
    ):
        return 0
    rank = len(domain.extents)
    operands = [(v, op.outs[0]) for op in node.ops for v in (*op.ins, *op.outs)]
    if any(domain.axes[out] != domain.axes[node.ops[0].outs[0]] for _, out in operands) or not _all_elementwise(node):
        return 0
    count = 1
    while count < rank and all(_runs_on(g, v, domain.extents, rank - count - 1) for v, _ in operands) and _places_run_on(g, node, count):
        count += 1
    return count if prod(domain.extents[rank - count :]) else 0


def _all_elementwise(node: Fused) -> bool:
    return all(spec(op.kind).is_elementwise for op in node.ops)


def _places_run_on(g: Graph, node: Fused, count: int) -> bool:
    """Whether what ops take from their own index grows evenly, or not at all, along the last count + 1 axes run through as one."""
    for op in node.ops:
        how, shape = spec(op.kind).lower, g.value(op.outs[0]).shape
        if not isinstance(how, Elementwise) or how.place is None:
            continue
        at = tuple(Var(f"${axis}") for axis in range(len(shape)))
        for e in how.place(op.attrs, shape, at):
            steps = [affine.step(e, axis) for axis in at[-count - 1 :]]
            unit = steps[-1]
            if unit is None or steps != [unit * stride for stride in dense_strides(shape[-count - 1 :])]:
                return False
    return True


def _runs_on(g: Graph, id: int, extents: Shape, axis: int) -> bool:
    """Whether axis continues the axes after it without a gap in this value's buffer, or the value varies along none of them."""
    v = g.value(id)
    rank = len(extents)
    inner = [v.shape[d] for d in range(max(0, len(v.shape) - (rank - axis - 1)), len(v.shape))]
    at = len(v.shape) - (rank - axis)
    here = v.shape[at] if at >= 0 else 1
    if here == 1 and all(e == 1 for e in inner):
        return True
    full = [*extents[axis:]] == [here, *inner]
    strides = v.strides if v.strides is not None else dense_strides(v.shape)
    return full and all(strides[at + k] == dense_strides(extents[axis:])[k] * strides[-1] for k in range(len(extents) - axis))
