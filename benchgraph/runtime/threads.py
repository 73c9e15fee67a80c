"""Thread runtimes behind one symbol: `void benchgraph_parallel(ptr body, ptr ctx, i64 tasks)`.

It calls `body(ctx, begin, end, thread)` so that every task in 0 <= t < tasks is in exactly one [begin, end), each share not empty and
each thread number less than the thread count. It returns when all are done. One thread or one task runs inline and wakes nobody.

    omp         GOMP_parallel of the OpenMP library that the process already has, or that the system offers
    threadpool  our own workers (pool.py)
    seq         a call
    auto        omp if the process has an OpenMP library already, whose threads ours would compete with; else threadpool, whose regions
                begin and end sooner: 0.4 us of an empty one against 0.8 to 1.6 of libgomp, with 2 threads on a Cascade Lake server (least
                of 5000 in a row, ten runs); MLP_1 of the Graph Compiler paper in int8 at batch 32 took 13.6 us in place of 14.9

Each (kind, threads) is a small compiled function of its own, made once and kept, so executables may differ in both.

libgomp waits for ever in the child of a fork for the threads that its parent had. So there, what was compiled for omp runs on a pool that
was made ready before the fork, and what is compiled then on threadpool.
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
from benchgraph.core.target import ISAS
from benchgraph.runtime.code import Code, load
from benchgraph.runtime.pool import Pool, too_many

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

# {threads} is baked in. A team may come out smaller than asked for (nested regions, OMP_THREAD_LIMIT), so a thread asks how many they are.
_OMP = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
@{survivor} = external global ptr

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
  %survivor = load ptr, ptr @{survivor}
  %is.child = icmp ne ptr %survivor, null
  br i1 %is.child, label %elsewhere, label %fork
elsewhere:
  call void %survivor(ptr %body, ptr %ctx, i64 %tasks)
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
_SURVIVOR = "benchgraph_survivor"
_OMP_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


_OMP_FILE = re.compile(rb"/lib(?:gomp|iomp5|omp)\b[^/]*\.so[^/]*$")  # wheels bring copies as libgomp-24e2ab19.so.1.0.0


class _Object(ctypes.Structure):
    """struct dl_phdr_info of link.h. loads, unloads: how often the process has loaded and unloaded anything so far."""

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
    """The file of an OpenMP library that the process has, whoever loaded it."""
    seen: list[tuple[int, int]] = []

    def look(found: Any, size: int, data: object) -> int:
        seen.append((found.contents.loads, found.contents.unloads))
        return 1  # the first tells for all

    return _omp_of(seen[0]) if _each_object(look) else None


@lru_cache(1)
def _omp_of(changes: tuple[int, int]) -> str | None:
    """As long as nothing was loaded or unloaded since: looking takes 0.2 ms, asking whether to look 0.03."""
    files: list[bytes] = []

    def look(found: Any, size: int, data: object) -> int:
        if _OMP_FILE.search(found.contents.file or b""):
            files.append(found.contents.file)
        return len(files)

    _each_object(look)
    return os.fsdecode(files[0]) if files else None


def _each_object(look: Callable[[Any, int, object], int]) -> int:
    """dl_iterate_phdr: look at one loaded object after the other, until something other than 0 is returned; 0 where the system has none.

    Python's lock is held all the while, or a thread that loads something with it would wait for ours, and ours for it.
    """
    iterate = getattr(ctypes.PyDLL(None), "dl_iterate_phdr", None)
    return 0 if iterate is None else int(iterate(_Visit(look), None))


def _omp_libraries() -> Iterator[str | None]:
    """Where to look, the likeliest first: find_library runs other programs, for tens of milliseconds each."""
    yield from (_loaded_omp(), "libgomp.so.1", "libiomp5.so", "libomp.so")
    yield from filter(None, map(ctypes.util.find_library, ("gomp", "iomp5")))


@cache
def omp_functions() -> dict[str, int]:
    """Addresses of the OpenMP functions we call; {} when there is no OpenMP library.

    A library that the process has loaded wins, so that two OpenMP runtimes do not compete for the cores.
    """
    for name in _omp_libraries():
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)  # never unloaded: its threads may outlive every user
            found = {f: ctypes.cast(getattr(library, f), ctypes.c_void_p).value or 0 for f in _OMP_FUNCTIONS}
        except (OSError, AttributeError):
            continue
        return found
    return {}


@cache
def _code(kind: str, threads: int) -> tuple[Code, Pool | None]:
    if kind == "seq" or threads == 1:
        return load(_SEQ, _PORTABLE, {}, opt=FAST_COMPILE), None
    if kind == "omp":
        _try_threads(threads)
        entry = _survivors.setdefault(threads, _Survivor()).entry
        text = _OMP.format(name=PARALLEL, threads=threads, survivor=_SURVIVOR)
        return load(text, _PORTABLE, {**omp_functions(), _SURVIVOR: ctypes.addressof(entry)}, opt=FAST_COMPILE), None
    pool = Pool(threads, PARALLEL)
    return pool.code, pool


def _try_threads(threads: int) -> None:
    """libgomp ends the process when it cannot start its threads. Raises InvalidArguments when they cannot be started."""
    leave, started = threading.Event(), list[threading.Thread]()
    try:
        for _ in range(threads - 1):
            started.append(threading.Thread(target=leave.wait, daemon=True))
            started[-1].start()
    except NO_THREAD as bad:
        raise too_many(threads, len(started)) from bad
    finally:
        leave.set()
        for thread in started:
            if thread.ident is not None:
                thread.join()


@cache
def most_threads() -> int:
    """How many threads the system could have in all, each with a number of its own."""
    try:
        return min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    except (OSError, ValueError):
        return 1 << 15  # Linux's own unless it is told otherwise


@dataclass
class _Survivor:
    """What omp's regions run on in the child of a fork, for one number of threads: entry points to it there, and is null elsewhere."""

    entry: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    pool: Pool | None = None


