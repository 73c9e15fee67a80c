"""attach-post-ops: pointwise ops on the result of a microkernel run on its registers.

brgemm (m=64, n=64, k=512) t[0; m*64, n] = x[0; m*512, k] @ w[0; k*64, n]
for i in 64 {
  for j_v in 4 {
    y[i*64 + j_v*16:+16] = max(t[i*64 + j_v*16:+16] + b[j_v*16:+16], x16(0.0))
  }
}
    ->
brgemm (m=64, n=64, k=512) t[0; m*64, n] = x[0; m*512, k] @ w[0; k*64, n], then for i in m, j_v in n/16 {
  y[i*64 + j_v*16:+16] = max(t[i*64 + j_v*16:+16] + b[j_v*16:+16], x16(0.0))
}

Post-ops run on a register tile before it would be stored. They must access whole vectors of a temporary that nothing else uses, and must
not store to what the microkernel reads, nor load what they store elsewhere, as a tile is finished before the next one begins. Long
post-ops stay a loop: the kernel would have their code once per vector of a tile, and a loop is as fast.
Measurements: docs/measurements/post-ops.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from benchgraph.machine.target import Target, lanes_for
from benchgraph.tir import ir
from benchgraph.tir.accesses import any_alias, position
from benchgraph.tir.affine import Linear
from benchgraph.tir.build import constant
from benchgraph.tir.instructions import instructions
from benchgraph.tir.loops import with_body
from benchgraph.tir.operands import place_in_acc
from benchgraph.tir.visit import bound_names, claim, loads_of, map_children, own_tensors, statements, walk, walk_expr

# Per vector, loads and stores included: GELU by tanh has more than 30, scaling to 8 bits 8, a mask computed from the position 15.
MOST_INSTRUCTIONS = 20
_SHORT = frozenset({ir.UnOp.neg, ir.UnOp.abs, ir.UnOp.sqrt, ir.UnOp.round, ir.UnOp.floor, ir.UnOp.not_})


def attach_post_ops(f: ir.Func, target: Target) -> ir.Func:
    blocks = (s for s in walk(f.body) if isinstance(s, ir.Seq))
    followed = [(g, nest) for s in blocks for g, nest in pairwise(s.stmts) if isinstance(g, ir.Brgemm)]
    candidates = [(g, nest, p) for g, nest in followed if (p := _as_post_ops(f, g, nest, lanes_for(g.n, target.lanes))) is not None]
    if not candidates:
        return f
    other_uses = Counter(_accessed(f.body))
    for g, nest, _ in candidates:
        other_uses.subtract([g.acc.tensor.name, *(name for name in _accessed(nest) if name == g.acc.tensor.name)])
    return with_body(f, _attached(f.body, {id(nest): p for g, nest, p in candidates if not other_uses[g.acc.tensor.name]}))


def _accessed(s: ir.Stmt) -> Iterator[str]:
    """Names of the tensors that each statement of s loads or stores."""
    for c in walk(s):
        if not isinstance(c, ir.Alloc):
            yield from {t.name for t in own_tensors(c)}


def _attached(s: ir.Stmt, post_ops: Mapping[int, ir.PostOps]) -> ir.Stmt:
    """s with nests moved into their microkernels. post_ops: by the id of the nest."""
    s = map_children(s, lambda c: c if id(c) in post_ops else _attached(c, post_ops))
    out: list[ir.Stmt] = []
    for c in s.stmts if isinstance(s, ir.Seq) else ():
        if id(c) in post_ops:
            g = out.pop()
            assert isinstance(g, ir.Brgemm)
            c = replace(g, post_ops=post_ops[id(c)])
        out.append(c)
    if not isinstance(s, ir.Seq) or len(out) == len(s.stmts):
        return s
    return out[0] if len(out) == 1 else ir.Seq(tuple(out))


def _as_post_ops(f: ir.Func, g: ir.Brgemm, nest: ir.Stmt, lanes: int) -> ir.PostOps | None:
    """The statement after g as its post-ops; None if it cannot be that. lanes: of the microkernel's vectors."""
    if g.accumulate or g.acc.tensor.offset is None:
        return None
    peeled = _peeled(g, nest, lanes)
    if peeled is None:
        return None
    stmts = statements(peeled.body)
    check = _Check(f, g, peeled, frozenset(c.tensor.name for c in stmts if isinstance(c, ir.Alloc)))
    return peeled if check.holds(stmts) else None


