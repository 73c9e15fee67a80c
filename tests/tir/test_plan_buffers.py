"""plan-buffers: buffers that are live together never share bytes; those that are not, do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import LINE_BYTES
from benchgraph.tir.build import binary, f32, seq
from benchgraph.tir.ir import Alloc, BinOp, Brgemm, Func, Scope, Stmt, Tensor, flat_slice, tensor
from benchgraph.tir.passes.plan_buffers import bytes_without_reuse, plan_buffers, temporary_bytes
from benchgraph.tir.verify import verify
from benchgraph.tir.visit import map_tensors, tensors, walk
from tests.support.tir_programs import TARGET, ZERO, assert_same, at, i, j, loop, parallel, param, put, results

X, Y = param("x", 64), param("y", 64)


def buffer(name: str, size: int = 64) -> Tensor:
    return tensor(name, DType.f32, (size,))


def step(dst: Tensor, src: Tensor) -> Stmt:
    return loop(j, 16, put(dst, j, value=binary(BinOp.add, at(src, j), f32(1.0))))


def planned(*body: Stmt) -> Func:
    f = Func("f", (X, Y), seq(*body))
    after = plan_buffers(f, TARGET)
    verify(after)
    assert_same(after, f)
    return after


def offsets(f: Func) -> dict[str, int]:
    return {t.name: t.offset for t in tensors(f.body) if t.offset is not None}


a, b, c, d = (buffer(name) for name in "abcd")


def test_report_counts_bytes_with_and_without_reuse() -> None:
    f = planned(Alloc(a), Alloc(b), Alloc(c), step(a, X), step(b, a), step(c, b), step(Y, c))
    assert (temporary_bytes(f), bytes_without_reuse(f)) == ((512, 0), (768, 0))


def test_gap_that_is_too_small_is_passed_over() -> None:
    small = buffer("a", 16)
    body = [step(small, X), step(b, X), step(d, X), step(Y, small), step(Y, b), step(c, X), step(Y, c), step(Y, d)]
    at_ = offsets(planned(Alloc(small), Alloc(b), Alloc(c), Alloc(d), *body))
    assert at_["c"] == 0 < at_["b"] < at_["d"]
    kept = [step(small, X), step(b, X), step(d, X), step(Y, small), step(Y, d), step(c, X), step(Y, c), step(Y, b)]
    at_ = offsets(planned(Alloc(small), Alloc(b), Alloc(c), Alloc(d), *kept))
    assert at_["c"] == at_["d"]


def test_buffer_used_in_a_loop_lives_through_all_of_it() -> None:
    """a is read early in each iteration, b written late: in the next iteration a is needed again."""
    f = planned(Alloc(a), Alloc(b), step(a, X), loop(i, 2, step(Y, a), step(b, X), step(Y, b)))
    assert len(set(offsets(f).values())) == 2


def test_buffer_declared_in_a_loop_is_free_again_within_it() -> None:
    f = planned(loop(i, 2, Alloc(a), Alloc(b), Alloc(c), step(a, X), step(b, a), step(c, b), step(Y, c)))
    assert len(set(offsets(f).values())) == 2


def test_inside_a_parallel_loop_the_thread_arena_is_used() -> None:
    f = planned(Alloc(a), step(a, X), parallel(i, 2, Alloc(b), step(b, a), put(Y, i, value=at(b, 0))))
    assert {t.name: t.scope for t in tensors(f.body) if t.offset is not None} == {"a": Scope.shared, "b": Scope.thread}
    assert (f.shared_bytes, f.thread_bytes) == (256, 256)


def test_offsets_are_aligned() -> None:
    odd = buffer("a", 17)
    f = planned(Alloc(odd), Alloc(b), step(odd, X), step(b, odd), step(Y, b))
    assert all(offset % LINE_BYTES == 0 for offset in offsets(f).values())
    assert f.shared_bytes == 128 + 256


def test_interpreter_detects_overlapping_buffers() -> None:
    """Fault injection: the second buffer moved onto the first, which is still live."""
    f = planned(Alloc(a), Alloc(b), step(a, X), step(b, a), loop(j, 16, put(Y, j, value=binary(BinOp.mul, at(a, j), at(b, j)))))
    before = next(t for t in tensors(f.body) if t.name == "b")
    broken = replace(f, body=map_tensors(f.body, {"b": replace(before, offset=0)}))
    verify(broken)
    assert not np.array_equal(results(broken, f)[1], results(f, f)[1])


def test_operands_of_one_microkernel_call_do_not_overlap() -> None:
    """src is used for the last time where acc is used for the first time."""
    src, wei, acc = (flat_slice(t, ZERO, (8, 1)) for t in (a, buffer("w"), b))
    call = Brgemm(src, wei, acc, 8, 8, 8)
    fill = [put(t, n, value=f32(n + 1.0)) for t in (a, wei.tensor) for n in range(64)]
    f = planned(Alloc(a), Alloc(wei.tensor), Alloc(b), *fill, call, *(put(Y, n, value=at(b, n)) for n in range(64)))
    assert len(set(offsets(f).values())) == 3


@pytest.mark.parametrize("takes", [True, False])
def test_operands_are_live_until_their_product_is_computed(takes: bool) -> None:
    """What takes it may be done along with the microkernel, which reads src meanwhile: it may not store to src, but to what died before."""
    src, wei, acc = (flat_slice(t, ZERO, (8, 1)) for t in (a, buffer("w"), b))
    fill = [put(t, n, value=f32(n + 1.0)) for t in (a, wei.tensor) for n in range(64)]
    body = [Brgemm(src, wei, acc, 8, 8, 8), Alloc(c), step(c, b if takes else X), step(Y, c), step(Y, b)]
    at_ = offsets(planned(Alloc(a), Alloc(wei.tensor), Alloc(b), *fill, *body))
    assert (at_["c"] in {at_["a"], at_["w"]}) is not takes


def test_register_declarations_are_unchanged() -> None:
    r = Tensor("r", DType.f32, (), (), Scope.register)
    f = planned(Alloc(a), Alloc(r), put(r, value=f32(2.0)), put(a, 0, value=at(r)), put(Y, 0, value=at(a, 0)))
    assert [s.tensor.name for s in walk(f.body) if isinstance(s, Alloc)] == ["r"]


def test_no_temporaries_returns_the_same_function() -> None:
    f = Func("f", (X, Y), step(Y, X))
    assert plan_buffers(f, TARGET) is f


def test_neighbours_that_are_free_make_room_for_a_larger_buffer() -> None:
    large = buffer("c", 128)
    body = [step(a, X), step(b, X), step(d, X), step(Y, a), step(Y, b), step(large, X), step(Y, large), step(Y, d)]
    f = planned(Alloc(a), Alloc(b), Alloc(large), Alloc(d), *body)
    assert offsets(f) == {"a": 0, "b": 256, "d": 512, "c": 0}


def test_buffer_that_fits_no_gap_takes_the_end_of_the_arena() -> None:
    large = buffer("c", 128)
    body = [step(a, X), step(b, X), step(d, X), step(Y, a), step(Y, d), step(large, X), step(Y, large), step(Y, b)]
    f = planned(Alloc(a), Alloc(b), Alloc(large), Alloc(d), *body)
    assert offsets(f) == {"a": 0, "b": 256, "d": 512, "c": 512}
    assert f.shared_bytes == 512 + 512


def test_allocation_of_zero_bytes_takes_no_memory() -> None:
    empty = buffer("a", 0)
    f = planned(Alloc(empty), loop(j, 0, put(empty, j, value=f32(0.0))), step(Y, X))
    assert f.shared_bytes == 0
