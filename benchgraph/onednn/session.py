"""oneDNN loaded into this process, with its objects by number. Every public method of Session is a request of client.py."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from ctypes import CDLL, byref, c_float, c_int64, c_size_t, c_uint8, c_void_p, memmove
from dataclasses import replace
from itertools import count
from typing import Any

from benchgraph.core.config import environment
from benchgraph.core.wait_idle import wait_until_idle
from benchgraph.machine.cpu_affinity import pin_process
from benchgraph.onednn import capi
from benchgraph.onednn.memory import Buffer, Code, Window
from benchgraph.onednn.messages import OPAQUE, STRIDED, Compiled, Graph, Hello, Op, Part, Placed, Step, Tensor
from benchgraph.onednn.table import FIRST, FPMATH_OF_INTEGERS, PROPERTIES
from benchgraph.onednn.verbose_log import VerboseLog, created, rejected

VERBOSE = ("ONEDNN_VERBOSE", "DNNL_VERBOSE")
CONSTANTS_MB = 1 << 20  # cache of constant tensors: enough for all of a case
_HOST_SCALAR = PROPERTIES["host_scalar"].code
_ANOTHER = "install another one: pip install 'benchgraph[onednn]'"


class Refused(Exception):
    """oneDNN's status, and the call that returned it."""

    def __init__(self, status: str, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.status, self.what, self.fix = status, what, fix


class Handle:
    """A pointer of oneDNN's, destroyed by `close`. message: of a compiled partition."""

    message: Compiled

    def __init__(self, value: int | None, destroy: Callable[[int | None], int]) -> None:
        self.value, self._destroy = value, destroy

    def close(self) -> None:
        if self.value:
            self._destroy(self.value)
        self.value = None


class BoundStep:
    """A compiled partition with a tensor object per port. Tensors of host scalars copy the value, so they are created for each step."""

    def __init__(self, session: Session, step: Step) -> None:
        self.compiled: Handle = session.object(step.compiled)
        ports = (*self.compiled.message.inputs, *self.compiled.message.outputs)
        self._buffers: list[Buffer] = [session.object(number) for number in (*step.inputs, *step.outputs)]
        self._handles = [session.tensor(placed.tensor, b) for placed, b in zip(ports, self._buffers, strict=True)]
        values, split = [h.value for h in self._handles], len(step.inputs)
        self.inputs = (c_void_p * max(split, 1))(*values[:split])
        self.outputs = (c_void_p * max(len(values) - split, 1))(*values[split:])
        self.n_inputs, self.n_outputs = split, len(values) - split

    @property
    def words(self) -> tuple[int, ...]:
        """The step's words in the loop's table (measure/call_loop.py)."""
        ins, outs = ctypes.addressof(self.inputs), ctypes.addressof(self.outputs)
        return self.compiled.value or 0, self.n_inputs, ins, self.n_outputs, outs

    def close(self) -> None:
        for handle in self._handles:
            handle.close()


class Chain:
    def __init__(self, steps: list[BoundStep]) -> None:
        self.steps = steps
        words = [word for step in steps for word in step.words]
        self.table = (c_void_p * max(len(words), 1))(*words)

    def close(self) -> None:
        for step in self.steps:
            step.close()


class Session:
    """The library, one CPU engine, one in-order stream."""

    def __init__(self, path: str, threads: int, loop: bytes, receive: Callable[[], int]) -> None:
        """Load and check. Raises Refused for anything but oneDNN, a version too old, or one that cannot run here.

        loop: machine code (measure/call_loop.py). receive: receives a file descriptor from the pipe.
        """
        self._lib, self.version, self._runtime = load(path)
        self._path, self._receive = path, receive
        self._log = VerboseLog(self._lib, next((v for n in VERBOSE if (v := environment({}).get(n, "")) not in ("", "0", "none")), ""))
        self._window: Window | None = None
        self._setters: dict[str, tuple[Any, Any]] = {
            "f": (self._lib.dnnl_graph_op_set_attr_f32, c_float),
            "i": (self._lib.dnnl_graph_op_set_attr_s64, c_int64),
            "b": (self._lib.dnnl_graph_op_set_attr_bool, c_uint8),
        }
        self._objects: dict[int, Any] = {}
        self._numbers = count(1)
        self._code = Code(loop)
        loop_type = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_int64)
        self._loop = loop_type(self._code.address)
        # The CPUs that our code is timed on. TBB starts a worker per allowed CPU, and has no environment variable for their number: with
        # 1, 2 and 4 CPUs the 3.13 wheel had 3, 3 and 5 threads, two of them idle.
        pin_process(threads)
        self._engine, self._stream = c_void_p(), c_void_p()
        if self._lib.dnnl_engine_create(byref(self._engine), capi.CPU, 0):
            fix = "a SYCL build needs the Intel OpenCL CPU runtime (pip install intel-opencl-rt), or use the wheel onednn-cpu-gomp"
            raise Refused("invalid_arguments", f"{path} has no engine for the CPU", fix)
        self._check(self._lib.dnnl_stream_create(byref(self._stream), self._engine, capi.IN_ORDER), "creating a stream")
        self.flush()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def hello(self) -> Hello:
        return Hello(self.version, self._runtime, self._path)

    def flush(self) -> None:
        """Clear the caches, so that each case compiles cold and packs its constants once."""
        self._check(self._lib.dnnl_graph_set_compiled_partition_cache_capacity(0), "switching the compiled-partition cache off")
        if hasattr(self._lib, "dnnl_graph_set_constant_tensor_cache_capacity"):
            status = self._lib.dnnl_graph_set_constant_tensor_cache_capacity(capi.CPU, CONSTANTS_MB)
        else:
            self._lib.dnnl_graph_set_constant_tensor_cache(0)
            status = self._lib.dnnl_graph_set_constant_tensor_cache(1)
        self._check(status, "switching the constant-tensor cache on")

    def forget(self, numbers: Iterable[int]) -> None:
        """Destroy objects; unknown numbers are ignored."""
        for number in numbers:
            if removed := self._objects.pop(number, None):
                removed.close()

    def partition(self, graph: Graph, policy: int) -> list[Part]:
        create = "graph_graph_create_with_fpmath_mode", "graph_graph", "the graph", capi.CPU, graph.fpmath
        with self._log.creations(), closing(self._created(*create)) as handle:  # it logs what no pattern takes
            if graph.integers is not None and self.version[:2] >= FPMATH_OF_INTEGERS:
                status = self._lib.dnnl_graph_graph_set_fpmath_mode(handle.value, graph.fpmath, int(graph.integers))
                self._check(status, "setting the math mode")
            for op in graph.ops:
                self._add(handle, op)
            self._check(self._lib.dnnl_graph_graph_finalize(handle.value), "finalising the graph")
            self._check(self._lib.dnnl_graph_graph_filter(handle.value, policy), "partitioning the graph")
            number = c_size_t()
            self._check(self._lib.dnnl_graph_graph_get_partition_num(handle.value, byref(number)), "counting partitions")
            handles = (c_void_p * max(number.value, 1))()
            self._check(self._lib.dnnl_graph_graph_get_partitions(handle.value, number.value, handles), "getting the partitions")
            return [self._part(handles[i]) for i in range(number.value)]

    def compile(self, partition: int, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Compiled:
        """Compile a partition for these tensors. The time is that of this call alone."""
        part = self.object(partition)
        handle = self._created("graph_compiled_partition_create", "graph_compiled_partition", "a compiled partition", part.value)
        try:
            ins, outs = _pointers(inputs), _pointers(outputs)
            compile = self._lib.dnnl_graph_partition_compile
            with self._log.creations() as lines:
                started = time.perf_counter()
                status = compile(part.value, handle.value, len(inputs), ins, len(outputs), outs, self._engine)
                seconds = time.perf_counter() - started
            self._check(status, "compiling the partition")
            placed = [tuple(self._placed(handle, t) for t in side) for side in (inputs, outputs)]
            inplace = self._inplace(handle)
        except Refused:
            handle.close()
            raise
        handle.message = Compiled(self._keep(handle), seconds, placed[0], placed[1], inplace, tuple(created(lines)), tuple(rejected(lines)))
        return handle.message

    def window(self, nbytes: int) -> None:
        """Map the shared memory; its descriptor follows on the pipe."""
        self._window = Window(self._receive(), nbytes)

    def allocate(self, nbytes: int) -> int:
        try:
            return self._keep(Buffer(nbytes))
        except OSError as bad:
            raise Refused("out_of_memory", f"no memory for a buffer of {nbytes} bytes") from bad

    def put(self, buffer: int, nbytes: int) -> None:
        """Copy the window's first bytes into a buffer."""
        assert self._window is not None
        memmove(self.object(buffer).address, self._window.address, nbytes)

    def get(self, buffer: int, nbytes: int) -> None:
        """Copy a buffer's first bytes into the window."""
        assert self._window is not None
        memmove(self._window.address, self.object(buffer).address, nbytes)

    def execute(self, step: Step) -> None:
        with closing(BoundStep(self, step)) as bound:
            arguments = bound.n_inputs, bound.inputs, bound.n_outputs, bound.outputs
            status = self._lib.dnnl_graph_compiled_partition_execute(bound.compiled.value, self._stream, *arguments)
            self._check(status or self._lib.dnnl_stream_wait(self._stream), "executing the partition")

    def chain(self, steps: tuple[Step, ...]) -> int:
        return self._keep(Chain([BoundStep(self, step) for step in steps]))

    def run(self, chain: int, times: int) -> float:
        """Execute the chain's steps in order, so many times, in one native call. Returns its seconds, once idle threads sleep."""
        steps: Chain = self.object(chain)
        execute = ctypes.cast(self._lib.dnnl_graph_compiled_partition_execute, c_void_p)
        wait = ctypes.cast(self._lib.dnnl_stream_wait, c_void_p)
        started = time.perf_counter()
        status = self._loop(execute, wait, self._stream, ctypes.addressof(steps.table), len(steps.steps), times)
        seconds = time.perf_counter() - started
        self._check(status, "executing the partitions")
        wait_until_idle()
        return seconds

    # ---- shared by requests -------------------------------------------------------------------------------------------

    def object(self, number: int) -> Any:
        return self._objects[number]

    def _created(self, create: str, kind: str, what: str, *arguments: Any) -> Handle:
        """An object made by the C function dnnl_<create>, and destroyed by dnnl_<kind>_destroy."""
        value = c_void_p()
        self._check(getattr(self._lib, f"dnnl_{create}")(byref(value), *arguments), f"creating {what}")
        return Handle(value.value, getattr(self._lib, f"dnnl_{kind}_destroy"))

    def _keep(self, value: Any) -> int:
        number = next(self._numbers)
        self._objects[number] = value
        return number

    def _check(self, status: int, what: str) -> None:
        if status:
            raise Refused(capi.STATUSES[status] if status < len(capi.STATUSES) else f"status {status}", what)

    def tensor(self, tensor: Tensor, buffer: Buffer) -> Handle:
        """A tensor on a buffer; for a host scalar, with the buffer's present value."""
        is_scalar, lt = tensor.property == _HOST_SCALAR, byref(structure(tensor))
        arguments = (lt, buffer.address) if is_scalar else (lt, self._engine, buffer.address)
        create = "graph_tensor_create_scalar" if is_scalar else "graph_tensor_create"
        return self._created(create, "graph_tensor", f"tensor {tensor.id}", *arguments)

    def _add(self, graph: Handle, op: Op) -> None:
        where = f"op {op.id}: {op.name}"
        with closing(self._created("graph_op_create", "graph_op", where, op.id, op.kind, op.name.encode())) as handle:
            for code, form, v in op.attrs:
                self._check(self._set(handle, code, form, v), f"setting attribute 0x{code:x} of {where}")
            for t in op.inputs:
                self._check(self._lib.dnnl_graph_op_add_input(handle.value, byref(structure(t))), f"adding an input to {where}")
            for t in op.outputs:
                self._check(self._lib.dnnl_graph_op_add_output(handle.value, byref(structure(t))), f"adding an output to {where}")
            self._check(self._lib.dnnl_graph_add_op(graph.value, handle.value), f"adding {where}")

    def _set(self, op: Handle, code: int, form: str, value: Any) -> int:
        if form == "s":
            text = value.encode()
            return int(self._lib.dnnl_graph_op_set_attr_str(op.value, code, text, len(text)))
        values = value if form in ("fs", "is") else (value,)
        set_attr, element = self._setters[form[0]]
        array = element * max(len(values), 1)
        return int(set_attr(op.value, code, array(*values), len(values)))

    def _part(self, value: int | None) -> Part:
        handle = Handle(value, self._lib.dnnl_graph_partition_destroy)
        n, supported = c_size_t(), c_uint8()
        self._check(self._lib.dnnl_graph_partition_get_op_num(value, byref(n)), "counting a partition's ops")
        ops = (c_size_t * max(n.value, 1))()
        self._check(self._lib.dnnl_graph_partition_get_ops(value, n.value, ops), "getting a partition's ops")
        self._check(self._lib.dnnl_graph_partition_is_supported(value, byref(supported)), "asking whether a partition is supported")
        ids = tuple(ops[: n.value])
        return Part(self._keep(handle), ids, self._ports(value, "input"), self._ports(value, "output"), bool(supported.value))

    def _ports(self, partition: int | None, side: str) -> tuple[int, ...]:
        """Ids of the tensors at one side, without duplicates."""
        n, name = c_size_t(), f"dnnl_graph_partition_get_{side}_ports"
        self._check(getattr(self._lib, f"{name}_num")(partition, byref(n)), f"counting {side} ports")
        ports = (capi.LogicalTensor * max(n.value, 1))()
        self._check(getattr(self._lib, name)(partition, n.value, ports), f"getting {side} ports")
        return tuple(dict.fromkeys(ports[i].id for i in range(n.value)))

    def _placed(self, compiled: Handle, tensor: Tensor) -> Placed:
        lt, nbytes = capi.LogicalTensor(), c_size_t()
        status = self._lib.dnnl_graph_compiled_partition_query_logical_tensor(compiled.value, tensor.id, byref(lt))
        self._check(status, f"querying tensor {tensor.id}")
        status = self._lib.dnnl_graph_logical_tensor_get_mem_size(byref(lt), byref(nbytes))
        self._check(status, f"asking for the size of tensor {tensor.id}")
        return Placed(replace(_message(lt), property=tensor.property), nbytes.value)  # which oneDNN's answer may lack

    def _inplace(self, compiled: Handle) -> tuple[tuple[int, int], ...]:
        n, pairs = c_size_t(), ctypes.POINTER(capi.InplacePair)()
        status = self._lib.dnnl_graph_compiled_partition_get_inplace_ports(compiled.value, byref(n), byref(pairs))
        self._check(status, "asking for in-place pairs")
        return tuple((pairs[i].input_id, pairs[i].output_id) for i in range(n.value))


def _loader_error(path: str, bad: OSError) -> str:
    """The loader's message. It reports files for other machines as missing."""
    text = str(bad).removeprefix(f"{path}: ")
    return "it is for another machine" if "No such file" in text and str(bad).startswith(path) and os.path.isfile(path) else text


def load(path: str) -> tuple[Any, tuple[int, int, int], str]:
    try:
        library = CDLL(path)
    except OSError as bad:
        what = f"{path} cannot be loaded: {_loader_error(path, bad)}"
        raise Refused("invalid_arguments", what, "give the path of a libdnnl.so.3 for this machine") from bad
    try:
        library.dnnl_version.restype = ctypes.POINTER(capi.VersionInfo)
        info = library.dnnl_version().contents
    except (AttributeError, ValueError) as bad:
        raise Refused("invalid_arguments", f"{path} is not oneDNN", "give the path of libdnnl.so.3") from bad
    version = (info.major, info.minor, info.patch)
    if version[:2] < FIRST or version[0] != FIRST[0]:
        oldest = ".".join(map(str, FIRST))
        what = f"{path} is oneDNN {'.'.join(map(str, version))}; {oldest} or a newer 3.x is needed"
        raise Refused("invalid_arguments", what, _ANOTHER)
    try:
        capi.declare(library)
    except AttributeError as bad:
        raise Refused("invalid_arguments", f"{path} was built without the Graph API ({bad})", _ANOTHER) from bad
    runtime = capi.RUNTIMES.get(info.cpu_runtime, str(info.cpu_runtime))
    if runtime == "THREADPOOL":
        what = f"{path} was built for a thread pool of its user's (DNNL_CPU_RUNTIME=THREADPOOL)"
        raise Refused("invalid_arguments", what, "use a build for OpenMP, TBB or SYCL")
    return library, version, runtime


def structure(tensor: Tensor) -> capi.LogicalTensor:
    lt = capi.LogicalTensor(id=tensor.id, ndims=len(tensor.dims), data_type=tensor.dtype, property=tensor.property)
    lt.layout_type = tensor.layout
    lt.dims[: len(tensor.dims)] = tensor.dims
    if tensor.layout == OPAQUE:
        lt.layout.layout_id = tensor.layout_id
    else:
        lt.layout.strides[: len(tensor.strides)] = tensor.strides
    return lt


def _message(lt: capi.LogicalTensor) -> Tensor:
    dims = tuple(lt.dims[: max(lt.ndims, 0)])
    strides = tuple(lt.layout.strides[: len(dims)]) if lt.layout_type == STRIDED else ()
    layout_id = lt.layout.layout_id if lt.layout_type == OPAQUE else 0
    return Tensor(lt.id, dims=dims, dtype=lt.data_type, strides=strides, property=lt.property, layout=lt.layout_type, layout_id=layout_id)


def _pointers(tensors: tuple[Tensor, ...]) -> Any:
    structures = [structure(t) for t in tensors]
    return (ctypes.POINTER(capi.LogicalTensor) * max(len(tensors), 1))(*map(ctypes.pointer, structures))
