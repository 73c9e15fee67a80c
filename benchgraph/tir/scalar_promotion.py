"""Scalar promotion: temporaries of which one block uses a single element become registers of that block.

for i in 64 {                      ->  for i in 64 {
  u[i] = t[i]*s                          alloc u: f32 register
  y[i] = exp(u[i])                       u = t[i]*s
}                                        y[i] = exp(u)
                                       }

Most temporaries between ops of one nest are such. shrink-tensors would do the same with a proof for each; this single walk is much cheaper
(tests/test_compile_cost.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import is_
from typing import Any

from benchgraph.tir.ir import Alloc, Expr, Load, Scope, Seq, Stmt, Store, Tensor
from benchgraph.tir.visit import accesses, children, loads_of, map_accesses, map_children, tensor_names


def promote_scalars(s: Stmt) -> Stmt:
    """s with registers for temporaries that one block stores once and then loads, at the same index, and that nothing else uses."""
    registers = _registers(s)
    return _promoted(s, registers) if registers else s


def _registers(s: Stmt) -> dict[str, Tensor]:
    """The registers, by the name of the temporary."""
    declared, loaded = dict[str, Tensor](), set[str]()
    stored = dict[str, tuple[int, tuple[Expr, ...]]]()  # block and index of the store
    for c, block in _in_blocks(s, None):
        for access in accesses(c):
            name = access.tensor.name
            if isinstance(access, Alloc):
                if access.tensor.scope is not Scope.register:
                    declared[name] = access.tensor
            elif name in declared:
                is_plain = isinstance(c, Store) and block is not None and isinstance(access, Load | Store) and access.mask is None
                place = id(block), access.index
                if is_plain and isinstance(access, Load) and stored.get(name) == place:
                    loaded.add(name)
                elif is_plain and isinstance(access, Store) and name not in stored and not any(map(loads_of, access.index)):
                    stored[name] = place
                else:
                    del declared[name]
    return {name: Tensor(name, declared[name].dtype, (), (), Scope.register) for name in loaded & declared.keys()}


def _in_blocks(s: Stmt, block: Seq | None) -> Iterator[tuple[Stmt, Seq | None]]:
    """s and every statement inside it, in program order, each with the block that it is directly in."""
    yield s, block
    for c in children(s):
        yield from _in_blocks(c, s if isinstance(s, Seq) else None)


def _promoted(s: Stmt, registers: dict[str, Tensor]) -> Stmt:
    """s with these registers, each declared in front of its store."""
    if tensor_names(s).isdisjoint(registers):
        return s
    if not isinstance(s, Seq):

        def promoted(access: Any) -> Any:
            return replace(access, tensor=registers[access.tensor.name], index=()) if access.tensor.name in registers else access

        return map_children(map_accesses(s, promoted), lambda c: _promoted(c, registers))
    stmts: list[Stmt] = []
    for c in s.stmts:
        register = registers.get(c.tensor.name) if isinstance(c, Alloc | Store) else None
        if register is None or isinstance(c, Store):
            stmts += [_promoted(c, registers)] if register is None else [Alloc(register), _promoted(c, registers)]
    return s if len(stmts) == len(s.stmts) and all(map(is_, stmts, s.stmts)) else Seq(tuple(stmts))
