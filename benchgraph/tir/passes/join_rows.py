"""join-rows: the folds of several rows end in one short vector, and what is done with a number of each row is done with that.

    m = max(m, reduce_max(a))                    m = max(m, reduce_max(a, b, c, d))        m: f32 x4
    m_1 = max(m_1, reduce_max(b))
    m_2 = max(m_2, reduce_max(c))
    m_3 = max(m_3, reduce_max(d))         ->
    y[i*4] = 1.0 / m                             y[i*4:+4] = x4(1.0) / m
    y[i*4 + 1] = 1.0 / m_1  ...
    z[0:+16] = x[0:+16] - x16(m_1)               z[0:+16] = x[0:+16] - x16(lane(m, 1))

Four vectors of 16 lanes are folded by 13 instructions together and by 32 apart (codegen/expressions.py). Only stores that follow one
another, as interleave-rows leaves them. A register becomes a lane where all its stores go together with those of the other rows, wherever
they are; else the folds alone do, and each row takes its lane. Sums may be rounded differently than row by row: they are added in another
order, of which Tensor IR says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchgraph.core.target import Target
from benchgraph.tir.affine import linear
from benchgraph.tir.build import type_of
from benchgraph.tir.ir import (
    INDEX,
    Alloc,
    Binary,
    Broadcast,
    Cast,
    Const,
    Expr,
    Func,
    Lane,
    Load,
    Ramp,
    ReduceLanes,
    Scope,
    Select,
    Seq,
    Stmt,
    Store,
    Tensor,
    Unary,
)
from benchgraph.tir.visit import children, claim, loads_of, map_children, map_exprs, map_parts, parts, reads_memory, tensors
from benchgraph.tir.widen import share_bytes

WIDTHS = (4, 2)  # rows that go together, at best as many as ROWS of interleave-rows: four numbers of 32 bits fill the shortest vector


def join_rows(f: Func, target: Target) -> Func:
    stores = _Stores()
    stores.collect(f.body)
    if not any(_fold_of(s) for _, own in stores.blocks for s in own.values()):
        return f
    plan = _Plan(stores, apart=frozenset())
    while failed := plan.failed():
        plan = _Plan(stores, plan.apart | failed)
    if not plan.runs:
        return f
    is_named = all(run.joined for run in plan.runs.values())  # no register is added to those there are
    taken = set() if is_named else {t.name for t in (*f.params, *tensors(f.body))}
    return replace(f, body=_rewritten(f.body, plan, taken))


@dataclass
class _Stores:
    """A function's stores. blocks: in program order, each with its own of scalars by their places. alone: all others, be they of vectors or
    in no block: a loop's body."""

    blocks: list[tuple[Seq, dict[int, Store]]] = field(default_factory=list)
    alone: list[Store] = field(default_factory=list)

    def collect(self, s: Stmt) -> None:
        if isinstance(s, Seq):
            self.blocks.append((s, {at: c for at, c in enumerate(s.stmts) if isinstance(c, Store) and _is_scalar(c)}))
        for c in children(s):
            if isinstance(c, Store):
                self.alone += [] if isinstance(s, Seq) and _is_scalar(c) else [c]
            elif not isinstance(c, Alloc):
                self.collect(c)

    def names(self) -> Counter[str]:
        """How often each tensor is stored to."""
        within = Counter(s.tensor.name for _, own in self.blocks for s in own.values())
        return within + Counter(s.tensor.name for s in self.alone)


def _is_scalar(s: Store) -> bool:
    return s.tensor.lanes == 1 and not any(isinstance(i, Ramp) for i in s.index)


def _fold_of(s: Stmt) -> ReduceLanes | None:
    """The fold of one vector that a store combines with something, as vectorize writes it."""
    if not isinstance(s, Store) or not isinstance(s.value, Binary):
        return None
    folds = [e for e in (s.value.a, s.value.b) if isinstance(e, ReduceLanes) and not e.more]
    return folds[0] if len(folds) == 1 else None


# ---- which stores go together ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """Stores that follow one another, a row each. joined: the one that does what they do; None where only their folds go together."""

    stores: tuple[Store, ...]
    joined: Store | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(s.tensor.name for s in self.stores)


