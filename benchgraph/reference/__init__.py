"""The reference: float64 evaluation by the op table's functions, the data to test on, and the comparison. Compiles nothing.

evaluate.py     every op of a graph in float64
fill.py         data for a graph's inputs, the same for the same seed: benchdnn's integers, and uniform numbers for timing
displace/       inputs that need other data: masks, statistics, quantised operands
domain.py       real numbers with full mantissas for all inputs
real_values.py  the same for one input
depth.py        whether a graph is so deep that the usual data leave the range
settle.py       the size of a deep graph's weights, set while the reference evaluates it
range.py        where a graph's numbers leave the range of their types
noise.py        rounding errors that f32 arithmetic may make, added to the reference
growth.py       where such errors grow so much that a result in f32 proves nothing
compare.py      the one place that says which results pass
answers.py      outputs for which several results are right
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
