"""Problems as graphs: arguments are read into what the ops compute with, results written as the problem asks.

read     f32, bf16, f16 as they are   u8, s8, f8 -> Dequantize   u4, s4, and numbers in groups -> DynamicDequantize
write    the same dtype: nothing      floats -> TypeCast         u8, s8, f8 -> Quantize
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape, dense_strides
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.ops.spec import F
from benchgraph.options.problem import CannotExpress

from ._algs import BINARY_NAMES, ELTWISE_NAMES, Numbers, binary, eltwise
from ._attrs import CHOSEN_AT_RUN_TIME, Entry, PostOp, PostOps, Quantisation, dims_of, masked
from ._grids import READ, dequantised, group_sizes, is_grid
from ._layout import PLAIN, placed, strides_of
from ._options import Colons, dtype_of

QUANTISED = (DType.u8, DType.s8, DType.f8_e4m3, DType.f8_e5m2)
SCALES, ZERO_POINTS = (0.25, 0.5, 1.0), (1, 2, 3)  # in turn, along a dim


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
        return self.tag in PLAIN and self.given in (None, dense_strides(self.shape))

    @property
    def strides(self) -> Shape:
        if self.given is None:
            return strides_of(self.tag, self.shape, self.option)
        return placed(self.given, self.shape, "--strides")


def src_dst(dt: Colons, sdt: str, ddt: str) -> tuple[DType, DType]:
    """What --sdt and --ddt say, or else --dt."""
    src, dst = dt.of(2)
    return dtype_of(sdt or src), dtype_of(ddt or dst)


class Draft:
    """A graph in the making. b: the builder, for what the driver adds itself. math_mode: as --attr-fpmath says it."""

    def __init__(self, scales: Quantisation, zero_points: Quantisation, math_mode: str) -> None:
        self.b = GraphBuilder()
        self._scales, self._zero_points, self._math_mode = scales, zero_points, math_mode
        self._strides: dict[int, Shape] = {}

    def read(self, arg: Arg, *, constant: bool = False, as_it_is: tuple[DType, ...] = ()) -> LogicalTensor:
        """An input, as a float or boolean to compute with, or of a dtype in as_it_is.

        Raises CannotExpress for a dtype or scale that no op reads.
        """
        kind = PropertyType.constant if constant else PropertyType.variable
        t = self.b.input(arg.shape, arg.dtype, strides=arg.strides, property_type=kind)
        scale, point = self._scales.of(arg.name), self._zero_points.of(arg.name)
        if arg.dtype.is_packed or (arg.dtype in READ and (is_grid(scale, arg) or is_grid(point, arg))):
            return dequantised(self.b, t, arg, scale, point)
        if arg.dtype in QUANTISED:
            return self.b.append("Dequantize", (t,), self._quantisation(arg), (DType.f32,))[0]
        self._refuse_scales(arg)
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
        if self._math_mode:
            mode, _, flag = self._math_mode.partition(":")
            graph = replace(graph, fpmath_mode=mode, fpmath_apply_to_int=flag == "true")
        return graph.with_tensors({id: graph.tensors[id].with_shape(graph.tensors[id].known_shape, s) for id, s in self._strides.items()})

    def _quantisation(self, arg: Arg) -> Attrs:
        """Attributes of Quantize and Dequantize. Raises CannotExpress for numbers that they do not hold."""
        scale, zero_point = self._scales.of(arg.name), self._zero_points.of(arg.name)
        if zero_point and arg.dtype.is_float:
            raise CannotExpress(f"{arg.dtype.value} has no zero point", where="--attr-zero-points", fix="leave it out")
        found = (_axis(scale, arg, "--attr-scales"), _axis(zero_point, arg, "--attr-zero-points"))
        axes = {axis for axis in found if axis is not None}
        if len(axes) > 1:
            what = f"scales along dim {found[0]} and zero points along dim {found[1]} of one argument"
            raise CannotExpress(what, where="--attr-scales, --attr-zero-points", fix="give both along one dim")
        number, point = float((scale and scale.number) or 1), int((zero_point and zero_point.number) or 0)
        low, high = arg.dtype.range
        if not low <= point <= high:
            what = f"a zero point is of the data type of {arg.name}, and {arg.dtype.value} has no {point}"
            raise CannotExpress(what, where=f"--attr-zero-points={zero_point}", fix=f"give {low:g} to {high:g}")
        if not axes:
            attrs = Attrs(qtype="per_tensor", scales=(number,))
            return attrs.updated(zps=(point,)) if point else attrs
        (axis,) = axes
        turns = range(arg.shape[axis])
        scales = tuple(number if found[0] is None else SCALES[i % len(SCALES)] for i in turns)
        attrs = Attrs(qtype="per_channel", axis=axis, scales=scales)
        points = tuple(point if found[1] is None else ZERO_POINTS[i % len(ZERO_POINTS)] for i in turns)
        return attrs.updated(zps=points) if any(points) else attrs

    def _refuse_scales(self, arg: Arg) -> None:
        """Raise CannotExpress for numbers of an argument that no op scales; those that change nothing may stand."""
        scale, zero_point = self._scales.of(arg.name), self._zero_points.of(arg.name)
        if not (_is_neutral(scale, 1) and _is_neutral(zero_point, 0)):
            what = f"no op scales {arg.dtype.value} {arg.name} by an attribute"
            raise CannotExpress(what, where="--attr-scales, --attr-zero-points", fix="give it a quantised dtype, such as s8")

    def _post_op(self, t: LogicalTensor, op: PostOp, dst: Arg) -> LogicalTensor:
        where = f"--attr-post-ops={op}"
        try:
            if op.name in ELTWISE_NAMES:
                return self._eltwise(t, op)
            if op.name == "select":
                return self._selected(t, op, dst, where)
            if op.name in BINARY_NAMES:
                return self._joined(op.name, t, _operand(op.args, dst, where))
            if op.name == "prelu":
                return self._prelu(t, op, dst)
            if op.name == "sum" and float(op.arg(0, "1")) == 1 and int(op.arg(1, "0")) == 0:
                before = Arg("dst before", dst.shape, dtype_of(op.arg(2, dst.dtype.value)), dst.tag, dst.option, given=dst.given)
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

    def _selected(self, t: LogicalTensor, op: PostOp, dst: Arg, where: str) -> LogicalTensor:
        """The value where a condition holds, an input elsewhere."""
        policy, _, tag = op.arg(1, "common").partition(".")
        condition = Arg("condition", masked(policy, dst.shape, dst.channels), DType.boolean, tag or "any", where)
        x, y = self.alike(t, self.read(_operand(tuple(op.args[0].split(".")), dst, where)))
        return self.b.op("Select", self.read(condition), x, y)

    def _prelu(self, t: LogicalTensor, op: PostOp, dst: Arg) -> LogicalTensor:
        slope = Arg("slope", masked(op.arg(0, "common"), dst.shape, dst.channels), DType.f32, option="--attr-post-ops")
        x, s = self.alike(t, self.read(slope))
        return self.b.op("PReLU", x, s, data_format="NCX", per_channel_broadcast=False)


def _operand(args: tuple[str, ...], dst: Arg, where: str) -> Arg:
    """The second operand of a binary post-op: DT, and perhaps a policy, a tag and strides."""
    dtype, policy, tag, strides = (*args, "", "", "")[:4]
    shape = masked(policy or "common", dst.shape, dst.channels)
    given = tuple(map(int, strides.split("x"))) if strides else None
    return Arg("post-op", shape, dtype_of(dtype), tag or (dst.tag if shape == dst.shape else "any"), where, given=given)


def _axis(entry: Entry | None, arg: Arg, option: str) -> int | None:
    """The dim along which an argument has a number each, None where it has one number. Raises CannotExpress for anything else."""
    if entry is None:
        return None
    where = f"{option}={entry}"
    if entry.policy in CHOSEN_AT_RUN_TIME:
        raise CannotExpress("no op computes scales and quantises by them", where=where, fix="give scales by number or along a dim")
    dims = dims_of(entry.policy, len(arg.shape), arg.channels)
    if any(size != 1 for dim, size in enumerate(group_sizes(entry, arg)) if dim in dims):
        raise CannotExpress(f"no attribute holds numbers for groups of {entry.groups}", where=where, fix="leave the groups out")
    if entry.is_whole or not dims:
        return None
    if len(dims) > 1 or dims[0] >= len(arg.shape):
        what = f"{entry.policy} of {arg.name}, which has {len(arg.shape)} dims, is not one dim"
        raise CannotExpress(what, where=where, fix="give one number, or numbers along one dim")
    return dims[0]


def _is_neutral(entry: Entry | None, number: float) -> bool:
    return entry is None or (entry.is_whole and float(entry.number) == number)
