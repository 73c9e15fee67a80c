"""The batch size (--mb), and which inputs have a batch dim."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph import ops
from benchgraph.core.errors import InvalidArguments, InvalidShape
from benchgraph.core.tensor import TensorType
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.override.draft import Draft, inferred, settle, target_attr
from benchgraph.graph.override.layout import resized
from benchgraph.ops.spec import Contraction, OpSpec, Role


def with_batch(graph: Graph, mb: int) -> Graph:
    """The graph at another batch size; 0, or the present one, changes nothing.

    Dim 0 of every input that carries the batch becomes mb, and all other shapes are inferred again. An input carries the batch if on no
    path from it an operand has another meaning of dim 0 (`_flow`). Its strides stay, unless dim 0 is not the outermost one in memory; then,
    as for inferred shapes, they become dense in the old order of axes. A reshape to a fixed shape whose volume no longer fits gets its dim
    0 scaled like the volume (a dim 0 that is the batch becomes mb).

    Raises InvalidArguments if no input carries a batch, InvalidShape if the new shapes do not fit together.
    """
    return settle(set_batch(Draft(graph), mb))


def set_batch(draft: Draft, mb: int) -> Draft:
    """The draft with dim 0 set for every input that carries the batch in the original graph. Other changes of shapes are kept."""
    if mb < 0:
        raise InvalidArguments(f"the batch size is {mb}", fix="give a positive number, or 0 to keep the graph's own")
    if mb == 0:
        return draft
    known = inferred(draft.graph) or settle(draft)
    carrying = _carrying(known)
    tensors = [draft.inputs.get(t.id, t) for t in known.inputs if carrying[t.id]]
    chosen = {t.id: resized(t, (mb, *t.known_shape[1:])) for t in tensors if t.known_shape}
    if not chosen:
        raise InvalidArguments("no graph input carries a batch in dim 0", fix="leave --mb out for this graph")
    return replace(draft, inputs={**draft.inputs, **chosen}, mb=mb)


@dataclass(frozen=True)
class _Flow:
    """ports: inputs of an op through which the batch may pass in dim 0. outputs: those whose dim 0 is then the batch."""

    ports: tuple[int, ...]
    outputs: tuple[int, ...]


def _carrying(graph: Graph) -> dict[int, bool]:
    """Tensor id -> whether every use of it, and of what is computed from it, accepts its dim 0 as the batch."""
    flows: dict[int, _Flow] = {}
    batched = {t.id for t in graph.inputs}  # according to the ops so far
    for op in graph.order:
        flows[op.id] = _flow(graph, op, batched)
        batched |= {op.outputs[i].id for i in flows[op.id].outputs}
    carries: dict[int, bool] = {}
    for op in reversed(graph.order):
        flow = flows[op.id]
        onward = all(carries.get(op.outputs[i].id, True) for i in flow.outputs)
        for port, t in enumerate(op.inputs):
            carries[t.id] = carries.get(t.id, True) and onward and port in flow.ports
    return carries


def _flow(graph: Graph, op: Op, batched: set[int]) -> _Flow:
    """Infer shapes with dim 0 of possible batch operands doubled, and see which outputs follow. No ports if any other dim does."""
    row = ops.spec(op.kind)
    ports = tuple(p for p, t in enumerate(op.inputs) if t.id in batched and _may_carry(graph, row, op, p))
    new = [TensorType(t.dtype, (2 * t.known_shape[0] or 2, *t.known_shape[1:])) if p in ports else t.type for p, t in enumerate(op.inputs)]
    try:
        shapes = row.semantics.infer(op.full_attrs, tuple(new))
    except InvalidShape:
        return _Flow(ports, (0,)) if target_attr(row) else _Flow((), ())
    followers = []
    for i, (t, shape) in enumerate(zip(op.outputs, shapes, strict=False)):
        if len(shape) != len(t.known_shape) or shape[1:] != t.known_shape[1:]:
            return _Flow((), ())
        if shape != t.known_shape:
            followers.append(i)
    return _Flow(ports, tuple(followers))


def _may_carry(graph: Graph, row: OpSpec, op: Op, port: int) -> bool:
    """Whether dim 0 of this operand corresponds to dim 0 of the output (or, for row and layout ops, of the first operand).

    Gradients of rows have the first operand's shape too; statistics have its leading dims. An operand whose dim 0 is 1 broadcasts, unless
    it is a batch of 1: of the first operand, of a computed one, or of one with the output's shape.
    """
    t = op.inputs[port]
    if not t.known_shape:
        return False
    if row.lowering.role not in (Role.anchor, Role.pointwise) and row.schema.variadic_inputs is None:
        return t.known_shape == op.inputs[0].known_shape[: len(t.known_shape)]
    if not op.outputs:
        return True
    out = op.outputs[0].known_shape
    aligned = len(t.known_shape) == len(out) and t.known_shape[0] == out[0]
    if isinstance(row.lowering.form, Contraction) and port == 1:
        return aligned and len(out) > 2 and not (t.is_constant and out[0] == 1)
    has_its_shape = t.known_shape == out and len(out) > 2 and not t.is_constant
    return aligned and (out[0] != 1 or port == 0 or t.id in graph.producers or has_its_shape)
