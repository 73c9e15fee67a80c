"""Compiled code with its calling convention: buffers are checked once, then calls go straight to machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from benchgraph.codegen.function_builder import thread_arenas_bytes
from benchgraph.core import forks
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.implementation import WHOLE, Implementation
from benchgraph.core.layout import Layout
from benchgraph.machine.target import ISAS, LINE_BYTES, Isa, on_line
from benchgraph.runtime.checks import address, check_buffers, check_no_overlap, check_scratchpad
from benchgraph.runtime.code import Code, Unit, load
from benchgraph.runtime.constants import Constants, constant_tensors
from benchgraph.runtime.memory import Allocator, Use, allocate
from benchgraph.tir.ir import Func, Module, Tensor

Array = NDArray[np.generic]
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(frozen=True)
class Signature:
    """Parameters of main: (inputs, outputs, constants); of init: (inputs at positions init_inputs, constants).

    constants outlive a call; literals[i] is the initial content of constants[i], None for those that init fills.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    literals: tuple[Array | None, ...]
    init_inputs: tuple[int, ...]


@dataclass(frozen=True)
class UnlinkedExecutable:
    """An executable that is not linked into a process. prescribed: as in `Executable`. known_init_digest: `init_digest`, where known."""

    units: tuple[Unit, ...]
    module: Module
    signature: Signature
    layouts: tuple[Layout, ...]
    isa: Isa
    prescribed: tuple[str, ...] = ()
    known_init_digest: str = ""

    @property
    def init_digest(self) -> str:
        """As `Executable.init_digest`; '' without init."""
        return "" if self.module.init is None else self.known_init_digest or init_digest(self.module, self.signature, self.isa)