_survivors: dict[int, _Survivor] = {}
_is_forked = False


def _before_fork() -> None:
    """Compile now what the child will need: LLVM is at rest there, but a fork may be all that it does."""
    for threads, survivor in list(_survivors.items()):
        if survivor.pool is None:
            survivor.pool = Pool(threads, PARALLEL, is_spare=True)


def _after_fork() -> None:
    global _is_forked
    _is_forked = True
    for survivor in list(_survivors.values()):
        if survivor.pool is not None:
            survivor.entry.value = survivor.pool.code.address(PARALLEL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def resolved(kind: str) -> str:
    """The runtime that is meant: what `auto` stands for on this system, and omp in the child of a fork."""
    if kind == "auto":
        kind = "omp" if _loaded_omp() and omp_functions() else "threadpool"
    return "threadpool" if kind == "omp" and _is_forked and omp_functions() else kind


def runtime_symbol(kind: str, threads: int) -> int:
    """The address of `benchgraph_parallel` for this runtime and thread count.

    Raises InvalidArguments for an unknown kind, a count below 1 and one of more threads than can be started, Unimplemented for omp where
    no OpenMP library is found.
    """
    if kind not in KINDS:
        raise InvalidArguments(f"no thread runtime is called {kind!r}", where="thread runtime", fix=f"choose one of {', '.join(KINDS)}")
    if threads < 1:
        raise InvalidArguments(f"{threads} threads", where="thread runtime", fix="use at least one")
    if threads > most_threads() and kind != "seq":
        raise too_many(threads, most_threads())
    kind = resolved(kind)
    if kind == "omp" and not omp_functions():
        raise Unimplemented("no OpenMP library on this system", where="thread runtime omp", fix="install libgomp, or choose threadpool")
    code, _ = _code(kind, threads)
    return code.address(PARALLEL)
