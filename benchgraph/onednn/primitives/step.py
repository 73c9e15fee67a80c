"""A step of the plan, and how the tensors of its ops become operands of primitives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape, dense_strides
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.messages import Attributes, Operand, View
from benchgraph.onednn.table import DTYPES, FPMATH_MODES, Version

_S8 = DTYPES["s8"].code


class NoPrimitive(Exception):
    """No primitive computes this; the text says why."""


@dataclass(frozen=True)
class Target:
    """What primitives are made for: oneDNN's version, and the graph's math mode. multiplies_u8: whether it has an optimised product of u8
    weights; most versions have one of s8 weights alone.
    """

    version: Version
    fpmath_mode: str = "strict"
    fpmath_apply_to_int: bool | None = None
    multiplies_u8: bool = True

    @property
    def attributes(self) -> Attributes:
        return Attributes(FPMATH_MODES[self.fpmath_mode].code, self.fpmath_apply_to_int)


@dataclass(frozen=True)
class Step:
    """Ops that are executed together: an anchor, conversions of its operands, and what follows it in place.

    folded: tensor id -> the conversions that make this tensor from one in memory, the last one first. post_ops: in order; each takes the
    result of the one before. reason: why numpy executes the step; '' if oneDNN does.
    """

    anchor: Op
    post_ops: tuple[Op, ...] = ()
    folded: dict[int, tuple[Op, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def ops(self) -> tuple[Op, ...]:
        """In topological order."""
        before = {op.id: op for chain in self.folded.values() for op in reversed(chain)}
        return (*before.values(), self.anchor, *self.post_ops)

    @property
    def running(self) -> frozenset[int]:
        """Ids of the results of the anchor and its post-ops."""
        return frozenset(t.id for op in (self.anchor, *self.post_ops) for t in op.outputs)

    @property
    def dst(self) -> LogicalTensor:
        return (self.post_ops or (self.anchor,))[-1].outputs[0]

    def stored(self, t: LogicalTensor) -> LogicalTensor:
        """The tensor in memory from which an operand is made."""
        chain = self.folded.get(t.id)
        return chain[-1].inputs[0] if chain else t

    def in_numpy(self, reason: str) -> Step:
        return replace(self, reason=reason)


# ---- views -----------------------------------------------------------------------------------------------------------


def dtype_code(dtype: DType) -> int:
    """oneDNN's number. Booleans are bytes for primitives. Raises NoPrimitive for what primitives do not have."""
    if dtype is DType.boolean:
        return _S8
    if dtype.is_packed or dtype.value not in DTYPES:
        raise NoPrimitive(f"primitives are not given {dtype.value} tensors")
    return DTYPES[dtype.value].code


def view(t: LogicalTensor) -> View:
    """The tensor as it is; a single number has one dim."""
    if not t.known_shape:
        return View((1,), (1,), dtype_code(t.dtype), (0,))
    return View(t.known_shape, t.known_strides, dtype_code(t.dtype), tuple(range(len(t.known_shape))))


def permuted(t: LogicalTensor, order: Shape) -> View:
    """With dim order[i] of the tensor as dim i."""
    v = view(t)
    return View(tuple(v.dims[i] for i in order), tuple(v.strides[i] for i in order), v.dtype, order)


def reshaped(t: LogicalTensor, dims: Shape) -> View:
    """A dense tensor with other dims. Raises NoPrimitive for one that is not dense."""
    if not is_dense(t):
        raise NoPrimitive(f"tensor {t.id} has strides, and would need a copy to be reshaped")
    return View(dims, dense_strides(dims), dtype_code(t.dtype), None)


def is_dense(t: LogicalTensor) -> bool:
    dense = dense_strides(t.known_shape)
    return all(d == 1 or s == want for d, s, want in zip(t.known_shape, t.known_strides, dense, strict=True))


def broadcast(t: LogicalTensor, rank: int, order: Shape | None = None) -> View:
    """With dims of 1 before its own, as numpy broadcasts; then permuted. Raises NoPrimitive for a rank above."""
    v, more = view(t), rank - len(t.known_shape)
    if more < 0:
        raise NoPrimitive(f"tensor {t.id} has more dims than what it is combined with")
    order = order or tuple(range(rank))
    if not more:
        return permuted(t, order) if rank else v
    own = with_leading(v, rank)
    return replace(own, dims=tuple(own.dims[i] for i in order), strides=tuple(own.strides[i] for i in order))


def with_leading(v: View, rank: int) -> View:
    """The view with dims of 1 before its own, whose stride is that of a dense tensor: gemm refuses a shorter one."""
    more = rank - len(v.dims)
    stride = v.dims[0] * v.strides[0] if v.dims else 1
    return View((1,) * more + v.dims, (stride,) * more + v.strides, v.dtype, v.order if not more else None)


def operand(arg: int, t: LogicalTensor, v: View | None = None, *, is_free: bool = False) -> Operand:
    return Operand(arg, t.id, v or view(t), is_free)


def temporary(op: Op, n: int) -> int:
    """The id of a value that a step makes for itself."""
    return -(16 * op.id + n + 1)


def made(arg: int, value: int, dims: Shape, dtype: DType) -> Operand:
    """A temporary as an operand, dense."""
    return Operand(arg, value, View(dims, dense_strides(dims), dtype_code(dtype), tuple(range(len(dims)))))
