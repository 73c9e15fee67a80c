"""widen-at-readers: bytes that a nest has quantised are stored as bytes, and each nest that reads them as floats widens them itself.

%2, %4 = nest0 { %2: u8 = TypeCast ...                      %2 = nest0 { %2: u8 = TypeCast ... }
                 %3: f32 = TypeCast(%2)
                 %4: f32 = Multiply(%3, s) }        ->
%6 = nest1(%2, %4) { MatMul(%2), Add(%5, %4) }              %6 = nest1(%2) { MatMul(%2), %3 = TypeCast(%2)
                                                                             %4 = Multiply(%3, s), Add(%5, %4) }

Residual values of quantised networks are such: products read the bytes, and a later nest adds them. Readers are pointwise ops, which need
each element once, and all readers of the floats must be. docs/measurements/whole-networks.md, 8-bit integers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.gir.build import Builder
from benchgraph.gir.domain import trace
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Op, Stage
from benchgraph.gir.nest_graph import with_borders
from benchgraph.machine.target import Target

MOST_OPS = 3  # a cast, a zero point and a scale; more would take longer than a load


def widen_at_readers(g: Graph, target: Target) -> Graph:
    nests = [node for node in g.nodes if isinstance(node, FusedOp)]
    widenings = {v: ops for nest in nests for v in nest.outs if (ops := _widening_at_readers(g, nest, v))}
    if not widenings:
        return g
    d = Builder(g.values)
    changed = [_changed(nest, widenings, d) for nest in nests]
    before, after = ({v for nest in each for op in nest.ops for v in op.outs} for each in (nests, changed))
    g = replace(g, values=tuple(v for v in d.values.values() if v.id not in before - after), nodes=tuple(changed))
    return replace(g, nodes=tuple(with_borders(g, changed)))


def _widening_at_readers(g: Graph, nest: FusedOp, v: int) -> tuple[Op, ...]:
    """The ops that make a value from bytes, if all nests that read it can have them; else ()."""
    ops = _widening(g, nest.ops, v)
    readers = [node for node in g.consumers[v] if isinstance(node, FusedOp)]
    return ops if readers and all(_can_widen(g, reader.ops, v, ops) for reader in readers) else ()


def _widening(g: Graph, ops: tuple[Op, ...], v: int) -> tuple[Op, ...]:
    """The ops of a nest that make a value from the bytes it has quantised, by numbers that it has not; () for any other value."""
    made, chain, at = {out: op for op in ops for out in op.outs}, list[Op](), v
    is_bound = v in g.outs or v in g.viewed or g.value(v).is_constant
    while not is_bound and at in made and len(chain) < MOST_OPS:
        op = made[at]
        src, out = g.value(op.ins[0]), g.value(at)
        is_private = all(v not in made and g.value(v).constness for v in op.ins[1:])
        is_alike = (src.shape, src.layout) == (out.shape, out.layout) and out.view is None
        if not (op.lowering.is_elementwise and len(op.outs) == 1 and is_alike and is_private):
            return ()
        chain.insert(0, op)
        at = src.id
        if src.dtype.bits <= DType.u8.bits and out.dtype is DType.f32:
            is_stored = op.semantics.is_conversion and at in made and src.view is None
            return tuple(chain) if is_stored else ()
    return ()


def _can_widen(g: Graph, ops: tuple[Op, ...], v: int, widening: tuple[Op, ...]) -> bool:
    """Whether a nest reads each element of a value once, along its own axes."""
    readers = [op for op in ops if v in op.ins]
    if not readers or not all(op.lowering.is_elementwise and g.value(op.outs[0]).shape == g.value(v).shape for op in readers):
        return False
    return trace(g, _with(ops, v, widening)) is not None


def _with(ops: tuple[Op, ...], v: int, widening: tuple[Op, ...]) -> tuple[Op, ...]:
    """The ops with a widening before the first one that reads its result."""
    first = next(n for n, op in enumerate(ops) if v in op.ins)
    return (*ops[:first], *(op for op in widening if op not in ops), *ops[first:])


def _changed(nest: FusedOp, widenings: Mapping[int, tuple[Op, ...]], d: Builder) -> FusedOp:
    """The nest with the widenings of what it reads, and without those of what it gives and does not read itself."""
    ops, own = nest.ops, {op for v in nest.outs for op in widenings.get(v, ())}
    for v in (v for v in nest.ins if v in widenings):
        ops = _with(ops, v, widenings[v])
    kept, used = list[Op](), {v for v in nest.outs if v not in widenings}
    for op in reversed(ops):
        if op not in own or not used.isdisjoint(op.outs):
            kept.insert(0, op)
            used.update(op.ins)
    copied = sorted(v for op in kept if op not in nest.ops for v in op.outs)
    new = {v: d.new_value(d.type(v).dtype, d.type(v).shape) for v in copied}
    d.values.update({copy: replace(d.values[v], id=copy) for v, copy in new.items()})
    kept = [replace(op, ins=tuple(new.get(v, v) for v in op.ins), outs=tuple(new.get(v, v) for v in op.outs)) for op in kept]
    return nest if tuple(kept) == nest.ops else replace(nest, stages=(Stage(tuple(kept), (Anchor.rows,) * len(kept)),))
