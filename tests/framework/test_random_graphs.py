"""Random graphs through the framework: any of their ops by numpy, under any policy."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.framework.executor import Executor
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.program import in_default_layout
from benchgraph.fuzz.generate import generate
from benchgraph.partition.ir import Policy
from benchgraph.reference import compare, domain, evaluate, tolerance


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("index", range(8))
def test_a_random_graph_with_a_random_part_of_it_by_numpy(index: int, policy: Policy) -> None:
    """I11: results within tolerance, nothing opaque reaches numpy, and a second run gives the same bits and makes nothing anew."""
    g = in_default_layout(generate(11, index, 10))
    rng = np.random.default_rng(index)
    values = domain(g, 1)
    made = {t.id: NDArray.of(values[t.id], t.dtype, f"tensor {t.id}") for t in g.inputs}
    params = {t.id: made[t.id] for t in g.inputs if t.is_constant}
    fallback = {op.id for op in g.ops if op.outputs and rng.random() < 0.3}
    executor = Executor(g, params, policy=policy, fallback=fallback)
    inputs = {id: a for id, a in made.items() if id not in params}
    first = {id: a.numpy() for id, a in executor.forward(inputs).items()}
    second = executor.forward(inputs)
    c = executor.last.counters
    assert (c.misses, c.weight_reorders, c.spills, c.lazy_reorders) == (0, 0, 0, 0)
    assert fallback <= {op.id for op in g.ops if op.label in c.fallbacks}
    want, rtol = evaluate(g, values), tolerance(g)
    for t in g.outputs:
        assert second[t.id].numpy().tobytes() == first[t.id].tobytes()
        found = compare(first[t.id], want[t.id], t.dtype, rtol)
        assert found.ok, f"tensor {t.id}: {found.points[0]}"
