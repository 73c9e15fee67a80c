"""Whether outputs pass: each is compared with the reference, and what numbers that left their range or grew can explain is no failure.
Of several libraries also where they differ, and which are right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.arrays import Array, elements
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.measure.phases import phase
from benchgraph.reference import (
    REMEDY,
    SHALLOWER,
    Comparison,
    below_range,
    beyond_range,
    compare_output,
    depends_on_rounding,
    is_deep,
    is_lost,
    is_saturated,
    masked,
    tolerance,
    zero_limit,
    zeros_are_from_underflow,
)
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.difference import Difference
from benchgraph.results.result import Status


@dataclass(frozen=True, eq=False)
class Evidence:
    """A comparison that failed: of a graph or partition, the elements of its inputs, the arrays of its outputs, and the reference's."""

    graph: Graph
    given: dict[int, Array]
    got: dict[int, Array]
    want: dict[int, Array]


@dataclass(frozen=True)
class Verdict:
    """The outcome of the comparisons so far.

    errors, total: wrong and compared values, summed over tensors. reason: why it failed, or, with no errors, why it proves nothing.
    outputs: of the graph, as far as they were computed. is_beyond: values depend on numbers beyond the range of their types, so that what
    is computed from them proves nothing either. evidence: of the errors.
    """

    errors: int = 0
    total: int = 0
    reason: str = ""
    accuracy: tuple[Accuracy, ...] = ()
    outputs: dict[int, Array] = field(default_factory=dict)
    is_beyond: bool = False
    evidence: Evidence | None = None

    @property
    def status(self) -> Status | None:
        """FAILED, MISTRUSTED, or None when every output passes."""
        return Status.FAILED if self.errors else Status.MISTRUSTED if self.reason else None


@dataclass(frozen=True)
class _Output:
    """One output of a graph, computed and compared. given: the elements of the graph's inputs; stored: tensors kept between partitions."""

    graph: Graph
    given: dict[int, Array]
    tensor: LogicalTensor
    got: Array
    want: Array
    rtol: float
    stored: frozenset[int]
    comparison: Comparison

    def compared(self, got: Array) -> Comparison:
        return compare_output(self.graph, self.given, self.tensor, got, self.want, self.rtol, self.stored)


@dataclass(frozen=True)
class _Excuse:
    """Why some points of an output prove nothing, with the remedy. is_beyond: they depend on numbers beyond the range of their types."""

    points: NDArray[np.bool_]
    reason: str
    is_beyond: bool = False


@phase("compare")
def compare_outputs(
    graph: Graph,
    given: dict[int, Array],
    got: dict[int, Array],
    want: dict[int, Array],
    where: str,
    verdict: Verdict,
    stored: frozenset[int] = frozenset(),
    whole: Graph | None = None,
) -> Verdict:
    """The verdict with the outputs of a graph or partition added; stops at the first wrong one.

    given: elements of its inputs. stored: tensors kept between partitions. whole: the graph that a partition is part of.
    """
    rtol, inputs = tolerance(graph), {t.id for t in (whole or graph).inputs}
    for t in graph.outputs:
        array = elements(got[t.id], t)
        c = compare_output(graph, given, t, array, want[t.id], rtol, stored)
        verdict, c = _excused(_Output(graph, given, t, array, want[t.id], rtol, stored, c), inputs, where, verdict)
        limit = zero_limit(graph, t.id)
        if c.is_mistrusted(limit):
            limit = zero_limit(graph, t.id, masked(given.values()), whole)
        sizes = c.max_abs, c.max_rel, c.max_ulp, c.l2_rel, c.zero_share
        accuracy = Accuracy(where, t.id, t.dtype.value, c.total, c.errors, *sizes, rtol=rtol, zero_limit=limit, nonfinite=c.nonfinite)
        verdict = replace(verdict, total=verdict.total + c.total, accuracy=(*verdict.accuracy, accuracy))
        if not c.ok:
            evidence = Evidence(graph, given, got, want)
            return replace(verdict, errors=c.errors, reason=f"{where}: tensor {t.id}: {c}", evidence=evidence)
        if c.is_mistrusted(limit) and not verdict.is_beyond and not verdict.reason.endswith(REMEDY):
            share = f"{c.zero_share:.0%} zeros prove little; at most {limit:.0%} are trusted"
            if zeros_are_from_underflow(graph, given, t, array == 0, limit):
                share = f"{c.zero_share:.0%} of the values are too small for {t.dtype.value}, or others on the way are; {REMEDY}"
            verdict = replace(verdict, reason=f"{where}: tensor {t.id}: {share}")
        nan_share = float(np.mean(np.isnan(want[t.id]))) if want[t.id].dtype.kind == "f" and want[t.id].size else 0.0
        if not verdict.reason and nan_share > limit:  # memory that is not written reads as NaN
            verdict = replace(verdict, reason=f"{where}: tensor {t.id}: {nan_share:.0%} NaN prove little; at most {limit:.0%} are trusted")
        if not verdict.reason and is_saturated(want[t.id], t.dtype) and is_deep(whole or graph):
            verdict = replace(verdict, reason=f"{where}: tensor {t.id}: nearly all values are at the ends of {t.dtype.value}; {REMEDY}")
    return verdict


