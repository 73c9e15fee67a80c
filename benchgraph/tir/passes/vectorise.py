"""vectorise: serial loops, mostly innermost ones, run in vectors of target.lanes elements, with a masked vector for the remainder.

    for j in 20 {                      ->  for j_v in 1 { y[j_v*16:+16] = exp(x[j_v*16:+16]) }
      y[j] = exp(x[j])                     y[16:+16] = exp((x[16:+16] where 0:+16 < x16(4))) where 0:+16 < x16(4)
    }
    for j in 64 { s = s + x[j] }       ->  four vector accumulators, which are added up and reduced into s after the loop
    for j in 64 { s = max(s, x[j]) }   ->  one for four vectors: v = max(max(max(max(v, x[..]), x[..]), x[..]), x[..])
    for j in 20 {                      ->  for j_v in 1 { r = 0, a vector of 16      (a nested loop that all iterations
      r = 0                                  for k in 3 {                             share runs on vectors)
      for k in 3 {                             r = r + x[k*64 + j_v*16:+16]
        r = r + x[k*64 + j]                  }
      }                                      y[j_v*16:+16] = r
      y[j] = r                             } ...
    }

Narrow results that are stored past the caches use more lanes, so that they fill a register, if the lanes divide the
loop and it computes no function. Loops that draw consecutive random numbers use lanes for as many Philox blocks as a register has lanes. A
loop stays scalar if a store is neither contiguous (or strided, of wide elements) nor a reduction, or if an iteration depends on another in
any other way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial, reduce

from benchgraph.machine.target import Target
from benchgraph.tir import ir
from benchgraph.tir.affine import Ranges
from benchgraph.tir.build import add, constant, floordiv, mod, mul
from benchgraph.tir.loops import map_loops, with_body
from benchgraph.tir.vector_loops import Loop, Reduction, loop_of, neutral, widen
from benchgraph.tir.visit import block, claim, map_children, names_of, substitute_all, walk

ACCUMULATORS = 4  # of a reduction; their number fixes the order of additions of floats, and so the result, on every machine alike


def vectorise(f: ir.Func, target: Target) -> ir.Func:
    taken = names_of(f)
    multiplies = any(isinstance(s, ir.Brgemm) for s in walk(f.body))  # post-ops must have the lanes of their microkernel

    def in_vectors(s: ir.For, ranges: Ranges) -> ir.Stmt | None:
        loop = loop_of(s, target, fills_lines=not multiplies) if s.kind is ir.LoopKind.serial else None
        return None if loop is None else _vectors(loop, taken)

    return with_body(f, map_loops(f.body, in_vectors))


def _vectors(loop: Loop, taken: set[str]) -> ir.Stmt:
    """The vector form of a loop: accumulators, full vectors, a masked remainder, and the reduction of the accumulators."""
    lanes, copies = loop.lanes, _copies(loop)
    accs = [[_accumulator(r, k, lanes, taken) for k in range(1 if _is_chained(loop) else copies)] for r in loop.reductions]
    parts: list[ir.Stmt] = []
    for r, group in zip(loop.reductions, accs, strict=True):
        for t in group:
            parts += [ir.Alloc(t), ir.Store(t, (), ir.Broadcast(neutral(r.op, t.dtype), lanes))]
    var = ir.Var(claim(f"{loop.var.name}_v", taken))
    rounds, full, rest = floordiv(loop.extent, copies * lanes), floordiv(loop.extent, lanes), mod(loop.extent, lanes)
    if constant(rounds) != 0:
        base = mul(var, copies * lanes)
        parts.append(ir.For(var, rounds, block(*_bodies(loop, [add(base, k * lanes) for k in range(copies)], accs))))
    left, first = mod(full, copies), mul(rounds, copies)  # full vectors after the rounds of all accumulators
    parts += _bodies(loop, [mul(add(first, k), lanes) for k in range(constant(left) or 0)], accs)
    parts += _remainder(loop, mul(full, lanes), rest, accs)
    return block(*parts, *(_finish(r, group) for r, group in zip(loop.reductions, accs, strict=True)))


def _remainder(loop: Loop, start: ir.Expr, rest: ir.Expr, accs: list[list[ir.Tensor]]) -> list[ir.Stmt]:
    """The `rest` iterations from `start` on, fewer than a vector has lanes."""
    if constant(rest) == 0:
        return []
    if constant(rest) == 1:  # LLVM 22 writes four bytes for a masked i8 or i16 (llvm-project issue 179489), and a scalar is cheaper
        return [substitute_all(block(*loop.body), {loop.var.name: start})]
    mask = ir.Binary(ir.BinOp.lt, ir.Ramp(ir.Const(0), 1, loop.lanes), ir.Broadcast(rest, loop.lanes))
    masked = _body(loop, start, accs, 0, mask)
    return [masked if constant(rest) is not None else ir.If(ir.Binary(ir.BinOp.gt, rest, ir.Const(0)), masked)]


def _copies(loop: Loop) -> int:
    """How many accumulators of each reduction hide its latency: several wherever there are vectors for them, in a loop of constant extent.
    Those of two reductions fill half the registers of the smallest target."""
    if not loop.reductions or (constant(loop.extent) or 0) // loop.lanes < ACCUMULATORS:
        return 1
    return ACCUMULATORS if len(loop.reductions) <= 2 else 2


def _is_chained(loop: Loop) -> bool:
    """Whether one accumulator takes several vectors at a time: of extremes that are NaN where an operand is, of which machine code checks
    two operands at once (codegen/expressions.py)."""
    return loop.body == tuple(r.store for r in loop.reductions) and all(r.op.keeps_nan for r in loop.reductions)


def _bodies(loop: Loop, bases: list[ir.Expr], accs: list[list[ir.Tensor]]) -> list[ir.Stmt]:
    """Vectors of iterations from each of the bases on."""
    if not (bases and _is_chained(loop)):
        return [_body(loop, base, accs, k) for k, base in enumerate(bases)]
    chains = ((r.op, acc, (widen(loop, r.value, base, None) for base in bases)) for r, (acc,) in zip(loop.reductions, accs, strict=True))
    return [ir.Store(acc, (), _chain(op, ir.Load(acc, ()), values)) for op, acc, values in chains]


def _chain(op: ir.BinOp, first: ir.Expr, others: Iterable[ir.Expr]) -> ir.Expr:
    return reduce(partial(ir.Binary, op), others, first)


def _accumulator(r: Reduction, k: int, lanes: int, taken: set[str]) -> ir.Tensor:
    return ir.Tensor(claim(f"{r.store.tensor.name}_v{k}", taken), r.store.tensor.dtype, (), (), ir.Scope.register, lanes=lanes)


def _body(loop: Loop, base: ir.Expr, accs: list[list[ir.Tensor]], copy: int, mask: ir.Expr | None = None) -> ir.Stmt:
    """One vector of iterations, base .. base + lanes - 1, as a block of its own."""
    reductions = {id(r.store): (r, group[copy]) for r, group in zip(loop.reductions, accs, strict=True)}  # by identity: one of loop.stmts

    def widened(s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.Alloc(t):
                return ir.Alloc(replace(t, lanes=loop.lanes))
            case ir.Store() if id(s) in reductions:
                return _accumulate(loop, *reductions[id(s)], base, mask)
            case ir.Store():
                return _store(loop, s, base, mask)
        return map_children(s, widened)

    stmts = tuple(map(widened, loop.body))
    return ir.Seq(stmts) if len(stmts) > 1 else stmts[0]


def _accumulate(loop: Loop, r: Reduction, acc: ir.Tensor, base: ir.Expr, mask: ir.Expr | None) -> ir.Stmt:
    """Accumulates by a masked store.

    Selecting the neutral element for inactive lanes instead would make LLVM 22 expand the vectors (docs/measurements/vectorisation.md).
    """
    return ir.Store(acc, (), ir.Binary(r.op, ir.Load(acc, ()), widen(loop, r.value, base, mask)), mask)


def _store(loop: Loop, s: ir.Store, base: ir.Expr, mask: ir.Expr | None) -> ir.Stmt:
    value = widen(loop, s.value, base, mask)
    if s.tensor.name in loop.registers:
        return ir.Store(replace(s.tensor, lanes=loop.lanes), (), value)
    return ir.Store(s.tensor, loop.vector_index(s.index, base), value, loop.mask_of(s.tensor, s.index, mask), s.non_temporal)


def _finish(r: Reduction, group: list[ir.Tensor]) -> ir.Stmt:
    """Reduce the accumulators into the element that the loop reduced into."""
    total = _chain(r.op, ir.Load(group[0], ()), (ir.Load(t, ()) for t in group[1:]))
    return ir.Store(r.store.tensor, r.store.index, ir.Binary(r.op, ir.Load(r.store.tensor, r.store.index), ir.ReduceLanes(r.op, total)))
