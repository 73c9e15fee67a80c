"""softmax: softmax and logsoftmax. `benchgraph --softmax --dir=FWD_D,BWD_D --axis=3 32x12x128x128`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.options.knobs import knob
from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._options import INERT, Colons, algorithm, check_direction, direction, dst_dtype, dtypes, integer, minibatch, one_shape, src_dtype, tag
from ._shapes import Shapes

if TYPE_CHECKING:
    from benchgraph.core.dtypes import DType
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.graph import Graph

    from ._draft import Draft

WAYS = ("FWD_D", "FWD_I", "BWD_D")
ALGS = ("softmax", "logsoftmax", "softmax_inf_as_zero")
ALIASES = {"softmax_accurate": "softmax", "softmax_log": "logsoftmax", "softmax_accurate_inf_as_zero": "softmax_inf_as_zero"}


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; --dt speaks for --sdt and --ddt."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:DST")
    sdt: str = src_dtype()
    ddt: str = dst_dtype()
    stag: str = tag("abx", "layout of src")
    dtag: str = tag("any", "layout of dst")
    alg: str = algorithm("softmax", ALGS, ALIASES)
    axis: int = knob(1, integer, "N[,N...]", "the dim that sums up to 1 (1)", product=True)
    mb: int = minibatch()
    case: Shapes = one_shape("256x1000")


def build(knobs: Knobs) -> Graph:

    from ._draft import Arg, Draft, src_dst

    check_direction(knobs.dir, WAYS)
    (shape,) = knobs.case.with_mb(knobs.mb).shapes
    sdt, ddt = src_dst(knobs.dt, knobs.sdt, knobs.ddt)
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)

    def src(name: str) -> Arg:
        return Arg(name, shape, sdt, knobs.stag, "--stag")

    def dst(name: str) -> Arg:
        return Arg(name, shape, ddt, knobs.dtag, "--dtag")

    is_log = knobs.alg == "logsoftmax"
    if knobs.dir == "BWD_D":
        d.no_post_ops(knobs.attr_post_ops)
        ins = d.alike(d.read(dst("diff_dst")), d.read(dst("dst")))
        kind = "LogSoftmaxBackward" if is_log else "SoftMaxBackward"
        ins, result = _types(d, ins, sdt, widens=not is_log)
        d.write(d.b.op(kind, *ins, dtype=result, axis=knobs.axis), src("diff_src"))
        return d.graph()
    ins, result = _types(d, (d.read(src("src")),), ddt, widens=not is_log)
    if is_log:
        t = d.b.op("LogSoftmax", *ins, axis=knobs.axis)
    else:
        mode = "inf_as_zero" if knobs.alg == "softmax_inf_as_zero" else "none"
        t = d.b.op("SoftMax", *ins, dtype=result, axis=knobs.axis, mode=mode)
    d.write(d.post_ops(t, knobs.attr_post_ops, dst("dst")), dst("dst"))
    return d.graph()


def _types(d: Draft, ins: tuple[LogicalTensor, ...], wanted: DType, *, widens: bool) -> tuple[tuple[LogicalTensor, ...], DType]:
    """Operands and the result's dtype: as wanted if the op makes that of its operands, else all f32. widens: it makes f32 of bf16, f16."""
    from benchgraph.core.dtypes import DType

    own = ins[0].dtype
    if wanted is own or (widens and wanted is DType.f32):
        return ins, wanted
    return tuple(d.cast(t, DType.f32) for t in ins), DType.f32


EXAMPLES = ("--softmax --dir=FWD_D,BWD_D --axis=3 32x12x128x128", "--softmax --alg=logsoftmax --dt=f32,bf16 --batch=shapes_odd")
DRIVER = Driver("softmax", "softmax and logsoftmax, or their gradients", Knobs, build, inert=INERT, examples=EXAMPLES)
