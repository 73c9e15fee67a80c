"""plan-buffers: temporaries get offsets in two arenas, one per call (shared) and one per thread, reusing bytes of dead ones.

    alloc a: f32[64] shared            ->  shared arena, 512 bytes: a at 0, b at 256, c at 0
    alloc b ... last use of a              ... last use of a
    alloc c ... uses of b and c            (the declarations are gone)

A buffer is live from its first to its last use, during all of a loop if it is declared outside and used inside. Operands of a microkernel
are live until the statement after it that uses its result, as attach-post-ops may run that statement as its post-ops. Registers are not
laid out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.tir.ir import Alloc, Brgemm, For, Func, If, LoopKind, Scope, Seq, Stmt, Tensor
from benchgraph.tir.visit import block, map_children, map_tensors, tensor_names, tensors, walk


@dataclass(frozen=True)
class PlanReport:
    """Bytes of each arena, and what they would be if no two buffers shared bytes."""

    shared_bytes: int
    thread_bytes: int
    shared_bytes_without_reuse: int
    thread_bytes_without_reuse: int


def plan_report(f: Func) -> PlanReport:
    """The report of a function that plan-buffers has transformed."""
    planned = {t.name: t for t in tensors(f.body) if t.offset is not None}.values()
    total = {scope: sum(_aligned(t.nbytes) for t in planned if t.scope is scope) for scope in Scope}
    return PlanReport(f.shared_bytes, f.thread_bytes, total[Scope.shared], total[Scope.thread])


def temporaries(f: Func) -> dict[str, tuple[Tensor, Scope]]:
    """The used temporaries but registers, with the scope of their memory, by name, before or after plan-buffers."""
    unplanned = {b.tensor.name: (b.tensor, b.scope) for b in _live_ranges(f.body)}
    return unplanned or {t.name: (t, t.scope) for t in tensors(f.body) if t.offset is not None}


def temporary_bytes(f: Func) -> tuple[int, int]:
    """(shared, per thread): bytes of the arenas, or before plan-buffers of all temporaries together."""
    if f.shared_bytes or f.thread_bytes:
        return f.shared_bytes, f.thread_bytes
    shared, thread = (
        sum(_aligned(t.nbytes) for t, scope in temporaries(f).values() if scope is wanted) for wanted in (Scope.shared, Scope.thread)
    )
    return shared, thread


def plan_buffers(f: Func, target: Target) -> Func:
    if not any(isinstance(s, Alloc) and s.tensor.scope is not Scope.register for s in walk(f.body)):
        return f
    buffers = _live_ranges(f.body)
    placed: dict[str, Tensor] = {}
    size = {Scope.shared: 0, Scope.thread: 0}
    for scope in size:
        arena = Arena()
        for b in sorted((b for b in buffers if b.scope is scope), key=lambda b: b.first):
            arena.expire(b.first)
            offset = arena.take(_aligned(b.tensor.nbytes), b.last)
            placed[b.tensor.name] = replace(b.tensor, scope=scope, offset=offset)
        size[scope] = arena.size
    body = map_tensors(_without_allocs(f.body), placed)
    return replace(f, body=body, shared_bytes=size[Scope.shared], thread_bytes=size[Scope.thread])


def _aligned(nbytes: int) -> int:
    return (nbytes + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


def _without_allocs(s: Stmt) -> Stmt:
    if not isinstance(s, Seq):
        return Seq(()) if isinstance(s, Alloc) and s.tensor.scope is not Scope.register else map_children(s, _without_allocs)
    kept = [c for c in s.stmts if not (isinstance(c, Alloc) and c.tensor.scope is not Scope.register)]
    new = [_without_allocs(c) for c in kept]
    return s if len(kept) == len(s.stmts) and all(a is b for a, b in zip(kept, new, strict=True)) else block(*new)


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
    match s:
        case Seq():
            visible = dict(visible)
            done: Stmt = Seq(())
            for c in s.stmts:
                if isinstance(c, Alloc) and c.tensor.scope is not Scope.register:
                    b = _Buffer(c.tensor, Scope.thread if in_parallel else Scope.shared)
                    visible[c.tensor.name] = b
                    buffers.append(b)
                elif not isinstance(c, Alloc):
                    if isinstance(done, Brgemm) and done.acc.tensor.name in tensor_names(c):
                        _keep_operands_live(done, now, visible)
                    now, done = _tick(c, now, visible, buffers, in_parallel=in_parallel), c
            return now
        case For():
            end = _tick(s.body, now + 1, visible, buffers, in_parallel=in_parallel or s.kind is LoopKind.parallel)
            for t in _named(s, visible):
                t.use(now, end)
            return end + 1
        case If():
            _use_here(s, now, visible)
            end = _tick(s.then, now + 1, visible, buffers, in_parallel=in_parallel)
            return end if s.orelse is None else _tick(s.orelse, end, visible, buffers, in_parallel=in_parallel)
    _use_here(s, now, visible)
    return now + 1


def _use_here(s: Stmt, now: int, visible: dict[str, _Buffer]) -> None:
    own = If(s.cond, Seq(())) if isinstance(s, If) else s
    for b in _named(own, visible):
        b.use(now, now)


def _keep_operands_live(g: Brgemm, now: int, visible: dict[str, _Buffer]) -> None:
    """Keep operands of g live at tick `now`, so that attach-post-ops may run the statement there as g's post-ops."""
    for operand in (g.src, g.wei):
        if operand.tensor.name in visible:
            visible[operand.tensor.name].use(now, now)


