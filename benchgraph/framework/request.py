"""Write requests: how an op's result is written to an output.

    request         the op writes to                                                     at commit
    null            temporary memory                                                     nothing: the array does not change
    write_to        the array's memory, with the op's layout, if it is large enough      nothing
                    otherwise, if it is a view and the layout opaque, or if it overlaps
                    an input: a temporary                                                copied to the array's layout
    write_inplace   the input's memory, if the op may overwrite it and all layouts agree nothing
                    as write_to otherwise
    add_to          a temporary                                                          added in the array's layout

    with output(dst, desc, req, scope) as memory:
        kernel(src, memory)

An op that raises inside commits nothing. Gradients of weights are always row-major: output(..., default_only=True).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

import numpy as np

from benchgraph.core.errors import InvalidArguments, Unimplemented
from benchgraph.framework.counters import counters
from benchgraph.framework.memory_desc import MemoryDesc
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.reorder import convert
from benchgraph.framework.shared_storage import Store
from benchgraph.framework.temp_space import Memory, Scope


class OpReq(Enum):
    null = "null"
    write_to = "write_to"
    write_inplace = "write_inplace"
    add_to = "add_to"


class Action(Enum):
    nothing = "nothing"
    publish = "publish"
    copy_back = "copy_back"
    add_back = "add_back"


class Output:
    """One output of a running op. memory: where the op writes, with the desc that it requested. `commit` is called once, after that."""

    def __init__(
        self,
        array: NDArray,
        desc: MemoryDesc,
        req: OpReq,
        scope: Scope,
        inputs: Sequence[NDArray] = (),
        inplace: Collection[int] = (),
        *,
        default_only: bool = False,
    ) -> None:
        self.array, self._scope, self._default_only, self._is_open = array, scope, default_only, True
        self._where = array.where(scope.label)
        self._pending: Store | None = None
        self._seen = array.live_store(scope.label)
        check_output(array, desc, req, scope.label, default_only=default_only)
        self.action, self.memory = self._place(desc, req, inputs, inplace)

    def _place(self, desc: MemoryDesc, req: OpReq, inputs: Sequence[NDArray], inplace: Collection[int]) -> tuple[Action, Memory]:
        if req in (OpReq.null, OpReq.add_to):
            action = Action.nothing if req is OpReq.null else Action.add_back
            return action, self._scope.alloc(desc, self.array.name)
        over = [i for i, a in enumerate(inputs) if a.overlaps(self.array)]
        direct = None
        if not over:
            direct = self._direct(desc)
        elif req is OpReq.write_inplace and all(i in inplace and inputs[i].is_same_window(self.array) for i in over):
            direct = self._direct(desc) if self.array.desc == desc else None
        if direct is not None:
            return Action.publish, direct
        return Action.copy_back, self._scope.alloc(desc, self.array.name)

    def _direct(self, desc: MemoryDesc) -> Memory | None:
        """The array's own memory with this desc, uninitialised except around a view; None if that is impossible."""
        array, chunk = self.array, self.array.chunk
        if not array.is_view:
            if self._default_only and not desc.is_plain:
                return None
            self._pending = made = chunk.writable(array.plain_desc if desc.is_plain else desc, self._where)
            return None if made is None else Memory(desc, array.window(made) if desc.is_plain else made.data, self._scope, array)
        if not desc.is_plain:
            return None
        chunk.to_default(self._where)
        self._seen = chunk.store(self._where)
        self._pending = chunk.writable(self._seen.desc, self._where)
        assert self._pending is not None, "the memory has room for what it holds"
        if self._pending.buffer is not self._seen.buffer:
            self._pending.buffer[...] = self._seen.buffer
        return Memory(desc, array.window(self._pending), self._scope, array)

    def commit(self) -> None:
        """Make the result the array's value, as requested. Raises InvalidArguments the second time."""
        if not self._is_open:
            raise InvalidArguments("its output is committed twice", where=self._where, fix="use `with output(...)`, which commits once")
        self._is_open = False
        commits = {Action.publish: self._publish, Action.copy_back: self._copy_back, Action.add_back: self._add_back}
        if self.action in commits:
            commits[self.action]()

    def _publish(self) -> None:
        assert self._pending is not None
        chunk = self.array.chunk
        if self.array.is_view and chunk.store(self._where).buffer is not self._seen.buffer:  # another thread has converted the parent
            written = self.memory.data
            chunk.replaced(lambda memory: np.copyto(self.array.part(memory), written), self._where)
            return
        chunk.publish(self._pending, self._where)

    def _copy_back(self) -> None:
        counters().copies_back += 1
        array, source = self.array, self.memory
        keeps = not array.is_view and not self._default_only and array.holds(array.desc)
        target = self._direct(array.desc if keeps else array.plain_desc)
        assert target is not None, "the layout it has fits"
        convert(source.data, source.desc, target.data, target.desc)
        self._publish()

    def _add_back(self) -> None:
        counters().adds_back += 1
        array = self.array
        if array.is_view or self._default_only:
            array.chunk.to_default(self._where)
        old = array.memory(self._scope)
        term = self.memory
        if term.desc != old.desc:
            term = self._scope.alloc(old.desc, array.name)
            convert(self.memory.data, self.memory.desc, term.data, old.desc)
        new = self._direct(old.desc)
        assert new is not None, "the layout it has fits"
        with np.errstate(all="ignore"):  # padding is undefined
            np.add(old.array, term.array, out=new.array)
        self._publish()


