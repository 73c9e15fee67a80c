"""The functions that products and packings call: microkernels and packing code, in LLVM modules of their own.

LLVM takes about as long for them as for the functions around them, and compiles modules in parallel (runtime/code.py). They are emitted
first, as they depend on the Brgemm and Pack statements alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from benchgraph.codegen import amx, ir, microkernel, pack, tile_plan, transpose
from benchgraph.codegen.function_builder import Call, Calls
from benchgraph.codegen.kernel import Kernel, canonicalise
from benchgraph.codegen.post_ops import PostOpArguments, outline
from benchgraph.codegen.tile_registers import Shapes
from benchgraph.machine.target import Target
from benchgraph.tir.build import add
from benchgraph.tir.groups import GROUPS
from benchgraph.tir.ir import Brgemm, Expr, For, Func, Pack, Scope, Slice, Stmt, Tensor
from benchgraph.tir.loops import is_parallel
from benchgraph.tir.visit import children, walk

MODULE_INSTRUCTIONS = 400
"""A module of kernels with so many is handed to LLVM, which compiles it (5 to 10 ms, of which 1 to 2 ms are a fixed cost per module) while
the next are emitted."""


def products(func: Func, target: Target) -> dict[int, MicrokernelCall]:
    """The products of func, by the id() of their statements. Where all kernels of a task share their tile shapes, the task sets them."""
    out = {id(s): _microkernel_call(s, func, target) for s in walk(func.body) if isinstance(s, Brgemm)}
    for task in _outermost_loops(func.body):
        tiled = [i for i in map(id, walk(task)) if i in out and amx.uses_tiles(out[i].kernel, target)]
        shapes = {tile_plan.common_shapes(out[i].kernel) for i in tiled}
        common = shapes.pop() if len(shapes) == 1 else None
        if common is not None:
            out.update((i, out[i].with_shapes(common)) for i in tiled)
    return out


def kernels(wanted: Iterable[Kernel], name: str, target: Target, defined: Mapping[str, ir.Function]) -> Iterator[ir.Module]:
    """Modules that define them, unless they are in `defined`, each as soon as it is complete. Kernels that share code are in one module."""
    by_code = dict[str, list[Kernel]]()
    for kernel in wanted:
        by_code.setdefault(microkernel.code_name(kernel, target), []).append(kernel)
    module = ir.Module(name, defined)
    for kernels_of_code in by_code.values():
        for kernel in kernels_of_code:
            microkernel.define(module, kernel, target)
        if module.instructions >= MODULE_INSTRUCTIONS:
            yield module
            module = ir.Module(name, defined)
    if module.functions:
        yield module


def is_run_by_a_thread(s: For) -> bool:
    """Whether one thread runs a loop that no other loop is around, or an iteration of it if it is parallel."""
    return is_parallel(s) or not any(map(is_parallel, walk(s.body)))


def _outermost_loops(s: Stmt) -> Iterator[For]:
    if isinstance(s, For) and is_run_by_a_thread(s):
        yield s
    else:
        for inner in children(s):
            yield from _outermost_loops(inner)


def packings(module: ir.Module, func: Func, target: Target) -> Calls:
    """The calls of func's Pack statements, to functions that are defined in the module."""
    return {id(s): tuple(_packing(module, s, target, runs_once=func.runs_once)) for s in walk(func.body) if isinstance(s, Pack)}


@dataclass(frozen=True)
class MicrokernelCall:
    """A canonical kernel, and its arguments as in `Call`. shapes: of the tile registers, if the task sets them."""

    kernel: Kernel
    pointers: tuple[tuple[Tensor, Expr], ...]
    post_ops: PostOpArguments | None
    shapes: Shapes | None = None

    def with_shapes(self, shapes: Shapes) -> MicrokernelCall:
        """The same, called where tile registers have these shapes."""
        return replace(self, kernel=replace(self.kernel, tiles_configured=True), shapes=shapes)

    def call(self, function: ir.Function) -> Call:
        """The call of the kernel's function."""
        if self.post_ops is None:
            return Call(function, self.pointers, shapes=self.shapes)
        p = self.post_ops
        return Call(function, (*self.pointers, *p.operands), p.row_strides, p.loop_variables, p.registers, self.shapes)


def _microkernel_call(s: Brgemm, func: Func, target: Target) -> MicrokernelCall:
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
        wei_ahead=s.wei_ahead,
    )
    if not amx.uses_tiles(kernel, target):
        kernel = replace(kernel, reads_past_k=_can_read_past_k(src.tensor, s, func))
    arguments = None
    if s.post_ops is not None:
        post_ops, arguments = outline(s, func.inplace)
        kernel = replace(kernel, post_ops=post_ops)
    streams = [(p, stream) for p in s.prefetches if (stream := microkernel.prefetch_stream(kernel, p, target)) is not None]
    kernel = replace(kernel, prefetches=tuple(stream for _, stream in streams))
    pointers = (*((operand.tensor, operand.offset) for operand in (src, wei, acc)), *((p.tensor, p.index[0]) for p, _ in streams))
    return MicrokernelCall(canonicalise(kernel), pointers, arguments)


def _can_read_past_k(src: Tensor, s: Brgemm, func: Func) -> bool:
    """Whether the last k group of src, if incomplete, may be loaded whole.

    It may if src holds integers (no NaN; wei is zero there), and the bytes up to the group's end are inside its arena.
    """
    missing = -s.k % GROUPS[s.dtypes]
    if not missing or not src.dtype.is_integer or src.offset is None:
        return False
    arena = func.shared_bytes if src.scope is Scope.shared else func.thread_bytes
    return src.offset + src.nbytes + src.dtype.nbytes(missing) <= arena


def _packing(module: ir.Module, s: Pack, target: Target, *, runs_once: bool) -> Iterator[Call]:
    src, dst = _flat(s.src, s.dst)
    if s.transposes:
        transposition = transpose.Transposition(s.k, s.n, src.tensor.dtype, dst.tensor.dtype, src.strides[1], dst.strides[0])
        yield Call(transpose.define(module, transposition, target), ((src.tensor, src.offset), (dst.tensor, dst.offset)))
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
        pointers = (src.tensor, add(src.offset, part.src_offset)), (dst.tensor, add(dst.offset, part.dst_offset))
        yield Call(part.function, pointers, part.sizes)


def _flat(*operands: Slice) -> Iterable[Slice]:
    for operand in operands:
        if not operand.is_flat:
            raise TypeError(f"emit takes Tensor IR after flatten-index; {operand.tensor.name} is still sliced")
        yield operand
