"""The context that every part of the GEMM template shares: one task, which is mb rows of one batch entry of a nest.

A task knows the variables of the loops around it. It gives addresses of operands and results inside the task, and loops over its rows and
columns. It depends on no other file of the template, so all of them can use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import FusedOp, Graph, Op
from benchgraph.gir.parameters import Parameters
from benchgraph.gir.product import K, acc_axes, acc_dtype, operand_axes, product
from benchgraph.lower.region import Span
from benchgraph.lower.storage import ZERO, Coord, Coords, Element, Storage
from benchgraph.ops.spec import Indices
from benchgraph.tir.build import add, binary, block_size, in_blocks, mul, one_block, seq
from benchgraph.tir.ir import BinOp, Const, Expr, For, If, Load, LoopKind, Slice, Stmt, Store, Tensor, Var

ColumnBody: TypeAlias = Callable[[Expr, int], Stmt]  # (number of the column block, its width) -> statements
RowAt: TypeAlias = Callable[[Expr], Coords]  # number of a row -> its coordinates in dst


@dataclass(frozen=True)
class GemmTask:
    """shape: batch axes and rows of the nest. batch: variables of the loops over the batch axes. row_block: number of the block of mb rows
    (mo in the paper and in Tensor IR). column_block: number of the block of nb columns (no) where the loop over them is the nest's
    outermost, else None."""

    storage: Storage
    node: FusedOp
    shape: Shape
    batch: tuple[Var, ...]
    row_block: Var
    column_block: Var | None

    @classmethod
    def of(cls, storage: Storage, node: FusedOp) -> GemmTask:
        shape = storage.g.value(next(op for op in node.ops if op.lowering.is_contraction).outs[0]).shape[:-1]
        batch, row_block = tuple(storage.var("b") for _ in shape[:-1]), storage.var("mo")
        return cls(storage, node, shape, batch, row_block, storage.var("no") if node.panels_first else None)

    @property
    def g(self) -> Graph:
        return self.storage.g

    @property
    def m(self) -> int:
        return self.shape[-1]

    @property
    def mb(self) -> int:
        return self.node.mb

    @property
    def products(self) -> list[Op]:
        return [stage.ops[0] for stage in self.node.stages if stage.is_product]

    def parameters(self, op: Op) -> Parameters:
        """Those of a product."""
        (found,) = (stage.parameters for stage in self.node.stages if stage.ops[0] is op)
        assert found is not None, "schedule gives every product its parameters"
        return found

    @property
    def kind(self) -> LoopKind:
        """Of the loops over tasks."""
        return LoopKind.serial if self.node.is_serial else LoopKind.parallel

    @property
    def batch_spans(self) -> tuple[Span, ...]:
        return tuple(Span(Const(1), outer=var) for var in self.batch)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The task's batch entry and rows, as the first axes of a region."""
        return (*self.batch_spans, Span(block_size(self.m, self.mb, self.row_block), self.row_block, self.mb))

    def for_rows(self, body: Callable[[int], Stmt]) -> Stmt:
        """body(rows of the task): once, or in a branch for each number of rows that tasks have."""
        tail = self.m % self.mb
        if not tail:
            return body(self.mb)
        if self.m < self.mb:
            return body(tail)
        is_full = binary(BinOp.le, add(mul(self.row_block, self.mb), self.mb), Const(self.m))
        return If(is_full, body(self.mb), body(tail))

    def by_columns(self, n: int, nb: int, body: ColumnBody) -> Stmt:
        """A loop over the full column blocks, and the narrower one after it."""
        column_block = self.column_block or self.storage.var("no")
        if self.node.split_n:
            block, count = one_block(n, nb, column_block, body)
            return block if self.column_block else For(column_block, Const(count), block, self.kind)
        return in_blocks(n, nb, column_block, body) if n else body(ZERO, 0)  # a reduction over no columns still has its initial value

    def by_panels(self, so: Expr, width: int, ns: int, nb: int, body: ColumnBody) -> Stmt:
        """Loops over the panels of nb columns within the so-th block of ns columns, which has `width` of them."""
        first = mul(so, ns // nb)
        return in_blocks(width, nb, self.storage.var("no"), lambda column_block, columns: body(add(first, column_block), columns))

    def by_rows_and_columns(self, n: int, nb: int, body: ColumnBody) -> Stmt:
        """`by_columns` in a branch for each number of rows: post-ops on a fixed number of rows can be fused into the microkernel. Nests of
        several products get no such branches: they gain little and take longer to compile (docs/measurements/lowering.md)."""
        if len(self.products) > 1:
            return self.by_columns(n, nb, body)
        if self.node.split_n:
            return self.by_columns(n, nb, lambda column_block, width: self.for_rows(lambda _: body(column_block, width)))
        return self.for_rows(lambda _: self.by_columns(n, nb, body))

    def row(self, i: Expr) -> Coords:
        """The coordinates of the task's i-th row."""
        return (*map(Coord, self.batch), Coord(i, self.row_block, self.mb))

    def start(self, column_block: Expr, nb: int) -> Coords:
        """The coordinates in dst of the task's first row and of the first column of a block."""
        return (*self.row(ZERO), Coord(ZERO, column_block, nb))

    def operand(self, op: Op, port: int, start: Coords, k: Coord, taps: Indices | None = None) -> Slice:
        """The slice of src (0) or wei (1) for dst's rows and columns from `start` on, from k on. taps: where the other reduced axes begin,
        if not at 0."""
        axes = operand_axes(self.g, op, port)
        assert axes is not None, "propagate-layout leaves no unreadable operand"
        return Slice(*self.address(op, port, start, k, taps), axes)

    def address(self, op: Op, port: int, start: Coords, k: Coord, taps: Indices | None = None) -> Element:
        """The first element of such a slice."""
        return self.storage.element(op.ins[port], self.coords(op, port, start, k, taps))

    def coords(self, op: Op, port: int, start: Coords, k: Coord, taps: Indices | None = None) -> Coords:
        """Its coordinates in src or wei."""
        p = product(self.g, op)
        index = p.form.index(p.call, tuple(c.value for c in start), (*(taps or (ZERO,) * (len(p.over) - 1)), k.value))[port]
        known: dict[Expr, Coord] = {**dict(zip(p.at, start, strict=True)), K: k}
        return tuple(known.get(symbol, Coord(e)) for symbol, e in zip(p.operands[port], index, strict=True))

    def result(self, op: Op, coords: Coords) -> Slice | None:
        """The slice of dst from these coordinates on; None where the microkernel cannot write there."""
        axes = acc_axes(self.g, op)
        return None if axes is None else Slice(*self.storage.element(op.outs[0], coords), axes)


@dataclass(frozen=True)
class Accumulator:
    """The memory in which a product sums: its result, or a temporary of the same shape where the microkernel cannot write the result."""

    task: GemmTask
    op: Op
    temporary: Tensor | None

    @classmethod
    def of(cls, task: GemmTask, op: Op) -> Accumulator:
        shape, is_written = task.g.value(op.outs[0]).shape, acc_axes(task.g, op) is not None
        return cls(task, op, None if is_written else task.storage.temporary(acc_dtype(task.g, op), shape))

    def slice(self, start: Coords) -> Slice:
        if self.temporary is None:
            result = self.task.result(self.op, start)
            assert result is not None
            return result
        return Slice(self.temporary, tuple(c.value for c in start), ((len(start) - 2, 1), (len(start) - 1, 1)))

    def element(self, at: Coords) -> Element:
        if self.temporary is None:
            return self.task.storage.element(self.op.outs[0], at)
        return self.temporary, tuple(c.value for c in at)

    def update(self, row: RowAt, rows: Expr, nb: int, value: Callable[[Load, Expr], Expr]) -> Stmt:
        """Every element of these rows becomes value(element, number of its row)."""
        i, j = self.task.storage.var("i"), self.task.storage.var("j")

        def columns(column_block: Expr, width: int) -> Stmt:
            element = self.element((*row(i), Coord(j, column_block, nb)))
            return For(j, Const(width), Store(*element, value(Load(*element), i)))

        return For(i, rows, self.task.by_columns(self.task.g.value(self.op.outs[0]).shape[-1], nb, columns))

    def copy(self, row: RowAt, rows: Expr, column_block: Expr, nb: int, columns: int) -> Stmt:
        """Copy a block of columns of these rows from the temporary, if there is one, to the result."""
        if self.temporary is None:
            return seq()
        i, j = self.task.storage.var("i"), self.task.storage.var("j")
        at = (*row(i), Coord(j, column_block, nb))
        return For(i, rows, For(j, Const(columns), self.task.storage.store(self.op.outs[0], at, Load(*self.element(at)))))


def transposed(matrix: Slice) -> Slice:
    rows, columns = matrix.axes
    return replace(matrix, axes=(columns, rows))
