"""LLVM IR text to callable code: parse, verify, optimise, compile to an object, link it into this process.

The modules of a program are compiled side by side, each on a thread as soon as it is written, and linked into one piece of code. Objects
are kept on disk (disk.py), by a digest of the text and of everything else that decides about them. Fresh ones and kept ones are
linked alike.

Of LLVM's optimiser three passes run, once each. Tensor IR has chosen vectors and tiles, its loops are what they are meant to be, and the
builder (codegen/ir) repeats nothing; what is left is to make registers of stack slots, to combine instructions that no one writer saw
together, and to join blocks. Hoisting and strength reduction come with instruction selection. O2 takes 65 to 150 ms longer for the modules
of a fused MLP and of attention, and makes nothing of them that is faster: loops of microkernels have the same instructions, times of
the Graph Compiler paper's workloads, single ops, convolutions and pooling agree within what they vary by. Without the second pass one of
them, GELU in bf16, takes a tenth longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import llvmlite
import llvmlite.binding as llvm

from benchgraph.codegen.intrinsics import FAST_COMPILE, OPTIMISED, create_target_machine, machine_arguments
from benchgraph.core.canonical import canonical
from benchgraph.core.errors import NO_THREAD
from benchgraph.core.target import ISAS, Isa, host
from benchgraph.runtime import unlocked
from benchgraph.runtime.disk import store

OBJECT = "object"  # kind of file


PASSES = "sroa", "instruction_combine", "simplify_cfg"  # as llvmlite names them


@dataclass(frozen=True, eq=False)
class Unit:
    """One LLVM module: the object file, and what gives the IR that it was made of."""

    object: bytes = field(repr=False)
    source: Callable[[], str] = field(repr=False)

    @property
    def text(self) -> str:
        """The IR as it was given."""
        return self.source()

    def optimized_ir(self, isa: Isa) -> str:
        """The IR as instruction selection gets it, computed again on request."""
        return str(_optimized(self.text, create_target_machine(isa, level(self.text))))

    def assembly(self, isa: Isa) -> str:
        """The machine code as text, computed again on request."""
        return assembly(self.text, isa)


@dataclass(frozen=True, eq=False)
class Code:
    """Machine code in this process, valid as long as this object lives.

    units: it as it was before linking. threads: how many threads its parallel loops may use, and so the arenas they need.
    """

    units: tuple[Unit, ...] = field(repr=False)
    isa: Isa
    threads: int
    _engine: llvm.ExecutionEngine = field(repr=False)

    @property
    def text(self) -> str:
        """The IR of all units, as it was given."""
        return "\n".join(unit.text for unit in self.units)

    def address(self, name: str) -> int:
        """The entry point of a function. Raises KeyError when the code has none of this name."""
        address = int(self._engine.get_function_address(name))
        if not address:
            raise KeyError(name)
        return address

    def optimized_ir(self) -> str:
        """That of all units."""
        return "\n".join(unit.optimized_ir(self.isa) for unit in self.units)

    def assembly(self) -> str:
        """That of all units."""
        return "\n".join(unit.assembly(self.isa) for unit in self.units)


def _optimized(text: str, target_machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = target_machine.triple
    module.data_layout = str(target_machine.target_data)
    module.verify()
    with _passes() as passes:
        unlocked.run(passes, module, llvm.create_pass_builder(target_machine, llvm.create_pipeline_tuning_options()))
    return module


@contextmanager
def _passes() -> Iterator[llvm.ModulePassManager]:
    """PASSES, freed afterwards with what they worked with: 2 to 10 KB a module.

    llvmlite (0.50) never frees them: the base class that would comes behind one whose method of that name does nothing.
    """
    passes = llvm.create_new_module_pass_manager()
    try:
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        yield passes
    finally:
        llvm.ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
        passes.detach()  # or a version that frees them would do it again


def level(text: str) -> int:
    """The level of code generation for IR: FAST_COMPILE where its functions ask not to be optimised (`optnone`).

    At OPTIMISED that attribute turns most of LLVM's passes off, and those left meet what they never do otherwise: LLVM 22's choice between
    instructions (X86FixupInstTuning) ends the process over a blend of 16-bit lanes that a pass before it would have rewritten.
    """
    return FAST_COMPILE if "optnone" in text else OPTIMISED


def assembly(text: str, isa: Isa) -> str:
    """The machine code of IR, as text."""
    target_machine = create_target_machine(isa, level(text))
    return str(target_machine.emit_assembly(_optimized(text, target_machine)))


def compiler(isa: Isa, opt: int = OPTIMISED) -> str:
    """Everything that decides, beside the IR, about the object made of it: LLVM, the machine, the passes."""
    return canonical((llvmlite.__version__, llvm.llvm_version_info, machine_arguments(isa, opt), PASSES))


def compiled(text: str, isa: Isa, opt: int = OPTIMISED) -> bytes:
    """The object file of the IR. Raises RuntimeError for IR that does not parse or verify: that is our bug, not the user's.

    opt: FAST_COMPILE takes a quarter of the time, and is for code without loops that matter.
    """
    target_machine = create_target_machine(isa, opt)
    return unlocked.emit_object(target_machine, _optimized(text, target_machine))


@dataclass(frozen=True)
class _Wanted:
    """The object of some IR at a level of code generation."""

    text: str
    isa: Isa
    opt: int

    @cached_property
    def _key(self) -> str:
        return sha256(f"{compiler(self.isa, self.opt)}\n{self.text}".encode()).hexdigest()

    def find(self) -> bytes | None:
        """What this or another process has compiled and kept on disk."""
        disk = store()
        return None if disk is None else disk.get(OBJECT, self._key)

    def make(self) -> bytes:
        return compiled(self.text, self.isa, self.opt)

    def keep(self, made: bytes) -> bytes:
        """The same, on disk from now on."""
        if (disk := store()) is not None:
            disk.put(OBJECT, self._key, made)
        return made

    def unit(self, found: bytes) -> Unit:
        return Unit(found, lambda: self.text)


def kept(text: str, isa: Isa, opt: int | None = None) -> Unit:
    """`compiled`, or what this or another process has compiled and kept on disk. opt: None is the IR's own `level`."""
    wanted = _Wanted(text, isa, level(text) if opt is None else opt)
    found = wanted.find()
    return wanted.unit(wanted.keep(wanted.make()) if found is None else found)


