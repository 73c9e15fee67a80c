"""Scaling and shifting before the conversion to an 8-bit integer, composed to one max(src * factor + shift, least).

    (src - a) * s + b, then max(., 0), then * q + z       =       max(src * (s * q) + ((b - a * s) * q + z), z)       for q > 0

Every step is monotone in src, so that a bound before a step becomes a bound after it. Sums and products are computed in another order, of
numbers of the same size: the difference is about 2**-22 of the largest of them, far below a step of 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.dtypes import DType
from benchgraph.ops.spec import Decomposer
from benchgraph.ops.steps import as_dtype


@dataclass(frozen=True)
class Rescaling:
    """max(src * factor + shift, least). factor and shift: values in f32 (s32 as long as src is) that broadcast against src; None: left
    out. With a least value, every step must be given as a number."""

    factor: int | None = None
    shift: int | None = None
    least: float | None = None

    @property
    def steps(self) -> int:
        """The number of ops."""
        return sum(v is not None for v in (self.factor, self.shift, self.least))

    def scaled(self, d: Decomposer, by: int, number: float | None) -> Rescaling:
        """Followed by a multiplication, by a positive number if there is a least value."""
        factor = by if self.factor is None else d.op("Multiply", self.factor, by)
        shift = None if self.shift is None else d.op("Multiply", self.shift, by)
        return Rescaling(factor, shift, None if self.least is None or number is None else self.least * number)

    def shifted(self, d: Decomposer, by: int, number: float | None, *, down: bool) -> Rescaling:
        """Followed by an addition, or a subtraction (down)."""
        kind = "Subtract" if down else "Add"
        zero = d.const(0, d.type(by).dtype)
        shift = d.op(kind, zero if self.shift is None else self.shift, by) if down or self.shift is not None else by
        moved = None if self.least is None or number is None else self.least + (-number if down else number)
        return replace(self, shift=shift, least=moved)

    def in_f32(self, d: Decomposer) -> Rescaling:
        """The rescaling of src in f32 instead of s32."""
        return replace(self, shift=None if self.shift is None else as_dtype(d, self.shift, DType.f32))

    def of(self, d: Decomposer, src: int) -> int:
        """The value in f32, one op for each step."""
        value = as_dtype(d, src, DType.f32)
        least = None if self.least is None else d.const(self.least)
        for kind, operand in (("Multiply", self.factor), ("Add", self.shift), ("Maximum", least)):
            value = value if operand is None else d.op(kind, value, operand)
        return value
