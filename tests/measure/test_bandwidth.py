"""The bandwidth probe reads every byte it counts, and counts every byte it reads."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.machine.target import ISAS, host, last_level_bytes, missing
from benchgraph.measure import bandwidth
from benchgraph.measure.bandwidth import LOADS, BandwidthProbe, bandwidth_probes, memory_bytes
from benchgraph.runtime.memory import aligned


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ISAS)
def test_every_byte_is_read(name: str, threads: int) -> None:
    """One turn leaves the exclusive-or of each share: a bit that changes anywhere shows."""
    isa = ISAS[name]
    if missing(isa):
        pytest.skip(f"this processor has no {name}")
    step = LOADS * isa.lanes * 4
    nbytes, buffer = threads * 3 * step, aligned(threads * 3 * step)
    buffer.fill(0)
    probe = BandwidthProbe(nbytes, threads, bandwidth._code(threads, replace(host(), isa=isa), "seq"), buffer)
    probe._run(1, *probe._arguments)
    assert not probe.sums[: isa.lanes * 4].any()
    for at in range(0, nbytes, 4):
        buffer[at] = 1
        probe._run(1, *probe._arguments)
        assert probe.sums[: isa.lanes * 4].any(), at
        buffer[at] = 0


def test_the_loop_does_nothing_but_load() -> None:
    code = bandwidth._code(1, host(), "seq")
    lines = [line.strip() for line in code.assembly().splitlines()]
    combined = [line for line in lines if line.startswith(("vpxor", "pxor", "xorps", "vxorps")) and "(" in line]
    assert len(combined) == LOADS


def test_bytes_are_counted_for_every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """With time replaced by one second per call, the rate is the count."""
    (probe,) = bandwidth_probes([1 << 16], 2, host(), "seq")
    monkeypatch.setattr(bandwidth, "seconds", lambda function, *arguments: 1.0)
    assert probe.sample() == probe._iterations * (1 << 16)


def test_a_size_is_rounded_up_to_steps_of_all_threads_and_measured_once() -> None:
    step = 3 * LOADS * host().lanes * 4
    probes = bandwidth_probes([1, step, step + 1, 2 * step - 1, 0], 3, host(), "seq")
    assert [p.nbytes for p in probes] == [step, 2 * step]
    assert bandwidth_probes([], 3, host(), "seq") == []


def test_more_than_the_caches_hold_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_bytes() == 4 * last_level_bytes()
    monkeypatch.setattr(bandwidth, "last_level_bytes", lambda: 1 << 20)
    (probe,) = bandwidth_probes([sys.maxsize, 1 << 40], 1, host(), "seq")
    assert probe.nbytes == 4 << 20
    assert np.all(probe._buffer == 1)
    assert 1e6 < probe.sample() < 1e14
