"""Every pattern of graph algebra: what it makes of its example, that both mean the same, and where it does not apply; and the driver."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.gir import passes, rewrite
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.parse import parse_gir
from benchgraph.gir.rewrite import Pattern, Site
from benchgraph.gir.text import print_gir
from benchgraph.gir.verify import verify
from benchgraph.ops.spec import Call
from tests.support.call_counts import calls
from tests.support.graph_ir import renumbered
from tests.support.targets import EMULATED_DOTS

_MODULES = [import_module(f"{passes.__name__}.{module.name}") for module in iter_modules(passes.__path__)]
PATTERNS = {f"{m.__name__.split('.')[-1]}-{name}": p for m in _MODULES for name, p in vars(m).items() if isinstance(p, Pattern)}


def before_and_after(example: str) -> tuple[str, str]:
    given, made = example.split("->")
    head, _, ops = given.partition("{")
    new_ops, _, outs = made.rpartition("return")
    return f"{head}{{{ops}return{outs}", f"{head}{{{new_ops}return{outs}"


def data(g: Graph) -> dict[int, NDArray[np.generic]]:
    """Of inputs and other values that no op makes: the literal, or small positive numbers."""
    made, known = {v for op in g.ops for v in op.outs}, dict[int, NDArray[np.generic]]()
    for v in g.values:
        if v.id not in made:
            rng = np.random.default_rng(v.id)
            numbers = rng.uniform(0.25, 1, v.shape) if v.dtype.is_float else rng.integers(0, 100, v.shape)
            known[v.id] = numbers.astype(v.dtype.numpy) if v.literal is None else v.literal.array
    return known


def results(g: Graph, known: dict[int, NDArray[np.generic]]) -> list[NDArray[np.float64]]:
    """What the ops' references make of the data: in float64, each result rounded to its dtype."""
    for op in g.ops:
        call = Call(op.kind, op.attrs, tuple(g.value(v).type for v in op.ins), tuple(g.value(v).type for v in op.outs))
        ins = (known[v] for v in op.ins)
        made = op.semantics.reference(call, tuple(a if a.dtype.kind in "iub" else a.astype(np.float64) for a in ins))
        known |= {v: a.astype(g.value(v).dtype.numpy) for v, a in zip(op.outs, made, strict=False)}
    return [known[v].astype(np.float64) for v in g.outs]


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_an_example_becomes_what_it_says_and_means_the_same(pattern: Pattern) -> None:
    before, after = map(parse_gir, before_and_after(pattern.example))
    verify(before)
    verify(after)
    rewritten = rewrite.rewrite(before, EMULATED_DOTS, pattern)
    verify(rewritten)
    assert print_gir(renumbered(rewritten)) == print_gir(renumbered(after))
    for want, got in zip(results(before, data(before)), results(rewritten, data(rewritten) | data(before)), strict=True):
        assert np.abs(got - want).max() <= pattern.error * np.abs(want).max()
        assert np.ptp(want) > 0, "data that show nothing"


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_near_misses_stay_as_they_are(pattern: Pattern) -> None:
    before, _ = before_and_after(pattern.example)
    for part, instead in pattern.near_misses:
        assert part in before
        g = parse_gir(before.replace(part, instead))
        verify(g)
        assert rewrite.rewrite(g, EMULATED_DOTS, pattern) is g, f"{instead} instead of {part}"


# ---- the driver


def twice(s: Site) -> int:
    return s.like(s.op, s.like(s.op, *s.op.ins))


ENDLESS = Pattern(lambda row: row.kind == "Abs", twice, "", ())


def test_patterns_without_an_end_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MOST_SWEEPS", 3)
    g = parse_gir("graph(%0: f32[4]) { %1: f32[4] = Abs(%0) return %1 }")
    assert len(rewrite.rewrite(g, EMULATED_DOTS, ENDLESS).nodes) == 8


