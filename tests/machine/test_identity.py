"""What tells machines apart whose CPUs have one name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.machine import identity as asked
from benchgraph.results.machine import Machine

EPYC = {
    "vendor_id": "AuthenticAMD",
    "cpu family": "25",
    "model": "17",
    "stepping": "1",
    "microcode": "0xa101144",
    "flags": "avx2 hypervisor",
}


@pytest.fixture
def dmi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(asked, "DMI", tmp_path)
    monkeypatch.setattr(asked, "CLOCKS", tmp_path / "clocks")
    monkeypatch.setattr(asked, "cpu_info", lambda: EPYC)
    monkeypatch.setattr(asked, "topology", lambda: "4 CPUs, 2 cores, 1 L3")
    monkeypatch.setattr(asked, "caches", lambda: {1: 32 << 10, 3: 32 << 20, 2: 1 << 20})
    monkeypatch.setattr(asked.platform, "release", lambda: "6.1.0")
    monkeypatch.setattr(asked.platform, "system", lambda: "Linux")
    return tmp_path


def test_a_virtual_machine_has_the_name_of_its_type(dmi: Path) -> None:
    (dmi / "sys_vendor").write_text("Amazon EC2\n")
    (dmi / "product_name").write_text("c7a.xlarge\n")
    assert asked.identity() == {
        "cpuid": "AuthenticAMD 25-17-1",
        "caches": "L1 32K, L2 1M, L3 32M",
        "hypervisor": "Amazon EC2 c7a.xlarge",
        "topology": "4 CPUs, 2 cores, 1 L3",
        "microcode": "0xa101144",
        "kernel": "Linux 6.1.0",
    }


def test_a_hypervisor_may_have_no_name_and_there_may_be_none(dmi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked.identity()["hypervisor"] == "unnamed"
    (dmi / "clocks").write_text("tsc kvm-clock acpi_pm\n")
    assert asked.identity()["hypervisor"] == "KVM"
    monkeypatch.setattr(asked, "cpu_info", lambda: EPYC | {"flags": "avx2"})
    assert asked.identity()["hypervisor"] == "none"


def test_what_the_system_does_not_tell_is_left_out(dmi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "cpu_info", dict)
    monkeypatch.setattr(asked, "caches", dict)
    monkeypatch.setattr(asked, "topology", str)
    assert asked.identity() == {"kernel": "Linux 6.1.0"}


def machine(**identity: str) -> Machine:
    return Machine("AMD EPYC Processor", 4, "avx2", {}, identity=identity)


def test_two_virtual_machines_of_one_name_are_told_apart() -> None:
    milan, genoa = machine(cpuid="AuthenticAMD 25-1-1", caches="L3 32M"), machine(cpuid="AuthenticAMD 25-17-1", caches="L3 32M")
    assert milan.difference(genoa) == "cpuid AuthenticAMD 25-1-1 and AuthenticAMD 25-17-1"
    assert genoa.full_name == "AMD EPYC Processor (AuthenticAMD 25-17-1, L3 32M)"


def test_an_update_of_the_system_makes_no_other_machine() -> None:
    assert machine(cpuid="x", kernel="Linux 6.1", microcode="0x1").difference(machine(cpuid="x", kernel="Linux 6.2", microcode="0x2")) == ""


def test_what_one_of_them_does_not_know_makes_no_difference() -> None:
    assert machine().difference(machine(cpuid="x")) == machine(cpuid="x").difference(machine()) == ""
    assert machine().full_name == "AMD EPYC Processor"


def test_hosts_that_a_hypervisor_calls_the_same_differ_in_their_peaks() -> None:
    """By more than a clock does; on one host such a difference says that other programs ran."""
    hosts = (("a", 1e11), ("b", 1.6e11), ("b", 9e10))
    rome, genoa, loud = (replace(machine(), host=host, peak_flops_1_thread={"f32": peak}) for host, peak in hosts)
    assert rome.difference(genoa) == "f32 peak of a thread 100 GFLOP/s and 160 GFLOP/s"
    assert rome.difference(loud) == genoa.difference(loud) == rome.difference(machine()) == ""


def test_former_names_know_less_from_name_to_name() -> None:
    assert machine(cpuid="x", hypervisor="KVM", kernel="6", topology="2 CPUs, 1 core, 1 L3").former_names == (
        "AMD EPYC Processor (x, KVM, 2 CPUs, 1 core, 1 L3)",
        "AMD EPYC Processor (x, KVM)",
        "AMD EPYC Processor (x)",
        "AMD EPYC Processor",
    )
