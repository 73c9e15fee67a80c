"""A compiled partition bound to memory of its own for its outputs, and executed so that mistakes show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.arrays import Array, elements, view
from benchgraph.core.tensor import LogicalTensor
from benchgraph.harness.buffers import NAN_BYTE, invert_bits
from benchgraph.harness.verdict import Verdict
from benchgraph.library.protocol import Compiled
from benchgraph.measure.phases import phase
from benchgraph.partition.ir import Partition
from benchgraph.runtime.memory import mapped


class BoundPartition:
    """A compiled partition on its inputs, with memory of its own for its outputs."""

    @phase("execute")
    def __init__(self, partition: Partition, code: Compiled, live: dict[int, Array]) -> None:
        self._memory = [mapped(t.nbytes) for t in partition.outputs]
        self.tensors = partition.outputs
        self.outputs = {t.id: view(m, t) for m, t in zip(self._memory, partition.outputs, strict=True)}
        self._variable = [live[t.id] for t in partition.inputs if not t.is_constant]
        self._bound = code.bind([live[t.id] for t in partition.inputs], list(self.outputs.values()))

    @phase("execute")
    def execute(self) -> None:
        """Execute into memory full of NaN bytes, so that an element that is not written shows."""
        for m in self._memory:
            m.fill(NAN_BYTE)
        self._bound()

    def execute_on_other_data(self) -> None:
        """Execute with every bit of the inputs flipped, but for constants, whose results the first execution may keep.

        Only the next execution uses what was kept: if that depends on anything but constants, its results are wrong.
        """
        invert_bits(self._variable)
        try:
            self.execute()
        finally:  # other libraries go on with these inputs when this one fails
            invert_bits(self._variable)


def repeat(run: BoundPartition, where: str, verdict: Verdict) -> Verdict:
    """The verdict after a second execution, which must give the same bits."""
    first = {t.id: _bits(run.outputs[t.id], t) for t in run.tensors}
    run.execute()
    for t in run.tensors:
        wrong = np.flatnonzero((first[t.id] != _bits(run.outputs[t.id], t)).any(axis=1))
        verdict = replace(verdict, total=verdict.total + t.type.elements)
        if wrong.size:
            what = f"{wrong.size} of {t.type.elements} values differ from one execution to the next; first at position {wrong[0]}"
            return replace(verdict, errors=int(wrong.size), reason=f"{where}: tensor {t.id}: {what}")
    return verdict


def _bits(array: Array, t: LogicalTensor) -> NDArray[np.uint8]:
    """A row of bytes per element."""
    return np.frombuffer(elements(array, t).tobytes(), np.uint8).reshape(t.type.elements, -1 if t.type.elements else 1)
