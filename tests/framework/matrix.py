"""Every state an array may be in, as input and as output of an op, under every request, by the library and by numpy.

Data are small integers, so that sums are exact and results are compared bit by bit. Padding holds NaN, and temporaries turn to NaN when
their op ends: whatever reads what it must not shows. `Counts` says what really occurred: a matrix of row-major arrays proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, islice, product
from math import prod

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.framework.fallback import fallback_compute
from benchgraph.framework.memory_desc import MemoryDesc, Values, describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.request import OpReq, output
from benchgraph.framework.temp_space import TempSpace
from benchgraph.graph.ir import Op

Shape = tuple[int, ...]
F32 = DType.f32


def nat(rank: int) -> Shape:
    return tuple(range(rank))


# Four shapes of as many elements, whose memory may be read in each other's dims, and one that no block of 8 divides.
LAYOUTS: dict[Shape, tuple[Layout, ...]] = {
    (1152,): (),
    (24, 48): (Layout((1, 0)), Layout((1, 0), ((1, 8),)), Layout(nat(2), ((0, 8), (1, 16)))),
    (24, 3, 4, 4): (Layout((0, 2, 3, 1)), Layout(nat(4), ((0, 8),)), Layout(nat(4), ((1, 8),))),
    (24, 1, 3, 4, 4): (Layout(nat(5), ((0, 8),)), Layout((0, 1, 3, 4, 2))),
    (2, 19, 5, 6): (Layout((0, 2, 3, 1)), Layout(nat(4), ((1, 8),)), Layout(nat(4), ((0, 2), (1, 16)))),
}
OTHER_RANKS = 2  # layouts in other dims than the array's that each shape is tried with


class Fault(AssertionError):
    """A case that came out wrong."""


@dataclass
class Counts:
    """What occurred: cases in all, and those with an operand in some state."""

    cases: int = 0
    states: dict[str, int] = field(default_factory=dict)

    def saw(self, state: str) -> None:
        self.states[state] = self.states.get(state, 0) + 1


# ---- data and arrays -------------------------------------------------------------------------------------------------


@cache
def data(shape: Shape, seed: int) -> Values:
    values = (np.arange(prod(shape)) * (2 * seed + 3) % 101 - 50).astype(np.float32).reshape(shape)
    values.flags.writeable = False
    return values


def descs(shape: Shape) -> tuple[MemoryDesc, ...]:
    """Opaque layouts for arrays of this shape: in its own dims, then in those of others of as many elements."""
    own = [describe(F32, shape, lay) for lay in LAYOUTS[shape]]
    others = [describe(F32, s, lay) for s, found in LAYOUTS.items() if s != shape and prod(s) == prod(shape) for lay in found]
    return (*own, *others[:: max(1, len(others) // OTHER_RANKS)][:OTHER_RANKS])


def poisoned(a: NDArray) -> NDArray:
    """The array with NaN in its padding."""
    store = a.chunk.store("matrix")
    if store.desc.nbytes != a.plain_desc.nbytes:
        ones = NDArray.of(np.ones(store.desc.shape, np.float32), layout=store.desc.layout)
        mask = store.desc.array(ones.chunk.store("matrix").data)
        store.desc.array(store.data)[mask == 0] = np.nan
    return a


def opaque(values: Values, desc: MemoryDesc) -> NDArray:
    a = NDArray.of(values, name="opaque")
    a.reorder_(desc)
    return poisoned(a)


def rows(n: int, shape: Shape) -> Shape:
    return (n, *shape[1:])


@dataclass
class Built:
    """An array in some state. parent: what it is a window of, with the values that lie outside, which are NaN inside."""

    state: str
    array: NDArray
    parent: NDArray | None = None
    begin: int = 0

    def around(self) -> Values:
        """The parent's values outside the window."""
        assert self.parent is not None
        values = self.parent.numpy()
        values[self.begin : self.begin + self.array.shape[0]] = 0
        return values


Build = Callable[[Values], Built]


def _view(values: Values, layout: Layout | None) -> Built:
    shape = rows(values.shape[0] + 2, values.shape)
    parent = NDArray.of(data(shape, 5), name="parent")
    parent.slice(1, shape[0] - 1).copy_from(values)
    if layout is not None:
        parent.reorder_(layout)
        poisoned(parent)
    return Built("opaque view" if layout else "view", parent.slice(1, shape[0] - 1), parent, 1)


def _reused(values: Values, dtype: DType, extra: int, desc: MemoryDesc | None = None) -> Built:
    need = max(values.nbytes, desc.nbytes if desc else 0)
    size = need // 4 + extra if dtype is F32 else need + 4 * extra
    a = NDArray.empty((size,), dtype).as_array(values.shape, F32, "reused")
    a.copy_from(values)
    if desc is not None:
        assert a.reorder_(desc)
        poisoned(a)
    return Built("reused opaque" if desc else "reused", a)


