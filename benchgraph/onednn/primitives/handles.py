"""oneDNN's objects for primitives, made from messages: memory descriptors, attributes, primitive descriptors, primitives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import Array, byref, c_char_p, c_float, c_int, c_int64, c_void_p
from dataclasses import dataclass, field
from typing import Any

from benchgraph.onednn.capi import STATUSES
from benchgraph.onednn.primitives import capi
from benchgraph.onednn.primitives.messages import (
    Attributes,
    Binary,
    Call,
    Dim,
    DimList,
    Dims,
    Eltwise,
    Given,
    Int,
    Md,
    Mds,
    Real,
    RealList,
    View,
)
from benchgraph.onednn.session import Handle, Refused


def dims_of(values: Dims) -> Array[c_int64]:
    return capi.DIMS(*values)


@dataclass(frozen=True)
class Objects:
    """Makes objects with this library and engine. kept: they live until `close`."""

    lib: Any
    engine: c_void_p
    kept: list[Handle] = field(default_factory=list)

    def close(self) -> None:
        while self.kept:
            self.kept.pop().close()

    def check(self, status: int, what: str) -> None:
        if status:
            raise Refused(STATUSES[status] if status < len(STATUSES) else f"status {status}", what)

    def _keep(self, value: c_void_p, destroy: Callable[[int | None], int]) -> int:
        assert value.value is not None
        self.kept.append(Handle(value.value, destroy))
        return value.value

    # ---- memory descriptors ------------------------------------------------------------------------------------------

    def plain(self, view: View) -> int:
        md, shape = c_void_p(), dims_of(view.dims)
        status = self.lib.dnnl_memory_desc_create_with_strides(byref(md), len(view.dims), shape, view.dtype, dims_of(view.strides))
        self.check(status, f"describing a tensor of dims {view.dims} and strides {view.strides}")
        return self._keep(md, self.lib.dnnl_memory_desc_destroy)

    def any_layout(self, view: View) -> int:
        md = c_void_p()
        status = self.lib.dnnl_memory_desc_create_with_tag(byref(md), len(view.dims), dims_of(view.dims), view.dtype, capi.TAG_ANY)
        self.check(status, f"describing a tensor of dims {view.dims}")
        return self._keep(md, self.lib.dnnl_memory_desc_destroy)

    def permuted(self, md: int, order: Dims) -> int:
        """The same memory with dim order[i] as dim i."""
        if order == tuple(range(len(order))):
            return md
        place = [order.index(i) for i in range(len(order))]  # oneDNN asks where each dim goes
        made = c_void_p()
        self.check(self.lib.dnnl_memory_desc_permute_axes(byref(made), md, (c_int * len(place))(*place)), "permuting the dims of a tensor")
        return self._keep(made, self.lib.dnnl_memory_desc_destroy)

    def are_equal(self, a: int, b: int) -> bool:
        return a == b or bool(self.lib.dnnl_memory_desc_equal(a, b))

    def nbytes(self, md: int) -> int:
        return int(self.lib.dnnl_memory_desc_get_size(md))

    def memory(self, md: int, address: int) -> int:
        made = c_void_p()
        self.check(self.lib.dnnl_memory_create(byref(made), md, self.engine, address), "creating a memory object")
        return self._keep(made, self.lib.dnnl_memory_destroy)

    # ---- primitive descriptors ---------------------------------------------------------------------------------------

    def descriptor(self, call: Call, mds: Mapping[int, int], attrs: Attributes, hint: Call | None, views: Mapping[int, View]) -> int:
        """A primitive descriptor. mds, views: of the operands, by argument. Raises Refused."""
        with self.attributes(attrs, mds) as attr:
            forward = 0 if hint is None else self._described(hint, mds, views, attr, 0)
            return self._described(call, mds, views, attr, forward)

    def _described(self, call: Call, mds: Mapping[int, int], views: Mapping[int, View], attr: int, hint: int) -> int:
        function = getattr(self.lib, call.function, None)
        if function is None:
            raise Refused("unimplemented", f"{call.function}, which it does not have")
        given = {"engine": self.engine.value, "attr": attr, "hint": hint, "nothing": None}
        arguments: list[Any] = []
        for a in call.arguments:
            match a:
                case Md():
                    arguments.append(c_void_p(self.any_layout(views[a.arg]) if a.is_any else mds[a.arg]))
                case Mds():
                    arguments.append((c_void_p * len(a.args))(*(mds[arg] for arg in a.args)))
                case Int():
                    arguments.append(c_int(a.value))
                case Dim():
                    arguments.append(c_int64(a.value))
                case Real():
                    arguments.append(c_float(a.value))
                case DimList():
                    arguments.append(dims_of(a.values))
                case RealList():
                    arguments.append((c_float * len(a.values))(*a.values))
                case Given():
                    arguments.append(c_void_p(given[a.what]))
        made = c_void_p()
        self.check(function(byref(made), *arguments), f"{call.function.removeprefix('dnnl_').removesuffix('_primitive_desc_create')}")
        return self._keep(made, self.lib.dnnl_primitive_desc_destroy)

    def descriptor_md(self, descriptor: int, query: int, arg: int = 0) -> int:
        """A memory descriptor that a primitive has chosen; 0 for none. It lives as long as the primitive descriptor."""
        return int(self.lib.dnnl_primitive_desc_query_md(descriptor, query, arg) or 0)

    def implementation(self, descriptor: int) -> str:
        text = c_char_p()
        self.check(self.lib.dnnl_primitive_desc_query(descriptor, capi.QUERY_IMPL_INFO, 0, byref(text)), "asking for an implementation")
        return (text.value or b"").decode()

    def primitive(self, descriptor: int, name: str) -> int:
        made = c_void_p()
        self.check(self.lib.dnnl_primitive_create(byref(made), descriptor), f"creating the primitive {name}")
        return self._keep(made, self.lib.dnnl_primitive_destroy)

    # ---- attributes --------------------------------------------------------------------------------------------------

    @contextmanager
    def attributes(self, attrs: Attributes, mds: Mapping[int, int]) -> Iterator[int]:
        attr, post_ops = c_void_p(), c_void_p()
        self.check(self.lib.dnnl_primitive_attr_create(byref(attr)), "creating attributes")
        try:
            assert attr.value is not None
            self.check(self.lib.dnnl_post_ops_create(byref(post_ops)), "creating post-ops")
            self._fill(attr.value, post_ops.value, attrs, mds)
            yield attr.value
        finally:
            self.lib.dnnl_post_ops_destroy(post_ops)
            self.lib.dnnl_primitive_attr_destroy(attr)

    def _fill(self, attr: int, post_ops: int | None, attrs: Attributes, mds: Mapping[int, int]) -> None:
        lib = self.lib
        if attrs.integers:
            if not hasattr(lib, "dnnl_primitive_attr_set_fpmath_mode_v2"):
                raise Refused("unimplemented", "a math mode that holds for integers too")
            self.check(lib.dnnl_primitive_attr_set_fpmath_mode_v2(attr, attrs.fpmath, 1), "setting the math mode")
        else:
            self.check(lib.dnnl_primitive_attr_set_fpmath_mode(attr, attrs.fpmath), "setting the math mode")
        for scales in attrs.scales:
            self.check(lib.dnnl_primitive_attr_set_scales_mask(attr, scales.arg, scales.mask), "setting scales")
        for zero_points in attrs.zero_points:
            self.check(lib.dnnl_primitive_attr_set_zero_points_mask(attr, zero_points.arg, zero_points.mask), "setting zero points")
        for op in attrs.post_ops:
            match op:
                case Eltwise():
                    status = lib.dnnl_post_ops_append_eltwise(post_ops, op.alg, op.alpha, op.beta)
                case Binary() if op.condition:
                    if not hasattr(lib, "dnnl_post_ops_append_binary_v2"):
                        raise Refused("unimplemented", "a selection as post-op")
                    status = lib.dnnl_post_ops_append_binary_v2(post_ops, op.alg, mds[op.operand], mds[op.condition])
                case Binary():
                    status = lib.dnnl_post_ops_append_binary(post_ops, op.alg, mds[op.operand])
                case _:
                    status = lib.dnnl_post_ops_append_sum(post_ops, op.scale, op.zero_point, op.dtype)
            self.check(status, "appending a post-op")
        if attrs.post_ops:
            self.check(lib.dnnl_primitive_attr_set_post_ops(attr, post_ops), "setting post-ops")
