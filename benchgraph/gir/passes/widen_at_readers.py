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

from dataclasses import dataclass, field, replace

from benchgraph.gir.build import Builder
from benchgraph.gir.domain import trace
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Op, Stage
from benchgraph.gir.nest_graph import with_borders
from benchgraph.machine.target import Target

NARROWER = 4  # times fewer bits than the floats: of others it has not been measured
MOST_OPS = 3  # a cast, a zero point and a scale; more would take longer than a load


def widen_at_readers(g: Graph, target: Target) -> Graph:
    nests = [_Ops.of(node) for node in g.nodes if isinstance(node, FusedOp)]
    place = {node: n for n, node in enumerate(g.nodes)}
    for maker, node in zip(nests, [*g.nodes], strict=True):
        for v in node.outs if isinstance(node, FusedOp) else ():
            readers = [nests[place[reader]] for reader in g.consumers[v]]
            widening = _widening(g, maker.ops, v)
            if widening and readers and all(_can_widen(g, reader.ops, v, widening) for reader in readers):
                _move(g, maker, readers, v, widening)
    if all(nest.is_unchanged for nest in nests):
        return g
    d = Builder(g.values)
    fused = [nest.node if nest.is_unchanged else _fused(nest, d) for nest in nests]
    g = replace(g, values=tuple(d.values.values()), nodes=tuple(fused))
    return replace(g, nodes=tuple(with_borders(g, fused)))


@dataclass
class _Ops:
    """The ops of a nest. copied: values of other nests that it computes for itself under new numbers. given: results that no other nest
    reads any more."""

    node: FusedOp
    ops: list[Op]
    copied: set[int] = field(default_factory=set)
    given: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, node: FusedOp) -> _Ops:
        return cls(node, [*node.ops])

    @property
    def is_unchanged(self) -> bool:
        return tuple(self.ops) == self.node.ops


def _widening(g: Graph, ops: list[Op], v: int) -> tuple[Op, ...]:
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
        if src.dtype.bits * NARROWER <= out.dtype.bits:
            is_stored = op.semantics.is_conversion and at in made and src.view is None
            return tuple(chain) if is_stored else ()
    return ()


def _can_widen(g: Graph, ops: list[Op], v: int, widening: tuple[Op, ...]) -> bool:
    """Whether a nest reads each element of a value once, along its own axes."""
    readers = [op for op in ops if v in op.ins]
    if not readers or not all(op.lowering.is_elementwise and g.value(op.outs[0]).shape == g.value(v).shape for op in readers):
        return False
    return trace(g, _with(ops, v, widening)) is not None


def _with(ops: list[Op], v: int, widening: tuple[Op, ...]) -> list[Op]:
    """The ops with a widening before the first one that reads its result."""
    first = next(n for n, op in enumerate(ops) if v in op.ins)
    return [*ops[:first], *(op for op in widening if op not in ops), *ops[first:]]


def _move(g: Graph, maker: _Ops, readers: list[_Ops], v: int, widening: tuple[Op, ...]) -> None:
    """The widening in all readers instead of the maker, which keeps what it needs itself. One nest keeps the numbers of the values."""
    maker.given.add(v)
    for op in reversed(widening):
        (out,) = op.outs
        if not any(out in other.ins for other in maker.ops) and (out in maker.given or out not in maker.node.outs):
            maker.ops.remove(op)
    owners = [maker, *readers]
    for n, reader in enumerate(readers):
        reader.ops = _with(reader.ops, v, widening)
        reader.copied |= {out for op in widening for out in op.outs if any(op in earlier.ops for earlier in owners[: n + 1])}


def _fused(nest: _Ops, d: Builder) -> FusedOp:
    """The nest of its ops."""
    new = {v: d.new_value(d.type(v).dtype, d.type(v).shape) for v in sorted(nest.copied)}
    d.values.update({copy: replace(d.values[v], id=copy) for v, copy in new.items()})
    ops = tuple(replace(op, ins=tuple(new.get(v, v) for v in op.ins), outs=tuple(new.get(v, v) for v in op.outs)) for op in nest.ops)
    return replace(nest.node, stages=(Stage(ops, (Anchor.rows,) * len(ops)),))
