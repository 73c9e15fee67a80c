"""The backend that torch.compile calls with a graph, and the function that it returns.

AOT autograd first makes a functional graph of ATen ops: in-place ops become values, aliases are resolved outside. Without gradients,
weights are constants. With gradients, the forward graph is offloaded with weights that may change, and PyTorch runs the backward graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._guards import TracingContext
from torch.fx.experimental.proxy_tensor import make_fx

from benchgraph.core.errors import InvalidArguments
from benchgraph.graph import dumps
from benchgraph.library.cache import Cache
from benchgraph.library.engine import Engine
from benchgraph.machine.target import current
from benchgraph.torch.constants import NotConstant
from benchgraph.torch.decompositions import DECOMPOSITIONS
from benchgraph.torch.options import WHERE, Options, read
from benchgraph.torch.program import Program, Summary, build

PROGRAMS = 64  # sets of shapes for which a graph with dynamic shapes keeps programs


def backend(
    module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """The function for `torch.compile(model, backend="benchgraph", options={...})`. Raises InvalidArguments for unknown options."""
    if mode is not None:
        raise InvalidArguments(f"there is no mode {mode!r}", where="torch.compile", fix="leave the mode out")
    chosen = read(options)
    names = tuple(map(_name, module.graph.find_nodes(op="placeholder")))
    compiler: Any = aot_autograd(
        fw_compiler=partial(_compiled, replace(chosen, constants=False), names),
        inference_compiler=partial(_compiled, chosen, names),
        bw_compiler=lambda graph, _: make_boxed_func(graph.forward),
        decompositions=DECOMPOSITIONS,
    )
    made: Callable[..., Any] = compiler(module, list(inputs))
    return made


def _name(placeholder: fx.Node) -> str:
    """The name in the model: L_fn_modules_0_parameters_weight_ is 0.weight."""
    words = str(placeholder.target).strip("_").removeprefix("L_")
    for prefix in ("self_", "fn_", "args_", "modules_"):
        words = words.removeprefix(prefix)
    for prefix in ("_modules_", "_parameters_", "_buffers_"):
        words = words.replace(prefix, ".")
    return words.replace("parameters_", "").replace("buffers_", "")


def _compiled(options: Options, names: Sequence[str], module: fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    static = frozenset(metadata.static_input_indices or ()) if options.constants and metadata is not None else frozenset()
    placeholders = module.graph.find_nodes(op="placeholder")
    ours = list(names) if len(names) == len(placeholders) else [n.name for n in placeholders]
    compiled = Compiled(module, options, static, tuple(ours))
    if not compiled.is_open:
        compiled.prepare()
    return compiled


class Compiled:
    """A compiled graph: a program for each set of shapes that it is called with. Threads may call it at the same time."""

    _boxed_call = True  # takes a list of arguments, and may empty it

    def __init__(self, module: fx.GraphModule, options: Options, constant: frozenset[int], names: tuple[str, ...]) -> None:
        self._module, self._options, self._constant, self._names = module, options, constant, names
        self._programs: Cache[Program] = Cache(PROGRAMS)
        vals = [node.meta.get("val") for node in module.graph.nodes]
        self.is_open = any(isinstance(v, torch.SymInt | torch.SymFloat | torch.SymBool) or _has_open_dims(v) for v in vals)

    def prepare(self) -> None:
        """Build the program of a graph without dynamic shapes before the first call."""
        self._program(())

    def __call__(self, args: list[Any]) -> list[Any]:
        try:
            return self._program(args)(list(args))
        except NotConstant as bad:
            program = self._program(args)
            self._constant -= {program.constant[key] for key in bad.keys}
            return self._program(args)(list(args))
        finally:
            args.clear()

    def _program(self, args: Sequence[Any]) -> Program:
        threads = torch.get_num_threads()
        shapes = tuple(map(_shape, args)) if self.is_open else ()
        return self._programs.get((threads, self._constant, shapes), lambda: self._built(args, threads))

    def _built(self, args: Sequence[Any], threads: int) -> Program:
        module = make_fx(self._module, tracing_mode="fake")(*args) if self.is_open else self._module
        program = build(module, self._constant, _engine(threads), self._options.policy, self._names)
        if self._options.dump and program.graph.ops:
            _dump(program, self._options)
        for summaries in _recorded.get():
            summaries.append(program.summary)
        return program


def _has_open_dims(val: object) -> bool:
    return isinstance(val, torch.Tensor) and any(isinstance(d, torch.SymInt) for d in (*val.shape, *val.stride()))


def _shape(arg: Any) -> Any:
    return (arg.dtype, arg.shape, arg.stride()) if isinstance(arg, torch.Tensor) else arg


@cache
def _engine(threads: int) -> Engine:
    """The CPU with PyTorch's number of threads, on PyTorch's OpenMP library (runtime/threads.py)."""
    return Engine(target=replace(current(), cores=threads))


def _dump(program: Program, options: Options) -> None:
    """Write the program's graph to a file named by a hash of its contents."""
    text = dumps(program.graph)
    path = Path(options.dump) / f"{options.name}-{blake2b(text.encode(), digest_size=4).hexdigest()}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as bad:
        raise InvalidArguments(f"cannot write {path}: {bad.strerror}", where=f"{WHERE}: dump", fix="name a directory of yours") from bad


_recorded: ContextVar[tuple[list[Summary], ...]] = ContextVar("_recorded", default=())


@contextmanager
def recorded() -> Iterator[list[Summary]]:
    """The summaries of graphs that this thread compiles inside the block."""
    summaries = list[Summary]()
    token = _recorded.set((*_recorded.get(), summaries))
    try:
        yield summaries
    finally:
        _recorded.reset(token)
