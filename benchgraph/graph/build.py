"""Builds graphs in Python: callers connect ops and tensors; ids, shapes and dtypes follow from the op table.

b = GraphBuilder()
x, w = b.input((128, 13)), b.constant((13, 512))
y = b.op("ReLU", b.op("MatMul", x, w))
graph = b.graph()
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from benchgraph import ops
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidDataType, InvalidGraphOp, within
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape, dense_strides
from benchgraph.graph.check import validate
from benchgraph.graph.infer import infer_outputs
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.ops.spec import OpSpec, Sample, port_of


class GraphBuilder:
    """Collects ops; tensors and ops are numbered from 0 in the order they are made."""

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._makers: dict[int, Op] = {}
        self._tensors = 0

    def input(
        self, shape: Shape, dtype: DType = DType.f32, *, strides: Shape | None = None, property_type: PropertyType = PropertyType.variable
    ) -> LogicalTensor:
        """A graph input; row-major unless strides (in elements) are given."""
        t = LogicalTensor(self._tensors, dtype, shape, strides or dense_strides(shape), property_type=property_type)
        self._tensors += 1
        return t

    def constant(self, shape: Shape, dtype: DType = DType.f32, *, strides: Shape | None = None) -> LogicalTensor:
        """An input with the same data in every execution: weights, biases."""
        return self.input(shape, dtype, strides=strides, property_type=PropertyType.constant)

    def op(self, kind: str, *ins: LogicalTensor, dtype: DType | None = None, name: str = "", **attrs: object) -> LogicalTensor:
        """Append an op and return its (first) output. dtype: of that output; by default inferred, or the first input's."""
        return self.outs(kind, *ins, dtypes=(dtype,), name=name, **attrs)[0]

    def outs(
        self, kind: str, *ins: LogicalTensor, dtypes: tuple[DType | None, ...] = (None,), name: str = "", **attrs: object
    ) -> tuple[LogicalTensor, ...]:
        """Append an op with one output per entry of dtypes (None: as in `op`) and return its outputs.

        Raises the errors of the op's row, naming the op.
        """
        return self.append(kind, ins, Attrs(attrs), dtypes, name)

    def append(
        self,
        kind: str,
        ins: tuple[LogicalTensor, ...],
        attrs: Attrs,
        dtypes: tuple[DType | None, ...] = (None,),
        name: str = "",
        shapes: tuple[Shape, ...] = (),
    ) -> tuple[LogicalTensor, ...]:
        """`outs` with the attributes as one value. shapes: of the outputs, for an op whose row does not infer them."""
        bare = Op(len(self._ops), kind, attrs, ins, name=name)
        with within(bare.label):
            row = ops.spec(kind)
            chosen = tuple(dtype or _inferred_dtype(row, ins, i) for i, dtype in enumerate(dtypes))
            ops.check_op(kind, attrs, tuple((t.dtype, t.shape) for t in ins), chosen)
        given = shapes or (None,) * len(chosen)
        declared = tuple(LogicalTensor(self._tensors + i, dtype, shape) for i, (dtype, shape) in enumerate(zip(chosen, given, strict=True)))
        inferred = [t.known_shape for t in infer_outputs(replace(bare, outputs=declared), ins)]
        outs = tuple(t.with_shape(shape, dense_strides(shape)) for t, shape in zip(declared, inferred, strict=True))
        self._tensors += len(outs)
        self._ops.append(replace(bare, outputs=outs))
        self._makers |= dict.fromkeys((t.id for t in outs), self._ops[-1])
        return outs

    @property
    def count(self) -> int:
        """The number of ops so far."""
        return len(self._ops)

    def drop(self, count: int) -> None:
        """Take back all ops but the first `count`. Tensor ids are not used again."""
        del self._ops[count:]

    def maker(self, t: LogicalTensor) -> Op | None:
        """The op that makes a tensor; None of an input."""
        return self._makers.get(t.id)

    def drop_unread(self, results: Collection[int]) -> None:
        """Take back ops that make nothing that other ops or these results need."""
        needed, kept = set(results), list[Op]()
        for op in reversed(self._ops):
            if not op.outputs or any(t.id in needed for t in op.outputs):
                needed |= {t.id for t in op.inputs}
                kept.append(op)
        self._ops = kept[::-1]

    def end(self, t: LogicalTensor) -> None:
        """Mark a tensor as an output of the graph although an op reads it."""
        self.append(END, (t,), Attrs(), ())

    def graph(self) -> Graph:
        """The graph so far. Raises InvalidGraphOp if there is no op."""
        if not self._ops:
            raise InvalidGraphOp("the graph has no op", fix="append one with `op` first")
        return validate(Graph(tuple(self._ops)))


def sample_graph(spec: OpSpec, sample: Sample) -> Graph:
    """A row's sample as a graph of one op."""
    call = ops.call_of(spec.kind, sample)
    b = GraphBuilder()
    ins = tuple(b.input(t.shape, t.dtype) for t in call.ins)
    b.append(spec.kind, ins, sample.attrs, tuple(t.dtype for t in call.outs))
    return b.graph()


def _inferred_dtype(row: OpSpec, ins: tuple[LogicalTensor, ...], i: int) -> DType:
    """The dtype of output i: that of an input with the same type variable, else the only one allowed, else the first input's."""
    variable = port_of(row.schema.outputs, i).type if row.schema.outputs else ""
    allowed = row.schema.types.get(variable, ())
    for n, t in enumerate(ins):
        if row.schema.inputs and port_of(row.schema.inputs, n).type == variable:
            return t.dtype
    if len(allowed) == 1:
        return allowed[0]
    if ins and (not allowed or ins[0].dtype in allowed):
        return ins[0].dtype
    raise InvalidDataType(f"the dtype of output {i} does not follow from the inputs", fix="give it: dtype=...")
