"""The loop that runs the passes of every IR, and verifies, prints, times, dumps and records them. A pass only maps IR to IR.

A pass declares the facts that it needs and those that it establishes, so that the order of a pipeline can be checked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from benchgraph.core import record
from benchgraph.core.config import config
from benchgraph.core.errors import CompilerFault, InvalidGraph, InvalidShape
from benchgraph.core.record import Step
from benchgraph.core.remarks import remark

T = TypeVar("T")

OFF = "no-"  # in front of a switch: leave the passes out that have it


@dataclass(frozen=True)
class Pass(Generic[T]):
    """name: kebab-case, the file's stem and the word for BENCHGRAPH_PRINT_AFTER. fn returns its argument when nothing changed.

    switch: the word after `no-` that leaves the pass out; '' for a pass that later ones depend on. formerly: former names of the pass, and
    of its switch with `no-` in front; they still work, with a remark that gives the new one.
    """

    name: str
    fn: Callable[[T, Any], T]
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()
    switch: str = ""
    formerly: tuple[str, ...] = ()

    @property
    def former_names(self) -> tuple[str, ...]:
        return tuple(word for word in self.formerly if not word.startswith(OFF))

    @property
    def former_switches(self) -> tuple[str, ...]:
        return tuple(word.removeprefix(OFF) for word in self.formerly if word.startswith(OFF))


class Observer(Protocol):
    """Sees every stage of a compilation, in order: the name, the IR's text on demand, and the seconds it took."""

    def __call__(self, stage: str, text: Callable[[], str], seconds: float) -> None: ...


def check_order(pipeline: Iterable[Pass[T]]) -> None:
    """Raises ValueError when a pass needs a fact that no earlier one gives."""
    have: set[str] = set()
    for p in pipeline:
        if missing := p.needs - have:
            raise ValueError(f"pass {p.name} needs {', '.join(sorted(missing))}, which no earlier pass gives")
        have |= p.gives


def run(
    pipeline: tuple[Pass[T], ...],
    ir: T,
    target: Any,
    *,
    show: Callable[[T], str],
    verify: Callable[[T], None],
    observe: Observer,
    off: Collection[str] = (),
) -> T:
    """Run all passes but those whose switch is in `off`. BENCHGRAPH_VERIFY: 1 verifies the result, 2 after every pass that changed it.

    Raises the errors of passes, but CompilerFault for InvalidGraph and InvalidShape, since the user's graph was checked before.
    """
    flags = config()
    record.step(Step("", ir))
    for p in pipeline:
        if p.switch and p.switch in off:
            record.step(Step(p.name, ir, is_off=True))
            continue
        begin = time.perf_counter()
        try:
            after = p.fn(ir, target)
        except (InvalidGraph, InvalidShape) as bad:
            raise CompilerFault(bad.what, where=f"pass {p.name}", fix="a fault of the compiler: report it with the graph") from bad
        seconds = time.perf_counter() - begin
        changed, ir = after is not ir, after
        record.step(Step(p.name, ir, seconds, changed))
        if changed and flags.verify >= 2:
            verify(ir)
        observe(p.name, _text_of(show, ir), seconds)
    if flags.verify >= 1:
        verify(ir)
    return ir


def _text_of(show: Callable[[T], str], ir: T) -> Callable[[], str]:
    return lambda: show(ir)


# The stages of a compilation besides its passes, in order: from the partition to the machine code.
TEXTS = PARTITION, GIR, TIR, LLVM, LLVM_OPT, ASSEMBLY = "partition", "gir", "tir", "llvm", "llvm-opt", "assembly"
# The lowest BENCHGRAPH_DEBUG that prints the stage.
_SHOWN_FROM = {PARTITION: 1, "schedule": 3, TIR: 4, "vectorise": 4, LLVM: 5, ASSEMBLY: 5}


def print_stage(stage: str, text: Callable[[], str], seconds: float, formerly: Collection[str] = ()) -> None:
    """The observer that obeys BENCHGRAPH_PRINT_AFTER (names or 'all') and BENCHGRAPH_DEBUG (from 2 on: times too), on stderr.

    formerly: former names of the stage, which print it too, with a remark.
    """
    flags = config()
    former = [name for name in formerly if name in flags.print_after]
    for name in former:
        remark(f"BENCHGRAPH_PRINT_AFTER: {name} is now {stage}")
    if flags.debug >= 2:
        print(f"{seconds * 1e3:9.3f} ms  {stage}", file=sys.stderr)
    if former or stage in flags.print_after or "all" in flags.print_after or flags.debug >= _SHOWN_FROM.get(stage, flags.debug + 1):
        print(f"// ---- after {stage}\n{text()}", file=sys.stderr)
