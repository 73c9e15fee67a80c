"""Two inputs, element by element, with numpy broadcasting: arithmetic, SquaredDifference, Maximum, Minimum, GreaterEqual.

Arithmetic takes any mix of float types (and, for Add and Subtract, s32); s32 against a float computes in f32, and a result kept in s32
is rounded to nearest even and saturated, NaN 0. Cost: one operation per element of dst, two for SquaredDifference. One correctly rounded
operation errs by half an eps: the threshold of 2 leaves room for a contraction with a neighbouring op; picking and comparing are exact.

Maximum and Minimum give the second operand if one is NaN, as oneDNN does; NaN if PROPAGATE_NAN is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.ops import fills, overflow
from benchgraph.ops.broadcast import AUTO_BROADCAST, infer_broadcast
from benchgraph.ops.elementwise.cast import convert
from benchgraph.ops.elementwise.unary import PROPAGATE_NAN, propagates_nan
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.laws import Reals, real, recovers, relation
from benchgraph.ops.spec import Computes, Domain, Elementwise, Law, Lowering, OpSpec, Port, Role, Sample, Schema, Semantics, Testing
from benchgraph.ops.spec.call import Array, Call, F
from benchgraph.tir.build import binary, cast, type_of
from benchgraph.tir.ir import BinOp, Expr

ROUNDED_ONCE, EXACT = 2.0, 0.0
_Types: TypeAlias = dict[str, tuple[DType, ...]]
_F_S32 = (*F, DType.s32)
_FLOATS: _Types = dict.fromkeys(("T1", "T2", "T3"), F)  # one type variable per port
_NUMBERS: _Types = dict.fromkeys(_FLOATS, _F_S32)
_SAME: _Types = {"T": F}
Ufunc = Callable[[Any, Any], Any]
_NAN_WINS_OPS = {BinOp.max: BinOp.maximum, BinOp.min: BinOp.minimum}  # PROPAGATE_NAN extends those


def _expr(op: BinOp, finish: Callable[[Expr], Expr]) -> Callable[[Attrs, tuple[Expr, ...]], Expr]:
    def build(attrs: Attrs, ins: tuple[Expr, ...]) -> Expr:
        a, b = ins
        if type_of(a)[0] is not type_of(b)[0]:
            a, b = cast(a, DType.f32), cast(b, DType.f32)
        return finish(binary(_NAN_WINS_OPS[op] if propagates_nan(attrs) else op, a, b))

    return build


def _reference(compute: Ufunc) -> Callable[[Call, tuple[Array, ...]], tuple[Array, ...]]:
    def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        ufunc = _NAN_WINS[compute] if propagates_nan(call.attrs) else compute
        with np.errstate(all="ignore"):
            dst = np.asarray(ufunc(ins[0], ins[1]))
        is_rounded = call.outs[0].dtype.is_integer and dst.dtype.kind == "f"
        return (convert(dst, call.outs[0].dtype) if is_rounded else dst,)

    return reference


def _larger(a: Any, b: Any) -> Any:
    """b if one is NaN, as in oneDNN and as processors compute it in one instruction: 1 for NaN and 1, NaN for 1 and NaN."""
    return np.where(a > b, a, b)


def _smaller(a: Any, b: Any) -> Any:
    return np.where(a < b, a, b)


_NAN_WINS: dict[Ufunc, Ufunc] = {_larger: np.maximum, _smaller: np.minimum}  # as _NAN_WINS_OPS


def _quotient_in_f32(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
    """A division may be compiled as a product with the reciprocal, which is inexact in f32 at both ends of its range."""
    size = np.abs(real(ins[1]))
    is_at_an_end = (size > 0) & np.isfinite(size) & ((size < 1 / overflow.MOST) | (size > 1 / DType.f32.least_normal))
    if not is_at_an_end.any():
        return ()
    with np.errstate(all="ignore"):
        reciprocal = np.where(is_at_an_end, overflow.as_f32(1 / real(ins[1])), 1 / real(ins[1]))
        return ((np.where(is_at_an_end, real(ins[0]) * reciprocal, real(ins[0]) / real(ins[1])),),)


def _undone(name: str, left: Callable[[Reals, Reals], Reals]) -> Law:
    """left(dst, src_1) is src_0, but for the digits that dst lost to the larger operand or to rounding to integers."""

    def holds(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        src_0, src_1 = real(ins[0]), real(ins[1])
        lost = 8 * rtol * (1 + np.abs(src_0) + np.abs(src_1))
        rounds = call.outs[0].dtype.is_integer and any(t.dtype.is_float for t in call.ins)
        return bool(np.all(np.abs(left(real(outs[0]), src_1) - src_0) <= lost + (0.5 if rounds else 0.0)))

    return Law(name, holds)


def _picks(name: str, holds: Callable[[Reals, Reals], NDArray[np.bool_]]) -> Law:
    return relation(name, lambda ins, dst, slack: holds(dst, ins[0]) & holds(dst, ins[1]) & ((dst == ins[0]) | (dst == ins[1])))


SAMPLES = (
    Sample(((17,), (17,)), why="one element more than a vector of 16"),
    Sample(((4, 33), (33,)), why="a row broadcast, as a bias is"),
    Sample(((5, 16), (5, 1)), why="a column broadcast, as a softmax sum is"),
    Sample(((2, 3, 7), ()), why="a scalar"),
    Sample(((1, 15), (4, 1)), why="both sides broadcast"),
    Sample(((7,), (2, 3, 1, 7)), why="the first operand is the smaller one"),
    Sample(((2, 3), (2, 3)), Attrs(auto_broadcast="none"), why="no broadcasting"),
    Sample(((3, 19), (19,)), dtypes=(DType.bf16, DType.bf16), why="bf16"),
    Sample(((3, 16), (3, 16)), dtypes=(DType.f16, DType.f16), why="f16"),
)
_MIXED = (
    Sample(((3, 5), (5,)), dtypes=(DType.bf16, DType.f32), out_dtypes=(DType.f32,), why="bf16 with f32 into f32"),
    Sample(((3, 5), (3, 5)), dtypes=(DType.f32, DType.f16), out_dtypes=(DType.f32,), why="f32 with f16 into f32"),
)
_S32 = (Sample(((6, 17), (17,)), dtypes=(DType.s32, DType.s32), why="integers"), Sample(((0, 3), (3,)), why="no elements"))


def _row(
    kind: str,
    op: BinOp,
    compute: Ufunc,
    threshold: float,
    laws: tuple[Law, ...],
    *,
    types: _Types,
    ports: tuple[str, ...] = (),
    samples: tuple[Sample, ...] = SAMPLES,
    domain: Domain = fills.PLAIN,
    zero_limit: float = 0.30,
    computes: Computes | None = None,
    fills_quantised: bool = True,
    factors: tuple[float, ...] = (),
    commutative: bool = False,
    monotone: tuple[int, ...] = (),
    product_kind: str = "",
    family: str = "binary",
    finish: Callable[[Expr], Expr] | None = None,
    in_f32: Callable[[Call, tuple[Array, ...]], tuple[tuple[Array, ...], ...]] = lambda call, ins: (),
) -> OpSpec:
    """ports: the type variables of src_0, src_1 and dst, unless there is one for all or each. finish: one more operation on op's result."""
    variables = ports or (tuple(types) if len(types) > 1 else tuple(types) * 3)
    return OpSpec(
        kind,
        Schema(
            inputs=(Port("src_0", variables[0]), Port("src_1", variables[1])),
            outputs=(Port("dst", variables[2]),),
            types=types,
            attrs={"auto_broadcast": AUTO_BROADCAST},
            extensions=PROPAGATE_NAN if op in _NAN_WINS_OPS else {},
            family=family,
        ),
        Semantics(
            infer=infer_broadcast("src_0", "src_1"),
            reference=_reference(compute),
            flops=lambda call: (1 if finish is None else 2) * call.outs[0].elements,
            threshold=lambda call: threshold,
            f32_alternatives=in_f32,
            computes=computes,
            is_product=op is BinOp.mul,
            product_kind=product_kind,
            is_commutative=commutative,
            monotonicity=monotone,
        ),
        Testing(
            fill=pointwise.binary,
            domain=domain,
            samples=samples,
            laws=laws,
            fills_quantised=fills_quantised,
            factors=factors,
            zero_limit=lambda call: zero_limit,
        ),
        Lowering(Role.pointwise, form=Elementwise(_expr(op, finish or (lambda result: result)))),
    )


