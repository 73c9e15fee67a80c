"""Checks that buffers match the tensors that code was compiled for."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.errors import InvalidArguments
from benchgraph.tir.ir import Tensor

Array: TypeAlias = NDArray[np.generic]
BoundTensor: TypeAlias = tuple[Tensor, Array]  # what code was compiled for, and the buffer for it
MAX_WORK = 100_000  # steps of numpy's exact search for a common element; two strided 4-d arrays take a few hundred
OVERLAP_REMEDY = "give every output memory of its own"


def check_buffers(role: str, arrays: Sequence[Array], tensors: tuple[Tensor, ...]) -> None:
    if len(arrays) != len(tensors):
        raise InvalidArguments(f"{len(arrays)} {role}s given, {len(tensors)} needed", where="bind")
    for position, (array, t) in enumerate(zip(arrays, tensors, strict=True)):
        where = f"bind: {role} {position} ({t.name})"
        if t.dtype.is_packed:
            _check_packed(array, t, where)
            continue
        if array.dtype != t.dtype.numpy:
            what = f"dtype {array.dtype}, compiled for {t.dtype.value}"
            raise InvalidArguments(what, where=where, fix=f"pass numpy dtype {t.dtype.numpy}")
        if not _has_layout(array, t):
            strides = tuple(s // array.itemsize for s in array.strides)
            what = f"shape {array.shape} with strides {strides}, compiled for shape {t.shape} with strides {t.strides}"
            raise InvalidArguments(what, where=where, fix="copy it into that layout")
        if role == "output" and not array.flags.writeable:
            raise InvalidArguments("the array is read-only", where=where, fix="pass a writeable one")


def _check_packed(array: Array, t: Tensor, where: str) -> None:
    if array.dtype != np.uint8 or array.shape != (t.nbytes,) or not array.flags.c_contiguous:
        got = f"{array.dtype} of shape {array.shape} with byte strides {array.strides}"
        fix = f"pass its memory, two elements to a byte: {t.nbytes} contiguous bytes of uint8"
        raise InvalidArguments(f"{got}, compiled for {t.dtype.value}", where=where, fix=fix)


def _has_layout(array: Array, t: Tensor) -> bool:
    """Whether the array has the tensor's shape and strides; for a tensor that was flattened, whether it has the same extent in memory."""
    size = array.itemsize
    if array.ndim != len(t.shape):
        reach = 1 + sum((d - 1) * s // size for d, s in zip(array.shape, array.strides, strict=True)) if array.size else 0
        return all(s >= 0 for s in array.strides) and reach * size == t.nbytes
    if array.shape != t.shape:
        return False
    return array.size == 0 or all(d == 1 or got == want * size for d, got, want in zip(t.shape, array.strides, t.strides, strict=True))


def check_no_overlap(inputs: Sequence[BoundTensor], outputs: Sequence[BoundTensor], inplace: Set[tuple[int, int]]) -> None:
    """Raises InvalidArguments for overlaps: compiled code assumes that parameters do not alias, except for the pairs of inplace."""
    for o, (out, array) in enumerate(outputs):
        where = f"bind: output {o} ({out.name})"
        for i, (t, other) in enumerate(inputs):
            if not overlap(array, other):
                continue
            may_overlap = (i, o) in inplace
            if not may_overlap or address(array) != address(other):
                fix = "give it exactly that memory, or memory of its own" if may_overlap else OVERLAP_REMEDY
                raise InvalidArguments(f"it overlaps input {i} ({t.name})", where=where, fix=fix)
        for i, (t, other) in enumerate(outputs[:o]):
            if overlap(array, other):
                raise InvalidArguments(f"it overlaps output {i} ({t.name})", where=where, fix=OVERLAP_REMEDY)


def check_scratchpad(scratchpad: Array, nbytes: int, others: Sequence[BoundTensor]) -> None:
    """Raises InvalidArguments unless a user's scratchpad has nbytes contiguous bytes that overlap no other buffer."""
    if scratchpad.nbytes < nbytes or not scratchpad.flags.c_contiguous or not scratchpad.flags.writeable:
        state = "contiguous" if scratchpad.flags.c_contiguous else "scattered"
        what = f"{scratchpad.nbytes} {state}{'' if scratchpad.flags.writeable else ', read-only'} bytes"
        raise InvalidArguments(what, where="bind: scratchpad", fix=f"give {nbytes} contiguous bytes that may be written")
    for t, array in others:
        if overlap(scratchpad, array):
            raise InvalidArguments(f"it overlaps {t.name}", where="bind: scratchpad", fix="give it memory of its own")


def address(array: Array) -> int:
    """The address of the first element."""
    return int(array.__array_interface__["data"][0])


def overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share an element, or it takes too much work to find out."""
    try:
        return np.shares_memory(a, b, max_work=MAX_WORK)  # type: ignore[arg-type]  # the stubs know -1 and 0 alone
    except np.exceptions.TooHardError:
        return True
