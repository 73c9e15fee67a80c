"""Targets that tests compile for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from benchgraph.core.config import override
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.machine.target import ISAS, Target, current

# Two cores with AVX-512 and caches of common sizes: what does not depend on the machine is compiled for this.
TARGET = Target(ISAS["avx512_core"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=2)
EMULATED_DOTS = replace(TARGET, emulated=frozenset({DType.u8, DType.bf16}))  # dot products of these dtypes, without instructions for them


def _levels() -> dict[str, Target]:
    found = {}
    for name in ISAS:
        with suppress(Unimplemented), override(isa=name):
            found[name] = current()
    return found


MACHINE_LEVELS = _levels()  # this machine at each ISA level that it has, by name
