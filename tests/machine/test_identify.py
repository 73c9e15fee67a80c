"""Machines find their tables by what /proc/cpuinfo tells of them."""

from __future__ import annotations

import pytest

from benchgraph.machine.identify import KNOWN, identified
from benchgraph.machine.table_file import built_in, read

# As virtual machines of these processors have them: vendor, family, model, and the highest ISA level.
RECORDED = [
    ("AMD EPYC 7763", "AuthenticAMD", 25, 1, "avx2", "zen3"),
    ("AMD EPYC 7R13", "AuthenticAMD", 25, 1, "avx2", "zen3"),
    ("AMD Ryzen 9 5950X", "AuthenticAMD", 25, 33, "avx2", "zen3"),
    ("AMD EPYC 9R14", "AuthenticAMD", 25, 17, "avx512_core_bf16", "zen4"),
    ("AMD Ryzen 9 7950X", "AuthenticAMD", 25, 97, "avx512_core_bf16", "zen4"),
    ("AMD EPYC 9754, Zen 4c", "AuthenticAMD", 25, 160, "avx512_core_bf16", "zen4"),
    ("AMD EPYC 9R45", "AuthenticAMD", 26, 2, "avx512_core_bf16", "zen5"),
    ("AMD Ryzen 9 9950X", "AuthenticAMD", 26, 68, "avx512_core_bf16", "zen5"),
    ("a later one of AMD", "AuthenticAMD", 27, 0, "avx512_core_bf16", "zen5"),
    ("AMD EPYC 7742, Zen 2", "AuthenticAMD", 23, 49, "avx2", "amd"),
    ("Zen 4 whose hypervisor hides the model", "AuthenticAMD", 15, 6, "avx512_core_bf16", "zen4"),
    ("Intel Xeon Platinum 8259CL", "GenuineIntel", 6, 85, "avx512_core_vnni", "cascade_lake"),
    ("Intel Xeon Platinum 8175M, Skylake", "GenuineIntel", 6, 85, "avx512_core", ""),
    ("Intel Xeon Platinum 8481C", "GenuineIntel", 6, 143, "avx512_core_amx", "sapphire_rapids"),
    ("Intel Xeon Platinum 8592+", "GenuineIntel", 6, 207, "avx512_core_amx", "sapphire_rapids"),
    ("Intel Xeon 6975P-C", "GenuineIntel", 6, 173, "avx512_core_amx", "granite_rapids"),
    ("Intel Xeon Processor, model of a Rocket Lake", "GenuineIntel", 6, 167, "avx512_core_amx", "granite_rapids"),
    ("the same, tile registers hidden", "GenuineIntel", 6, 173, "avx512_core_bf16", "granite_rapids"),
    ("Intel Xeon Platinum 8375C, Ice Lake", "GenuineIntel", 6, 106, "avx512_core_vnni", "cascade_lake"),
    ("Intel Core i9-9900K", "GenuineIntel", 6, 158, "avx2", ""),
    ("Intel Core i5-1340P", "GenuineIntel", 6, 186, "avx2_vnni", ""),
]


@pytest.mark.parametrize(("name", "vendor", "family", "model", "level", "table"), RECORDED)
def test_a_machine_finds_its_table(name: str, vendor: str, family: int, model: int, level: str, table: str) -> None:
    info = {"vendor_id": vendor, "cpu family": str(family), "model": str(model), "model name": name}
    assert identified(info, level) == table


@pytest.mark.parametrize(("implementer", "table"), [("0x41", "aarch64"), ("0xc0", "aarch64"), ("0x61", "")])
def test_a_machine_of_aarch64_finds_its_table(implementer: str, table: str) -> None:
    assert identified({"CPU implementer": implementer, "CPU part": "0xd40", "CPU architecture": "8"}, "portable") == table


@pytest.mark.parametrize("info", [{}, {"vendor_id": "GenuineIntel", "cpu family": "?", "model": ""}])
def test_what_is_not_known_has_the_table_of_its_level(info: dict[str, str]) -> None:
    assert identified(info, "avx2") == ""


def test_every_machine_that_has_a_table_can_be_found() -> None:
    assert {known.table for known in KNOWN} == {name for name in built_in() if read(name).level or name == "amd"}
