"""Operators of expressions, with two operands and with one."""

from __future__ import annotations

from enum import Enum
from functools import cached_property


class BinOp(Enum):
    """Both operands have one dtype and one number of lanes. Comparisons give boolean.

    floordiv and mod are for s64: the divisor is positive and the result rounds towards minus infinity. A power of two shifts and masks.
    min and max on floats give the second operand when either is NaN (x86's rule, and numpy's `where(a < b, a, b)`). minimum and maximum
    give NaN then (IEEE 754-2019, numpy's functions of these names); of zeros either. On integers they are min and max.
    """

    add = "+"
    sub = "-"
    mul = "*"
    div = "/"
    floordiv = "//"
    mod = "%"
    min = "min"
    max = "max"
    minimum = "minimum"
    maximum = "maximum"
    eq = "=="
    ne = "!="
    lt = "<"
    le = "<="
    gt = ">"
    ge = ">="
    and_ = "and"
    or_ = "or"

    __hash__ = object.__hash__  # Enum's is a function in Python

    @cached_property
    def is_comparison(self) -> bool:
        return self in _COMPARISONS

    @cached_property
    def is_extreme(self) -> bool:
        """Whether it is a minimum or maximum."""
        return self in _EXTREMES

    @cached_property
    def by_order(self) -> BinOp:
        """min for minimum, max for maximum, which differ in NaN alone; itself for others."""
        return {BinOp.minimum: BinOp.min, BinOp.maximum: BinOp.max}.get(self, self)

    @cached_property
    def keeps_nan(self) -> bool:
        """Whether it is an extreme that is NaN where an operand is."""
        return self is not self.by_order


_COMPARISONS = frozenset({BinOp.eq, BinOp.ne, BinOp.lt, BinOp.le, BinOp.gt, BinOp.ge})
_EXTREMES = frozenset({BinOp.min, BinOp.max, BinOp.minimum, BinOp.maximum})
REDUCING_OPS = frozenset({BinOp.add, BinOp.mul}) | _EXTREMES  # operators of reductions


class UnOp(Enum):
    """f32 (any lanes), except neg and abs (any signed type), not (boolean). round is half to even.

    decay is e**-|x| - 1, normal_tail the share of a standard normal distribution beyond |x| on one side, gauss e**(-x*x / 2).
    """

    neg = "neg"
    abs = "abs"
    sqrt = "sqrt"
    exp = "exp"
    decay = "decay"
    log = "log"
    tanh = "tanh"
    normal_tail = "normal_tail"
    gauss = "gauss"
    round = "round"
    floor = "floor"
    not_ = "not"

    __hash__ = object.__hash__
