"""Instructions of stores, and those that a statement executes."""

from __future__ import annotations

from math import inf

from benchgraph.tir.build import constant
from benchgraph.tir.ir import Const, Expr, For, If, Load, Random, Scope, Stmt, Store, Unary, Var
from benchgraph.tir.visit import children, parts

FUNCTION = 15  # of exp; other functions take more
RANDOM = 200  # of a random number: ten rounds of Philox


def executed(s: Stmt) -> float:
    """Instructions of all iterations, without those of products and packings; inf if an extent is not constant."""
    match s:
        case For():
            extent = constant(s.extent)
            return inf if extent is None else extent * executed(s.body)
        case If():
            return max(map(executed, children(s)), default=0)
        case Store():
            return instructions(s)
    return sum(map(executed, children(s)))


def instructions(s: Store, function: int = FUNCTION) -> int:
    """Of a store, without address computation. function: of a unary operation."""
    return _instructions(s.value, function) + (s.tensor.scope is not Scope.register)


def _instructions(e: Expr, function: int) -> int:
    match e:
        case Load():
            return int(e.tensor.scope is not Scope.register)
        case Const() | Var():
            return 0
        case Unary():
            return function + _instructions(e.a, function)
        case Random():
            return RANDOM + sum(_instructions(part, function) for part in parts(e))
        case _:
            return 1 + sum(_instructions(part, function) for part in parts(e))
