"""Partitions: ops to be compiled together, and what compiling them asks of the logical tensors given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchgraph.compile import compile_partition
from benchgraph.core.config import config
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LayoutType, LogicalTensor
from benchgraph.graph import infer_shapes
from benchgraph.library.cache import compiled_partitions
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.library.engine import Engine
from benchgraph.partition import ir
from benchgraph.runtime.executable import Executable


@dataclass(frozen=True, eq=False)
class Partition:
    """Ops to be compiled together; usable after the graph is gone. Unsupported ones hold one op and say why in `reason`."""

    description: ir.Partition
    engine_kind: str
    fpmath_mode: str = "strict"

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
        compiled = False

        def compile_it() -> Executable:
            nonlocal compiled
            compiled = True
            return compile_partition(made, engine.target)

        key = (replace(made, id=0), self.fpmath_mode, engine.target, config().runtime)
        executable = compiled_partitions.get(key, compile_it)
        return CompiledPartition(made, tuple(t.id for t in inputs), tuple(t.id for t in outputs), executable, from_cache=not compiled)


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
