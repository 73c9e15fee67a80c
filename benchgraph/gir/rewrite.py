"""Graph algebra as patterns, and the one driver that applies them.

A pattern says at which ops it may apply, by a property of their rows, and builds what takes the place of such an op's result; None where it
does not apply. It removes nothing and changes no other op: what nothing uses any more is dropped after each sweep. So patterns that match
in one sweep cannot harm each other, however much of the graph each of them has looked at.

Each has an example that a test runs through both meanings, in one text: the inputs, the ops before, the ops after, the outputs.

    graph(%0: f32[64,128], %1: f32[64,1]) {
      %2: f32[64,128] = Divide(%0, %1)
      ->
      %3: f32[] = const 1.0    %4: f32[64,1] = Divide(%3, %1)    %2: f32[64,128] = Multiply(%0, %4)
      return %2 }

and near misses: what to replace in the example by what, so that the pattern does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from benchgraph.gir.build import CONVERT, COPY, Builder
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.machine.target import Target
from benchgraph.ops import spec
from benchgraph.ops.spec import Call, OpSpec

FEWER = 8  # times fewer elements than others: computing something of them for the others pays
MOST_SWEEPS = 64  # a bound for patterns that undo each other; the graph is right after each sweep


@dataclass(frozen=True)
class Site:
    """An op at which a pattern may apply. g: the graph before the sweep. d: builds what takes its place; its values are those of g, as far
    as this sweep has not changed them. made: by which op each value is made by now."""

    g: Graph
    op: Op
    d: Builder
    target: Target
    made: dict[int, Op]

    @property
    def call(self) -> Call:
        return Call(self.op.kind, self.op.attrs, tuple(map(self.d.type, self.op.ins)), tuple(map(self.d.type, self.op.outs)))

    def sole_makers(self, port: int = 0) -> Iterator[Op]:
        """From an operand upwards: the ops that make it, along first operands, while nothing but the op after it reads a result."""
        reader, v = self.op, self.op.ins[port]
        while v not in self.g.outs and self.g.readers(v) == (reader,) and reader.ins.count(v) == 1:
            if (maker := self.g.maker(v)) is None:
                return
            yield maker
            reader, v = maker, maker.ins[0]

    def like(self, op: Op, *ins: int, kind: str = "") -> int:
        """An op with the attributes and the result's type of another one. kind: if it is another one."""
        out = self.d.type(op.outs[0])
        return self.d.op(kind or op.kind, *ins, attrs=op.attrs, shape=out.shape, dtype=out.dtype)


Result: TypeAlias = int | tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class Pattern:
    """root: whether an op of this row may be rewritten. build: the values instead of its results, or instead of its only one.

    example, near_misses: see above. error: by how much results of the example may differ, relative to the largest one; 0 where the
    pattern is exact.
    """

    root: Callable[[OpSpec], bool]
    build: Callable[[Site], Result]
    example: str
    near_misses: tuple[tuple[str, str], ...]
    error: float = 0.0


def rewrite(g: Graph, target: Target, *patterns: Pattern) -> Graph:
    """The graph with the patterns applied until none applies, the first ones first; the same object when none does."""
    for _ in range(MOST_SWEEPS):
        after = _swept(g, target, patterns)
        if after is g:
            break
        g = without_dead_ops(after)
    return g


def _swept(g: Graph, target: Target, patterns: tuple[Pattern, ...]) -> Graph:
    """Every op once, in order. Of equal ops that only move or narrow the same operands the first one stays."""
    d, nodes, instead, made, first = Builder(g.values), list[Node](), dict[int, int](), dict[int, Op](), dict[Hashable, Op]()
    for op in g.ops:
        tried = (_applied(pattern, Site(g, op, d, target, made), instead) for pattern in _of_kind(patterns, op.kind))
        for o in next((new for new in tried if new is not None), [op]):
            o = _renamed(o, instead) if instead else o
            same = first.setdefault((o.kind, o.ins, o.attrs, d.type(o.outs[0])), o) if _moves_or_narrows(d, o) else o
            if same is o or not set(g.outs).isdisjoint(o.outs):
                made |= dict.fromkeys(o.outs, o)
                nodes.append(o)
            else:
                instead |= zip(o.outs, same.outs, strict=True)
    return d.graph(g, nodes)


def _moves_or_narrows(d: Builder, op: Op) -> bool:
    """Whether reading a result again takes no longer than making it again."""
    is_narrowed = op.semantics.is_conversion and d.type(op.outs[0]).dtype.bits < d.type(op.ins[0]).dtype.bits
    return op.lowering.is_layout_op or is_narrowed


@cache
def _of_kind(patterns: tuple[Pattern, ...], kind: str) -> tuple[Pattern, ...]:
    return tuple(p for p in patterns if p.root(spec(kind)))


def _applied(pattern: Pattern, site: Site, instead: dict[int, int]) -> list[Op] | None:
    """The ops in place of a site's op; None where the pattern does not apply. instead: whose readers read which other value."""
    g, d, first = site.g, site.d, site.d.next
    results, new = pattern.build(site), site.d.taken()
    if results is None:
        d.forget(first)
        return None
    made = {v for op in new for v in op.outs}
    for got, want in zip((results,) if isinstance(results, int) else results, site.op.outs, strict=False):
        got = _current(got, instead)
        literal = d.values[got].literal if got >= first else None
        if d.type(got) != d.type(want) or (want in g.outs and got not in made):
            new.append(Op(COPY if d.type(got).dtype is d.type(want).dtype else CONVERT, (got,), (want,)))
        elif got in made:  # a result takes the number of what it replaces
            instead[got] = want
            del d.values[got]
        elif literal is not None:
            d.values[want] = replace(d.values[want], constness=d.values.pop(got).constness, literal=literal)
        else:
            instead[want] = got
    return new


def _renamed(op: Op, instead: dict[int, int]) -> Op:
    ins, outs = (tuple(_current(v, instead) for v in ids) for ids in (op.ins, op.outs))
    return op if (ins, outs) == (op.ins, op.outs) else replace(op, ins=ins, outs=outs)


def _current(v: int, instead: dict[int, int]) -> int:
    while v in instead:
        v = instead[v]
    return v


def without_dead_ops(g: Graph) -> Graph:
    """Without ops whose results nothing uses, and values that no op mentions; the same object when there are none."""
    live = {g.root(v) for v in g.outs}
    kept: list[Node] = []
    for node in reversed(g.nodes):
        if any(g.root(v) in live for v in node.outs):
            kept.append(node)
            live.update(g.root(v) for v in node.ins)
    mentioned = {*g.ins, *g.outs} | {v for node in kept for v in (*node.ins, *node.outs)}
    mentioned |= {g.root(v) for v in mentioned} | _bases(g, mentioned)
    values = tuple(v for v in g.values if v.id in mentioned)
    if len(kept) == len(g.nodes) and len(values) == len(g.values):
        return g
    return replace(g, nodes=tuple(reversed(kept)), values=values)


def _bases(g: Graph, ids: set[int]) -> set[int]:
    """Every value on the way from a view to its root."""
    bases: set[int] = set()
    for id in ids:
        view = g.value(id).view
        while view is not None:
            bases.add(view.base)
            view = g.value(view.base).view
    return bases
