"""LLVM IR as text: just what code generation needs of it.

values.py   types, constants, metadata
module.py   modules, functions, blocks
builder.py  instructions
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
