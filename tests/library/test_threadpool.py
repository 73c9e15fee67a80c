"""Streams with a user's thread pool: it gets the work, results are the same, and its errors are raised."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest

from benchgraph import BenchgraphError, CompiledPartition, Engine, Graph, Status, Stream, Tensor
from benchgraph.core.config import override
from benchgraph.core.errors import ExecutionFailed, InvalidArguments
from benchgraph.core.files import data_dir
from benchgraph.graph import load
from benchgraph.reference import fill
from benchgraph.runtime import user_pool

Task = Callable[[int], None]


@dataclass
class Pool:
    """An ordinary pool; regions: the number of tasks of each region, seen: the threads that ran them."""

    num_threads: int
    regions: list[int] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def parallel_for(self, n: int, task: Task) -> None:
        self.regions.append(n)

        def run(i: int) -> None:
            self.seen.add(threading.current_thread().name)
            task(i)

        with ThreadPoolExecutor(self.num_threads, thread_name_prefix="users") as threads:
            list(threads.map(run, range(n)))


@dataclass
class Case:
    """A compiled graph of one partition with its tensors. wanted: its outputs as our own threads compute them."""

    compiled: CompiledPartition
    engine: Engine
    inputs: list[Tensor]
    outputs: list[Tensor]
    wanted: list[np.ndarray]

    def run(self, pool: object) -> bool:
        """Execute on the pool; whether the outputs are those of our own threads, bit by bit."""
        for t in self.outputs:
            t.array.view(np.uint8)[...] = 0xFF
        self.compiled.execute(Stream(self.engine, pool), self.inputs, self.outputs)  # type: ignore[arg-type]
        return all(np.array_equal(t.array, want) for t, want in zip(self.outputs, self.wanted, strict=True))


def case(name: str) -> Case:
    dump = load(data_dir("inputs") / "graph" / f"{name}.json")
    g = Graph()
    for op in dump.ops:
        g.add_op(op)
    g.finalize()
    (partition,) = g.get_partitions()
    engine, data = Engine(), fill(dump, seed=1)
    compiled = partition.compile(partition.input_ports, partition.output_ports, engine)
    ins = [Tensor(t, engine, data[t.id]) for t in partition.input_ports]
    outs = [Tensor(t, engine) for t in partition.output_ports]
    compiled.execute(Stream(engine), ins, outs)
    return Case(compiled, engine, ins, outs, [t.array.copy() for t in outs])


@pytest.fixture(scope="module")
def mlp() -> Iterator[Case]:
    with override(threads=4):
        yield case("mlp")


@pytest.mark.parametrize("name", ["mlp", "attention", "quantised_mlp"])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_pool_gets_the_work_and_the_results_are_the_same(name: str, threads: int) -> None:
    with override(threads=2):
        c, pool = case(name), Pool(threads)
        for _ in range(2):
            assert c.run(pool)
    if threads == 1:
        assert not pool.regions, "one thread runs what there is itself"
    else:
        assert pool.regions
        assert max(pool.regions) == 2, "as many tasks as the code was compiled for"
        assert all(name.startswith("users") for name in pool.seen)


def test_a_scratchpad_suffices_for_a_pool_of_any_size(mlp: Case) -> None:
    described = mlp.compiled.get_scratchpad_logical_tensor()
    pad = Tensor(described, mlp.engine)
    for threads in (2, 4, 9):
        mlp.compiled.execute(Stream(mlp.engine, Pool(threads)), mlp.inputs, mlp.outputs, pad)
        assert all(np.array_equal(t.array, want) for t, want in zip(mlp.outputs, mlp.wanted, strict=True))


def test_a_stream_without_a_pool_is_left_alone(mlp: Case) -> None:
    pool = Pool(2)
    assert mlp.run(pool)
    before = list(pool.regions)
    assert mlp.run(None)
    assert pool.regions == before


def test_two_threads_execute_on_pools_of_their_own(mlp: Case) -> None:
    pools = [Pool(2), Pool(3)]

    def run(pool: Pool) -> bool:
        outs = [Tensor(t.logical, mlp.engine) for t in mlp.outputs]
        mine = Case(mlp.compiled, mlp.engine, mlp.inputs, outs, mlp.wanted)
        return all(mine.run(pool) for _ in range(20))

    with ThreadPoolExecutor(2) as both:
        assert list(both.map(run, pools)) == [True, True]
    for pool in pools:
        assert pool.regions
        assert max(pool.regions) == pool.num_threads


class Refusing(Pool):
    def parallel_for(self, n: int, task: Task) -> None:
        raise ValueError("no threads left")


class Dropping(Pool):
    def parallel_for(self, n: int, task: Task) -> None:
        for i in range(n - 1):
            task(i)


class Repeating(Pool):
    def parallel_for(self, n: int, task: Task) -> None:
        for i in [*range(n), 0]:
            task(i)


class Inventing(Pool):
    def parallel_for(self, n: int, task: Task) -> None:
        for i in range(n + 1):
            task(i)


class Breaking(Pool):
    """Fails after the first task."""

    def parallel_for(self, n: int, task: Task) -> None:
        task(0)
        raise KeyError("task 1")


class Interrupted(Pool):
    def parallel_for(self, n: int, task: Task) -> None:
        raise KeyboardInterrupt


class Deserting(Pool):
    """Returns while its threads still work, and lets one begin late."""

    late: list[str] = []  # noqa: RUF012 - shared on purpose: the test reads it

    def parallel_for(self, n: int, task: Task) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def run() -> None:
            begun.set()
            task(0)
            go_on.wait()
            try:
                task(1)
            except RuntimeError as bad:
                self.late.append(str(bad))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        begun.wait()
        self.rest = lambda: (go_on.set(), thread.join())


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        (Refusing, "execute: the stream's thread pool failed: ValueError: no threads left; outputs are incomplete; mend the pool"),
        (Breaking, "KeyError: 'task 1'"),
        (Dropping, r"RuntimeError: parallel_for returned after \d of \d tasks"),
        (Repeating, r"RuntimeError: task 0 was called twice, or is none of the \d"),
        (Inventing, r"RuntimeError: task \d was called twice, or is none of the \d"),
    ],
)
def test_a_pool_that_fails_is_a_runtime_error_and_harms_nothing(mlp: Case, pool: type[Pool], says: str) -> None:
    with pytest.raises(BenchgraphError, match=says) as raised:
        mlp.run(pool(3))
    assert type(raised.value) is ExecutionFailed
    assert raised.value.status is Status.runtime_error
    assert raised.value.__cause__ is not None
    assert mlp.run(Pool(3)), "the next execution is as good as ever"


def test_a_pool_that_deserts_its_tasks_finds_them_closed(mlp: Case) -> None:
    pool = Deserting(3)
    with pytest.raises(ExecutionFailed, match="parallel_for returned after"):
        mlp.run(pool)
    pool.rest()
    assert pool.late == ["task 1 was called after parallel_for had returned"]


class Swallowing(Pool):
    """Says nothing of what its threads raise, the second task's among it."""

    def parallel_for(self, n: int, task: Task) -> None:
        for i in range(n):
            with suppress(RuntimeError):
                task(i if i != 1 else n)


