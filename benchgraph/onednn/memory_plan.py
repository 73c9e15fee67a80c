"""Which values between the partitions of a chain share memory, including oneDNN's in-place pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.core import slots
from benchgraph.core.slots import Value
from benchgraph.onednn.messages import Compiled


@dataclass(frozen=True)
class PlannedStep:
    """A step. open: ids of its outputs that are read only inside the chain."""

    made: Compiled
    open: frozenset[int]


def plan(steps: Sequence[PlannedStep]) -> slots.Plan:
    """Assign memory to the values between steps, in place of inputs that are last read by the step where oneDNN offers the pair.

    Users' tensors have memory of their own: the next execution would find them overwritten.
    """
    last = {p.tensor.id: step for step, planned in enumerate(steps) for p in planned.made.inputs}
    values = [
        Value(id, p.nbytes, step, last[id], tuple(a for a, b in planned.made.inplace if b == id))
        for step, planned in enumerate(steps)
        for p in planned.made.outputs
        if (id := p.tensor.id) in planned.open and id in last
    ]
    return slots.plan(values, grows=False)
