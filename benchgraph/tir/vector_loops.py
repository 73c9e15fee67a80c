"""Which loops can be vectorised, and vector forms of their expressions: the analysis behind the vectorise pass."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchgraph.core.dtypes import DType
from benchgraph.core.philox import BLOCK
from benchgraph.machine.target import LINE_BYTES, Target, lanes_for
from benchgraph.tir import ir
from benchgraph.tir.affine import linear
from benchgraph.tir.build import constant, type_of
from benchgraph.tir.instructions import FUNCTION, instructions
from benchgraph.tir.visit import loads_of, map_parts, parts, statements, substitute, variables, walk, walk_expr

MOST_STRIDE = 4  # elements between lanes up to which code generation loads and stores whole vectors and permutes them
STRIDED_STORE_BITS = 32  # narrowest elements stored so: it needs masks, with which LLVM 22 stores too much of narrower ones (vectorise)
SCATTERED_INSTRUCTIONS = 2 * FUNCTION  # which cost more in scalars than scattering the vector of their results (vectorisation.md)
LINE_LANES = 8 * LINE_BYTES // DType.f32.bits  # of registers of a line's size (AVX-512)


def largest_store_stride(dtype: DType) -> int:
    """The largest stride of a vector that is stored by whole vectors of memory."""
    return MOST_STRIDE if dtype.bits >= STRIDED_STORE_BITS else 1


def neutral(op: ir.BinOp, dtype: DType) -> ir.Const:
    """The identity of an operator."""
    if op in (ir.BinOp.add, ir.BinOp.mul):
        value = 0 if op is ir.BinOp.add else 1
        return ir.Const(float(value) if dtype.is_float else value, dtype)
    if dtype.is_float:
        return ir.Const(math.inf if op.by_order is ir.BinOp.min else -math.inf, dtype)
    least, most = dtype.range
    wide = (-(2**63), 2**63 - 1) if dtype is DType.s64 else (int(least), int(most))
    return ir.Const(wide[1] if op.by_order is ir.BinOp.min else wide[0], dtype)


@dataclass(frozen=True)
class Reduction:
    """A store tensor[index] = op(tensor[index], value)."""

    store: ir.Store
    op: ir.BinOp
    value: ir.Expr


@dataclass(frozen=True)
class Loop:
    """A loop that can run in vectors of `lanes` iterations, each from a multiple of `lanes` on.

    registers: names of those declared inside, which become vectors. stores: all of body, in nested loops and conditions too.
    """

    var: ir.Var
    extent: ir.Expr
    lanes: int
    body: tuple[ir.Stmt, ...]
    stores: tuple[ir.Store, ...]
    registers: frozenset[str]
    reductions: tuple[Reduction, ...] = ()

    @property
    def loads(self) -> Iterator[ir.Load]:
        return (load for c in self.stores for e in (*c.index, c.value) for load in loads_of(e))

    @property
    def accesses(self) -> list[ir.Load | ir.Store]:
        """The loads, and the stores that are not to registers of the loop."""
        return [*self.loads, *(c for c in self.stores if c.tensor.name not in self.registers)]

    def step(self, i: ir.Expr) -> int | None:
        """By how much an index grows per iteration within a vector; None if that is not a constant."""
        form = linear(i)
        total = form.terms.get(self.var, 0)
        for atom, k in form.terms.items():
            if atom != self.var and self.varies(atom):
                step = self._step_of_division(atom)
                if step is None:
                    return None
                total += k * step
        return total

    def _step_of_division(self, atom: ir.Expr) -> int | None:
        """The step of x // c or x % c, if no vector crosses a multiple of c, as in a reshape of rows of whole vectors.

        That holds if x is invariant, or if c and all terms of x but the variable's are multiples of what a vector spans.
        """
        match atom:
            case ir.Binary(ir.BinOp.floordiv | ir.BinOp.mod as op, x, ir.Const(value=c)):
                if self.step(x) == 0:
                    return 0
                form = linear(x)
                step = form.terms.get(self.var, 0)
                others = [k for a, k in form.terms.items() if a != self.var]
                is_whole = step > 0 and all(k % (step * self.lanes) == 0 for k in (*others, form.constant, int(c)))
                if is_whole and not any(self.varies(a) for a in form.terms if a != self.var):
                    return 0 if op is ir.BinOp.floordiv else step
        return None

    def is_even(self, i: ir.Expr) -> bool:
        """Whether an index grows by `step` from one vector to the next too."""
        return not any(atom != self.var and self.varies(atom) for atom in linear(i).terms)

    def varies(self, e: ir.Expr) -> bool:
        """Whether e depends on the variable or on registers of the loop."""
        return self.var.name in variables(e) or any(load.tensor.name in self.registers for load in loads_of(e))

    def vector_index(self, at: tuple[ir.Expr, ...], base: ir.Expr) -> tuple[ir.Expr, ...]:
        step = self.step(at[0])
        assert step is not None, "loop_of accepts only indices with a step"
        return (ir.Ramp(substitute(at[0], {self.var.name: base}), step, self.lanes),)

    def mask_of(self, t: ir.Tensor, at: tuple[ir.Expr, ...], mask: ir.Expr | None) -> ir.Expr | None:
        """The mask of an access in the last vector: none if the padding of the row holds the excess lanes."""
        count = constant(self.extent)
        is_whole = bool(t.padding) and count is not None and -count % self.lanes <= t.padding and self.step(at[0]) == 1
        return None if is_whole else mask


def loop_of(s: ir.For, target: Target, *, fills_lines: bool = True) -> Loop | None:
    """The loop if it can be vectorised, else None. fills_lines: with vectors that are as wide as a line, where these go past the caches."""
    loop = _loop_of_lanes(s, target.lanes)
    wider = 0 if loop is None else _lanes_of_random_blocks(loop) or (_lanes_of_lines(loop) if fills_lines else 0)
    return (_loop_of_lanes(s, wider) if wider else None) or loop


def _loop_of_lanes(s: ir.For, most_lanes: int) -> Loop | None:
    """The loop in vectors of so many lanes, or of fewer if these hold all iterations."""
    body = statements(s.body)
    if not any(isinstance(c, ir.Store) for c in body):
        return None  # mostly loops around others
    inner = [c for stmt in body for c in walk(stmt) if not isinstance(c, ir.Seq)]
    stores = tuple(c for c in inner if isinstance(c, ir.Store))
    allocs = [c.tensor for c in inner if isinstance(c, ir.Alloc)]
    if any(not isinstance(c, ir.Alloc | ir.Store | ir.For | ir.If) for c in inner):
        return None
    if any(t.scope is not ir.Scope.register or t.lanes > 1 for t in allocs):
        return None
    loop = Loop(s.var, s.extent, most_lanes, body, stores, frozenset(t.name for t in allocs))
    if len(inner) > len(body) and not _is_uniform(loop):
        return None
    if not all(_can_widen(loop, e) for c in stores for e in (*c.index, c.value)):
        return None
    reductions: list[Reduction] = []
    for c in stores:
        if c.tensor.name in loop.registers:
            continue
        step = loop.step(c.index[0]) if c.index else 0
        reduced = reduction(c) if step == 0 and all(map(loop.is_even, c.index)) else None
        if c.mask is not None or (reduced is None and not _is_storable(loop, c.tensor, step)):
            return None
        reductions += [reduced] if reduced is not None else []
    lanes = lanes_for(constant(s.extent), most_lanes) if _is_contiguous(loop) else most_lanes
    loop = replace(loop, reductions=tuple(reductions), lanes=lanes)
    return loop if _is_independent(loop) and _pays(loop) else None


def _lanes_of_lines(loop: Loop) -> int:
    """Lanes of a line of narrow results that go past the caches, if a register is a line and the lanes divide the loop, or are masked; else
    0. 0 for functions, which take longer than memory."""
    bits = min((c.tensor.dtype.bits for c in loop.stores if c.non_temporal), default=DType.f32.bits)
    lanes, count = 8 * LINE_BYTES // bits, constant(loop.extent)
    fits = lanes > loop.lanes == LINE_LANES and (count is None or count % lanes == 0) and sum(map(instructions, loop.stores)) < FUNCTION
    return lanes if fits and _is_contiguous(loop) else 0


def _lanes_of_random_blocks(loop: Loop) -> int:
    """Lanes for as many Philox blocks as a vector has lanes, if the loop draws consecutive numbers from the start of a block on; else 0.
    With fewer lanes, blocks would not fill the vectors that they are computed in (docs/measurements/random-numbers.md)."""
    drawn = (e for c in loop.stores for e in walk_expr(c.value) if isinstance(e, ir.Random))
    starts = (linear(substitute(e.index, {loop.var.name: ir.Const(0)})) for e in drawn if loop.step(e.index) == 1)
    return BLOCK * loop.lanes if any(start.is_multiple(BLOCK) for start in starts) else 0


def _is_uniform(loop: Loop) -> bool:
    """Whether nested loops and conditions are the same in all iterations, store only to registers, and read contiguous elements.

    Reductions over taps of windows are such: each vector of x runs through all taps. Reductions over rows are not, as neighbouring
    iterations read different rows: their inner loop is vectorised.
    """
    inside = [c for stmt in loop.body if not isinstance(stmt, ir.Alloc | ir.Store) for c in walk(stmt)]  # in nested blocks, too
    controls = [c.extent if isinstance(c, ir.For) else c.cond for c in inside if isinstance(c, ir.For | ir.If)]
    stores = [c for c in inside if isinstance(c, ir.Store)]
    return (
        not any(loop.varies(e) for e in controls)
        and all(c.kind is ir.LoopKind.serial for c in inside if isinstance(c, ir.For))
        and not any(isinstance(c, ir.Alloc) for c in inside)
        and all(c.tensor.name in loop.registers for c in stores)
        and all(loop.step(i) in (0, 1) for c in stores for load in loads_of(c.value) for i in load.index)
    )


def _is_contiguous(loop: Loop) -> bool:
    """Whether all loads and stores are contiguous. Strided ones are slower with few lanes (docs/measurements/vectorisation.md)."""
    return all(loop.step(i) in (0, 1) for x in loop.accesses for i in x.index)


def _can_widen(loop: Loop, e: ir.Expr) -> bool:
    match e:
        case ir.Load():
            if e.mask is not None or len(e.index) > 1 or (e.tensor.lanes > 1):
                return False
            return all(loop.step(i) is not None for i in e.index)
        case ir.Ramp() | ir.Broadcast() | ir.ReduceLanes():
            return False
        case ir.Binary(ir.BinOp.floordiv | ir.BinOp.mod, _, divisor) if loop.varies(e) and not is_power_of_two(divisor):
            return False  # no vector instruction divides integers; a power of two shifts and masks
    return all(_can_widen(loop, p) for p in parts(e))


def _is_storable(loop: Loop, t: ir.Tensor, step: int | None) -> bool:
    """Whether a vector of this stride should be stored: contiguous; else of wide elements with a small stride or many instructions."""
    if step is None or step < 1 or t.dtype.bits < STRIDED_STORE_BITS:
        return step == 1
    return step <= MOST_STRIDE or sum(map(instructions, loop.stores)) >= SCATTERED_INSTRUCTIONS


def is_power_of_two(e: ir.Expr) -> bool:
    value = constant(e)
    return value is not None and value > 0 and value & (value - 1) == 0


def reduction(s: ir.Store) -> Reduction | None:
    """The store as a reduction into the element that it stores; None if it is something else."""
    match s.value:
        case ir.Binary(op, ir.Load(tensor=t, index=at), value) if op in ir.REDUCING_OPS and t == s.tensor and at == s.index:
            return Reduction(s, op, value)
    return None


def _is_independent(loop: Loop) -> bool:
    """Whether no iteration accesses what another one stores, reductions aside."""
    every = loop.accesses
    stores = [c for c in every if isinstance(c, ir.Store)]
    reduced, written = {r.store.tensor.name for r in loop.reductions}, {c.tensor.name for c in stores}
    indices = defaultdict[str, list[tuple[ir.Expr, ...]]](list)
    for x in every:
        indices[x.tensor.name].append(x.index)
    for c in stores:
        others = indices[c.tensor.name]
        if c.tensor.name in reduced:
            if others.count(c.index) != 2 or not all(index == c.index or _differ(c.index, index) for index in others):
                return False
        elif not all(_never_overlap(loop, c.index, index) for index in others):
            return False
    return not any(load.tensor.name in written for x in every for i in x.index for load in loads_of(i))


def _differ(a: tuple[ir.Expr, ...], b: tuple[ir.Expr, ...]) -> bool:
    """Whether two indices of one tensor, of which no part depends on the loop, are never equal."""
    gap = linear(a[0]).minus(linear(b[0]))
    return not gap.terms and gap.constant != 0


def _never_overlap(loop: Loop, a: tuple[ir.Expr, ...], b: tuple[ir.Expr, ...]) -> bool:
    """Whether two indices of one tensor are never equal in two different iterations of one vector."""
    gap = linear(a[0]).minus(linear(b[0]))
    count = constant(loop.extent)
    return not gap.terms and (gap.constant == 0 or (count is not None and abs(gap.constant) >= count and loop.is_even(a[0])))


def _pays(loop: Loop) -> bool:
    """Whether one vector pays: a mostly masked one only without gathers, one with under a third of its lanes only if contiguous.

    Measurements: docs/measurements/vectorisation.md.
    """
    count = constant(loop.extent)
    if count is None or count * 2 >= loop.lanes:
        return True
    widest = MOST_STRIDE if count * 3 >= loop.lanes else 1
    return all(0 <= (loop.step(i) or 0) <= widest for x in loop.loads for i in x.index)


# ---- widening --------------------------------------------------------------------------------------------------------


def widen(loop: Loop, e: ir.Expr, base: ir.Expr, mask: ir.Expr | None) -> ir.Expr:
    """The vector of values of e in the iterations base .. base + lanes - 1, with loads under the mask."""
    if not loop.varies(e) or (isinstance(e, ir.Load) and not e.index and e.tensor.name not in loop.registers):
        return ir.Broadcast(e, loop.lanes)
    step = loop.step(e) if type_of(e)[0] is ir.INDEX and not isinstance(e, ir.Load) else None
    if step is not None:
        return ir.Ramp(substitute(e, {loop.var.name: base}), step, loop.lanes)
    match e:
        case ir.Load() if e.tensor.name in loop.registers:
            return ir.Load(replace(e.tensor, lanes=loop.lanes), ())
        case ir.Load() if loop.step(e.index[0]) == 0:
            return ir.Broadcast(substitute(e, {loop.var.name: base}), loop.lanes)
        case ir.Load():
            return ir.Load(e.tensor, loop.vector_index(e.index, base), loop.mask_of(e.tensor, e.index, mask))
    return map_parts(e, lambda p: widen(loop, p, base, mask))