@pytest.mark.parametrize("threads", [0, 1])
def test_a_pool_without_threads_leaves_the_work_to_its_caller(mlp: Case, threads: int) -> None:
    pool = Pool(3)
    stream = Stream(mlp.engine, pool)
    pool.num_threads = threads
    for t in mlp.outputs:
        t.array.view(np.uint8)[...] = 0xFF
    mlp.compiled.execute(stream, mlp.inputs, mlp.outputs)
    assert all(np.array_equal(t.array, want) for t, want in zip(mlp.outputs, mlp.wanted, strict=True))
    assert not pool.regions


@pytest.mark.parametrize("threads", [-1, 2.0, None, "4"])
def test_a_pool_that_no_longer_says_how_many_threads_it_has_is_an_error(mlp: Case, threads: object) -> None:
    pool = Pool(3)
    stream = Stream(mlp.engine, pool)
    pool.num_threads = threads  # type: ignore[assignment]
    with pytest.raises(ExecutionFailed, match=r"ValueError: num_threads is .* now; outputs are incomplete"):
        mlp.compiled.execute(stream, mlp.inputs, mlp.outputs)


def test_a_pool_that_hides_what_it_did_not_do_is_an_error(mlp: Case) -> None:
    with pytest.raises(ExecutionFailed, match=r"parallel_for returned after \d of \d tasks"):
        mlp.run(Swallowing(3))


def test_a_share_that_did_not_end_is_not_done() -> None:
    def run(i: int) -> None:
        raise MemoryError

    region = user_pool._Region(run, 2)
    for i in range(2):
        with pytest.raises(MemoryError):
            region.task(i)
    assert region.close() == 2


def test_an_interrupt_stays_an_interrupt(mlp: Case) -> None:
    with pytest.raises(KeyboardInterrupt):
        mlp.run(Interrupted(3))
    assert mlp.run(Pool(3))


def test_constants_half_computed_by_a_failing_pool_are_computed_again() -> None:
    """The first execution packs the weights; a failure there must not leave half-packed ones behind."""
    with override(threads=4):
        c = case("mlp")
    assert c.compiled.executable.module.init is not None
    with pytest.raises(ExecutionFailed):
        c.run(Breaking(4))
    assert c.run(Pool(4))


@pytest.mark.parametrize("pool", [object(), Pool(0), 3])
def test_other_things_than_pools_are_refused(pool: object) -> None:
    with pytest.raises(InvalidArguments, match=r"Stream: the thread pool is a .*; give it num_threads >= 1 and parallel_for"):
        Stream(Engine(), pool)  # type: ignore[arg-type]
