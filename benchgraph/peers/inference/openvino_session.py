"""OpenVINO in its process: run by server.py, by path. Needs openvino and numpy alone.

What is set, and why: the CPU; one stream of as many threads as asked for, and the hint for latency, since one execution at a time is what
is measured; the precision, since by default a model of f32 is computed in bf16 where the processor has it; for f32 the execution mode
ACCURACY besides, without which activations are quantised for compressed weights; no pinning of its own, so that its threads run on the
processors of the process, as everybody's do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import openvino as ov

Array: TypeAlias = Any  # of numpy; elements of bfloat16 as uint16
Shapes: TypeAlias = Mapping[int, Sequence[int]]  # by position among the file's inputs
Arrays: TypeAlias = Mapping[int, Array]  # likewise, or among its outputs
Span: TypeAlias = tuple[int, float, float]  # layer, begin, end in seconds
DEVICE = "CPU"
PRECISION = "INFERENCE_PRECISION_HINT"
CAPABILITY = {"bf16": "BF16", "f16": "FP16"}  # of the device, by precision
DTYPES = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "boolean": "bool", "i8": "int8", "u8": "uint8",
    "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64",
}  # fmt: skip
ORIGINAL, PRIMITIVE, TYPE = "originalLayersNames", "primitiveType", "layerType"  # of what it runs


class Runtime:
    """The package. variant: there is one."""

    def __init__(self, threads: int, variant: str) -> None:
        self.threads, self._core = threads, ov.Core()

    @property
    def version(self) -> str:
        return f"{ov.get_version()} ({DEVICE})"

    def open(self, file: str) -> File:
        return File(self._core, file, self.threads)


class File:
    """A file that OpenVINO can read. inputs, outputs: the names of each port, in order."""

    def __init__(self, core: Any, file: str, threads: int) -> None:
        self._core, self._threads, self._model = core, threads, core.read_model(file)
        self.inputs, self.outputs = ([sorted(port.get_names()) for port in ports] for ports in (self._model.inputs, self._model.outputs))

    def load(self, math: str, dtype: str, shapes: Shapes) -> Model:
        """math: what f32 may be rounded to, in oneDNN's terms. dtype: of the model's floats. Raises ValueError for what it lacks."""
        able = self._core.get_property(DEVICE, "OPTIMIZATION_CAPABILITIES")
        precision = dtype if math in ("strict", "tf32") else next((p for p in ("bf16", "f16") if math in (p, "any")), dtype)
        if math != "any" and CAPABILITY.get(precision, "FP32") not in able:
            raise ValueError(f"OpenVINO has no arithmetic in {precision} on this processor")
        model = self._model.clone()
        model.reshape({port: list(shape) for port, shape in shapes.items()})
        return Model(self._core, model, self._threads, precision)


class Model:
    """A compiled model. inputs, outputs: dtypes of the ports. seconds: that its compilation took."""

    def __init__(self, core: Any, model: Any, threads: int, precision: str) -> None:
        self._core, self._model = core, model
        self._config = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "EXECUTION_MODE_HINT": "ACCURACY" if precision == "f32" else "PERFORMANCE",
            PRECISION: precision,
            "ENABLE_CPU_PINNING": False,
        }
        started = time.perf_counter()
        self._compiled = core.compile_model(self._model, DEVICE, self._config)
        self.seconds, self.is_warm = time.perf_counter() - started, False
        self.inputs, self.outputs = ([_dtype(port) for port in ports] for ports in (self._compiled.inputs, self._compiled.outputs))
        self.settings = [f"{name} {self._value(name)}" for name in self._config]
        ran = Counter((_info(op, TYPE), _info(op, PRIMITIVE)) for op in self._compiled.get_runtime_model().get_ordered_ops())
        self.implementations = [(kind, name, count) for (kind, name), count in ran.items() if kind not in ("Input", "Output", "Const")]

    def _value(self, name: str) -> str:
        value = self._compiled.get_property(name)
        return value.get_type_name() if isinstance(value, ov.Type) else str(getattr(value, "name", value))

    def bind(self, inputs: Arrays, outputs: Arrays) -> Bound:
        request, kept = self._request(self._compiled, inputs, outputs)
        return Bound(request, kept)

    def _request(self, compiled: Any, inputs: Arrays, outputs: Arrays) -> tuple[Any, Arrays]:
        """A request, and outputs that it keeps: those of an input's name, for which it would take the memory as that input's."""
        request, taken = compiled.create_infer_request(), {name for port in compiled.inputs for name in port.get_names()}
        kept = {port: array for port, array in outputs.items() if taken & compiled.outputs[port].get_names()}
        for port, array in inputs.items():
            request.set_input_tensor(port, _tensor(array, self.inputs[port]))
        for port, array in outputs.items():
            if port not in kept:
                request.set_output_tensor(port, _tensor(array, self.outputs[port]))
        return request, kept

    def profiled(self, inputs: Arrays, outputs: Arrays) -> Profiled:
        """The model compiled once more, with counters."""
        compiled = self._core.compile_model(self._model, DEVICE, self._config | {"PERF_COUNT": True})
        original = {op.get_friendly_name(): _info(op, ORIGINAL).split(",") for op in compiled.get_runtime_model().get_ordered_ops()}
        return Profiled(self._request(compiled, inputs, outputs)[0], original)


class Bound:
    """A compiled model on arrays. Calling it executes once; `collect` then copies the outputs that the request keeps to their arrays."""

    def __init__(self, request: Any, kept: Arrays) -> None:
        self._infer, self._request, self._kept = request.infer, request, kept

    def __call__(self) -> None:
        self._infer()

    def collect(self) -> None:
        for port, array in self._kept.items():
            array[...] = self._request.get_output_tensor(port).data.view(array.dtype)  # of bf16 it gives f16


class Profiled:
    """layers: (names of the model's nodes or of what they make, kind, implementation). run: the spans of one execution, end to end."""

    def __init__(self, request: Any, original: Mapping[str, list[str]]) -> None:
        self._request, self._clock_s = request, 0.0
        request.infer()
        self.layers = [(_names(p.node_name, original), p.node_type, p.exec_type) for p in self._executed()]

    def _executed(self) -> list[Any]:
        return [p for p in self._request.profiling_info if p.status == ov.ProfilingInfo.Status.EXECUTED]

    def run(self) -> list[Span]:
        self._request.infer()
        found = []
        for layer, p in enumerate(self._executed()):
            begin, self._clock_s = self._clock_s, self._clock_s + p.real_time.total_seconds()
            found.append((layer, begin, self._clock_s))
        return found


def _names(node: str, original: Mapping[str, list[str]]) -> list[str]:
    return [name for name in original.get(node, ()) if name] or [node]


def _info(op: Any, name: str) -> str:
    found = op.get_rt_info()
    return str(found[name].astype(str)) if name in found else ""


def _dtype(port: Any) -> str:
    """Raises ValueError for a dtype that arrays do not have."""
    name = port.get_element_type().get_type_name()
    if name not in DTYPES:
        raise ValueError(f"{port.get_any_name()!r} is of {name}, which is not supported here")
    return DTYPES[name]


def _tensor(array: Array, dtype: str) -> Any:
    """OpenVINO's tensor on the array's memory."""
    return ov.Tensor(array, array.shape, ov.Type.bf16) if dtype == "bfloat16" else ov.Tensor(array, shared_memory=True)
