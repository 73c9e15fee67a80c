"""Tile registers (AMX): their instructions and shapes."""

from __future__ import annotations

from typing import TypeAlias

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import I8, VOID, call, vector
from benchgraph.core.target import TILE_ROWS

__all__ = ["LANES", "ROW", "ROW_BYTES", "TILE_ROWS", "UNIT_BYTES", "Shapes", "configure", "do", "release"]

Shapes: TypeAlias = tuple[tuple[int, int], ...]  # of the tile registers: rows, and units of each row

ROW_BYTES = 64
UNIT_BYTES = 4  # of a group of k, and of an element of acc
LANES = ROW_BYTES // UNIT_BYTES
ROW = vector(I8, ROW_BYTES)


def do(builder: ir.IRBuilder, what: str, *args: ir.Value) -> None:
    """An instruction on tile registers, of which LLVM is told that it may write anywhere."""
    call(builder, f"llvm.x86.{what}", VOID, args, ir.ANYWHERE)


def configure(builder: ir.IRBuilder, shapes: Shapes) -> None:
    """Give the tile registers their shapes, and zeros to hold."""
    wide = [byte for _, units in shapes for byte in (units * UNIT_BYTES, 0)]
    high = [rows for rows, _ in shapes]
    # palette 1; 15 bytes of zeros; bytes of a row of each of 16 registers, in two bytes; rows of each, in one
    bytes = [1, *[0] * 15, *wide, *[0] * (32 - len(wide)), *high, *[0] * (16 - len(high))]
    name, module = "_".join(["tiles", *(f"{rows}x{units}" for rows, units in shapes)]), builder.module
    known = module.variables.get(name)
    do(builder, "ldtilecfg", known if known is not None else ir.GlobalVariable(module, ir.Constant(ROW, bytes), name))


def release(builder: ir.IRBuilder) -> None:
    """Take their shapes away."""
    do(builder, "tilerelease")