def _summands(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Small integers, as indices and offsets of causal masks, so that such a mask is neither full nor empty."""
    t = call.ins[port]
    return fills.PLAIN(call, port, rng) if t.dtype.is_float else rng.integers(-16, 16, t.shape, dtype=t.dtype.numpy.type, endpoint=True)


SPECS = (
    _row(
        "Add",
        BinOp.add,
        np.add,
        ROUNDED_ONCE,
        (_undone("taking src_1 away leaves src_0", lambda dst, src_1: dst - src_1),),
        types=_NUMBERS,
        samples=SAMPLES + _MIXED + _S32,
        domain=_summands,
        commutative=True,
        computes=Computes.sum,
        monotone=(1, 1),
    ),
    _row(
        "Subtract",
        BinOp.sub,
        np.subtract,
        ROUNDED_ONCE,
        (_undone("adding src_1 gives src_0 back", lambda dst, src_1: dst + src_1),),
        types=_NUMBERS,
        samples=SAMPLES + _MIXED + _S32,
        domain=_summands,
        computes=Computes.difference,
        monotone=(1, -1),
    ),
    _row(
        "Multiply",
        BinOp.mul,
        np.multiply,
        ROUNDED_ONCE,
        (
            relation(
                "squares multiply, signs too",
                lambda ins, dst, slack: (np.abs(dst * dst - ins[0] ** 2 * ins[1] ** 2) <= 32 * slack) & (dst * ins[0] * ins[1] >= 0),
            ),
        ),
        types=_FLOATS,
        samples=SAMPLES + _MIXED,
        commutative=True,
        factors=(0.25, 0.5, 1),
    ),
    _row(
        "Divide",
        BinOp.div,
        np.divide,
        ROUNDED_ONCE,
        (recovers("src_1 times it is src_0", lambda ins, dst: dst * ins[1]),),
        types=_FLOATS,
        samples=SAMPLES + _MIXED,
        domain=fills.per_port(fills.PLAIN, fills.AWAY_FROM_ZERO),
        factors=(2, 4, 8),
        product_kind="Multiply",
        in_f32=_quotient_in_f32,
    ),
    _row(
        "SquaredDifference",
        BinOp.sub,
        lambda a, b: np.square(a - b),
        2 * ROUNDED_ONCE,  # squaring doubles the relative error of the difference
        (
            relation(
                "its root is src_0 - src_1, or the negative of that",
                lambda ins, dst, slack: (dst >= 0) & (np.abs(dst - np.abs(ins[0] - ins[1]) * np.sqrt(np.abs(dst))) <= 4 * slack),
            ),
        ),
        types=_SAME,
        family="eltwise",
        fills_quantised=False,
        finish=lambda gap: binary(BinOp.mul, gap, gap),
    ),
    _row(
        "Maximum",
        BinOp.max,
        _larger,
        EXACT,
        (_picks("one of both, below neither", lambda dst, src: dst >= src),),
        types=_SAME,
        commutative=True,
        computes=Computes.maximum,
        monotone=(1, 1),
    ),
    _row(
        "Minimum",
        BinOp.min,
        _smaller,
        EXACT,
        (_picks("one of both, above neither", lambda dst, src: dst <= src),),
        types=_SAME,
        commutative=True,
        computes=Computes.minimum,
    ),
    _row(
        "GreaterEqual",
        BinOp.ge,
        np.greater_equal,
        EXACT,
        (relation("true where src_0 - src_1 is not negative", lambda ins, dst, slack: (dst != 0) == (ins[0] - ins[1] >= 0)),),
        types={"T1": _F_S32, "T2": (DType.boolean,)},
        ports=("T1", "T1", "T2"),
        samples=(*SAMPLES, Sample(((6, 17), (6, 1)), dtypes=(DType.s32, DType.s32), why="integers")),
        domain=fills.stepped(-2, 2, 0.25),
        zero_limit=0.99,
        computes=Computes.comparison,
        monotone=(1, -1),
        fills_quantised=False,
    ),
)