def check_output(array: NDArray, desc: MemoryDesc, req: OpReq, op: str, *, default_only: bool = False) -> None:
    """Raise all errors of an output before anything is written."""
    where = array.where(op)
    if not isinstance(req, OpReq):
        raise InvalidArguments(f"the request is {req!r}", where=where, fix=f"use one of {', '.join(map(str, OpReq))}")
    array.check_desc(desc, op)
    if req is OpReq.null:
        return
    if array.chunk.frozen:
        raise InvalidArguments("its memory is frozen: it is constant to its owner", where=where, fix="write to another array")
    if req is OpReq.add_to:
        array.readable_store(op)
        if array.dtype.is_packed:
            raise Unimplemented(f"nothing adds to {array.dtype.value}", where=where, fix="request write_to")
    if default_only and req is OpReq.write_inplace:
        raise InvalidArguments("a gradient cannot overwrite an input", where=where, fix="request write_to or add_to")


@contextmanager
def outputs(
    arrays: Sequence[NDArray],
    descs: Sequence[MemoryDesc],
    reqs: Sequence[OpReq],
    scope: Scope,
    inputs: Sequence[NDArray] = (),
    inplace: Collection[tuple[int, int]] = (),
    *,
    default_only: Collection[int] = (),
) -> Iterator[list[Memory]]:
    """The memories that an op writes its outputs to; committed in order unless the block raises.

    inputs: the arrays it reads; inplace: (input, output) positions that may share memory; default_only: the outputs that are gradients of
    weights. Raises InvalidArguments, InvalidShape, InvalidDataType or Unimplemented, naming array and op, before anything is written.
    """
    for k, a in enumerate(arrays):
        for other in arrays[:k]:
            if a.overlaps(other):
                fix = "give every output its own memory"
                raise InvalidArguments(f"it overlaps array '{other.name}'", where=a.where(scope.label), fix=fix)
    made = [
        Output(a, desc, req, scope, inputs, {i for i, o in inplace if o == k}, default_only=k in default_only)
        for k, (a, desc, req) in enumerate(zip(arrays, descs, reqs, strict=True))
    ]
    yield [o.memory for o in made]
    for o in made:
        o.commit()


@contextmanager
def output(
    array: NDArray,
    desc: MemoryDesc,
    req: OpReq,
    scope: Scope,
    inputs: Sequence[NDArray] = (),
    inplace: Collection[int] = (),
    *,
    default_only: bool = False,
) -> Iterator[Memory]:
    """`outputs` for an op with one output. inplace: the inputs that it may overwrite."""
    pairs = {(i, 0) for i in inplace}
    with outputs([array], [desc], [req], scope, inputs, pairs, default_only={0} if default_only else ()) as (memory,):
        yield memory
