"""fuse-fine: every op joins the loop nest of the op that made its input, where it can; the others begin nests.

%2 = MatMul(%0, %1)               %4 = fused {
%3 = Add(%2, %b)           ->       %2 = MatMul(%0, %1)
%4 = ReLU(%3)                       %3 = Add(%2, %b)
                                    %4 = ReLU(%3) }

A reduction of a value from outside joins a nest that reads it already and reduces the same axes, so that it is read once.

An op that widens bytes for a residual sum begins a nest, so that the nest that adds them reads bytes, as products do.

Then pairs of nests merge, of which one reads a result of the other element by element. If all their memory is stored in the same order, a
nest of pointwise ops joins the nest that it reads, or moves into the nest that reads it, before the reading op: e.g. the ops on a residual
that is added to a product. Nests that reduce the same axes of equal domains merge if one reads the other: LayerNormBackward then reduces
in one loop, and its differences need no buffer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised
from benchgraph.core.record import is_recorded, note
from benchgraph.gir.closure import closure
from benchgraph.gir.domain import Domain, extended, trace
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Op, Stage
from benchgraph.gir.nest_graph import NestGraph, merge_pairs, nest_of, topological_order, with_borders
from benchgraph.gir.nest_sequence import slower_than_apart
from benchgraph.machine.target import Target


@dataclass
class _Group:
    """Ops that share a nest, and their domain. before: the numbers of the groups that run before it."""

    ops: list[Op] = field(default_factory=list)
    domain: Domain | None = None
    before: set[int] = field(default_factory=set)

    def add(self, op: Op, domain: Domain | None) -> None:
        """An op, with the domain that all then have."""
        self.ops.append(op)
        self.domain = domain


def fuse_fine(g: Graph, target: Target) -> Graph:
    groups = list[_Group]()
    made_in: dict[int, set[int]] = {}  # buffer -> the groups that write it, each a part of it
    for op in g.ops:
        sources = set[int]().union(*(made_in.get(g.root(v), ()) for v in op.ins))
        near = (i for i in sorted(sources, reverse=True) or _other_readers(groups, op) if _may_join(i, sources, groups))
        tried = ((i, _joined(g, groups[i], op, target)) for i in near)
        fits = ((i, longer) for i, longer in tried if isinstance(longer, Domain))
        home, domain = next(fits, None) or (len(groups), trace(g, [op]))
        if home == len(groups):
            if sources and is_recorded():
                note(op.outs[0], why="; ".join(_reasons(g, groups, sources, op, target)))
            groups.append(_Group())
        groups[home].add(op, domain)
        before = (sources - {home}).union(*(groups[i].before for i in sources if i != home))
        for later in (groups[home], *(group for group in groups if home in group.before)):
            later.before |= before
        for v in op.outs:
            made_in.setdefault(g.root(v), set()).add(home)
    fused = [FusedOp(f"nest{i}", (_stage(group.ops),), (), ()) for i, group in enumerate(groups)]
    nodes = merge_pairs(g, with_borders(g, fused), lambda nests, i, j: _merged(g, nests, i, j, target)).nodes
    place = {op: n for n, op in enumerate(g.nodes)}
    nodes.sort(key=lambda node: min(place[op] for op in node.ops))
    return replace(g, nodes=tuple(nodes[i] for i in topological_order(nodes)))


def _merged(g: Graph, nests: NestGraph, i: int, j: int, target: Target) -> FusedOp | None:
    """Nest i and its reader j as one; None if that is not legal or does not pay."""
    ops = _pointwise_merged(g, nests, i, j, target) or _reductions_merged(g, nests, i, j, target)
    return None if ops is None else replace(nests[j], stages=(_stage(ops),))


def _pointwise_merged(g: Graph, nests: NestGraph, i: int, j: int, target: Target) -> tuple[Op, ...] | None:
    """The ops of nest i and its reader j, one of which is pointwise.

    None if elements would be computed more than once; if the pointwise ops would follow a reduction, whose rows would then be stored; or if
    the merged nest would not iterate along memory although the separate ones do (docs/measurements/fusion.md, Chains across memory).
    """
    (first,), (second,) = nests[i].stages, nests[j].stages
    if _is_pointwise(second.ops):
        head, tail, rest = first.ops, second.ops, tuple[Op, ...]()
    else:
        reader = next(k for k, op in enumerate(second.ops) if any(g.root(v) in nests[i].outs for v in op.ins))
        head, tail, rest = second.ops[:reader], first.ops, second.ops[reader:]
    domain = trace(g, head)
    if domain is None or domain.reduced or not domain.has_whole_rows or not _is_pointwise(tail):
        return None
    if any(prod(g.value(op.outs[0]).shape) != prod(domain.extents) for op in tail):
        return None
    domain = _extended(g, head, domain, (*tail, *rest), target)
    ops = (*head, *tail, *rest)
    return ops if domain is not None and _iterates_along_memory(g, ops, domain, lambda v: nests.is_read_beyond(v, (i, j)), target) else None


def _reductions_merged(g: Graph, nests: NestGraph, i: int, j: int, target: Target) -> tuple[Op, ...] | None:
    """The ops of nest i and its reader j, where both reduce the same axes of one domain; None where they do not."""
    (first,), (second,) = nests[i].stages, nests[j].stages
    domain, other = trace(g, first.ops), trace(g, second.ops)
    if domain is None or other is None or not domain.reduced or (domain.extents, domain.reduced) != (other.extents, other.reduced):
        return None
    return None if _extended(g, first.ops, domain, second.ops, target) is None else (*first.ops, *second.ops)


def _extended(g: Graph, ops: Iterable[Op], domain: Domain, more: Iterable[Op], target: Target) -> Domain | None:
    """The domain of ops, extended by more ops; None where one of those cannot join."""
    group = _Group([*ops], domain)
    for op in more:
        joint = _joined(g, group, op, target)
        if isinstance(joint, str):
            return None
        group.add(op, joint)
    return group.domain


def _iterates_along_memory(g: Graph, ops: Iterable[Op], domain: Domain, is_read: Callable[[int], bool], target: Target) -> bool:
    """Whether all inputs and results are stored alike, and reductions run along memory, or along rows that fill vectors. is_read: whether
    other nests read a buffer."""
    values = {g.root(v) for op in ops for v in (*op.ins, *op.outs) if g.root(v) not in domain.written or is_read(g.root(v))}
    strides = {v.known_strides for v in map(g.value, values) if v.shape == domain.extents}
    if len(strides) > 1 or not domain.reduced:
        return len(strides) <= 1
    last = len(domain.extents) - 1
    densest = next((axis for axis, step in enumerate(next(iter(strides), ())) if step == 1 and domain.extents[axis] != 1), last)
    return densest in domain.reduced or (densest == last and domain.extents[last] >= target.lanes)


def _is_pointwise(ops: Iterable[Op]) -> bool:
    return all(op.lowering.is_elementwise for op in ops)


def _may_join(home: int, sources: set[int], groups: Sequence[_Group]) -> bool:
    """Whether all other groups that the op reads can run before `home`."""
    return not any(home in groups[other].before for other in sources)


def _other_readers(groups: Sequence[_Group], op: Op) -> list[int]:
    """For a reduction of a value from outside: the groups without a product that read this value too."""
    if not op.lowering.is_reduction:
        return []
    readers = (i for i, group in enumerate(groups) if any(op.ins[0] in other.ins for other in group.ops))
    return [i for i in readers if not groups[i].ops[0].lowering.is_contraction]


def _joined(g: Graph, group: _Group, op: Op, target: Target) -> Domain | str:
    """The domain of a group of ops with one more op, or why the op cannot join it."""
    ops, first = group.ops, group.ops[0]
    if op.lowering.is_contraction:
        return "a product begins a nest"
    if _is_constant(g, op) != _is_constant(g, first):
        return "one is computed once, by init, the other at every execution"
    is_copy = first.lowering.is_layout_op or first.semantics.is_conversion
    if is_copy and len({g.value(v).layout.blocks for v in (*first.ins, *first.outs)}) > 1:
        return f"the {first.kind} before it converts into or out of a blocked layout, block by block"
    if _widens_residual(g, ops, op):
        return "bytes are stored as bytes, and the nest that adds them later widens them"
    domain = None if group.domain is None else extended(g, group.domain, op)
    if domain is None:
        return f"its elements are not indexed by the axes of the nest of {first.kind}"
    if not domain.reduced or not first.lowering.is_contraction:
        return domain
    if not domain.reduced <= {len(domain.extents) - 1}:
        return f"it reduces over rows that {first.kind} makes in several tasks"
    if not g.value(first.ins[1]).is_constant:
        return domain  # scores, whose whole rows one nest with the product that follows need not hold (gir/flash_attention.py)
    return slower_than_apart(g, nest_of(g, [_stage([*ops, op])]), (nest_of(g, [_stage(ops)]), nest_of(g, [_stage([op])])), target) or domain


def _widens_residual(g: Graph, ops: list[Op], op: Op) -> bool:
    """Whether an op widens bytes that these ops have quantised, for one pointwise op that reads what products make of the bytes, too.
    docs/measurements/whole-networks.md, 8-bit integers"""
    src, v = op.ins[0], op.outs[0]
    is_quantised = any(src in made.outs and made.semantics.is_conversion for made in ops) and g.value(src).dtype.bits <= DType.u8.bits
    if not (is_quantised and op.semantics.is_conversion and g.value(v).dtype is DType.f32):
        return False
    while len(readers := g.readers(v)) == 1 and v not in g.outs:
        others = [i for i in readers[0].ins if i != v]
        if not all(g.value(i).is_constant for i in others):
            return readers[0].lowering.is_elementwise and any(_depends(g, i, src) for i in others)
        v = readers[0].outs[0]  # minus a zero point, or scaled
    return False


def _depends(g: Graph, v: int, src: int) -> bool:
    """Whether a value is computed from another one."""
    return src in closure(g.root(v), lambda at: _made_of(g).get(at, ()) if at != src else ())


@memoised
def _made_of(g: Graph) -> Mapping[int, Collection[int]]:
    """By buffer, those that it is computed from."""
    found = defaultdict[int, set[int]](set)
    for op in g.ops:
        for v in op.outs:
            found[g.root(v)].update(map(g.root, op.ins))
    return found


def _stage(ops: Sequence[Op]) -> Stage:
    return Stage(tuple(ops), (Anchor.rows,) * len(ops))


def _reasons(g: Graph, groups: Sequence[_Group], sources: set[int], op: Op, target: Target) -> list[str]:
    """Why the op cannot join each of the groups that it reads."""
    waits = "another of its inputs is computed later"
    reasons = (_joined(g, groups[i], op, target) if _may_join(i, sources, groups) else waits for i in sorted(sources))
    return list(dict.fromkeys(reason for reason in reasons if isinstance(reason, str)))


def _is_constant(g: Graph, op: Op) -> bool:
    return all(g.value(v).is_constant for v in op.outs)
