"""Runs a graph through the framework layer and compares it with the reference and with direct use of the library.

Only in modes L and C. Every run must give the same bits as the first, and later runs must not compile, convert weights or allocate
temporary memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from benchgraph.core.arrays import Array, elements
from benchgraph.core.errors import NO_THREAD, InvalidArguments, Unavailable, Unimplemented
from benchgraph.core.printable import shortened
from benchgraph.framework.executor import Executor, Run
from benchgraph.framework.kernel_cache import DEFAULT_CAPACITY, set_kernel_cache_capacity
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.program import in_default_layout
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import allocate
from benchgraph.harness.inputs import inputs_of
from benchgraph.harness.partitioning import need_expected
from benchgraph.harness.verdict import Verdict, compare_outputs
from benchgraph.library import benchgraph_library
from benchgraph.library.protocol import Bound
from benchgraph.measure.phases import phase
from benchgraph.options.policy import PolicyChoice
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Policy
from benchgraph.reference import differ_in_kind, evaluate
from benchgraph.results.mode import Mode
from benchgraph.results.result import Result, Status
from benchgraph.runtime.threads import max_threads

OWN = "benchgraph"


def run(problem: Problem, graph: Graph) -> Result:
    """Mode C of the framework driver. Raises Unavailable for other modes, libraries and passes, Unimplemented for ops without a reference,
    WrongCount for another number of partitions than expected.
    """
    g = problem.globals
    if g.mode is not Mode.correctness or g.library != (OWN,):
        fix = "use --mode=C and no --library; `python -m benchgraph.harness.latency` measures"
        raise Unavailable("the framework driver checks results, over the library of this package", where="--framework", fix=fix)
    set_kernel_cache_capacity(problem.knobs.cache_capacity)
    try:
        return _checked(problem, in_default_layout(graph))
    finally:
        set_kernel_cache_capacity(DEFAULT_CAPACITY)


def _checked(problem: Problem, graph: Graph) -> Result:
    with phase("fill"):
        inputs = inputs_of(problem, graph)
        given = {t.id: elements(inputs[t.id], t).copy() for t in graph.inputs}
    with phase("reference"):
        want = evaluate(graph, given)
    result = Result(Status.PASSED)
    for spec in problem.globals.contender_specs:
        chosen = PolicyChoice.read(spec.policy)
        if chosen.options.off:
            what = "the framework compiles with all passes"
            raise Unavailable(what, where=f"--policy={spec.policy}", fix=f"use --policy={chosen.policy.value}")
        runs, outputs, complaint = _framework(problem, graph, chosen.policy, given)
        ops = runs[0].partitions
        if chosen.policy is Policy.fused:
            need_expected(problem, len(ops))
        verdict = compare_outputs(graph, given, outputs, want, "framework", Verdict())
        if not verdict.errors and complaint:
            verdict = replace(verdict, errors=1, reason=complaint)
        notes = [f"[FRAMEWORK]: {spec.policy}: run {k}: {r}" for k, r in enumerate(runs)]
        notes.append(f"[FRAMEWORK]: {spec.policy}: {_beside(graph, chosen.policy, inputs, outputs)}")
        result = replace(
            result,
            total=result.total + verdict.total,
            accuracy=(*result.accuracy, *(replace(a, policy=spec.policy) for a in verdict.accuracy)),
            notes=(*result.notes, *notes),
            n_partitions={**result.n_partitions, spec.policy: len(ops)},
            partitions={**result.partitions, spec.policy: ops},
        )
        if verdict.status is not None:
            return replace(result, status=verdict.status, errors=verdict.errors, reason=f"{spec.policy}: {verdict.reason}")
    return result


@phase("execute")
def _framework(problem: Problem, graph: Graph, policy: Policy, values: dict[int, Array]) -> tuple[Sequence[Run], dict[int, Array], str]:
    """The records of the first caller's runs, the outputs of the first run, and what is wrong with later ones, if anything."""
    k = problem.knobs
    arrays = {t.id: NDArray.of(values[t.id], t.dtype, f"tensor {t.id}") for t in graph.inputs}
    params = {t.id: arrays[t.id] for t in graph.inputs if t.is_constant}
    executor = Executor(graph, params, policy=policy, fallback=k.fallback.ops, prepacks=not k.no_prepack, propagates=not k.no_opaque)
    inputs = {id: a for id, a in arrays.items() if id not in params}

    def call(_: int) -> tuple[list[Run], list[dict[int, Array]]]:
        runs, outputs = [], []
        for _ in range(k.iters):
            outs = executor.forward(inputs, is_train=k.train)
            outputs.append({id: a.numpy() for id, a in outs.items()})
            runs.append(executor.last)
        return runs, outputs

    if k.callers > max_threads():
        raise _too_many(k.callers)
    with ThreadPoolExecutor(k.callers) as pool:
        try:
            begun = [pool.submit(call, n) for n in range(k.callers)]
        except NO_THREAD as bad:
            raise _too_many(k.callers) from bad
        every = [each.result() for each in begun]
    runs, first = every[0][0], every[0][1][0]
    complaint = next((c for _, outputs in every for outs in outputs if (c := _unlike(first, outs))), "")
    if not complaint and k.cache_capacity >= DEFAULT_CAPACITY:
        complaint = next((c for done, _ in every for r in done[1:] if (c := _made_anew(r))), "")
    return runs, first, complaint


