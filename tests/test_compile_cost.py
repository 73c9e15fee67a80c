"""What a compilation costs, counted: work on a long chain grows with its length, not with the square of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from benchgraph import compile as compile_module
from benchgraph.codegen import ir
from benchgraph.compile import compile_partition
from benchgraph.core import canonical
from benchgraph.core.config import override
from benchgraph.core.divisors import block_sizes
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.gc_pause import SWITCH_INTERVAL_S
from benchgraph.core.memoise import memoised
from benchgraph.gir import domain
from benchgraph.gir.ir import Graph
from benchgraph.gir.passes.propagate_layout import propagate_layout
from benchgraph.graph import GraphBuilder
from benchgraph.library.compile_jobs import compile_partitions
from benchgraph.lower import lower
from benchgraph.machine.target import host
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import accesses, index
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.build import add, mul
from benchgraph.tir.ir import Const, For, Func, Load, LoopKind, Scope, Seq, Store, Var, tensor
from benchgraph.tir.passes.flatten_index import flatten_index
from benchgraph.tir.passes.merge_parallel import merge_parallel
from benchgraph.tir.passes.simplify import simplify
from tests.support.call_counts import calls, counted
from tests.support.graph_ir import unverified
from tests.support.tensor_ir import before

propagate_layout_module = sys.modules[propagate_layout.__module__]


def fused(length: int, kinds: tuple[str, str] = ("ReLU", "Tanh")) -> Graph:
    b = GraphBuilder()
    x = b.input((8, 32))
    for kind in kinds * (length // 2):
        x = b.op(kind, x)
    return unverified(b.graph(), host())


def convolutions(b: GraphBuilder, layers: int) -> None:
    x = b.input((1, 7, 7, 16))
    for _ in range(layers):
        w = b.constant((3, 3, 16, 16))
        x = b.op("ReLU", b.op("Convolution", x, w, strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1)))


def perceptron(b: GraphBuilder, layers: int) -> None:
    x = b.input((8, 32))
    for _ in range(layers):
        x = b.op("ReLU", b.op("MatMul", x, b.constant((32, 32)), b.constant((32,))))


def residual(b: GraphBuilder, layers: int) -> None:
    x = b.input((8, 32))
    for _ in range(layers):
        x = b.op("Add", x, b.op("ReLU", b.op("MatMul", x, b.constant((32, 32)))))


@pytest.mark.parametrize("network", [convolutions, perceptron])
def test_a_deep_network_costs_graph_ir_what_its_layers_do(network: Callable[[GraphBuilder, int], None]) -> None:
    """Nests that are merged in pairs would else ask all others after each merge."""

    def asked(layers: int) -> int:
        b = GraphBuilder()
        network(b, layers)
        return calls(lambda: unverified(b.graph(), host()))

    asked(1)  # what is looked up once in a process
    short, long = asked(12), asked(24)
    assert long <= 2.4 * short


def test_squares_are_looked_at_once() -> None:
    """A walk over both operands of each takes twice the time of the op before."""

    def asked(length: int) -> int:
        b = GraphBuilder()
        x = b.input((8, 32))
        for _ in range(length):
            x = b.op("Multiply", x, x)
        return calls(lambda: unverified(b.graph(), host()))

    asked(1)  # what is looked up once in a process
    assert asked(16) < 3 * asked(8)


def test_a_residual_chain_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many products reach it, each value is asked once who reads it."""

    def asked(layers: int) -> int:
        b = GraphBuilder()
        residual(b, layers)
        return counted(monkeypatch, propagate_layout_module, "gemv_form", lambda: unverified(b.graph(), host()))

    short, long = asked(8), asked(16)
    assert short >= 8
    assert long <= 2.2 * short


