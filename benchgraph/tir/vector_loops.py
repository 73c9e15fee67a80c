"""Which loops may run in vectors, and how their expressions widen: the analysis behind the vectorize pass."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised
from benchgraph.core.target import LINE_BYTES, lanes_for
from benchgraph.tir.affine import linear
from benchgraph.tir.build import constant, type_of
from benchgraph.tir.cost import instructions
from benchgraph.tir.ir import (
    FOLDS,
    INDEX,
    Alloc,
    Binary,
    BinOp,
    Broadcast,
    Const,
    Expr,
    For,
    Func,
    If,
    Load,
    LoopKind,
    Ramp,
    ReduceLanes,
    Scope,
    Seq,
    Stmt,
    Store,
    Tensor,
    Var,
)
from benchgraph.tir.non_temporal import MOST_READ
from benchgraph.tir.visit import loads_of, map_parts, parts, statements, substitute, variables, walk

CLOSE = 4  # lanes of a vector access that are at most so many elements apart go through whole vectors of memory
CLOSE_BITS = 32  # and are stored so from this width on: under masks, with which LLVM 22 stores too much of narrower ones (see vectorize)
# Instructions of an iteration from which on its vectors are worth scattering. Measured on Cascade Lake at two threads: the gradient of an
# attention whose dropout, 200 instructions, is stored across rows 42.6 ms in scalars, 13.5 in vectors; without it, conversions and
# products that are stored so took 1 to 4 % longer with 1, 6 and 12 in its place than with 30.
SCATTERED = 30
LINE_LANES = 8 * LINE_BYTES // DType.f32.bits  # of registers that hold a line: those of AVX-512


def closest(dtype: DType) -> int:
    """The most elements that a vector's may lie apart to be stored through whole vectors of memory."""
    return CLOSE if dtype.bits >= CLOSE_BITS else 1


def neutral(op: BinOp, dtype: DType) -> Const:
    """The value that leaves the other operand as it is."""
    if op in (BinOp.add, BinOp.mul):
        value = 0 if op is BinOp.add else 1
        return Const(float(value) if dtype.is_float else value, dtype)
    if dtype.is_float:
        return Const(math.inf if op.by_order is BinOp.min else -math.inf, dtype)
    least, most = dtype.range
    wide = (-(2**63), 2**63 - 1) if dtype is DType.s64 else (int(least), int(most))
    return Const(wide[1] if op.by_order is BinOp.min else wide[0], dtype)


@dataclass(frozen=True)
class Reduction:
    """`store`, which is tensor[index] = op(tensor[index], value), or with the operands exchanged."""

    store: Store
    op: BinOp
    value: Expr
    acc_first: bool

    def combine(self, acc: Expr, value: Expr) -> Expr:
        return Binary(self.op, acc, value) if self.acc_first else Binary(self.op, value, acc)


@dataclass(frozen=True)
class Loop:
    """A loop that may run in vectors of so many lanes, each of which begins at a multiple of them. registers: those declared inside, which
    widen. body: what it does; stmts: the same without the loops and conditions in it."""

    var: Var
    extent: Expr
    lanes: int
    body: tuple[Stmt, ...]
    stmts: tuple[Alloc | Store, ...]
    registers: frozenset[str]
    reductions: tuple[Reduction, ...] = field(default=())

    def step(self, i: Expr) -> int | None:
        """How far an index moves per iteration within a vector; None when that is not a number."""
        form = linear(i)
        total = form.terms.get(self.var, 0)
        for atom, k in form.terms.items():
            if atom != self.var and self.varies(atom):
                step = self._step_of_digit(atom)
                if step is None:
                    return None
                total += k * step
        return total

    def _step_of_digit(self, atom: Expr) -> int | None:
        """Of x // c or x % c, where no vector reaches from below a multiple of c beyond it, as in a reshape of rows of whole vectors.

        That is so where x stands still, or c and all of x but the variable's own term are multiples of what a vector spans.
        """
        match atom:
            case Binary(BinOp.floordiv | BinOp.mod as op, x, Const(value=c)):
                if self.step(x) == 0:
                    return 0
                form = linear(x)
                step = form.terms.get(self.var, 0)
                others = [k for a, k in form.terms.items() if a != self.var]
                is_whole = step > 0 and all(k % (step * self.lanes) == 0 for k in (*others, form.constant, int(c)))
                if is_whole and not any(self.varies(a) for a in form.terms if a != self.var):
                    return 0 if op is BinOp.floordiv else step
        return None

    def is_even(self, i: Expr) -> bool:
        """Whether an index moves by `step` from vector to vector too."""
        return not any(atom != self.var and self.varies(atom) for atom in linear(i).terms)

    def varies(self, e: Expr) -> bool:
        """True when e may differ between iterations, as far as variables and widened registers tell."""
        return self.var.name in variables(e) or any(load.tensor.name in self.registers for load in loads_of(e))

    def vector_index(self, at: tuple[Expr, ...], base: Expr) -> tuple[Expr, ...]:
        step = self.step(at[0])
        assert step is not None, "loop_of accepts only indices with a step"
        return (Ramp(substitute(at[0], {self.var.name: base}), step, self.lanes),)

    def mask_of(self, t: Tensor, at: tuple[Expr, ...], mask: Expr | None) -> Expr | None:
        """The mask that an access in the last vector needs: none where it ends in what is spare of a row."""
        count = constant(self.extent)
        is_whole = bool(t.padding) and count is not None and -count % self.lanes <= t.padding and self.step(at[0]) == 1
        return None if is_whole else mask


