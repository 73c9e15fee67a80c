"""What the verifier knows at each statement, and how it reports that a rule is broken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from benchgraph.core.errors import BenchgraphError
from benchgraph.tir.affine import Range
from benchgraph.tir.ir import Func, Scope, Stmt, Tensor
from benchgraph.tir.text import header


class VerifyError(BenchgraphError):
    """Tensor IR that breaks a rule: a fault of the pass or lowering that made it."""


@dataclass(frozen=True)
class VerifierState:
    """Tensors in scope by name; ranges of loop variables, and names of those whose loop runs over all of its range; whether the statement
    is conditional, and in a parallel loop."""

    func: Func
    tensors: dict[str, Tensor]
    ranges: dict[str, Range]
    attained: frozenset[str] = frozenset()
    conditional: bool = False
    parallel: bool = False

    def declare(self, t: Tensor, where: str) -> VerifierState:
        if t.name in self.tensors:
            fail(where, self, f"the name {t.name} is declared twice in one scope")
        if len(t.shape) != len(t.strides) or any(d < 0 for d in t.shape):
            fail(where, self, f"{t.name} has shape {t.shape} and strides {t.strides}: they must be of one length, extents not negative")
        if t.scope is Scope.register and (t.shape or t.lanes < 1):
            fail(where, self, f"the register {t.name} must have shape () and at least one lane")
        if t.scope is not Scope.register and t.lanes != 1:
            fail(where, self, f"{t.name} has {t.lanes} lanes but is not a register")
        if t.padding and (t.scope is not Scope.thread or not 0 < t.padding < t.shape[-1]):
            fail(
                where,
                self,
                f"{t.name} has {t.padding} elements of padding: only part of each row of a thread's own temporary may be padding",
            )
        return replace(self, tensors={**self.tensors, t.name: t})


def fail(where: Stmt | str, state: VerifierState, rule: str) -> NoReturn:
    """Raise VerifyError about a statement, or about something described in words."""
    text = where if isinstance(where, str) else header(where)
    raise VerifyError(f"`{text}`: {rule}", where=f"TIR function {state.func.name}")
