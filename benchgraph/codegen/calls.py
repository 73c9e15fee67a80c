"""The functions that products and packings call: microkernels and packing code, in LLVM modules of their own.

LLVM takes about as long for them as for the functions around them, and compiles the modules side by side (runtime/code.py). They are
written first, because what they are follows from the statements alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchgraph.codegen import ir, microkernel, pack
from benchgraph.codegen.frame import Call, Calls
from benchgraph.codegen.kernel import Ahead, Kernel
from benchgraph.codegen.post_ops import taken_out
from benchgraph.core.target import Target
from benchgraph.tir.build import add
from benchgraph.tir.ir import Brgemm, Flat, Func, Pack, Slice
from benchgraph.tir.visit import walk


def products(module: ir.Module, func: Func, target: Target) -> Calls:
    """What the products of func call, defined in the module."""
    return {id(s): (_product(module, s, func, target),) for s in walk(func.body) if isinstance(s, Brgemm)}


def packings(module: ir.Module, func: Func, target: Target, *, runs_once: bool) -> Calls:
    """What the packings of func call, defined in the module. runs_once: as in `pack.define`."""
    return {id(s): tuple(_packing(module, s, target, runs_once=runs_once)) for s in walk(func.body) if isinstance(s, Pack)}


def _product(module: ir.Module, s: Brgemm, func: Func, target: Target) -> Call:
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
    given = None
    if s.post_ops is not None:
        post_ops, given = taken_out(s, func.inplace)
        kernel = replace(kernel, post_ops=post_ops)
    streams = [(p, paced) for p in s.ahead if (paced := microkernel.pace(kernel, p.lines, target))]
    kernel = replace(kernel, ahead=tuple(Ahead(paced, p.is_store) for p, paced in streams))
    function = microkernel.define(module, kernel, target)
    places = (*((piece.tensor, piece.offset) for piece in (src, wei, acc)), *((p.tensor, p.index[0]) for p, _ in streams))
    return Call(function, places) if given is None else Call(function, (*places, *given.places), given.steps, given.held)


def _packing(module: ir.Module, s: Pack, target: Target, *, runs_once: bool) -> Iterator[Call]:
    src, dst = _flat(s.src, s.dst)
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


def _flat(*pieces: Slice | Flat) -> Iterable[Flat]:
    for piece in pieces:
        if isinstance(piece, Slice):
            raise TypeError(f"emit takes Tensor IR after flatten-index; {piece.tensor.name} is still sliced")
        yield piece
