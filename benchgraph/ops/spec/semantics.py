"""What an op computes: shapes, numbers, cost and tolerance, and algebraic facts for rewrites and for test data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.ops.spec.call import Array, Call, Types
from benchgraph.ops.spec.forms import Border

Infer: TypeAlias = Callable[[Attrs, Types], tuple[Shape, ...]]
Reference: TypeAlias = Callable[[Call, tuple[Array, ...]], tuple[Array, ...]]


class Computes(Enum):
    """The function of an op, for matching attention, gated MLPs, and softmax written out in simple ops."""

    matmul = "matmul"
    sum = "sum"
    difference = "difference"
    maximum = "maximum"
    minimum = "minimum"
    comparison = "comparison"
    choice = "choice"
    exp = "exp"
    softmax = "softmax"


@dataclass(frozen=True, kw_only=True)
class Semantics:
    """What is left out is as in most rows: exact, and no algebraic facts."""

    # infer(attrs, ins): the shapes of all outputs of the schema (a call may have fewer); () where the inputs' shapes do not determine
    # them. Raises InvalidShape
    infer: Infer
    reference: Reference  # float64 to float64 (integers and booleans keep their dtype), rounded only where the op itself rounds
    flops: Callable[[Call], int]  # floating-point operations
    # threshold(call): the relative error allowed, in units of eps(f32), the type of all arithmetic; 0 for picking and copying
    threshold: Callable[[Call], float] = lambda call: 0.0
    # f32_alternatives(call, ins): other outputs that f32 arithmetic may give, as right as the reference's, for numbers beyond its range
    f32_alternatives: Callable[[Call, tuple[Array, ...]], tuple[tuple[Array, ...], ...]] = lambda call, ins: ()
    follows_fpmath: bool = False  # a math mode lets f32 operands be rounded: products of matrices, and convolutions

    # ---- algebra
    computes: Computes | None = None
    is_conversion: bool = False  # casts and (de)quantisation
    is_product: bool = False
    product_kind: str = ""  # for a division: the kind that multiplies by the reciprocal instead
    is_commutative: bool = False
    is_homogeneous: bool = False  # scaling the first operand by a positive number scales dst, up to rounding, if both are floats
    lower_bound: float | None = None  # dst = max(src, this number)
    # monotonicity: for each operand 1 if dst increases with it, -1 if dst decreases (False < True), 0 if only its shape matters; where
    # dst also depends on the position of the element (GenIndex), it increases with the position. (): unknown
    monotonicity: tuple[int, ...] = ()
    zero_border: Callable[[Attrs], Border] | None = None  # the border of dst that holds only zeros
