"""Partitions compiled by several processes: results, errors, dying processes, and when no processes are started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import pytest

import benchgraph
from benchgraph.compile import Order, order
from benchgraph.core import version
from benchgraph.core.config import config, override
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments, Unimplemented
from benchgraph.core.layout import LAYOUTS, Layout
from benchgraph.core.record import recorded
from benchgraph.core.remarks import collected
from benchgraph.core.tensor import LayoutType
from benchgraph.graph import GraphBuilder
from benchgraph.harness.buffers import allocate
from benchgraph.harness.built import build
from benchgraph.harness.contenders import Contender
from benchgraph.library import compile_jobs
from benchgraph.library.compile_jobs import WORTH, _ParallelRun, compile_partitions, settle, worker_pool
from benchgraph.library.compile_worker import Answer, State, Tickets
from benchgraph.library.engine import Engine
from benchgraph.library.own_library import Benchgraph
from benchgraph.library.partition import Partition as ApiPartition
from benchgraph.options.knobs import ContenderSpec
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime import code, disk_cache, executable_cache
from benchgraph.runtime.executable import Executable
from tests.library.compile_workers import little, started
from tests.support.processes import is_gone

GONE_S = 30.0  # within which a process that should end has ended, on the busiest machine


@pytest.fixture(autouse=True)
def two_jobs() -> Iterator[None]:
    with override(compile_jobs=2):
        yield


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    pids = pids_of_workers()
    compile_jobs.end_workers()
    assert all(map(is_gone, pids))


@pytest.fixture
def fresh() -> Iterator[None]:
    """A worker_pool for this test alone, for it will lose workers."""
    mine, compile_jobs._pool = compile_jobs._pool, None
    yield
    compile_jobs.end_workers()
    compile_jobs._pool = mine


def pids_of_workers() -> list[int]:
    return [worker.pid for worker in worker_pool().workers]


def work() -> tuple[Partition, ...]:
    """A product with constant weights (so there is an init), a table of scales (so there is a literal), pointwise ops."""
    b = GraphBuilder()
    product = b.op("MatMul", b.input((6, 24)), b.constant((24, 40)))
    scales, zps = [0.1] * 40, [3] * 40
    narrow = b.op("Quantize", b.op("GELU", product), dtype=DType.u8, scales=scales, zps=zps, qtype="per_channel", axis=1)
    b.op("SoftMax", b.op("Dequantize", narrow, scales=scales, zps=zps, qtype="per_channel", axis=1), axis=1)
    return partitions(b.graph(), Policy.one_op_each)


def refused(p: Partition) -> Partition:
    """One that passes find out about: an opaque input of a layout that there is not."""
    strange = replace(p.inputs[0], layout_type=LayoutType.opaque, layout_id=(1 << 20) + 1, strides=None)
    ops = p.graph.with_tensors({strange.id: strange}).ops
    return replace(p, ops=ops, inputs=(strange, *p.inputs[1:]))


def alone(parts: tuple[Partition, ...]) -> list[Executable]:
    with override(compile_jobs=1):
        return list(compile_partitions(parts))


def objects(e: Executable) -> list[bytes]:
    return [unit.object for unit in e.code.units]


def same(ours: Executable, theirs: Executable) -> bool:
    names = [f.name for f in fields(ours.module.main) if f.name != "body"]
    return (
        (objects(ours), ours.code.text, ours.code.threads) == (objects(theirs), theirs.code.text, theirs.code.threads)
        and all(getattr(ours.module.main, n) == getattr(theirs.module.main, n) for n in names)
        and all(getattr(ours.signature, n) == getattr(theirs.signature, n) for n in ("inputs", "outputs", "constants", "init_inputs"))
        and [None if d is None else d.tobytes() for d in ours.signature.literals]
        == [None if d is None else d.tobytes() for d in theirs.signature.literals]
        and (ours.layouts, ours.inplace, ours.init_digest, ours.scratchpad_bytes, ours.is_warm)
        == (theirs.layouts, theirs.inplace, theirs.init_digest, theirs.scratchpad_bytes, theirs.is_warm)
    )


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GONE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def worker() -> int:
    """The process of a worker that waits for work."""
    return started()


def has_answered() -> bool:
    """Whether the worker has said something that nobody has heard, if it has work."""
    (found,) = worker_pool().workers
    return found.state is not State.busy or found.pipe.poll()


@dataclass
class Watch:
    """Who compiled, in the order of results; meanwhile: done by this process while it has the first partition."""

    told: list[str] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: until(has_answered)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """This process does not finish its first partition before the worker has something to say."""
    found, make, take = Watch(), Order.make, Order.take

    def made(order: Order) -> Executable:
        is_first = "here" not in found.told and config().compile_jobs > 1
        found.told.append("here")
        if is_first:
            found.meanwhile()
        return make(order)

    def taken(order: Order, made: bytes, seconds: float) -> Executable:
        found.told.append("there")
        return take(order, made, seconds)

    monkeypatch.setattr(Order, "make", made)
    monkeypatch.setattr(Order, "take", taken)
    return found


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker may be started, or asked."""

    def forbidden(*_: object) -> None:
        raise AssertionError("a worker was asked")

    monkeypatch.setattr(compile_jobs, "Worker", forbidden)
    monkeypatch.setattr(compile_jobs, "_ParallelRun", forbidden)


