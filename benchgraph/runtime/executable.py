"""Compiled code with its calling convention: check the buffers once, then call with nothing in between."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from benchgraph.codegen.frame import thread_stride
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.target import ISAS
from benchgraph.runtime.code import Code, load
from benchgraph.runtime.memory import aligned
from benchgraph.tir.ir import Func, Module, Tensor

Array = NDArray[np.generic]
MOST_WORK = 100_000  # steps of numpy's exact search for a common element; a pair of strided 4-d arrays takes a few hundred
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Signature(Protocol):
    """How the functions of a module are called (lower.Lowered is one).

    main's params are (inputs, outputs, constants), init's (inputs at positions init_inputs, constants). constants are buffers of ours
    that outlive a call; literals[i] is what constants[i] starts with, None for those that init fills.
    """

    @property
    def inputs(self) -> tuple[Tensor, ...]: ...
    @property
    def outputs(self) -> tuple[Tensor, ...]: ...
    @property
    def constants(self) -> tuple[Tensor, ...]: ...
    @property
    def literals(self) -> tuple[Array | None, ...]: ...
    @property
    def init_inputs(self) -> tuple[int, ...]: ...


class _Constants:
    """The constants of one set of constant input buffers. ready: init has run."""

    def __init__(self, signature: Signature, ready: bool) -> None:
        self.buffers = [_filled(t, data) for t, data in zip(signature.constants, signature.literals, strict=True)]
        self.lock = threading.Lock()
        self.ready = ready


class Executable:
    """A compiled partition (library.protocol.Compiled).

    Constants are computed once per set of constant input addresses and shared by all Bounds over them. They live as long as one of
    those Bounds does: it keeps the arrays alive, so no other array can come to the same address meanwhile.

    inplace: (input, output) positions that may be bound to one piece of memory.
    """

    def __init__(self, code: Code, module: Module, signature: Signature, compile_s: float) -> None:
        self.code, self.module, self.signature, self.compile_s = code, module, signature, compile_s
        self.main = _ENTRY(code.address(module.main.name))
        self._init = None if module.init is None else _ENTRY(code.address(module.init.name))
        self.inplace = _positions(module.main, len(signature.inputs))
        self._constants: WeakValueDictionary[tuple[int, ...], _Constants] = WeakValueDictionary()
        self._lock = threading.Lock()

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Bound:
        """Fix the buffers; raises InvalidArguments, naming it, for one that is not what was compiled or overlaps another.

        An output may lie over an input only as a pair of `inplace`, starting where that input starts.

        A Bound owns its arenas, so one Bound must not be called by two threads at a time; two Bounds may.
        """
        _check("input", inputs, self.signature.inputs)
        _check("output", outputs, self.signature.outputs)
        _check_separate(self, inputs, outputs)
        return Bound(self, tuple(inputs), tuple(outputs))

    def constants(self, inputs: Sequence[Array]) -> _Constants:
        """The constants for these inputs, possibly not computed yet."""
        key = tuple(_address(inputs[i]) for i in self.signature.init_inputs)
        with self._lock:
            found = self._constants.get(key)
            if found is None:
                found = self._constants[key] = _Constants(self.signature, ready=self._init is None)
            return found

    def initialise(self, constants: _Constants, inputs: Sequence[Array]) -> None:
        """Run init unless it has run for these constants; a second caller waits for the first."""
        with constants.lock:
            if constants.ready or self._init is None or self.module.init is None:
                return
            buffers = [inputs[i] for i in self.signature.init_inputs] + constants.buffers
            argv, _arenas = _arguments(buffers, self.module.init, self.code.threads)
            self._init(ctypes.addressof(argv))
            constants.ready = True


class Bound:
    """An Executable with its buffers fixed (library.protocol.Bound)."""

    def __init__(self, executable: Executable, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
        self._executable, self._inputs, self._outputs = executable, inputs, outputs
        self._constants = executable.constants(inputs)
        buffers = [*inputs, *outputs, *self._constants.buffers]
        self._argv, self._arenas = _arguments(buffers, executable.module.main, executable.code.threads)
        self._main, self._argument = executable.main, ctypes.c_void_p(ctypes.addressof(self._argv))
        self._is_new = True

    def __call__(self) -> None:
        """Execute once, synchronously. The first call also computes the constants, if no other Bound has."""
        if self._is_new:
            self.prepare()
        self._main(self._argument)

    def prepare(self) -> None:
        """Compute the constants now, if they are not."""
        self._executable.initialise(self._constants, self._inputs)
        self._is_new = False

    @property
    def step(self) -> tuple[int, int]:
        """(address of the function, address of its argument), what a Chain calls."""
        return ctypes.cast(self._main, ctypes.c_void_p).value or 0, ctypes.addressof(self._argv)


class Chain:
    """Bounds as one native call (library.protocol.Chain)."""

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self._bounds = tuple(bounds)
        steps = [address for bound in self._bounds for address in bound.step]
        self._table = (ctypes.c_void_p * max(1, len(steps)))(*steps)
        self._loop = _chain_loop()

    def run(self, times: int) -> None:
        """Execute all steps in order, `times` times, in one native call; constants are computed before it."""
        for bound in self._bounds:
            bound.prepare()
        self._loop(ctypes.addressof(self._table), len(self._bounds), times)


def chain(bounds: Sequence[object]) -> Chain:
    """A Chain of our Bounds. Raises InvalidArguments for anything else."""
    ours = [b for b in bounds if isinstance(b, Bound)]
    if len(ours) != len(bounds):
        strange = next(type(b).__name__ for b in bounds if not isinstance(b, Bound))
        raise InvalidArguments(f"cannot chain a {strange}", where="sequence", fix="chain what this library has bound")
    return Chain(ours)


_CHAIN = """
define void @chain(ptr %table, i64 %steps, i64 %times) {
entry:
  %some = icmp sgt i64 %steps, 0
  %often = icmp sgt i64 %times, 0
  %any = and i1 %some, %often
  br i1 %any, label %round, label %done
round:
  %r = phi i64 [0, %entry], [%r.next, %turn]
  br label %step
step:
  %i = phi i64 [0, %round], [%i.next, %step]
  %function.at = getelementptr {ptr, ptr}, ptr %table, i64 %i, i32 0
  %argument.at = getelementptr {ptr, ptr}, ptr %table, i64 %i, i32 1
  %function = load ptr, ptr %function.at
  %argument = load ptr, ptr %argument.at
  call void %function(ptr %argument)
  %i.next = add i64 %i, 1
  %more.steps = icmp slt i64 %i.next, %steps
  br i1 %more.steps, label %step, label %turn
turn:
  %r.next = add i64 %r, 1
  %more.rounds = icmp slt i64 %r.next, %times
  br i1 %more.rounds, label %round, label %done
done:
  ret void
}
"""


@cache
def _chain_code() -> Code:
    return load(_CHAIN, ISAS["portable"], {})


def _chain_loop() -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(_chain_code().address("chain"))


def _filled(t: Tensor, data: Array | None) -> Array:
    buffer = aligned(t.nbytes)
    if data is not None:
        source = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        buffer[: source.size] = source
    return buffer


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _arguments(buffers: Sequence[Array], func: Func, threads: int) -> tuple[Any, tuple[Array, Array]]:
    """(argv, arenas) for one function: its buffers, then the two arenas."""
    arenas = aligned(func.shared_bytes), aligned(thread_stride(func) * threads)
    addresses = [_address(a) for a in (*buffers, *arenas)]
    return (ctypes.c_void_p * len(addresses))(*addresses), arenas


def _check(role: str, arrays: Sequence[Array], tensors: tuple[Tensor, ...]) -> None:
    if len(arrays) != len(tensors):
        raise InvalidArguments(f"{len(arrays)} {role}s given, {len(tensors)} needed", where="bind")
    for position, (array, t) in enumerate(zip(arrays, tensors, strict=True)):
        where = f"bind: {role} {position} ({t.name})"
        if t.dtype.is_packed:
            _check_packed(array, t, where)
            continue
        if array.dtype != t.dtype.numpy:
            raise InvalidArguments(
                f"dtype {array.dtype}, compiled for {t.dtype.value}", where=where, fix=f"pass numpy dtype {t.dtype.numpy}"
            )
        if not _has_layout(array, t):
            strides = tuple(s // array.itemsize for s in array.strides)
            got = f"shape {array.shape} with strides {strides}"
            raise InvalidArguments(
                f"{got}, compiled for shape {t.shape} with strides {t.strides}", where=where, fix="copy it into that layout"
            )
        if role == "output" and not array.flags.writeable:
            raise InvalidArguments("the array is read-only", where=where, fix="pass a writeable one")


def _check_packed(array: Array, t: Tensor, where: str) -> None:
    if array.dtype != np.uint8 or array.shape != (t.nbytes,) or not array.flags.c_contiguous:
        got = f"{array.dtype} of shape {array.shape} with byte strides {array.strides}"
        fix = f"pass its memory, two elements to a byte: {t.nbytes} contiguous bytes of uint8"
        raise InvalidArguments(f"{got}, compiled for {t.dtype.value}", where=where, fix=fix)


def _has_layout(array: Array, t: Tensor) -> bool:
    """True when the array's elements lie where the tensor's do; for a tensor that was made 1-d, when the extent in memory is the same."""
    size = array.itemsize
    if array.ndim != len(t.shape):
        reach = 1 + sum((d - 1) * s // size for d, s in zip(array.shape, array.strides, strict=True)) if array.size else 0
        return all(s >= 0 for s in array.strides) and reach * size == t.nbytes
    if array.shape != t.shape:
        return False
    return array.size == 0 or all(d == 1 or got == want * size for d, got, want in zip(t.shape, array.strides, t.strides, strict=True))


def _positions(main: Func, inputs: int) -> frozenset[tuple[int, int]]:
    at = {p.name: i for i, p in enumerate(main.params)}
    return frozenset((at[over.src], at[over.dst] - inputs) for over in main.inplace)


def _check_separate(e: Executable, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Compiled code takes different parameters for different memory (codegen.frame.AliasScopes), but for the pairs of inplace."""
    for o, out in enumerate(outputs):
        for i, other in enumerate(inputs):
            if _overlap(out, other) and ((i, o) not in e.inplace or _address(out) != _address(other)):
                fix = "give it exactly that memory, or memory of its own" if (i, o) in e.inplace else "give every output memory of its own"
                _refuse_overlap(e, o, f"input {i} ({e.signature.inputs[i].name})", fix)
        for i, other in enumerate(outputs[:o]):
            if _overlap(out, other):
                _refuse_overlap(e, o, f"output {i} ({e.signature.outputs[i].name})", "give every output memory of its own")


def _refuse_overlap(e: Executable, output: int, other: str, fix: str) -> NoReturn:
    where = f"bind: output {output} ({e.signature.outputs[output].name})"
    raise InvalidArguments(f"it overlaps {other}", where=where, fix=fix)


def _overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share an element; also where that is too much work to find out."""
    try:
        return np.shares_memory(a, b, max_work=MOST_WORK)  # type: ignore[arg-type]  # the stubs know -1 and 0 alone
    except np.exceptions.TooHardError:
        return True
