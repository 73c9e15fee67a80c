"""Modes I, R and C on a library that can be told to be wrong."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import OutOfMemory, Unimplemented
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.harness.buffers import invert_bits
from benchgraph.harness.case import check
from benchgraph.harness.partitioning import WrongCount
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.results.mode import Mode
from benchgraph.results.result import Result, Status
from tests.support.fake_library import Clock, FakeLibrary, held


def graph() -> Graph:
    """MatMul, ReLU, Add; the ReLU's result leaves the graph too."""
    b = GraphBuilder()
    x = b.op("ReLU", b.op("MatMul", b.input((4, 8)), b.constant((8, 16))))
    b.op("Add", x, b.input((16,)))
    b.end(x)
    return b.graph()


def problem(expected: int = 1, **settings: object) -> Problem:
    driver = load_driver("graph")
    return Problem(0, driver, Globals(**settings), driver.knobs(expected_n_partitions=expected), Path())


def run(library: FakeLibrary, **settings: object) -> Result:
    return held(check, problem(**settings), graph(), library)


ALL = ("fused", "post_ops", "one_op_each")


def test_a_correct_library_passes_under_every_policy() -> None:
    result = run(FakeLibrary(Clock()), policy=ALL)
    assert (result.status, result.reason, result.errors) == (Status.PASSED, "", 0)
    assert result.n_partitions == {"fused": 1, "post_ops": 3, "one_op_each": 3}


def test_every_output_is_compared_and_the_whole_graph_too() -> None:
    outputs = 4 * 16
    assert run(FakeLibrary(Clock()), policy=("fused",)).total == 2 * outputs
    assert run(FakeLibrary(Clock()), policy=("one_op_each",)).total == (3 + 2) * outputs


def test_each_partition_executes_twice_in_order() -> None:
    library = FakeLibrary(Clock())
    run(library, policy=("one_op_each",))
    assert library.log == ["MatMul", "MatMul", "ReLU", "ReLU", "Add", "Add"]


def test_the_partition_that_is_wrong_is_named() -> None:
    library = FakeLibrary(Clock(), spoil=lambda kind, a: a + (kind == "ReLU"))
    result = run(library, policy=("one_op_each",))
    assert (result.status, result.errors) == (Status.FAILED, 64)
    assert result.reason.startswith("one_op_each: partition 1 (fake): tensor 3: 64 of 64 values differ, by up to 1 (")
    assert "first at [0, 0]: want " in result.reason


def test_an_unwritten_element_is_detected() -> None:
    def forget(kind: str, a: np.ndarray) -> np.ndarray:
        return np.where(np.arange(a.size).reshape(a.shape) == 5, np.nan, a) if kind == "Add" else a

    result = run(FakeLibrary(Clock(), spoil=forget))
    assert (result.status, result.errors) == (Status.FAILED, 1)
    assert result.reason.endswith("got nan")


def test_outputs_start_as_nan() -> None:
    seen = list[bool]()

    class Peeking(FakeLibrary):
        def compile(self, partition):  # type: ignore[no-untyped-def]
            compiled = super().compile(partition)
            bind = compiled.bind

            def peek(inputs, outputs):  # type: ignore[no-untyped-def]
                bound = bind(inputs, outputs)
                return lambda: (seen.append(all(np.isnan(o).all() for o in outputs)), bound())

            compiled.bind = peek  # type: ignore[method-assign]
            return compiled

    run(Peeking(Clock()), policy=("one_op_each",))
    assert seen == [True] * 6


def test_errors_that_only_add_up_are_found_on_the_whole_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.verdict.tolerance", lambda g: 1e-1 if len(g.ops) == 1 else 1e-6)
    result = run(FakeLibrary(Clock(), spoil=lambda kind, a: a * 1.01), policy=("one_op_each",))
    assert result.status is Status.FAILED
    assert result.reason.startswith("one_op_each: whole graph: tensor ")


def test_nearly_all_zeros_are_not_trusted_but_do_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(g: Graph, seed: int, *given: object) -> dict[int, np.ndarray]:
        return {t.id: np.zeros(t.known_shape, np.float32) for t in g.inputs}

    monkeypatch.setattr("benchgraph.harness.inputs.fill", zeros)
    result = run(FakeLibrary(Clock()))
    assert (result.status, result.errors) == (Status.MISTRUSTED, 0)
    assert re.search(r"100% zeros prove little; at most \d+% are trusted$", result.reason)


def test_zeros_that_no_data_could_change_are_trusted() -> None:
    b = GraphBuilder()
    b.op("GenIndex", b.input((1, 20)), axis=0)
    result = held(check, problem(), b.graph(), FakeLibrary(Clock()))
    assert (result.status, result.reason) == (Status.PASSED, "")


def test_seeds_change_the_data() -> None:
    found = list[float]()

    def note(kind: str, a: np.ndarray) -> np.ndarray:
        found.append(float(a.sum()))
        return a

    for seed in (0, 0, 1):
        run(FakeLibrary(Clock(), spoil=note), seed=seed)
    first, again, other = (found[i : i + 6] for i in (0, 6, 12))
    assert first == again != other


def test_a_partition_nobody_can_compile_is_unimplemented() -> None:
    with pytest.raises(Unimplemented, match=r"^fused: partition 0 \(op 0: MatMul, .*\) is unsupported: no kernel$"):
        run(FakeLibrary(Clock(), unsupported="ReLU"))


