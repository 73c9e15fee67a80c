"""The iteration space that several ops share, and the axes of each value in it. Decides whether ops can share a nest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from benchgraph.core.memoise import memoised_within
from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import Graph, Op
from benchgraph.ops.spec import Contraction, Elementwise, LayoutOp, Reduction, Window

Axes: TypeAlias = tuple[int | None, ...]
T = TypeVar("T")


@dataclass
class Domain:
    """extents: the nest's axes. axes[v]: for each dim of v the axis that runs along it, None for dims of size 1; values from outside of the
    nest have no entry. reduced: the axes that are reduced. scattered: values that a layout op writes. written: buffers that the ops write.
    has_whole_rows: one loop runs through each row, so that axes may be reduced; a window cuts its rows into borders and interior.
    """

    extents: Shape
    axes: dict[int, Axes] = field(default_factory=dict)
    reduced: frozenset[int] = frozenset()
    scattered: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    has_whole_rows: bool = True


def reduction_axes(op: Op, rank: int) -> tuple[int, ...]:
    """The attribute `axes`, non-negative and sorted."""
    return tuple(sorted(a % rank for a in op.attrs.integers("axes")))


@memoised_within
def trace(g: Graph, ops: Iterable[Op]) -> Domain | None:
    """The domain of these ops, in order, or None when they cannot share one."""
    domain: Domain | None = None
    for op in ops:
        if domain is None:
            domain = _begin(g, op)
        elif not _join(g, domain, op):
            return None
        domain.written.update(map(g.root, op.outs))
    return domain


def domain_of(g: Graph, ops: Iterable[Op]) -> Domain:
    """The domain of ops that share a nest."""
    domain = trace(g, ops)
    assert domain is not None, "fusion puts only ops of one domain into a stage"
    return domain


def extended(g: Graph, domain: Domain, op: Op) -> Domain | None:
    """A domain with one more op, or None when that cannot share it; the given one does not change."""
    longer = replace(domain, axes=dict(domain.axes), scattered=set(domain.scattered), written=set(domain.written))
    if not _join(g, longer, op):
        return None
    longer.written.update(map(g.root, op.outs))
    return longer


def _axes(shape: Shape) -> Axes:
    return tuple(i if extent != 1 else None for i, extent in enumerate(shape))


def _begin(g: Graph, op: Op) -> Domain:
    out, src = g.value(op.outs[0]), g.value(op.ins[0])
    if not op.lowering.is_reduction:
        return Domain(out.shape, dict.fromkeys(op.outs, _axes(out.shape)), has_whole_rows=not op.lowering.is_window)
    reduced = reduction_axes(op, len(src.shape))
    domain = Domain(src.shape, reduced=frozenset(reduced))
    domain.axes[out.id] = _after_reduction(op, _axes(src.shape), reduced)
    return domain


def _after_reduction(op: Op, axes: Axes, reduced: tuple[int, ...]) -> Axes:
    if op.attrs.flag("keep_dims"):
        return tuple(None if i in reduced else a for i, a in enumerate(axes))
    return tuple(a for i, a in enumerate(axes) if i not in reduced)


def _join(g: Graph, d: Domain, op: Op) -> bool:
    if any(v not in d.axes and g.root(v) in d.written for v in op.ins):
        return False  # it reads what this nest writes at other indices, or through other views
    match op.lowering.form:
        case Elementwise():
            return _join_elementwise(g, d, op)
        case Reduction():
            return _join_reduction(g, d, op)
        case LayoutOp() as form:
            src = op.ins[0]
            if form.target is None or src not in d.axes or g.value(op.outs[0]).layout.blocks:
                return False
            d.scattered.add(op.outs[0])
            return True
        case Contraction() | Window() | None:
            return False


def _join_elementwise(g: Graph, d: Domain, op: Op) -> bool:
    out = g.value(op.outs[0])
    axes: list[int | None] = [None] * len(out.shape)
    for v in op.ins:
        if v not in d.axes:
            continue
        shift = len(out.shape) - len(d.axes[v])
        for i, axis in enumerate(d.axes[v]):
            if axis is None:
                continue
            if axes[i + shift] not in (None, axis):
                return False
            axes[i + shift] = axis
    same_rank = len(out.shape) == len(d.extents)
    for i, extent in enumerate(out.shape):
        if extent != 1 and axes[i] is None:
            if not same_rank or d.extents[i] != extent or i in axes:
                return False
            axes[i] = i
        if extent != 1 and d.extents[axes[i] or 0] != extent:
            return False
    used = [a for a in axes if a is not None]
    if len(set(used)) != len(used):
        return False
    d.axes.update(dict.fromkeys(op.outs, tuple(a if extent != 1 else None for a, extent in zip(axes, out.shape, strict=True))))
    return True


def _join_reduction(g: Graph, d: Domain, op: Op) -> bool:
    src = op.ins[0]
    axes = d.axes.get(src)
    if axes is None and d.reduced and g.value(src).shape == d.extents:
        axes = _axes(d.extents)  # an operand from outside, reduced along with those that this nest reduces already
    if axes is None or not d.has_whole_rows:
        return False
    reduced = reduction_axes(op, len(axes))
    over = {axes[i] for i in reduced if g.value(src).shape[i] != 1}
    if None in over or not over or (d.reduced and over != d.reduced):
        return False
    d.reduced = frozenset(a for a in over if a is not None)
    d.axes[op.outs[0]] = _after_reduction(op, axes, reduced)
    return True


def right_aligned(at: tuple[T, ...], rank: int, zero: T) -> tuple[T, ...]:
    """The last `rank` of a result's coordinates, after zeros where an operand has more dims than the result."""
    return (zero,) * (rank - len(at)) + at[max(len(at) - rank, 0) :]
