"""Differences between libraries on the same data, and which are right: each is compared with the float64 reference of the whole graph."""

from __future__ import annotations

from benchgraph.core.arrays import Array, elements
from benchgraph.graph.ir import Graph
from benchgraph.reference import Comparison, compare_output, tolerance
from benchgraph.results.result import Difference


def differences(graph: Graph, given: dict[int, Array], got: dict[str, dict[int, Array]], want: dict[int, Array]) -> tuple[Difference, ...]:
    """The graph's outputs for which some library exceeds the tolerance. got: by contender, then by tensor.

    Two libraries within tolerance may differ by twice that, which is no error of either. given, want: elements.
    """
    rtol = tolerance(graph)
    result = []
    for t in graph.outputs:
        arrays = {label: elements(outputs[t.id], t) for label, outputs in got.items() if t.id in outputs}
        comparisons = {label: compare_output(graph, given, t, array, want[t.id], rtol) for label, array in arrays.items()}
        if any(not c.ok for c in comparisons.values()):
            index = _worst(comparisons)
            values = {label: float(array[index]) for label, array in arrays.items()}
            errors = {label: c.errors for label, c in comparisons.items()}
            offs = {label: c.max_abs for label, c in comparisons.items()}
            nonfinite = {label: c.nonfinite for label, c in comparisons.items() if c.nonfinite}
            result.append(
                Difference(t.id, t.dtype.value, t.type.elements, errors, offs, index, float(want[t.id][index]), values, nonfinite)
            )
    return tuple(result)


def _worst(comparisons: dict[str, Comparison]) -> tuple[int, ...]:
    """The first wrong point of the contender with most of them; of those with a wrong NaN or infinity, if any."""
    return max(comparisons.values(), key=lambda c: (c.nonfinite, c.errors)).points[0].index
