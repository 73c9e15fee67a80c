from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.core.errors import InvalidArguments, Unimplemented
from benchgraph.machine.target import ISAS
from benchgraph.runtime import threads as runtimes
from benchgraph.runtime.code import Code, load
from benchgraph.runtime.threads import omp_functions, resolve_runtime, runtime_symbol

Tasks = NDArray[np.int64]
COUNTS = (0, 1, 2, 3, 7, 100)

# run(marks, tasks, times): each task adds 1 to marks[task], and marks[tasks + thread] counts that thread's tasks
BODY = """
declare void @benchgraph_parallel(ptr, ptr, i64)

define void @body(ptr %ctx, i64 %begin, i64 %end, i64 %thread) {
entry:
  %marks = load ptr, ptr %ctx
  %tasks.at = getelementptr {ptr, i64}, ptr %ctx, i64 0, i32 1
  %tasks = load i64, ptr %tasks.at
  %slot = add i64 %tasks, %thread
  %mine = getelementptr i64, ptr %marks, i64 %slot
  br label %task
task:
  %t = phi i64 [%begin, %entry], [%next, %task]
  %at = getelementptr i64, ptr %marks, i64 %t
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %count = load i64, ptr %mine
  %more = add i64 %count, 1
  store i64 %more, ptr %mine
  %next = add i64 %t, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %task, label %done
done:
  ret void
}

define void @nested(ptr %ctx, i64 %begin, i64 %end, i64 %thread) {
entry:
  br label %task
task:
  %t = phi i64 [%begin, %entry], [%next, %task]
  %table.at = getelementptr ptr, ptr %ctx, i64 %t
  %inner = load ptr, ptr %table.at
  %tasks.at = getelementptr {ptr, i64}, ptr %inner, i64 0, i32 1
  %tasks = load i64, ptr %tasks.at
  call void @benchgraph_parallel(ptr @body, ptr %inner, i64 %tasks)
  %next = add i64 %t, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %task, label %done
done:
  ret void
}

define void @outer(ptr %table, i64 %tasks) {
  call void @benchgraph_parallel(ptr @nested, ptr %table, i64 %tasks)
  ret void
}

define void @run(ptr %marks, i64 %tasks, i64 %times) {
entry:
  %ctx = alloca {ptr, i64}
  store ptr %marks, ptr %ctx
  %tasks.at = getelementptr {ptr, i64}, ptr %ctx, i64 0, i32 1
  store i64 %tasks, ptr %tasks.at
  br label %region
region:
  %r = phi i64 [0, %entry], [%next, %region]
  call void @benchgraph_parallel(ptr @body, ptr %ctx, i64 %tasks)
  %next = add i64 %r, 1
  %again = icmp slt i64 %next, %times
  br i1 %again, label %region, label %done
done:
  ret void
}
"""


def compiled(kind: str, threads: int) -> Code:
    return load(BODY, ISAS["portable"], {"benchgraph_parallel": runtime_symbol(kind, threads)})


