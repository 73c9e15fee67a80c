"""The statistics that softmax keeps for its gradient, which computes the probabilities from the scores again.

s = ... MatMul ...; p = Exp(Subtract(s, %stats)); ...

    -> %stats: max + log(sum(exp(s - max))) of the scores' rows, 0 for a fully masked row: p is then the softmax
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.filling import exactly
from benchgraph.ops.spec import Array, Computes
from benchgraph.reference.displace.rule import Displaced, computing, next_computing, source


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.difference):
        following = next_computing(graph, op)
        scores, stats = op.inputs[0], source(graph, op.inputs[1])
        is_exp = following is not None and spec(following.kind).semantics.computes is Computes.exp
        if not is_exp or stats is None or stats.path or scores.id not in graph.producers or _depends_on(graph, scores, stats.tensor):
            continue
        axes = _reduced_axes(scores, stats.tensor)
        if axes:
            says = f"max + log(sum(exp(s - max))) of %{scores.id}"
            yield Displaced(stats.tensor.id, exactly(np.zeros(1), says), scores.id, _logsumexp(axes))


def _depends_on(graph: Graph, t: LogicalTensor, given: LogicalTensor) -> bool:
    """Whether a tensor is computed from `given`, as e**x is in e**x - x: then `given` cannot be derived from it."""
    seen, left = {t.id}, [t]
    while left:
        maker = graph.producers.get(left.pop().id)
        new = [s for s in maker.inputs if s.id not in seen] if maker is not None else []
        seen.update(s.id for s in new)
        left += new
    return given.id in seen


def _reduced_axes(scores: LogicalTensor, stats: LogicalTensor) -> tuple[int, ...]:
    """The axes along which stats has one number for many scores; () if the shapes do not fit."""
    s, r = scores.known_shape, stats.known_shape
    if len(s) != len(r) or any(b not in (a, 1) for a, b in zip(s, r, strict=True)):
        return ()
    return tuple(i for i, (a, b) in enumerate(zip(s, r, strict=True)) if a != b) or (len(s) - 1,)


def _logsumexp(axes: tuple[int, ...]) -> Callable[[Array], Array]:
    def derive(scores: Array) -> Array:
        s = scores.astype(np.float64, copy=False)
        top = s.max(axis=axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0)
        total = np.exp(s - top).sum(axis=axes, keepdims=True)
        with np.errstate(divide="ignore"):
            return np.where(total == 0, 0.0, top + np.log(total))

    return derive
