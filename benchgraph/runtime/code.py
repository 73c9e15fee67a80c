"""LLVM IR text to callable code: parse, verify, optimise, compile into this process.

The optimiser runs at O2 without the loop and SLP vectorisers and without unrolling: Tensor IR has chosen its vectors and its tiles
already, and both cost compile time. A fused MLP of four layers (136 kB of IR) takes about 0.2 s on a 3.7 GHz Zen 4 core: 25 to 50 ms to
write the IR, 5 to parse it, 55 to 95 for O2, 45 to 85 for machine code. O1 would save 10 ms of that. Short pipelines of single passes take
15 ms instead of 55, but llvmlite offers none with loop-invariant code motion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import llvmlite.binding as llvm

from benchgraph.codegen.intrinsics import machine
from benchgraph.core.target import Isa


@dataclass(frozen=True, eq=False)
class Code:
    """Machine code in this process, valid as long as this object lives.

    text: the IR as it was given. threads: how many threads its parallel loops may use, and so the arenas they need.
    """

    text: str
    isa: Isa
    threads: int
    _engine: llvm.ExecutionEngine = field(repr=False)

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
        target_machine = machine(self.isa)
        return str(target_machine.emit_assembly(_optimized(self.text, target_machine)))


def _optimized(text: str, target_machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.triple = target_machine.triple
    module.data_layout = str(target_machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = options.loop_interleaving = False
    passes = llvm.create_pass_builder(target_machine, options)
    passes.getModulePassManager().run(module, passes)
    return module


def load(text: str, isa: Isa, symbols: Mapping[str, int], threads: int = 1) -> Code:
    """Compile IR whose external functions are at the given addresses (functions of the C library are found without).

    Raises RuntimeError for IR that does not parse or verify: that is our bug, not the user's.
    """
    target_machine = machine(isa)
    module = _optimized(text, target_machine)
    externals = [(module.get_function(name), address) for name, address in symbols.items() if _declares(module, name)]
    engine = llvm.create_mcjit_compiler(module, target_machine)
    for function, address in externals:
        engine.add_global_mapping(function, address)
    engine.finalize_object()
    return Code(text, isa, threads, engine)


def _declares(module: llvm.ModuleRef, name: str) -> bool:
    return any(f.name == name for f in module.functions)
