"""Thread runtimes behind one symbol: `void benchgraph_parallel(ptr body, ptr ctx, i64 tasks)`.

It calls `body(ctx, begin, end, thread)` so that every task in 0 <= t < tasks is in exactly one non-empty [begin, end), with thread numbers
less than the thread count, and returns when all are done. One thread or one task runs inline.

    omp         GOMP_parallel of the OpenMP library that the process has loaded, or that the system has
    threadpool  the library's own workers (worker_pool.py)
    seq         a call
    auto        omp if the process has loaded an OpenMP library, whose threads others would compete with; else threadpool, whose fork and
                join are faster (docs/measurements/runtime.md)

Each (kind, threads) is a small compiled function, made once, so executables may differ in both.

In the child of a fork, libgomp would wait for ever for the threads of the parent. There, code that was compiled for omp runs on a pool that
was created before the fork, and new code is compiled for threadpool.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from benchgraph.codegen.emit import PARALLEL
from benchgraph.codegen.intrinsics import FAST_COMPILE
from benchgraph.core.errors import NO_THREAD, InvalidArguments, Unimplemented
from benchgraph.machine.target import ISAS
from benchgraph.runtime.code import Code, load
from benchgraph.runtime.worker_pool import Pool, too_many_threads

KINDS = ("auto", "omp", "threadpool", "seq")
_PORTABLE = ISAS["portable"]

_SEQ = f"""
define void @{PARALLEL}(ptr %body, ptr %ctx, i64 %tasks) {{
  %any = icmp sgt i64 %tasks, 0
  br i1 %any, label %run, label %done
run:
  call void %body(ptr %ctx, i64 0, i64 %tasks, i64 0)
  br label %done
done:
  ret void
}}
"""

# A team may be smaller than {threads} (nested regions, OMP_THREAD_LIMIT), so each thread queries its size.
_OMP = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
@{fallback} = external global ptr

define internal void @share(ptr %region) {{
  %body = load ptr, ptr %region
  %ctx.at = getelementptr {{ptr, ptr, i64}}, ptr %region, i64 0, i32 1
  %ctx = load ptr, ptr %ctx.at
  %tasks.at = getelementptr {{ptr, ptr, i64}}, ptr %region, i64 0, i32 2
  %tasks = load i64, ptr %tasks.at
  %id.32 = call i32 @omp_get_thread_num()
  %team.32 = call i32 @omp_get_num_threads()
  %id = sext i32 %id.32 to i64
  %team = sext i32 %team.32 to i64
  %next = add i64 %id, 1
  %first = mul i64 %id, %tasks
  %last = mul i64 %next, %tasks
  %begin = sdiv i64 %first, %team
  %end = sdiv i64 %last, %team
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %run, label %done
run:
  call void %body(ptr %ctx, i64 %begin, i64 %end, i64 %id)
  br label %done
done:
  ret void
}}

define void @{name}(ptr %body, ptr %ctx, i64 %tasks) {{
entry:
  %region = alloca {{ptr, ptr, i64}}
  %many = icmp sgt i64 %tasks, 1
  br i1 %many, label %ask, label %few
ask:
  %fallback = load ptr, ptr @{fallback}
  %is.child = icmp ne ptr %fallback, null
  br i1 %is.child, label %elsewhere, label %fork
elsewhere:
  call void %fallback(ptr %body, ptr %ctx, i64 %tasks)
  br label %done
fork:
  store ptr %body, ptr %region
  %ctx.at = getelementptr {{ptr, ptr, i64}}, ptr %region, i64 0, i32 1
  store ptr %ctx, ptr %ctx.at
  %tasks.at = getelementptr {{ptr, ptr, i64}}, ptr %region, i64 0, i32 2
  store i64 %tasks, ptr %tasks.at
  %team = call i64 @llvm.smin.i64(i64 %tasks, i64 {threads})
  %team.32 = trunc i64 %team to i32
  call void @GOMP_parallel(ptr @share, ptr %region, i32 %team.32, i32 0)
  br label %done
few:
  %any = icmp eq i64 %tasks, 1
  br i1 %any, label %run, label %done
run:
  call void %body(ptr %ctx, i64 0, i64 1, i64 0)
  br label %done
done:
  ret void
}}
"""
_FALLBACK = "benchgraph_fork_fallback"
_OMP_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


_OMP_FILE = re.compile(rb"/lib(?:gomp|iomp5|omp)\b[^/]*\.so[^/]*$")  # wheels have copies such as libgomp-24e2ab19.so.1.0.0


