"""Problems as graphs: arguments are read into what the ops compute with, results written as the problem asks.

read     f32, bf16, f16 as they are   u8, s8, f8 -> Dequantize   u4, s4 -> DynamicDequantize
write    the same dtype: nothing      floats -> TypeCast         u8, s8, f8 -> Quantize
"""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape, dense_strides
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.harness.problem import CannotExpress
from benchgraph.ops.spec import F

from ._algs import BINARY_NAMES, ELTWISE_NAMES, Numbers, binary, eltwise
from ._attrs import PostOp, PostOps, Quantisation, masked
from ._layout import PLAIN, strides_of
from ._options import Colons

QUANTISED = (DType.u8, DType.s8, DType.f8_e4m3, DType.f8_e5m2)
PER_OC_SCALES = (0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Arg:
    """An argument of a primitive. name: benchdnn's, as in --attr-scales. channels: the dim of per_oc.

    tag, and the option that said it; given: strides, where a tag cannot say them.
    """

    name: str
    shape: Shape
    dtype: DType
    tag: str = "any"
    option: str = "--tag"
    channels: int = 1
    given: Shape | None = None

    @property
    def is_free(self) -> bool:
        """The library may choose the layout: weights then count as constant, and are packed once."""
        return self.tag in PLAIN

    @property
    def strides(self) -> Shape:
        return strides_of(self.tag, self.shape, self.option) if self.given is None else self.given


def src_dst(dt: Colons, sdt: str, ddt: str) -> tuple[DType, DType]:
    """What --sdt and --ddt say, or else --dt."""
    src, dst = dt.of(2)
    return DType(sdt or src), DType(ddt or dst)


class Draft:
    """A graph in the making. b: the builder, for what the driver adds itself."""

    def __init__(self, scales: Quantisation | None = None, zero_points: Quantisation | None = None) -> None:
        self.b = GraphBuilder()
        self._scales, self._zero_points = scales or Quantisation(), zero_points or Quantisation()
        self._strides: dict[int, Shape] = {}

    def read(self, arg: Arg, *, constant: bool = False, as_it_is: tuple[DType, ...] = ()) -> LogicalTensor:
        """An input, as a float or boolean to compute with, or of a dtype in as_it_is.

        Raises CannotExpress for a dtype or scale that no op reads.
        """
        kind = PropertyType.constant if constant else PropertyType.variable
        t = self.b.input(arg.shape, arg.dtype, strides=arg.strides, property_type=kind)
        if arg.dtype in QUANTISED:
            return self.b.append("Dequantize", (t,), self._quantisation(arg), (DType.f32,))[0]
        self._refuse_scales(arg)
        if arg.dtype.is_packed:
            return self.b.op("DynamicDequantize", t, self.b.constant((1,)), dtype=DType.f32, qtype="per_tensor")
        if arg.dtype not in (*F, DType.boolean, *as_it_is):
            raise CannotExpress(f"no op reads {arg.dtype.value} {arg.name} as numbers", fix="use f32, bf16, f16, u8, s8, u4, s4 or f8")
        return t

    def write(self, t: LogicalTensor, arg: Arg) -> None:
        """Make this value a result of the argument's dtype and layout. Raises CannotExpress for a dtype or scale that no op writes."""
        if arg.dtype in QUANTISED:
            (t,) = self.b.append("Quantize", (self.cast(t, DType.f32),), self._quantisation(arg), (arg.dtype,))
        else:
            self._refuse_scales(arg)
            t = self.cast(t, arg.dtype)
        if arg.strides != dense_strides(arg.shape):
            self._strides[t.id] = arg.strides

    def cast(self, t: LogicalTensor, dtype: DType) -> LogicalTensor:
        """Between floats; bf16 and f16 meet in f32."""
        if t.dtype is dtype:
            return t
        if t.dtype not in F or dtype not in F:
            raise CannotExpress(f"no op makes {dtype.value} of {t.dtype.value}", fix="give another dtype to the result")
        if DType.f32 not in (t.dtype, dtype):
            t = self.b.op("TypeCast", t, dtype=DType.f32)
        return self.b.op("TypeCast", t, dtype=dtype)

    def alike(self, *ts: LogicalTensor, result: DType | None = None) -> tuple[LogicalTensor, ...]:
        """Values of one dtype for an op that wants that: their own, if it is also that of the result, else f32, which loses nothing."""
        dtypes = {t.dtype for t in ts} | ({result} if result else set())
        return ts if len(dtypes) == 1 else tuple(self.cast(t, DType.f32) for t in ts)

    def no_post_ops(self, post_ops: PostOps, forward: str = "FWD_D") -> None:
        """Raise CannotExpress for post-ops of a gradient. forward: the direction that has them."""
        if post_ops.ops:
            fix = f"leave them out, or use --dir={forward}"
            raise CannotExpress("post-ops after a gradient", where="--attr-post-ops", fix=fix)

    def post_ops(self, t: LogicalTensor, post_ops: PostOps, dst: Arg) -> LogicalTensor:
        """The value with the post-ops applied in order. Raises CannotExpress."""
        for op in post_ops.ops:
            t = self._post_op(t, op, dst)
        return t

    def graph(self) -> Graph:
        graph = self.b.graph()
        return graph.with_tensors({id: graph.tensors[id].with_shape(graph.tensors[id].known_shape, s) for id, s in self._strides.items()})

    def _quantisation(self, arg: Arg) -> Attrs:
        """Attributes of Quantize and Dequantize."""
        (policy, scale), (_, zero_point) = self._scales.of(arg.name), self._zero_points.of(arg.name)
        if zero_point and arg.dtype.is_float:
            raise CannotExpress(f"{arg.dtype.value} has no zero point", where="--attr-zero-points", fix="leave it out")
        if policy == "common":
            attrs = Attrs(qtype="per_tensor", scales=(float(scale or 1),))
        else:
            channels = range(arg.shape[arg.channels])
            attrs = Attrs(qtype="per_channel", axis=arg.channels, scales=tuple(PER_OC_SCALES[i % len(PER_OC_SCALES)] for i in channels))
        return attrs.updated(zps=(int(zero_point),) * len(attrs.reals("scales"))) if zero_point else attrs

    def _refuse_scales(self, arg: Arg) -> None:
        given = self._scales.of(arg.name)[1] or self._scales.of(arg.name)[0] != "common" or self._zero_points.of(arg.name)[1]
        if given:
            what = f"no op scales {arg.dtype.value} {arg.name} by an attribute"
            raise CannotExpress(what, where="--attr-scales, --attr-zero-points", fix="give it a quantised dtype, such as s8")

    def _post_op(self, t: LogicalTensor, op: PostOp, dst: Arg) -> LogicalTensor:
        where = f"--attr-post-ops={op}"
        try:
            if op.name in ELTWISE_NAMES:
                return self._eltwise(t, op)
            if op.name in BINARY_NAMES:
                tag = op.arg(2, dst.tag)
                operand = Arg("post-op", masked(op.arg(1, "common"), dst.shape, dst.channels), DType(op.args[0]), tag, where)
                return self._joined(op.name, t, operand)
            if op.name == "prelu":
                return self._prelu(t, op, dst)
            if op.name == "sum" and float(op.arg(0, "1")) == 1 and int(op.arg(1, "0")) == 0:
                before = Arg("dst before", dst.shape, DType(op.arg(2, dst.dtype.value)), dst.tag, dst.option)
                return self._joined("add", t, before)
        except CannotExpress as bad:
            raise bad.inside(where) from bad
        lacks = "a convolution" if op.name == "dw" else "a scale or zero point"
        raise CannotExpress(f"a post-op with {lacks} of its own", where=where, fix="leave it out")

    def _eltwise(self, t: LogicalTensor, op: PostOp) -> LogicalTensor:
        numbers = Numbers(float(op.arg(0, "0")), float(op.arg(1, "0")))
        if float(op.arg(2, "1")) != 1:
            raise CannotExpress("no op scales a result by an attribute", fix="leave the scale out")
        return eltwise(op.name, numbers).forward(self.b, t, numbers)

    def _joined(self, name: str, t: LogicalTensor, operand: Arg) -> LogicalTensor:
        """A binary algorithm of a value and an input."""
        x, y = self.alike(t, self.read(operand))
        joined = binary(self.b, name, x, y)
        if joined.dtype is DType.boolean:
            raise CannotExpress(f"{name} makes booleans, with which nothing can go on", fix="compare with --binary --alg instead")
        return joined

    def _prelu(self, t: LogicalTensor, op: PostOp, dst: Arg) -> LogicalTensor:
        slope = Arg("slope", masked(op.arg(0, "common"), dst.shape, dst.channels), DType.f32, option="--attr-post-ops")
        x, s = self.alike(t, self.read(slope))
        return self.b.op("PReLU", x, s, data_format="NCX", per_channel_broadcast=False)
