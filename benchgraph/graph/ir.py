"""The API graph: built by users or read from JSON dumps. Frozen; every change makes a new graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from benchgraph import ops
from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidArguments, InvalidGraph, InvalidGraphOp
from benchgraph.core.printable import listed, shortened
from benchgraph.core.tensor import LogicalTensor
from benchgraph.ops.spec import Call
from benchgraph.ops.structural import COMPUTES


@dataclass(frozen=True)
class Op:
    """An operation. inputs and outputs are in schema order; attrs are those given (defaults are in the op table)."""

    id: int
    kind: str
    attrs: Attrs = field(default_factory=Attrs)
    inputs: tuple[LogicalTensor, ...] = ()
    outputs: tuple[LogicalTensor, ...] = ()
    name: str = ""

    @property
    def label(self) -> str:
        """The op's name in messages."""
        return f"op {self.id}: {shortened(self.kind)}"

    @property
    def is_computed(self) -> bool:
        """Whether somebody computes it: the compiler, or numpy for a Wildcard that says what it computes."""
        return not ops.spec(self.kind).lowering.unsupported or COMPUTES in self.attrs

    @property
    def full_attrs(self) -> Attrs:
        """The attributes, including the schema's defaults."""
        return ops.with_defaults(self.kind, self.attrs)

    @property
    def call(self) -> Call:
        """The op, of a shape-inferred graph, as the functions of its row take it."""
        return Call(self.kind, self.full_attrs, tuple(t.type for t in self.inputs), tuple(t.type for t in self.outputs))

    @property
    def extensions(self) -> Attrs:
        """The attributes that oneDNN lacks."""
        own = ops.spec(self.kind).schema.extensions
        return Attrs({name: value for name, value in self.attrs.items() if name in own})


@dataclass(frozen=True)
class Graph:
    """Operations connected by logical-tensor ids.

    ops: in the given order; `order` is topological. input_ports, output_ports: as the dump lists them, or None. fpmath_apply_to_int: None
    if the dump does not have it.
    """

    ops: tuple[Op, ...]
    engine_kind: str = "cpu"
    fpmath_mode: str = "strict"
    fpmath_apply_to_int: bool | None = None
    version: str = ""
    input_ports: tuple[int, ...] | None = None
    output_ports: tuple[int, ...] | None = None

    @cached_property
    def producers(self) -> dict[int, Op]:
        """Tensor id -> the op that writes it. Raises InvalidGraph if two do."""
        by_tensor: dict[int, Op] = {}
        for op in self.ops:
            for t in op.outputs:
                if t.id in by_tensor:
                    both = f"ops {by_tensor[t.id].id} and {op.id} both produce tensor {t.id}"
                    raise InvalidGraph(both, where=op.label, fix="give each output its own tensor id")
                by_tensor[t.id] = op
        return by_tensor

    @cached_property
    def consumers(self) -> dict[int, tuple[Op, ...]]:
        """Tensor id -> the ops that read it, without duplicates, in graph order."""
        by_tensor: dict[int, list[Op]] = {}
        for op in self.ops:
            for id in dict.fromkeys(t.id for t in op.inputs):
                by_tensor.setdefault(id, []).append(op)
        return {id: tuple(ops) for id, ops in by_tensor.items()}

    @cached_property
    def places(self) -> dict[int, int]:
        """Op id -> its position in `order`."""
        return {op.id: place for place, op in enumerate(self.order)}

    def first_reader(self, tensor: int, counts: Callable[[Op], bool]) -> Op | None:
        """The first reader of a tensor in topological order that satisfies the predicate `counts`; None if there is none."""
        return min(filter(counts, self.consumers.get(tensor, ())), key=lambda op: self.places[op.id], default=None)

    @cached_property
    def tensors(self) -> dict[int, LogicalTensor]:
        """Tensor id -> logical tensor, the producer's description first, else the first consumer's."""
        by_id = {t.id: t for op in self.ops for t in op.outputs}
        for op in self.ops:
            for t in op.inputs:
                by_id.setdefault(t.id, t)
        return by_id

    @cached_property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """Tensors without a producer in the graph, in order of first use."""
        made = self.producers
        return tuple({t.id: t for op in self.ops for t in op.inputs if t.id not in made}.values())

    @cached_property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """Unread tensors, those that an End marks, and those of output_ports, in order of production."""
        marked = {t.id for op in self.ops if op.kind == END for t in op.inputs} | set(self.output_ports or ())
        return tuple(t for op in self.order for t in op.outputs if t.id in marked or t.id not in self.consumers)

    @cached_property
    def order(self) -> tuple[Op, ...]:
        """The ops in topological order, stable with respect to the given order. Raises InvalidGraph for a cycle, with its ops."""
        made, done, result = self.producers, set[int](), list[Op]()
        for root in self.ops:
            path: list[tuple[Op, Iterator[LogicalTensor]]] = [(root, iter(root.inputs))] if root.id not in done else []
            open_ids = {root.id}
            while path:
                op, rest = path[-1]
                parent = next((made[t.id] for t in rest if t.id in made and made[t.id].id not in done), None)
                if parent is None:
                    path.pop()
                    open_ids.discard(op.id)
                    done.add(op.id)
                    result.append(op)
                elif parent.id in open_ids:
                    ids = [o.id for o, _ in path]
                    loop = " -> ".join(str(i) for i in [*ids[ids.index(parent.id) :], parent.id])
                    what = f"the ops form a cycle (each needs the next): {loop}"
                    raise InvalidGraph(what, where=parent.label, fix="a graph must be acyclic")
                else:
                    path.append((parent, iter(parent.inputs)))
                    open_ids.add(parent.id)
        return tuple(result)

    def check_ids(self) -> None:
        """Raises InvalidGraphOp for duplicate op ids. The properties above check producers and cycles."""
        seen = set[int]()
        for op in self.ops:
            if op.id in seen:
                raise InvalidGraphOp(f"op id {op.id} is used twice", where=op.label, fix="give every op its own id")
            seen.add(op.id)

    def check_has(self, tensor: int) -> None:
        """Raises InvalidArguments for a tensor id that is not in the graph."""
        if tensor not in self.tensors:
            raise InvalidArguments("there is no such tensor", where=f"tensor {tensor}", fix=f"the graph has {listed(sorted(self.tensors))}")

    def with_tensors(self, changed: dict[int, LogicalTensor]) -> Graph:
        """The graph with these logical tensors replaced, by id, at every use."""
        return self.mapped(lambda t: changed.get(t.id, t))

    def mapped(self, change: Callable[[LogicalTensor], LogicalTensor]) -> Graph:
        """The graph with every logical tensor changed, at every use."""
        sides = ((op, tuple(map(change, op.inputs)), tuple(map(change, op.outputs))) for op in self.ops)
        return replace(self, ops=tuple(replace(op, inputs=ins, outputs=outs) for op, ins, outs in sides))


END = "End"  # marks its input as an output of the graph; computes nothing
