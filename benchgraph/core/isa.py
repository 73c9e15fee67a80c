"""The instruction set levels that code is generated for, under oneDNN's names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Isa:
    """One instruction set level. lanes: of f32 per vector register. registers: the number of vector registers.

    needs: CPU features that must be there, in LLVM's names. without: features that code must not use, even if the CPU has them; LLVM also
    disables the features that imply one of these.
    """

    name: str
    lanes: int
    registers: int
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def vector_bits(self) -> int:
        return 32 * self.lanes

    @property
    def has_vnni(self) -> bool:
        """Whether there is vpdpbusd, which adds four products of u8 and s8 to an s32 without saturation in between."""
        return "avx512vnni" in self.needs or "avxvnni" in self.needs

    @property
    def has_bf16(self) -> bool:
        """Whether there is vdpbf16ps, which adds two products of bf16 to an f32."""
        return "avx512bf16" in self.needs

    @property
    def has_amx(self) -> bool:
        """Whether there are tile registers, and instructions that multiply tiles of bf16 and of u8 and s8."""
        return "amx-tile" in self.needs


_CORE = ("avx512f", "avx512bw", "avx512vl", "avx512dq")  # oneDNN's avx512_core: what Skylake servers have
_VNNI = (*_CORE, "avx512vnni")
_BF16 = (*_VNNI, "avx512bf16")
_AMX = (*_BF16, "amx-tile", "amx-bf16", "amx-int8")

# Highest first. avx512f already converts f16; arithmetic in f16 (avx512fp16) is not used.
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