def _too_many(callers: int) -> InvalidArguments:
    what = f"this system does not let {shortened(str(callers))} threads start"
    return InvalidArguments(what, where=f"--callers={shortened(str(callers))}", fix="ask for fewer callers")


def _unlike(first: dict[int, Array], outs: dict[int, Array]) -> str:
    wrong = next((id for id, a in outs.items() if a.tobytes() != first[id].tobytes()), None)
    return "" if wrong is None else f"tensor {wrong} differs in its bits from one run of the framework to the next"


def _made_anew(run: Run) -> str:
    c = run.counters
    made = {
        "kernels compiled": c.misses,
        "weights converted": c.weight_reorders,
        "temporaries allocated": c.spills,
        "lazy": c.lazy_reorders,
    }
    texts = ", ".join(f"{n} {what}" for what, n in made.items() if n)
    return f"a later run is not as cheap as it should be: {texts}" if texts else ""


def _beside(graph: Graph, policy: Policy, inputs: dict[int, Array], outputs: dict[int, Array]) -> str:
    """The difference of the outputs from those of the library used directly."""
    try:
        steps, direct = bound(graph, policy, inputs)
    except Unimplemented as bad:
        return f"the library alone cannot run it: {bad}"
    for step in steps:
        step()
    unequal = [t.id for t in graph.outputs if elements(direct[t.id], t).tobytes() != outputs[t.id].tobytes()]
    if not unequal:
        return "equal to the library used directly, to the bit"
    pairs = [(elements(direct[t.id], t), outputs[t.id]) for t in graph.outputs]
    largest, nonfinite = max(_distance(*pair) for pair in pairs), sum(int(differ_in_kind(*pair).sum()) for pair in pairs)
    kind = f"in NaN or infinity at {nonfinite} values, elsewhere " if nonfinite else ""
    return f"off from the library used directly {kind}by up to {largest:.3g}, in tensors {', '.join(map(str, unequal))}"


def _distance(a: Array, b: Array) -> float:
    with np.errstate(invalid="ignore"):
        off = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(off[np.isfinite(off)].max(initial=0.0))


def bound(graph: Graph, policy: Policy, inputs: dict[int, Array]) -> tuple[list[Bound], dict[int, Array]]:
    """The library's partitions bound to buffers, in order, and the buffers by tensor id: direct use of the library."""
    library, live, steps = benchgraph_library(), dict(inputs), list[Bound]()
    work = [p for p in library.partitions(graph, policy) if p.outputs]  # not an End
    for p, compiled in zip(work, library.compile_all(work), strict=True):
        live |= {t.id: allocate(t) for t in p.outputs}
        steps.append(compiled.bind([live[t.id] for t in p.inputs], [live[t.id] for t in p.outputs]))
    return steps, live