class Executable:
    """A compiled partition (library.protocol.Compiled).

    Constants are computed once per set of constant input addresses and generations, and shared by all Bounds with that set, and by other
    executables if they are in the cache of constant tensors. The others live as long as one of the Bounds or its `kept_alive`, which also
    keeps the input arrays alive, so that no other array gets the same address.

    inplace: (input, output) positions that may be bound to the same memory. scratchpad_bytes: of a user's memory, of any alignment, for the
    temporaries of one execution. layouts: of the outputs; the buffer of a blocked one has its physical shape. prescribed: its nests, as
    text, whose schedules were. is_warm: it was read from disk. init_digest: given if the functions of the module have no bodies.
    """

    def __init__(
        self,
        code: Code,
        module: Module,
        signature: Signature,
        compile_s: float,
        layouts: tuple[Layout, ...] = (),
        prescribed: tuple[str, ...] = (),
        *,
        init_digest: str = "",
        is_warm: bool = False,
    ) -> None:
        self.code, self.module, self.signature, self.compile_s, self.layouts = code, module, signature, compile_s, layouts
        self.prescribed, self.is_warm = prescribed, is_warm
        self._init_digest = init_digest
        self.main: Any = _ENTRY(code.address(module.main.name))
        self._init: Any = None if module.init is None else _ENTRY(code.address(module.init.name))
        at = {p.name: i for i, p in enumerate(module.main.params)}
        self.inplace = frozenset((at[over.src], at[over.dst] - len(signature.inputs)) for over in module.main.inplace)
        needed = max(scratch_bytes(f, code.threads) for f in (module.main, module.init) if f is not None)
        self.scratchpad_bytes = needed + LINE_BYTES - 1 if needed else 0
        self._constants: WeakValueDictionary[tuple[object, ...], Constants] = WeakValueDictionary()
        self._lock = forks.lock()

    def bind(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        *,
        allocator: Allocator | None = None,
        scratchpad: Array | None = None,
        generations: tuple[int, ...] = (),
    ) -> Bound:
        """Fix the buffers. Raises InvalidArguments for a buffer that does not match its tensor or overlaps another one; OutOfMemory.

        An output may overlap an input only as a pair of `inplace` with the same address. Temporaries come from the scratchpad, else, like
        constants, from the allocator. Bounds that share a scratchpad, and calls of one Bound, must not overlap in time. generations: of the
        inputs' contents, 0 by default; constants are computed again for a new generation.
        """
        check_buffers("input", inputs, self.signature.inputs)
        check_buffers("output", outputs, self.signature.outputs)
        ins, outs = list(zip(self.signature.inputs, inputs, strict=True)), list(zip(self.signature.outputs, outputs, strict=True))
        check_no_overlap(ins, outs, self.inplace)
        if scratchpad is not None:
            check_scratchpad(scratchpad, self.scratchpad_bytes, [*ins, *outs])
        return self._bound(self, tuple(inputs), tuple(outputs), allocator, scratchpad, generations or (0,) * len(inputs))

    @property
    def _bound(self) -> type[Bound]:
        return Bound

    def constants(self, inputs: Sequence[Array], allocator: Allocator | None, generations: Sequence[int]) -> Constants:
        """The constants for these inputs and generations, possibly not computed yet."""
        sources = [inputs[i] for i in self.signature.init_inputs]
        key = (allocator, *map(address, sources), *(generations[i] for i in self.signature.init_inputs))
        tensors, literals = self.signature.constants, self.signature.literals

        def make() -> Constants:
            return Constants(tensors, literals, allocator, ready=self._init is None)

        with self._lock:
            constants = self._constants.get(key)
            if constants is None and self._init is not None:
                constants = constant_tensors.get((self.init_digest, *key), sum(t.nbytes for t in tensors), sources, make)
            if constants is None:
                constants = self._constants[key] = make()
            return constants

    @property
    def implementations(self) -> tuple[Implementation, ...]:
        """One, by the name that the verbose log gives it."""
        return (Implementation(WHOLE, f"jit:{self.code.isa.name}"),)

    @cached_property
    def init_digest(self) -> str:
        """A digest of init: executables with equal ones compute the same constants from the same inputs."""
        return self._init_digest or init_digest(self.module, self.signature, self.code.isa)

    def with_names(self, inputs: Sequence[str], outputs: Sequence[str], compile_s: float) -> Executable:
        """The same code and constants, with other names for inputs and outputs in messages."""
        s = self.signature
        if [t.name for t in (*s.inputs, *s.outputs)] == [*inputs, *outputs] and compile_s == self.compile_s:
            return self
        other = copy(self)
        other.compile_s = compile_s
        ins = tuple(replace(t, name=name) for t, name in zip(s.inputs, inputs, strict=True))
        outs = tuple(replace(t, name=name) for t, name in zip(s.outputs, outputs, strict=True))
        other.signature = replace(s, inputs=ins, outputs=outs)
        return other

    @property
    def unlinked(self) -> UnlinkedExecutable:
        """The parts that another process can link."""
        units, isa = self.code.units, self.code.isa
        return UnlinkedExecutable(units, self.module, self.signature, self.layouts, isa, self.prescribed, self._init_digest)

    def initialise(self, constants: Constants, inputs: Sequence[Array], temporaries: Temporaries) -> None:
        """Run init unless it has run for these constants; a second caller waits for the first."""
        with constants.lock:
            if constants.ready or self._init is None or self.module.init is None:
                return
            buffers = [inputs[i] for i in self.signature.init_inputs] + constants.buffers
            argv, _memory = temporaries.arguments(buffers, self.module.init)
            self._init(ctypes.addressof(argv))
            constants.ready = True


def init_digest(module: Module, signature: Signature, isa: Isa) -> str:
    """`Executable.init_digest` of a module whose functions have bodies."""
    digest = sha256(repr((module.init, signature.constants, isa.name)).encode())
    for data in signature.literals:
        digest.update(b"-" if data is None else data.tobytes())
    return digest.hexdigest()


