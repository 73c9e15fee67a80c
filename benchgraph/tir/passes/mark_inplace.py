"""mark-inplace: which parameter may be given up to another, so that the caller may pass one piece of memory for both.

    func f(x: f32[64], y: f32[64]) {         ->  func f(x: f32[64], y: f32[64]) y over x {
      for i in 64 { y[i] = exp(x[i]) }             for i in 64 { y[i] = exp(x[i]) }

That is right when nothing is loaded from x after the store to y that lies on the same element:

    for i in 64 { y[i] = x[i]; z[i] = x[i] }            z over x, but not y over x
    for i in 4 { for j in 16 { s = s + x[i*16 + j] }    y over x: rows are apart, and a row is read before it is overwritten
                 for j in 16 { y[i*16 + j] = s } }
    brgemm y = x @ w                                    not y over x: a microkernel may store before it has loaded everything

What cannot be proven is not marked. Later passes must keep the order of loads and stores of one iteration, and code generation must not
take marked parameters for separate memory.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.tir.accesses import Access, accesses_of, extent, inner_names, is_partitioned
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.index import assume
from benchgraph.tir.ir import Brgemm, For, Func, If, InplacePair, Pack, Seq, Stmt, Store, Tensor
from benchgraph.tir.operands import operands
from benchgraph.tir.visit import bound_names, exprs, loads_of, tensor_names, users, walk, written

BYTE_BITS = 8  # narrower elements share bytes, and storing one rewrites its neighbour


def mark_inplace(f: Func, target: Target) -> Func:
    if f.runs_once:
        return f  # its parameters are constants, which are never given up
    stored = {t.name for t in written(f.body)}
    loaded = _loaded(f.body) - stored
    sources = [src for src in f.params if src.name in loaded]
    found = (
        InplacePair(dst.name, src.name)
        for dst in f.params
        if dst.name in stored
        for src in sources
        if _are_alike(src, dst) and _loads_first(f.body, src.name, dst.name, {})
    )
    marked = tuple(dict.fromkeys((*f.inplace, *found)))  # what was proven before later passes rewrote the loops stays true
    return f if marked == f.inplace else replace(f, inplace=marked)


def _loaded(body: Stmt) -> set[str]:
    """Names of the tensors that it loads from."""
    found = set[str]()
    for s in walk(body):
        found.update(load.tensor.name for e in exprs(s) for load in loads_of(e))
        if isinstance(s, Brgemm | Pack):
            found.update(o.piece.tensor.name for o in operands(s)[:-1])
    return found


def _are_alike(a: Tensor, b: Tensor) -> bool:
    return a.nbytes == b.nbytes and a.dtype.bits == b.dtype.bits >= BYTE_BITS


def _loads_first(s: Stmt, src: str, dst: str, ranges: Ranges) -> bool:
    """True when no load from src in s follows a store to dst on the same element, if both begin at one address."""
    if not {src, dst} <= tensor_names(s):
        return True
    match s:
        case Seq():
            both = sorted({*users(s).get(src, ())} & {*users(s).get(dst, ())})
            return _is_ordered(s, src, dst, ranges) and all(_loads_first(s.stmts[at], src, dst, ranges) for at in both)
        case If():
            then = _loads_first(s.then, src, dst, assume(s.cond, ranges, holds=True))
            return then and (s.orelse is None or _loads_first(s.orelse, src, dst, assume(s.cond, ranges, holds=False)))
        case Store():
            return True  # its value is complete before it stores
    loads, stores = _touching(s, src, dst, ranges)
    if not loads or not stores:
        return True
    if not isinstance(s, For) or not is_partitioned([*loads, *stores], s.var.name, inner_names(s)):
        return False
    return _loads_first(s.body, src, dst, inside(s, ranges))


def _touching(s: Stmt, src: str, dst: str, ranges: Ranges) -> tuple[list[Access], list[Access]]:
    """(loads from src, stores to dst) inside s."""
    loads = [a for a in accesses_of(src, s, ranges, is_lasting=True) if not a.is_store]
    return loads, [a for a in accesses_of(dst, s, ranges, is_lasting=True) if a.is_store]


def _is_ordered(s: Seq, src: str, dst: str, ranges: Ranges) -> bool:
    """True when no statement loads an element that one before it has stored to."""
    of_src, of_dst = (users(s).get(name, ()) for name in (src, dst))
    if not of_src or not of_dst or of_src[-1] <= of_dst[0]:
        return True
    inner, stored = bound_names(s), list[Access]()
    for at in sorted({*of_src, *of_dst}):
        if at < of_dst[0]:
            continue
        loads, stores = _touching(s.stmts[at], src, dst, ranges)
        if not all(_never_meet(a, b, inner) for a in stored for b in loads):
            return False
        stored += stores
    return True


def _never_meet(a: Access, b: Access, inner: frozenset[str]) -> bool:
    """True when the two touch different elements, wherever the variables named `inner` stand in each of them."""
    (base_a, first_a, last_a), (base_b, first_b, last_b) = extent(a, 0, inner), extent(b, 0, inner)
    return base_a == base_b and (last_a < first_b or last_b < first_a)