def runner(code: Code) -> Callable[[int, int, int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.address("run"))


def marks(code: Code, tasks: int, threads: int, times: int = 1) -> tuple[Tasks, Tasks]:
    """(how often each task ran, how many tasks each thread ran)."""
    found = np.zeros(tasks + threads, np.int64)
    runner(code)(found.ctypes.data, tasks, times)
    return found[:tasks], found[tasks:]


@pytest.fixture(params=["omp", "threadpool", "seq"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "omp" and not omp_functions():
        pytest.skip("no OpenMP library on this system")
    return str(request.param)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("tasks", COUNTS)
def test_every_task_runs_once_in_shares_that_differ_by_at_most_one(kind: str, tasks: int, threads: int) -> None:
    done, per_thread = marks(compiled(kind, threads), tasks, threads)
    assert (done == 1).all()
    team = 1 if kind == "seq" or tasks <= 1 else min(threads, tasks)
    assert (per_thread > 0).sum() == min(team, tasks)
    assert tasks == 0 or per_thread[:team].max() - per_thread[:team].min() <= 1


def test_many_regions_in_a_row_lose_nothing(kind: str) -> None:
    for threads in (2, 4):
        done, _ = marks(compiled(kind, threads), 7, threads, times=300)
        assert (done == 300).all()


def test_workers_that_fell_asleep_wake_up() -> None:
    code = compiled("threadpool", 4)
    for _ in range(3):
        assert (marks(code, 9, 4)[0] == 1).all()
        threading.Event().wait(0.01)  # far longer than they spin


SLOW = """
declare void @benchgraph_parallel(ptr, ptr, i64)
declare i32 @usleep(i32)

define void @body(ptr %marks, i64 %begin, i64 %end, i64 %thread) {
entry:
  %at = getelementptr i64, ptr %marks, i64 %thread
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %is.caller = icmp eq i64 %thread, 0
  br i1 %is.caller, label %done, label %slow
slow:
  %numbers = trunc i64 %thread to i32
  %us = mul i32 %numbers, 300
  %rc = call i32 @usleep(i32 %us)
  br label %done
done:
  ret void
}

define void @run(ptr %marks, i64 %tasks) {
  call void @benchgraph_parallel(ptr @body, ptr %marks, i64 %tasks)
  ret void
}
"""


def test_a_caller_that_fell_asleep_wakes_up() -> None:
    """Workers that take far longer than a caller spins, each another time; callers of several threads find the pool as it should be."""
    code = load(SLOW, ISAS["portable"], {"benchgraph_parallel": runtime_symbol("threadpool", 4)})
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("run"))
    found = np.zeros((3, 4), np.int64)

    def caller(marks: NDArray[np.int64]) -> None:
        for _ in range(40):
            run(marks.ctypes.data, 4)

    callers = [threading.Thread(target=caller, args=(marks,)) for marks in found]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    assert not any(thread.is_alive() for thread in callers), "a caller sleeps for ever"
    assert (found[:, 0] == 40).all()
    assert (found[:, 1:] == found[:, 1:2]).all()


def test_a_worker_woken_too_early_goes_back_to_sleep() -> None:
    """As by a caller that saw a worker asleep, was held up, and took the flag of its next sleep: the worker ran its last region again."""
    code, (_, pool) = compiled("threadpool", 3), runtimes._code("threadpool", 3)
    assert pool is not None
    libc, flags = ctypes.CDLL(None), pool._memory.view(np.int32)
    for _ in range(5):
        assert (marks(code, 9, 3)[0] == 1).all()
        for box in (256, 384):  # of the two workers
            for _ in range(1000):
                if flags[(box + 8) // 4] == 1:
                    break
                threading.Event().wait(0.001)
            assert flags[(box + 8) // 4] == 1, "the worker never sleeps"
            flags[(box + 8) // 4] = 0
            libc.sem_post(ctypes.c_void_p(pool._memory.ctypes.data + box + 16))
        threading.Event().wait(0.005)
        assert pool._memory[128:136].view(np.int64)[0] == 0, "a region ran twice"


def test_concurrent_callers_each_get_their_whole_region(kind: str) -> None:
    code, results = compiled(kind, 4), list[Tasks]()
    run = runner(code)

    def caller() -> None:
        for _ in range(20):
            found = np.zeros(17 + 4, np.int64)
            run(found.ctypes.data, 17, 10)
            results.append(found[:17])

    callers = [threading.Thread(target=caller) for _ in range(3)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert len(results) == 60
    assert all((r == 10).all() for r in results)


def test_a_region_inside_a_region_runs(kind: str) -> None:
    code = compiled(kind, 2)
    found = [np.zeros(5 + 2, np.int64) for _ in range(3)]
    contexts = [(ctypes.c_int64 * 2)(f.ctypes.data, 5) for f in found]
    table = (ctypes.c_void_p * 3)(*(ctypes.addressof(c) for c in contexts))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("outer"))(ctypes.addressof(table), 3)
    assert all((f[:5] == 1).all() for f in found)


def test_runtimes_and_thread_counts_live_side_by_side() -> None:
    addresses = {runtime_symbol(k, t) for k in ("threadpool", "seq") for t in (2, 3)}
    assert len(addresses) >= 3
    assert runtime_symbol("threadpool", 2) == runtime_symbol("threadpool", 2)


CHANGES = count(1 << 40)  # no process has loaded as many libraries


def has_loaded(monkeypatch: pytest.MonkeyPatch, *files: str) -> None:
    """From now on the process seems to consist of these."""
    changes = next(CHANGES)
    objects = [runtimes._Object(file=os.fsencode(file), loads=changes) for file in ("", *files)]

    def each(look: Callable[[object, int, object], int]) -> int:
        return next((found for o in objects if (found := look(ctypes.pointer(o), 0, None))), 0)

    monkeypatch.setattr(runtimes, "_visit_objects", each)


@pytest.mark.parametrize(
    "file",
    [
        "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0",
        "/venv/torch.libs/libgomp-24e2ab19.so.1.0.0",
        "/opt/intel/libiomp5.so",
        "/usr/lib/libomp.so.5",
    ],
)
def test_auto_is_omp_in_a_process_that_has_it(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    has_loaded(monkeypatch, "/usr/lib/libgompertz.so.1", file, "/lib/libc.so.6")
    monkeypatch.setattr(runtimes, "omp_functions", lambda: {"GOMP_parallel": 1})
    assert runtimes._loaded_omp() == file
    assert resolve_runtime("auto") == "omp"


@pytest.mark.parametrize("files", [("/usr/lib/libgompertz.so.1", "/usr/lib/libomptarget.so"), ()])
def test_auto_is_the_threadpool_elsewhere(monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]) -> None:
    has_loaded(monkeypatch, *files)
    assert resolve_runtime("auto") == "threadpool"
    assert runtime_symbol("auto", 2) == runtime_symbol("threadpool", 2)


def test_a_copy_that_is_loaded_later_is_noticed(tmp_path: Path) -> None:
    """In a process that has been asked before, by a name of a wheel's, for nobody else to see."""
    library = next((Path(f) for f in map(_file_of, ("libgomp.so.1", "libomp.so")) if f), None)
    if library is None:
        pytest.skip("no OpenMP library")
    copy = tmp_path / "libgomp-24e2ab19.so.1.0.0"
    copy.write_bytes(library.read_bytes())
    script = """
import ctypes, sys
from benchgraph.runtime import threads
assert threads._loaded_omp() is None
library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
assert threads._loaded_omp() == sys.argv[1]
"""
    subprocess.run([sys.executable, "-c", script, str(copy)], check=True, timeout=60)


def _file_of(name: str) -> str | None:
    """Where the loader finds a library, told by a process that has it."""
    script = "import ctypes, sys; from benchgraph.runtime import threads; ctypes.CDLL(sys.argv[1]); print(threads._loaded_omp())"
    done = subprocess.run([sys.executable, "-c", script, name], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() if not done.returncode else None


def test_a_library_that_is_loaded_is_noticed(kind: str) -> None:
    """What the tests of this file load themselves, if nobody did."""
    if kind == "omp":
        assert omp_functions()
        assert resolve_runtime("auto") == "omp"


def test_omp_without_a_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "omp_functions", dict)
    with pytest.raises(Unimplemented, match=r"no OpenMP library.*threadpool"):
        runtime_symbol("omp", 2)


@pytest.mark.parametrize(("kind", "threads", "message"), [("tbb", 2, "'tbb'.*auto, omp"), ("seq", 0, "0 threads; use at least one")])
def test_invalid_runtimes_and_thread_counts_are_refused(kind: str, threads: int, message: str) -> None:
    with pytest.raises(InvalidArguments, match=message):
        runtime_symbol(kind, threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_the_threadpool_works_in_the_child_of_a_fork_and_after_it() -> None:
    script = f"""
import os, sys
sys.path[:0] = {sys.path!r}
import importlib.util
spec = importlib.util.spec_from_file_location("t", {__file__!r})
t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
code = t.compiled("threadpool", 3)
assert (t.marks(code, 50, 3)[0] == 1).all()
pid = os.fork()
done, per_thread = t.marks(code, 50, 3)
good = (done == 1).all() and (per_thread > 0).all()
if pid == 0:
    os._exit(0 if good else 3)
assert os.waitpid(pid, 0)[1] == 0
assert good
print("fine")
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "fine\n", "")


def test_a_process_with_workers_ends_cleanly_even_with_calls_after_shutdown() -> None:
    script = f"""
import atexit, sys
sys.path[:0] = {sys.path!r}
import importlib.util
spec = importlib.util.spec_from_file_location("t", {__file__!r})
t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
atexit.register(lambda: print((t.marks(code, 50, 3)[0] == 1).all()))  # runs after the pool has stopped: it registered later
code = t.compiled("threadpool", 3)
t.marks(code, 50, 3)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "True\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("load", ["idle", "busy"])
def test_omp_works_in_the_child_of_a_fork_and_after_it(load: str) -> None:
    """What was compiled before, and what is compiled then; whatever other threads of the parent are at."""
    if not omp_functions():
        pytest.skip("no OpenMP library on this system")
    script = f"""
import os, sys, threading
sys.path[:0] = {sys.path!r}
import importlib.util
spec = importlib.util.spec_from_file_location("t", {__file__!r})
t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
code = t.compiled("omp", 3)
def right(code):
    done, per_thread = t.marks(code, 50, 3)
    return (done == 1).all() and (per_thread > 0).all()
assert right(code)
going = {load == "busy"}
def work():
    while going:
        t.compiled("omp", 3), right(code)
threads = [threading.Thread(target=work) for _ in range(2)]
for each in threads: each.start()
for turn in range(5):
    pid = os.fork()
    if pid == 0:
        import signal; signal.alarm(20)  # ends what hangs
        good = right(code) and right(t.compiled("omp", 3)) and right(t.compiled("auto", 3)) and t.resolve_runtime("omp") == "threadpool"
        os._exit(0 if good else 3)
    assert os.waitpid(pid, 0)[1] == 0, turn
going = False
for each in threads: each.join()
assert right(code) and t.resolve_runtime("omp") == "omp"
print("fine")
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "fine\n", "")


@pytest.fixture
def few_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A system that lets two threads start beside this one."""
    really_start, left = threading.Thread.start, [2]

    def start(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        really_start(thread)

    runtimes._code.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield 3
    runtimes._code.cache_clear()


@pytest.mark.parametrize("kind", ["omp", "threadpool"])
def test_more_threads_than_the_system_starts_are_refused_with_their_number(kind: str, few_threads: int) -> None:
    if kind == "omp" and not omp_functions():
        pytest.skip("no OpenMP library on this system")
    before = threading.active_count()
    with pytest.raises(InvalidArguments, match=f"thread runtime: this system lets only {few_threads} of 5 threads start; use --threads=3 "):
        runtime_symbol(kind, 5)
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [10**6, 10**20])
@pytest.mark.parametrize("kind", ["omp", "threadpool", "auto"])
def test_more_threads_than_there_are_numbers_for_are_not_tried(kind: str, threads: int) -> None:
    with pytest.raises(InvalidArguments, match=rf"this system lets only \d+ of {threads} threads start"):
        runtime_symbol(kind, threads)


def test_a_fork_that_gets_fewer_threads_has_smaller_regions(few_threads: int) -> None:
    pool = runtimes.Pool(5, "benchgraph_parallel", is_spare=True)
    assert pool._start() == few_threads
    code = load(BODY, ISAS["portable"], {"benchgraph_parallel": pool.code.address("benchgraph_parallel")})
    done, per_thread = marks(code, 50, 5)
    pool.close()
    assert (done == 1).all()
    assert (per_thread > 0).sum() == few_threads
