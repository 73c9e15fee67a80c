"""Which part of a tensor a statement touches: the evidence that passes need before they move or merge anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from benchgraph.tir.affine import ANYTHING, Linear, Range, Ranges, bounds, inside, linear, linear_bounds
from benchgraph.tir.index import assume
from benchgraph.tir.ir import Brgemm, Expr, For, If, Load, Pack, Ramp, Seq, Slice, Stmt, Store, Tensor, Var
from benchgraph.tir.operands import Operand, operands
from benchgraph.tir.visit import bound_names, exprs, loads_of, tensor_names, users, variables


@dataclass(frozen=True)
class Access:
    """One load or store, or one operand of a microkernel or a packing.

    spans: what a slice adds to the index in each dim, (least, most); (0, 0) for one element. ranges: those in force there.
    """

    tensor: Tensor
    index: tuple[Expr, ...]
    spans: tuple[Range, ...]
    is_store: bool
    ranges: Ranges


Extent: TypeAlias = tuple[Linear, float, float]  # base, first, last: the indices base + first .. base + last, both included


def pitch(load: Load, var: Var) -> int:
    """Elements of memory that a load moves by as a variable grows by one, as far as its indices are linear in it."""
    return sum(linear(i).terms.get(var, 0) * stride for i, stride in zip(load.index, load.tensor.strides, strict=True))


def accesses_of(name: str, s: Stmt, ranges: Ranges, *, is_lasting: bool = False) -> Iterator[Access]:
    """Every access inside s to the tensor of this name, as `accesses` gives them; statements without any cost nothing.

    is_lasting: s is asked about many tensors before it changes, so that its blocks had better know which statements use which.
    """
    if name not in tensor_names(s):
        return
    match s:
        case For():
            yield from _loaded(s, ranges, name)
            yield from accesses_of(name, s.body, inside(s, ranges), is_lasting=is_lasting)
        case If():
            yield from _loaded(s, ranges, name)
            yield from accesses_of(name, s.then, assume(s.cond, ranges, holds=True), is_lasting=is_lasting)
            if s.orelse is not None:
                yield from accesses_of(name, s.orelse, assume(s.cond, ranges, holds=False), is_lasting=is_lasting)
        case Seq():
            for c in (s.stmts[at] for at in users(s)[name]) if is_lasting else s.stmts:
                if name in tensor_names(c):  # a generator for each that is to give nothing would take longer
                    yield from accesses_of(name, c, ranges, is_lasting=is_lasting)
        case Store():
            yield from _loaded(s, ranges, name)
            if s.tensor.name == name:
                yield _stored(s, ranges)
        case _:
            yield from (a for a in accesses(s, ranges) if a.tensor.name == name)


def accesses(s: Stmt, ranges: Ranges) -> Iterator[Access]:
    """Every access inside s, in program order: the loads of a statement before its store."""
    yield from _loaded(s, ranges)
    match s:
        case For():
            yield from accesses(s.body, inside(s, ranges))
        case If():
            yield from accesses(s.then, assume(s.cond, ranges, holds=True))
            if s.orelse is not None:
                yield from accesses(s.orelse, assume(s.cond, ranges, holds=False))
        case Seq():
            for c in s.stmts:
                yield from accesses(c, ranges)
        case Store():
            yield _stored(s, ranges)
        case Brgemm() | Pack():
            *read, written = operands(s)
            for o in read:
                yield _operand(o, False, ranges)
            if isinstance(s, Brgemm) and s.accumulate:
                yield _operand(written, False, ranges)
            yield _operand(written, True, ranges)


def _loaded(s: Stmt, ranges: Ranges, name: str | None = None) -> Iterator[Access]:
    """What the expressions of this statement alone load, of the tensor of this name if one is given."""
    for e in exprs(s):
        for p in loads_of(e):
            if name is None or p.tensor.name == name:
                yield Access(p.tensor, p.index, tuple(map(_lanes, p.index)), False, ranges)


def _stored(s: Store, ranges: Ranges) -> Access:
    return Access(s.tensor, s.index, tuple(map(_lanes, s.index)), True, ranges)


def _lanes(i: Expr) -> Range:
    last = (i.lanes - 1) * i.stride if isinstance(i, Ramp) else 0
    return min(last, 0), max(last, 0)


def _operand(o: Operand, is_store: bool, ranges: Ranges) -> Access:
    index = o.piece.index if isinstance(o.piece, Slice) else (o.piece.offset,)
    return Access(o.piece.tensor, index, o.spans(), is_store, ranges)


def position(i: Expr) -> Linear:
    """The linear form of an index: of its first lane for a ramp."""
    return linear(i.base if isinstance(i, Ramp) else i)


def extent(a: Access, dim: int, inner: frozenset[str]) -> Extent:
    """What the access touches along a dim while the variables named `inner` run and all others stand still."""
    base, moving = position(a.index[dim]).split(inner)
    lo, hi = linear_bounds(moving, a.ranges)
    return Linear(base.terms), base.constant + lo + a.spans[dim][0], base.constant + hi + a.spans[dim][1]


def is_partitioned(found: Sequence[Access], var: str, inner: frozenset[str]) -> bool:
    """True when two values of var never touch the same element, in whichever of these accesses (all of one tensor).

    That is certain when, along some dim, every access has the index var*c + base + something within a window of c, with one c and one
    base for all of them. What is farther apart does not count: a multiple of m, if all that var reaches lies within m, as with the
    columns of panels, row by row: no*16 + i*64 + 0..15, no in 4. inner: the variables that the loop on var defines inside.
    """
    return any(_partitions(found, dim, var, inner) for dim in range(len(found[0].index)))


def _partitions(found: Sequence[Access], dim: int, var: str, inner: frozenset[str]) -> bool:
    first, last = [], []
    steps, bases, apart = set[int](), list[Linear](), 0
    for a in found:
        form = position(a.index[dim])
        step = form.terms.get(Var(var), 0)
        rest = form.minus(Linear({Var(var): step} if step else {}))
        if step <= 0 or any(var in variables(atom) for atom in rest.terms):
            return False
        base, moving = rest.split(inner)
        far = {atom: c for atom, c in moving.terms.items() if abs(c) > step and not _stands_still(atom, a.ranges)}
        lo, hi = linear_bounds(moving.minus(Linear(far)), a.ranges)
        steps.add(step)
        bases.append(Linear(base.terms))
        first.append(base.constant + lo + a.spans[dim][0])
        last.append(base.constant + hi + a.spans[dim][1])
        apart = gcd(apart, *far.values())
    if len(steps) > 1 or any(b != bases[0] for b in bases):
        return False
    (step,), window = steps, max(last) - min(first)
    if not apart or window >= step:
        return window < step
    reach = [a.ranges.get(var, ANYTHING) for a in found]
    return step * (max(most for _, most in reach) - min(least for least, _ in reach)) + window < apart


def _stands_still(e: Expr, ranges: Ranges) -> bool:
    least, most = bounds(e, ranges)
    return least == most


def by_tensor(s: Stmt, ranges: Ranges) -> dict[str, list[Access]]:
    """Tensor name -> its accesses inside s, in program order."""
    found: dict[str, list[Access]] = {}
    for a in accesses(s, ranges):
        found.setdefault(a.tensor.name, []).append(a)
    return found


def inner_names(loop: For) -> frozenset[str]:
    """The loop variables defined inside a loop, not its own."""
    return bound_names(loop.body)
