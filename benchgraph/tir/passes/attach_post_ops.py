"""attach-post-ops: what is done with the result of a microkernel happens while it is in registers.

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

That is for whole vectors of temporaries that nothing else touches. A register tile is finished before the next one is begun, so the nest
must not store to what the microkernel reads, nor load what it stores elsewhere. Long post-ops stay a loop: the kernel holds them once for
each vector of a tile, and a loop's code is as good where it takes long.

Times with it over those without (policies fused and fused:no-attach in turns, two threads of a Cascade Lake server, medians / minima of
25), for workloads of the Graph Compiler paper: MLP_1 in int8 at batch 32, 128, 512 0.96 / 0.93, 0.96 / 0.93, 0.95 / 0.93, in f32 0.95 /
0.94, 0.93 / 0.88, 0.97 / 0.99; MLP_2 at batch 32 0.97 / 0.98 in int8, 0.96 / 0.93 in f32; MHA_1 0.99 / 0.93, MHA_3 0.97 / 0.98, MHA_1 in
int8 0.97 / 0.94. Where scores are scaled and masked by their place alone, two Zen 5 cores: 0.97 for hf-sdpa-fwd-implicit-mask of oneDNN's
graphs in bf16, 0.95 for gqa-plain-implicit-causal-mask in f32, 0.97 for both with a mask from the bottom right in f16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from benchgraph.core.target import Target, lanes_for
from benchgraph.tir.affine import Linear, linear
from benchgraph.tir.build import constant
from benchgraph.tir.cost import instructions
from benchgraph.tir.ir import (
    Alloc,
    Brgemm,
    Expr,
    FlatSlice,
    For,
    Func,
    Load,
    LoopKind,
    PostOps,
    Ramp,
    Scope,
    Seq,
    Stmt,
    Store,
    Unary,
    UnOp,
    Var,
)
from benchgraph.tir.post_ops import place_in_acc
from benchgraph.tir.vector_loops import may_meet
from benchgraph.tir.visit import bound_names, claim, loads_of, map_children, own_tensors, parts, statements, variables, walk

MOST_STEPS = 20  # of a vector's post-ops, loads and stores included: GELU by tanh has more than 30, scaling to 8 bits 8, a mask by place 15
_SHORT = frozenset({UnOp.neg, UnOp.abs, UnOp.sqrt, UnOp.round, UnOp.floor, UnOp.not_})


def attach_post_ops(f: Func, target: Target) -> Func:
    found = [made for g, nest in _neighbours(f.body) if (made := _post_ops(f, g, nest, lanes_for(g.n, target.lanes))) is not None]
    if not found:
        return f
    uses, own = Counter(name for s in walk(f.body) for name in _touched(s)), Counter[str]()
    for made in found:
        own[made.acc] += 1 + sum(made.acc in _touched(s) for s in walk(made.nest))
    kept = {id(made.nest): made.post_ops for made in found if uses[made.acc] == own[made.acc]}
    return replace(f, body=_attached(f.body, kept)) if kept else f


@dataclass(frozen=True)
class _Found:
    """A nest as post-ops of the microkernel before it. acc: the name of that one's."""

    nest: Stmt
    post_ops: PostOps
    acc: str


def _neighbours(body: Stmt) -> Iterator[tuple[Brgemm, Stmt]]:
    """Microkernels, each with the statement that follows it."""
    for s in walk(body):
        if isinstance(s, Seq):
            for g, following in zip(s.stmts, s.stmts[1:], strict=False):
                if isinstance(g, Brgemm):
                    yield g, following


def _touched(s: Stmt) -> frozenset[str]:
    """Names of what this statement alone reads or writes; to declare is neither."""
    return frozenset(() if isinstance(s, Alloc) else (t.name for t in own_tensors(s)))


def _attached(s: Stmt, found: Mapping[int, PostOps]) -> Stmt:
    """found: by the id of the nest that they were."""
    s = map_children(s, lambda c: c if id(c) in found else _attached(c, found))
    if not isinstance(s, Seq) or not any(id(c) in found for c in s.stmts):
        return s
    out: list[Stmt] = []
    for c in s.stmts:
        if id(c) in found:
            g = out.pop()
            assert isinstance(g, Brgemm)
            out.append(replace(g, post_ops=found[id(c)]))
        else:
            out.append(c)
    return out[0] if len(out) == 1 else Seq(tuple(out))


def _post_ops(f: Func, g: Brgemm, nest: Stmt, lanes: int) -> _Found | None:
    """The statement after g as its post-ops; None where it is not of that kind. lanes: of the microkernel's vectors."""
    if g.accumulate or not isinstance(g.acc, FlatSlice) or g.acc.tensor.offset is None:
        return None
    peeled = _peeled(g, nest, lanes)
    if peeled is None:
        return None
    stmts = statements(peeled.body)
    check = _Check(f, g, peeled, frozenset(c.tensor.name for c in stmts if isinstance(c, Alloc)))
    return _Found(nest, peeled, g.acc.tensor.name) if check.holds(stmts) else None


