"""The reference: test data, float64 evaluation by the op table's functions, and the comparison. Compiles nothing.

evaluate.py          evaluates every op of a graph in float64
fill.py              reproducible data for a graph's inputs: benchdnn's integers, and uniform numbers for timing
displace/            inputs that need other data: masks, statistics, quantised operands
domain.py            real numbers with full mantissas for all inputs
real_values.py       the same for one input
index_ranges.py      integers that Wildcards take as indices or masks
deep_graphs.py       whether a graph is so deep that the usual data overflow, and which inputs determine the size of its layers' results
scale_weights.py     scales these inputs of a deep graph while the reference evaluates it
value_range.py       where a graph's values leave the range of their types
rounding_noise.py    rounding errors of f32 arithmetic, added to the reference
error_growth.py      where such errors grow so much that a comparison proves nothing
compare.py           the definition of a right result
accepted_results.py  outputs with several right results
"""

from benchgraph.reference.accepted_results import compare_output
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
from benchgraph.reference.deep_graphs import is_deep
from benchgraph.reference.domain import domain
from benchgraph.reference.error_growth import REMEDY as SHALLOWER
from benchgraph.reference.error_growth import depends_on_rounding
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import InputPlan, fill, plan, uniform
from benchgraph.reference.index_ranges import index_ranges
from benchgraph.reference.value_range import REMEDY, below_range, beyond_range, is_lost, is_saturated, zeros_are_from_underflow

__all__ = [
    "FPMATH_EPS", "REMEDY", "SHALLOWER", "Comparison", "InputPlan", "Point", "below_range", "beyond_range", "compare",
    "compare_output", "depends_on_rounding", "differ_in_kind", "domain", "evaluate", "fill", "fpmath_tolerance", "index_ranges", "is_deep",
    "is_lost", "is_saturated", "masked", "plan", "tolerance", "uniform", "zero_limit", "zeros_are_from_underflow",
]  # fmt: skip
