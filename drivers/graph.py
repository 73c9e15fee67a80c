"""graph: runs oneDNN Graph JSON dumps. `benchgraph --driver graph --mb=4 --case=mlp.json`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchgraph.core.errors import BenchgraphError
from benchgraph.harness.knobs import knob, natural
from benchgraph.harness.problem import CannotOverride, Driver

if TYPE_CHECKING:
    from benchgraph.graph.ir import Graph


@dataclass(frozen=True)
class Knobs:
    """Names, defaults and order in the repro line are benchdnn's."""

    mb: int = knob(0, natural, "N[,N...]", "replace the batch dimension; 0 = keep the file's", product=True)
    expected_n_partitions: int = knob(1, natural, "N", "how many partitions the fused policy must make (default 1); 0 = do not check")
    case: str = knob("", str, "FILE", "the JSON file; runs it with the options so far")


def build(knobs: Knobs, file: Path) -> Graph:
    # imported here: the options are read, and --help printed, without loading numpy
    from benchgraph.graph import infer_shapes, load, row_major, with_batch

    graph = row_major(load(file))
    try:
        graph = infer_shapes(graph)
    except BenchgraphError as bad:
        raise bad.inside(str(file)) from bad
    try:
        return with_batch(graph, knobs.mb)
    except BenchgraphError as bad:
        raise CannotOverride(bad.what, where=bad.where, fix=bad.fix).inside(f"{file}: --mb={knobs.mb}") from bad


def expected(knobs: Knobs) -> int:
    return knobs.expected_n_partitions


DRIVER = Driver("graph", "oneDNN Graph JSON dumps", Knobs, build, expected)
