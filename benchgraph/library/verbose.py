"""The log of compilations and executions, with oneDNN's fields in oneDNN's order:

    benchgraph_verbose,v1,graph,exec,cpu,3,chain,MatMul_0;ReLU_1,,in0_f32:0:strided:undef:4x8:8s1 ...,fpm:strict,jit:avx512,benchgraph,0.01

One line to standard output per event requested by BENCHGRAPH_VERBOSE (or ONEDNN_VERBOSE), after a header. op_names and data_formats
(`data:`, `filter:`) are `;` lists in the order of the partition. Times are in milliseconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache

from benchgraph.core import forks
from benchgraph.core.config import config
from benchgraph.core.printable import printable
from benchgraph.core.tensor import UNKNOWN_DIM, LayoutType, LogicalTensor
from benchgraph.core.version import __version__
from benchgraph.machine.target import current
from benchgraph.partition.ir import Partition
from benchgraph.runtime.code import Code
from benchgraph.runtime.executable import Executable
from benchgraph.runtime.threads import resolve_runtime

_writing = forks.lock()  # lines and the header are written atomically
MARK = "benchgraph_verbose,v1"
FIELDS = "operation,engine,partition_id,partition_kind,op_names,data_formats,logical_tensors,fpmath_mode,implementation,backend,exec_time"
_FORMATS = {"data": "data_format", "filter": "weights_format"}  # log name -> attribute


def log(operation: str, about: str, seconds: float) -> None:
    """Write one line, preceded by the header if it is the first. about: `describe` of the partition."""
    with _writing:
        _write_header()
        _write(f"graph,{operation},{about},{seconds * 1e3:g}")


def log_compilation(partition: Partition, made: Executable, seconds: float, *, is_hit: bool) -> None:
    """A line, if compilations are logged: cache_hit (from this process), disk_hit, or cache_miss."""
    if "create" in config().verbose:
        source = "cache_hit" if is_hit else "disk_hit" if made.is_warm else "cache_miss"
        log(f"compile:{source}", describe(partition, made.code), seconds)


class Logged:
    def __init__(self, call: Callable[[], None], about: str) -> None:
        self.call, self._about = call, about

    def __call__(self) -> None:
        begin = time.perf_counter()
        self.call()
        log("exec", self._about, time.perf_counter() - begin)


def logged(call: Callable[[], None], about: Callable[[], str]) -> Callable[[], None]:
    """The call, wrapped only if executions are logged, so that there is no overhead otherwise."""
    return Logged(call, about()) if "exec" in config().verbose else call


def describe(partition: Partition, code: Code) -> str:
    """The fields from the engine to the backend."""
    sides = ("in", partition.inputs), ("out", partition.outputs)
    tensors = " ".join(f"{side}{i}_{_tensor(t)}" for side, ports in sides for i, t in enumerate(ports))
    names = ";".join(_plain(op.name) or f"{op.kind}_{op.id}" for op in partition.ops)
    p = partition
    return f"{p.engine_kind},{p.id},{p.kind},{names},{_formats(p)},{tensors},fpm:{p.fpmath_mode},jit:{code.isa.name},benchgraph"


def _plain(name: str) -> str:
    """A user's name on one line, without separators of fields."""
    return printable(re.sub(r"[,;\s]", "_", name))


def _formats(partition: Partition) -> str:
    formats = []
    for word, attr in _FORMATS.items():
        each = [op.full_attrs.string(attr) if attr in op.full_attrs else "" for op in partition.ops]
        if any(each):
            formats.append(f"{word}:{';'.join(each)}")
    return " ".join(formats)


def _tensor(t: LogicalTensor) -> str:
    """dtype:id:layout:property:dims:strides; without strides, the layout's id."""
    dims = "x".join("?" if d == UNKNOWN_DIM else str(d) for d in t.shape or ())
    layout = "s".join(map(str, t.get_strides())) if t.layout_type is LayoutType.strided else str(t.layout_id)
    return f"{t.dtype.value}:{t.id}:{t.layout_type.value}:{t.property_type.value}:{dims}:{layout}"


@cache
def _write_header() -> None:
    target = current()
    _write(f"info,benchgraph v{__version__}")
    _write(f"info,cpu,runtime:{resolve_runtime(config().runtime)},nthr:{target.cores}")
    _write(f"info,cpu,isa:{target.isa.name}")
    _write("info,gpu,runtime:none")
    _write("info,graph,backend,0:benchgraph")
    _write(f"graph,info,template:{FIELDS}")


def _write(line: str) -> None:
    print(f"{MARK},{line}", flush=True)
