"""The data of a case's inputs: the model's, the user's, else by mode and --fill."""

from __future__ import annotations

from collections.abc import Mapping

from benchgraph.core.arrays import Array
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import constant_inputs, load_inputs
from benchgraph.harness.user_data import converted, overwrite
from benchgraph.options.problem import Problem
from benchgraph.reference import domain, fill, uniform


def inputs_of(problem: Problem, graph: Graph) -> dict[int, Array]:
    """Buffers with the data of the case's inputs. Raises InvalidArguments for data of the user's that do not fit."""
    settings, model = problem.globals, problem.model(graph)
    own = {t.id: converted(model.data[t.id], t, f"{problem.file}: data of tensor {t.id}") for t in graph.inputs if t.id in model.data}
    is_constant = settings.has_no_reference and not own
    buffers = constant_inputs(graph) if is_constant else load_inputs(graph, _made(problem, graph, own) | own)
    if settings.data:
        overwrite(model, buffers, settings.data, problem.file)
    return buffers


def _made(problem: Problem, graph: Graph, own: Mapping[int, Array]) -> dict[int, Array]:
    """The elements of inputs without data of their own."""
    settings = problem.globals
    if settings.mode.is_timed or settings.has_no_reference:
        return uniform(graph, settings.seed, own)
    return fill(graph, settings.seed, own) if problem.fill == "integers" else domain(graph, settings.seed, own)