def test_the_partition_count_is_an_assertion_on_the_fused_policy() -> None:
    with pytest.raises(WrongCount) as bad:
        held(check, problem(expected=2), graph(), FakeLibrary(Clock()))
    assert str(bad.value) == (
        "expected number of partitions (2) doesn't coincide with the actual number of partitions (1); "
        "use --expected-n-partitions=1 if that is right, 0 not to check"
    )
    assert held(check, problem(expected=2, policy=("one_op_each",)), graph(), FakeLibrary(Clock())).status is Status.PASSED
    assert held(check, problem(expected=0), graph(), FakeLibrary(Clock())).status is Status.PASSED


def test_mode_i_compiles_and_does_not_execute() -> None:
    library = FakeLibrary(Clock())
    assert held(check, problem(mode=Mode.init), graph(), library).status is Status.INITIALIZED
    assert library.log == []


def test_mode_i_reports_what_compile_raises() -> None:
    with pytest.raises(OutOfMemory):
        held(check, problem(mode=Mode.init), graph(), FakeLibrary(Clock(), fails=OutOfMemory("full")))


def test_accuracy_of_every_output_is_kept_when_it_passes_too() -> None:
    library = FakeLibrary(Clock(), spoil=lambda kind, a: a * (1 + (kind == "MatMul") * 2.0**-22))  # twice f32's eps
    result = run(library, policy=("one_op_each",))
    assert result.status is Status.PASSED
    assert [(a.policy, a.where, a.tensor) for a in result.accuracy] == [
        *(("one_op_each", f"partition {i} (fake)", t) for i, t in enumerate((2, 3, 5))),
        *(("one_op_each", "whole graph", t) for t in (3, 5)),
    ]
    assert all((a.dtype, a.total, a.errors) == ("f32", 64, 0) for a in result.accuracy)
    first, relu, _, *whole = result.accuracy
    assert (relu.max_abs, relu.max_rel, relu.max_ulp, relu.l2) == (0, 0, 0, 0)
    for a in (first, *whole):
        assert 2.0**-25 < a.l2 < 2.0**-21
        assert a.max_rel > 2.0**-23
        assert 2 <= a.max_ulp <= a.max_rel * 2**24


def test_the_ops_of_every_partition_are_kept() -> None:
    result = run(FakeLibrary(Clock()), policy=("fused", "one_op_each"))
    assert result.partitions == {"fused": ((0, 1, 2),), "one_op_each": ((0,), (1,), (2,))}


def test_only_constants_are_kept_from_the_first_execution() -> None:
    """A library that keeps the result of its first execution, as it may keep packed weights, is wrong."""

    class Stale(FakeLibrary):
        def compile(self, partition):  # type: ignore[no-untyped-def]
            compiled = super().compile(partition)
            bind = compiled.bind

            def keep(inputs, outputs):  # type: ignore[no-untyped-def]
                bound, kept = bind(inputs, outputs), []

                def execute() -> None:
                    bound()
                    kept.append([o.copy() for o in outputs])
                    for o, first in zip(outputs, kept[0], strict=True):
                        o[...] = first

                return execute

            compiled.bind = keep  # type: ignore[method-assign]
            return compiled

    with np.errstate(all="ignore"):
        assert run(Stale(Clock())).status is Status.FAILED


def test_inputs_are_as_they_were_after_an_execution_on_other_data() -> None:
    b = GraphBuilder()
    ins = (b.input((3, 5), strides=(7, 1)), b.input((5,), DType.f32, strides=(0,)))
    b.op("Add", *ins)
    arrays = [np.lib.stride_tricks.as_strided(np.arange(21, dtype=np.float32), (3, 5), (28, 4)), np.broadcast_to(np.float32(2), 5)]
    before = [a.copy() for a in arrays]
    invert_bits(arrays)
    assert (arrays[0] != before[0]).all()
    assert (arrays[1] == before[1]).all(), "elements that share memory stay"
    invert_bits(arrays)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    flags = np.array([True, False])
    invert_bits([flags])
    assert flags.tolist() == [False, True]


def test_mode_b_finds_an_execution_that_does_not_repeat() -> None:
    count = iter(range(100))

    def drift(kind: str, a: np.ndarray) -> np.ndarray:
        return a + 1e-6 * (next(count) >= 3) if kind == "Add" else a

    settings = problem(mode=Mode.bitwise, policy=("one_op_each",))
    assert held(check, settings, graph(), FakeLibrary(Clock())).status is Status.EXECUTED
    count = iter([0, 9])
    result = held(check, settings, graph(), FakeLibrary(Clock(), spoil=drift))
    assert (result.status, result.errors > 0) == (Status.FAILED, True)
    assert "partition 2 (fake): tensor 5: " in result.reason
    assert " of 64 values differ from one execution to the next; first at position " in result.reason


def test_mode_r_executes_on_one_constant() -> None:
    seen = list[float]()

    def note(kind: str, a: np.ndarray) -> np.ndarray:
        seen.append(float(a.ravel()[0]))
        return a

    b = GraphBuilder()
    b.op("Abs", b.input((4,)))
    assert held(check, problem(mode=Mode.run), b.graph(), FakeLibrary(Clock(), spoil=note)).status is Status.EXECUTED
    assert seen == [np.frombuffer(b"\x3f" * 4, np.float32)[0]]


def test_mode_r_executes_once_and_compares_nothing() -> None:
    library = FakeLibrary(Clock(), spoil=lambda kind, a: a + 1)
    result = held(check, problem(mode=Mode.run), graph(), library)
    assert (result.status, result.total, library.log) == (Status.EXECUTED, 0, ["MatMul ReLU Add"])
