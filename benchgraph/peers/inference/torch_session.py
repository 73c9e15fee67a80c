"""PyTorch in its process: run by server.py, by path. Needs torch and numpy alone. A model is a file of torch.export.

What is set, and why: as many threads as asked for within an op, and one op at a time; no gradients; products of f32 in f32 unless the case
allows bf16. For inductor also freezing, PyTorch's own advice for inference on CPUs: weights are constants, which are packed once, as all
others pack them. What is called is the program's graph with its inputs side by side: the module that torch.export gives takes 0.3 ms per
call to check and sort them, which the module that was exported does not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor
from torch.fx.graph import CodeGen
from torch.utils import _pytree as pytree

Array: TypeAlias = Any  # of numpy; elements of bfloat16 as uint16
Shapes: TypeAlias = Mapping[int, Sequence[int]]  # by position among the file's inputs
Arrays: TypeAlias = Mapping[int, Array]  # likewise, or among its outputs
INDUCTOR = "inductor"
ROUNDED = ("bf16", "any")  # math modes in which products of f32 may be in bf16
DTYPES = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.bool: "bool",
    torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64",
}  # fmt: skip


class Runtime:
    """The package. variant: inductor, or '' for eager."""

    def __init__(self, threads: int, variant: str) -> None:
        self.threads, self._is_inductor = threads, variant == INDUCTOR
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        torch.set_grad_enabled(False)

    @property
    def version(self) -> str:
        return f"{torch.__version__} ({'inductor' if self._is_inductor else 'eager'})"

    def open(self, file: str) -> File:
        return File(file, self.threads, self._is_inductor)


class File:
    """A file of torch.export. inputs, outputs: the names of each port, in order."""

    def __init__(self, file: str, threads: int, is_inductor: bool) -> None:
        self._threads, self._is_inductor, self._program = threads, is_inductor, torch.export.load(file)
        self._values = {node.name: node.meta["val"] for node in self._program.graph.nodes if "val" in node.meta}
        signature = self._program.graph_signature
        self.inputs, self.outputs = (
            [[name] for name in names if name in self._values] for names in (signature.user_inputs, signature.user_outputs)
        )

    def load(self, math: str, dtype: str, shapes: Shapes) -> Model:
        """math: what f32 may be rounded to, in oneDNN's terms. dtype: of the model's floats. Raises ValueError for what it lacks."""
        if math == "f16" and dtype == "f32":
            raise ValueError("PyTorch rounds products of f32 to bf16 or tf32, not to f16")
        torch.set_float32_matmul_precision("medium" if math in ROUNDED else "highest")
        torch.backends.mkldnn.conv.fp32_precision = "bf16" if math in ROUNDED else "ieee"
        return Model(self._program, self._values, self._threads, math, self._is_inductor, shapes)


class Model:
    """An exported program. inputs, outputs: dtypes of the ports. seconds: until it had run once, which is when inductor compiles."""

    def __init__(self, program: Any, values: Mapping[str, Any], threads: int, math: str, is_inductor: bool, shapes: Shapes) -> None:
        """values: by the names of its nodes."""
        started = time.perf_counter()
        signature = program.graph_signature
        self._arguments = list(signature.user_inputs)
        (self._taken, self.inputs), (self._made, self.outputs) = (
            _tensors(side, values) for side in (self._arguments, signature.user_outputs)
        )
        self._call = _compiled(_flat(program), threads) if is_inductor else _flat(program)
        zeros = {port: torch.zeros(tuple(shape), dtype=values[self._arguments[self._taken[port]]].dtype) for port, shape in shapes.items()}
        args, kwargs = pytree.tree_unflatten(self._leaves(zeros), program.call_spec.in_spec)
        program.module()(*args, **kwargs)  # which raises for inputs that are not the program's
        self._call(*self._leaves(zeros))
        self.seconds = time.perf_counter() - started
        self.is_warm = is_inductor and counters["inductor"]["fxgraph_cache_hit"] > 0
        self.settings = [f"threads {threads}", f"products of f32 in {'bf16' if math in ROUNDED else 'f32'}"]
        self.settings += ["freezing"] if is_inductor else []
        self.implementations = [("model", INDUCTOR if is_inductor else "eager", 1)]

    def _leaves(self, tensors: Mapping[int, Any]) -> list[Any]:
        """The inputs side by side. Arguments that are no tensors are constants, which stand in the place of their names."""
        leaves = list(self._arguments)
        for port, tensor in tensors.items():
            leaves[self._taken[port]] = tensor
        return leaves

    def bind(self, inputs: Arrays, outputs: Arrays) -> Bound:
        tensors = {port: _tensor(array, self.inputs[port]) for port, array in inputs.items()}
        wanted = [(self._made[port], _tensor(array, self.outputs[port])) for port, array in outputs.items()]
        return Bound(self._call, self._leaves(tensors), wanted)

    def profiled(self, inputs: Arrays, outputs: Arrays) -> None:
        """None: its profiler tells the times of ops, not which of the model's they are."""


class Bound:
    """A program on arrays. Calling it executes once; `collect` then copies the outputs to their arrays, as PyTorch makes its own."""

    def __init__(self, call: Any, leaves: Sequence[Any], wanted: Sequence[tuple[int, Any]]) -> None:
        self._call, self._leaves, self._wanted = call, leaves, wanted
        self._results: Sequence[Any] = ()

    def __call__(self) -> None:
        self._results = self._call(*self._leaves)

    def collect(self) -> None:
        for position, array in self._wanted:
            array.copy_(self._results[position])


def _tensors(names: Sequence[Any], values: Mapping[str, Any]) -> tuple[list[int], list[str]]:
    """The places of those arguments or results that are tensors, and their dtypes: the ports."""
    places = [place for place, name in enumerate(names) if name in values]
    return places, [_dtype(names[place], values[names[place]]) for place in places]


def _flat(program: Any) -> Any:
    """A function of the program's inputs side by side, whose results are so too."""
    module = program.module(check_guards=False)
    module.graph.set_codegen(CodeGen())
    module.recompile()
    return module.forward  # without the module's hooks


def _compiled(call: Any, threads: int) -> Any:
    inductor.freezing, inductor.cpp.threads, inductor.compile_threads = True, threads, threads
    counters.clear()
    torch._dynamo.reset()
    return torch.compile(call, backend=INDUCTOR, dynamic=False)


def _dtype(name: str, value: Any) -> str:
    """Raises ValueError for what is no tensor, or of a dtype that arrays do not have."""
    if getattr(value, "dtype", None) not in DTYPES:
        raise ValueError(f"{name!r} is {getattr(value, 'dtype', type(value).__name__)}, which is not supported here")
    return DTYPES[value.dtype]


def _tensor(array: Array, dtype: str) -> Any:
    """PyTorch's tensor on the array's memory."""
    made = torch.from_numpy(array)
    return made.view(torch.bfloat16) if dtype == "bfloat16" else made
