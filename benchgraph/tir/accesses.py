"""Which elements of a tensor statements access: what passes must know before they move or fuse statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from benchgraph.core.memoise import memoised
from benchgraph.tir.affine import ANYTHING, Linear, Range, Ranges, bounds, linear, linear_bounds
from benchgraph.tir.index import within
from benchgraph.tir.ir import Brgemm, Expr, For, Func, If, Pack, Ramp, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.operands import operands
from benchgraph.tir.visit import bound_names, declared_names, exprs, loads_of, tensor_names, users, variables, written


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


def accesses_of(name: str, s: Stmt, ranges: Ranges) -> Iterator[Access]:
    """Every access inside s to the tensor of this name, in program order: the loads of a statement before its store."""
    if name not in tensor_names(s):
        return
    for e in exprs(s):
        for x in loads_of(e):
            if x.tensor.name == name:
                yield Access(x.tensor, x.index, tuple(map(_lanes, x.index)), False, ranges)
    match s:
        case Seq():
            for at in users(s)[name]:
                yield from accesses_of(name, s.stmts[at], ranges)
        case For() | If():
            for c, narrowed in within(s, ranges):
                yield from accesses_of(name, c, narrowed)
        case Store() if s.tensor.name == name:
            yield Access(s.tensor, s.index, tuple(map(_lanes, s.index)), True, ranges)
        case Brgemm() | Pack():
            *read, written = operands(s)
            every = [*((o, False) for o in read), *(((written, False),) if isinstance(s, Brgemm) and s.accumulate else ()), (written, True)]
            for o, is_store in every:
                if o.slice.tensor.name == name:
                    yield Access(o.slice.tensor, o.slice.index, o.spans(), is_store, ranges)


def _lanes(i: Expr) -> Range:
    last = (i.lanes - 1) * i.stride if isinstance(i, Ramp) else 0
    return min(last, 0), max(last, 0)


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


def are_independent(a: For, b: For, ranges: Ranges, names: Iterable[str] | None = None) -> bool:
    """Whether no iteration of one loop accesses what a different iteration of the other, or of itself, writes. Both have the same variable.
    names: of the tensors in question, by default of all that are declared outside. ranges: those around the loops."""
    inner = bound_names(a.body) | bound_names(b.body)
    if names is None:
        names = ((tensor_names(a) & tensor_names(b)) - declared_names(a) - declared_names(b)) & {t.name for t in written(a) | written(b)}
    for name in names:
        of_a, of_b = (list(accesses_of(name, s, ranges)) for s in (a, b))
        if of_a and of_b and not is_partitioned(of_a + of_b, a.var.name, inner):  # a tensor that one only prefetches has no accesses there
            return False
    return True


def by_tensor(s: Stmt, ranges: Ranges) -> dict[str, list[Access]]:
    """Tensor name -> its accesses inside s, in program order."""
    return {name: found for name in tensor_names(s) if (found := list(accesses_of(name, s, ranges)))}


# ---- memory that tensors share ---------------------------------------------------------------------------------------


def any_alias(f: Func, some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    """Whether one of these tensors of a function and one of those may share memory, all of which one statement accesses.

    Of temporaries that one statement accesses, or a microkernel and the statement after it, plan-buffers lays out none over another.
    """
    first, second = ({t.name for t in ts} for ts in (some, others))
    partners = _inplace_partners(f)
    return not first.union(*(partners.get(name, ()) for name in first)).isdisjoint(second)


@memoised
def _inplace_partners(f: Func) -> Mapping[str, frozenset[str]]:
    """Parameter -> those that the caller may bind to its memory."""
    partners = defaultdict[str, set[str]](set)
    for pair in f.inplace:
        partners[pair.dst].add(pair.src)
        partners[pair.src].add(pair.dst)
    return {name: frozenset(names) for name, names in partners.items()}
