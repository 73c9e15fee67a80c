"""Operations as users describe them, before they are added to a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real

from benchgraph import graph
from benchgraph.core.attrs import Attrs, AttrValue
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import MAX_ID, LogicalTensor


class Op:
    """An operation to be added to a graph, described at once or step by step:

            Op(0, "MatMul", inputs=[src, wei], outputs=[dst], transpose_b=True)
            Op(0, "MatMul").add_inputs([src, wei]).add_output(dst).set_attr("transpose_b", True)

    id: unique in the graph. kind: oneDNN's spelling. Inputs and outputs are in schema order. The graph checks and copies the op when it is
    added. Raises InvalidArguments for an invalid id, name, tensor or attribute value.
    """

    def __init__(
        self,
        id: int,
        kind: str,
        name: str = "",
        *,
        inputs: Iterable[LogicalTensor] = (),
        outputs: Iterable[LogicalTensor] = (),
        **attrs: object,
    ) -> None:
        if not isinstance(id, int) or not 0 <= id <= MAX_ID:
            raise InvalidArguments(f"the id is {id!r}", where=f"op {id!r}", fix=f"use an integer from 0 to {MAX_ID}")
        self.id = id
        for what, text in (("kind", kind), ("name", name)):
            if not isinstance(text, str):
                raise InvalidArguments(f"the {what} is {text!r}", where=f"op {id}", fix="use a string")
        self.kind, self.name = kind, name or f"{kind}_{id}"
        self.inputs: list[LogicalTensor] = []
        self.outputs: list[LogicalTensor] = []
        self.attrs: dict[str, AttrValue] = {}
        self.add_inputs(inputs).add_outputs(outputs)
        for attr, value in attrs.items():
            self.set_attr(attr, value)

    def add_input(self, tensor: LogicalTensor) -> Op:
        return self.add_inputs((tensor,))

    def add_inputs(self, tensors: Iterable[LogicalTensor]) -> Op:
        self.inputs += self._checked(tensors, "input", len(self.inputs))
        return self

    def add_output(self, tensor: LogicalTensor) -> Op:
        return self.add_outputs((tensor,))

    def add_outputs(self, tensors: Iterable[LogicalTensor]) -> Op:
        self.outputs += self._checked(tensors, "output", len(self.outputs))
        return self

    def set_attr(self, name: str, value: object) -> Op:
        """value: an integer, a number, a boolean, a string that is not empty, or a sequence of numbers. The graph checks its type."""
        self.attrs[name] = _attr_value(value, f"{self.described.label}: attribute '{name}'")
        return self

    @property
    def described(self) -> graph.Op:
        """The op as it is now, frozen, for a graph."""
        return graph.Op(self.id, self.kind, Attrs(self.attrs), tuple(self.inputs), tuple(self.outputs), self.name)

    def __repr__(self) -> str:
        return f"Op({self.id}, {self.kind!r}, inputs={self.inputs}, outputs={self.outputs}, {self.attrs})"

    def _checked(self, tensors: Iterable[LogicalTensor], side: str, begin: int) -> list[LogicalTensor]:
        given = list(tensors)
        for i, t in enumerate(given, begin):
            if not isinstance(t, LogicalTensor):
                fix = "give logical tensors; the data comes at execution"
                raise InvalidArguments(f"{side} {i} is a {type(t).__name__}", where=self.described.label, fix=fix)
        return given


def _attr_value(value: object, where: str) -> AttrValue:
    """The value for the graph: numpy's numbers become Python's, sequences tuples, of floats if one of them is."""
    if isinstance(value, str):
        if not value:
            raise InvalidArguments("the string is empty", where=where, fix="leave the attribute out to get its default")
        return value
    if not isinstance(value, Sequence) and hasattr(value, "tolist"):
        value = value.tolist()  # numpy arrays and scalars
    if isinstance(value, Sequence):
        if any(isinstance(v, bool) or not isinstance(v, Real) for v in value):
            raise InvalidArguments(f"the value is {value!r}", where=where, fix="a sequence holds integers or numbers")
        whole = all(isinstance(v, Integral) for v in value)
        return tuple(int(v) for v in value) if whole else tuple(float(v) for v in value)
    if isinstance(value, bool):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    fix = "use an integer, a number, a boolean, a string, or a sequence of numbers"
    raise InvalidArguments(f"the value is {value!r}", where=where, fix=fix)
