"""LLVM IR, written as text while it is built: types, values, functions, and a builder that appends instructions to a block.

The names are those of llvmlite.ir, whose subset this is. llvmlite keeps an object for each instruction and asks all of them for their
text in the end, with the text of every type on the way: 40 us an instruction, where this takes 3. Its builder has neither the
intrinsics on vectors nor the opaque pointers that code generation needs; this one has nothing else.

What is known already is not written again: what was computed in this block or in one that dominates it, and what was read there, or
written, unless something that may overlap it was written since. Integer sums and products of constants, and offsets of nothing, are no
instructions at all. So LLVM is left with little to clean up (runtime/code.py).
"""

from __future__ import annotations

from benchgraph.codegen.ir.builder import IRBuilder
from benchgraph.codegen.ir.module import Block, Function, GlobalVariable, Module, Phi
from benchgraph.codegen.ir.values import (
    ANYWHERE,
    NOWHERE,
    Argument,
    ArrayType,
    Constant,
    FloatingType,
    FunctionType,
    IntType,
    LiteralStructType,
    Memory,
    Metadata,
    PointerType,
    Type,
    Value,
    VectorType,
    VoidType,
)

__all__ = [
    "ANYWHERE", "NOWHERE", "Argument", "ArrayType", "Block", "Constant", "FloatingType", "Function", "FunctionType", "GlobalVariable",
    "IRBuilder", "IntType", "LiteralStructType", "Memory", "Metadata", "Module", "Phi", "PointerType", "Type", "Value", "VectorType",
    "VoidType",
]  # fmt: skip
