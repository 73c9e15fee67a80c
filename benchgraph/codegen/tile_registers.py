"""Tile registers (AMX): their instructions and shapes."""

from __future__ import annotations

from typing import TypeAlias

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import I8, VOID, call, vector
from benchgraph.machine.target import TILE_ROWS

__all__ = ["LANES", "ROW", "ROW_BYTES", "TILE_ROWS", "UNIT_BYTES", "Shapes", "configure", "release", "tile_instruction"]

Shapes: TypeAlias = tuple[tuple[int, int], ...]  # of the tile registers: (rows, units of a row)

ROW_BYTES = 64
UNIT_BYTES = 4  # of a group of k in src and wei, and of an element of acc
LANES = ROW_BYTES // UNIT_BYTES
ROW = vector(I8, ROW_BYTES)


def tile_instruction(builder: ir.IRBuilder, name: str, *args: ir.Value) -> None:
    """An instruction on tile registers. It counts as a write to any memory, so that it is not moved across loads and stores."""
    call(builder, f"llvm.x86.{name}", VOID, args, ir.ANYWHERE)


def configure(builder: ir.IRBuilder, shapes: Shapes) -> None:
    """Set the shapes of the tile registers, and their contents to zero."""
    row_bytes = [byte for _, units in shapes for byte in (units * UNIT_BYTES, 0)]
    rows = [rows for rows, _ in shapes]
    # palette 1; 15 bytes of zeros; bytes of a row of each of 16 registers, in two bytes each; rows of each register, in one byte each
    bytes = [1, *[0] * 15, *row_bytes, *[0] * (32 - len(row_bytes)), *rows, *[0] * (16 - len(rows))]
    name, module = "_".join(["tiles", *(f"{rows}x{units}" for rows, units in shapes)]), builder.module
    known = module.variables.get(name)
    tile_instruction(builder, "ldtilecfg", known if known is not None else ir.GlobalVariable(module, ir.Constant(ROW, bytes), name))


def release(builder: ir.IRBuilder) -> None:
    """Give the tile registers back: a thread that uses them takes longer to switch to and from."""
    tile_instruction(builder, "tilerelease")
