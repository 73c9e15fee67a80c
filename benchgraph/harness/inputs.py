"""The data of a case's inputs: by mode and --fill, or the user's."""

from __future__ import annotations

from benchgraph.core.arrays import Array
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import constant_inputs, load_inputs
from benchgraph.harness.user_data import overwrite
from benchgraph.options.problem import Problem
from benchgraph.reference import domain, fill, uniform


def inputs_of(problem: Problem, graph: Graph) -> dict[int, Array]:
    """Buffers with the data of the case's inputs. Raises InvalidArguments for data of the user's that do not fit."""
    settings = problem.globals
    if settings.has_no_reference:
        buffers = constant_inputs(graph)
    elif settings.mode.is_timed:
        buffers = load_inputs(graph, uniform(graph, settings.seed))
    else:
        buffers = load_inputs(graph, (fill if problem.fill == "integers" else domain)(graph, settings.seed))
    if settings.data:
        overwrite(graph, buffers, settings.data, problem.file)
    return buffers
