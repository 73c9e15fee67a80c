"""Tensor IR functions drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from benchgraph.tir.build import add, binary, f32, minimum, mul, seq, sub, unary
from benchgraph.tir.ir import Alloc, BinOp, Const, Expr, Func, If, LoopKind, Stmt, Tensor, UnOp, Var, tensor
from tests.support.tir_programs import F32, at, loop, param, put


class Maker:
    """Draws nests over the rows of m x n tensors; each nest fills one or two tensors from those filled before."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.m, self.n = draw(st.sampled_from([1, 2, 5, 9])), draw(st.sampled_from([1, 3, 16, 19, 70]))
        self.x, self.y = param("x", self.m, self.n), param("y", self.m, self.n)
        self.filled = [self.x]  # by nests before: any row may be read
        self.current: list[Tensor] = []  # in this nest: only the same row may be read
        self.temporaries: list[Tensor] = []
        self.numbers = iter(range(1000))

    def flip(self) -> bool:
        return self.draw(st.booleans())

    def var(self, stem: str) -> Var:
        return Var(f"{stem}{next(self.numbers)}")

    def temporary(self, *shape: int) -> Tensor:
        self.temporaries.append(tensor(f"t{next(self.numbers)}", F32, shape))
        return self.temporaries[-1]

    def function(self) -> Func:
        nests = [self.nest([self.temporary(self.m, self.n) for _ in range(1 + self.flip())]) for _ in range(self.draw(st.integers(1, 3)))]
        nests.append(self.nest([self.y]))
        return Func("random", (self.x, self.y), seq(*(Alloc(t) for t in self.temporaries), *nests))

    def nest(self, dsts: list[Tensor]) -> Stmt:
        """Plain, in tiles with a ragged last one, or with the first row in a branch of its own."""
        i, style, kind = self.var("i"), self.draw(st.sampled_from(["plain", "tiles", "branch"])), self.draw(st.sampled_from(LoopKind))
        if style == "tiles":
            o, tile = self.var("o"), self.draw(st.integers(1, 4))
            inner = loop(i, minimum(tile, sub(self.m, mul(o, tile))), self.rows(dsts, add(mul(o, tile), i)))
            result = replace(loop(o, -(-self.m // tile), inner), kind=kind)
        elif style == "branch":
            branch = If(binary(BinOp.lt, i, Const(1)), self.rows(dsts, i), self.rows(dsts, i))
            result = replace(loop(i, self.m, branch), kind=kind)
        else:
            result = replace(loop(i, self.m, self.rows(dsts, i)), kind=kind)
        self.filled += dsts
        return result

    def rows(self, dsts: list[Tensor], row: Expr) -> Stmt:
        self.current = []
        stmts = []
        for dst in dsts:
            how: Callable[[Tensor, Expr, Var], Stmt] = self.draw(st.sampled_from([self.mapped, self.folded, self.scanned, self.reversed]))
            stmts.append(how(dst, row, self.var("j")))
            self.current.append(dst)
        return seq(*stmts)

    def source(self, row: Expr, j: Expr) -> Expr:
        src = self.draw(st.sampled_from([*self.filled, *self.current]))
        column = self.draw(st.sampled_from([j, sub(self.n - 1, j), Const(0)]))
        other_row = src not in self.current and self.flip()
        return at(src, sub(self.m - 1, row) if other_row else row, column)

    def mapped(self, dst: Tensor, row: Expr, j: Var) -> Stmt:
        return loop(j, self.n, put(dst, row, j, value=unary(UnOp.tanh, binary(BinOp.add, self.source(row, j), self.source(row, j)))))

    def folded(self, dst: Tensor, row: Expr, j: Var) -> Stmt:
        total = self.temporary(self.m, 1)
        op = self.draw(st.sampled_from([BinOp.max, BinOp.add, BinOp.sub]))
        step = put(total, row, 0, value=binary(op, at(total, row, 0), self.source(row, j)))
        spread = loop(j, self.n, put(dst, row, j, value=binary(BinOp.sub, at(total, row, 0), self.source(row, j))))
        return seq(put(total, row, 0, value=f32(0.25)), loop(j, self.n, step), spread)

    def scanned(self, dst: Tensor, row: Expr, j: Var) -> Stmt:
        """Each element from the one before it."""
        step = put(dst, row, add(j, 1), value=binary(BinOp.mul, binary(BinOp.add, at(dst, row, j), self.source(row, j)), f32(0.5)))
        return seq(put(dst, row, 0, value=f32(1.0)), loop(j, self.n - 1, step))

    def reversed(self, dst: Tensor, row: Expr, j: Var) -> Stmt:
        """Through a scratch row that each iteration fills anew."""
        scratch = self.temporary(self.n)
        fill = loop(j, self.n, put(scratch, j, value=self.source(row, j)))
        return seq(fill, loop(j, self.n, put(dst, row, j, value=at(scratch, sub(self.n - 1, j)))))


@st.composite
def functions(draw: st.DrawFn) -> Func:
    return Maker(draw).function()
