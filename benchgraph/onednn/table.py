"""oneDNN's enumerations by the names used in dumps, with the version that introduced each entry.

Numbers are from dnnl_common_types.h and dnnl_graph_types.h. Versions come from comparing these headers in the published wheels (3.2, 3.5,
3.6, 3.7, 3.8, 3.9, 3.11 and 3.13): the first one with the entry; FIRST if 3.2 has it.

The source of 3.14 (August 2026) has the same kinds, attributes, data types and properties; what it adds is the logical tensor of a
scratchpad that its user may give, which is not needed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Version: TypeAlias = tuple[int, int]

FIRST: Version = (3, 2)  # the oldest supported oneDNN
KNOWN: Version = (3, 13)  # the newest oneDNN that this table and the op table describe


@dataclass(frozen=True)
class Entry:
    """code: the number in the header. form, of attributes: f, fs, i, is, b, s = float, floats, integer, integers, bool, string."""

    code: int
    since: Version = FIRST
    form: str = ""


# In the order of dnnl_graph_op_kind_t, which starts at 0.
_KINDS = (
    "Abs AbsBackward Add AvgPool AvgPoolBackward BatchNormTrainingBackward BatchNormForwardTraining BatchNormInference BiasAdd "
    "BiasAddBackward Clamp ClampBackward Concat Convolution ConvolutionBackwardData ConvolutionBackwardWeights ConvTranspose "
    "ConvTransposeBackwardData ConvTransposeBackwardWeights Dequantize Divide DynamicDequantize DynamicQuantize Elu EluBackward End Exp "
    "GELU GELUBackward HardSwish HardSwishBackward Interpolate InterpolateBackward LayerNorm LayerNormBackward LeakyReLU Log LogSoftmax "
    "LogSoftmaxBackward MatMul Maximum MaxPool MaxPoolBackward Minimum Mish MishBackward Multiply PReLU PReLUBackward Quantize "
    "Reciprocal ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReLU ReLUBackward Reorder Round Sigmoid "
    "SigmoidBackward SoftMax SoftMaxBackward SoftPlus SoftPlusBackward Sqrt SqrtBackward Square SquaredDifference StaticReshape "
    "StaticTranspose Subtract Tanh TanhBackward TypeCast Wildcard HardSigmoid HardSigmoidBackward Select Pow GroupNorm GenIndex "
    "GreaterEqual RMSNorm Dropout"
)
_KIND_SINCE = {"GroupNorm": (3, 6), "GenIndex": (3, 7), "GreaterEqual": (3, 7), "RMSNorm": (3, 11), "Dropout": (3, 13)}

KINDS = {kind: Entry(code, _KIND_SINCE.get(kind, FIRST)) for code, kind in enumerate(_KINDS.split())}


def _attrs(first: int, form: str, names: str) -> dict[str, Entry]:
    return {name: Entry(first + i, _ATTR_SINCE.get(name, FIRST), form) for i, name in enumerate(names.split())}


_ATTR_SINCE = {"group_shape": (3, 7), "accumulation_mode": (3, 11)}

ATTRS = {
    **_attrs(0x01, "f", "alpha beta epsilon max min momentum"),
    **_attrs(0x20, "fs", "scales"),
    **_attrs(0x30, "i", "axis begin_norm_axis groups"),
    **_attrs(
        0x40,
        "is",
        "axes dilations dst_shape kernel order output_padding pads_begin pads_end shape sizes src_shape strides weights_shape zps "
        "group_shape",
    ),
    **_attrs(0x60, "b", "exclude_pad keep_dims keep_stats per_channel_broadcast special_zero transpose_a transpose_b use_affine use_dst"),
    **_attrs(
        0x80,
        "s",
        "auto_broadcast auto_pad coordinate_transformation_mode data_format mode qtype rounding_type weights_format accumulation_mode",
    ),
}

OF_KIND: dict[tuple[str, str], Version] = {  # attributes that a kind got later
    ("SoftMax", "mode"): (3, 8),
    ("GELU", "mode"): (3, 9),
    ("GELUBackward", "mode"): (3, 9),
}

DTYPES = {
    "undef": Entry(0), "f16": Entry(1), "bf16": Entry(2), "f32": Entry(3), "s32": Entry(4), "s8": Entry(5), "u8": Entry(6),
    "boolean": Entry(8), "f8_e5m2": Entry(9, (3, 5)), "f8_e4m3": Entry(10, (3, 5)), "s4": Entry(11, (3, 5)), "u4": Entry(12, (3, 5)),
    "s64": Entry(16, (3, 11)),
}  # fmt: skip

PROPERTIES = {"undef": Entry(0), "variable": Entry(1), "constant": Entry(2), "host_scalar": Entry(3, (3, 9))}

FPMATH_MODES = {"strict": Entry(0), "bf16": Entry(1), "f16": Entry(2), "any": Entry(3), "tf32": Entry(4)}
FPMATH_OF_INTEGERS: Version = (3, 7)  # dnnl_graph_graph_set_fpmath_mode, the only function that sets it

POLICIES = {"fused": Entry(1), "one_op_each": Entry(2)}  # fusion and debug

DEFINE_LAYOUTS = frozenset({"Reorder"})  # kinds that define their tensors' layouts, which stay strided as in benchdnn