class _Object(ctypes.Structure):
    """struct dl_phdr_info of link.h. loads, unloads: how many objects the process has loaded and unloaded."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("file", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("count", ctypes.c_uint16),
        ("loads", ctypes.c_ulonglong),
        ("unloads", ctypes.c_ulonglong),
    )


_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)


def _loaded_omp() -> str | None:
    """The file of an OpenMP library that the process has loaded."""
    seen: list[tuple[int, int]] = []

    def visit(object: Any, size: int, data: object) -> int:
        seen.append((object.contents.loads, object.contents.unloads))
        return 1  # the same for all objects

    return _omp_of(seen[0]) if _visit_objects(visit) else None


@lru_cache(1)
def _omp_of(changes: tuple[int, int]) -> str | None:
    """Cached until something is loaded or unloaded: a search takes 0.2 ms, getting the counts 0.03."""
    files: list[bytes] = []

    def visit(object: Any, size: int, data: object) -> int:
        if _OMP_FILE.search(object.contents.file or b""):
            files.append(object.contents.file)
        return len(files)

    _visit_objects(visit)
    return os.fsdecode(files[0]) if files else None


def _visit_objects(visit: Callable[[Any, int, object], int]) -> int:
    """dl_iterate_phdr: visit loaded objects until the result is not 0, and return it; 0 where the system lacks the function.

    Called with the GIL held, as a thread that loads a library with the GIL held would deadlock with this one otherwise.
    """
    iterate = getattr(ctypes.PyDLL(None), "dl_iterate_phdr", None)
    return 0 if iterate is None else int(iterate(_Visit(visit), None))


def _omp_libraries() -> Iterator[str | None]:
    """Candidates, cheap ones first: find_library runs other programs, for tens of milliseconds each."""
    yield from (_loaded_omp(), "libgomp.so.1", "libiomp5.so", "libomp.so")
    yield from filter(None, map(ctypes.util.find_library, ("gomp", "iomp5")))


@cache
def omp_functions() -> dict[str, int]:
    """Addresses of the OpenMP functions that are called; {} if there is no OpenMP library.

    A library that the process has loaded is preferred, so that two OpenMP runtimes do not compete for cores.
    """
    for name in _omp_libraries():
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)  # never unloaded, as its threads stay
            return {f: ctypes.cast(getattr(library, f), ctypes.c_void_p).value or 0 for f in _OMP_FUNCTIONS}
        except (OSError, AttributeError):
            continue
    return {}


@cache
def _code(kind: str, threads: int) -> tuple[Code, Pool | None]:
    if kind == "seq" or threads == 1:
        return load(_SEQ, _PORTABLE, {}, opt=FAST_COMPILE), None
    if kind == "omp":
        _try_threads(threads)
        entry = _fork_fallbacks.setdefault(threads, _ForkFallback()).entry
        text = _OMP.format(name=PARALLEL, threads=threads, fallback=_FALLBACK)
        return load(text, _PORTABLE, {**omp_functions(), _FALLBACK: ctypes.addressof(entry)}, opt=FAST_COMPILE), None
    pool = Pool(threads, PARALLEL)
    return pool.code, pool


def _try_threads(threads: int) -> None:
    """Raises InvalidArguments if so many threads cannot be started, where libgomp would end the process."""
    leave, started = threading.Event(), list[threading.Thread]()
    try:
        for _ in range(threads - 1):
            started.append(threading.Thread(target=leave.wait, daemon=True))
            started[-1].start()
    except NO_THREAD as bad:
        raise too_many_threads(threads, len(started)) from bad
    finally:
        leave.set()
        for thread in started:
            if thread.ident is not None:
                thread.join()


@cache
def max_threads() -> int:
    """The system's limit of threads."""
    try:
        return min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    except (OSError, ValueError):
        return 1 << 15  # Linux's default


@dataclass
class _ForkFallback:
    """The pool that omp's regions run on in the child of a fork, for one thread count. entry: its function in a child, null elsewhere."""

    entry: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    pool: Pool | None = None


_fork_fallbacks: dict[int, _ForkFallback] = {}
_is_forked = False


def _before_fork() -> None:
    """Compile the pools before the fork, as the handler in the child should not compile: the child may exec at once."""
    for threads, fallback in list(_fork_fallbacks.items()):
        if fallback.pool is None:
            fallback.pool = Pool(threads, PARALLEL, is_spare=True)


def _after_fork() -> None:
    global _is_forked
    _is_forked = True
    for fallback in list(_fork_fallbacks.values()):
        if fallback.pool is not None:
            fallback.entry.value = fallback.pool.code.address(PARALLEL)


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def resolve_runtime(kind: str) -> str:
    """The runtime that `auto` selects on this system; threadpool for omp in the child of a fork."""
    if kind == "auto":
        kind = "omp" if _loaded_omp() and omp_functions() else "threadpool"
    return "threadpool" if kind == "omp" and _is_forked and omp_functions() else kind


def runtime_symbol(kind: str, threads: int) -> int:
    """The address of `benchgraph_parallel` for this runtime and thread count.

    InvalidArguments for an unknown kind, or too few or too many threads; Unimplemented for omp without an OpenMP library.
    """
    if kind not in KINDS:
        raise InvalidArguments(f"no thread runtime is called {kind!r}", where="thread runtime", fix=f"choose one of {', '.join(KINDS)}")
    if threads < 1:
        raise InvalidArguments(f"{threads} threads", where="thread runtime", fix="use at least one")
    if threads > max_threads() and kind != "seq":
        raise too_many_threads(threads, max_threads())
    kind = resolve_runtime(kind)
    if kind == "omp" and not omp_functions():
        raise Unimplemented("no OpenMP library on this system", where="thread runtime omp", fix="install libgomp, or choose threadpool")
    code, _ = _code(kind, threads)
    return code.address(PARALLEL)