def _excused(output: _Output, inputs: set[int], where: str, verdict: Verdict) -> tuple[Verdict, Comparison]:
    """The comparison without the points that excuses cover, if that passes; else as it was. inputs: ids of the whole graph's."""
    covered = np.zeros(output.want.shape, np.bool_)
    for excuse in _excuses(output, inputs, verdict):
        covered |= excuse.points
        with np.errstate(over="ignore", invalid="ignore"):
            rest = output.compared(np.where(covered, output.want.astype(output.tensor.dtype.numpy), output.got))
        if rest.ok:
            reason = verdict.reason or f"{where}: tensor {output.tensor.id}: {excuse.reason}"
            return replace(verdict, reason=reason, is_beyond=verdict.is_beyond or excuse.is_beyond), rest
    return verdict, output.comparison


def _excuses(output: _Output, inputs: set[int], verdict: Verdict) -> Iterator[_Excuse]:
    """Excuses of an output that is wrong, or infinite, one after the other."""
    if beyond := _beyond(output, inputs, verdict):
        yield beyond
    if output.comparison.ok:
        return
    graph, given, t = output.graph, output.given, output.tensor
    if (below := below_range(graph, given, inputs, output.rtol)) is not None:
        points = below.dependent[t.id]
        what = f"{np.mean(points):.0%} of the values depend on numbers too small for f32, first produced by {below.op.label}"
        yield _Excuse(points, f"{what}; {REMEDY}")
    if t.dtype is not DType.boolean:
        points = depends_on_rounding(graph, given, t, output.got, output.want, output.rtol, output.stored)
        if points.any():
            what = f"rounding errors grow from op to op to more than the tolerance in {np.mean(points):.0%} of the values"
            yield _Excuse(points, f"{what}; {SHALLOWER}")


def _beyond(output: _Output, inputs: set[int], verdict: Verdict) -> _Excuse | None:
    """The excuse of an output that is wrong, or infinite, because numbers left their range; None where it needs none, or has none."""
    c, want, t = output.comparison, output.want, output.tensor
    if c.ok and (want.dtype.kind != "f" or np.isfinite(want).all()):
        return None
    if verdict.is_beyond:
        return None if c.ok else _Excuse(np.ones(want.shape, np.bool_), verdict.reason, is_beyond=True)
    beyond = beyond_range(output.graph, output.given, inputs)
    if beyond is None or (c.ok and not is_lost(want, beyond.dependent[t.id])):
        return None
    points, op = beyond.dependent[t.id], beyond.op
    numbers = f"numbers beyond the range of {beyond.dtype.value}, first produced by {op.label}"
    what = f"{np.mean(points):.0%} of the values depend on {numbers}"
    return _Excuse(points, f"{what}; {REMEDY}", is_beyond=True)


# ---- several libraries ------------------------------------------------------------------------------------------------


def differences(graph: Graph, given: dict[int, Array], got: dict[str, dict[int, Array]], want: dict[int, Array]) -> tuple[Difference, ...]:
    """The graph's outputs for which some library exceeds the tolerance of the float64 reference. got: by contender, then by tensor.

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
