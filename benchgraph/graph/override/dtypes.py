"""Other dtypes (--dt, for the whole graph or by tensor), tensor properties (--tensor-property) and math mode (--attr-fpmath)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchgraph import ops
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, InvalidDataType, did_you_mean
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import FPMATH_MODES
from benchgraph.ops.spec import F, port_of


def with_dtype(graph: Graph, dtype: DType) -> Graph:
    """The graph in another float type; undef keeps it as it is.

    Every f32, bf16 and f16 tensor changes, except host scalars and tensors at a port that does not accept all three (statistics and
    parameters of norms, the statistics of SoftMax). Integers and booleans stay. Raises InvalidArguments for a graph with explicit
    conversions.
    """
    if dtype is DType.undef:
        return graph
    if dtype not in F:
        raise InvalidArguments(f"{dtype.value} for the whole graph", fix=f"use {', '.join(d.value for d in F)}, or set tensors one by one")
    converting = next((op for op in graph.ops if ops.spec(op.kind).semantics.is_conversion), None)
    if converting is not None:
        raise InvalidArguments("it converts between dtypes", where=converting.label, fix="set tensors one by one, as in --dt=0:bf16+3:bf16")
    fixed = {t.id for op in graph.ops for t, is_open in _uses(op.kind, op.inputs, op.outputs) if not is_open}
    changed = [t.id for t in graph.tensors.values() if t.dtype in F and t.id not in fixed and not t.is_host_scalar]
    return _retyped(graph, dict.fromkeys(changed, dtype))


def with_dtypes(graph: Graph, dtypes: Mapping[int, DType]) -> Graph:
    """The graph with other dtypes for these tensors, by id. Raises the errors of the op table."""
    for id, dtype in dtypes.items():
        graph.check_has(id)
        if dtype is DType.undef:
            raise InvalidDataType("dtype undef", where=f"tensor {id}", fix="name a dtype, or leave the tensor out")
    return _retyped(graph, dtypes)


def _uses(kind: str, ins: tuple[LogicalTensor, ...], outs: tuple[LogicalTensor, ...]) -> list[tuple[LogicalTensor, bool]]:
    """Each tensor of an op, and whether its port accepts every float type."""
    row = ops.spec(kind)
    ports = [(port_of(side, i), t) for side, ts in ((row.schema.inputs, ins), (row.schema.outputs, outs)) for i, t in enumerate(ts)]
    return [(t, set(F) <= set(row.schema.types.get(port.type) or F)) for port, t in ports]


def _retyped(graph: Graph, dtypes: Mapping[int, DType]) -> Graph:
    """The graph with these dtypes at every use of the tensors."""
    return graph.mapped(lambda t: replace(t, dtype=dtypes.get(t.id, t.dtype)))


def with_properties(graph: Graph, properties: Mapping[int, PropertyType]) -> Graph:
    """The graph with these tensors variable, constant or host scalars, by id, at every occurrence.

    Raises InvalidArguments for an id that does not exist and for a host scalar that is no single number.
    """
    for id in properties:
        graph.check_has(id)
    return graph.mapped(lambda t: replace(t, property_type=properties.get(t.id, t.property_type)))


def with_fpmath(graph: Graph, mode: str, apply_to_int: bool = False) -> Graph:
    """The graph with another math mode. Raises InvalidArguments for an unknown one."""
    if mode not in FPMATH_MODES:
        raise InvalidArguments(f"unknown mode '{mode}'", fix=did_you_mean(mode, FPMATH_MODES) or f"choose one of {', '.join(FPMATH_MODES)}")
    return replace(graph, fpmath_mode=mode, fpmath_apply_to_int=apply_to_int)
