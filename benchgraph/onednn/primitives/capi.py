"""The part of oneDNN's C API for primitives that is used. Declarations only (dnnl.h, dnnl_types.h).

Functions that create primitive descriptors get their arguments as ctypes values (builder.py) and need no prototype.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import CDLL, POINTER, Structure, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

from benchgraph.onednn.capi import MAX_NDIMS

DIMS = c_int64 * MAX_NDIMS
_handle, _out, _dims = c_void_p, POINTER(c_void_p), POINTER(c_int64)

# ---- dnnl_types.h ----------------------------------------------------------------------------------------------------

TAG_ANY = 1  # dnnl_format_tag_any
QUERY_IMPL_INFO, QUERY_WORKSPACE, QUERY_EXEC_ARG = 8, 135, 255

SRC, SRC_1, SRC_2, DST, WEIGHTS, BIAS = 1, 2, 3, 17, 33, 41  # DNNL_ARG_*
MEAN, VARIANCE, SCALE, SHIFT, WORKSPACE = 49, 50, 51, 52, 64
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS, DIFF_SCALE, DIFF_SHIFT = 129, 145, 161, 255, 256
MULTIPLE_SRC, ATTR_SCALES, ATTR_ZERO_POINTS, POST_OP_BASE = 1024, 4096, 8192, 32768
SUMMED = -1  # not oneDNN's: the operand of a sum post-op, which is copied to dst

TRAINING, INFERENCE, BACKWARD, BACKWARD_DATA = 64, 96, 128, 160  # dnnl_prop_kind_t
USE_GLOBAL_STATS, USE_SCALE, USE_SHIFT, RMS_NORM = 1, 2, 4, 32  # dnnl_normalization_flags_t


def post_op_arg(index: int, arg: int = SRC_1) -> int:
    """DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | arg."""
    return POST_OP_BASE * (index + 1) | arg


class ExecArg(Structure):
    """dnnl_exec_arg_t."""

    _fields_ = (("arg", c_int), ("memory", c_void_p))


PROTOTYPES: Mapping[str, tuple[Any, ...]] = {
    "dnnl_memory_desc_create_with_strides": (_out, c_int, _dims, c_int, _dims),
    "dnnl_memory_desc_create_with_tag": (_out, c_int, _dims, c_int, c_int),
    "dnnl_memory_desc_permute_axes": (_out, _handle, POINTER(c_int)),
    "dnnl_memory_desc_equal": (_handle, _handle),
    "dnnl_memory_desc_destroy": (_handle,),
    "dnnl_memory_create": (_out, _handle, _handle, c_void_p),
    "dnnl_memory_destroy": (_handle,),
    "dnnl_primitive_desc_query": (_handle, c_int, c_int, POINTER(c_char_p)),
    "dnnl_primitive_desc_destroy": (_handle,),
    "dnnl_primitive_create": (_out, _handle),
    "dnnl_primitive_destroy": (_handle,),
    "dnnl_primitive_execute": (_handle, _handle, c_int, POINTER(ExecArg)),
    "dnnl_primitive_attr_create": (_out,),
    "dnnl_primitive_attr_destroy": (_handle,),
    "dnnl_primitive_attr_set_fpmath_mode": (_handle, c_int),
    "dnnl_primitive_attr_set_scales_mask": (_handle, c_int, c_int),
    "dnnl_primitive_attr_set_zero_points_mask": (_handle, c_int, c_int),
    "dnnl_primitive_attr_set_post_ops": (_handle, _handle),
    "dnnl_post_ops_create": (_out,),
    "dnnl_post_ops_destroy": (_handle,),
    "dnnl_post_ops_append_eltwise": (_handle, c_int, c_float, c_float),
    "dnnl_post_ops_append_binary": (_handle, c_int, _handle),
    "dnnl_post_ops_append_sum": (_handle, c_float, c_int32, c_int),
}

LATER: Mapping[str, tuple[Any, ...]] = {  # functions that the oldest supported version lacks
    "dnnl_primitive_attr_set_fpmath_mode_v2": (_handle, c_int, c_int),
    "dnnl_post_ops_append_binary_v2": (_handle, c_int, _handle, _handle),
}


def declare(library: CDLL) -> None:
    """Set the functions' prototypes."""
    for name, arguments in {**PROTOTYPES, **LATER}.items():
        if name in PROTOTYPES or hasattr(library, name):
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
    library.dnnl_primitive_desc_query_md.argtypes = (_handle, c_int, c_int)
    library.dnnl_primitive_desc_query_md.restype = c_void_p
    library.dnnl_memory_desc_get_size.argtypes = (_handle,)
    library.dnnl_memory_desc_get_size.restype = c_size_t
