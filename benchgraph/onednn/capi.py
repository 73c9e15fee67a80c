"""The part of oneDNN's C API that is used: structures, prototypes, constants. Declarations only (dnnl_graph.h, dnnl_common.h).

Handles are opaque pointers.
"""

from __future__ import annotations

from ctypes import CDLL, POINTER, Structure, Union, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_void_p
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NDIMS = 12  # DNNL_MAX_NDIMS
CPU = 1  # dnnl_cpu
IN_ORDER = 1  # dnnl_stream_default_flags

STATUSES = (
    "success", "out_of_memory", "invalid_arguments", "unimplemented", "last_impl_reached", "runtime_error", "not_required",
    "invalid_graph", "invalid_graph_op", "invalid_shape", "invalid_data_type",
)  # fmt: skip
RUNTIMES = {0: "none", 1: "SEQ", 2: "OMP", 4: "TBB", 8: "THREADPOOL", 256: "OCL", 512: "SYCL"}  # DNNL_RUNTIME_*

_Dims = c_int64 * MAX_NDIMS
_handle, _out = c_void_p, POINTER(c_void_p)


class VersionInfo(Structure):
    """dnnl_version_t."""

    _fields_ = (("major", c_int), ("minor", c_int), ("patch", c_int), ("hash", c_char_p), ("cpu_runtime", c_uint), ("gpu_runtime", c_uint))


class _Layout(Union):
    _fields_ = (("strides", _Dims), ("layout_id", c_size_t))


class LogicalTensor(Structure):
    """dnnl_graph_logical_tensor_t."""

    _fields_ = (
        ("id", c_size_t),
        ("ndims", c_int),
        ("dims", _Dims),
        ("data_type", c_int),
        ("property", c_int),
        ("layout_type", c_int),
        ("layout", _Layout),
    )


class InplacePair(Structure):
    """dnnl_graph_inplace_pair_t."""

    _fields_ = (("input_id", c_size_t), ("output_id", c_size_t))


_tensor, _tensors, _size = POINTER(LogicalTensor), POINTER(POINTER(LogicalTensor)), POINTER(c_size_t)

PROTOTYPES: Mapping[str, tuple[Any, ...]] = {
    "dnnl_set_verbose": (c_int,),
    "dnnl_engine_create": (_out, c_int, c_size_t),
    "dnnl_engine_destroy": (_handle,),
    "dnnl_stream_create": (_out, _handle, c_uint),
    "dnnl_stream_wait": (_handle,),
    "dnnl_stream_destroy": (_handle,),
    "dnnl_graph_logical_tensor_get_mem_size": (_tensor, _size),
    "dnnl_graph_tensor_create": (_out, _tensor, _handle, c_void_p),
    "dnnl_graph_tensor_destroy": (_handle,),
    "dnnl_graph_op_create": (_out, c_size_t, c_int, c_char_p),
    "dnnl_graph_op_destroy": (_handle,),
    "dnnl_graph_op_add_input": (_handle, _tensor),
    "dnnl_graph_op_add_output": (_handle, _tensor),
    "dnnl_graph_op_set_attr_f32": (_handle, c_int, POINTER(c_float), c_size_t),
    "dnnl_graph_op_set_attr_bool": (_handle, c_int, POINTER(c_uint8), c_size_t),
    "dnnl_graph_op_set_attr_s64": (_handle, c_int, POINTER(c_int64), c_size_t),
    "dnnl_graph_op_set_attr_str": (_handle, c_int, c_char_p, c_size_t),
    "dnnl_graph_graph_create_with_fpmath_mode": (_out, c_int, c_int),
    "dnnl_graph_graph_destroy": (_handle,),
    "dnnl_graph_add_op": (_handle, _handle),
    "dnnl_graph_graph_finalize": (_handle,),
    "dnnl_graph_graph_filter": (_handle, c_int),
    "dnnl_graph_graph_get_partition_num": (_handle, _size),
    "dnnl_graph_graph_get_partitions": (_handle, c_size_t, _out),
    "dnnl_graph_partition_destroy": (_handle,),
    "dnnl_graph_partition_get_op_num": (_handle, _size),
    "dnnl_graph_partition_get_ops": (_handle, c_size_t, _size),
    "dnnl_graph_partition_is_supported": (_handle, POINTER(c_uint8)),
    "dnnl_graph_partition_get_input_ports_num": (_handle, _size),
    "dnnl_graph_partition_get_input_ports": (_handle, c_size_t, _tensor),
    "dnnl_graph_partition_get_output_ports_num": (_handle, _size),
    "dnnl_graph_partition_get_output_ports": (_handle, c_size_t, _tensor),
    "dnnl_graph_partition_compile": (_handle, _handle, c_size_t, _tensors, c_size_t, _tensors, _handle),
    "dnnl_graph_compiled_partition_create": (_out, _handle),
    "dnnl_graph_compiled_partition_destroy": (_handle,),
    "dnnl_graph_compiled_partition_query_logical_tensor": (_handle, c_size_t, _tensor),
    "dnnl_graph_compiled_partition_get_inplace_ports": (_handle, _size, POINTER(POINTER(InplacePair))),
    "dnnl_graph_compiled_partition_execute": (_handle, _handle, c_size_t, _out, c_size_t, _out),
    "dnnl_graph_set_compiled_partition_cache_capacity": (c_int,),
    "dnnl_graph_set_constant_tensor_cache": (c_int,),
}

LATER: Mapping[str, tuple[Any, ...]] = {  # functions that FIRST lacks and newer versions have
    "dnnl_graph_set_constant_tensor_cache_capacity": (c_int, c_size_t),
    "dnnl_graph_graph_set_fpmath_mode": (_handle, c_int, c_int32),
    "dnnl_graph_tensor_create_scalar": (_out, _tensor, c_void_p),
}


def declare(library: CDLL) -> None:
    """Set the functions' prototypes. Raises AttributeError for a library that lacks one of PROTOTYPES."""
    for name, arguments in {**PROTOTYPES, **LATER}.items():
        if name in PROTOTYPES or hasattr(library, name):
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
