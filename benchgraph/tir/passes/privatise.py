"""privatise: what few tasks would compute for all to read is computed by each core, where cache lines would have to travel otherwise.

    for i in 16384 { t[i] = u8(x[i]) }      ->  parallel for no_w in 2 {
    parallel for no in 16 {                       for i in 16384 { t[i] = u8(x[i]) }
      brgemm y[no*64] = t[0] @ w[no]              for no in 8 { brgemm y[(no_w*8 + no)*64] = t[0] @ w[no_w*8 + no] }
    }                                           }

The others wait while it is made anyway, so making it again takes no time; reading as much as that takes may, so no more than is made. The
loop then has one task for each core, and none to even them out: only where what is saved is a part of it that can be felt. What the cores
make between them takes longer so, and only goes where it is quickly made. What tasks read a part of each stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import ceil, inf, prod

from benchgraph.core.target import LINE_BYTES, Target
from benchgraph.machine.table import table
from benchgraph.tir.accesses import by_tensor
from benchgraph.tir.affine import bounds
from benchgraph.tir.build import constant
from benchgraph.tir.cost import nanoseconds, pays_in_parallel
from benchgraph.tir.ir import Alloc, Const, For, Func, LoopKind, Scope, Stmt, Tensor, Var
from benchgraph.tir.tasks import is_parallel, iterations_of_task, serialised
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

FELT = 0.02  # of the loop's time on one core


def privatise(f: Func, target: Target) -> Func:
    given, done = statements(f.body), list[_Placed]()
    uses = _Uses.of(given)
    for at, s in enumerate(given):
        placed = _Placed(at, s)
        if is_parallel(s) and (moved := _moved(done, placed, s, uses, target)):
            placed = _Placed(done[-moved].at, _private([p.stmt for p in done[-moved:]], s, target))
            del done[-moved:]
            uses.declared.difference_update(a.tensor.name for a in walk(placed.stmt) if isinstance(a, Alloc))
        done.append(placed)
    if len(done) == len(given):
        return f
    return replace(f, body=block(*(p.stmt for p in done if not isinstance(p.stmt, Alloc) or p.stmt.tensor.name in uses.declared)))


@dataclass(frozen=True)
class _Placed:
    """A statement of the function's block and its place there: the first place of those that have become one."""

    at: int
    stmt: Stmt


@dataclass(frozen=True)
class _Uses:
    """declared: names of the function's temporaries that are still its own. first, last: the places that use a tensor, by its name."""

    declared: set[str]
    first: dict[str, int]
    last: dict[str, int]

    @staticmethod
    def of(stmts: Sequence[Stmt]) -> _Uses:
        uses = _Uses({s.tensor.name for s in stmts if isinstance(s, Alloc)}, {}, {})
        for at, s in enumerate(stmts):
            for name in () if isinstance(s, Alloc) else tensor_names(s):
                uses.first.setdefault(name, at)
                uses.last[name] = at
        return uses

    def are_within(self, s: Stmt, first: int, last: int) -> bool:
        """Whether a statement writes temporaries alone, which nothing outside of these places uses."""
        return all(t.name in self.declared and first <= self.first[t.name] and self.last[t.name] <= last for t in written(s))


def _movable(done: Sequence[_Placed], loop: _Placed, uses: _Uses) -> Iterator[Stmt]:
    """From the loop back: what makes temporaries alone, that nothing reads but what follows it up to the loop."""
    later = {t.name for t in written(loop.stmt)}
    for p in reversed(done):
        if isinstance(p.stmt, Alloc) or not uses.are_within(p.stmt, p.at, loop.at) or later & tensor_names(p.stmt):
            return
        yield p.stmt
        later.update(t.name for t in written(p.stmt))


