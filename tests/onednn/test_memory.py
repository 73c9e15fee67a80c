"""The native loop and the memory around it, without oneDNN: functions of our own stand for its."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_size_t, c_void_p

import pytest

from benchgraph.core.pages import HUGE_BYTES, HUGE_FROM
from benchgraph.core.wait_idle import wait_until_idle
from benchgraph.machine.target import PAGE_BYTES
from benchgraph.measure.call_loop import machine_code
from benchgraph.onednn import memory
from benchgraph.onednn.memory_plan import PlannedStep, plan
from benchgraph.onednn.messages import Compiled, Placed, Tensor
from benchgraph.runtime.memory import mapped

EXECUTE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p)
WAIT = ctypes.CFUNCTYPE(c_int, c_void_p)


def run(steps: list[tuple[int, ...]], times: int, fails_at: int = -1, waited: int = 0) -> tuple[int, list[object]]:
    """(status, the calls) of the loop over these steps."""
    calls: list[object] = []

    def execute(*arguments: int) -> int:
        calls.append(arguments)
        return 5 if len(calls) - 1 == fails_at else 0

    def wait(stream: int) -> int:
        calls.append(("wait", stream))
        return waited

    code = memory.Code(machine_code())
    loop = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_int64)(code.address)
    words = [w for step in steps for w in step]
    table = (c_void_p * max(len(words), 1))(*words)
    held = EXECUTE(execute), WAIT(wait)
    entries = (ctypes.cast(f, c_void_p) for f in held)
    return loop(*entries, 9, ctypes.addressof(table), len(steps), times), calls


STEPS = [(101, 1, 11, 2, 12), (102, 3, 21, 4, 22)]
CALLS = [(101, 9, 1, 11, 2, 12), (102, 9, 3, 21, 4, 22)]


@pytest.mark.parametrize("times", [1, 3])
def test_every_step_is_called_in_order_and_the_stream_waited_for_once(times: int) -> None:
    assert run(STEPS, times) == (0, [*CALLS * times, ("wait", 9)])


def test_nothing_to_do_is_only_waited_for() -> None:
    assert run([], 3) == (0, [("wait", 9)])
    assert run(STEPS, 0) == (0, [("wait", 9)])


def test_the_first_bad_status_ends_the_loop() -> None:
    assert run(STEPS, 3, fails_at=2) == (5, [*CALLS, CALLS[0]])
    assert run(STEPS, 1, waited=4)[0] == 4


def test_a_buffer_is_allocated_like_tensors_of_benchgraph() -> None:
    small, large = memory.Buffer(0), memory.Buffer(HUGE_FROM + 1)
    assert small.address % PAGE_BYTES == 0
    assert large.address % HUGE_BYTES == 0 == mapped(large.nbytes).ctypes.data % HUGE_BYTES
    ctypes.memset(large.address, 1, large.nbytes)


def test_settling_ends() -> None:
    wait_until_idle()


# ---- which values share memory ---------------------------------------------------------------------------------------


def step(reads: dict[int, int], writes: dict[int, int], inplace: tuple[tuple[int, int], ...] = ()) -> PlannedStep:
    """A step over tensors of these ids and bytes; all outputs are open."""
    sides = [tuple(Placed(Tensor(id, 3, (1,), (1,), 0), n) for id, n in side.items()) for side in (reads, writes)]
    return PlannedStep(Compiled(0, 0.0, sides[0], sides[1], inplace), frozenset(writes))


def test_a_value_reuses_the_slot_of_a_dead_one() -> None:
    line = [step({0: 8}, {1: 8}), step({1: 8}, {2: 8}), step({2: 8}, {3: 8}), step({3: 8}, {4: 8})]
    found = plan(line)
    assert found.slots == (8, 8)
    assert found.slot == {1: 0, 2: 1, 3: 0}  # 0 and 4 are the user's


def test_in_place_saves_a_buffer() -> None:
    line = [step({0: 8}, {1: 8}), step({1: 8}, {2: 8}, ((1, 2),)), step({2: 8}, {3: 8})]
    assert plan(line).slot == {1: 0, 2: 0}


def test_in_place_never_overwrites_live_values_or_the_users_memory() -> None:
    again = [step({0: 8}, {1: 8}), step({1: 8}, {2: 8}, ((1, 2),)), step({1: 8, 2: 8}, {3: 8})]
    assert plan(again).slot == {1: 0, 2: 1}
    users = [step({0: 8}, {1: 8}, ((0, 1),)), step({1: 8}, {2: 8})]
    assert plan(users).slot == {1: 0}
    assert plan([step({0: 8}, {1: 8}), step({1: 8}, {2: 16}, ((1, 2),)), step({2: 16}, {3: 8})]).slots == (8, 16)


def test_users_tensors_have_memory_of_their_own() -> None:
    seen = PlannedStep(step({0: 8}, {1: 8}).made, frozenset())
    assert plan([seen, step({1: 8}, {2: 8})]).slot == {}


def test_two_values_never_share_while_both_are_needed() -> None:
    line = [step({0: 8}, {1: 8, 2: 4}), step({1: 8}, {3: 4}), step({2: 4, 3: 4}, {4: 4}), step({4: 4}, {5: 4})]
    slot = plan(line).slot
    assert len({slot[1], slot[2]}) == 2
    assert slot[3] not in (slot[1], slot[2])


def test_a_value_that_is_read_again_keeps_its_place() -> None:
    line = [step({0: 8}, {1: 8}), step({1: 8}, {2: 8}), step({2: 8}, {3: 8}), step({1: 8, 3: 8}, {4: 8})]
    slot = plan(line).slot
    assert slot[1] not in (slot[2], slot[3])
