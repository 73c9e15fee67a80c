from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.codegen.intrinsics import has_fma
from benchgraph.machine.target import ISAS, host, missing
from benchgraph.measure import peak
from benchgraph.measure.peak import ARITHMETIC, KernelProbe, PeakProbe

STEPS = ("vfm", "mulps", "addps", "vdpbf16ps", "vpdpbusd", "{vex}\tvpdpbusd", "vpmaddwd", "pmaddwd", "vpaddd", "paddd")


@pytest.mark.parametrize("arithmetic", ARITHMETIC)
@pytest.mark.parametrize("name", ISAS)
def test_a_turn_is_nothing_but_multiply_adds_in_registers(name: str, arithmetic: str) -> None:
    isa = ISAS[name]
    if missing(isa):
        pytest.skip(f"this processor has no {name}")
    code, flops = peak._peak_code(1, replace(host(), isa=isa), "seq", arithmetic)
    lines = [line.strip() for line in code.assembly().splitlines()]
    if replace(host(), isa=isa).in_tiles(ARITHMETIC[arithmetic][0]):
        steps = [line for line in lines if line.startswith("tdp")]
        assert len(steps) * 2 * 16 * 16 * 64 // ARITHMETIC[arithmetic][0].nbytes(1) == flops, "tiles are 16 rows of 64 bytes"
        return
    operations = [line for line in lines if line.startswith(STEPS)]
    per_operation = 2 if has_fma(isa) or arithmetic == "int8" else 1
    if arithmetic == "int8" and isa.has_vnni:
        per_operation *= 4
    if arithmetic == "bf16" and isa.has_bf16:
        per_operation *= 2
    assert len(operations) * isa.lanes * per_operation == flops
    assert not [line for line in operations if "(" in line]


@pytest.mark.parametrize("arithmetic", ARITHMETIC)
def test_probes_give_plausible_rates(arithmetic: str) -> None:
    assert 1e8 < PeakProbe(1, host(), "seq", arithmetic).sample() < 1e14
    assert 1e8 < KernelProbe(host(), arithmetic).sample() < 1e14


@pytest.mark.parametrize("arithmetic", ARITHMETIC)
def test_the_kernel_probe_computes_a_product(arithmetic: str) -> None:
    """Blocks of ones: neither zeros nor subnormal numbers."""
    probe = KernelProbe(host(), arithmetic)
    probe.sample()
    acc = probe._buffers[2].view(np.int32 if arithmetic == "int8" else np.float32)
    np.testing.assert_array_equal(acc, 256)


def test_flops_are_counted_for_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """With time replaced by one second per call, the rate is the count."""
    probe = PeakProbe(2, host(), "seq")
    monkeypatch.setattr(peak, "seconds", lambda function, *arguments: 1.0)
    assert probe.sample() == 2 * probe._iterations * probe._flops_per_iteration
