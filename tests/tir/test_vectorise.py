"""vectorise: what becomes vectors, what stays scalar, and that both mean the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import ISAS
from benchgraph.tir.build import add, binary, cast, f32, floordiv, mod, mul, seq, sub, unary
from benchgraph.tir.ir import REDUCING_OPS, Alloc, Binary, BinOp, Const, Expr, For, Func, If, Random, Scope, Seq, Stmt, Store, Tensor, UnOp
from benchgraph.tir.passes.simplify import simplify
from benchgraph.tir.passes.vectorise import vectorise
from benchgraph.tir.text import print_tir
from benchgraph.tir.vector_loops import SCATTERED_INSTRUCTIONS
from benchgraph.tir.verify import verify
from benchgraph.tir.visit import tensors, walk
from tests.support.table import by_row
from tests.support.tir_programs import TARGET, assert_same, at, i, j, k, loop, param, put

X, Y, S, H = param("x", 4096), param("y", 4096), param("s", 16, dtype=DType.s32), param("h", 64, dtype=DType.bf16)
S4096 = param("t", 4096, dtype=DType.s32)
R = Tensor("r", DType.f32, (), (), Scope.register)
IN_A_BLOCK = If(binary(BinOp.gt, j, Const(7)), put(R, value=add(at(R), at(X, j))))  # such a block is what unrolling a loop leaves


def vectorised(*body: Stmt, isa: str = "avx512_core") -> Func:
    f = Func("f", (X, Y, S, H, S4096), seq(*body))
    verify(f)
    after = simplify(vectorise(f, replace(TARGET, isa=ISAS[isa])), TARGET)
    verify(after)
    assert_same(after, f)
    return after


def is_scalar(*body: Stmt) -> bool:
    f = Func("f", (X, Y, S, H), seq(*body))
    return vectorise(f, TARGET) is f


def text(*body: Stmt) -> str:
    return print_tir(vectorised(*body).body)


def double(n: int) -> Stmt:
    return loop(j, n, put(Y, j, value=binary(BinOp.mul, at(X, j), f32(2.0))))


def total(n: int, op: BinOp = BinOp.add) -> Stmt:
    return loop(j, n, put(Y, 7, value=binary(op, at(Y, 7), at(X, j))))


@by_row(
    (isa, f"{op.value} of {n}", (op, n, isa))
    for isa in ("avx512_core", "avx2", "portable")
    for n in (1, 3, 4, 5, 31, 32, 33, 67, 129)
    for op in sorted(REDUCING_OPS, key=lambda op: op.value)
)
def test_reduction_of_any_length(op: BinOp, n: int, isa: str) -> None:
    vectorised(total(n, op), isa=isa)


def test_registers_in_the_body_widen() -> None:
    body = [Alloc(R), put(R, value=binary(BinOp.mul, at(X, j), at(X, j))), put(Y, j, value=binary(BinOp.add, at(R), at(R)))]
    f = vectorised(loop(j, 32, *body))
    assert {t.lanes for t in tensors(f.body) if t.name == "r"} == {16}


def test_two_reductions_share_a_loop_and_have_their_own_accumulators() -> None:
    def both(first: Expr | int, second: Expr | int) -> Stmt:
        places = (first, BinOp.min), (second, BinOp.max)
        return loop(j, 256, *(put(Y, n, value=binary(op, at(Y, n), at(X, j))) for n, op in places))

    assert text(loop(k, 2, both(k, add(k, 1)))).count("x16 register") == 8
    assert is_scalar(both(0, 0))
    assert is_scalar(loop(k, 2, both(k, 0)))  # which may be one place
    into = [Tensor(n, DType.f32, (), (), Scope.register) for n in ("least", "most")]
    start = [s for r in into for s in (Alloc(r), put(r, value=at(X, 0)))]
    fold = [put(r, value=binary(op, at(r), at(X, j))) for r, op in zip(into, (BinOp.min, BinOp.max), strict=True)]
    end = [put(Y, n, value=at(r)) for n, r in enumerate(into)]
    assert text(*start, loop(j, 256, *fold), *end).count("x16 register") == 8


@pytest.mark.parametrize(("reductions", "accumulators"), [(1, 4), (2, 8), (3, 6), (4, 8)])
@pytest.mark.parametrize(("op", "dtype"), [(BinOp.add, DType.s32), (BinOp.max, DType.f32), (BinOp.add, DType.f32)])
def test_two_reductions_have_four_accumulators_each_and_more_have_two(op: BinOp, dtype: DType, reductions: int, accumulators: int) -> None:
    into = [Tensor(f"r{n}", dtype, (), (), Scope.register) for n in range(reductions)]
    source = X if dtype is DType.f32 else S4096
    start = [s for r in into for s in (Alloc(r), put(r, value=at(source, 0)))]
    fold = [put(r, value=binary(op, at(r), at(source, add(j, n * 128)))) for n, r in enumerate(into)]
    end = [put(Y, 1000 + n, value=cast(at(r), DType.f32)) for n, r in enumerate(into)]
    body = (*start, loop(j, 128, *fold), *end)
    assert text(*body).count("x16 register") == accumulators
    assert print_tir(vectorised(*body, isa="avx2").body).count("x8 register") == accumulators, "results depend on it, and not on the ISA"


@pytest.mark.parametrize("op", [BinOp.minimum, BinOp.maximum])
@pytest.mark.parametrize(("n", "operands"), [(48, [1]), (64, [4]), (117, [4, 3, 1]), (256, [4])])
def test_extremes_that_are_nan_where_an_operand_is_take_several_vectors_at_a_time(op: BinOp, n: int, operands: list[int]) -> None:
    """So that machine code checks two of them at once."""
    body = text(total(n, op))
    assert body.count("x16 register") == 1
    assert [
        line.count(f"{op.value}(") for line in body.splitlines() if " y_v0 = " in f" {line.lstrip()}" and f"{op.value}(" in line
    ] == operands


def test_extremes_of_what_is_stored_too_have_their_own_accumulators() -> None:
    body = loop(j, 128, put(Y, j, value=at(X, j)), put(R, value=binary(BinOp.maximum, at(R), at(X, j))))
    assert text(Alloc(R), put(R, value=at(X, 0)), body, put(Y, 1000, value=at(R))).count("x16 register") == 4


def test_reduction_into_a_register_and_a_store_of_the_same_values() -> None:
    """The second loop of softmax."""
    e = put(Y, j, value=unary(UnOp.exp, binary(BinOp.sub, at(X, j), f32(1.0))))
    body = loop(j, 100, e, put(R, value=binary(BinOp.add, at(R), at(Y, j))))
    assert "reduce_add" in text(seq(Alloc(R), put(R, value=f32(0.0)), body, put(Y, 0, value=at(R))))


def test_constant_stride_gathers() -> None:
    assert ":+16*3]" in text(loop(j, 64, put(Y, j, value=at(X, add(mul(j, 3), 1)))))


@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("isa", ["avx512_core", "avx2", "portable"])
def test_close_elements_are_stored_in_vectors(stride: int, isa: str) -> None:
    body = loop(j, 67, put(Y, add(mul(j, stride), 1), value=at(X, j)))
    lanes = ISAS[isa].lanes
    assert f":+{lanes}*{stride}] = x[" in print_tir(vectorised(body, isa=isa).body)


def test_close_elements_of_a_narrow_type_are_not() -> None:
    assert is_scalar(loop(j, 32, put(H, mul(j, 2), value=cast(at(X, j), DType.bf16))))


def test_elements_far_apart_are_scattered_when_they_take_work_enough() -> None:
    def across(folds: int) -> Stmt:
        value: Expr = unary(UnOp.exp, at(X, j))
        for _ in range(folds):
            value = binary(BinOp.mul, value, at(X, j))
        return loop(j, 32, put(Y, mul(j, 64), value=value))

    assert is_scalar(across(1))
    assert "y[j_v*1024:+16*64] = " in text(across(SCATTERED_INSTRUCTIONS))


@pytest.mark.parametrize(
    ("to", "of", "says"),
    [
        (add(mul(floordiv(j, 32), 64), mod(j, 32)), j, "y[j_v*16 + j_v//2*32:+16] = x[j_v*16:+16]"),
        (j, mod(mul(j, 2), 64), "y[j_v*16:+16] = x[j_v%2*32:+16*2]"),
        (j, floordiv(j, 48), "y[j_v*16:+16] = x16(x[j_v//3])"),
        (j, mod(floordiv(j, 16), 3), "y[j_v*16:+16] = x16(x[j_v%3])"),
        (j, mod(add(j, 32), 48), "x[(j_v + 2)%3*16:+16]"),
    ],
    ids=["rows of a reshape", "two apart", "one for three vectors", "a digit", "from another one on"],
)
def test_vectors_that_lie_within_a_digit(to: Expr, of: Expr, says: str) -> None:
    """None of them reaches from one multiple of the divisor into the next. 150 elements, so that a tail is masked."""
    assert says in text(loop(j, 150, put(Y, to, value=at(X, of))))


@pytest.mark.parametrize(
    "body",
    [
        put(Y, j, value=at(X, mod(j, 24))),
        put(Y, j, value=at(X, mod(add(j, 1), 32))),
        put(Y, j, value=at(X, mod(mul(j, 2), 48))),
        put(Y, j, value=at(X, mod(mul(j, j), 32))),
        put(Y, floordiv(j, 32), value=binary(BinOp.add, at(Y, floordiv(j, 32)), at(X, j))),
        put(Y, floordiv(j, 32), value=at(X, j)),
        put(Y, mod(add(j, 112), 128), value=at(Y, add(mod(add(j, 112), 128), 127))),
    ],
    ids=["24 of 16", "in between", "over two", "squares", "a fold that moves", "the last of many", "around the end"],
)
def test_vectors_that_may_not_do_not_exist(body: Stmt) -> None:
    assert is_scalar(loop(j, 96, body))


def test_invariant_load_is_broadcast() -> None:
    assert "x16(x[5])" in text(loop(j, 64, put(Y, j, value=at(X, 5))))


def test_loop_variable_as_data_becomes_a_ramp() -> None:
    assert "f32(j_v*16:+16)" in text(loop(j, 64, put(Y, j, value=cast(j, DType.f32))))


def test_index_arithmetic_as_data_is_done_once_for_all_lanes() -> None:
    assert "s[0:+16] = s32(i*100):+16*3" in text(loop(i, 2, loop(j, 16, put(S, j, value=cast(add(mul(i, 100), mul(j, 3)), DType.s32)))))


def test_dividing_data_by_a_power_of_two_is_a_vector_operation() -> None:
    lines = text(loop(j, 64, put(Y, j, value=cast(add(floordiv(j, 8), mod(j, 4)), DType.f32))))
    assert "(j_v*16:+16) // x16(8) + (j_v*16:+16) % x16(4)" in lines


def test_types_of_other_widths_use_the_same_lanes() -> None:
    assert "h[j_v*16:+16] = bf16(x[j_v*16:+16])" in text(loop(j, 64, put(H, j, value=cast(at(X, j), DType.bf16))))


def test_integer_reduction_starts_from_the_end_of_the_range() -> None:
    lines = text(loop(j, 9, put(S, 15, value=binary(BinOp.max, at(S, 15), at(S, j)))))
    assert "s32" not in lines  # s[15] and s[j] are one tensor: scalar
    count = Tensor("n", DType.s32, (), (), Scope.register)
    folded = loop(j, 9, put(count, value=binary(BinOp.max, at(count), at(S, j))))
    assert "x16(s32(-2147483648))" in text(seq(Alloc(count), put(count, value=at(S, 0)), folded, put(S, 15, value=at(count))))


@pytest.mark.parametrize(
    "body",
    [
        put(Y, mul(j, 5), value=at(X, j)),
        put(Y, sub(63, j), value=at(X, j)),
        put(Y, add(j, 1), value=at(Y, j)),
        put(Y, j, value=at(Y, 0)),
        put(Y, 0, value=at(X, j)),
        put(Y, 0, value=binary(BinOp.sub, at(Y, 0), at(X, j))),
        put(Y, 0, value=binary(BinOp.add, at(Y, 0), binary(BinOp.mul, at(Y, 0), at(X, j)))),
        put(Y, j, value=at(X, floordiv(j, 2))),
        put(Y, j, value=at(X, mul(j, j))),
        put(Y, j, value=cast(floordiv(j, 3), DType.f32)),
    ],
    ids=[
        "store far apart", "store backwards", "running value", "read of what is written", "last value wins", "no fold",
        "acc read twice", "floordiv index", "square index", "floordiv data",
    ],
)  # fmt: skip
def test_anything_else_stays_scalar(body: Stmt) -> None:
    assert is_scalar(loop(j, 64, body))


def test_invariant_index_from_memory_is_broadcast() -> None:
    load = at(X, cast(at(S, 0), DType.s64))
    assert "x16(x[s64(s[0])])" in text(put(S, 0, value=Const(3, DType.s32)), loop(j, 64, put(Y, j, value=load)))


def test_store_far_enough_behind_is_independent() -> None:
    shifted = put(Y, add(j, 64), value=at(Y, j))
    assert "y[j_v*16 + 64:+16] = y[j_v*16:+16]" in text(loop(j, 64, shifted))
    assert is_scalar(loop(j, 65, shifted))


def test_accumulator_read_elsewhere_in_the_body_stays_scalar() -> None:
    """A running sum, stored at each step."""
    body = [put(R, value=binary(BinOp.add, at(R), at(X, j))), put(Y, j, value=at(R))]
    assert is_scalar(seq(Alloc(R), put(R, value=f32(0.0)), loop(j, 64, *body)))


def test_short_loop_with_a_gather_stays_scalar() -> None:
    assert is_scalar(loop(j, 7, put(Y, j, value=at(X, mul(j, 5)))))
    assert not is_scalar(loop(j, 8, put(Y, j, value=at(X, mul(j, 5)))))


def test_shorter_loops_that_gather_close_elements_stay_scalar() -> None:
    assert is_scalar(loop(j, 5, put(Y, j, value=at(X, mul(j, 3)))))
    assert not is_scalar(loop(j, 6, put(Y, j, value=at(X, mul(j, 3)))))
    assert is_scalar(loop(j, 6, put(Y, j, value=at(X, sub(63, mul(j, 2))))))


def test_masked_tail_leaves_the_other_lanes_of_the_accumulator_alone() -> None:
    f = vectorise(Func("f", (X, Y), total(20, BinOp.min)), TARGET)
    folds = [s for s in walk(f.body) if isinstance(s, Store) and s.tensor.lanes == 16 and isinstance(s.value, Binary)]
    assert [None if s.mask is None else print_tir(s.mask) for s in folds] == [None, "0:+16 < x16(4)"]


def test_vectors_do_not_become_wider_vectors() -> None:
    once = vectorised(double(67), total(150))
    assert vectorise(once, TARGET) is once


def test_outer_loops_are_unchanged() -> None:
    lines = text(loop(i, 4, loop(k, 2, loop(j, 16, put(Y, add(mul(i, 16), j), value=at(X, j))))))
    assert lines.splitlines()[:2] == ["for i in 4 {", "  for k in 2 {"]


def over_taps(index: Expr, extent: Expr | int = 3, when: Expr | None = None) -> Stmt:
    """y[i] = the sum of x[index] over k, kept in a register."""
    fold: Stmt = put(R, value=add(at(R), at(X, index)))
    taps = loop(k, extent, fold if when is None else If(when, fold))
    return loop(i, 4, loop(j, 40, Alloc(R), put(R, value=f32(0.0)), taps, put(Y, add(mul(i, 40), j), value=at(R))))


def test_inner_loops_with_uniform_bounds_are_vectorised_along() -> None:
    """Taps of windows, rows apart, and under a condition of the row."""
    for when in (None, binary(BinOp.gt, add(i, k), Const(1))):
        lines = print_tir(vectorised(over_taps(add(add(mul(i, 64), mul(k, 64)), j), when=when)).body)
        assert ":+16" in lines
        assert "for k in 3" in lines
        assert "alloc r: f32 x16 register" in lines


@pytest.mark.parametrize(
    "body",
    [
        over_taps(add(mul(j, 8), k)),
        over_taps(add(mul(k, 64), j), extent=add(j, 1)),
        over_taps(add(mul(k, 64), j), when=binary(BinOp.gt, j, Const(7))),
        For(j, Const(40), Seq((Alloc(R), put(R, value=f32(0.0)), Seq((IN_A_BLOCK, IN_A_BLOCK)), put(Y, j, value=at(R))))),
        loop(j, 40, loop(k, 3, put(Y, j, value=add(at(Y, j), at(X, add(mul(k, 64), j)))))),
    ],
    ids=["rows of their own", "as many as j says", "where j says", "where j says, in a block", "sums in memory"],
)
def test_other_inner_loops_are_unchanged(body: Stmt) -> None:
    lines = print_tir(vectorised(body).body)
    assert "for j in 40" in lines


def test_consecutive_random_numbers_fill_vectors_of_blocks() -> None:
    """As many blocks of four numbers as there are lanes; fewer lanes where these hold all, or where numbers do not begin with a block."""

    def lanes(count: int, first: int = 0, step: int = 1) -> str:
        number = Random(add(mul(j, step), first), cast(at(S, 0), DType.s64), Const(0))
        made = text(loop(j, count, put(Y, j, value=cast(number, DType.f32))))
        return made.partition(":+")[2].partition("]")[0]

    assert [lanes(n) for n in (8, 64, 77, 128)] == ["8", "64", "64", "64"]
    assert [lanes(64, first=2), lanes(64, step=2), lanes(64, first=256)] == ["16", "16", "64"]
