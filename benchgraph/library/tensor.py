"""Tensors: logical tensors with memory."""

from __future__ import annotations

from enum import Enum
from itertools import count
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from benchgraph.core.arrays import Array, elements, put, view
from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.errors import InvalidArguments, Unimplemented
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType
from benchgraph.library.engine import Engine


class _Memory(Enum):
    allocate = "ALLOCATE"


ALLOCATE: Final = _Memory.allocate  # DNNL_MEMORY_ALLOCATE: memory from the engine, aligned to cache lines, freed with the tensor


class TensorMemory:
    """The memory of a tensor; a new object per handle, so that its identity shows whether a binding is still valid.

    generation: 0, or a number unique in the process for later contents of the same memory (`Tensor.renew`).
    """

    __slots__ = ("array", "generation")

    def __init__(self, array: Array | None, generation: int = 0) -> None:
        self.array, self.generation = array, generation


_generations = count(1)


class NotExportable(Unimplemented, BufferError):
    """Raised for tensors without a DLPack form; a BufferError, as DLPack's protocol requires."""


class Tensor:
    """Data of a logical tensor whose dims are known and whose layout is strided or opaque.

    handle: a numpy array with the logical tensor's dtype, shape and strides, used in place and owned by the user; ALLOCATE: allocated by
    the engine, and freed with the tensor; None: no memory until `set_data_handle` or the execution that writes the tensor, which also
    determines open dims and layouts. `array` is the memory; `elements` its contents. Raises InvalidArguments for a handle that does not fit
    and for a host scalar, OutOfMemory.

    s4 and u4 are stored two to a byte (core/arrays.py): `array` and a handle used in place are uint8 of shape (logical.nbytes,), as is
    memory of an opaque layout. A handle of ml_dtypes' int4 or uint4, one byte per element, is copied to packed memory.
    """

    def __init__(self, logical: LogicalTensor, engine: Engine, handle: Array | _Memory | None = ALLOCATE) -> None:
        _check_described(logical, may_be_open=handle is None)
        if not isinstance(engine, Engine):
            where = f"Tensor {logical.id}"
            raise InvalidArguments(f"the engine is a {type(engine).__name__}", where=where, fix="give it an Engine")
        self._logical = logical
        self._engine: Engine | None = engine
        if isinstance(handle, _Memory):
            self.allocate(logical)
        else:
            self.set_data_handle(handle)

    def allocate(self, described: LogicalTensor) -> None:
        """Allocate memory from the engine. described: supplies open dims and layout. Raises OutOfMemory."""
        if not self._logical.is_settled:
            self._logical = described
        assert self._engine is not None, "a host scalar holds its value"
        self.memory = TensorMemory(view(self._engine.allocate(self._logical.nbytes), self._logical))

    @classmethod
    def make_scalar_tensor(cls, logical: LogicalTensor, value: ArrayLike) -> Tensor:
        """The tensor of a host scalar, with a copy of the value. InvalidArguments for other logical tensors, and values out of range."""
        if not isinstance(logical, LogicalTensor) or not logical.is_host_scalar:
            raise InvalidArguments("it is no host scalar", where=_name(logical), fix="use Tensor(logical, engine, handle)")
        self = cls.__new__(cls)
        self._logical, self._engine, self.memory = logical, None, TensorMemory(_scalar(logical, value))
        return self

    @classmethod
    def from_dlpack(cls, source: Any, logical: LogicalTensor | None = None, engine: Engine | None = None) -> Tensor:
        """A tensor on another library's memory, used in place. source: anything numpy.from_dlpack accepts.

        logical: by default derived from the memory, with id 0. InvalidArguments for memory that numpy cannot use (not on the CPU, bf16), or
        that does not fit.
        """
        try:
            array = np.from_dlpack(source)
        except (BufferError, RuntimeError, TypeError, AttributeError) as bad:
            what = f"numpy cannot take a {type(source).__name__}: {str(bad).rstrip('.')}"
            raise InvalidArguments(what, where="from_dlpack", fix="give an array on the CPU, of a numpy type") from bad
        return cls(logical or _described(array), engine or Engine(), array)

    @property
    def logical(self) -> LogicalTensor:
        return self._logical

    @property
    def engine(self) -> Engine | None:
        """None for a host scalar."""
        return self._engine

    @property
    def array(self) -> Array:
        """The memory, or the value of a host scalar (read-only). Raises InvalidArguments if there is none yet."""
        if self.memory.array is None:
            raise InvalidArguments("it has no memory", where=_name(self._logical), fix="give it some with set_data_handle")
        return self.memory.array

    @property
    def elements(self) -> Array:
        """The elements in the tensor's shape: `array` itself, but for s4 and u4 a copy in int8 or uint8."""
        return elements(self.array, self._logical)

    def get_data_handle(self) -> Array | None:
        """The memory: the user's array, or one on the engine's memory. None: no memory yet, or a host scalar."""
        return None if self._logical.is_host_scalar else self.memory.array

    def set_data_handle(self, handle: Array | None) -> None:
        """Replace the memory; the old one is not changed. None removes it."""
        if self._logical.is_host_scalar:
            fix = "make another with make_scalar_tensor"
            raise InvalidArguments("a host scalar has no memory to exchange", where=_name(self._logical), fix=fix)
        if handle is not None:
            _check_described(self._logical)
        self.memory = TensorMemory(None if handle is None else self._taken(handle))

    def renew(self) -> None:
        """Declare that the memory of a constant has other contents: later executions compute again what depends on it.

        Results for the old contents live as long as a compiled partition that was executed on them.
        """
        self.memory = TensorMemory(self.memory.array, next(_generations))

    def _taken(self, handle: Array) -> Array:
        """The tensor's memory for a handle: the handle itself, or packed memory made from it."""
        logical, engine = self._logical, self._engine
        if logical.layout_type is LayoutType.opaque:
            return _checked_bytes(logical, handle, "an opaque layout", f"give {logical.nbytes} contiguous bytes of uint8")
        by_element = _BY_ELEMENT.get(logical.dtype)
        if by_element is None or engine is None:
            return _checked(logical, handle, _name(logical))
        if not isinstance(handle, np.ndarray) or handle.dtype != by_element or handle.shape != logical.known_shape:
            memory = f"its memory, two elements to a byte: {logical.nbytes} contiguous bytes of uint8"
            fix = f"give {memory}; or ml_dtypes.{by_element} of shape {logical.known_shape}, to be copied"
            return _checked_bytes(logical, handle, logical.dtype.value, fix)
        array = view(engine.allocate(logical.nbytes), logical)
        put(array, logical, handle.astype(logical.dtype.numpy))
        return array

    def __dlpack__(self, **request: Any) -> Any:
        """The memory for another library, shared. Raises NotExportable, a BufferError: numpy exports neither bf16 and f8 nor s4 and u4."""
        if self._logical.dtype.is_packed:
            what = f"{self._logical.dtype.value} memory has no DLPack form: two elements share a byte"
            raise NotExportable(what, where=_name(self._logical), fix="pass on the bytes, tensor.array, or a copy, tensor.elements")
        try:
            exporter: Any = self.array  # typed for numbers only; raises at run time
            return exporter.__dlpack__(**request)
        except BufferError as bad:
            what = f"{self._logical.dtype.value} memory has no DLPack form: {str(bad).rstrip('.')}"
            raise NotExportable(what, where=_name(self._logical), fix="pass on the bits: array.view(numpy.uint16 or numpy.uint8)") from bad

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the CPU."""
        return self.array.__dlpack_device__()

    def __repr__(self) -> str:
        return f"Tensor({self._logical})"


def _name(logical: object) -> str:
    return f"Tensor {logical.id}" if isinstance(logical, LogicalTensor) else "Tensor"


def _check_described(logical: LogicalTensor, *, may_be_open: bool = False) -> None:
    where = _name(logical)
    if not isinstance(logical, LogicalTensor):
        raise InvalidArguments(f"it is described by a {type(logical).__name__}", where=where, fix="give it a LogicalTensor")
    if logical.is_host_scalar:
        raise InvalidArguments("it is a host scalar", where=where, fix="use Tensor.make_scalar_tensor")
    if logical.dtype is DType.undef or not (may_be_open or logical.is_settled):
        fix = "ask the compiled partition for its logical tensor"
        raise InvalidArguments("its dtype and dims must be known and its layout strided or opaque", where=where, fix=fix)


def _checked(logical: LogicalTensor, handle: Array, where: str) -> Array:
    if not isinstance(handle, np.ndarray):
        raise InvalidArguments(f"the handle is a {type(handle).__name__}", where=where, fix="give a numpy array, ALLOCATE or None")
    want = tuple(s * logical.dtype.numpy.itemsize for s in logical.known_strides)
    if handle.dtype != logical.dtype.numpy or handle.shape != logical.known_shape:
        got = f"a {handle.dtype} array of shape {handle.shape}"
        raise InvalidArguments(got, where=where, fix=f"give {logical.dtype.numpy} of shape {logical.known_shape}")
    if prod(handle.shape) and any(d != 1 and s != w for d, s, w in zip(handle.shape, handle.strides, want, strict=True)):
        raise InvalidArguments(f"an array with byte strides {handle.strides}", where=where, fix=f"give one with strides {want}")
    return handle


def _checked_bytes(logical: LogicalTensor, handle: Array, what: str, fix: str) -> Array:
    is_bytes = isinstance(handle, np.ndarray) and handle.dtype == np.uint8
    if not (is_bytes and handle.shape == (logical.nbytes,) and handle.flags.c_contiguous):
        given = f"{handle.dtype} array of shape {handle.shape}" if isinstance(handle, np.ndarray) else type(handle).__name__
        raise InvalidArguments(f"a {given} for {what}", where=_name(logical), fix=fix)
    return handle


def _scalar(logical: LogicalTensor, value: ArrayLike) -> Array:
    """A read-only copy of the value, in the logical tensor's dtype."""
    given = np.asarray(value)
    if given.size != 1 or given.dtype.kind not in "biuf":
        what = f"the value is {value!r}"
        raise InvalidArguments(what, where=_name(logical), fix=f"give one number that {logical.dtype.value} can hold")
    scalar = given.reshape(()).astype(logical.dtype.numpy)
    if logical.dtype.is_integer and scalar != given.reshape(()):
        raise InvalidArguments(f"{value!r} is no {logical.dtype.value}", where=_name(logical), fix="give an integer in its range")
    scalar.flags.writeable = False
    return scalar


def _described(array: Array) -> LogicalTensor:
    """The logical tensor of an array: id 0, its dtype, dims and strides."""
    dtype = next((d for d in _OF_NUMPY if d.numpy == array.dtype), None)
    if dtype is None:
        raise InvalidArguments(f"no dtype is {array.dtype}", where="from_dlpack", fix=f"use {', '.join(str(d.numpy) for d in _OF_NUMPY)}")
    size = array.itemsize
    return LogicalTensor(0, dtype, array.shape, tuple(s // size for s in array.strides), property_type=PropertyType.variable)


_BY_ELEMENT = {DType.s4: np.dtype(ml_dtypes.int4), DType.u4: np.dtype(ml_dtypes.uint4)}  # numpy types with a byte per element
_OF_NUMPY = tuple(d for d in GRAPH_DTYPES if d is not DType.undef and not d.is_packed)
