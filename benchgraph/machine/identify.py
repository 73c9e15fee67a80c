"""Which built-in table a CPU has, by what Linux tells of it in /proc/cpuinfo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_ANY = (0, 1 << 16)
AMD, INTEL = "AuthenticAMD", "GenuineIntel"


@dataclass(frozen=True)
class Known:
    """A kind of CPU, and its table. vendor: vendor_id, or on AArch64 `CPU implementer`. families, models: the first and last of
    a range. levels: ISA levels, one of which is the highest that the CPU has; all where there is none.
    """

    table: str
    vendor: str
    families: tuple[int, int] = _ANY
    models: tuple[tuple[int, int], ...] = (_ANY,)
    levels: tuple[str, ...] = ()


# The first that matches holds. Models are those of the vendors' lists (Linux's arch/x86/include/asm/intel-family.h; for AMD, whose
# generations share families, the models of each). Below them: hypervisors that hide or change the model leave the ISA level.
KNOWN = (
    Known("zen3", AMD, (25, 25), ((0x00, 0x0F), (0x20, 0x5F))),
    Known("zen4", AMD, (25, 25), ((0x10, 0x1F), (0x60, 0xAF))),
    Known("zen5", AMD, (26, 1 << 16)),  # and later ones, until they have their own
    Known("cascade_lake", INTEL, (6, 6), ((0x55, 0x55),), ("avx512_core_vnni",)),  # without vnni it is a Skylake
    Known("sapphire_rapids", INTEL, (6, 6), ((0x8F, 0x8F), (0xCF, 0xCF))),  # and Emerald Rapids
    Known("granite_rapids", INTEL, (6, 6), ((0xAD, 0xAE),)),
    Known("zen4", AMD, levels=("avx512_core_bf16",)),
    Known("zen3", AMD, (25, 25), levels=("avx2",)),
    Known("granite_rapids", INTEL, levels=("avx512_core_amx",)),
    Known("cascade_lake", INTEL, levels=("avx512_core_vnni",)),
    Known("amd", AMD),
    Known("aarch64", "0x41"),  # Arm
    Known("aarch64", "0xc0"),  # Ampere
)


def identified(cpu: Mapping[str, str], level: str) -> str:
    """The name of a CPU's table, '' for the one of its ISA level. cpu: what /proc/cpuinfo tells of the first one. level: its highest."""
    return next((known.table for known in KNOWN if _matches(known, cpu, level)), "")


def _matches(known: Known, cpu: Mapping[str, str], level: str) -> bool:
    vendor = cpu.get("vendor_id") or cpu.get("CPU implementer")
    family, model = (_number(cpu.get(key, "")) for key in ("cpu family", "model"))
    return (
        vendor == known.vendor
        and (known.families == _ANY or known.families[0] <= family <= known.families[1])
        and (known.models == (_ANY,) or any(first <= model <= last for first, last in known.models))
        and (not known.levels or level in known.levels)
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else -1
