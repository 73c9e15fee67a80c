"""The instruction set levels that code is generated for, by oneDNN's names for them, each a superset of the ones below it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Isa:
    """One instruction set level: f32 lanes per vector register, and how many registers there are.

    needs: features, by LLVM's names, that the CPU must have. without: those that code must not use, though the CPU may have them;
    LLVM takes with each whatever implies it.
    """

    name: str
    lanes: int
    registers: int
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def vector_bits(self) -> int:
        """Width of one vector register."""
        return 32 * self.lanes

    @property
    def has_vnni(self) -> bool:
        """vpdpbusd: sums of four products of u8 and s8, added to s32, without saturation in between."""
        return "avx512vnni" in self.needs or "avxvnni" in self.needs

    @property
    def has_bf16(self) -> bool:
        """vdpbf16ps: sums of two products of bf16, added to f32."""
        return "avx512bf16" in self.needs

    @property
    def has_amx(self) -> bool:
        """Tile registers, and sums of products of bf16, and of u8 and s8, of whole tiles."""
        return "amx-tile" in self.needs


_CORE = ("avx512f", "avx512bw", "avx512vl", "avx512dq")  # oneDNN's avx512_core: what Skylake servers have
_VNNI = (*_CORE, "avx512vnni")
_BF16 = (*_VNNI, "avx512bf16")
_AMX = (*_BF16, "amx-tile", "amx-bf16", "amx-int8")

# Highest first. Conversions of f16 are in avx512f already; its arithmetic (avx512fp16) is not used.
ISAS = {
    isa.name: isa
    for isa in (
        Isa("avx512_core_amx", lanes=16, registers=32, needs=_AMX, without=("avx512fp16",)),
        Isa("avx512_core_bf16", lanes=16, registers=32, needs=_BF16, without=("avx512fp16",)),
        Isa("avx512_core_vnni", lanes=16, registers=32, needs=_VNNI, without=("avx512bf16", "avx512fp16")),
        Isa("avx512_core", lanes=16, registers=32, needs=_CORE, without=("avx512vnni", "avxvnni", "avx512bf16", "avx512fp16")),
        Isa("avx2_vnni", lanes=8, registers=16, needs=("avx2", "fma", "avxvnni"), without=("avx512f",)),
        Isa("avx2", lanes=8, registers=16, needs=("avx2", "fma"), without=("avx512f", "avxvnni")),
        Isa("portable", lanes=4, registers=16, without=("avx512f", "avx", "avx2", "fma")),
    )
}
ISA_CHOICES = ("auto", *ISAS)  # auto: the highest that the CPU has
