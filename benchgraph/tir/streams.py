"""What a loop reads sequentially, vector by vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.tir.affine import Linear, Ranges, linear, to_expr
from benchgraph.tir.build import add, constant, mul
from benchgraph.tir.ir import Expr, For, Load, Prefetch, Ramp, Scope, Store, Tensor
from benchgraph.tir.visit import bound_names, loads, variables


@dataclass(frozen=True)
class Stream:
    """Contiguous memory of a tensor: index of the first element, and bytes."""

    tensor: Tensor
    begin: Expr
    nbytes: int

    def shifted(self, elements: int, ranges: Ranges) -> Stream:
        """The stream that begins so many elements later."""
        form = linear(self.begin)
        return replace(self, begin=to_expr(replace(form, constant=form.constant + elements), ranges))

    def prefetch_in(self, loop: For) -> Prefetch:
        """A prefetch of the part of one iteration of a loop."""
        each = ceil(self.nbytes / (constant(loop.extent) or 1))
        step = ceil(each * 8 / self.tensor.dtype.bits)
        return Prefetch(self.tensor, (add(self.begin, mul(loop.var, step)),), ceil(each / LINE_BYTES))


def is_larger_than_l2(t: Tensor, target: Target) -> bool:
    """Whether a tensor is a parameter that does not fit L2."""
    return t.scope is Scope.param and t.nbytes > target.l2_bytes


def streams(loop: For, ranges: Ranges, target: Target) -> Iterator[Stream]:
    """The streams of parameters larger than L2 that a loop reads without gaps. ranges: those around the loop."""
    read = dict[Stream, dict[int, int]]()  # lanes of vectors, by their offset within what one iteration advances
    names, extent = bound_names(loop), constant(loop.extent) or 0
    for tensor, at in vectors(loads(loop.body)):
        if not is_larger_than_l2(tensor, target):
            continue
        form = linear(at.base)
        step = form.terms.get(loop.var, 0)
        others = Linear({atom: c for atom, c in form.terms.items() if atom != loop.var}, form.constant)
        if step > 0 and not any(names & variables(atom) for atom in others.terms):
            offset = form.constant % step
            begin = to_expr(replace(others, constant=form.constant - offset), ranges)
            read.setdefault(Stream(tensor, begin, tensor.dtype.nbytes(step * extent)), {})[offset] = at.lanes
    for stream, lanes in read.items():
        if stream.tensor.dtype.nbytes(sum(lanes.values()) * extent) >= stream.nbytes:
            yield stream


def vectors(accesses: Iterable[Load | Store]) -> Iterator[tuple[Tensor, Ramp]]:
    """Tensor and index of the accesses that are contiguous or strided vectors."""
    for access in accesses:
        if access.index and isinstance(at := access.index[0], Ramp):
            yield access.tensor, at
