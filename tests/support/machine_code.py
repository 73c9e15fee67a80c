"""The machine code of LLVM IR, as text."""

from __future__ import annotations

from benchgraph.core.isa import Isa
from benchgraph.runtime.code import Unit


def assembly(text: str, isa: Isa) -> str:
    return Unit(b"", text).assembly(isa)
