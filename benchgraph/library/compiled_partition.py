"""Compiled partitions: machine code for one partition and set of shapes, and its execution on tensors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LogicalTensor
from benchgraph.library.cache import Cache
from benchgraph.library.engine import Stream
from benchgraph.library.tensor import Tensor
from benchgraph.partition import ir
from benchgraph.runtime.executable import Array, Bound, Executable

BOUND_PER_THREAD = 16
_HELD = attrgetter("held")


@dataclass(frozen=True, eq=False)
class CompiledPartition:
    """Machine code for one partition and set of shapes. Threads may execute it concurrently. from_cache: nothing was compiled for it."""

    description: ir.Partition
    given_inputs: tuple[int, ...]
    given_outputs: tuple[int, ...]
    executable: Executable
    from_cache: bool = False
    _per_thread: threading.local = field(default_factory=threading.local, repr=False)

    @cached_property
    def _tensors(self) -> dict[int, LogicalTensor]:
        return {t.id: t for t in (*self.description.inputs, *self.description.outputs)}

    def query_logical_tensor(self, id: int) -> LogicalTensor:
        """A port with everything known: dims, strides, size. Raises InvalidArguments for an id that is no port."""
        if id not in self._tensors:
            known = ", ".join(map(str, self._tensors))
            raise InvalidArguments(f"tensor {id} is no port of the partition", where="query_logical_tensor", fix=f"ports are {known}")
        return self._tensors[id]

    def get_inplace_ports(self) -> tuple[tuple[int, int], ...]:
        """(input id, output id) pairs: the output may be given the memory of the input, whole, and then overwrites it.

        A hint: with memory of its own the output comes out the same.
        """
        ins, outs = self.description.inputs, self.description.outputs
        return tuple((ins[i].id, outs[o].id) for i, o in sorted(self.executable.inplace))

    def execute(self, stream: Stream, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Run once. Tensors come in the order in which their logical tensors were given to compile; results go to the outputs' memory."""
        try:
            held = tuple(map(_HELD, (*inputs, *outputs)))
        except AttributeError as bad:
            strange = next(type(t).__name__ for t in (*inputs, *outputs) if not isinstance(t, Tensor))
            raise InvalidArguments(f"cannot execute on a {strange}", where="execute", fix="give it tensors") from bad
        bound, _ = self._bounds().get(tuple(map(id, held)), lambda: (self._bind(inputs, outputs), held))
        bound()

    def _bounds(self) -> Cache[tuple[Bound, tuple[object, ...]]]:
        """This thread's bound buffers, by the identity of what the tensors hold, which is kept alive: a Bound serves one call at a time."""
        if not hasattr(self._per_thread, "bounds"):
            self._per_thread.bounds = Cache(BOUND_PER_THREAD)
        found: Cache[tuple[Bound, tuple[object, ...]]] = self._per_thread.bounds
        return found

    def _bind(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Bound:
        ins = self._arrays(inputs, self.given_inputs, self.description.inputs, "input")
        outs = self._arrays(outputs, self.given_outputs, self.description.outputs, "output")
        return self.executable.bind(ins, outs)

    def _arrays(self, given: Sequence[Tensor], order: tuple[int, ...], ports: tuple[LogicalTensor, ...], role: str) -> list[Array]:
        ids = tuple(t.logical.id for t in given)
        if ids != order:
            what = f"{role} tensors {list(ids)}, compiled with {list(order)}"
            raise InvalidArguments(what, where="execute", fix="pass the tensors in the order of compile")
        by_id = dict[int, Array]()
        for t in given:
            if by_id.setdefault(t.logical.id, t.array) is not t.array:
                fix = "give the same tensor wherever the id occurs"
                raise InvalidArguments(f"{role} tensor {t.logical.id} comes with two memories", where="execute", fix=fix)
        return [by_id[port.id] for port in ports]
