"""The machine block: always described, measured only for mode P."""

from dataclasses import replace

import pytest

from benchgraph.harness.bench import Probe
from benchgraph.harness.machine import PROBES, describe
from benchgraph.machine.target import current
from benchgraph.measure.arithmetic import ARITHMETICS
from benchgraph.options.knobs import Globals
from benchgraph.results.mode import Mode
from tests.support.fake_library import FASTER, KERNEL, MEMORY, PEAK, Clock, FakeLibrary, fake_bench


def test_mode_c_does_not_measure() -> None:
    m = describe(Globals(), fake_bench(FakeLibrary(Clock())))
    assert m.cpu
    assert m.versions.keys() == {"python", "benchgraph", "numpy", "llvmlite"}
    assert m.peak_flops == m.microkernel == {}
    assert m.memory_bandwidth == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_mode_p_measures_one_thread_all_threads_and_the_microkernel(threads: int) -> None:
    m = describe(Globals(mode=Mode.performance, threads=threads), fake_bench(FakeLibrary(Clock())))
    ones = {name: factor * PEAK for name, factor in FASTER.items()}
    assert (m.threads, m.peak_flops, m.peak_flops_1_thread) == (threads, {name: threads * one for name, one in ones.items()}, ones)
    assert m.microkernel == {name: factor * KERNEL for name, factor in FASTER.items()}
    assert m.memory_bandwidth == threads * MEMORY


def test_mode_s_measures_nothing_but_the_case() -> None:
    m = describe(Globals(mode=Mode.simulation), fake_bench(FakeLibrary(Clock())))
    assert (m.peak_flops, m.microkernel, m.memory_bandwidth) == ({}, {}, 0.0)


def test_a_peak_is_the_best_of_several_samples() -> None:
    class Rising:
        def __init__(self) -> None:
            self.rate = 0.0

        def sample(self) -> float:
            self.rate += 1.0
            return self.rate

    bench = replace(fake_bench(FakeLibrary(Clock())), probe=lambda threads, arithmetic: Rising())
    assert describe(Globals(mode=Mode.performance), bench).peak_flops == dict.fromkeys(ARITHMETICS, PROBES)


def test_the_peak_is_that_of_the_instruction_set() -> None:
    asked = []
    usual = fake_bench(FakeLibrary(Clock()))

    def kernel(arithmetic: str) -> Probe:
        asked.append(current().isa.name)
        return usual.kernel(arithmetic)

    bench = replace(usual, kernel=kernel)
    machine = describe(Globals(mode=Mode.performance, isa="portable"), bench)
    assert (machine.isa, asked) == ("portable", ["portable"] * 3)
