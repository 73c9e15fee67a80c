"""privatise: what tasks all read is made by each core for itself, only where nothing else sees it and it pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.table import table
from benchgraph.machine.target import ISAS, Target
from benchgraph.tir.build import add, binary, f32, minimum, mul, seq, sub
from benchgraph.tir.ir import Alloc, BinOp, Const, Expr, For, Func, LoopKind, Stmt, Store, Tensor, tensor
from benchgraph.tir.passes.privatise import privatise
from benchgraph.tir.visit import statements, walk
from tests.support.partitions import partition_of
from tests.support.reference_check import matches_reference
from tests.support.tir_programs import F32, TARGET, assert_same, at, i, j, k, loop, p, parallel, param, put, q

SIZE, TASKS = 2048, 6
X, W, Y = param("x", SIZE), param("w", TASKS, SIZE), param("y", TASKS, SIZE)
T, U = (tensor(name, F32, (SIZE,)) for name in "tu")


def times(a: Expr, b: Expr) -> Expr:
    return binary(BinOp.mul, a, b)


def made(t: Tensor = T, src: Tensor = X) -> Stmt:
    return loop(i, SIZE, put(t, i, value=times(at(src, i), f32(2.0))))


def tasks(t: Tensor = T, count: int = TASKS, where: Expr = k, rounds: int = 8) -> Stmt:
    """Each multiplies its row of w by t, so many times."""
    return parallel(j, count, loop(q, rounds, loop(k, SIZE, put(Y, j, k, value=times(at(W, j, k), at(t, where))))))


def given(*body: Stmt) -> Func:
    return Func("f", (X, W, Y), seq(Alloc(T), Alloc(U), *body))


def private(*body: Stmt) -> Func:
    after = privatise(given(*body), replace(TARGET, cores=2))
    assert_same(after, given(*body))
    return after


def test_a_second_pass_finds_nothing() -> None:
    f = private(made(), tasks())
    assert privatise(f, replace(TARGET, cores=2)) is f


def test_loops_too_short_to_parallelise_are_privatised_too() -> None:
    place = add(mul(i, 128), p)
    f = private(parallel(i, 16, loop(p, 128, put(T, place, value=at(X, place)))), tasks())
    assert [s.kind for s in walk(f.body) if isinstance(s, For)] == [LoopKind.parallel, *(LoopKind.serial,) * 5]


MANY = 1 << 16  # elements that two cores are worth making between them
LONG, LONG_T, LONG_U = param("long", MANY), tensor("lt", F32, (MANY,)), tensor("lu", F32, (MANY,))


def made_by_all(step: Expr | int = 1 << 12, t: Tensor = LONG_T, rounds: int = 1) -> Stmt:
    """In 16 pieces; step: elements of each."""
    place = add(mul(p, 1 << 12), i)
    return parallel(p, 16, loop(q, rounds, For(i, Const(step) if isinstance(step, int) else step, put(t, place, value=at(LONG, place)))))


def kinds(f: Func) -> list[LoopKind]:
    return [s.kind for s in walk(f.body) if isinstance(s, For)]


def long(*body: Stmt) -> Func:
    f = Func("f", (X, W, Y, LONG), seq(*map(Alloc, (T, LONG_T, LONG_U)), *body))
    after = privatise(f, replace(TARGET, cores=2))
    assert_same(after, f)
    return after


@pytest.mark.parametrize("step", [1 << 12, minimum(1 << 12, sub(MANY, mul(p, 1 << 12)))], ids=str)
def test_cheap_tensors_computed_by_all_cores_are_privatised(step: Expr | int) -> None:
    """Even if it is found out as it runs how long each piece is."""
    assert kinds(long(made_by_all(step), tasks(LONG_T))) == [LoopKind.parallel, *(LoopKind.serial,) * 6]


def test_slow_producers_stay_shared_and_their_consumers_move() -> None:
    both = parallel(j, TASKS, loop(q, 8, loop(k, SIZE, put(Y, j, k, value=times(at(T, k), at(LONG_T, k))))))
    body = long(made_by_all(rounds=9), made(), both)
    assert [s.kind for s in statements(body.body) if isinstance(s, For)] == [LoopKind.parallel, LoopKind.parallel]


def test_tensors_read_in_part_move_with_those_read_in_full() -> None:
    both = parallel(j, TASKS, loop(q, 8, loop(k, SIZE, put(Y, j, k, value=times(at(LONG_U, j), at(LONG_T, k))))))
    assert kinds(long(made_by_all(t=LONG_U), made_by_all(), both))[0] is LoopKind.parallel
    assert kinds(long(made_by_all(t=LONG_U), made_by_all(), both)).count(LoopKind.parallel) == 1


STAYS: dict[str, tuple[Stmt, ...]] = {
    "it is read once more": (made(), tasks(), loop(p, SIZE, put(X, p, value=at(T, p)))),
    "something in between is not for the tasks": (made(), loop(p, SIZE, put(X, p, value=f32(0.0))), tasks()),
    "of what the tasks write": (made(), loop(p, SIZE, put(U, p, value=at(Y, 0, p))), tasks(U)),
    "tasks read a part of it each": (made(), tasks(where=j)),
    "tasks that take long": (made(), tasks(rounds=10000)),
    "tasks that one core does in no time": (loop(i, 32, put(T, i, value=at(X, i))), parallel(j, 2, put(Y, j, 0, value=at(T, 0)))),
    "more is read than made": (loop(i, SIZE, put(T, i, value=times(at(X, i), at(W, 1, i)))), tasks()),
    "making it takes long": (loop(p, 300, loop(i, SIZE, put(T, i, value=at(X, i)))), tasks()),
    "several make it sooner": (parallel(p, 4, loop(q, 6, made())), tasks()),
}


@pytest.mark.parametrize("name", STAYS)
def test_tensors_stay_shared_where(name: str) -> None:
    f = given(*STAYS[name])
    assert privatise(f, replace(TARGET, cores=2)) is f


@pytest.mark.parametrize("more", [False, True])
def test_tensors_that_l2_evicts_meanwhile_stay_shared(more: bool) -> None:
    f, nbytes = given(made(), tasks()), T.dtype.nbytes(T.shape[0])
    target = replace(TARGET, cores=2, l2_bytes=nbytes // table(TARGET).private_l2_factor - more)
    assert (privatise(f, target) is f) == more


def test_one_core_keeps_shared_tensors() -> None:
    f = given(made(), tasks())
    assert privatise(f, replace(TARGET, cores=1)) is f


def test_few_rows_of_s8_are_made_u8_by_each_core() -> None:
    b = GraphBuilder()
    quantised = (b.input((8, 512), DType.s8), b.constant((512, 512), DType.s8))
    b.op("MatMul", *(b.op("Dequantize", v, qtype="per_tensor", scales=[0.5], zps=[0]) for v in quantised))
    part = partition_of(b.graph())
    main = compile_partition(part, Target(ISAS["avx512_core_vnni"], l1_bytes=48 << 10, l2_bytes=1 << 20, cores=2)).module.main
    (tasks,) = (s for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.parallel)
    assert tasks.extent == Const(2)
    assert any(isinstance(s, Store) and s.tensor.dtype is DType.u8 for s in walk(tasks))
    assert matches_reference(b.graph(), part)