def _moved(done: Sequence[_Placed], placed: _Placed, loop: For, uses: _Uses, target: Target) -> int:
    """How many of the statements before a loop go into it: as many as pay. 0 where that does not.

    They are asked from the last one back, and none beyond those that take longer than all that can be saved: in a network of many layers
    every loop asks a few.
    """
    step = table(target).vector_step_ns / target.lanes
    if target.cores < 2 or not _count(loop) or not pays_in_parallel(loop, target, step):
        return 0
    balance, paying = _Balance(_read_by_all(loop, uses.declared), loop, target, step), 0
    for count, s in enumerate(_movable(done, placed, uses) if balance.most else (), start=1):
        balance.add(s)
        if balance.is_exceeded:
            break
        if balance.pays:
            paying = count
    return paying


def _read_by_all(loop: For, declared: Set[str]) -> dict[str, int]:
    """The temporaries that all tasks of a loop use alike, with their lines."""
    if declared.isdisjoint(tensor_names(loop)):
        return {}
    used = {name: found for name, found in by_tensor(loop.body, {}).items() if name in declared}
    return {
        name: _lines(found[0].tensor)
        for name, found in used.items()
        if not any(loop.var.name in variables(i) for a in found for i in a.index)
    }


class _Balance:
    """What is saved where a loop's tasks make for themselves what statements before it make now, and what that takes.

    by_all: lines of the temporaries that all tasks read alike. most: what can be saved, in ns.
    """

    def __init__(self, by_all: Mapping[str, int], loop: For, target: Target, step: float) -> None:
        self.by_all, self.target, self.rates, self.step = by_all, target, table(target), step
        self.most = self.rates.remote_line_ns * sum(by_all.values())
        self.loop_ns = nanoseconds(loop, target, self.most / FELT, step)
        self.made_ns, self.crossing, self.is_shared = 0.0, 0, False
        self.made, self.given = set[str](), dict[str, int]()

    def add(self, s: Stmt) -> None:
        """One statement more, in front of those so far."""
        made = {t.name for t in written(s)} - self.made
        self.made |= made
        self.given |= {t.name: _lines(t) for t in tensors(s)}
        for name in self.made & self.given.keys():
            del self.given[name]
        self.crossing += sum(self.by_all.get(name, 0) for name in made)
        self.made_ns += nanoseconds(_longest(s), self.target, self.most, self.step)
        self.is_shared = self.is_shared or any(pays_in_parallel(c, self.target, self.step) for c in walk(s) if is_parallel(c))

    @property
    def is_exceeded(self) -> bool:
        """Whether it does not pay, whatever else is added."""
        return self.made_ns > self.most or self.crossing * LINE_BYTES > self.rates.private_l2_factor * self.target.l2_bytes

    @property
    def pays(self) -> bool:
        saved = (self.rates.shared_line_ns if self.is_shared else self.rates.remote_line_ns) * self.crossing
        return sum(self.given.values()) <= self.crossing and self.made_ns <= saved and self.loop_ns <= saved / FELT


def _private(made: Sequence[Stmt], loop: For, target: Target) -> For:
    """The loop with one task for each core, that makes first what it reads."""
    count, body = _count(loop), block(*made)
    each = ceil(count / target.cores)
    task = Var(fresh(f"{loop.var.name}_w", bound_names(loop) | bound_names(body)))
    own = {t.name: replace(t, scope=Scope.thread) for t in sorted(written(body), key=lambda t: t.name)}
    whole = map_tensors(block(serialised(body), iterations_of_task(loop, task, count, each)), own)
    return For(task, Const(ceil(count / each)), block(*map(Alloc, own.values()), whole), LoopKind.parallel)


def _count(loop: For) -> int:
    """Its tasks; 0 where they are not known."""
    return constant(loop.extent) or 0


def _longest(s: Stmt) -> Stmt:
    """The statement with as many iterations of every loop as it may have."""
    s = map_children(s, _longest)
    most = bounds(s.extent, {})[1] if isinstance(s, For) else inf
    return replace(s, extent=Const(int(most))) if isinstance(s, For) and most < inf else s


def _lines(t: Tensor) -> int:
    return 0 if t.scope is Scope.register else ceil(t.dtype.nbytes(prod(t.shape)) / LINE_BYTES)