def loop_of(s: For, most_lanes: int, unkept: frozenset[str] = frozenset()) -> Loop | None:
    """The loop as one that may run in vectors, None when it must stay as it is. unkept: tensors of which whole lines are to be stored."""
    loop = _loop_by(s, most_lanes)
    wider = 0 if loop is None else _lanes_moved(loop) or _lanes_of_lines(loop, unkept)
    return (_loop_by(s, wider) if wider else None) or loop


def _loop_by(s: For, most_lanes: int) -> Loop | None:
    """The loop in vectors of so many lanes, or of fewer where these hold all of it."""
    body = statements(s.body)
    if not any(isinstance(c, Store) for c in body):
        return None  # loops that hold others, mostly
    inner = [c for stmt in body for c in walk(stmt) if not isinstance(c, Seq)]
    stmts = tuple(c for c in inner if isinstance(c, Alloc | Store))
    allocs = [c.tensor for c in stmts if isinstance(c, Alloc)]
    if any(not isinstance(c, Alloc | Store | For | If) for c in inner) or len(stmts) == len(allocs):
        return None
    if any(t.scope is not Scope.register or t.lanes > 1 for t in allocs):
        return None
    loop = Loop(s.var, s.extent, most_lanes, body, stmts, frozenset(t.name for t in allocs))
    if len(inner) > len(body) and not _is_uniform(loop):
        return None
    if not all(_widens(loop, e) for c in loop.stmts if isinstance(c, Store) for e in (*c.index, c.value)):
        return None
    reductions: list[Reduction] = []
    for c in loop.stmts:
        if not isinstance(c, Store) or c.tensor.name in loop.registers:
            continue
        step = loop.step(c.index[0]) if c.index else 0
        found = reduction(c) if step == 0 and all(map(loop.is_even, c.index)) else None
        if c.mask is not None or (found is None and not _is_storable(loop, c.tensor, step)):
            return None
        reductions += [found] if found is not None else []
    lanes = lanes_for(constant(s.extent), most_lanes) if _is_close(loop) else most_lanes
    loop = replace(loop, reductions=tuple(reductions), lanes=lanes)
    return loop if _is_independent(loop) and _pays(loop) else None


def _lanes_moved(loop: Loop) -> int:
    """Of numbers of 8 or 16 bits that are only moved, as many as a register holds, where the loop goes by these; else 0."""
    moved = [c.tensor.dtype for c in loop.body if isinstance(c, Store) and _moves_neighbours(loop, c)]
    bits = {dtype.bits for dtype in moved}
    if len(moved) < len(loop.body) or bits not in ({8}, {16}) or DType.boolean in moved:
        return 0
    lanes = loop.lanes * DType.f32.bits // bits.pop()
    return lanes if _goes_by(loop, lanes) else 0


def _lanes_of_lines(loop: Loop, unkept: frozenset[str]) -> int:
    """Of narrow results that no cache keeps, as many as a line holds, if that is a register, where the loop goes by these; else 0."""
    bits = min((c.tensor.dtype.bits for c in loop.stmts if isinstance(c, Store) and c.tensor.name in unkept), default=DType.f32.bits)
    lanes = 8 * LINE_BYTES // bits
    is_wider = lanes > loop.lanes == LINE_LANES
    read = {load for load in _loads(loop) if load.tensor.scope is Scope.param and load.index and loop.step(load.index[0]) == 1}
    return lanes if is_wider and len(read) <= MOST_READ and _is_close(loop) and _goes_by(loop, lanes) else 0


