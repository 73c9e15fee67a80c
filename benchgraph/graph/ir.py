"""The API graph: what a user builds or a JSON dump holds. Frozen; every change makes a new graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from benchgraph import ops
from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidArguments, InvalidGraph, InvalidGraphOp
from benchgraph.core.lines import listed, shortened
from benchgraph.core.tensor import LogicalTensor


@dataclass(frozen=True)
class Op:
    """An operation. inputs and outputs are in schema order; attrs hold only what was given (defaults come from the op table)."""

    id: int
    kind: str
    attrs: Attrs = field(default_factory=Attrs)
    inputs: tuple[LogicalTensor, ...] = ()
    outputs: tuple[LogicalTensor, ...] = ()
    name: str = ""

    @property
    def label(self) -> str:
        """How messages name this op."""
        return f"op {self.id}: {shortened(self.kind)}"

    @property
    def full_attrs(self) -> Attrs:
        """The attributes, with the schema's defaults for those that were not given."""
        return ops.with_defaults(self.kind, self.attrs)

    @property
    def extensions(self) -> Attrs:
        """Those of the attributes that oneDNN has not."""
        own = ops.spec(self.kind).schema.extensions
        return Attrs({name: value for name, value in self.attrs.items() if name in own})


@dataclass(frozen=True)
class Graph:
    """Operations connected by logical-tensor ids.

    ops: in any order as given; `order` is topological. input_ports, output_ports: as the dump lists them, None when it has none.
    fpmath_apply_to_int None: the dump does not say.
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
        """Tensor id -> the op that writes it. Raises InvalidGraph when two do."""
        found: dict[int, Op] = {}
        for op in self.ops:
            for t in op.outputs:
                if t.id in found:
                    both = f"ops {found[t.id].id} and {op.id} both produce tensor {t.id}"
                    raise InvalidGraph(both, where=op.label, fix="give each output its own tensor id")
                found[t.id] = op
        return found

    @cached_property
    def consumers(self) -> dict[int, tuple[Op, ...]]:
        """Tensor id -> the ops that read it, each once, in graph order."""
        found: dict[int, list[Op]] = {}
        for op in self.ops:
            for id in dict.fromkeys(t.id for t in op.inputs):
                found.setdefault(id, []).append(op)
        return {id: tuple(ops) for id, ops in found.items()}

    @cached_property
    def places(self) -> dict[int, int]:
        """Op id -> its place in `order`."""
        return {op.id: place for place, op in enumerate(self.order)}

    def first_reader(self, tensor: int, counts: Callable[[Op], bool]) -> Op | None:
        """Of the ops that read a tensor and count, the first one in topological order; None when there is none."""
        return min(filter(counts, self.consumers.get(tensor, ())), key=lambda op: self.places[op.id], default=None)

    @cached_property
    def tensors(self) -> dict[int, LogicalTensor]:
        """Tensor id -> logical tensor, the producer's description first, else the first consumer's."""
        found = {t.id: t for op in self.ops for t in op.outputs}
        for op in self.ops:
            for t in op.inputs:
                found.setdefault(t.id, t)
        return found

    @cached_property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """Tensors nothing in the graph produces, in order of first use."""
        made = self.producers
        return tuple({t.id: t for op in self.ops for t in op.inputs if t.id not in made}.values())

    @cached_property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """Tensors that leave the graph: unused ones, those an End marks, and those output_ports names, in order of production."""
        marked = {t.id for op in self.ops if op.kind == END for t in op.inputs} | set(self.output_ports or ())
        return tuple(t for op in self.order for t in op.outputs if t.id in marked or t.id not in self.consumers)

    @cached_property
    def order(self) -> tuple[Op, ...]:
        """The ops in topological order, stable with respect to the given order. Raises InvalidGraph on a cycle, naming its ops."""
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
                    raise InvalidGraph(
                        f"the ops form a cycle (each needs the next): {loop}", where=parent.label, fix="a graph must be acyclic"
                    )
                else:
                    path.append((parent, iter(parent.inputs)))
                    open_ids.add(parent.id)
        return tuple(result)

    def check_ids(self) -> None:
        """Op ids must be unique; raises InvalidGraphOp. Producers and cycles are checked by the properties above."""
        seen = set[int]()
        for op in self.ops:
            if op.id in seen:
                raise InvalidGraphOp(f"op id {op.id} is used twice", where=op.label, fix="give every op its own id")
            seen.add(op.id)

    def check_has(self, tensor: int) -> None:
        """Raises InvalidArguments for the id of a tensor that the graph does not have."""
        if tensor not in self.tensors:
            raise InvalidArguments("there is no such tensor", where=f"tensor {tensor}", fix=f"the graph has {listed(sorted(self.tensors))}")

    def with_tensors(self, changed: dict[int, LogicalTensor]) -> Graph:
        """The graph with these logical tensors exchanged, by id, wherever they occur."""
        return self.mapped(lambda t: changed.get(t.id, t))

    def mapped(self, change: Callable[[LogicalTensor], LogicalTensor]) -> Graph:
        """The graph with every logical tensor changed, wherever it occurs."""

        def each(ts: tuple[LogicalTensor, ...]) -> tuple[LogicalTensor, ...]:
            return tuple(map(change, ts))

        return replace(self, ops=tuple(replace(op, inputs=each(op.inputs), outputs=each(op.outputs)) for op in self.ops))


END = "End"  # marks its input as leaving the graph; the one kind whose meaning is the graph's, not an op's
