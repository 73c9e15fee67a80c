"""mark-inplace: pairs of parameters for which the caller may pass the same memory.

    func f(x: f32[64], y: f32[64]) {         ->  func f(x: f32[64], y: f32[64]) y over x {
      for i in 64 { y[i] = exp(x[i]) }             for i in 64 { y[i] = exp(x[i]) }

That is legal if no element of x is loaded after the store to the same element of y:

    for i in 64 { y[i] = x[i]; z[i] = x[i] }            z over x, but not y over x
    for i in 4 { for j in 16 { s = s + x[i*16 + j] }    y over x: rows are disjoint, and each is read before it is overwritten
                 for j in 16 { y[i*16 + j] = s } }
    brgemm y = x @ w                                    not y over x: a microkernel may store before its last load

Later passes must keep the order of loads and stores of one iteration, and code generation must not take marked parameters for disjoint.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.target import Target
from benchgraph.tir.accesses import Access, accesses_of, extent, is_partitioned
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.index import within
from benchgraph.tir.ir import For, Func, If, InplacePair, Seq, Stmt, Store, Tensor
from benchgraph.tir.visit import bound_names, read, tensor_names, users, written


def mark_inplace(f: Func, target: Target) -> Func:
    if f.runs_once:
        return f  # its parameters are constants, which must not be overwritten
    stored = {t.name for t in written(f.body)}
    loaded = {t.name for t in read(f.body)} - stored
    sources = [src for src in f.params if src.name in loaded]
    pairs = (
        InplacePair(dst.name, src.name)
        for dst in f.params
        if dst.name in stored
        for src in sources
        if _are_alike(src, dst) and _loads_first(f.body, src.name, dst.name, {})
    )
    marked = tuple(dict.fromkeys((*f.inplace, *pairs)))  # pairs proven in an earlier run stay legal
    return f if marked == f.inplace else replace(f, inplace=marked)


def _are_alike(a: Tensor, b: Tensor) -> bool:
    return a.nbytes == b.nbytes and a.dtype.bits == b.dtype.bits and not a.dtype.is_packed  # whose stores rewrite a neighbour


def _loads_first(s: Stmt, src: str, dst: str, ranges: Ranges) -> bool:
    """Whether no load from src in s follows a store to the same element of dst, if both have one address."""
    if not {src, dst} <= tensor_names(s):
        return True
    match s:
        case Seq():
            both = sorted({*users(s).get(src, ())} & {*users(s).get(dst, ())})
            return _is_ordered(s, src, dst, ranges) and all(_loads_first(s.stmts[at], src, dst, ranges) for at in both)
        case If():
            return all(_loads_first(c, src, dst, narrowed) for c, narrowed in within(s, ranges))
        case Store():
            return True  # its value is complete before it stores
    loads, stores = _loads_and_stores(s, src, dst, ranges)
    if not loads or not stores:
        return True
    if not isinstance(s, For) or not is_partitioned([*loads, *stores], s.var.name, bound_names(s.body)):
        return False
    return _loads_first(s.body, src, dst, inside(s, ranges))


def _loads_and_stores(s: Stmt, src: str, dst: str, ranges: Ranges) -> tuple[list[Access], list[Access]]:
    """(loads from src, stores to dst) inside s."""
    loads = [a for a in accesses_of(src, s, ranges) if not a.is_store]
    return loads, [a for a in accesses_of(dst, s, ranges) if a.is_store]


def _is_ordered(s: Seq, src: str, dst: str, ranges: Ranges) -> bool:
    """Whether no statement loads an element that an earlier one has stored to."""
    of_src, of_dst = (users(s).get(name, ()) for name in (src, dst))
    if not of_src or not of_dst or of_src[-1] <= of_dst[0]:
        return True
    inner, stored = bound_names(s), list[Access]()
    for at in sorted({*of_src, *of_dst}):
        if at < of_dst[0]:
            continue
        loads, stores = _loads_and_stores(s.stmts[at], src, dst, ranges)
        if not all(_are_disjoint(a, b, inner) for a in stored for b in loads):
            return False
        stored += stores
    return True


def _are_disjoint(a: Access, b: Access, inner: frozenset[str]) -> bool:
    """Whether two accesses are to different elements, whatever the values of the variables named `inner` in each."""
    (base_a, first_a, last_a), (base_b, first_b, last_b) = extent(a, 0, inner), extent(b, 0, inner)
    return base_a == base_b and (last_a < first_b or last_b < first_a)