def _goes_by(loop: Loop, lanes: int) -> bool:
    """Whether a loop comes out even by so many lanes; one of which that is not known may end in a mask if the machine has masks of them."""
    count = constant(loop.extent)
    return loop.lanes == LINE_LANES if count is None else count % lanes == 0


def _moves_neighbours(loop: Loop, s: Store) -> bool:
    return isinstance(s.value, Load) and all(at and loop.step(at[0]) == 1 for at in (s.index, s.value.index))


def _is_uniform(loop: Loop) -> bool:
    """Whether what is in loops and under conditions is so in all iterations alike, stores to registers alone, and reads neighbours.

    Sums over taps of windows are: one vector of x after the other goes through all taps. Sums over rows are not, whose elements in the next
    iteration are elsewhere: their own loop runs in vectors.
    """
    inside = [c for stmt in loop.body if isinstance(stmt, For | If) for c in walk(stmt)]
    alike = [c.extent if isinstance(c, For) else c.cond for c in inside if isinstance(c, For | If)]
    stores = [c for c in inside if isinstance(c, Store)]
    return (
        not any(loop.varies(e) for e in alike)
        and all(c.kind is LoopKind.serial for c in inside if isinstance(c, For))
        and not any(isinstance(c, Alloc) for c in inside)
        and all(c.tensor.name in loop.registers for c in stores)
        and all(loop.step(i) in (0, 1) for c in stores for load in loads_of(c.value) for i in load.index)
    )


def _is_close(loop: Loop) -> bool:
    """Whether all that is read and stored lies side by side.

    Picking every second of 12 elements is three instructions for 8 lanes and one for 16: max pooling to 6 columns takes 1.3 times as long
    by 8 lanes (one Zen 4 core).
    """
    indices = [x.index for x in _loads(loop)] + [c.index for c in loop.stmts if isinstance(c, Store)]
    return all(loop.step(i) in (0, 1) for index in indices for i in index)


def _loads(loop: Loop) -> Iterator[Load]:
    for c in loop.stmts:
        if isinstance(c, Store):
            yield from (load for e in (*c.index, c.value) for load in loads_of(e))


def _widens(loop: Loop, e: Expr) -> bool:
    match e:
        case Load():
            if e.mask is not None or len(e.index) > 1 or (e.tensor.lanes > 1):
                return False
            return all(loop.step(i) is not None for i in e.index)
        case Ramp() | Broadcast() | ReduceLanes():
            return False
        case Binary(BinOp.floordiv | BinOp.mod, _, divisor) if loop.varies(e) and not is_power_of_two(divisor):
            return False  # no vector instruction divides integers; a power of two shifts and masks
    return all(_widens(loop, p) for p in parts(e))


def _is_storable(loop: Loop, t: Tensor, step: int | None) -> bool:
    """Whether a vector of elements so far apart is worth storing: neighbours, and wider elements that are close or take work enough."""
    if step is None or step < 1 or t.dtype.bits < CLOSE_BITS:
        return step == 1
    return step <= CLOSE or sum(instructions(c) for c in loop.stmts if isinstance(c, Store)) >= SCATTERED


def is_power_of_two(e: Expr) -> bool:
    value = constant(e)
    return value is not None and value > 0 and value & (value - 1) == 0


def reduction(s: Store) -> Reduction | None:
    """What it folds, if it folds into the element that it writes."""
    match s.value:
        case Binary(op, Load(tensor=t, index=at), value) if op in FOLDS and t == s.tensor and at == s.index:
            return Reduction(s, op, value, acc_first=True)
        case Binary(op, value, Load(tensor=t, index=at)) if op in FOLDS and t == s.tensor and at == s.index:
            return Reduction(s, op, value, acc_first=False)
    return None