def _peeled(g: Brgemm, nest: Stmt, lanes: int) -> PostOps | None:
    """The nest without its loops over rows and vectors of g. A loop that would run once is not there."""
    ramps = (s.index[0] for s in walk(nest) if isinstance(s, Store) and s.index)
    if g.n % lanes or next((ramp.lanes for ramp in ramps if isinstance(ramp, Ramp)), 0) != lanes:
        return None
    taken = set(bound_names(nest))
    made = list[Var]()
    for extent in (g.m, g.n // lanes):
        if extent == 1:
            made.append(Var(claim("once", taken)))
        elif isinstance(nest, For) and nest.kind is LoopKind.serial and constant(nest.extent) == extent:
            made.append(nest.var)
            nest = nest.body
        else:
            return None
    return PostOps(made[0], made[1], lanes, nest)


@dataclass(frozen=True)
class _Check:
    """inner: registers that the post-ops declare."""

    f: Func
    g: Brgemm
    post_ops: PostOps
    inner: frozenset[str]

    def holds(self, stmts: tuple[Stmt, ...]) -> bool:
        """Whether these statements may run on one vector of acc after the other."""
        stores = [s for s in stmts if isinstance(s, Store)]
        if len(stores) + len(self.inner) != len(stmts) or sum(instructions(s, function=1) for s in self.of_a_vector(stores)) > MOST_STEPS:
            return False
        registers = Counter(s.tensor.name for s in stores if s.tensor.scope is Scope.register)
        if set(registers) != self.inner or any(count > 1 for count in registers.values()):
            return False
        results = [s for s in stores if s.tensor.scope is not Scope.register]
        loads = [load for s in stores for load in loads_of(s.value) if load.tensor.scope is not Scope.register]
        return all(map(self.is_plain, stores)) and all(map(self.reads_well, loads)) and self.keeps_order(results, loads)

    def of_a_vector(self, stores: list[Store]) -> Iterator[Store]:
        """Those that are not made once for all vectors of a row, as where its mask ends is."""
        alike = set[str]()
        for s in stores:
            read = {load.tensor.name for load in loads_of(s.value)}
            varies = self.post_ops.vector.name in variables(s.value) or self.g.acc.tensor.name in read or not read & self.inner <= alike
            if varies or s.tensor.name not in self.inner:
                yield s
            else:
                alike.add(s.tensor.name)

    def is_plain(self, s: Store) -> bool:
        """A vector of neighbours, one for each row and vector."""
        if s.mask is not None or not all(_is_short(e) for e in _values(s.value)):
            return False
        if s.tensor.scope is Scope.register:
            return True
        form = self.place(s.index)
        if form is None or not isinstance(s.index[0], Ramp) or s.tensor.name == self.g.acc.tensor.name:
            return False
        row, vector = self.steps_of(form)
        return vector == self.post_ops.lanes and (row == 0 or abs(row) >= self.g.n)

    def reads_well(self, load: Load) -> bool:
        form = self.place(load.index)
        if form is None or load.mask is not None or load.tensor.dtype.is_packed:
            return False
        if load.tensor.name != self.g.acc.tensor.name:
            return True
        return isinstance(load.index[0], Ramp) and form == place_in_acc(self.g, self.post_ops)

    def keeps_order(self, results: list[Store], loads: list[Load]) -> bool:
        """Nothing that is stored is read by the microkernel, or by the post-ops at another place."""
        operands = (self.g.src.tensor, self.g.wei.tensor)
        others = [load for load in loads if load.tensor.name != self.g.acc.tensor.name]
        for s in results:
            if any(may_meet(self.f, s.tensor, t) for t in operands):
                return False
            meeting = [load for load in others if may_meet(self.f, s.tensor, load.tensor)]
            if meeting and (len(results) > 1 or any(self.place(load.index) != self.place(s.index) for load in meeting)):
                return False
        return not any(may_meet(self.f, a.tensor, b.tensor) for k, a in enumerate(results) for b in results[:k])

    def place(self, index: tuple[Expr, ...]) -> Linear | None:
        """Where an access begins; None unless it steps evenly from row to row and from vector to vector."""
        (first,) = index
        if isinstance(first, Ramp) and (first.stride != 1 or first.lanes != self.post_ops.lanes):
            return None
        form = linear(first.base if isinstance(first, Ramp) else first)
        own = frozenset({self.post_ops.row.name, self.post_ops.vector.name})
        _, stepping = form.split(own)
        return form if all(isinstance(atom, Var) for atom in stepping.terms) else None

    def steps_of(self, form: Linear) -> tuple[int, int]:
        """Elements from row to row, and from vector to vector: where there is one alone, what there would be."""
        row = form.terms.get(self.post_ops.row, 0)
        vector = form.terms.get(self.post_ops.vector, 0)
        return row, self.post_ops.lanes if self.g.n == self.post_ops.lanes else vector


def _values(e: Expr) -> Iterator[Expr]:
    """e and its parts, but not those that find out where elements lie."""
    yield e
    if not isinstance(e, Load):
        for part in parts(e):
            yield from _values(part)


def _is_short(e: Expr) -> bool:
    return not isinstance(e, Unary) or e.op in _SHORT
