"""What is right: float64 evaluation by the op table's references, the data to try it on, and the comparison. Compiles nothing.

evaluate   every op of a graph in float64
fill       data for a graph's inputs, the same for the same seed
compare    the one place that says which results pass
"""

from benchgraph.reference.compare import Comparison, Point, compare, sure_zeros, tolerance
from benchgraph.reference.evaluate import call_of, evaluate
from benchgraph.reference.fill import fill

__all__ = ["Comparison", "Point", "call_of", "compare", "evaluate", "fill", "sure_zeros", "tolerance"]
