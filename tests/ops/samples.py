"""Samples of ops as data and graphs, and how their results are compared with the reference."""

from __future__ import annotations

import numpy as np

from benchgraph.core.arrays import pack
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, dense_strides
from benchgraph.graph.build import sample_graph
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import call_of
from benchgraph.ops.laws import near
from benchgraph.ops.spec import Array, Call, OpSpec, Sample

F32_EPS = DType.f32.eps


def filled(row: OpSpec, call: Call, seed: int = 1) -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)
    return tuple(row.testing.domain(call, port, rng) for port in range(len(call.ins)))


def stored(arrays: tuple[Array, ...], call: Call) -> list[Array]:
    """Inputs in the ports' dtypes, s4 and u4 packed, as a library gets them."""
    typed = [a.astype(t.dtype.numpy, order="C") for a, t in zip(arrays, call.ins, strict=True)]
    return [pack(a, t.dtype, dense_strides(t.shape)) if t.dtype.is_packed else a for a, t in zip(typed, call.ins, strict=True)]


def as_reference(a: Array, dtype: DType) -> Array:
    return a.astype(np.float64) if dtype.is_float else a


def tolerance(row: OpSpec, call: Call, port: int = 0) -> float:
    """The threshold in f32, and half a step of a narrower dst."""
    dtype = call.outs[port].dtype
    return row.semantics.threshold(call) * F32_EPS + (dtype.eps if dtype is not DType.f32 else 0.0)


def graph_of(row: OpSpec, sample: Sample) -> Graph:
    """The sample as a graph of one op; internal ops are not checked."""
    if not row.is_internal:
        return sample_graph(row, sample)
    call = call_of(row.kind, sample)
    tensors = [LogicalTensor(i, t.dtype, t.shape, dense_strides(t.shape)) for i, t in enumerate((*call.ins, *call.outs))]
    ins, outs = tuple(tensors[: len(call.ins)]), tuple(tensors[len(call.ins) :])
    return Graph((Op(0, row.kind, call.attrs, ins, outs),))


def agrees(got: Array, want: Array, row: OpSpec, call: Call, port: int = 0) -> bool:
    """Within tolerance; integers rounded from floats may differ by one step, at ties."""
    dtype = call.outs[port].dtype
    if dtype.is_integer and any(t.dtype.is_float for t in call.ins):
        return bool(np.all(np.abs(got.astype(np.int64) - want.astype(np.int64)) <= 1))
    return near(got, want, tolerance(row, call, port))