def _reused_view(values: Values) -> Built:
    n = values.shape[0]
    shape = rows(2 * n, values.shape)
    parent = NDArray.empty((4 * prod(shape),), DType.u8).as_array(shape, F32, "reused parent")
    parent.copy_from(data(shape, 6))
    parent.slice(n // 2, n // 2 + n).copy_from(values)
    return Built("reused view", parent.slice(n // 2, n // 2 + n), parent, n // 2)


def _opaque(values: Values, desc: MemoryDesc) -> Built:
    return Built("opaque" if desc.shape == values.shape else "opaque, other rank", opaque(values, desc))


def inputs(shape: Shape) -> list[Build]:
    """The states an input may be in."""
    found: list[Build] = [lambda v: Built("normal", NDArray.of(v, name="normal")), partial(_view, layout=None)]
    found += [partial(_opaque, desc=d) for d in descs(shape)]
    return found + [partial(_view, layout=layout) for layout in LAYOUTS[shape]]


def outs(shape: Shape) -> list[Build]:
    """The states an output may be in."""
    reused = [(F32, 0), (DType.u8, 0), (F32, 37)]
    found = [*inputs(shape), *(partial(_reused, dtype=dtype, extra=extra) for dtype, extra in reused), _reused_view]
    return found + [partial(_reused, dtype=DType.u8, extra=3, desc=d) for d in descs(shape)[:2]]


# ---- ops -------------------------------------------------------------------------------------------------------------

OPS: dict[str, tuple[int, Callable[..., Values]]] = {
    "Reorder": (1, lambda x: x),
    "ReLU": (1, lambda x: np.maximum(x, 0)),
    "Add": (2, lambda x, y: x + y),
}


@dataclass(frozen=True)
class Way:
    """How an op runs. src, dst: the layouts a stand-in for the library's kernel computes in; None for numpy's fallback."""

    src: MemoryDesc | None = None
    dst: MemoryDesc | None = None


def ways(shape: Shape) -> list[Way]:
    """Numpy; and a kernel in every layout, and between them, so that in and out differ."""
    flat, own = describe(F32, shape), [describe(F32, shape, lay) for lay in LAYOUTS[shape]]
    mixed = [Way(own[0], flat), Way(flat, own[-1])] if own else []
    return [Way(), Way(flat, flat), *(Way(d, d) for d in own), *mixed]


def run(kind: str, ins: list[NDArray], out: NDArray, req: OpReq, way: Way, space: TempSpace) -> None:
    """Run an op as an op of the framework does: handles in the layouts it wants, output as requested."""
    with space.op(f"op 0: {kind}") as scope, np.errstate(invalid="ignore"):
        if way.src is None or way.dst is None:
            fallback_compute(Op(0, kind), ins, [out], [req], scope)
            return
        given = [a.reordered(way.src, scope) for a in ins]
        same = way.src == way.dst
        with output(out, way.dst, req, scope, ins, range(len(ins))) as memory:
            _kernel(kind, [m.array for m in given], memory.array, None if same else (way.src, way.dst))


def _kernel(kind: str, ins: list[Values], out: Values, between: tuple[MemoryDesc, MemoryDesc] | None) -> None:
    """Element by element on memory; one that changes layout makes two rounds, so it overwrites what it has not read if they overlap."""
    function = OPS[kind][1]
    if between is None:
        out[...] = function(*ins)
        return
    src, dst = between
    index = _positions(src)
    where = _positions(dst)
    flat = [a.reshape(-1) for a in ins]
    target = out.reshape(-1)
    for part in (slice(0, None, 2), slice(1, None, 2)):
        target[where[part]] = function(*(a[index[part]] for a in flat))


@cache
def _positions(desc: MemoryDesc) -> np.ndarray:
    """Where in memory each element is, in row-major order of the elements; by arithmetic alone."""
    at = np.indices(desc.shape).reshape(len(desc.shape), -1)
    sizes = dict(desc.layout.blocks)
    index = [at[axis] // sizes.get(axis, 1) for axis in desc.layout.order] + [at[axis] % size for axis, size in desc.layout.blocks]
    return np.ravel_multi_index(index, desc.physical)


# ---- the matrix ------------------------------------------------------------------------------------------------------


def check(shape: Shape, step: int = 1) -> Counts:
    """Run the matrix of one shape. Raises Fault at the first case that is wrong, and when a state did not occur.

    step: of the cases with an output of its own, every n-th.
    """
    counts, space = Counts(), TempSpace(poisoned=True)
    in_place, apart = _in_place_cases(shape), islice(_apart_cases(shape), 0, None, step)
    for number, case in enumerate(chain(in_place, apart)):
        try:
            case(counts, space)
        except Fault:
            raise
        except Exception as bad:
            raise Fault(f"case {number}: {type(bad).__name__}: {bad}") from bad
        counts.cases += 1
    if not needed(shape) <= set(counts.states):
        raise Fault(f"the matrix is vacuous: {needed(shape) - set(counts.states)} did not occur")
    return counts


def needed(shape: Shape) -> set[str]:
    """The states that must have occurred: opaque views where the shape has layouts of its own, other ranks where others have as many
    elements."""
    states = {"normal", "view"} | ({"opaque", "opaque view"} if LAYOUTS[shape] else set())
    states |= {"opaque, other rank"} if any(d.shape != shape for d in descs(shape)) else set()
    ins = {f"{side} {state}" for side in ("in", "inplace") for state in states}
    return ins | {f"out {state}" for state in states | {"reused", "reused view", "reused opaque"}}


Case = Callable[[Counts, TempSpace], None]


def _in_place_cases(shape: Shape) -> Iterator[Case]:
    for build, way, kind in product(inputs(shape), ways(shape), OPS):
        yield partial(_in_place, shape=shape, build=build, way=way, kind=kind)


def _apart_cases(shape: Shape) -> Iterator[Case]:
    for build in inputs(shape):
        ins = build(data(shape, 0)), build(data(shape, 1))
        for build_out, way, kind, req in product(outs(shape), ways(shape), OPS, OpReq):
            yield partial(_apart, shape=shape, ins=ins, build=build_out, way=way, kind=kind, req=req)


def _state(counts: Counts, side: str, built: Built) -> None:
    """Count a state by what the array is, not by what it was made to be."""
    claims = "opaque" in built.state
    if claims is not built.array.is_opaque or ("view" in built.state) is not built.array.is_view:
        raise Fault(f"the matrix is vacuous: {built.array} is no {built.state}")
    counts.saw(f"{side} {built.state}")


def _equal(what: str, got: Values, want: Values, about: Callable[[], str]) -> None:
    if got.shape != want.shape or not (got == want).all():
        raise Fault(f"{about()}: {what}: {int((got != want).sum())} of {want.size} values are wrong")


def _in_place(counts: Counts, space: TempSpace, *, shape: Shape, build: Build, way: Way, kind: str) -> None:
    x, y = build(data(shape, 0)), build(data(shape, 1))

    def about() -> str:
        return f"{kind} in place on {x.array}, {way}"

    _state(counts, "inplace", x)
    around = None if x.parent is None else x.around()
    n, function = OPS[kind]
    run(kind, [x.array, y.array][:n], x.array, OpReq.write_inplace, way, space)
    _equal("the result", x.array.numpy(), function(*[data(shape, 0), data(shape, 1)][:n]), about)
    _equal("the other input", y.array.numpy(), data(shape, 1), about)
    if around is not None:
        _equal("rows beside the view", x.around(), around, about)


def _apart(
    counts: Counts, space: TempSpace, *, shape: Shape, ins: tuple[Built, Built], build: Build, way: Way, kind: str, req: OpReq
) -> None:
    n, function = OPS[kind]
    old = data(shape, 2)
    out = build(old)

    def about() -> str:
        return f"{kind} of {ins[0].array} into {out.array}, {req.value}, {way}"

    for built in ins[:n]:
        _state(counts, "in", built)
    _state(counts, "out", out)
    around = None if out.parent is None else out.around()
    before = [(b.array.chunk.store("m").desc, b.array.version) for b in (*ins, out)]
    memory = out.array.chunk.store("m").data.copy() if req is OpReq.null else None
    run(kind, [b.array for b in ins[:n]], out.array, req, way, space)
    result = function(*[data(shape, 0), data(shape, 1)][:n])
    want = {OpReq.null: old, OpReq.add_to: old + result}.get(req, result)
    _equal("the result", out.array.numpy(), want, about)
    after = [(b.array.chunk.store("m").desc, b.array.version) for b in (*ins, out)]
    if before[:2] != after[:2] or (req is OpReq.null and before != after):
        raise Fault(f"{about()}: a layout or a version changed: {before} -> {after}")
    if memory is not None and memory.tobytes() != out.array.chunk.store("m").data.tobytes():
        raise Fault(f"{about()}: null changed memory")
    for b, seed in zip(ins[:n], (0, 1), strict=False):
        _equal("an input", b.array.numpy(), data(shape, seed), about)
    if around is not None:
        _equal("rows beside the view", out.around(), around, about)
