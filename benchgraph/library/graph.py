"""Building and cutting graphs, the oneDNN Graph way: add ops, finalize, get partitions, compile, execute."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from benchgraph.compile import compile_partition
from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidGraph, InvalidGraphOp, Status
from benchgraph.core.tensor import LayoutType, LogicalTensor
from benchgraph.graph import Graph as ApiGraph
from benchgraph.graph import Op, check, infer_shapes
from benchgraph.graph.check import check_one
from benchgraph.library.cache import Cache
from benchgraph.library.engine import Engine, Stream
from benchgraph.library.tensor import Tensor
from benchgraph.partition import ir
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime.executable import Array, Bound, Executable

compiled_partitions: Cache[Executable] = Cache(1024)  # oneDNN's default capacity; keyed by ops, logical tensors, target, thread runtime
BOUND_PER_THREAD = 16


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
        return tuple(Partition(p, self.engine_kind) for p in partitions(self._final, policy))


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


@dataclass(frozen=True, eq=False)
class Partition:
    """Ops to be compiled together; usable after the graph is gone. Unsupported ones hold one op and say why in `reason`."""

    description: ir.Partition
    engine_kind: str

    @property
    def id(self) -> int:
        return self.description.id

    @property
    def is_supported(self) -> bool:
        return self.description.is_supported

    @property
    def reason(self) -> str:
        return self.description.reason

    @property
    def ops(self) -> tuple[int, ...]:
        """Op ids, in topological order."""
        return tuple(op.id for op in self.description.ops)

    @property
    def input_ports(self) -> tuple[LogicalTensor, ...]:
        return self.description.inputs

    @property
    def output_ports(self) -> tuple[LogicalTensor, ...]:
        return self.description.outputs

    def compile(self, inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor], engine: Engine) -> CompiledPartition:
        """Compile for these logical tensors, one per port, matched by id.

        inputs: all dims known, layout strided. outputs: dims may be unknown; layout strided or any, which gets row-major memory. Raises
        InvalidArguments (a port without its tensor, another dtype than the port's, unknown input dims), InvalidShape (dims that
        contradict what the ops infer), Unimplemented (an unsupported partition).
        """
        if engine.kind != self.engine_kind:
            raise InvalidArguments(f"engine {engine.kind} for a graph on {self.engine_kind}", where="compile", fix="use the graph's engine")
        ins = tuple(_matched(port, inputs, "input") for port in self.input_ports)
        outs = tuple(_matched(port, outputs, "output") for port in self.output_ports)
        for t in ins:
            if not t.has_known_shape or t.layout_type is not LayoutType.strided:
                fix = "give all dims and a strided layout; only outputs may leave them open"
                raise InvalidArguments("dims or layout of an input are unknown", where=f"compile: tensor {t.id}", fix=fix)
        graph = self.description.graph.with_tensors({t.id: t for t in (*ins, *map(_strided, outs))})
        known = infer_shapes(graph)
        made = replace(
            self.description,
            ops=known.order,
            inputs=tuple(known.tensors[t.id] for t in ins),
            outputs=tuple(known.tensors[t.id] for t in outs),
        )
        key = (replace(made, id=0), engine.target, config().runtime)
        executable = compiled_partitions.get(key, lambda: compile_partition(made, engine.target))
        return CompiledPartition(made, tuple(t.id for t in inputs), tuple(t.id for t in outputs), executable)


def _strided(t: LogicalTensor) -> LogicalTensor:
    return replace(t, layout_type=LayoutType.strided, strides=None) if t.layout_type is LayoutType.any else t


def _matched(port: LogicalTensor, given: Sequence[LogicalTensor], role: str) -> LogicalTensor:
    found = next((t for t in given if t.id == port.id), None)
    if found is None:
        have = ", ".join(str(t.id) for t in given) or "none"
        raise InvalidArguments(f"no logical tensor for {role} port {port.id}, only {have}", where="compile", fix="pass one per port")
    if found.dtype is not port.dtype:
        what = f"{role} port {port.id} is {port.dtype.value}, the tensor {found.dtype.value}"
        raise InvalidArguments(what, where="compile", fix="dtypes are fixed when the graph is built")
    if found.layout_type is LayoutType.undef:
        raise InvalidArguments("its layout is undef", where=f"compile: tensor {port.id}", fix="use strided, or any for an output")
    return found


@dataclass(frozen=True, eq=False)
class CompiledPartition:
    """Machine code for one partition and set of shapes. Threads may execute it concurrently."""

    description: ir.Partition
    given_inputs: tuple[int, ...]
    given_outputs: tuple[int, ...]
    executable: Executable
    _per_thread: threading.local = field(default_factory=threading.local, repr=False)

    @cached_property
    def _tensors(self) -> dict[int, LogicalTensor]:
        return {t.id: t for t in (*self.description.inputs, *self.description.outputs)}

    def query_logical_tensor(self, id: int) -> LogicalTensor:
        """A port with everything known: dims, strides, size. Raises InvalidArguments for an id that is no port."""
        if id not in self._tensors:
            known = ", ".join(map(str, self._tensors))
            raise InvalidArguments(f"tensor {id} is no port of the partition", where="query_logical_tensor", fix=f"ports are {known}")
        return self._tensors[id]

    def execute(self, stream: Stream, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Run once. Tensors come in the order in which their logical tensors were given to compile; results go to the outputs' memory."""
        tensors = (*inputs, *outputs)
        bound, _ = self._bounds().get(tuple(map(id, tensors)), lambda: (self._bind(inputs, outputs), tensors))
        bound()

    def _bounds(self) -> Cache[tuple[Bound, tuple[Tensor, ...]]]:
        """This thread's bound buffers, by the identity of the tensors, which they keep alive: a Bound serves one call at a time."""
        if not hasattr(self._per_thread, "bounds"):
            self._per_thread.bounds = Cache(BOUND_PER_THREAD)
        found: Cache[tuple[Bound, tuple[Tensor, ...]]] = self._per_thread.bounds
        return found

    def _bind(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Bound:
        ins = self._arrays(inputs, self.given_inputs, self.description.inputs, "input")
        outs = self._arrays(outputs, self.given_outputs, self.description.outputs, "output")
        return self.executable.bind(ins, outs)

    def _arrays(self, given: Sequence[Tensor], order: tuple[int, ...], ports: tuple[LogicalTensor, ...], role: str) -> list[Array]:
        ids = tuple(t.logical.id for t in given)
        if ids != order:
            what = f"{role} tensors {list(ids)}, compiled with {list(order)}"
            raise InvalidArguments(what, where="execute", fix="pass the tensors in the order of compile")
        by_id = {t.logical.id: t.array for t in given}
        return [by_id[port.id] for port in ports]
