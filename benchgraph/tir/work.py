"""How long a statement takes on one thread, roughly: enough to tell what is too short to be shared out among threads.

Waking a thread that spins and waiting for it costs 0.4 us in our pool, 0.8 to 1.8 us in GNU OpenMP (an empty loop, best of 2,000 calls in
a row, Cascade Lake at 2.5 GHz), so a loop that is to save that much takes longer than REGION_NS by itself. Shared out between two threads
of a Zen 4 instead of run by one, one call after the other: 128 x 256 by one column 0.8 us instead of 1.2, 256 x 256 1.3 instead of 2.3.
"""

from __future__ import annotations

from math import inf, prod

from benchgraph.core.target import Target
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Brgemm, Const, Expr, For, If, Load, Pack, Random, Scope, Stmt, Store, Unary, Var
from benchgraph.tir.post_ops import loops
from benchgraph.tir.visit import children, parts

REGION_NS = 700.0
STEP_NS = 0.2  # one instruction on a vector, two of which begin in a cycle
FUNCTION = 15  # instructions of exp; others take more
RANDOM = 200  # of a random number: ten rounds
MACS_PER_NS = 4.0  # of one lane's group of 32 bits, two instructions in a cycle
BYTES_PER_NS = 32.0  # of weights, from a second-level cache
CALL_NS = 10.0  # of a microkernel, its tiles' ends included


def pays_in_parallel(loop: For, target: Target, step: float = STEP_NS) -> bool:
    """Whether sharing a loop out among all cores saves more time than it costs. step: as for `nanoseconds`."""
    saved = 1 - 1 / target.cores
    return target.shares_all or (saved > 0 and nanoseconds(loop, target, REGION_NS / saved, step) > REGION_NS / saved)


def nanoseconds(s: Stmt, target: Target, enough: float = inf, step: float = STEP_NS) -> float:
    """Of data in cache; inf where an extent is not known. Nothing is counted beyond `enough`.

    step: of one instruction; where loops are not in vectors yet, of a lane's part of one.
    """
    match s:
        case For():
            extent = constant(s.extent)
            return inf if extent is None else extent * nanoseconds(s.body, target, enough / max(extent, 1), step)
        case If():
            return max((nanoseconds(branch, target, enough, step) for branch in children(s)), default=0.0)
        case Store():
            return step * steps(s)
        case Brgemm():
            macs, wei = s.m * s.n * s.k * prod(s.batch), s.wei.tensor.dtype.nbytes(s.n * s.k * prod(s.batch))
            post_ops = 0.0 if s.post_ops is None else nanoseconds(loops(s, s.post_ops), target, enough, step)
            return CALL_NS + max(macs / (MACS_PER_NS * target.lanes * s.group), wei / BYTES_PER_NS) + post_ops
        case Pack():
            return CALL_NS + STEP_NS * s.k * s.n / target.lanes
        case _:
            total = 0.0
            for c in children(s):
                total += nanoseconds(c, target, enough - total, step)
                if total > enough:
                    break
            return total


def steps(s: Store, function: int = FUNCTION) -> int:
    """Instructions of a store, but for those that find out where elements lie. function: of a unary operation."""
    return _steps(s.value, function) + (s.tensor.scope is not Scope.register)


def _steps(e: Expr, function: int) -> int:
    match e:
        case Load():
            return int(e.tensor.scope is not Scope.register)
        case Const() | Var():
            return 0
        case Unary():
            return function + _steps(e.a, function)
        case Random():
            return RANDOM + sum(_steps(part, function) for part in parts(e))
        case _:
            return 1 + sum(_steps(part, function) for part in parts(e))
