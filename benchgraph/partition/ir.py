"""A partition: ops that are compiled and executed together, and the logical tensors at their border."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from benchgraph.core.options import DEFAULT_OPTIONS, Options
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op


class Policy(Enum):
    """How much goes into one partition (docs/architecture.md, Baselines are partition policies). fusion, debug: oneDNN's names."""

    fused = "fused"
    post_ops = "post_ops"
    one_op_each = "one_op_each"
    fusion = fused
    debug = one_op_each


@dataclass(frozen=True)
class Partition:
    """ops in topological order. inputs and outputs: each border tensor once, in order of first use and of production.

    kind: the rule that made it (a file stem under rules/), for people and tests. reason: why is_supported is False. engine_kind and
    the math mode are the graph's. prepared: ids of the outputs that a layout op makes and no op reads, which are operands
    that the user packs. options: how it is to be compiled. note: what results say about it, '' for nothing: that its ops are executed by
    numpy, and why.
    """

    id: int
    kind: str
    ops: tuple[Op, ...]
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    reason: str = ""
    engine_kind: str = "cpu"
    fpmath_mode: str = "strict"
    fpmath_apply_to_int: bool | None = None
    prepared: tuple[int, ...] = ()
    options: Options = DEFAULT_OPTIONS
    note: str = ""

    @property
    def is_supported(self) -> bool:
        return not self.reason

    @property
    def graph(self) -> Graph:
        """The partition as a graph of its own, its outputs named as output ports."""
        ports = tuple(t.id for t in self.outputs)
        return Graph(self.ops, self.engine_kind, self.fpmath_mode, self.fpmath_apply_to_int, output_ports=ports)
