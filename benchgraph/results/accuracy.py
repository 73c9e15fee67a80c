"""The error of an output against the reference result, and its limit. Imports numpy only on use, since `benchgraph --help` must not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accuracy:
    """The error of one output, whether it passed or not.

    where: the partition, or the whole graph. errors: wrong points of total. max_abs, max_rel, l2: the largest difference, the largest
    relative to the reference value, and the norm of all differences relative to the norm of the reference. max_ulp: in units in the last
    place of the dtype. zero_share: the share of zeros. rtol, zero_limit: the relative error and the share of zeros allowed. nonfinite:
    wrong points with a NaN or an infinity on one side, which the other numbers leave out.
    """

    where: str
    tensor: int
    dtype: str
    total: int
    errors: int
    max_abs: float
    max_rel: float
    max_ulp: float
    l2: float
    zero_share: float
    policy: str = ""
    rtol: float = 0.0
    zero_limit: float = 1.0
    nonfinite: int = 0

    @property
    def configuration(self) -> str:
        """The limits that it was compared with."""
        return f"{self.where}: tensor {self.tensor} {self.dtype}: rtol {self.rtol:.3g}, at most {self.zero_limit:.0%} zeros"

    @property
    def allowed(self) -> str:
        """The absolute error allowed per point, in short; reference/compare.py has the full definition."""
        from benchgraph.core.dtypes import DType  # imports numpy

        dtype = DType(self.dtype)
        if not self.rtol:
            return "0"
        if not dtype.is_float:
            return "1 in few points"
        return f"{self.rtol:.3g} * max(|value|, rms)" + (f" + rounding to {dtype.value}" if dtype.bits < DType.f32.bits else "")

    def __str__(self) -> str:
        wrong = f"{self.nonfinite} wrong in NaN or infinity, " if self.nonfinite else ""
        sizes = f"{wrong}max abs {self.max_abs:.3g}, max rel {self.max_rel:.3g}, {self.max_ulp:.3g} ulp, L2 {self.l2:.3g}"
        summary = f"{self.total} values, {sizes}, {self.zero_share:.0%} zeros; abs allowed {self.allowed}"
        return f"{self.policy}: {self.where}: tensor {self.tensor} {self.dtype}: {summary}"
