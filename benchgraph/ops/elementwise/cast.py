"""TypeCast: the same numbers in another dtype, rounded to nearest even (and saturated, for integers).

In an API graph it converts between f32 and bf16 or f16, in the compiler between any two dtypes.
"""

from __future__ import annotations

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.ops import fills
from benchgraph.ops.elementwise.unary import same_shape
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.laws import real
from benchgraph.ops.spec import Elementwise, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, Declared, F


def convert(values: Array, dtype: DType) -> Array:
    """Values rounded to `dtype`: floats are returned as float64, integers and booleans in their type.

    To integers: nearest even, saturated, NaN gives 0. To floats too large for the type: what the type has for it (inf, or NaN).
    """
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return fills.rounded(values, dtype)
    if dtype is DType.boolean:
        return values.astype(np.bool_)
    integers = np.nan_to_num(np.rint(real(values)), nan=0.0, posinf=np.inf, neginf=-np.inf)
    low, high = dtype.range
    saturated: Array = np.where(integers >= high, high, np.maximum(integers, low))
    return saturated.astype(dtype.numpy)


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    return (convert(ins[0], call.outs[0].dtype),)


def check(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    src, dst = ins[0][0], out_dtypes[0]
    if src is dst:
        return f"src and dst are both {src.value}; drop the op, or cast between f32 and bf16 or f16"
    if DType.f32 not in (src, dst):
        return f"there is no cast from {src.value} to {dst.value}; cast to f32 in between"
    return ""


def _is_nearest(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dtype = real(ins[0]), call.outs[0].dtype
    return bool(np.all(np.abs(real(outs[0]) - src) <= 0.5 * (dtype.eps * np.abs(src) + dtype.least_subnormal)))


SPECS = (
    OpSpec(
        "TypeCast",
        Schema(inputs=ports("src:T1"), outputs=ports("dst:T2"), types={"T1": F, "T2": F}, check=check),
        Semantics(infer=same_shape, reference=reference, flops=lambda call: 0, is_conversion=True, is_homogeneous=True),
        Testing(
            fill=pointwise.conversion,
            # multiples of an eighth of the step near 1 of dst (of f16 if dst is f32): some are ties, some exact, most neither
            domain=lambda call, port, rng: fills.stepped(-2, 2, max(call.outs[0].dtype.eps, DType.f16.eps) / 8)(call, port, rng),
            samples=(
                Sample(((5, 17),), out_dtypes=(DType.bf16,), why="f32 to bf16, a tail"),
                Sample(((33,),), out_dtypes=(DType.f16,), why="f32 to f16"),
                Sample(((2, 16),), dtypes=(DType.bf16,), out_dtypes=(DType.f32,), why="bf16 to f32 is exact"),
                Sample(((3, 1, 15),), dtypes=(DType.f16,), out_dtypes=(DType.f32,), why="f16 to f32 is exact"),
                Sample(((),), out_dtypes=(DType.bf16,), why="rank 0"),
            ),
            laws=(Law("at most half a step of dst's type away", _is_nearest),),
            zero_limit=lambda call: 0.80,
        ),
        Lowering(Role.pointwise, form=Elementwise(lambda attrs, ins: ins[0])),
    ),
)