def _named(s: Stmt, visible: dict[str, _Buffer]) -> Iterator[_Buffer]:
    return (visible[name] for name in tensor_names(s) if name in visible)


# ---- the arena -------------------------------------------------------------------------------------------------------


@dataclass
class Arena:
    """Byte ranges of one allocation, in use and free. Prefers the range freed last, whose bytes are most likely still in cache."""

    size: int = 0
    busy: list[tuple[int, int, int]] = field(default_factory=list)  # (last tick, offset, bytes)
    free: list[tuple[int, int]] = field(default_factory=list)  # (offset, bytes), least recently used first

    def expire(self, now: int) -> None:
        """Free what no statement from tick `now` on uses, in order of last use."""
        for last, offset, nbytes in sorted(b for b in self.busy if b[0] < now):
            self.busy.remove((last, offset, nbytes))
            self.free.append((offset, nbytes))

    def take(self, nbytes: int, last: int) -> int:
        """The offset of nbytes that stay in use up to tick `last`."""
        if nbytes == 0:
            return 0
        offset = self._reuse(nbytes)
        if offset is None:
            self._coalesce()
            offset = self._reuse(nbytes)
        if offset is None:
            offset = self._grow(nbytes)
        self.busy.append((last, offset, nbytes))
        return offset

    def _reuse(self, nbytes: int) -> int | None:
        for k in reversed(range(len(self.free))):
            offset, size = self.free[k]
            if size >= nbytes:
                self.free[k : k + 1] = [(offset + nbytes, size - nbytes)] if size > nbytes else []
                return offset
        return None

    def _coalesce(self) -> None:
        joined: list[tuple[int, int]] = []
        for offset, nbytes in sorted(self.free):
            if joined and sum(joined[-1]) == offset:
                joined[-1] = (joined[-1][0], joined[-1][1] + nbytes)
            else:
                joined.append((offset, nbytes))
        self.free = joined

    def _grow(self, nbytes: int) -> int:
        """New bytes at the end of the arena, from the start of a free range there if there is one."""
        top = next((r for r in self.free if sum(r) == self.size), None)
        offset = self.size
        if top is not None:
            self.free.remove(top)
            offset = top[0]
        self.size = offset + nbytes
        return offset
