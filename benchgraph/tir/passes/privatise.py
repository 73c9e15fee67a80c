"""privatise: what all tasks of a parallel loop read is recomputed by each core in a temporary of its own.

    for i in 16384 { t[i] = u8(x[i]) }      ->  parallel for no_w in 2 {
    parallel for no in 16 {                       for i in 16384 { t[i] = u8(x[i]) }
      brgemm y[no*64] = t[0] @ w[no]              for no in 8 { brgemm y[(no_w*8 + no)*64] = t[0] @ w[no_w*8 + no] }
    }                                           }

It saves the transfer of cache lines between cores. A serial producer costs nothing more, as the other cores wait for it anyway, if it reads
no more than it writes; a parallel one is computed in full by each core, and moves only if it is short. The loop then has one task per core,
which cannot balance load, so the transfers saved must be a measurable share of the loop's time. Producers of which each task reads a part
stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import ceil, inf, prod

from benchgraph.machine.table import table
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.tir import visit
from benchgraph.tir.accesses import by_tensor
from benchgraph.tir.affine import bounds
from benchgraph.tir.build import constant
from benchgraph.tir.cost import nanoseconds, pays_in_parallel
from benchgraph.tir.ir import Alloc, Const, For, Func, LoopKind, Scope, Stmt, Tensor, Var
from benchgraph.tir.loops import in_blocks_of, is_parallel, without_parallel_loops


def privatise(f: Func, target: Target) -> Func:
    given, done = visit.statements(f.body), list[_Placed]()
    uses = _Uses.of(given)
    for at, s in enumerate(given):
        placed = _Placed(at, s)
        if is_parallel(s) and (count := _producers_that_pay(done, placed, s, uses, target)):
            placed = _Placed(done[-count].at, _privatised([p.stmt for p in done[-count:]], s, target))
            del done[-count:]
            uses.declared.difference_update(a.tensor.name for a in visit.walk(placed.stmt) if isinstance(a, Alloc))
        done.append(placed)
    if len(done) == len(given):
        return f
    return replace(f, body=visit.block(*(p.stmt for p in done if not isinstance(p.stmt, Alloc) or p.stmt.tensor.name in uses.declared)))


@dataclass(frozen=True)
class _Placed:
    """A statement of the function's block and its position there: of merged statements, that of the first."""

    at: int
    stmt: Stmt


@dataclass(frozen=True)
class _Uses:
    """declared: temporaries declared in the function's block. first, last: positions of the first and last use of each tensor, by name."""

    declared: set[str]
    first: dict[str, int]
    last: dict[str, int]

    @staticmethod
    def of(stmts: Sequence[Stmt]) -> _Uses:
        uses = _Uses({s.tensor.name for s in stmts if isinstance(s, Alloc)}, {}, {})
        for at, s in enumerate(stmts):
            for name in () if isinstance(s, Alloc) else visit.tensor_names(s):
                uses.first.setdefault(name, at)
                uses.last[name] = at
        return uses

    def are_within(self, s: Stmt, first: int, last: int) -> bool:
        """Whether a statement writes only temporaries, used from position first to last only."""
        return all(t.name in self.declared and first <= self.first[t.name] and self.last[t.name] <= last for t in visit.written(s))


def _movable(done: Sequence[_Placed], loop: _Placed, uses: _Uses) -> Iterator[Stmt]:
    """Statements before the loop, the nearest first, whose results are temporaries used only by later ones of them and by the loop."""
    later = {t.name for t in visit.written(loop.stmt)}
    for p in reversed(done):
        if isinstance(p.stmt, Alloc) or not uses.are_within(p.stmt, p.at, loop.at) or later & visit.tensor_names(p.stmt):
            return
        yield p.stmt
        later.update(t.name for t in visit.written(p.stmt))


