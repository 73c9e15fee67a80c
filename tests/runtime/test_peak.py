from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.target import ISAS, host, missing
from benchgraph.runtime import peak
from benchgraph.runtime.peak import PeakProbe, kernel_probe


@pytest.mark.parametrize("name", ISAS)
def test_a_turn_is_nothing_but_multiply_adds_in_registers(name: str) -> None:
    isa = ISAS[name]
    if missing(isa):
        pytest.skip(f"this processor has no {name}")
    code, flops = peak._peak_code(1, replace(host(), isa=isa), "seq")
    lines = [line.strip() for line in code.assembly().splitlines()]
    operations = [line for line in lines if line.startswith(("vfm", "mulps", "addps"))]
    per_operation = 2 if "fma" not in isa.without else 1
    assert len(operations) * isa.lanes * per_operation == flops
    assert not [line for line in operations if "(" in line]


def test_probes_give_plausible_rates() -> None:
    assert 1e8 < PeakProbe(1, host(), "seq").sample() < 1e14
    assert 1e8 < kernel_probe(host()).sample() < 1e14


def test_flops_are_counted_for_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """With time replaced by one second per call, the rate is the count."""
    probe = PeakProbe(2, host(), "seq")
    monkeypatch.setattr(peak, "seconds", lambda function, *arguments: 1.0)
    assert probe.sample() == 2 * probe._turns * probe._flops_per_turn
