"""Which elements of a tensor statements access: what passes must know before they move or fuse statements."""

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

    spans: offsets of a slice from the index in each dim, (least, most); (0, 0) for one element. ranges: of variables around the access.
    """

    tensor: Tensor
    index: tuple[Expr, ...]
    spans: tuple[Range, ...]
    is_store: bool
    ranges: Ranges


Extent: TypeAlias = tuple[Linear, float, float]  # base, first, last: the indices base + first .. base + last, both included


def stride_along(load: Load, var: Var) -> int:
    """Elements of memory between loads for successive values of a variable, as far as indices are linear in it."""
    return sum(linear(i).terms.get(var, 0) * stride for i, stride in zip(load.index, load.tensor.strides, strict=True))


def accesses_of(name: str, s: Stmt, ranges: Ranges, *, memoise_users: bool = False) -> Iterator[Access]:
    """Every access inside s to the tensor of this name, as from `accesses`; skips statements without any.

    memoise_users: memoise in the blocks of s which statements use which tensor, as many queries about s follow.
    """
    if name in tensor_names(s):
        yield from _accesses(s, ranges, name, memoise_users)


def accesses(s: Stmt, ranges: Ranges) -> Iterator[Access]:
    """Every access inside s, in program order: the loads of a statement before its store."""
    return _accesses(s, ranges, None, False)


def _accesses(s: Stmt, ranges: Ranges, name: str | None, memoise_users: bool) -> Iterator[Access]:
    """name: None for all tensors, else that of one which s uses."""
    yield from _loaded(s, ranges, name)
    match s:
        case For():
            yield from _nested(s.body, inside(s, ranges), name, memoise_users)
        case If():
            yield from _nested(s.then, assume(s.cond, ranges, holds=True), name, memoise_users)
            if s.orelse is not None:
                yield from _nested(s.orelse, assume(s.cond, ranges, holds=False), name, memoise_users)
        case Seq():
            for c in s.stmts if name is None or not memoise_users else (s.stmts[at] for at in users(s)[name]):
                if name is None or name in tensor_names(c):  # cheaper than a generator for each statement
                    yield from _accesses(c, ranges, name, memoise_users)
        case Store():
            if name is None or s.tensor.name == name:
                yield Access(s.tensor, s.index, tuple(map(_lanes, s.index)), True, ranges)
        case Brgemm() | Pack():
            *read, written = operands(s)
            every = [*((o, False) for o in read), *(((written, False),) if isinstance(s, Brgemm) and s.accumulate else ()), (written, True)]
            yield from (_operand(o, is_store, ranges) for o, is_store in every if name is None or o.slice.tensor.name == name)


def _nested(s: Stmt, ranges: Ranges, name: str | None, memoise_users: bool) -> Iterator[Access]:
    return _accesses(s, ranges, name, memoise_users) if name is None or name in tensor_names(s) else iter(())


def _loaded(s: Stmt, ranges: Ranges, name: str | None = None) -> Iterator[Access]:
    """The loads of this statement's own expressions."""
    for e in exprs(s):
        for p in loads_of(e):
            if name is None or p.tensor.name == name:
                yield Access(p.tensor, p.index, tuple(map(_lanes, p.index)), False, ranges)


def _lanes(i: Expr) -> Range:
    last = (i.lanes - 1) * i.stride if isinstance(i, Ramp) else 0
    return min(last, 0), max(last, 0)


def _operand(o: Operand, is_store: bool, ranges: Ranges) -> Access:
    index = o.slice.index if isinstance(o.slice, Slice) else (o.slice.offset,)
    return Access(o.slice.tensor, index, o.spans(), is_store, ranges)


def position(i: Expr) -> Linear:
    """The linear form of an index: of its first lane for a ramp."""
    return linear(i.base if isinstance(i, Ramp) else i)


def extent(a: Access, dim: int, inner: frozenset[str]) -> Extent:
    """The indices of a dim that an access touches over all values of the variables named `inner`, all others fixed."""
    base, moving = position(a.index[dim]).split(inner)
    lo, hi = linear_bounds(moving, a.ranges)
    return Linear(base.terms), base.constant + lo + a.spans[dim][0], base.constant + hi + a.spans[dim][1]


def is_partitioned(accesses: Sequence[Access], var: str, inner: frozenset[str]) -> bool:
    """Whether accesses (all of one tensor) with two different values of var never touch the same element.

    That holds if along some dim every access has an index var*c + base + x, with one c and base for all and x in a window of less than c.
    Larger terms that are multiples of some m are ignored if var*c + window stays less than m, as in columns of panels by rows:
    no*16 + i*64 + 0..15, where no < 4. inner: the variables defined inside the loop on var.
    """
    return any(_partitions(accesses, dim, var, inner) for dim in range(len(accesses[0].index)))


def _partitions(accesses: Sequence[Access], dim: int, var: str, inner: frozenset[str]) -> bool:
    first, last = [], []
    steps, bases, spacing = set[int](), list[Linear](), 0
    for a in accesses:
        form = position(a.index[dim])
        step = form.terms.get(Var(var), 0)
        rest = form.minus(Linear({Var(var): step} if step else {}))
        if step <= 0 or any(var in variables(atom) for atom in rest.terms):
            return False
        base, moving = rest.split(inner)
        far = {atom: c for atom, c in moving.terms.items() if abs(c) > step and not _is_constant(atom, a.ranges)}
        lo, hi = linear_bounds(moving.minus(Linear(far)), a.ranges)
        steps.add(step)
        bases.append(Linear(base.terms))
        first.append(base.constant + lo + a.spans[dim][0])
        last.append(base.constant + hi + a.spans[dim][1])
        spacing = gcd(spacing, *far.values())
    if len(steps) > 1 or any(b != bases[0] for b in bases):
        return False
    (step,), window = steps, max(last) - min(first)
    if not spacing or window >= step:
        return window < step
    reach = [a.ranges.get(var, ANYTHING) for a in accesses]
    return step * (max(most for _, most in reach) - min(least for least, _ in reach)) + window < spacing


def _is_constant(e: Expr, ranges: Ranges) -> bool:
    least, most = bounds(e, ranges)
    return least == most


def by_tensor(s: Stmt, ranges: Ranges) -> dict[str, list[Access]]:
    """Tensor name -> its accesses inside s, in program order."""
    by_name: dict[str, list[Access]] = {}
    for a in accesses(s, ranges):
        by_name.setdefault(a.tensor.name, []).append(a)
    return by_name


def inner_names(loop: For) -> frozenset[str]:
    """Names of the loop variables defined inside a loop, without its own."""
    return bound_names(loop.body)