def _producers_that_pay(done: Sequence[_Placed], placed: _Placed, loop: For, uses: _Uses, target: Target) -> int:
    """How many of the statements before a loop to move into it; 0 where none pays.

    The search goes backwards from the loop and stops when the producers take longer than all transfers: it stays short in a long network.
    """
    step = table(target).vector_step_ns / target.lanes
    if target.cores < 2 or not _count(loop) or not pays_in_parallel(loop, target, step):
        return 0
    balance, paying = _Balance(_read_by_all(loop, uses.declared), loop, target, step), 0
    for number, s in enumerate(_movable(done, placed, uses) if balance.most else (), start=1):
        balance.add(s)
        if balance.is_exceeded:
            break
        if balance.pays:
            paying = number
    return paying


def _read_by_all(loop: For, declared: Set[str]) -> dict[str, int]:
    """Cache lines of each temporary that all tasks of a loop access at the same indices."""
    if declared.isdisjoint(visit.tensor_names(loop)):
        return {}
    return {
        name: _lines(accesses[0].tensor)
        for name, accesses in by_tensor(loop.body, {}).items()
        if name in declared and not any(loop.var.name in visit.variables(i) for a in accesses for i in a.index)
    }


class _Balance:
    """What moving producers into a loop saves, and what it costs.

    read_by_all: as from `_read_by_all`. most: ns that all its transfers take. read: lines that the producers read, by tensor.
    """

    def __init__(self, read_by_all: Mapping[str, int], loop: For, target: Target, step: float) -> None:
        self.read_by_all, self.target, self.rates, self.step = read_by_all, target, table(target), step
        self.most = self.rates.remote_line_ns * sum(read_by_all.values())
        self.loop_ns = nanoseconds(loop, target, self.most / self.rates.private_saved_share, step)
        self.producers_ns, self.transferred, self.has_parallel = 0.0, 0, False
        self.produced, self.read = set[str](), dict[str, int]()

    def add(self, s: Stmt) -> None:
        """Add the producer in front of those so far."""
        produced = {t.name for t in visit.written(s)} - self.produced
        self.produced |= produced
        self.read |= {t.name: _lines(t) for t in visit.tensors(s)}
        for name in self.produced & self.read.keys():
            del self.read[name]
        self.transferred += sum(self.read_by_all.get(name, 0) for name in produced)
        self.producers_ns += nanoseconds(_longest(s), self.target, self.most, self.step)
        self.has_parallel = self.has_parallel or any(pays_in_parallel(c, self.target, self.step) for c in visit.walk(s) if is_parallel(c))

    @property
    def is_exceeded(self) -> bool:
        """Whether moving them does not pay, whatever is added."""
        return self.producers_ns > self.most or self.transferred * LINE_BYTES > self.rates.private_l2_factor * self.target.l2_bytes

    @property
    def pays(self) -> bool:
        saved = (self.rates.shared_line_ns if self.has_parallel else self.rates.remote_line_ns) * self.transferred
        longest = saved / self.rates.private_saved_share
        return sum(self.read.values()) <= self.transferred and self.producers_ns <= saved and self.loop_ns <= longest


def _privatised(producers: Sequence[Stmt], loop: For, target: Target) -> For:
    """The loop as one task per core, each of which begins with the producers."""
    count, body = _count(loop), visit.block(*producers)
    each = ceil(count / target.cores)
    task = Var(visit.fresh(f"{loop.var.name}_w", visit.bound_names(loop) | visit.bound_names(body)))
    private = {t.name: replace(t, scope=Scope.thread) for t in sorted(visit.written(body), key=lambda t: t.name)}
    task_body = visit.map_tensors(visit.block(without_parallel_loops(body), in_blocks_of(loop, task, count, each)), private)
    return For(task, Const(ceil(count / each)), visit.block(*map(Alloc, private.values()), task_body), LoopKind.parallel)


def _count(loop: For) -> int:
    """The extent; 0 where it is not constant."""
    return constant(loop.extent) or 0


def _longest(s: Stmt) -> Stmt:
    """The statement with the extent of every loop at its upper bound."""
    s = visit.map_children(s, _longest)
    most = bounds(s.extent, {})[1] if isinstance(s, For) else inf
    return replace(s, extent=Const(int(most))) if isinstance(s, For) and most < inf else s


def _lines(t: Tensor) -> int:
    return 0 if t.scope is Scope.register else ceil(t.dtype.nbytes(prod(t.shape)) / LINE_BYTES)
