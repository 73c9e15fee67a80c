"""Building and cutting graphs, the oneDNN Graph way: add ops, finalize, get partitions."""

from __future__ import annotations

from benchgraph.core.errors import BenchgraphError, InvalidGraph, InvalidGraphOp, Status
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph import Graph as ApiGraph
from benchgraph.graph import Op, check
from benchgraph.graph.check import check_one
from benchgraph.library.partition import Partition
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions


class Graph:
    """A graph under construction. Not thread-safe, as the specification allows; partitions of a finalized graph are.

    Ops may come in any order. Every mistake raises an error whose `status` is oneDNN's.
    """

    def __init__(self, engine_kind: str = "cpu", fpmath_mode: str = "strict") -> None:
        self.engine_kind, self.fpmath_mode = engine_kind, fpmath_mode
        self._ops: dict[int, Op] = {}
        self._final: ApiGraph | None = None

    @property
    def is_finalized(self) -> bool:
        return self._final is not None

    def add_op(self, op: Op, *, allow_exception: bool = True) -> Status:
        """Verify an op against the op table and add it. allow_exception False: return the status instead of raising.

        InvalidGraph when finalized; InvalidGraphOp (or its kin) for an op its row does not allow, and, unlike oneDNN, which ignores it
        silently, for an op id that is taken.
        """
        try:
            self._add(op)
        except BenchgraphError as bad:
            if allow_exception:
                raise
            return bad.status
        return Status.success

    def _add(self, op: Op) -> None:
        if self.is_finalized:
            raise InvalidGraph("the graph is finalized", where=op.label, fix="add every op before finalize()")
        if op.id in self._ops:
            raise InvalidGraphOp(f"op id {op.id} is taken by {self._ops[op.id].kind}", where=op.label, fix="give every op its own id")
        check_one(op)
        self._ops[op.id] = op

    def finalize(self) -> None:
        """Connect the ops by tensor id and check the whole: one producer and one description per tensor, no cycle. Again: no change."""
        if self._final is None:
            graph = ApiGraph(tuple(self._ops.values()), self.engine_kind, self.fpmath_mode)
            _check_alike(graph)
            check(graph)
            self._final = graph

    def get_partitions(self, policy: Policy = Policy.fused) -> tuple[Partition, ...]:
        """Every op in exactly one partition, in an order in which they can run. May be called again, also with another policy."""
        if self._final is None:
            raise InvalidGraph("the graph is not finalized", where="get_partitions", fix="call finalize() first")
        return tuple(Partition(p, self.engine_kind, self.fpmath_mode) for p in partitions(self._final, policy))


def _check_alike(graph: ApiGraph) -> None:
    """Logical tensors of one id must say the same wherever they stand."""
    for op in graph.ops:
        for t in (*op.inputs, *op.outputs):
            first = graph.tensors[t.id]
            if (t.shape, t.dtype, t.layout_type) != (first.shape, first.dtype, first.layout_type):
                what = f"tensor {t.id} is described as {_text(t)} here and as {_text(first)} elsewhere"
                raise InvalidGraph(what, where=op.label, fix="use one logical tensor per id")


def _text(t: LogicalTensor) -> str:
    return f"{t.dtype.value}{list(t.shape) if t.shape is not None else '[?]'} {t.layout_type.value}"
