"""What a compilation costs, counted: work on a long chain grows with its length, not with the square of it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.errors import Unimplemented
from benchgraph.core.remember import remembered
from benchgraph.core.target import host
from benchgraph.gir import domain
from benchgraph.gir import passes as gir_passes
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import Graph
from benchgraph.graph import GraphBuilder
from benchgraph.lower import lower
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import passes as tir_passes
from benchgraph.tir import regions


def fused(length: int) -> Graph:
    b = GraphBuilder()
    x = b.input((8, 32))
    for kind in ("ReLU", "Tanh") * (length // 2):
        x = b.op(kind, x)
    (p,) = partitions(b.graph(), Policy.fused)
    g = from_partition(p)
    for each in gir_passes.PIPELINE:
        g = each.fn(g, host())
    return g


def counted(monkeypatch: pytest.MonkeyPatch, module: object, name: str, work: Callable[[], object]) -> int:
    calls, really = [0], getattr(module, name)

    def count(*args: object, **kwargs: object) -> object:
        calls[0] += 1
        return really(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, count)
        work()
    return calls[0]


def test_an_op_is_looked_at_once_for_the_nest_it_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (counted(monkeypatch, domain, "_join", lambda n=n: fused(n)) for n in (20, 40))
    assert short >= 19
    assert long <= 2.2 * short


def test_shrinking_a_temporary_looks_at_its_own_accesses_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def shrink(length: int) -> None:
        tir_passes.run(lower(fused(length)).module, host(), lambda *_: None, tir_passes.PIPELINE[:4])

    short, long = (counted(monkeypatch, regions, "Access", lambda n=n: shrink(n)) for n in (20, 40))
    assert short >= 20
    assert long <= 2.2 * short


def test_a_fact_about_a_value_is_worked_out_once_and_is_no_part_of_it() -> None:
    @dataclass(frozen=True)
    class Node:
        a: int

    asked = list[int]()

    @remembered
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


def test_a_compilation_is_not_interrupted_by_garbage_collection() -> None:
    b, found = GraphBuilder(), list[str]()
    b.op("ReLU", b.input((8, 32)))
    (p,) = partitions(b.graph(), Policy.fused)

    def note(phase: str, info: object) -> None:
        found.append(phase)

    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    gc.callbacks.append(note)
    try:
        before = len(found)
        compile_partition(p)
        inside = found[before + 2 : -2]  # but for what the calls around it cause
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
