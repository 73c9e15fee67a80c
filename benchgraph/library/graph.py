"""Graphs under construction, with oneDNN Graph's interface: add ops, finalize, get partitions."""

from __future__ import annotations

from itertools import count

from benchgraph import graph as api
from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidGraph, InvalidGraphOp, Status
from benchgraph.graph.check import check_one
from benchgraph.graph.text import print_tensor
from benchgraph.library.dump import dump_graph, dump_partitioning
from benchgraph.library.op import Op
from benchgraph.library.partition import FpmathMode, Partition, check_engine_kind
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions

_ids = count()


class Graph:
    """A graph under construction, to which ops are added in any order. Not thread-safe; partitions of a finalized graph are.

    fpmath_mode: how far f32 may be rounded; the default is BENCHGRAPH_DEFAULT_FPMATH_MODE. id: unique in the process. Errors have oneDNN's
    `status`.
    """

    def __init__(self, engine_kind: str = "cpu", fpmath_mode: FpmathMode | None = None) -> None:
        check_engine_kind(engine_kind, "Graph")
        self.id, self.engine_kind = next(_ids), engine_kind
        self._ops: dict[int, api.Op] = {}
        self._final: api.Graph | None = None
        self.set_fpmath_mode(FpmathMode(config().default_fpmath_mode) if fpmath_mode is None else fpmath_mode)

    def set_fpmath_mode(self, mode: FpmathMode, apply_to_int: bool = False) -> None:
        """How far f32 may be rounded; apply_to_int: also in ops on integers, as floats. InvalidGraph once the graph is finalized."""
        self._check_open("set_fpmath_mode", "set the mode before finalize()")
        if not isinstance(mode, FpmathMode):
            fix = f"use one of {', '.join(map(str, FpmathMode))}"
            raise InvalidArguments(f"the mode is {mode!r}", where="set_fpmath_mode", fix=fix)
        self._fpmath = mode, bool(apply_to_int)

    def get_fpmath_mode(self) -> tuple[FpmathMode, bool]:
        """(mode, apply_to_int). Raises InvalidGraph once the graph is finalized, as oneDNN does; its partitions have them."""
        self._check_open("get_fpmath_mode", "ask before finalize(), or ask a partition")
        return self._fpmath

    @property
    def is_finalized(self) -> bool:
        return self._final is not None

    def add_op(self, op: Op | api.Op, *, allow_exception: bool = True) -> Status:
        """Check an op against the op table and add it. allow_exception False: return the status instead of raising.

        InvalidGraph when finalized; InvalidGraphOp for an op that its row does not allow, and for a duplicate op id, which oneDNN ignores
        silently; InvalidArguments for anything but an op.
        """
        try:
            self._add(op.described if isinstance(op, Op) else op)
        except BenchgraphError as bad:
            if allow_exception:
                raise
            return bad.status
        return Status.success

    def _add(self, op: api.Op) -> None:
        if not isinstance(op, api.Op):
            raise InvalidArguments(f"cannot add a {type(op).__name__}", where="add_op", fix="give it an Op")
        self._check_open(op.label, "add every op before finalize()")
        if op.id in self._ops:
            raise InvalidGraphOp(f"op id {op.id} is taken by {self._ops[op.id].kind}", where=op.label, fix="give every op its own id")
        check_one(op)
        self._ops[op.id] = op

    def _check_open(self, where: str, fix: str) -> None:
        if self.is_finalized:
            raise InvalidGraph("the graph is finalized", where=where, fix=fix)

    def finalize(self) -> None:
        """Connect the ops by tensor id and check the graph: one producer and one description per tensor, no cycle. Idempotent."""
        if self._final is None:
            mode, apply_to_int = self._fpmath
            graph = api.Graph(tuple(self._ops.values()), self.engine_kind, mode.value, apply_to_int)
            _check_alike(graph)
            api.check(graph)
            self._final = graph

    def get_partitions(self, policy: Policy = Policy.fusion) -> tuple[Partition, ...]:
        """Every op in exactly one partition, in an executable order. May be called again, also with another policy."""
        if self._final is None:
            raise InvalidGraph("the graph is not finalized", where="get_partitions", fix="call finalize() first")
        if not isinstance(policy, Policy):
            fix = f"use one of {', '.join(map(str, Policy.__members__.values()))}"
            raise InvalidArguments(f"the policy is {policy!r}", where="get_partitions", fix=fix)
        dump_graph(self.id, self._final)
        parts = partitions(self._final, policy)
        dump_partitioning(self.id, self._final, parts)
        return tuple(Partition.described(p) for p in parts)


def _check_alike(graph: api.Graph) -> None:
    """Logical tensors of one id must be equal."""
    for op in graph.ops:
        for t in (*op.inputs, *op.outputs):
            first = graph.tensors[t.id]
            if not t.is_equal(first):
                what = f"tensor {t.id} is described as {print_tensor(t)} here and as {print_tensor(first)} elsewhere"
                raise InvalidGraph(what, where=op.label, fix="use one logical tensor per id")
