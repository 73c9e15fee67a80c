"""LLVM IR text to callable code: parse, verify, optimise, compile to an object, link it into this process.

The modules of a program are compiled in parallel, each on a thread as soon as it is emitted, and linked together. Objects are cached on
disk (disk_cache.py), by a digest of the text and of everything else that they depend on.

Of LLVM's optimiser three passes run, once each. Tensor IR has chosen vectors, tiles and loops, and the builder (codegen/ir) has eliminated
common subexpressions; what is left is to turn stack slots into registers, to combine instructions, and to merge blocks. Instruction
selection hoists and reduces strength. O2 takes longer and makes nothing faster (docs/measurements/runtime.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256

import llvmlite
import llvmlite.binding as llvm

from benchgraph.codegen.intrinsics import FAST_COMPILE, OPTIMISED, create_target_machine, machine_arguments
from benchgraph.core.canonical import canonical
from benchgraph.core.errors import NO_THREAD
from benchgraph.machine.target import ISAS, Isa, host
from benchgraph.runtime import llvm_without_lock
from benchgraph.runtime.disk_cache import store

OBJECT = "object"  # kind of file
PASSES = "sroa", "instruction_combine", "simplify_cfg"  # as llvmlite names them


@dataclass(frozen=True, eq=False)
class Unit:
    """One LLVM module: its object file, and its IR before optimisation, or a function that gives the IR."""

    object: bytes = field(repr=False)
    source: str | Callable[[], str] = field(repr=False)

    @property
    def text(self) -> str:
        return self.source if isinstance(self.source, str) else self.source()

    def optimized_ir(self, isa: Isa) -> str:
        """The IR that instruction selection gets, computed on request."""
        return str(_optimized(self.text, create_target_machine(isa, code_generation_level(self.text))))

    def assembly(self, isa: Isa) -> str:
        """The machine code as text, computed on request."""
        target_machine = create_target_machine(isa, code_generation_level(self.text))
        return str(target_machine.emit_assembly(_optimized(self.text, target_machine)))


@dataclass(frozen=True, eq=False)
class Code:
    """Machine code in this process, valid as long as this object lives. threads: the limit of its parallel loops; each has an arena."""

    units: tuple[Unit, ...] = field(repr=False)
    isa: Isa
    threads: int
    _engine: llvm.ExecutionEngine = field(repr=False)

    @property
    def text(self) -> str:
        """The IR of all units, before optimisation."""
        return "\n".join(unit.text for unit in self.units)

    def address(self, name: str) -> int:
        """The address of a function. Raises KeyError if there is none of this name."""
        address = int(self._engine.get_function_address(name))
        if not address:
            raise KeyError(name)
        return address

    def optimized_ir(self) -> str:
        """The optimised IR of all units."""
        return "\n".join(unit.optimized_ir(self.isa) for unit in self.units)

    def assembly(self) -> str:
        """The machine code of all units as text."""
        return "\n".join(unit.assembly(self.isa) for unit in self.units)


def _optimized(text: str, target_machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = target_machine.triple
    module.data_layout = str(target_machine.target_data)
    module.verify()
    with _passes() as passes:
        llvm_without_lock.run(passes, module, llvm.create_pass_builder(target_machine, llvm.create_pipeline_tuning_options()))
    return module


@contextmanager
def _passes() -> Iterator[llvm.ModulePassManager]:
    """PASSES, freed afterwards: llvmlite 0.50 would leak 2 to 10 KB per module, as it overrides the method that frees them."""
    passes = llvm.create_new_module_pass_manager()
    try:
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        yield passes
    finally:
        llvm.ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
        passes.detach()  # so that a version that frees them does not do it again


def code_generation_level(text: str) -> int:
    """FAST_COMPILE for IR with functions that are not to be optimised (`optnone`), else OPTIMISED.

    At OPTIMISED, `optnone` disables passes that later ones rely on: LLVM 22's X86FixupInstTuning then ends the process at a blend of 16-bit
    lanes.
    """
    return FAST_COMPILE if "optnone" in text else OPTIMISED


def compiler_identity(isa: Isa, opt: int = OPTIMISED) -> str:
    """All that the object of some IR depends on, besides the IR: LLVM, the machine, the passes."""
    return canonical((llvmlite.__version__, llvm.llvm_version_info, machine_arguments(isa, opt), PASSES))


@lru_cache(maxsize=64)
def compile_object(text: str, isa: Isa, opt: int = OPTIMISED) -> bytes:
    """The object file of the IR. Raises RuntimeError for IR that does not parse or verify, which is a bug of the emitter.

    Partitions compiled one after the other often have the same packing and init functions. opt: FAST_COMPILE takes a quarter of the time,
    and is for code whose speed does not matter.
    """
    target_machine = create_target_machine(isa, opt)
    return llvm_without_lock.emit_object(target_machine, _optimized(text, target_machine))


@dataclass(frozen=True)
class _Compilation:
    """Compiling some IR at a level of code generation, by way of the disk cache."""

    text: str
    isa: Isa
    opt: int

    @cached_property
    def _key(self) -> str:
        return sha256(f"{compiler_identity(self.isa, self.opt)}\n{self.text}".encode()).hexdigest()

    def load(self) -> bytes | None:
        """The object from disk, if a process has compiled it."""
        disk = store()
        return None if disk is None else disk.get(OBJECT, self._key)

    def run(self) -> bytes:
        return compile_object(self.text, self.isa, self.opt)

    def save(self, object: bytes) -> bytes:
        """Store the object on disk; returns it."""
        if (disk := store()) is not None:
            disk.put(OBJECT, self._key, object)
        return object


def compile_cached(text: str, isa: Isa, opt: int | None = None) -> Unit:
    """The object of the IR, from disk if a process has compiled it. opt: None is `code_generation_level` of the IR."""
    compilation = _Compilation(text, isa, code_generation_level(text) if opt is None else opt)
    object = compilation.load()
    return Unit(compilation.save(compilation.run()) if object is None else object, text)


def all_kept(texts: Iterable[str], isa: Isa) -> tuple[Unit, ...]:
    """`compile_cached` for each text as soon as it is there, on other threads in parallel, while the next one is emitted.

    One core is left to this thread, which emits the texts and then compiles those that no thread has begun, from the last one on, as
    functions take longer than kernels. It alone reads and writes the disk: every system call may make a thread wait for its time slice
    (docs/measurements/runtime.md).
    """
    with ThreadPoolExecutor(max(host().cores - 1, 1)) as pool:
        compilations = (_Compilation(text, isa, code_generation_level(text)) for text in texts)
        submitted = [(c, c.load() or _submit(pool, c)) for c in compilations]
        compiled_here = {c: c.run() for c, result in reversed(submitted) if isinstance(result, Future) and result.cancel()}

    def object_of(c: _Compilation, result: bytes | Future[bytes]) -> bytes:
        return result if isinstance(result, bytes) else c.save(compiled_here[c] if result.cancelled() else result.result())

    return tuple(Unit(object_of(c, result), c.text) for c, result in submitted)


def _submit(pool: ThreadPoolExecutor, c: _Compilation) -> Future[bytes]:
    """Its object, to be compiled by another thread unless this one cancels that before it begins, or no thread can start."""
    try:
        return pool.submit(c.run)
    except NO_THREAD:
        return Future()


def link(units: Iterable[Unit], isa: Isa, symbols: Mapping[str, int], threads: int = 1) -> Code:
    """Load objects whose external functions are each other's, of the C library, or at the given addresses."""
    units = tuple(units)
    target_machine = create_target_machine(ISAS["portable"])  # only links; listing the host's features would take 0.5 ms
    externals = llvm.parse_assembly("\n".join(f'declare void @"{name}"()' for name in symbols))
    externals.triple = target_machine.triple
    functions = [(externals.get_function(name), address) for name, address in symbols.items()]
    engine = llvm.create_mcjit_compiler(externals, target_machine)
    for function, address in functions:
        engine.add_global_mapping(function, address)
    engine.remove_module(externals)  # it would be compiled too, which takes a millisecond
    for unit in units:
        engine.add_object_file(llvm.ObjectFileRef.from_data(unit.object))
    engine.finalize_object()
    return Code(units, isa, threads, engine)


def load(text: str, isa: Isa, symbols: Mapping[str, int], threads: int = 1, opt: int | None = None) -> Code:
    """`compile_cached` and `link`."""
    return link((compile_cached(text, isa, opt),), isa, symbols, threads)
