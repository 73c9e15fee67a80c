"""ONNX Runtime in its process: run by server.py, by path. Needs onnxruntime and numpy alone.

What is set, and why: one provider, the CPU's; as many threads as asked for in one pool, as its user would; all graph optimisations, which
is its default; open dims as the case binds them, so that it may plan for those sizes. Idle threads spin, as by default: each execution of a
sample finds them awake, and server.py waits for them to sleep before anybody else is measured (docs/measurements/spinning.md).
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import onnxruntime as ort

Array: TypeAlias = Any  # of numpy; elements of bfloat16 as uint16
Shapes: TypeAlias = Mapping[int, Sequence[int]]  # by position among the file's inputs
Arrays: TypeAlias = Mapping[int, Array]  # likewise, or among its outputs
Span: TypeAlias = tuple[int, float, float]  # layer, begin, end in seconds
Event: TypeAlias = tuple[str, str, str, float, float]  # node, op, provider, begin in seconds, seconds
PROVIDER = "CPUExecutionProvider"
BFLOAT16 = 16  # TensorProto.DataType
DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bfloat16": "bfloat16", "bool": "bool", "int8": "int8", "uint8": "uint8",
    "int16": "int16", "uint16": "uint16", "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64",
}  # fmt: skip
NODE, KERNEL = "Node", "_kernel_time"  # of events of its profiler
BLOCKED = "_nchwc"  # it names a node that computes in blocks of channels by its output, with this behind
AT_ONCE = 16  # executions of a profiled session: a session writes its profile once, and another takes long to make


class Runtime:
    """The package. variant: there is one."""

    def __init__(self, threads: int, variant: str) -> None:
        self.threads = threads

    @property
    def version(self) -> str:
        build = dict(part.strip().split("=", 1) for part in ort.get_build_info().split(",") if "=" in part)
        return f"{ort.__version__} ({PROVIDER}, commit {build.get('git-commit-id', 'unknown')})"

    def open(self, file: str) -> File:
        return File(file, self.threads)


class File:
    """A file that ONNX Runtime can read. inputs, outputs: the names of each port, in order."""

    def __init__(self, file: str, threads: int) -> None:
        self._file, self._threads = file, threads
        options = ort.SessionOptions()  # no more than what reading needs
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_prepacking", "1")
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        session = ort.InferenceSession(file, options, providers=[PROVIDER])
        self._ports = session.get_inputs()
        self.inputs, self.outputs = ([[x.name] for x in ports] for ports in (session.get_inputs(), session.get_outputs()))

    def load(self, math: str, dtype: str, shapes: Shapes) -> Model:
        """math: what f32 may be rounded to, in oneDNN's terms. dtype: of the model's floats. Raises ValueError for what it lacks."""
        if math in ("bf16", "f16") and dtype == "f32":
            raise ValueError(f"ONNX Runtime computes models of f32 in f32 on this processor, and has no option for {math}")
        return Model(self._file, self._threads, self._open_dims(shapes))

    def _open_dims(self, shapes: Shapes) -> dict[str, int]:
        """The sizes of the model's open dims, by their names. Raises ValueError for a shape that is not the model's."""
        found = dict[str, int]()
        for port, own in enumerate(x.shape for x in self._ports):
            shape = shapes[port]
            if len(shape) != len(own) or any(isinstance(dim, int) and size != dim for dim, size in zip(own, shape, strict=True)):
                raise ValueError(f"input {self._ports[port].name!r} is {_dims(own)} in the file, and {_dims(shape)} in the case")
            found |= {dim: size for dim, size in zip(own, shape, strict=True) if isinstance(dim, str)}
        return found


class Model:
    """A session. inputs, outputs: dtypes of the ports. seconds: that its creation took."""

    def __init__(self, file: str, threads: int, sizes: Mapping[str, int]) -> None:
        """sizes: of open dims."""
        self._file, self._threads, self._sizes = file, threads, sizes
        started = time.perf_counter()
        self._session = self._made(self._options())
        self.seconds, self.is_warm = time.perf_counter() - started, False
        self._ins, self._outs = self._session.get_inputs(), self._session.get_outputs()
        self.inputs, self.outputs = [_dtype(x) for x in self._ins], [_dtype(x) for x in self._outs]
        self.settings = [f"threads {threads}", "graph optimisations all", "idle threads spin"]
        self.implementations = [("model", PROVIDER, 1)]

    def _options(self) -> Any:
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")  # the default, whatever becomes of it
        options.log_severity_level = 3  # errors
        for dim, size in self._sizes.items():
            options.add_free_dimension_override_by_name(dim, size)
        return options

    def _made(self, options: Any) -> Any:
        return ort.InferenceSession(self._file, options, providers=[PROVIDER])

    def bind(self, inputs: Arrays, outputs: Arrays) -> Bound:
        return Bound(self._session, self._bound(self._session, inputs, outputs), list(outputs.values()))

    def _bound(self, session: Any, inputs: Arrays, outputs: Arrays) -> Any:
        binding = session.io_binding()
        for port, array in inputs.items():
            binding.bind_ortvalue_input(self._ins[port].name, _value(array, self.inputs[port]))
        for port, array in outputs.items():
            binding.bind_ortvalue_output(self._outs[port].name, _value(array, self.outputs[port]))
        return binding

    def profiled(self, inputs: Arrays, outputs: Arrays) -> Profiled:
        return Profiled(lambda count: self._profile(inputs, outputs, count))

    def _profile(self, inputs: Arrays, outputs: Arrays, count: int) -> list[list[Event]]:
        """The events of so many executions, after one whose events are left out."""
        with TemporaryDirectory() as folder:
            options = self._options()
            options.enable_profiling, options.profile_file_prefix = True, os.path.join(folder, "profile")
            session = self._made(options)
            binding = self._bound(session, inputs, outputs)
            for _ in range(count + 1):
                session.run_with_iobinding(binding)
            with open(session.end_profiling(), encoding="utf-8") as file:
                events = [e for e in json.load(file) if e.get("cat") == NODE and e["name"].endswith(KERNEL)]
        each = len(events) // (count + 1)
        return [[_event(e) for e in events[start : start + each]] for start in range(each, len(events), each)]


def _event(e: Any) -> Event:
    name = e["name"].removesuffix(KERNEL).removesuffix(BLOCKED)
    return name, e["args"]["op_name"], e["args"]["provider"], e["ts"] * 1e-6, e["dur"] * 1e-6


class Bound:
    """A session on arrays. Calling it executes once; `collect` then completes the outputs, which are in their arrays but for those that are
    inputs.
    """

    def __init__(self, session: Any, binding: Any, outputs: Sequence[Array]) -> None:
        self._run, self._binding, self._outputs = session.run_with_iobinding, binding, outputs

    def __call__(self) -> None:
        self._run(self._binding)

    def collect(self) -> None:
        for array, value in zip(self._outputs, self._binding.get_outputs(), strict=True):
            if value.data_ptr() != array.ctypes.data:
                ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)


class Profiled:
    """layers: (names of nodes or of what they make, kind, implementation). run: the spans of one execution."""

    def __init__(self, profile: Callable[[int], list[list[Event]]]) -> None:
        self._profile, self._ready = profile, deque(profile(AT_ONCE))
        self.layers = [([node], kind, provider) for node, kind, provider, _, _ in self._ready[0]]

    def run(self) -> list[Span]:
        if not self._ready:
            self._ready.extend(self._profile(AT_ONCE))
        return [(layer, begin, begin + seconds) for layer, (_, _, _, begin, seconds) in enumerate(self._ready.popleft())]


def _dims(shape: Sequence[object]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def _dtype(x: Any) -> str:
    """Raises ValueError for what is no tensor."""
    name = x.type.removeprefix("tensor(").removesuffix(")")
    if name not in DTYPES:
        raise ValueError(f"{x.name!r} is a {x.type}, which is not supported here")
    return DTYPES[name]


def _value(array: Array, dtype: str) -> Any:
    """ONNX Runtime's value on the array's memory."""
    make = ort.OrtValue
    return make.ortvalue_from_numpy_with_onnx_type(array, BFLOAT16) if dtype == "bfloat16" else make.ortvalue_from_numpy(array)
