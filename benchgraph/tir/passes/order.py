"""A pass, and the check that a pipeline runs its passes in a sound order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchgraph.core.target import Target
from benchgraph.tir.ir import Func


@dataclass(frozen=True)
class Pass:
    """fn returns the same object when it changed nothing.

    needs: facts that passes before it must have established; gives: facts it establishes.
    """

    name: str
    fn: Callable[[Func, Target], Func]
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()


def check_order(pipeline: Sequence[Pass]) -> None:
    """Raise ValueError, naming the pass and the missing facts, when a pass comes before what it needs."""
    known: set[str] = set()
    for p in pipeline:
        if not p.needs <= known:
            raise ValueError(f"pass {p.name} needs {', '.join(sorted(p.needs - known))}, which no pass before it gives")
        known |= p.gives
