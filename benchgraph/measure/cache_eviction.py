"""Cold caches: flushes the cache lines of given arrays, and evicts TLB entries.

`clflush` removes a line from every cache of the machine, so afterwards the data are only in memory, whatever their size, and everything
else (code, stacks, temporaries) stays cached. All threads take part, so they are awake at the end, as they are between two executions.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchgraph.codegen.emit import PARALLEL
from benchgraph.core.errors import OutOfMemory, Unimplemented
from benchgraph.core.pages import anonymous
from benchgraph.machine.target import LINE_BYTES, PAGE_BYTES, Target
from benchgraph.runtime.code import Code
from benchgraph.runtime.jit import jit

CHUNK_BYTES = 64 << 10  # of one task of the flush: small enough to share a few hundred KB among threads


class Eviction:
    """Makes arrays cold when called. tlb_bytes: how much other memory every thread touches afterwards, page by page; 0 for none.

    Pages of 4 KiB are touched. Reading memory that was never written maps many addresses to one page of zeros, so it evicts TLB entries but
    no cached data. TLB entries of huge pages, which some processors keep apart at the first level (32 for 2 MiB there), are not evicted.
    Raises Unimplemented on processors that are not x86-64, OutOfMemory.
    """

    def __init__(self, arrays: Sequence[NDArray[np.generic]], tlb_bytes: int, threads: int, target: Target) -> None:
        if platform.machine() not in ("x86_64", "AMD64"):
            what = f"cold caches are made with clflush, which this {platform.machine()} processor lacks"
            raise Unimplemented(what, where="--cold-cache", fix="measure with --cold-cache=none")
        self._arrays = tuple(arrays)  # kept alive: their addresses are in the table
        self._chunks = _chunks(self._arrays)
        self._code = _code(replace(target, cores=threads))
        self._threads = threads
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self._flush: Any = prototype(self._code.address("flush"))
        self._touch: Any = prototype(self._code.address("touch"))
        self._pages = _pages(tlb_bytes) if tlb_bytes else None
        if self._pages is not None:
            self._region = np.array([self._pages.ctypes.data, self._pages.ctypes.data + self._pages.size], np.int64)
            self._touch(self._region.ctypes.data, 1)  # the first touch of a page is a page fault, not a page walk

    def __call__(self) -> None:
        """Flush, then touch: flushing uses the TLB entries of the flushed data."""
        if len(self._chunks):
            self._flush(self._chunks.ctypes.data, len(self._chunks))
        if self._pages is not None:
            self._touch(self._region.ctypes.data, self._threads)


def _chunks(arrays: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    """(address of the first line, address after the last) of chunks that cover all arrays: [chunks, 2]."""
    chunks = [np.zeros((0, 2), np.int64)]
    for array in arrays:
        if not array.size:
            continue
        begin = array.ctypes.data // LINE_BYTES * LINE_BYTES
        end = array.ctypes.data + sum((d - 1) * s for d, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
        starts = np.arange(begin, end, CHUNK_BYTES, dtype=np.int64)
        chunks.append(np.stack([starts, np.minimum(starts + CHUNK_BYTES, end)], axis=1))
    return np.concatenate(chunks)


def _pages(nbytes: int) -> NDArray[np.uint8]:
    """Memory in small pages, never written. Raises OutOfMemory."""
    try:
        memory = anonymous(nbytes)
    except OSError as full:
        raise OutOfMemory(f"cannot map {nbytes} bytes to touch", where="--cold-cache", fix="give a smaller +tlb:SIZE") from full
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8)


_TEXT = """
declare void @{parallel}(ptr, ptr, i64)
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()

define internal void @flush.some(ptr %chunks, i64 %begin, i64 %end, i64 %thread) {{
entry:
  br label %chunk
chunk:
  %c = phi i64 [%begin, %entry], [%c.next, %flushed]
  %from.at = getelementptr {{ptr, ptr}}, ptr %chunks, i64 %c, i32 0
  %to.at = getelementptr {{ptr, ptr}}, ptr %chunks, i64 %c, i32 1
  %from = load ptr, ptr %from.at
  %to = load ptr, ptr %to.at
  br label %line
line:
  %at = phi ptr [%from, %chunk], [%at.next, %line]
  call void @llvm.x86.sse2.clflush(ptr %at)
  %at.next = getelementptr i8, ptr %at, i64 {line_bytes}
  %more = icmp ult ptr %at.next, %to
  br i1 %more, label %line, label %flushed
flushed:
  %c.next = add i64 %c, 1
  %again = icmp slt i64 %c.next, %end
  br i1 %again, label %chunk, label %done
done:
  call void @llvm.x86.sse2.mfence()
  ret void
}}

define internal void @touch.all(ptr %region, i64 %begin, i64 %end, i64 %thread) {{
entry:
  %from = load ptr, ptr %region
  %to.at = getelementptr {{ptr, ptr}}, ptr %region, i64 0, i32 1
  %to = load ptr, ptr %to.at
  br label %page
page:
  %at = phi ptr [%from, %entry], [%at.next, %page]
  %byte = load volatile i8, ptr %at
  %at.next = getelementptr i8, ptr %at, i64 {page_bytes}
  %more = icmp ult ptr %at.next, %to
  br i1 %more, label %page, label %done
done:
  ret void
}}

define void @flush(ptr %chunks, i64 %count) {{
  call void @{parallel}(ptr @flush.some, ptr %chunks, i64 %count)
  ret void
}}

define void @touch(ptr %region, i64 %threads) {{
  call void @{parallel}(ptr @touch.all, ptr %region, i64 %threads)
  ret void
}}
"""


@cache
def _code(target: Target) -> Code:
    """Code of `flush(chunks, count)` and `touch((begin, end), threads)`."""
    return jit([_TEXT.format(parallel=PARALLEL, line_bytes=LINE_BYTES, page_bytes=PAGE_BYTES)], target)
