"""What is right: float64 evaluation by the op table's references, the data to try it on, and the comparison. Compiles nothing.

evaluate   every op of a graph in float64
fill       data for a graph's inputs, the same for the same seed: benchdnn's integers, and uniform numbers for timing
displace   inputs that need other data: masks, statistics, quantised operands
depth      whether a graph is so deep that such data do not serve; settle: the size of its weights; range: where numbers leave their type's
domain     real numbers with full mantissas, of the kind that ops meet in use
compare    the one place that says which results pass; answers: where several are right; noise: what f32 may do to values; growth:
           where that is more than right code can be held to
"""

from benchgraph.reference.answers import compare_output
from benchgraph.reference.compare import (
    FPMATH_EPS,
    Comparison,
    Point,
    compare,
    differ_in_kind,
    fpmath_tolerance,
    masked,
    tolerance,
    zero_limit,
)
from benchgraph.reference.depth import is_deep
from benchgraph.reference.domain import domain
from benchgraph.reference.evaluate import call_of, evaluate
from benchgraph.reference.fill import Planned, fill, plan, uniform
from benchgraph.reference.growth import REMEDY as SHALLOWER
from benchgraph.reference.growth import hang_on_rounding
from benchgraph.reference.range import REMEDY, below_range, beyond_range, is_faint, is_lost, is_saturated

__all__ = [
    "FPMATH_EPS",
    "REMEDY",
    "SHALLOWER",
    "Comparison",
    "Planned",
    "Point",
    "below_range",
    "beyond_range",
    "call_of",
    "compare",
    "compare_output",
    "differ_in_kind",
    "domain",
    "evaluate",
    "fill",
    "fpmath_tolerance",
    "hang_on_rounding",
    "is_deep",
    "is_faint",
    "is_lost",
    "is_saturated",
    "masked",
    "plan",
    "tolerance",
    "uniform",
    "zero_limit",
]
