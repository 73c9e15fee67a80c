"""A Decomposer that computes: every op appended is evaluated at once, in float64, by its own row's reference."""

from __future__ import annotations

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Array, Call

NONE = Attrs()


class Evaluator:
    """Implements ops.spec.Decomposer. kinds: what was appended, in order."""

    def __init__(self) -> None:
        self.types: list[TensorType] = []
        self.arrays: list[Array] = []
        self.kinds: list[str] = []

    def put(self, type: TensorType, array: Array) -> int:
        assert array.shape == type.shape
        self.types.append(type)
        self.arrays.append(array)
        return len(self.arrays) - 1

    def op(self, kind: str, *ins: int, attrs: Attrs = NONE, shape: Shape | None = None, dtype: DType | None = None) -> int:
        row, full = spec(kind), with_defaults(kind, attrs)
        types = tuple(self.types[v] for v in ins)
        out = TensorType(dtype or types[0].dtype, row.semantics.infer(full, types)[0] if shape is None else shape)
        call = Call(kind, full, types, (out,))
        assert row.lowering.decompose is None or (row.lowering.is_canonical is not None and row.lowering.is_canonical(call)), (
            f"{kind} is not a basic op"
        )
        self.kinds.append(kind)
        with np.errstate(all="ignore"):
            return self.put(out, row.semantics.reference(call, tuple(self.arrays[v] for v in ins))[0])

    def const(self, value: Array | float, dtype: DType = DType.f32) -> int:
        array = np.asarray(value).astype(dtype.numpy)
        return self.put(TensorType(dtype, array.shape), array.astype(np.float64) if dtype.is_float else array)

    def type(self, value: int) -> TensorType:
        return self.types[value]


def evaluate(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], tuple[TensorType, ...], list[str]]:
    """The outputs of a decomposed call, their types, and the kinds it was decomposed into."""
    d = Evaluator()
    values = tuple(d.put(t, a) for t, a in zip(call.ins, ins, strict=True))
    decompose = spec(call.kind).lowering.decompose
    assert decompose is not None
    outs = decompose(d, call, values)
    return tuple(d.arrays[v] for v in outs), tuple(d.types[v] for v in outs), d.kinds