def _is_independent(loop: Loop) -> bool:
    """No iteration needs what another one stores, but for the reductions."""
    loads, stores = list(_loads(loop)), [c for c in loop.stmts if isinstance(c, Store) and c.tensor.name not in loop.registers]
    reduced = {r.store.tensor.name for r in loop.reductions}
    every = [(x.tensor, x.index) for x in loads] + [(c.tensor, c.index) for c in stores]
    indices = defaultdict[str, list[tuple[Expr, ...]]](list)
    for t, index in every:
        indices[t.name].append(index)
    for c in stores:
        others = indices[c.tensor.name]
        if c.tensor.name in reduced and len(others) != 2:
            return False
        if c.tensor.name not in reduced and not all(_apart(loop, c.index, index) for index in others):
            return False
    if any_share_bytes((c.tensor for c in stores), (t for t, _ in every)):
        return False
    written = {c.tensor.name for c in stores}
    return not any(load.tensor.name in written for _, at in every for i in at for load in loads_of(i))


def _apart(loop: Loop, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """True when two indices of one tensor are the same in one iteration and never in two, as far as those of one vector go."""
    gap = linear(a[0]).minus(linear(b[0]))
    count = constant(loop.extent)
    return not gap.terms and (gap.constant == 0 or (count is not None and abs(gap.constant) >= count and loop.is_even(a[0])))


def may_meet(f: Func, a: Tensor, b: Tensor) -> bool:
    """Whether tensors of a function may have an element in common."""
    return any_meet(f, (a,), (b,))


def any_meet(f: Func, some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    """Whether one of these tensors of a function and one of those may have an element in common."""
    named, other = ({t.name: t for t in ts} for ts in (some, others))
    over = _partners(f)
    if not named.keys().isdisjoint(other) or any(not over[name].isdisjoint(other) for name in named if name in over):
        return True
    return any_share_bytes(named.values(), other.values())


def any_share_bytes(some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    """Whether one of these tensors shares bytes of an arena with another one of those."""
    named, other = ({t.name: t for t in ts if t.offset is not None} for ts in (some, others))
    end = defaultdict[tuple[Scope, bool], int](int)  # of what begins before, in each arena, of these and of those
    for t in sorted({**named, **other}.values(), key=lambda t: t.offset or 0):
        begin, sides = t.offset or 0, [is_other for is_other, ts in ((False, named), (True, other)) if t.name in ts]
        if t.nbytes and any(begin < end[t.scope, not side] for side in sides):
            return True
        for side in sides:
            end[t.scope, side] = max(end[t.scope, side], begin + t.nbytes)
    return False


@memoised
def _partners(f: Func) -> Mapping[str, frozenset[str]]:
    """Parameter -> those that may lie where it does."""
    found = defaultdict[str, set[str]](set)
    for over in f.inplace:
        found[over.dst].add(over.src)
        found[over.src].add(over.dst)
    return {name: frozenset(names) for name, names in found.items()}


def _pays(loop: Loop) -> bool:
    """A vector that is mostly masked off is worth it only when it costs no gather, one that is empty by two thirds when no picking either.

    Picking every second element: max pooling to 7 columns takes 0.85 of the time of scalars, to 6 1.0, to 5 1.1; linear interpolation to 6
    0.5 (f32, 16 lanes, one Zen 5 core).
    """
    count = constant(loop.extent)
    if count is None or count * 2 >= loop.lanes:
        return True
    widest = CLOSE if count * 3 >= loop.lanes else 1
    return all(0 <= (loop.step(i) or 0) <= widest for x in _loads(loop) for i in x.index)


# ---- widening --------------------------------------------------------------------------------------------------------


def widen(loop: Loop, e: Expr, base: Expr, mask: Expr | None) -> Expr:
    """The vector of values of e in the iterations base .. base + lanes - 1; memory that holds something is read where the mask says so."""
    if not loop.varies(e) or (isinstance(e, Load) and not e.index and e.tensor.name not in loop.registers):
        return Broadcast(e, loop.lanes)
    step = loop.step(e) if type_of(e)[0] is INDEX and not isinstance(e, Load) else None
    if step is not None:
        return Ramp(substitute(e, {loop.var.name: base}), step, loop.lanes)
    match e:
        case Load() if e.tensor.name in loop.registers:
            return Load(replace(e.tensor, lanes=loop.lanes), ())
        case Load() if loop.step(e.index[0]) == 0:
            return Broadcast(substitute(e, {loop.var.name: base}), loop.lanes)
        case Load():
            return Load(e.tensor, loop.vector_index(e.index, base), loop.mask_of(e.tensor, e.index, mask))
    return map_parts(e, lambda p: widen(loop, p, base, mask))
