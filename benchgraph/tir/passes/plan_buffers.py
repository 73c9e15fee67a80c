"""plan-buffers: temporaries get offsets in two arenas, one per call (shared) and one per thread, reusing bytes of dead ones.

    alloc a: f32[64] shared            ->  shared arena, 512 bytes: a at 0, b at 256, c at 0
    alloc b ... last use of a              ... last use of a
    alloc c ... uses of b and c            (the declarations are gone)

A buffer is live from its first to its last use, during all of a loop if it is declared outside and used inside. Operands of a microkernel
are live until the statement after it that uses its result, as attach-post-ops may run that statement as its post-ops. Registers are not
laid out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeGuard

from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.tir.ir import Alloc, Brgemm, For, Func, If, LoopKind, Scope, Seq, Stmt, Tensor
from benchgraph.tir.visit import block, children, map_children, map_tensors, own_tensors, tensor_names, tensors, walk


def temporaries(f: Func) -> dict[str, tuple[Tensor, Scope]]:
    """The used temporaries but registers, with the scope of their memory, by name, before or after plan-buffers."""
    unplanned = {b.tensor.name: (b.tensor, b.scope) for b in _live_ranges(f.body)}
    return unplanned or {t.name: (t, t.scope) for t in tensors(f.body) if t.offset is not None}


def temporary_bytes(f: Func) -> tuple[int, int]:
    """(shared, per thread): bytes of the arenas, or before plan-buffers of all temporaries together."""
    return (f.shared_bytes, f.thread_bytes) if f.shared_bytes or f.thread_bytes else bytes_without_reuse(f)


def bytes_without_reuse(f: Func) -> tuple[int, int]:
    """(shared, per thread): bytes of all temporaries if no two of them shared bytes."""
    total = Counter[Scope]()
    for t, scope in temporaries(f).values():
        total[scope] += _aligned(t.nbytes)
    return total[Scope.shared], total[Scope.thread]


def plan_buffers(f: Func, target: Target) -> Func:
    if not any(map(_is_buffer, walk(f.body))):
        return f
    placed = dict[str, Tensor]()
    size = {Scope.shared: 0, Scope.thread: 0}
    buffers = sorted(_live_ranges(f.body), key=lambda b: b.first)
    for scope in size:
        live = list[tuple[int, int, _Buffer]]()  # (offset, end, buffer)
        for b in (b for b in buffers if b.scope is scope):
            live = [(begin, end, other) for begin, end, other in live if other.last >= b.first]
            offset = _first_fit(_aligned(b.tensor.nbytes), [(begin, end) for begin, end, _ in live])
            live.append((offset, offset + _aligned(b.tensor.nbytes), b))
            placed[b.tensor.name] = replace(b.tensor, scope=scope, offset=offset)
            size[scope] = max(size[scope], live[-1][1])
    body = map_tensors(_without_allocs(f.body), placed)
    return replace(f, body=body, shared_bytes=size[Scope.shared], thread_bytes=size[Scope.thread])


def _first_fit(nbytes: int, taken: Iterable[tuple[int, int]]) -> int:
    """The least offset of so many bytes that are outside of these ranges."""
    offset = 0
    for begin, end in sorted(taken):
        if offset + nbytes <= begin:
            break
        offset = max(offset, end)
    return offset


def _aligned(nbytes: int) -> int:
    return (nbytes + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


def _is_buffer(s: Stmt) -> TypeGuard[Alloc]:
    return isinstance(s, Alloc) and s.tensor.scope is not Scope.register


def _without_allocs(s: Stmt) -> Stmt:
    if _is_buffer(s):
        return Seq(())
    new = map_children(s, _without_allocs)
    return block(*new.stmts) if isinstance(new, Seq) and new is not s else new


# ---- liveness --------------------------------------------------------------------------------------------------------


@dataclass
class _Buffer:
    """A temporary and the ticks of its first and last use."""

    tensor: Tensor
    scope: Scope
    first: int = -1
    last: int = -1

    def use(self, first: int, last: int) -> None:
        self.first = first if self.first < 0 else min(self.first, first)
        self.last = max(self.last, last)


def _live_ranges(s: Stmt) -> list[_Buffer]:
    """The used temporaries, in order of declaration."""
    buffers: list[_Buffer] = []
    _tick(s, 0, {}, buffers, in_parallel=False)
    return [b for b in buffers if b.first >= 0]


def _tick(s: Stmt, now: int, visible: dict[str, _Buffer], buffers: list[_Buffer], *, in_parallel: bool) -> int:
    """Number the statements of s from `now` on and record uses; returns the next number. visible: temporaries in scope."""

    def use(names: Iterable[str], first: int, last: int) -> None:
        for name in names:
            if name in visible:
                visible[name].use(first, last)

    match s:
        case Seq():
            visible = dict(visible)
            done: Stmt = Seq(())
            for c in s.stmts:
                if _is_buffer(c):
                    visible[c.tensor.name] = _Buffer(c.tensor, Scope.thread if in_parallel else Scope.shared)
                    buffers.append(visible[c.tensor.name])
                elif not isinstance(c, Alloc):
                    if isinstance(done, Brgemm) and done.acc.tensor.name in tensor_names(c):  # attach-post-ops may run it on the way
                        use((done.src.tensor.name, done.wei.tensor.name), now, now)
                    now, done = _tick(c, now, visible, buffers, in_parallel=in_parallel), c
            return now
        case For():
            end = _tick(s.body, now + 1, visible, buffers, in_parallel=in_parallel or s.kind is LoopKind.parallel)
            use(tensor_names(s), now, end)
            return end + 1
        case If():
            use((t.name for t in own_tensors(s)), now, now)
            now += 1
            for branch in children(s):
                now = _tick(branch, now, visible, buffers, in_parallel=in_parallel)
            return now
    use(tensor_names(s), now, now)
    return now + 1