def test_a_result_takes_the_number_of_what_it_replaces_and_what_nothing_reads_goes() -> None:
    unused = Pattern(lambda row: row.kind == "ReLU", lambda s: s.d.op("Exp", s.op.ins[0]), "", ())
    g = parse_gir("graph(%0: f32[4]) { %1: f32[4] = Abs(%0) %2: f32[4] = ReLU(%0) %3: f32[4] = ReLU(%2) return %3 }")
    after = rewrite.rewrite(g, EMULATED_DOTS, unused)
    assert [(op.kind, op.ins, op.outs) for op in after.ops] == [("Exp", (0,), (2,)), ("Exp", (2,), (3,))]
    assert [v.id for v in after.values] == [0, 2, 3]


def test_another_type_is_converted_and_an_output_copied() -> None:
    operand = Pattern(lambda row: row.kind in ("ReLU", "Exp"), lambda s: s.op.ins[0], "", ())
    g = parse_gir("graph(%0: f32[4]) { %1: bf16[4] = ReLU(%0) %2: bf16[4] = Exp(%1) %3: f32[4] = ReLU(%0) return %2, %3 }")
    after = rewrite.rewrite(g, EMULATED_DOTS, operand)
    assert [(op.kind, op.ins, op.outs) for op in after.ops] == [("TypeCast", (0,), (1,)), ("Reorder", (1,), (2,)), ("Reorder", (0,), (3,))]


def test_a_sweep_costs_what_its_ops_do() -> None:
    """Patterns that apply nowhere, after they have built something, and patterns that apply everywhere."""

    def refused(s: Site) -> None:
        s.like(s.op, *s.op.ins)

    def applied(s: Site) -> int:
        return s.d.op("Exp", s.op.ins[0])

    def work(length: int) -> int:
        ops = " ".join(f"%{n}: f32[4] = Abs(%{n - 1})" for n in range(1, length + 1))
        g = parse_gir(f"graph(%0: f32[4]) {{ {ops} return %{length} }}")
        patterns = (Pattern(lambda row: row.kind == "Abs", build, "", ()) for build in (refused, applied))
        return calls(lambda: rewrite.rewrite(g, EMULATED_DOTS, *patterns))

    work(2)
    assert work(80) <= 2.1 * work(40)


def test_the_same_object_comes_back_where_nothing_applies() -> None:
    g = parse_gir("graph(%0: f32[4]) { %1: f32[4] = Abs(%0) return %1 }")
    assert rewrite.rewrite(g, EMULATED_DOTS, *PATTERNS.values()) is g
    assert isinstance(g.nodes[0], Op)


def test_of_equal_ops_that_move_or_narrow_the_same_operand_the_first_one_stays() -> None:
    operand = Pattern(lambda row: row.kind == "ReLU", lambda s: s.op.ins[0], "", ())
    moved = " ".join(f"%{n}: f32[2,4] = StaticTranspose(%{v}) {{order=[1,0]}}" for n, v in ((2, 0), (3, 1), (4, 0)))
    narrow = "%5: bf16[2,4] = TypeCast(%2) %6: bf16[2,4] = TypeCast(%3) %7: f32[2,4] = TypeCast(%5) %8: f32[2,4] = TypeCast(%6)"
    g = parse_gir(f"graph(%0: f32[4,2]) {{ %1: f32[4,2] = ReLU(%0) {moved} {narrow} %9: f32[2,4] = Add(%7, %8) return %9, %4 }}")
    after = rewrite.rewrite(g, EMULATED_DOTS, operand)
    assert [(op.kind, op.ins, op.outs) for op in after.ops] == [
        ("StaticTranspose", (0,), (2,)),
        ("StaticTranspose", (0,), (4,)),
        ("TypeCast", (2,), (5,)),
        ("TypeCast", (5,), (7,)),
        ("TypeCast", (5,), (8,)),
        ("Add", (7, 8), (9,)),
    ]
