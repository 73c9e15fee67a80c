"""benchgraph: a benchdnn-style harness over a graph compiler of its own.

The packages, in the order in which data flows through them:

    core        what all share: dtypes, attributes, logical tensors, errors, configuration
    machine     rates, costs and cache shares of machines, as data
    fallback    functions that models have and the library lacks, in numpy
    ops         the op table: one row per op kind
    graph       the API graph: JSON, text, shape inference, overrides
    importers   other people's files as cases
    partition   which ops are compiled together
    gir         Graph IR and its passes
    schedule    what the schedules of a nest cost, in nanoseconds
    lower       Graph IR -> Tensor IR: templates and anchors
    tir         Tensor IR, its passes and its interpreter
    codegen     Tensor IR -> LLVM IR, the microkernel, vector math
    runtime     JIT, threads, memory, executables
    library     what the harness tests: the protocol, and our implementation of it
    framework   a small framework on top of the library: what adopting it takes
    torch       the PyTorch bridge
    onednn      the real oneDNN as a library under test, in a process of its own
    peers       other programs likewise: another checkout of benchgraph, ONNX Runtime, OpenVINO, PyTorch
    reference   float64 numpy: data, reference results, comparison
    measure     peaks, bandwidth, caches, samples
    results     what a run produces, and its JSON
    options     from a command line to problems
    harness     from problems to results: running, checking, timing
    fleet       a batch on the machines of a cluster
    analysis    evaluates saved results
    present     tables, drawings, pages
    fuzz, tune  random graphs; schedules against each other
    commands    the commands besides running cases
    compile.py  the compiler in one file        cli.py  the command line
"""

from typing import TYPE_CHECKING

from benchgraph.core.version import __version__ as __version__

if TYPE_CHECKING:
    from benchgraph.core.dtypes import DType
    from benchgraph.core.errors import (
        BenchgraphError,
        ExecutionFailed,
        InvalidArguments,
        InvalidDataType,
        InvalidGraph,
        InvalidGraphOp,
        InvalidShape,
        OutOfMemory,
        Status,
        Unimplemented,
    )
    from benchgraph.core.tensor import MAX_NDIMS, UNKNOWN_DIM, UNKNOWN_NDIMS, UNKNOWN_SIZE, LayoutType, LogicalTensor, PropertyType
    from benchgraph.library.cache import (
        get_compiled_partition_cache_capacity,
        get_constant_tensor_cache,
        get_constant_tensor_cache_capacity,
        set_compiled_partition_cache_capacity,
        set_constant_tensor_cache,
        set_constant_tensor_cache_capacity,
    )
    from benchgraph.library.compiled_partition import CompiledPartition
    from benchgraph.library.dump import GraphDumpMode, set_dump_mode
    from benchgraph.library.engine import Engine, Stream
    from benchgraph.library.graph import Graph
    from benchgraph.library.op import Op
    from benchgraph.library.partition import FpmathMode, Partition
    from benchgraph.library.tensor import ALLOCATE, Tensor
    from benchgraph.partition.ir import Policy
    from benchgraph.runtime.memory import Allocator
    from benchgraph.runtime.user_pool import ThreadPool

# Module -> the names that it provides
_HOMES = {
    "core.dtypes": "DType",
    "core.errors": (
        "BenchgraphError ExecutionFailed InvalidArguments InvalidDataType InvalidGraph InvalidGraphOp InvalidShape "
        "OutOfMemory Status Unimplemented"
    ),
    "core.tensor": "LayoutType LogicalTensor MAX_NDIMS PropertyType UNKNOWN_DIM UNKNOWN_NDIMS UNKNOWN_SIZE",
    "library.cache": (
        "get_compiled_partition_cache_capacity get_constant_tensor_cache get_constant_tensor_cache_capacity "
        "set_compiled_partition_cache_capacity set_constant_tensor_cache set_constant_tensor_cache_capacity"
    ),
    "library.compiled_partition": "CompiledPartition",
    "library.dump": "GraphDumpMode set_dump_mode",
    "library.engine": "Engine Stream",
    "library.graph": "Graph",
    "library.op": "Op",
    "library.partition": "FpmathMode Partition",
    "library.tensor": "ALLOCATE Tensor",
    "partition.ir": "Policy",
    "runtime.memory": "Allocator",
    "runtime.user_pool": "ThreadPool",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = [
    "ALLOCATE",
    "MAX_NDIMS",
    "UNKNOWN_DIM",
    "UNKNOWN_NDIMS",
    "UNKNOWN_SIZE",
    "Allocator",
    "BenchgraphError",
    "CompiledPartition",
    "DType",
    "Engine",
    "ExecutionFailed",
    "FpmathMode",
    "Graph",
    "GraphDumpMode",
    "InvalidArguments",
    "InvalidDataType",
    "InvalidGraph",
    "InvalidGraphOp",
    "InvalidShape",
    "LayoutType",
    "LogicalTensor",
    "Op",
    "OutOfMemory",
    "Partition",
    "Policy",
    "PropertyType",
    "Status",
    "Stream",
    "Tensor",
    "ThreadPool",
    "Unimplemented",
    "get_compiled_partition_cache_capacity",
    "get_constant_tensor_cache",
    "get_constant_tensor_cache_capacity",
    "set_compiled_partition_cache_capacity",
    "set_constant_tensor_cache",
    "set_constant_tensor_cache_capacity",
    "set_dump_mode",
]


def __getattr__(name: str) -> object:
    """The programming model's names, imported when first used: `benchgraph --help` needs neither numpy nor LLVM."""
    if name not in _HOME:
        raise AttributeError(f"module 'benchgraph' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"benchgraph.{_HOME[name]}"), name)