def all_kept(texts: Iterable[str], isa: Isa) -> tuple[Unit, ...]:
    """Each text `kept`, compiled as soon as it is there: on other threads, side by side, while the next one is written.

    One core is left to this thread, which writes them; afterwards it compiles what nobody has begun, from the last one on: functions take
    longer than kernels. It alone looks at the disk: a file is ten system calls, and after each of them a thread waits for its turn
    (core/gc_pause.py). First compile of MLP_2 in int8 on two cores of a Zen 4, medians of twelve in turns: 159 ms with two more threads
    that do it all, 151 with one and this one, 137 to 149 as it is.
    """
    with ThreadPoolExecutor(max(host().cores - 1, 1)) as pool:
        begun = [(w, w.find() or _beside(pool, w)) for w in (_Wanted(text, isa, level(text)) for text in texts)]
        mine = {w: w.make() for w, found in reversed(begun) if isinstance(found, Future) and found.cancel()}

    def made(w: _Wanted, found: bytes | Future[bytes]) -> bytes:
        return found if isinstance(found, bytes) else w.keep(mine[w] if found.cancelled() else found.result())

    return tuple(w.unit(made(w, found)) for w, found in begun)


def _beside(pool: ThreadPoolExecutor, w: _Wanted) -> Future[bytes]:
    """Its object, made by another thread, unless this one cancels that because nobody has begun; nobody does where no thread starts."""
    try:
        return pool.submit(w.make)
    except NO_THREAD:
        return Future()


def link(units: Iterable[Unit], isa: Isa, symbols: Mapping[str, int], threads: int = 1) -> Code:
    """Load objects whose external functions are each other's or at the given addresses (those of the C library are found without)."""
    units = tuple(units)
    target_machine = create_target_machine(ISAS["portable"])  # it only links: naming the host's features takes half a millisecond
    externals = llvm.parse_assembly("\n".join(f'declare void @"{name}"()' for name in symbols))
    externals.triple = target_machine.triple
    functions = [(externals.get_function(name), address) for name, address in symbols.items()]
    engine = llvm.create_mcjit_compiler(externals, target_machine)
    for function, address in functions:
        engine.add_global_mapping(function, address)
    engine.remove_module(externals)  # or it is compiled too: code generation takes a millisecond to make nothing of it
    for unit in units:
        engine.add_object_file(llvm.ObjectFileRef.from_data(unit.object))
    engine.finalize_object()
    return Code(units, isa, threads, engine)


def load(text: str, isa: Isa, symbols: Mapping[str, int], threads: int = 1, opt: int | None = None) -> Code:
    """`kept` and `link`. Link what is `compiled` where no other process can have that IR, because it holds addresses."""
    return link((kept(text, isa, opt),), isa, symbols, threads)
