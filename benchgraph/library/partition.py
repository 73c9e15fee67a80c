"""Partitions: ops compiled together, and the requirements on the logical tensors given to compile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from benchgraph import graph
from benchgraph.compile import compile_partition, named, work
from benchgraph.core.config import config
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.layout import Layout, layout_id
from benchgraph.core.tensor import LayoutType, LogicalTensor
from benchgraph.graph.check import check_one
from benchgraph.library import verbose
from benchgraph.library.cache import compiled_partitions
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.library.dump import dump_partition
from benchgraph.library.engine import Engine
from benchgraph.library.op import Op
from benchgraph.partition import ir
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime.executable import Executable
from benchgraph.schedule.tuning import tuned

ENGINE_KINDS = ("cpu", "gpu")


class FpmathMode(Enum):
    """How far f32 may be rounded inside an op (dnnl_fpmath_mode_t). A permission: computing more exactly is always allowed."""

    strict = "strict"
    bf16 = "bf16"
    f16 = "f16"
    tf32 = "tf32"
    any = "any"


def check_engine_kind(kind: str, where: str) -> None:
    """Raises InvalidArguments. A graph may be for a GPU, though there is no such engine."""
    if kind not in ENGINE_KINDS:
        raise InvalidArguments(f"the engine kind is {kind!r}", where=where, fix=f"use one of {', '.join(ENGINE_KINDS)}")


class Partition:
    """Ops to be compiled together; usable after the graph is gone. Unsupported ones have one op and a `reason`.

    Partition(op) is the partition of a single op, without a graph; it raises the errors of `Graph.add_op`. id: unique in the process.
    """

    def __init__(self, op: Op | graph.Op, engine_kind: str = "cpu") -> None:
        check_engine_kind(engine_kind, "Partition")
        single = op.described if isinstance(op, Op) else op
        if not isinstance(single, graph.Op):
            raise InvalidArguments(f"cannot partition a {type(op).__name__}", where="Partition", fix="give it an Op")
        check_one(single)
        (self.description,) = partitions(graph.Graph((single,), engine_kind, config().default_fpmath_mode, False), Policy.one_op_each)

    @classmethod
    def described(cls, description: ir.Partition) -> Partition:
        """A partition of a graph, as the partitioner describes it."""
        self = cls.__new__(cls)
        self.description = description
        return self

    @property
    def id(self) -> int:
        return self.description.id

    @property
    def engine_kind(self) -> str:
        return self.description.engine_kind

    @property
    def fpmath_mode(self) -> FpmathMode:
        return FpmathMode(self.description.fpmath_mode)

    @property
    def fpmath_apply_to_int(self) -> bool:
        return bool(self.description.fpmath_apply_to_int)

    @property
    def is_supported(self) -> bool:
        return self.description.is_supported

    @property
    def reason(self) -> str:
        return self.description.reason

    @property
    def ops_num(self) -> int:
        return len(self.description.ops)

    @property
    def ops(self) -> tuple[int, ...]:
        """Op ids, in topological order."""
        return tuple(op.id for op in self.description.ops)

    @property
    def input_ports(self) -> tuple[LogicalTensor, ...]:
        """Inputs, once per use: a tensor that two ops read occurs twice."""
        outside = {t.id: t for t in self.description.inputs}
        return tuple(outside[t.id] for op in self.description.ops for t in op.inputs if t.id in outside)

    @property
    def output_ports(self) -> tuple[LogicalTensor, ...]:
        """Results that are read outside or not at all, without duplicates."""
        return self.description.outputs

    def compile(self, inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor], engine: Engine) -> CompiledPartition:
        """Compile for these logical tensors, one per port, matched by id; others are ignored.

        inputs: all dims known, layout strided or opaque. outputs: dims may be unknown; layout strided, opaque, or any, which becomes
        opaque: row-major, or packed weights that the user prepares. Raises InvalidArguments (an unsupported partition, a port
        without its tensor, another dtype than the port's, unknown input dims, an unknown layout id), InvalidShape (dims that contradict the
        inferred ones, or cannot be inferred), Unimplemented (a dtype without code generation).
        """
        begin = time.perf_counter()
        self._check_compilable(engine)
        ins = tuple(_matched(port, inputs, "input") for port in self.description.inputs)
        outs = tuple(_matched(port, outputs, "output") for port in self.description.outputs)
        for t in ins:
            if not t.is_settled:
                fix = "give all dims and a strided or opaque layout; only outputs may leave them open"
                raise InvalidArguments("dims or layout of an input are unknown", where=f"compile: tensor {t.id}", fix=fix)
        known = graph.infer_shapes(self.description.graph.with_tensors({t.id: t for t in (*ins, *outs)}))
        made = replace(
            self.description,
            ops=known.order,
            inputs=tuple(known.tensors[t.id] for t in ins),
            outputs=tuple(known.tensors[t.id] for t in outs),
        )
        compiled = False

        def compile_it() -> Executable:
            nonlocal compiled
            compiled = True
            return compile_partition(made, engine.target, open_outputs)

        open_outputs = {t.id for t in made.outputs if t.layout_type is LayoutType.any and t.id in made.prepared}
        key = work(replace(made, options=tuned(made.options, engine.target)), open_outputs)
        seen = made.ops if config().shows_stages else ()  # print the stages of equal layers too
        executable = named(compiled_partitions.get((key, seen, engine.target, config().runtime), compile_it), made)
        dump_partition(made)
        made = replace(made, outputs=tuple(_settled(t, layout) for t, layout in zip(made.outputs, executable.layouts, strict=True)))
        verbose.log_compilation(made, executable, time.perf_counter() - begin, is_hit=not compiled)
        order = tuple(t.id for t in inputs), tuple(t.id for t in outputs)
        return CompiledPartition(made, *order, executable, engine, from_cache=not compiled)

    def _check_compilable(self, engine: Engine) -> None:
        if not self.is_supported:
            ops = ", ".join(op.label for op in self.description.ops)
            fix = "run the op yourself: is_supported says which partitions to leave out"
            raise InvalidArguments(f"the partition is unsupported: {self.reason}", where=f"compile: {ops}", fix=fix)
        if not isinstance(engine, Engine):
            raise InvalidArguments(f"the engine is a {type(engine).__name__}", where="compile", fix="give it an Engine")
        if engine.kind != self.engine_kind:
            raise InvalidArguments(f"engine {engine.kind} for a graph on {self.engine_kind}", where="compile", fix="use the graph's engine")


def _settled(t: LogicalTensor, layout: Layout) -> LogicalTensor:
    """An output of layout any, with the layout that it was compiled in."""
    if t.layout_type is not LayoutType.any:
        return t
    return replace(t, layout_type=LayoutType.opaque, layout_id=layout_id(layout, t.known_shape), strides=None)


def _matched(port: LogicalTensor, given: Sequence[LogicalTensor], role: str) -> LogicalTensor:
    wrong_type = next((type(t).__name__ for t in given if not isinstance(t, LogicalTensor)), None)
    if wrong_type is not None:
        raise InvalidArguments(f"an {role} is a {wrong_type}", where="compile", fix="give logical tensors; tensors come at execution")
    matches = [t for t in given if t.id == port.id]
    if not matches:
        have = ", ".join(str(t.id) for t in given) or "none"
        raise InvalidArguments(f"no logical tensor for {role} port {port.id}, only {have}", where="compile", fix="pass one per port")
    match = matches[0]
    if any(t != match for t in matches):
        what = f"the logical tensors given for {role} port {port.id} differ"
        raise InvalidArguments(what, where="compile", fix="give the same one wherever the id occurs")
    if match.dtype is not port.dtype:
        what = f"{role} port {port.id} is {port.dtype.value}, the tensor {match.dtype.value}"
        raise InvalidArguments(what, where="compile", fix="dtypes are fixed when the graph is built")
    if match.layout_type is LayoutType.undef:
        raise InvalidArguments("its layout is undef", where=f"compile: tensor {port.id}", fix="use strided, or any for an output")
    return match
