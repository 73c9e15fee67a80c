"""Estimated time of a statement on one thread, to tell loops that are too short to run in parallel."""

from __future__ import annotations

from math import inf, prod

from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Brgemm, Const, Expr, For, If, Load, Pack, Random, Scope, Stmt, Store, Unary, Var
from benchgraph.tir.operands import post_op_loops
from benchgraph.tir.visit import children, parts

FUNCTION = 15  # instructions of exp; others take more
RANDOM = 200  # of a random number: ten rounds of Philox


def pays_in_parallel(loop: For, target: Target) -> bool:
    """Whether running a loop on all cores saves more time than fork and join take."""
    saved = 1 - 1 / target.cores
    if target.shares_all or saved <= 0:
        return target.shares_all
    least = table(target).fork_join_ns / saved
    return nanoseconds(loop, target, least) > least


def nanoseconds(s: Stmt, target: Target, enough: float = inf) -> float:
    """Time with data in cache; inf if an extent is not constant. Stops counting at `enough`."""
    rates = table(target)
    match s:
        case For():
            extent = constant(s.extent)
            return inf if extent is None else extent * nanoseconds(s.body, target, enough / max(extent, 1))
        case If():
            return max((nanoseconds(branch, target, enough) for branch in children(s)), default=0.0)
        case Store():
            return rates.vector_step_ns * instructions(s)
        case Brgemm():
            macs, wei = s.m * s.n * s.k * prod(s.batch), s.wei.tensor.dtype.nbytes(s.n * s.k * prod(s.batch))
            post_ops = 0.0 if s.post_ops is None else nanoseconds(post_op_loops(s, s.post_ops), target, enough)
            multiplied = macs / (rates.macs_per_ns * target.lanes * s.group)
            return rates.microkernel_call_ns + max(multiplied, wei / rates.l2_bytes_per_ns) + post_ops
        case Pack():
            return rates.microkernel_call_ns + rates.vector_step_ns * s.k * s.n / target.lanes
        case _:
            total = 0.0
            for c in children(s):
                total += nanoseconds(c, target, enough - total)
                if total > enough:
                    break
            return total


def instructions(s: Store, function: int = FUNCTION) -> int:
    """Instructions of a store, without address computation. function: those of a unary operation."""
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
