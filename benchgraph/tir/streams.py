"""What a loop reads from end to end, vector by vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from benchgraph.core.target import LINE_BYTES, Target
from benchgraph.tir.affine import Linear, Ranges, linear, to_expr
from benchgraph.tir.build import add, constant, mul
from benchgraph.tir.ir import Expr, For, Load, Prefetch, Ramp, Scope, Store, Tensor
from benchgraph.tir.visit import bound_names, loads, variables


@dataclass(frozen=True)
class Stream:
    """A run of a tensor that lies in memory: where it begins, and bytes of it."""

    tensor: Tensor
    begin: Expr
    nbytes: int

    def further(self, elements: int, ranges: Ranges) -> Stream:
        """The one that begins so many elements behind this one."""
        form = linear(self.begin)
        return replace(self, begin=to_expr(replace(form, constant=form.constant + elements), ranges))

    def prefetch_in(self, loop: For) -> Prefetch:
        """An iteration's part."""
        each = ceil(self.nbytes / (constant(loop.extent) or 1))
        step = ceil(each * 8 / self.tensor.dtype.bits)
        return Prefetch(self.tensor, (add(self.begin, mul(loop.var, step)),), ceil(each / LINE_BYTES))


def is_larger_than_l2(t: Tensor, target: Target) -> bool:
    """A parameter that L2 does not hold."""
    return t.scope is Scope.param and t.nbytes > target.l2_bytes


def streams(loop: For, ranges: Ranges, target: Target) -> Iterator[Stream]:
    """What a loop reads, all of it, of parameters that L2 does not hold. ranges: inside of the loop around it."""
    read = dict[Stream, dict[int, int]]()  # lanes, by where they lie in what one iteration reads
    names, extent = bound_names(loop), constant(loop.extent) or 0
    for tensor, at in vectors(loads(loop.body)):
        if not is_larger_than_l2(tensor, target):
            continue
        form = linear(at.base)
        by = form.terms.get(loop.var, 0)
        others = Linear({atom: c for atom, c in form.terms.items() if atom != loop.var}, form.constant)
        if by > 0 and not any(names & variables(atom) for atom in others.terms):
            place = form.constant % by
            begin = to_expr(replace(others, constant=form.constant - place), ranges)
            read.setdefault(Stream(tensor, begin, tensor.dtype.nbytes(by * extent)), {})[place] = at.lanes
    for stream, lanes in read.items():
        if stream.tensor.dtype.nbytes(sum(lanes.values()) * extent) >= stream.nbytes:
            yield stream


def vectors(accesses: Iterable[Load | Store]) -> Iterator[tuple[Tensor, Ramp]]:
    """Those of whole vectors, and where."""
    for access in accesses:
        if access.index and isinstance(at := access.index[0], Ramp):
            yield access.tensor, at