def test_merging_loops_reads_what_is_new_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that grows merge by merge would else be read again each time."""

    def asked(statements: int) -> int:
        i, j = Var("i"), Var("j")
        held = [tensor(f"y{n}", DType.f32, (64, 64), Scope.param) for n in range(statements + 1)]
        body = [
            For(i, Const(64), For(j, Const(64), Store(dst, (i, j), Load(src, (i, j)))), LoopKind.parallel) for src, dst in pairwise(held)
        ]
        f = Func("f", tuple(held), Seq(tuple(body)))
        return counted(monkeypatch, accesses, "Access", lambda: merge_parallel(f, host()))

    short, long = asked(20), asked(40)
    assert short >= 20
    assert long <= 2.2 * short


def test_a_chain_is_cut_however_long_it_is() -> None:
    b = GraphBuilder()
    x = b.input((8, 32))
    for _ in range(sys.getrecursionlimit()):
        x = b.op("ReLU", x)
    assert len(partitions(b.graph(), Policy.one_op_each)) == sys.getrecursionlimit()


def test_rows_are_not_counted_one_by_one() -> None:
    assert calls(lambda: list(block_sizes(10**4))) < 1000

    def asked(rows: int) -> int:
        b = GraphBuilder()
        w = b.constant((3, 3, 16, 16))
        b.op("Convolution", b.input((1, rows, 4, 16)), w, strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1))
        return calls(lambda: unverified(b.graph(), host()))

    asked(64)
    assert asked(1 << 13) <= 1.5 * asked(1 << 9)


@pytest.mark.parametrize("columns", [1 << 26, (1 << 30) - 35])
def test_columns_are_not_counted_panel_by_panel(columns: int) -> None:
    b = GraphBuilder()
    b.op("MatMul", b.input((16, 16)), b.constant((16, columns)))
    b.op("SoftMax", b.input((columns, 16)), axis=0)
    asked = calls(lambda: [lower(unverified(p, host())) for p in partitions(b.graph(), Policy.fused)])
    assert asked < 600_000


def test_an_op_is_looked_at_once_for_the_nest_it_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (counted(monkeypatch, domain, "_join", lambda n=n: fused(n)) for n in (20, 40))
    assert short >= 19
    assert long <= 2.2 * short


def shrunk(g: Graph) -> Func:
    return tir_passes.run(lower(g).main, host(), lambda *_: None, before("pad-rows"))


@pytest.mark.parametrize("kinds", [("SoftMax", "Tanh"), ("ReLU", "Tanh")], ids=["loops", "one loop"])
def test_shrinking_a_temporary_looks_at_its_own_accesses_alone(kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (counted(monkeypatch, accesses, "Access", lambda n=n: shrunk(fused(n, kinds))) for n in (20, 40))
    assert short >= 20
    assert long <= 2.2 * short


def chain(statements: int) -> Func:
    """y_n[i, j] = y_m[i, j] many times, with the same indices as lowering gives them: the same objects."""
    i, j = Var("i"), Var("j")
    index = (mul(add(i, i), 3), add(add(j, 1), mul(j, 2)))
    held = [tensor(f"y{n}", DType.f32, (64, 64), Scope.param) for n in range(statements + 1)]
    body = tuple(Store(dst, index, Load(src, index)) for src, dst in pairwise(held))
    return Func("f", tuple(held), For(i, Const(8), For(j, Const(8), Seq(body))))


@pytest.mark.parametrize(("fn", "module"), [(simplify, index), (flatten_index, sys.modules[flatten_index.__module__])])
def test_an_index_that_statements_share_is_worked_out_once(fn, module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (counted(monkeypatch, module, "to_expr", lambda n=n: fn(chain(n), host())) for n in (2, 20))
    assert few == many > 0


def test_a_write_looks_at_nothing_that_was_read_elsewhere() -> None:
    """A row of many tensors read and one written would else take time with the square of their number."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()]), "f")
    b, f32 = ir.IRBuilder(function.append_basic_block()), ir.FloatingType("float")
    memories = [ir.Memory(name, frozenset([name])) for name in "xyz"]
    x, y, _ = (b.load(function.args[0], typ=f32, memory=m) for m in memories)
    kept = [b.block.reads(m) for m in memories]
    b.store(x, function.args[0], memory=memories[1])
    assert b.load(function.args[0], typ=f32, memory=memories[1]) is not y
    assert [b.block.reads(m) is k for m, k in zip(memories, kept, strict=True)] == [True, False, True]


def test_a_fact_about_a_value_is_worked_out_once_and_is_no_part_of_it() -> None:
    @dataclass(frozen=True)
    class Node:
        a: int

    asked = list[int]()

    @memoised
    def twice(node: Node) -> int:
        """Doubled."""
        asked.append(node.a)
        return 2 * node.a

    x = Node(3)
    assert [twice(x), twice(x), twice(Node(4))] == [6, 6, 8]
    assert asked == [3, 4]
    assert x == Node(3)
    assert hash(x) == hash(Node(3))
    assert repr(x) == repr(Node(3))
    assert twice.__doc__ == "Doubled."
    assert not any(isinstance(held, dict) for held in gc.get_referents(x)), "Python has made a dict of the fields: they are slower to read"


@pytest.mark.parametrize("number", [1, 0.1])
def test_rows_of_numbers_are_spelt_as_a_whole(number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a warm start: scales and zero points of each column."""
    few, many = (counted(monkeypatch, canonical, "_text", lambda n=n: canonical.canonical(((number,) * n, "x"))) for n in (10, 1000))
    assert few == many > 0


def test_a_compilation_is_not_interrupted_by_garbage_collection() -> None:
    b, found = GraphBuilder(), list[str]()
    b.op("ReLU", b.input((8, 32)))
    (p,) = partitions(b.graph(), Policy.fused)

    def note(phase: str, info: object) -> None:
        found.append(phase)

    gc.collect()  # what other tests left, and frees with work of its own
    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    gc.callbacks.append(note)
    try:
        before = len(found)
        executable = compile_partition(p)
        inside = found[before + 2 : -2]  # but for what the calls around it cause
        del executable  # whose end allocates too
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*threshold)
    assert len(inside) < 20, "thousands with collections"
    assert gc.isenabled()
    with pytest.raises(Unimplemented):
        compile_partition(replace(p, reason="no"))
    assert gc.isenabled()
    gc.disable()
    try:
        compile_partition(p)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("compiled", [compile_partition, lambda p: list(compile_partitions([p]))], ids=["alone", "of_a_graph"])
@pytest.mark.parametrize("before", [0.005, 1e-5])
def test_turns_are_short_inside_a_compilation_and_as_before_after_it(
    monkeypatch: pytest.MonkeyPatch, before: float, compiled: Callable[[Partition], object]
) -> None:
    b, found = GraphBuilder(), list[float]()
    b.op("ReLU", b.input((8, 32)))
    (p,) = partitions(b.graph(), Policy.fused)
    really = compile_module.lower
    monkeypatch.setattr(compile_module, "lower", lambda *args: (found.append(sys.getswitchinterval()), really(*args))[1])
    usual = sys.getswitchinterval()
    sys.setswitchinterval(before)
    try:
        with override(cache_dir="off"):
            compiled(p)
        assert found == [pytest.approx(min(before, SWITCH_INTERVAL_S))]
        assert sys.getswitchinterval() == pytest.approx(before)
    finally:
        sys.setswitchinterval(usual)