class Temporaries:
    """The memory for the arenas of one execution: the user's scratchpad, or from the allocator."""

    def __init__(self, threads: int, allocator: Allocator | None, scratchpad: Array | None) -> None:
        self.threads, self.allocator, self.scratchpad = threads, allocator, scratchpad

    def arguments(self, buffers: Sequence[Array], func: Func) -> tuple[Any, Array | None]:
        """(argv, memory that must outlive its use) for one function: its buffers, then the shared arena and the threads' arenas."""
        nbytes = scratch_bytes(func, self.threads)
        memory = self.scratchpad if self.scratchpad is not None or not nbytes else allocate(nbytes, Use.temp, self.allocator)
        start = 0 if memory is None else on_line(address(memory))
        addresses = [*map(address, buffers), start, start + on_line(func.shared_bytes)]
        return (ctypes.c_void_p * len(addresses))(*addresses), memory


def scratch_bytes(func: Func, threads: int) -> int:
    """Bytes of both arenas, aligned to a cache line."""
    return on_line(func.shared_bytes) + thread_arenas_bytes(func, threads)


class Bound:
    """An Executable with its buffers fixed (library.protocol.Bound)."""

    def __init__(
        self,
        executable: Executable,
        inputs: tuple[Array, ...],
        outputs: tuple[Array, ...],
        allocator: Allocator | None,
        scratchpad: Array | None,
        generations: tuple[int, ...],
    ) -> None:
        self._executable, self._inputs, self._outputs = executable, inputs, outputs
        self._constants = executable.constants(inputs, allocator, generations)
        self._temporaries = Temporaries(executable.code.threads, allocator, scratchpad)
        buffers = [*inputs, *outputs, *self._constants.buffers]
        self._argv, self._memory = self._temporaries.arguments(buffers, executable.module.main)
        self._main, self._argument = executable.main, ctypes.c_void_p(ctypes.addressof(self._argv))
        self._is_new = True

    def __call__(self) -> None:
        """Execute once, synchronously. The first call also computes the constants, if no other Bound has."""
        if self._is_new:
            self.prepare()
        self._main(self._argument)

    def prepare(self) -> None:
        """Compute the constants if they have not been computed."""
        self._executable.initialise(self._constants, self._inputs, self._temporaries)
        self._is_new = False

    @property
    def constants(self) -> Sequence[Array]:
        """Buffers that the code reads besides its inputs."""
        return self._constants.buffers

    @property
    def kept_alive(self) -> object:
        """A reference to it keeps the constants for other Bounds with the same constant inputs."""
        return self._constants, tuple(self._inputs[i] for i in self._executable.signature.init_inputs)

    @property
    def call(self) -> tuple[int, int]:
        """(address of the function, address of its argument), for a Chain."""
        return ctypes.cast(self._main, ctypes.c_void_p).value or 0, ctypes.addressof(self._argv)


class Chain:
    """Bounds as one native call (library.protocol.Chain)."""

    implementations: Sequence[tuple[Implementation, ...]] = ()

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self._bounds = tuple(bounds)
        calls = [address for bound in self._bounds for address in bound.call]
        self._table = (ctypes.c_void_p * max(1, len(calls)))(*calls)
        self._loop, _ = _chain_loop()

    def run(self, times: int) -> None:
        """Execute all bounds in order, `times` times, in one native call; constants are computed before it."""
        for bound in self._bounds:
            bound.prepare()
        self._loop(ctypes.addressof(self._table), len(self._bounds), times)

    @property
    def constants(self) -> Sequence[Array]:
        return [buffer for bound in self._bounds for buffer in bound.constants]

    @property
    def notes(self) -> Sequence[str]:
        return ()


def chain(bounds: Sequence[object]) -> Chain:
    """A Chain of Bounds of this library. Raises InvalidArguments for anything else."""
    ours = [b for b in bounds if isinstance(b, Bound)]
    if len(ours) != len(bounds):
        wrong_type = next(type(b).__name__ for b in bounds if not isinstance(b, Bound))
        raise InvalidArguments(f"cannot chain a {wrong_type}", where="sequence", fix="chain what this library has bound")
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
def _chain_loop() -> tuple[Any, Code]:
    """The function, and its code, which must live as long."""
    code = load(_CHAIN, ISAS["portable"], {})
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.address("chain")), code