def _peeled(g: ir.Brgemm, nest: ir.Stmt, lanes: int) -> ir.PostOps | None:
    """The nest without its loops over rows and vectors of g; a loop of one iteration is absent."""
    ramps = (s.index[0] for s in walk(nest) if isinstance(s, ir.Store) and s.index)
    if g.n % lanes or next((ramp.lanes for ramp in ramps if isinstance(ramp, ir.Ramp)), 0) != lanes:
        return None
    taken = set(bound_names(nest))
    loop_vars = list[ir.Var]()
    for extent in (g.m, g.n // lanes):
        if extent == 1:
            loop_vars.append(ir.Var(claim("once", taken)))
        elif isinstance(nest, ir.For) and nest.kind is ir.LoopKind.serial and constant(nest.extent) == extent:
            loop_vars.append(nest.var)
            nest = nest.body
        else:
            return None
    return ir.PostOps(loop_vars[0], loop_vars[1], lanes, nest)


@dataclass(frozen=True)
class _Check:
    """Whether statements may be post-ops. inner: registers that they declare."""

    f: ir.Func
    g: ir.Brgemm
    post_ops: ir.PostOps
    inner: frozenset[str]

    def holds(self, stmts: tuple[ir.Stmt, ...]) -> bool:
        """Whether these statements may run on single vectors of acc, in the microkernel's order."""
        stores = [s for s in stmts if isinstance(s, ir.Store)]
        if len(stores) + len(self.inner) != len(stmts) or sum(instructions(s, function=1) for s in stores) > MOST_INSTRUCTIONS:
            return False
        registers = Counter(s.tensor.name for s in stores if s.tensor.scope is ir.Scope.register)
        if set(registers) != self.inner or any(count > 1 for count in registers.values()):
            return False
        results = [s for s in stores if s.tensor.scope is not ir.Scope.register]
        loads = [load for s in stores for load in loads_of(s.value) if load.tensor.scope is not ir.Scope.register]
        return all(map(self.is_plain_store, stores)) and all(map(self.is_plain_load, loads)) and self.keeps_order(results, loads)

    def is_plain_store(self, s: ir.Store) -> bool:
        """Whether it stores an unmasked contiguous vector, a different one for each row and vector, by short instructions."""
        if s.mask is not None or not all(_is_short(e) for e in walk_expr(s.value)):
            return False
        if s.tensor.scope is ir.Scope.register:
            return True
        form = self.position(s.index)
        if form is None or not isinstance(s.index[0], ir.Ramp) or s.tensor.name == self.g.acc.tensor.name:
            return False
        row, vector = self.strides_of(form)
        return vector == self.post_ops.lanes and (row == 0 or abs(row) >= self.g.n)

    def is_plain_load(self, load: ir.Load) -> bool:
        form = self.position(load.index)
        if form is None or load.mask is not None or load.tensor.dtype.is_packed:
            return False
        if load.tensor.name != self.g.acc.tensor.name:
            return True
        return isinstance(load.index[0], ir.Ramp) and form == place_in_acc(self.g, self.post_ops)

    def keeps_order(self, results: list[ir.Store], loads: list[ir.Load]) -> bool:
        """Whether nothing stored is read by the microkernel, or by the post-ops at another position."""
        stored = [s.tensor for s in results]
        others = [load for load in loads if load.tensor.name != self.g.acc.tensor.name]
        if any(any_alias(self.f, (t,), (self.g.src.tensor, self.g.wei.tensor, *stored[:k])) for k, t in enumerate(stored)):
            return False
        for s in results:
            aliases = [load for load in others if any_alias(self.f, (s.tensor,), (load.tensor,))]
            if aliases and (len(results) > 1 or any(self.position(load.index) != self.position(s.index) for load in aliases)):
                return False
        return True

    def position(self, index: tuple[ir.Expr, ...]) -> Linear | None:
        """The first element of an access; None unless it is linear in row and vector."""
        (first,) = index
        if isinstance(first, ir.Ramp) and (first.stride != 1 or first.lanes != self.post_ops.lanes):
            return None
        form = position(first)
        _, stepping = form.split(frozenset({self.post_ops.row.name, self.post_ops.vector.name}))
        return form if all(isinstance(atom, ir.Var) for atom in stepping.terms) else None

    def strides_of(self, form: Linear) -> tuple[int, int]:
        """Elements from row to row, and from vector to vector (of a single vector: its lanes)."""
        row = form.terms.get(self.post_ops.row, 0)
        vector = form.terms.get(self.post_ops.vector, 0)
        return row, self.post_ops.lanes if self.g.n == self.post_ops.lanes else vector


def _is_short(e: ir.Expr) -> bool:
    return not isinstance(e, ir.Unary) or e.op in _SHORT