# ---- what they give ---------------------------------------------------------------------------------------------------


def test_several_processes_give_the_same_as_one(worker: int, watch: Watch) -> None:
    parts = work()
    want = alone(parts)
    watch.told.clear()
    got = list(compile_partitions(parts))
    assert "there" in watch.told
    assert len(watch.told) == len(got) == len(want) == 5
    assert any(e.module.init for e in got)
    assert any(d is not None for e in got for d in e.signature.literals)
    assert all(map(same, got, want))
    assert all(e.compile_s > 0 for e in got)
    assert pids_of_workers() == [worker]


def test_layouts_that_only_this_process_knows_are_understood(worker: int, watch: Watch) -> None:
    strange = LAYOUTS.id(Layout((1, 0), ((1, 17),)))
    parts = []
    for n in (34, 51, 68):
        b = GraphBuilder()
        b.op("ReLU", b.input((4, n)))
        (p,) = partitions(b.graph(), Policy.fused)
        src = replace(p.inputs[0], layout_type=LayoutType.opaque, layout_id=strange, strides=None)
        parts.append(replace(p, ops=p.graph.with_tensors({src.id: src}).ops, inputs=(src,)))
    got = list(compile_partitions(parts))
    assert "there" in watch.told
    assert all(map(same, got, alone(tuple(parts))))


def test_the_settings_of_the_moment_hold_for_workers_too(worker: int, watch: Watch) -> None:
    with override(isa="avx2", threads=3, verify=0, compile_jobs=2):
        got = list(compile_partitions(work()))
        assert "there" in watch.told
        assert all(map(same, got, alone(work())))
    assert {(e.code.isa.name, e.code.threads) for e in got} == {("avx2", 3)}


def test_equal_partitions_are_compiled_once(worker: int, watch: Watch) -> None:
    first, second, *_ = work()
    got = list(compile_partitions([first, second, replace(first, id=99), second, first]))
    assert len(watch.told) == 2
    assert got[0].code is got[2].code is got[4].code
    assert got[1].code is got[3].code
    assert [e.compile_s > 0 for e in got] == [True, True, False, False, False]


def alike() -> tuple[Partition, ...]:
    """Three layers."""
    b = GraphBuilder()
    x = b.input((5, 8))
    for _ in range(3):
        x = b.op("Add", x, b.input((8,)))
    return partitions(b.graph(), Policy.one_op_each)


def test_layers_that_are_alike_are_dumped_each(tmp_path: Path) -> None:
    """By the library too, where the second would be found in its cache."""
    stems = {f"p{p.ops[0].id}" for p in alike()}
    with override(dump_dir=str(tmp_path / "all")):
        list(compile_partitions(alike()))
    with override(dump_dir=str(tmp_path / "api")):
        for p in alike():
            ApiPartition.described(p).compile(p.inputs, p.outputs, Engine())
    for folder in ("all", "api"):
        assert {f.name.split("-")[0] for f in (tmp_path / folder).iterdir()} == stems
    assert len(stems) == 3


