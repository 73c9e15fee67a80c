"""The functions that products and packings call: microkernels and packing code, in LLVM modules of their own.

LLVM takes about as long for them as for the functions around them, and compiles the modules side by side (runtime/code.py). They are
written first, because what they are follows from the statements alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from benchgraph.codegen import amx, ir, microkernel, pack, tile_plan, turn
from benchgraph.codegen.frame import Call, Calls
from benchgraph.codegen.kernel import Kernel, canonical
from benchgraph.codegen.post_ops import Given, taken_out
from benchgraph.codegen.tile_registers import Shapes
from benchgraph.core.target import Target
from benchgraph.tir.build import add
from benchgraph.tir.groups import GROUPS
from benchgraph.tir.ir import Brgemm, Expr, FlatSlice, For, Func, LoopKind, Pack, Scope, Slice, Stmt, Tensor
from benchgraph.tir.visit import children, walk

FULL = 400
"""Instructions after which a module of kernels is closed: LLVM is at them while the next ones are written.

They take it 5 to 10 ms, and each module 1 to 2 by itself.
"""


def products(func: Func, target: Target) -> dict[int, Product]:
    """Of the statements of func, by their id(). Where all tiles of a task have the same shapes, the task sets them."""
    found = {id(s): _product(s, func, target) for s in walk(func.body) if isinstance(s, Brgemm)}
    for task in tasks(func.body):
        tiled = [i for i in map(id, walk(task)) if i in found and amx.takes(found[i].kernel, target)]
        shapes = {tile_plan.shapes(found[i].kernel) for i in tiled}
        common = shapes.pop() if len(shapes) == 1 else None
        if common is not None:
            found.update((i, found[i].configured(common)) for i in tiled)
    return found


def kernels(wanted: Iterable[Kernel], name: str, target: Target, defined: Mapping[str, ir.Function]) -> Iterator[ir.Module]:
    """Modules that define them but for those of `defined`, each as soon as it is written. Those that share their loops (`Kernel.loops`) are
    in one."""
    alike = dict[str, list[Kernel]]()
    for kernel in wanted:
        alike.setdefault(kernel.loops, []).append(kernel)
    module = ir.Module(name, defined)
    for family in alike.values():
        for kernel in family:
            microkernel.define(module, kernel, target)
        if module.instructions >= FULL:
            yield module
            module = ir.Module(name, defined)
    if module.functions:
        yield module


def tasks(s: Stmt) -> Iterator[For]:
    """The outermost parallel loops."""
    if isinstance(s, For) and s.kind is LoopKind.parallel:
        yield s
    else:
        for inner in children(s):
            yield from tasks(inner)


def packings(module: ir.Module, func: Func, target: Target) -> Calls:
    """What the packings of func call, defined in the module."""
    return {id(s): tuple(_packing(module, s, target, runs_once=func.runs_once)) for s in walk(func.body) if isinstance(s, Pack)}


@dataclass(frozen=True)
class Product:
    """A canonical kernel, and what it is given, as in `Call`. shapes: what tile registers are like when it is called, if that is known."""

    kernel: Kernel
    places: tuple[tuple[Tensor, Expr], ...]
    given: Given | None
    shapes: Shapes | None = None

    def configured(self, shapes: Shapes) -> Product:
        """The same, called where tile registers have these shapes."""
        return replace(self, kernel=replace(self.kernel, is_configured=True), shapes=shapes)

    def called(self, function: ir.Function) -> Call:
        """The call of the kernel's function."""
        if self.given is None:
            return Call(function, self.places, shapes=self.shapes)
        given = self.given
        return Call(function, (*self.places, *given.places), given.steps, given.outer, given.held, self.shapes)


def _product(s: Brgemm, func: Func, target: Target) -> Product:
    src, wei, acc = _flat(s.src, s.wei, s.acc)
    kernel = Kernel(
        m=s.m,
        n=s.n,
        k=s.k,
        batch=tuple(zip(s.batch, src.strides[2:], wei.strides[2:], strict=True)),
        src_row_stride=src.strides[0],
        src_col_stride=src.strides[1],
        wei_row_stride=wei.strides[0],
        acc_row_stride=acc.strides[0],
        accumulate=s.accumulate,
        dtypes=s.dtypes,
    )
    if not amx.takes(kernel, target):
        kernel = replace(kernel, has_more=_has_more(src.tensor, s, func))
    given = None
    if s.post_ops is not None:
        post_ops, given = taken_out(s, func.inplace)
        kernel = replace(kernel, post_ops=post_ops)
    streams = [(p, ahead) for p in s.prefetches if (ahead := microkernel.stream(kernel, p, target)) is not None]
    kernel = replace(kernel, ahead=tuple(ahead for _, ahead in streams))
    places = (*((piece.tensor, piece.offset) for piece in (src, wei, acc)), *((p.tensor, p.index[0]) for p, _ in streams))
    return Product(canonical(kernel), places, given)


def _has_more(src: Tensor, s: Brgemm, func: Func) -> bool:
    """Whether behind a temporary of integers there is memory for the rest of the group that k ends in."""
    missing = -s.k % GROUPS[s.dtypes]
    if not missing or not src.dtype.is_integer or src.offset is None:
        return False
    arena = func.shared_bytes if src.scope is Scope.shared else func.thread_bytes
    return src.offset + src.nbytes + src.dtype.nbytes(missing) <= arena


def _packing(module: ir.Module, s: Pack, target: Target, *, runs_once: bool) -> Iterator[Call]:
    src, dst = _flat(s.src, s.dst)
    if s.transposes:
        turning = turn.Turning(s.k, s.n, src.tensor.dtype, dst.tensor.dtype, src.strides[1], dst.strides[0])
        yield Call(turn.define(module, turning, target), ((src.tensor, src.offset), (dst.tensor, dst.offset)))
        return
    packing = pack.Packing(
        s.k,
        s.n,
        src=src.tensor.dtype,
        dst=dst.tensor.dtype,
        group=s.group,
        src_row_stride=src.strides[0],
        src_col_stride=src.strides[1],
        dst_row_stride=dst.strides[0],
    )
    for part in pack.define(module, packing, target, runs_once=runs_once):
        places = (src.tensor, add(src.offset, part.src_offset)), (dst.tensor, add(dst.offset, part.dst_offset))
        yield Call(part.function, places, part.numbers)


def _flat(*pieces: Slice | FlatSlice) -> Iterable[FlatSlice]:
    for piece in pieces:
        if isinstance(piece, Slice):
            raise TypeError(f"emit takes Tensor IR after flatten-index; {piece.tensor.name} is still sliced")
        yield piece
