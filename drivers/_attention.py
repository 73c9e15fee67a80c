"""The graph of attention, as oneDNN Graph's patterns have it.

forward     p = softmax(q k * scale + mask), dst = p v; for training, with the statistics of the softmax
backward    p = exp(q k * scale + mask - statistics), dv = p^T d, ds = p (d v^T - sum(dst d)) * scale, dq = ds k^T, dk = q^T ds

Scores are f32 for narrower floats, and p is of the values' data type. Several heads of queries may share one of keys and values: the heads
are two dims then, groups and what is in them, and the second one is 1 for keys and values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape
from benchgraph.graph import Graph
from benchgraph.ops.spec import F
from benchgraph.options.problem import CannotExpress

from ._draft import Arg, Draft
from ._options import dtype_of

if TYPE_CHECKING:
    from .sdpa import Knobs


def build(knobs: Knobs, dst: Shape) -> Graph:
    """The graph of a problem whose shapes fit together. Raises CannotExpress."""
    return _Attention(knobs, dst).graph()


class _Attention:
    def __init__(self, knobs: Knobs, dst: Shape) -> None:
        self.knobs = knobs
        q, k, v = knobs.case.shapes
        self.groups = k[-3] if len(k) > 2 and k[-3] != q[-3] else 0  # 0: each head has its own keys
        types = [dtype_of(name) for name in knobs.dt.of(4)]
        tags = ((knobs.qtag, "--qtag"), (knobs.ktag, "--ktag"), (knobs.vtag, "--vtag"), (knobs.dtag, "--dtag"))
        names = ("src", "wei", "wei", "dst")
        self.q, self.k, self.v, self.dst = (
            self._apart(Arg(name, shape, dtype, *tag, channels=len(q) - 1))
            for name, shape, dtype, tag in zip(names, (q, k, v, dst), types, tags, strict=True)
        )
        self.d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)

    def graph(self) -> Graph:
        if self.knobs.dir == "BWD_D":
            self.d.no_post_ops(self.knobs.attr_post_ops)
            self._backward()
        else:
            self._forward()
        return self.d.graph()

    def _apart(self, arg: Arg) -> Arg:
        """With the dim of heads as two, if heads share keys."""
        if not self.groups:
            return arg
        inside = arg.shape[-3] // self.groups
        *outer, head, row, column = arg.strides
        shape = (*arg.shape[:-3], self.groups, inside, *arg.shape[-2:])
        return replace(arg, shape=shape, given=(*outer, inside * head, head, row, column), channels=arg.channels + 1)

    def _forward(self) -> None:
        d, mode = self.d, "none" if self.knobs.mask == "none" else "inf_as_zero"  # where a mask hides a whole row
        scores, _ = self._scores(d.read(self.q), d.read(self.k))
        v = d.read(self.v)
        if self.knobs.dir == "FWD_D":
            p, _ = d.b.outs("SoftMax", scores, dtypes=(v.dtype, DType.f32), axis=-1, mode=mode)
        else:
            p = d.b.op("SoftMax", scores, dtype=v.dtype, axis=-1, mode=mode)
        t = d.b.op("MatMul", p, v, dtype=v.dtype if self.dst.dtype is v.dtype else DType.f32)
        d.write(d.post_ops(t, self.knobs.attr_post_ops, self.dst), self.dst)

    def _backward(self) -> None:
        d, op = self.d, self.d.b.op
        q, k, v, dst, diff_dst = d.alike(*(d.read(arg) for arg in (self.q, self.k, self.v, self.dst, replace(self.dst, name="diff_dst"))))
        scores, scale = self._scores(q, k)
        statistics = d.b.input((*scores.known_shape[:-1], 1))
        p = op("Exp", op("Subtract", scores, statistics))
        self._gradient(self.v, d.cast(p, v.dtype), diff_dst, transpose_a=True)
        diff_p = op("MatMul", diff_dst, v, dtype=DType.f32, transpose_b=True)
        correction = op("ReduceSum", op("Multiply", dst, diff_dst, dtype=DType.f32), axes=(-1,), keep_dims=True)
        diff_scores = self._scaled(op("Multiply", p, op("Subtract", diff_p, correction)), scale)
        diff_scores = d.cast(diff_scores, q.dtype)
        self._gradient(self.q, diff_scores, k, transpose_b=True)
        self._gradient(self.k, q, diff_scores, transpose_a=True)

    def _gradient(self, arg: Arg, a: LogicalTensor, b: LogicalTensor, *, transpose_a: bool = False, transpose_b: bool = False) -> None:
        """A product, summed over the heads that share the argument, as its gradient."""
        is_shared = arg.shape[-3:-2] != self.q.shape[-3:-2]
        dtype = arg.dtype if arg.dtype is a.dtype and not is_shared else DType.f32
        t = self.d.b.op("MatMul", a, b, dtype=dtype, transpose_a=transpose_a, transpose_b=transpose_b)
        if is_shared:
            t = self.d.b.op("ReduceSum", t, axes=(-3,), keep_dims=True)
        self.d.write(t, replace(arg, name=f"diff_{arg.name}"))

    def _scores(self, q: LogicalTensor, k: LogicalTensor) -> tuple[LogicalTensor, LogicalTensor]:
        """The scores with scale and mask, and the scale."""
        b, mask = self.d.b, self.knobs.mask
        scores = b.op("MatMul", *self.d.alike(q, k), dtype=DType.f32)
        scale = b.constant((1,)) if self.knobs.scale == "none" else b.input((1,))
        scores = self._scaled(scores, scale)
        if mask.startswith("buffer"):
            return b.op("Add", scores, self._mask(scores.known_shape), dtype=DType.f32), scale
        if mask.startswith("causal"):
            rows = b.op("GenIndex", scores, axis=-2)
            if mask == "causal_bottom_right":
                keys, queries = (b.input((), DType.s32, property_type=PropertyType.host_scalar) for _ in range(2))
                rows = b.op("Subtract", b.op("Add", rows, keys), queries)
            is_seen = b.op("GreaterEqual", rows, b.op("GenIndex", scores, axis=-1))
            scores = b.op("Select", is_seen, scores, b.input((1,)))
        return scores, scale

    def _scaled(self, t: LogicalTensor, scale: LogicalTensor) -> LogicalTensor:
        return self.d.b.op("Divide" if self.knobs.scale == "div" else "Multiply", t, scale)

    def _mask(self, scores: Shape) -> LogicalTensor:
        """What is added to the scores: for all of them, or the same for all heads, or for all queries too."""
        dtype = dtype_of(self.knobs.mdt)
        if dtype not in F:
            raise CannotExpress(f"no op adds a mask of {dtype.value}", where=f"--mdt={dtype.value}", fix="use f32, bf16 or f16")
        same = {"buffer": 0, "buffer_2d": len(scores) - 2, "buffer_1d": len(scores) - 1}[self.knobs.mask]
        return self.d.b.input((*(1,) * same, *scores[same:]), dtype)
