"""make-private: what some would make for all to read, each core makes for itself, where they would wait for its cache lines otherwise.

    for i in 16384 { t[i] = u8(x[i]) }      ->  parallel for no_w in 2 {
    parallel for no in 16 {                       for i in 16384 { t[i] = u8(x[i]) }
      brgemm y[no*64] = t[0] @ w[no]              for no in 8 { brgemm y[(no_w*8 + no)*64] = t[0] @ w[no_w*8 + no] }
    }                                           }

The others wait while it is made anyway, so making it again takes no time; reading as much as that takes may, so no more than is made. The
loop then has one task for each core, and none to even them out: only where what is saved is a part of it that can be felt. What the cores
make between them takes longer so, and only goes where it is quickly made. What tasks read a part of each stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil, inf, prod

from benchgraph.core.target import LINE_BYTES, Target
from benchgraph.tir.affine import bounds
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Alloc, Const, For, Func, LoopKind, Scope, Stmt, Tensor, Var
from benchgraph.tir.regions import by_tensor
from benchgraph.tir.tasks import is_parallel, on_one_thread, part
from benchgraph.tir.visit import (
    block,
    bound_names,
    fresh,
    map_children,
    map_tensors,
    statements,
    tensor_names,
    tensors,
    variables,
    walk,
    written,
)
from benchgraph.tir.work import STEP_NS, nanoseconds, pays_in_parallel

# A line that another core has written, among many of them. Two Granite Rapids cores, u8 16x1024 by s8 1024x1024: 7.6 us, of s8 that one of
# them makes u8 first, in 256 lines, 12.4; on one core 14.2 and 14.8. Attention of one head, whose keys each core then packs for itself,
# f32, times over those of keys that are packed once: 128 queries and keys of 64 0.65, 512 0.93.
LINE_NS = 16.0
# Of a line that one of the cores has written that make between them what all read: where, by `nanoseconds`, one core makes all in so much a
# line, which leaves out what turns take. Two threads, times with it over those without: gradients of weights, whose bf16 become f32 first,
# 1.2 ns, 0.31 to 0.39; transposed convolutions, whose weights are packed first, f32, 1.0 ns, 0.61 to 0.72, bf16, 3.5 ns, 0.98 to 1.14.
SHARED_LINE_NS = 2.0
# Times the size of L2: of what is more, most lines have left the core that made them before the others read them, and each core reads back
# what it has made itself. Two Zen 4 cores, weights of convolutions packed at every execution, f32, times of those that each core makes over
# those that cores make between them: 8 and 9.4 MB 1.45 to 1.79, 3.3 MB 1.18, 2.4 MB 0.92, 2 MB 1.0; bf16, 1.6 MB 0.70.
MOST_IN_L2 = 2
FELT = 0.02  # of the loop's time on one core


def make_private(f: Func, target: Target) -> Func:
    stmts = [*statements(f.body)]
    for loop in [s for s in stmts if is_parallel(s)]:
        at = next(k for k, s in enumerate(stmts) if s is loop)
        first = at
        while first > 0 and _may_move(stmts, first - 1, at):
            first -= 1
        for begin in range(first, at):
            if (private := _private(stmts[begin:at], loop, target)) is not None:
                stmts[begin : at + 1] = [private]
                inside = {s.tensor.name for s in walk(private) if isinstance(s, Alloc)}
                stmts = [s for s in stmts if not isinstance(s, Alloc) or s.tensor.name not in inside]
                break
    return f if len(stmts) == len(statements(f.body)) else replace(f, body=block(*stmts))


def _may_move(stmts: list[Stmt], one: int, at: int) -> bool:
    """Whether a statement makes temporaries alone, that nothing reads but what follows it up to the loop `at`."""
    s = stmts[one]
    if isinstance(s, Alloc):
        return False
    declared = {a.tensor.name for a in stmts if isinstance(a, Alloc)}
    elsewhere = tensor_names(block(*(c for c in (*stmts[:one], *stmts[at + 1 :]) if not isinstance(c, Alloc))))
    later = {t.name for c in stmts[one + 1 : at + 1] for t in written(c)}
    return {t.name for t in written(s)} <= declared - elsewhere and not later & tensor_names(s)


def _private(made: list[Stmt], loop: For, target: Target) -> For | None:
    """The loop with one task for each core, that makes first what it reads; None where that does not pay."""
    count, body, step = constant(loop.extent), block(*made), STEP_NS / target.lanes
    if target.cores < 2 or not count or not pays_in_parallel(loop, target, step):
        return None
    new = {t.name for t in written(body)}
    read = {name: found for name, found in by_tensor(loop.body, {}).items() if name in new}
    by_all = [found for found in read.values() if not any(loop.var.name in variables(i) for access in found for i in access.index)]
    crossing = _lines(found[0].tensor for found in by_all)
    is_shared = any(pays_in_parallel(s, target, step) for s in walk(body) if is_parallel(s))
    saved = (SHARED_LINE_NS if is_shared else LINE_NS) * crossing
    given = _lines({t.name: t for t in tensors(body) if t.name not in new}.values())
    if (
        given > crossing
        or crossing * LINE_BYTES > MOST_IN_L2 * target.l2_bytes
        or nanoseconds(_longest(body), target, saved, step) > saved
        or nanoseconds(loop, target, saved / FELT, step) > saved / FELT
    ):
        return None
    each = ceil(count / target.cores)
    task = Var(fresh(f"{loop.var.name}_w", bound_names(loop) | bound_names(body)))
    own = {t.name: replace(t, scope=Scope.thread) for t in sorted(written(body), key=lambda t: t.name)}
    whole = map_tensors(block(on_one_thread(body), part(loop, task, count, each)), own)
    return For(task, Const(ceil(count / each)), block(*map(Alloc, own.values()), whole), LoopKind.parallel)


def _longest(s: Stmt) -> Stmt:
    """The statement with as many iterations of every loop as it may have."""
    s = map_children(s, _longest)
    most = bounds(s.extent, {})[1] if isinstance(s, For) else inf
    return replace(s, extent=Const(int(most))) if isinstance(s, For) and most < inf else s


def _lines(of: Iterable[Tensor]) -> int:
    return sum(ceil(t.dtype.nbytes(prod(t.shape)) / LINE_BYTES) for t in of if t.scope is not Scope.register)
