"""Wrong code is caught: the compiler is given one mistake at a time, and mode C must say FAILED and name the tensor that is wrong."""

from __future__ import annotations

import re
from functools import cache

import pytest

from benchgraph.results.result import Result, Status
from tests.faults import graph_faults, loop_faults, machine_faults  # noqa: F401  (they register their faults)
from tests.faults.inject import FAULTS, Fault, Traces, run


@cache
def sound(case: str, options: tuple[str, ...]) -> tuple[Result, Traces]:
    """The case without a fault; several faults share one."""
    return run(case, options)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_a_fault_is_reported(fault: Fault) -> None:
    right, program = sound(fault.case, fault.options)
    assert (right.status, right.reason) == (Status.PASSED, "")
    wrong, traces = run(fault.case, fault.options, fault)
    assert traces.fired, "the fault changed nothing"
    assert (traces.programs != program.programs) == fault.in_program
    assert wrong.status is Status.FAILED, "wrong code passes"
    assert re.match(r"fused: partition 0 \(\w+\): tensor \d+: \d+ of \d+ values differ, ", wrong.reason), wrong.reason
    assert wrong.errors > 0


def test_a_bystander_is_not_reported() -> None:
    """A case that a fault does not concern passes with it: it is the mistake that is found, not the tampering."""
    result, traces = run("op/softmax.json", fault=FAULTS["bf16_truncated"])
    assert (result.status, traces.fired) == (Status.PASSED, 0)