@dataclass
class _Plan:
    """apart: registers that stay as they are. groups: by a row's register, those of all rows. runs: by a block's id and the place in it.

    A group is assumed when stores to it are found, which takes it that all others will be too; `failed` tells.
    """

    stores: _Stores
    apart: frozenset[str]
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    runs: dict[tuple[int, int], _Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for _ in range(2):  # what registers hold before the first fold is known to go together only after it
            for block, own in self.stores.blocks:
                settled = 0
                for at in own:
                    if at >= settled:
                        settled = at + self._settled(block, own, at)

    def failed(self) -> frozenset[str]:
        """Registers that were taken for a group's although they have stores of their own, or are not declared together."""
        stores = self.stores.names()
        together = Counter(name for run in self.runs.values() if run.joined for name in run.names)
        failed = {name for name in self.groups if stores[name] != together[name]}
        for block, _ in self.stores.blocks:
            declared = [s.tensor.name for s in block.stmts if isinstance(s, Alloc) and s.tensor.name in self.groups]
            for names in {self.groups[name] for name in declared}:
                if [name for name in declared if name in names] != list(names):
                    failed |= set(names)
        return frozenset(name for names in self.groups.values() if not failed.isdisjoint(names) for name in names)

    def _settled(self, block: Seq, own: Mapping[int, Store], at: int) -> int:
        """How many statements from `at` on are dealt with: a run, or one. own: the block's stores of scalars."""
        if (id(block), at) not in self.runs:
            for rows in self._widths(own[at]):
                stores = tuple(own[k] for k in range(at, at + rows) if k in own)
                found = self._run(stores) if len(stores) == rows else None
                if found is not None:
                    self.runs[id(block), at] = found
                    break
        run = self.runs.get((id(block), at))
        return len(run.stores) if run else 1

    def _widths(self, s: Store) -> Sequence[int]:
        """Numbers of rows of which this may be the first, best first."""
        if _fold_of(s):
            return WIDTHS
        names = (s.tensor.name, *(load.tensor.name for load in loads_of(s.value)))
        return sorted({len(self.groups[name]) for name in names if name in self.groups and self.groups[name][0] == name}, reverse=True)

    def _run(self, stores: tuple[Store, ...]) -> _Run | None:
        if any(_reads(later, earlier) for k, later in enumerate(stores) for earlier in stores[:k]):
            return None
        joined = self._joined(stores)
        if joined is not None:
            return _Run(stores, joined)
        kinds = {(fold.op, type_of(fold.a)) if fold else None for fold in map(_fold_of, stores)}
        return _Run(stores, None) if len(kinds) == 1 and None not in kinds else None

    # ---- one store for those of several rows

    def _joined(self, stores: tuple[Store, ...]) -> Store | None:
        first = stores[0]
        if len({(s.tensor.scope, s.tensor.dtype, s.tensor.lanes, s.mask) for s in stores}) > 1 or first.tensor.lanes > 1 or first.mask:
            return None
        if first.tensor.scope is Scope.register:
            return self._in_register(stores)
        index = _ramp([s.index for s in stores]) if len({s.tensor.name for s in stores}) == 1 else None
        value = self._vector([s.value for s in stores]) if index and index[0].stride == 1 else None
        return Store(first.tensor, index, value) if index and value else None

    def _in_register(self, stores: tuple[Store, ...]) -> Store | None:
        names, first = tuple(s.tensor.name for s in stores), stores[0].tensor
        known = {self.groups[name] for name in names if name in self.groups}
        if len(set(names)) < len(names) or known - {names} or not self.apart.isdisjoint(names):
            return None
        self.groups |= dict.fromkeys(names, names)
        value = self._vector([s.value for s in stores])
        if value is None and not known:
            for name in names:
                del self.groups[name]
        return None if value is None else Store(replace(first, lanes=len(names)), (), value)

    def _vector(self, rows: Sequence[Expr]) -> Expr | None:
        """The vector of what the rows have each; None where that is not as good as one operation on vectors."""
        first = rows[0]
        if type_of(first)[1] > 1 or len({_kind(e) for e in rows}) > 1:
            return None
        match first:
            case Load():
                return self._loaded([e for e in rows if isinstance(e, Load)])
            case Const():
                return Broadcast(first, len(rows))
            case ReduceLanes(more=()):
                vectors = [e.a for e in rows if isinstance(e, ReduceLanes)]
                return ReduceLanes(first.op, vectors[0], tuple(vectors[1:]))
            case Binary() | Unary() | Cast() | Select() if type_of(parts(first)[-1])[0] is not INDEX:
                columns = [self._vector(column) for column in zip(*map(parts, rows), strict=True)]
                operands = [c for c in columns if c is not None]
                return _with_parts(first, operands) if len(operands) == len(columns) else None
        return None

    def _loaded(self, rows: Sequence[Load]) -> Expr | None:
        first, names = rows[0], tuple(e.tensor.name for e in rows)
        if any(e.mask for e in rows) or first.tensor.dtype.is_packed:
            return None
        if self.groups.get(names[0]) == names:
            return Load(replace(first.tensor, lanes=len(names)), ())
        if len(set(names)) > 1:
            return None
        if not first.index:
            return Broadcast(first, len(rows))
        index = _ramp([e.index for e in rows])
        if index is None or index[0].stride == 0:
            return index and Broadcast(first, len(rows))
        return Load(first.tensor, index) if index[0].stride == 1 else None


def _reads(later: Store, earlier: Store) -> bool:
    """Whether a store might read what the other one stores."""
    for load in (load for e in (*later.index, later.value) for load in loads_of(e)):
        if load.tensor.name != earlier.tensor.name:
            if share_bytes(load.tensor, earlier.tensor):
                return True
        elif not load.index or (_distance(load.index[0], earlier.index[0]) or 0) == 0:
            return True
    return False


def _distance(a: Expr, b: Expr) -> int | None:
    """a - b where that is a number."""
    gap = linear(a).minus(linear(b))
    return None if gap.terms else gap.constant


def _ramp(rows: Sequence[tuple[Expr, ...]]) -> tuple[Ramp] | None:
    """Indices of flat tensors as one; stride 0 where all are the same. None for irregular ones, and for those that are read from memory."""
    if any(type_of(i)[1] > 1 or reads_memory(i) for (i,) in rows):
        return None
    (start,) = rows[0]
    distances = [_distance(i, start) for (i,) in rows]
    stride = distances[1]
    return None if stride is None or distances != [k * stride for k in range(len(rows))] else (Ramp(start, stride, len(rows)),)


def _kind(e: Expr) -> object:
    """What must be the same in all rows, besides the operands."""
    match e:
        case Binary() | Unary():
            return type(e), e.op, type_of(e)
        case ReduceLanes():
            return type(e), e.op, type_of(e.a)
        case Const():
            return repr(e)  # apart from 0.0, -0.0 is another number
        case Load():
            return type(e), e.tensor.scope, e.tensor.dtype
    return type(e), type_of(e)


def _with_parts(e: Expr, operands: Sequence[Expr]) -> Expr:
    following = iter(operands)
    return map_parts(e, lambda _: next(following))


# ---- writing them ----------------------------------------------------------------------------------------------------


def _rewritten(s: Stmt, plan: _Plan, taken: set[str]) -> Stmt:
    if not isinstance(s, Seq):
        inner = map_children(s, lambda c: _rewritten(c, plan, taken))
        return map_exprs(inner, lambda e: _in_lanes(e, plan.groups))
    stmts: list[Stmt] = []
    at = 0
    while at < len(s.stmts):
        run, c = plan.runs.get((id(s), at)), s.stmts[at]
        if run is not None:
            new = [run.joined] if run.joined else _folded_together(run, taken)
            stmts += [map_exprs(n, lambda e: _in_lanes(e, plan.groups)) for n in new]
        elif not isinstance(c, Alloc) or c.tensor.name not in plan.groups:
            stmts.append(_rewritten(c, plan, taken))
        elif plan.groups[c.tensor.name][0] == c.tensor.name:
            stmts.append(Alloc(replace(c.tensor, lanes=len(plan.groups[c.tensor.name]))))
        at += len(run.stores) if run else 1
    return Seq(tuple(stmts))


def _folded_together(run: _Run, taken: set[str]) -> list[Stmt]:
    """The folds into a register of several lanes, and the stores of the rows, each with its lane."""
    folds = [fold for s in run.stores if (fold := _fold_of(s))]
    dtype, _ = type_of(folds[0])
    register = Tensor(claim(f"{run.names[0]}_rows", taken), dtype, (), (), Scope.register, lanes=len(folds))
    stmts: list[Stmt] = [Alloc(register), Store(register, (), replace(folds[0], more=tuple(fold.a for fold in folds[1:])))]
    for k, (s, fold) in enumerate(zip(run.stores, folds, strict=True)):
        lane = Lane(Load(register, ()), k)
        stmts.append(replace(s, value=_with_parts(s.value, [lane if p is fold else p for p in parts(s.value)])))
    return stmts


def _in_lanes(e: Expr, groups: dict[str, tuple[str, ...]]) -> Expr:
    """The expression with a lane of the group's register for that of a row."""
    if all(load.tensor.name not in groups for load in loads_of(e)):
        return e
    if isinstance(e, Load) and e.tensor.name in groups and e.tensor.lanes == 1:
        names = groups[e.tensor.name]
        mask = None if e.mask is None else Broadcast(e.mask, len(names))
        return Lane(Load(replace(e.tensor, name=names[0], lanes=len(names)), (), mask), names.index(e.tensor.name))
    return map_parts(e, lambda p: _in_lanes(p, groups))
