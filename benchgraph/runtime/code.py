"""LLVM IR text to callable code: parse, verify, optimise, compile to an object, link it into this process.

Objects are kept on disk (disk.py), by a digest of the text and of everything else that decides about them. Fresh ones and kept ones are
linked alike.

The optimiser runs at O2 without the loop and SLP vectorisers and without unrolling: Tensor IR has chosen its vectors and its tiles
already, and both cost compile time. A fused MLP of four layers (136 kB of IR) takes about 0.2 s on a 3.7 GHz Zen 4 core: 25 to 50 ms to
write the IR, 5 to parse it, 55 to 95 for O2, 45 to 85 for machine code. O1 would save 10 ms of that. Short pipelines of single passes take
15 ms instead of 55, but llvmlite offers none with loop-invariant code motion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256

import llvmlite
import llvmlite.binding as llvm

from benchgraph.codegen.intrinsics import described, machine
from benchgraph.core.canonical import canonical
from benchgraph.core.target import ISAS, Isa
from benchgraph.runtime.disk import store

OBJECT = "object"  # kind of file


@dataclass(frozen=True)
class Optimiser:
    """Fields of LLVM's pipeline tuning options."""

    speed_level: int = 2
    loop_vectorization: bool = False
    slp_vectorization: bool = False
    loop_unrolling: bool = False
    loop_interleaving: bool = False


OPTIMISER = Optimiser()


@dataclass(frozen=True, eq=False)
class Code:
    """Machine code in this process, valid as long as this object lives.

    object: it as it was before linking; source gives the IR that it was made of. threads: how many threads its parallel loops may use, and
    so the arenas they need.
    """

    object: bytes = field(repr=False)
    source: Callable[[], str] = field(repr=False)
    isa: Isa
    threads: int
    _engine: llvm.ExecutionEngine = field(repr=False)

    @property
    def text(self) -> str:
        """The IR as it was given."""
        return self.source()

    def address(self, name: str) -> int:
        """The entry point of a function. Raises KeyError when the code has none of this name."""
        address = int(self._engine.get_function_address(name))
        if not address:
            raise KeyError(name)
        return address

    def optimized_ir(self) -> str:
        """The IR as instruction selection gets it, computed again on request."""
        return str(_optimized(self.text, machine(self.isa)))

    def assembly(self) -> str:
        """The machine code as text, computed again on request."""
        return assembly(self.text, self.isa)


def _optimized(text: str, target_machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.triple = target_machine.triple
    module.data_layout = str(target_machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options()
    for name, value in asdict(OPTIMISER).items():
        setattr(options, name, value)
    passes = llvm.create_pass_builder(target_machine, options)
    passes.getModulePassManager().run(module, passes)
    return module


def assembly(text: str, isa: Isa) -> str:
    """The machine code of IR, as text."""
    target_machine = machine(isa)
    return str(target_machine.emit_assembly(_optimized(text, target_machine)))


def compiler(isa: Isa) -> str:
    """Everything that decides, beside the IR, about the object made of it: LLVM, the machine, the optimiser's options."""
    return canonical((llvmlite.__version__, llvm.llvm_version_info, described(isa), OPTIMISER))


def compiled(text: str, isa: Isa) -> bytes:
    """The object file of the IR. Raises RuntimeError for IR that does not parse or verify: that is our bug, not the user's."""
    target_machine = machine(isa)
    return bytes(target_machine.emit_object(_optimized(text, target_machine)))


def kept(text: str, isa: Isa) -> bytes:
    """`compiled`, or what this or another process has compiled and kept on disk."""
    disk = store()
    if disk is None:
        return compiled(text, isa)
    key = sha256(f"{compiler(isa)}\n{text}".encode()).hexdigest()
    found = disk.get(OBJECT, key)
    if found is None:
        found = compiled(text, isa)
        disk.put(OBJECT, key, found)
    return found


def link(object: bytes, source: Callable[[], str], isa: Isa, symbols: Mapping[str, int], threads: int = 1) -> Code:
    """Load an object whose external functions are at the given addresses (functions of the C library are found without).

    source gives the IR that the object was made of.
    """
    target_machine = machine(ISAS["portable"])  # it only links: naming the host's features takes half a millisecond
    externals = llvm.parse_assembly("\n".join(f'declare void @"{name}"()' for name in symbols))
    externals.triple = target_machine.triple
    functions = [(externals.get_function(name), address) for name, address in symbols.items()]
    engine = llvm.create_mcjit_compiler(externals, target_machine)
    for function, address in functions:
        engine.add_global_mapping(function, address)
    engine.add_object_file(llvm.ObjectFileRef.from_data(object))
    engine.finalize_object()
    return Code(object, source, isa, threads, engine)


def load(text: str, isa: Isa, symbols: Mapping[str, int], threads: int = 1) -> Code:
    """`kept` and `link`. Link what is `compiled` where no other process can have that IR, because it holds addresses."""
    return link(kept(text, isa), lambda: text, isa, symbols, threads)