def test_layers_that_are_alike_are_compiled_once() -> None:
    parts = alike()
    with override(compile_jobs=1):
        got = list(compile_partitions(parts))
    assert len(parts) == 3 == len(got)
    assert len({id(e.code) for e in got}) == 1
    assert [[t.name for t in e.signature.inputs] for e in got] == [[f"tensor {t.id}" for t in p.inputs] for p in parts]


def test_the_log_is_that_of_one_process(worker: int, watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    parts, logs = work(), []
    with override(verbose=("create",)):
        Benchgraph().compile_all(parts)
        assert "there" in watch.told
        logs.append(capsys.readouterr().out)
        for p in parts:
            Benchgraph().compile(p)
        logs.append(capsys.readouterr().out)
    ours, theirs = ([line.rpartition(",")[0] for line in log.splitlines() if ",compile:" in line] for log in logs)
    assert len(ours) == len(parts)
    assert ours == theirs


def test_partitions_compiled_by_workers_are_kept_on_disk(
    worker: int, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_cache._opened.cache_clear()
    parts = work()
    with override(cache_dir=str(tmp_path / "cache"), disk_cache_capacity=16):
        first = list(compile_partitions(parts))
        assert "there" in watch.told
        files = [f.name for f in (tmp_path / "cache").rglob("*-*") if f.is_file()]
        for kind, count in (
            (executable_cache.EXECUTABLE, len(parts)),
            (code.OBJECT, len({unit.text for e in first for unit in e.code.units})),
        ):
            assert len([name for name in files if name.startswith(kind)]) == count
        watch.told.clear()
        again = list(compile_partitions(parts))
        assert not watch.told
    assert not any(e.is_warm for e in first)
    assert all(e.is_warm for e in again)
    assert [*map(objects, first)] == [*map(objects, again)]


# ---- errors, and processes that die -----------------------------------------------------------------------------------


def outcome(parts: list[Partition]) -> tuple[int, type, str, str, str]:
    """How many came before the error, and the error."""
    found = compile_partitions(parts)
    for count in range(len(parts)):
        try:
            next(found)
        except BenchgraphError as bad:
            return count, type(bad), bad.what, bad.where, bad.fix
    raise AssertionError("nothing was refused")


def test_errors_are_those_of_one_process_in_their_place(worker: int, watch: Watch) -> None:
    a, b, c, d, e = work()
    unsupported = replace(e, reason="nobody has it")
    for parts, place, kind in (
        ([a, b, refused(c), d, unsupported], 2, InvalidArguments),
        ([a, refused(b), c, refused(d), e], 1, InvalidArguments),
        ([refused(a), b, c, d, e], 0, InvalidArguments),
        ([a, b, unsupported, refused(c), d], 2, Unimplemented),
    ):
        watch.told.clear()
        got = outcome(parts)
        with override(compile_jobs=1):
            assert got == outcome(parts)
        assert got[:2] == (place, kind)
    assert pids_of_workers() == [worker]
    assert len(list(compile_partitions(work()))) == 5, "an error leaves tickets behind"


def test_after_an_error_no_more_is_begun(fresh: None, watch: Watch) -> None:
    watch.told.append("here")
    first, *rest = little()
    orders = [order(p) for p in (first, refused(rest[0]), rest[1])]
    assert list(_ParallelRun(worker_pool(), [], orders).work()) == [0]
    assert watch.told == ["here"] * 3

    class Failing:
        def receive(self) -> Answer:
            return Answer(0)

    worker_pool().tickets.issue(3)
    _ParallelRun(worker_pool(), [], orders)._handle(Failing())  # type: ignore[arg-type]
    assert worker_pool().tickets.draw() is None


def test_a_worker_that_is_killed_loses_nothing(fresh: None, watch: Watch) -> None:
    watch.told.append("here")  # the start is not what is looked at
    pid, want = started(), alone(little())
    os.kill(pid, signal.SIGSTOP)

    def kill() -> None:
        assert worker_pool().tickets.draw() == 1  # as the worker would have, before it died of it
        os.kill(pid, signal.SIGKILL)

    watch.told.clear()
    watch.meanwhile = kill
    with collected() as remarks:
        got = list(compile_partitions(little()))
    assert all(map(same, got, want))
    assert remarks == ["a process that compiled partitions was killed by signal 9: what it had is compiled by this one"]
    watch.told[:] = ["here"]
    assert len(list(compile_partitions(little()))) == 3
    assert set(watch.told) == {"here"}
    assert not pids_of_workers(), "it was replaced"


def test_only_a_measurement_waits_for_starting_workers(fresh: None, watch: Watch) -> None:
    watch.told.append("here")
    list(compile_partitions(little()[:2]))
    (found,) = worker_pool().workers
    os.kill(found.pid, signal.SIGSTOP)
    if found.pipe.poll():
        settle()  # it was quick
    else:
        assert len(list(compile_partitions(little()))) == 3
        assert found.state is State.starting
    assert set(watch.told) == {"here"}
    os.kill(found.pid, signal.SIGCONT)
    case = Path(__file__).parent.parent.parent / "inputs" / "graph" / "mlp.json"
    graph = benchgraph.graph.load(case)
    spec = ContenderSpec("benchgraph", "fused", "fused")
    build(graph, Contender(spec, Benchgraph()), partitions(graph, Policy.fused), [{t.id: allocate(t) for t in graph.inputs}])
    assert found.state is State.free


def test_a_worker_that_is_silent_is_given_up(fresh: None, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch.told.append("here")
    pid = started()
    monkeypatch.setattr(compile_jobs, "SILENCE_S", 0.05)
    os.kill(pid, signal.SIGSTOP)
    with collected() as remarks:
        assert len(list(compile_partitions(little()))) == 3
    assert remarks == ["a process that compiled partitions was silent for 0.05 s: what it had is compiled by this one"]
    assert is_gone(pid)


@pytest.mark.parametrize("other", [(version, "LOADED_NS", 0), (version, "ROOT", Path("/elsewhere"))])
def test_a_worker_of_other_sources_is_not_used(
    fresh: None, watch: Watch, monkeypatch: pytest.MonkeyPatch, other: tuple[object, str, object]
) -> None:
    """Somebody edits the compiler while it runs, or there are two."""
    monkeypatch.setattr(*other)
    watch.told.append("here")
    with collected() as remarks:
        assert len(list(compile_partitions(little()))) == 3
        settle()
    assert set(watch.told) == {"here"}
    assert remarks == [
        "a process that compiled partitions found other source files than this one has read: what it had is compiled by this one"
    ]


def test_one_remark_if_no_process_can_be_started(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with collected() as remarks:
        assert len(list(compile_partitions(little()))) == 3
        assert len(list(compile_partitions(little()))) == 3
    assert remarks == ["no process to compile in can be started (No such file or directory): this one compiles alone"]


def test_an_interrupt_ends_the_workers_and_does_not_reach_them_otherwise(fresh: None, watch: Watch) -> None:
    watch.told.append("here")
    pid = started()
    os.kill(pid, signal.SIGINT)
    list(compile_partitions(little()))
    assert pids_of_workers() == [pid]
    assert os.getpgid(pid) != os.getpgid(0), "Ctrl-C reaches it"

    def interrupt() -> None:
        raise KeyboardInterrupt

    watch.told.clear()
    watch.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        list(compile_partitions(little()))
    assert is_gone(pid)
    assert worker_pool().tickets.draw() is None


KILLED = """
import os, signal
from tests.library.compile_workers import started
print(started(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_process_that_is_killed() -> None:
    env = {**os.environ, "BENCHGRAPH_COMPILE_JOBS": "2"}
    root = Path(__file__).parent.parent.parent
    killed = subprocess.run([sys.executable, "-c", KILLED], env=env, stdout=subprocess.PIPE, text=True, cwd=root)
    assert killed.returncode == -signal.SIGKILL
    until(lambda: is_gone(int(killed.stdout)))


def test_a_fork_does_not_touch_the_workers(worker: int) -> None:
    child = os.fork()
    if not child:
        with suppress(BaseException), override(compile_jobs=1):
            is_right = not worker_pool().workers and len(list(compile_partitions(work()[:1]))) == 1
            compile_jobs.end_workers()
            os._exit(0 if is_right else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not is_gone(worker)
    assert len(list(compile_partitions(work()))) == 5
    assert pids_of_workers() == [worker]


# ---- when there are none ----------------------------------------------------------------------------------------------


ALONE: dict[str, dict[str, object]] = {
    "one job": {"compile_jobs": 1},
    "one thread": {"compile_jobs": 0, "threads": 1},
    "stages are printed": {"print_after": ("nothing",)},
    "times are printed": {"debug": 1},
}


@pytest.mark.parametrize("why", ALONE)
def test_one_process_compiles_alone_where_others_could_not_help(why: str, nobody: None) -> None:
    with override(**ALONE[why]):
        assert len(list(compile_partitions(work()))) == 5


def test_one_process_compiles_alone_what_is_recorded_dumped_or_single(nobody: None, tmp_path: Path) -> None:
    with recorded() as record:
        list(compile_partitions(work()))
    assert record.steps
    with override(dump_dir=str(tmp_path)):
        list(compile_partitions(work()))
    assert len({path.name.split("-")[0] for path in tmp_path.iterdir()}) == 5
    list(compile_partitions(work()[:1]))
    list(compile_partitions([work()[0]] * 3))


def test_a_thread_that_finds_the_workers_taken_compiles_alone(worker: int, watch: Watch) -> None:
    watch.told.append("here")
    with worker_pool()._lock:
        assert len(list(compile_partitions(little()))) == 3
    assert set(watch.told) == {"here"}


@pytest.fixture
def made_up(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers without processes."""

    class MadeUp:
        def __init__(self, tickets: object) -> None:
            self.state = State.free

        def kill(self) -> None:
            pass

    monkeypatch.setattr(compile_jobs, "Worker", MadeUp)


def test_they_are_started_when_there_was_enough_to_compile(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 9.0, 9.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    with override(compile_jobs=0):
        for _ in range(WORTH // 4 - 1):
            assert not worker_pool()._workers_for(4, 8)
        assert not worker_pool()._workers_for(3, 8)
        assert len(worker_pool()._workers_for(2, 8)) == 1
        assert len(worker_pool()._workers_for(WORTH, 8)) == 2
        assert len(worker_pool()._workers_for(100 * WORTH, 8)) == 7


@pytest.mark.parametrize(("load", "workers"), [(0.9, 4), (1.0, 3), (1.1, 3), (3.5, 1), (4.0, 0), (17.0, 0)])
def test_they_are_started_for_idle_cpus_unless_their_number_is_given(
    made_up: None, monkeypatch: pytest.MonkeyPatch, load: float, workers: int
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    with override(compile_jobs=0):
        assert len(worker_pool()._workers_for(100 * WORTH, 8)) == workers
    with override(compile_jobs=8):
        assert len(worker_pool()._workers_for(100 * WORTH, 8)) == 7


def test_there_are_as_many_as_have_work_but_for_those_lost(made_up: None) -> None:
    assert len(worker_pool()._workers_for(3, 8)) == 2
    assert len(worker_pool()._workers_for(10, 4)) == 3
    assert len(worker_pool()._workers_for(10, 2)) == 1
    assert len(worker_pool().workers) == 3
    worker_pool().drop(worker_pool().workers[0], "is tested")
    assert len(worker_pool()._workers_for(10, 4)) == 2


def test_more_partitions_than_tickets_go_in_turns(worker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tickets, "MOST", 2)
    assert all(map(same, compile_partitions(work()), alone(work())))
    a, b, c, d, e = work()
    assert outcome([a, b, c, refused(d), e])[0] == 3


def test_one_that_is_killed_is_missed_in_no_later_turn(fresh: None, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tickets, "MOST", 2)
    pid = started()
    watch.told.clear()
    os.kill(pid, signal.SIGSTOP)
    watch.meanwhile = lambda: os.kill(pid, signal.SIGKILL)
    assert len(list(compile_partitions(work()))) == 5
    assert watch.told == ["here"] * 5
