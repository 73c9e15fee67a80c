"""benchgraph: a benchdnn-style harness over a graph compiler of its own.

The packages, in the order in which data flows through them:

    core        what all share: dtypes, attributes, logical tensors, errors, configuration, the machine
    ops         the op table: one row per op kind
    graph       the API graph: JSON, text, shape inference, overrides
    partition   which ops are compiled together
    gir         Graph IR and its passes
    lower       Graph IR -> Tensor IR: templates and anchors
    tir         Tensor IR, its passes and its interpreter
    codegen     Tensor IR -> LLVM IR, the microkernel, vector math
    runtime     JIT, threads, memory, executables
    library     what the harness tests: the protocol, and our implementation of it
    reference   float64 numpy: data, right answers, comparison
    harness     knobs, batches, checking, timing, results
    compile.py  the compiler on one screen      cli.py  the command line
"""

__version__ = "0.1.0"

_PUBLIC = {
    "Engine": "benchgraph.library.engine",
    "Stream": "benchgraph.library.engine",
    "Graph": "benchgraph.library.graph",
    "Op": "benchgraph.graph.ir",
    "LogicalTensor": "benchgraph.core.tensor",
    "Tensor": "benchgraph.library.tensor",
}
__all__ = ["Engine", "Graph", "LogicalTensor", "Op", "Stream", "Tensor"]


def __getattr__(name: str) -> object:
    """The programming model's names, imported when first used: `benchgraph --help` needs neither numpy nor LLVM."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'benchgraph' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
