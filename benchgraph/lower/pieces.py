"""Products whose wei is packed on the fly (gir/on_the_fly_packing.py), or is read in pieces as it lies,
each by one call that is as wide:

for so in N / ns:
  for ko in K / ks:
    [panel anchor: make wei[ko*ks:+ks, so*ns:+ns]]
    for no in ns / nb:
      acc[mo, no] += brgemm(src[mo, ko*ks:+ks], wei[ko*ks:+ks, no])       the first one begins the sum
                     [meanwhile a part is fetched of what the next piece is packed from]
  for no in ns / nb:
    [tile anchor]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from benchgraph.gir.domain import trace
from benchgraph.gir.ir import Cut, Stage
from benchgraph.gir.product import product
from benchgraph.lower.access import ZERO, Coord
from benchgraph.lower.packing import Packing, packing
from benchgraph.lower.region import Region, Span
from benchgraph.tir.build import add, in_blocks, mul, seq, sub
from benchgraph.tir.groups import SIDE_BY_SIDE
from benchgraph.tir.ir import Const, Expr, For, Prefetch, Stmt

if TYPE_CHECKING:
    from benchgraph.lower.gemm import ColumnBody, GemmNest

At: TypeAlias = tuple[Expr, Expr]  # (ko, so) of a piece


@dataclass(frozen=True)
class Part:
    """So many steps of k, from outer * step on. adds: to the sum over what comes before them. ahead: what is fetched meanwhile."""

    outer: Expr
    step: int
    size: int
    adds: bool
    ahead: tuple[Prefetch, ...] = ()

    def begins_in(self, kb: int) -> Coord:
        """Where it begins, counted in blocks of kb if it begins with a whole one."""
        whole, rest = divmod(self.step, kb)
        return Coord(mul(self.outer, self.step)) if rest else Coord(ZERO, mul(self.outer, whole), kb)


class Pieces:
    """One product of a nest, and the stages that make its pieces, in order."""

    def __init__(self, nest: GemmNest, stage: Stage, makers: tuple[Stage, ...]) -> None:
        self.nest, self.stage, self.op = nest, stage, stage.ops[0]
        self.makers = tuple((maker, packing(nest.storage, maker.ops)) for maker in makers)
        assert stage.parameters is not None
        self.acc = nest.scratch_of(self.op)
        self.nb, self.ks, self.ns = stage.nb, stage.parameters.ks, stage.parameters.ns
        *_, self.n = nest.g.value(self.op.outs[0]).shape
        self.k = product(nest.g, self.op).reduced[-1]
        self.fetched = self.makers[0][1] if stage.parameters.ahead else None

    def columns(self, then: ColumnBody) -> Stmt:
        """The result, piece by piece. then: what is done with each panel of it that is there."""
        return self.nest.columns_of_task(self.n, self.ns, lambda so, width: self._columns(so, width, then))

    def _columns(self, so: Expr, width: int, then: ColumnBody) -> Stmt:
        last, behind = ceil(self.k / self.ks) - 1, (ZERO, add(so, 1))
        rest = self.k - last * self.ks
        is_apart = last > 0 and (rest < self.ks or self.fetched is not None)  # the piece behind the last one is of other columns
        parts = [self._piece((ZERO, so), self.ks, width, (Const(1), so) if last else behind)]
        if last > is_apart:
            ko = self.nest.storage.var("ko")
            parts.append(For(ko, Const(last - is_apart), self._piece((add(ko, 1), so), self.ks, width, (add(ko, 2), so), adds=True)))
        if is_apart:
            parts.append(self._piece((Const(last), so), rest, width, behind, adds=True))
        return seq(*parts, self._by_panels(so, width, lambda no, columns: seq(self._brought(no, columns), then(no, columns))))

    def _by_panels(self, so: Expr, width: int, body: ColumnBody) -> Stmt:
        """The panels of a piece of so many columns."""
        return self.nest.by_panels(so, width, self.ns, self.nb, body)

    def _piece(self, at: At, size: int, width: int, following: At, *, adds: bool = False) -> Stmt:
        """What is done with a piece of `size` rows and so many columns; following: the piece that comes after it."""
        nest, op, ks, (ko, so) = self.nest, self.op, self.ks, at

        def summed(no: Expr, columns: int, nb: int) -> Stmt:
            acc, _ = nest.target(op, no, nb, self.acc)
            part = Part(ko, ks, size, adds, tuple(self._ahead(following, sub(no, mul(so, self.ns // nb)))))
            return nest.for_rows(lambda rows: nest.call(op, no, columns, nb, rows, acc, part))

        if not self.makers:
            return summed(so, width, self.ns)
        made = (self._made(maker, whole, ko, size, so, width) for maker, whole in self.makers)
        return seq(*made, self._by_panels(so, width, lambda no, columns: summed(no, columns, self.nb)))

    def _ahead(self, following: At, call: Expr) -> Iterator[Prefetch]:
        """The part that a call fetches of what the following piece is packed from. All calls of a piece fetch all of it."""
        ko, so = following
        if self.fetched is None:
            return
        if self.fetched.reads_rows:
            each = ceil(self.ks * self.nb / self.ns)
            yield self.fetched.ahead(Coord(mul(call, each), ko, self.ks), Coord(ZERO, so, self.ns), each, self.ns)
        else:
            yield self.fetched.ahead(Coord(ZERO, ko, self.ks), Coord(mul(call, self.nb), so, self.ns), self.ks, self.nb)

    def _brought(self, no: Expr, columns: int) -> Stmt:
        _, copied = self.nest.target(self.op, no, self.nb, self.acc)
        return self.nest.for_rows(lambda rows: copied(rows, columns))

    def _made(self, maker: Stage, whole: Packing | None, ko: Expr, size: int, so: Expr, width: int) -> Stmt:
        """What a stage makes for `size` rows from ko * ks on, in the columns of a piece; whole: the stage, if it packs."""
        nest = self.nest
        if whole is not None:
            return self._packed(whole, ko, size, so, width)
        domain = trace(nest.g, maker.ops)
        assert domain is not None
        spans = [Span(Const(extent), tile=max(extent, 1)) for extent in domain.extents]
        for cut, outer, count, tile in zip(maker.cuts, (ko, so), (size, width), (self.ks, self.ns), strict=True):
            if cut is not None:
                spans[cut.axis] = _span(cut, outer, count, tile)
        return Region(nest.storage, domain, tuple(spans)).emit(maker.ops)

    def _packed(self, whole: Packing, ko: Expr, size: int, so: Expr, width: int) -> Stmt:
        """The panels of a piece; of several, a few rows of all of them at a time, which are read as they lie."""
        entry = (Coord(ZERO),) * (len(whole.dst.shape) - 2)
        if self.ns == self.nb:
            return whole.panel(entry, so, width, Coord(ZERO, ko, self.ks), size)

        def rows(r: Expr, count: int) -> Stmt:
            k = Coord(mul(r, SIDE_BY_SIDE), ko, self.ks)
            return self._by_panels(so, width, lambda no, columns: whole.panel(entry, no, columns, k, count))

        return in_blocks(size, SIDE_BY_SIDE, self.nest.storage.var("r"), rows)


def _span(cut: Cut, outer: Expr, count: int, tile: int) -> Span:
    """So many indices of the loop, from outer * tile on, as indices of the axis."""
    return Span(Const(count // cut.unit), outer, tile // cut.unit)
