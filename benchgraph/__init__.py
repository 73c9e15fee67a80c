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
