"""How much the microkernels of a function multiply, with padding and without."""

from __future__ import annotations

from math import prod

import pytest

from benchgraph.graph.ir import Graph
from benchgraph.lower import taps as lower_taps
from benchgraph.tir.build import constant
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Brgemm, Const, For, Func, If, Seq, Stmt
from benchgraph.tir.visit import substitute_all, walk
from tests.support.tensor_ir import before, tir


def multiplications(s: Stmt) -> int:
    """Of all microkernel calls, each as often as the loops around it run."""
    if isinstance(s, Brgemm):
        return s.m * s.n * s.k * prod(s.batch)
    if isinstance(s, For) and any(isinstance(c, Brgemm) for c in walk(s)):
        times = range(constant(s.extent) or 0)
        return sum(multiplications(substitute_all(s.body, {s.var.name: Const(i)})) for i in times)
    if isinstance(s, If):
        assert s.orelse is not None
        return multiplications(s.then if constant(Simplifier({})(s.cond)) else s.orelse)
    return sum(map(multiplications, s.stmts)) if isinstance(s, Seq) else 0


def with_padding_multiplied(graph: Graph) -> Func:
    """The Tensor IR before merge-parallel of a convolution whose padding is multiplied like other elements."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower_taps, "taps_by_entry", lambda g, op: None)
        return tir(graph, before("merge-parallel"))
