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

from collections.abc import Iterable
from dataclasses import dataclass

from benchgraph.tir.ir import Alloc, Brgemm, Expr, Load, Pack, Prefetch, Scope, Seq, Stmt, Store, Tensor
from benchgraph.tir.visit import children, exprs, loads_of, map_children, map_exprs, map_parts


def promote_scalars(s: Stmt) -> Stmt:
    """s with registers for temporaries that one block stores once and then loads, at the same index, and that nothing else uses."""
    uses = _Uses()
    uses.visit(s, None)
    registers = uses.registers()
    return _Promotion(registers).stmt(s) if registers else s


@dataclass
class _Use:
    """The store to a temporary. block: the block that has it."""

    tensor: Tensor
    block: Seq
    index: tuple[Expr, ...]
    is_loaded: bool = False


class _Uses:
    """uses: stores of the temporaries that may become registers, by name."""

    def __init__(self) -> None:
        self.declared = dict[str, Tensor]()
        self.uses = dict[str, _Use]()

    def registers(self) -> dict[str, Tensor]:
        loaded = [use.tensor for use in self.uses.values() if use.is_loaded]
        return {t.name: Tensor(t.name, t.dtype, (), (), Scope.register) for t in loaded}

    def visit(self, s: Stmt, block: Seq | None) -> None:
        """Visit the statements of s in program order. block: the block that has s."""
        match s:
            case Seq():
                for c in s.stmts:
                    self.visit(c, s)
            case Alloc():
                if s.tensor.scope is not Scope.register:
                    self.declared[s.tensor.name] = s.tensor
            case Store():
                self._load(exprs(s), block)
                self._store(s, block)
            case Brgemm():
                self._exclude(p.tensor for p in (s.src, s.wei, s.acc))
                self._load(exprs(s), None)
            case Pack():
                self._exclude(p.tensor for p in (s.src, s.dst))
                self._load(exprs(s), None)
            case Prefetch():
                self._exclude((s.tensor,))
                self._load(exprs(s), None)
            case _:
                self._load(exprs(s), None)
                for c in children(s):
                    self.visit(c, None)

    def _load(self, expressions: Iterable[Expr], block: Seq | None) -> None:
        for e in expressions:
            for load in loads_of(e):
                use = self.uses.get(load.tensor.name)
                if use is not None and use.block is block and load.mask is None and load.index == use.index:
                    use.is_loaded = True
                else:
                    self._exclude((load.tensor,))

    def _store(self, s: Store, block: Seq | None) -> None:
        t = s.tensor
        if t.name not in self.declared:
            return
        if block is None or t.name in self.uses or s.mask is not None or any(map(loads_of, s.index)):
            self._exclude((t,))
        else:
            self.uses[t.name] = _Use(t, block, s.index)

    def _exclude(self, tensors: Iterable[Tensor]) -> None:
        """These tensors cannot become registers."""
        for t in tensors:
            self.declared.pop(t.name, None)
            self.uses.pop(t.name, None)


@dataclass(frozen=True)
class _Promotion:
    """Declares these temporaries as registers in front of their store."""

    registers: dict[str, Tensor]

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case Seq():
                return self._block(s)
            case Store() if s.tensor.name in self.registers:
                return Store(self.registers[s.tensor.name], (), self._expr(s.value))
            case Store():
                return map_exprs(s, self._expr)
        return map_children(s, self.stmt)

    def _block(self, s: Seq) -> Seq:
        stmts: list[Stmt] = []
        for c in s.stmts:
            register = self.registers.get(c.tensor.name) if isinstance(c, Alloc | Store) else None
            if register is not None and isinstance(c, Alloc):
                continue
            stmts += [] if register is None else [Alloc(register)]
            stmts.append(self.stmt(c))
        is_same = len(stmts) == len(s.stmts) and all(a is b for a, b in zip(stmts, s.stmts, strict=True))
        return s if is_same else Seq(tuple(stmts))

    def _expr(self, e: Expr) -> Expr:
        if not any(load.tensor.name in self.registers for load in loads_of(e)):
            return e
        if isinstance(e, Load) and e.tensor.name in self.registers:
            return Load(self.registers[e.tensor.name], ())
        return map_parts(e, self._expr)
