"""Common subexpression elimination: an expression used more than once gets a register, as a tree might have exponential size.

e = exp(x);  y = (e + 1) * e      ->      alloc e: f32 register
                                          e = exp(x)
                                          y = (e + 1) * e
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from benchgraph.core.memoise import memoised
from benchgraph.tir.build import type_of
from benchgraph.tir.ir import INDEX, Alloc, Binary, BinOp, Cast, Const, Expr, Load, Scope, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import map_parts, parts

_INDEX_ARITHMETIC = frozenset({BinOp.add, BinOp.sub, BinOp.mul, BinOp.floordiv, BinOp.mod})


def eliminate_common_subexpressions(values: tuple[Expr, ...], name: Callable[[], str]) -> tuple[list[Stmt], tuple[Expr, ...]]:
    """Statements that put common subexpressions into registers, and the values in terms of these. name: returns unused names.

    A subexpression is common if the same object is reached twice. Loads, casts of loads, and arithmetic on loop variables are repeated:
    they are cheap, and passes need to see them where they are used.
    """
    elimination = _Elimination(values, name)
    rebuilt = tuple(elimination.rebuilt(v) for v in values)
    return elimination.stmts, rebuilt


@memoised
def _is_cheap(e: Expr) -> bool:
    match e:
        case Var() | Const() | Load() | Cast(a=Load()):
            return True
        case Binary(op, a, b) if op in _INDEX_ARITHMETIC and type_of(e) == (INDEX, 1):
            return not any(isinstance(p, Load) for p in (a, b)) and _is_cheap(a) and _is_cheap(b)
    return False


class _Elimination:
    def __init__(self, values: tuple[Expr, ...], name: Callable[[], str]) -> None:
        self.name = name
        self.uses: Counter[int] = Counter()
        self.done: dict[int, Expr] = {}
        self.stmts: list[Stmt] = []
        for v in values:
            self._count(v)

    def _count(self, e: Expr) -> None:
        self.uses[id(e)] += 1
        if self.uses[id(e)] == 1 and not isinstance(e, Load):
            for p in parts(e):
                self._count(p)

    def rebuilt(self, e: Expr) -> Expr:
        """e with registers for common subexpressions, itself included."""
        if _is_cheap(e):
            return e
        if id(e) not in self.done:
            new = map_parts(e, self.rebuilt)
            if self.uses[id(e)] > 1:
                dtype, lanes = type_of(e)
                register = Tensor(self.name(), dtype, (), (), Scope.register, lanes=lanes)
                self.stmts += [Alloc(register), Store(register, (), new)]
                new = Load(register, ())
            self.done[id(e)] = new
        return self.done[id(e)]
