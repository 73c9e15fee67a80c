"""Runs one op on arrays: checked, run by the library in a chosen layout or by numpy, and written as requested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from benchgraph.core.errors import InvalidArguments, InvalidShape, Unimplemented, within
from benchgraph.core.layout import Layout
from benchgraph.core.tensor import LogicalTensor
from benchgraph.framework.counters import counters
from benchgraph.framework.fallback import fallback_compute
from benchgraph.framework.kernel import Kernel
from benchgraph.framework.kernel_cache import Signature, cached, compiled_for
from benchgraph.framework.memory_desc import MemoryDesc, describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.request import OpReq, outputs
from benchgraph.framework.shared_storage import default_engine
from benchgraph.framework.temp_space import Scope, temp_space
from benchgraph.graph.check import check_one
from benchgraph.graph.infer import infer_outputs
from benchgraph.graph.ir import Op
from benchgraph.library.engine import Engine
from benchgraph.library.partition import Partition


class Backend(Enum):
    """What runs an op. auto: the library, or numpy if it cannot; offload raises Unimplemented then."""

    auto = "auto"
    offload = "offload"
    fallback = "fallback"


def invoke(
    op: Op,
    inputs: Sequence[NDArray],
    dst: Sequence[NDArray],
    reqs: OpReq | Sequence[OpReq] = OpReq.write_to,
    *,
    backend: Backend = Backend.auto,
    layout: Layout | None = None,
    engine: Engine | None = None,
) -> None:
    """Run an op now. op: kind and attributes; its tensors are ignored, since the arrays describe them.

    layout: the library's layout for arrays of that rank; by default inputs as stored, outputs row-major. Raises the errors of the op's row,
    of requests and of memory, which name op and array, with every array unchanged.
    """
    requests = [reqs] * len(dst) if isinstance(reqs, OpReq) else list(reqs)
    if len(requests) != len(dst):
        fix = "give one request per output"
        raise InvalidArguments(f"{len(requests)} requests for {len(dst)} outputs", where=op.label, fix=fix)
    described = _described(op, inputs, dst)
    with temp_space().op(op.label) as scope:
        reason = "asked for"
        if backend is not Backend.fallback:
            try:
                _offload(described, inputs, dst, requests, scope, layout, engine or default_engine())
                counters().offloaded += 1
                return
            except Unimplemented as bad:
                if backend is Backend.offload:
                    raise
                reason = bad.what
        counters().fallbacks[op.label] = reason
        fallback_compute(described, inputs, dst, requests, scope)


def _described(op: Op, inputs: Sequence[NDArray], dst: Sequence[NDArray]) -> Op:
    """The op on tensors described by these arrays. Raises the errors of its row."""
    for role, arrays in (("input", inputs), ("output", dst)):
        for k, a in enumerate(arrays):
            if not isinstance(a, NDArray):
                what = f"{role} {k} is a {type(a).__name__}"
                raise InvalidArguments(what, where=op.label, fix="give an NDArray: NDArray.of copies, NDArray.over shares memory")
            a.live_store(op.label)  # raises if its memory is freed
    for a in inputs:
        a.readable_store(op.label)  # raises if its memory holds another array
    names = ", ".join(f"'{a.name}'" for a in (*inputs, *dst))
    ins = tuple(a.plain_desc.logical(i) for i, a in enumerate(inputs))
    declared = tuple(LogicalTensor(len(ins) + i, a.dtype) for i, a in enumerate(dst))
    made = replace(op, inputs=ins, outputs=declared)
    with within(f"arrays {names}"):
        check_one(made)
        inferred = infer_outputs(made, ins)
    for t, a in zip(inferred, dst, strict=True):
        if t.known_shape != a.shape:
            what = f"its shape is {a.shape}, the op makes {t.known_shape}"
            raise InvalidShape(what, where=a.where(op.label), fix="give an array of that shape")
    return replace(made, outputs=tuple(a.plain_desc.logical(len(ins) + i) for i, a in enumerate(dst)))


def _offload(
    op: Op, inputs: Sequence[NDArray], dst: Sequence[NDArray], reqs: Sequence[OpReq], scope: Scope, layout: Layout | None, engine: Engine
) -> None:
    ins = tuple(_input_desc(a, layout) for a in inputs)
    outs = tuple(_desc_in_layout(a, layout) for a in dst)
    parts = ("op", op.kind, op.attrs, compiled_for(engine), ins, outs)
    kernel = cached(Signature(parts), lambda: _compiled(op, ins, outs, engine))
    memories = [a.reordered(d, scope) for a, d in zip(inputs, ins, strict=True)]
    with outputs(dst, outs, reqs, scope, inputs, kernel.inplace) as written:
        kernel(memories, written, scope)


def _compiled(op: Op, ins: Sequence[MemoryDesc], outs: Sequence[MemoryDesc], engine: Engine) -> Kernel:
    partition = Partition(op)
    if not partition.is_supported:
        raise Unimplemented(partition.reason, where=op.label)
    given = [d.logical(t.id, t.property_type) for d, t in zip(ins, op.inputs, strict=True)]
    return Kernel(partition, given, [d.logical(t.id) for d, t in zip(outs, op.outputs, strict=True)], engine)


def _desc_in_layout(a: NDArray, layout: Layout | None) -> MemoryDesc:
    fits = layout is not None and layout.rank == len(a.shape) and not a.dtype.is_packed
    return describe(a.dtype, a.shape, layout) if fits else a.plain_desc


def _input_desc(a: NDArray, layout: Layout | None) -> MemoryDesc:
    """The requested layout if it fits, else row-major; without a request as stored, unless the array is a view or has other dims."""
    if layout is not None or a.is_view or a.desc.shape != a.shape:
        return _desc_in_layout(a, layout)
    return a.desc
