"""A runtime of whole models behind the library protocol: a model's graph is one partition, and what runs is the model's file.

A runtime that does not read the format of the case's file runs the file of the same name beside it in its own format, if there is one, so
that net.onnx and net.pt2, exported from one program, make one case for all. Inputs and outputs are then matched by name, else by position;
that the two mean the same is what mode C checks. From then on a port of the file is its position: several can have a name, as an input that
is an output as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchgraph.core.arrays import Array
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, Unavailable, Unimplemented, within
from benchgraph.core.files import exists
from benchgraph.core.implementation import Implementation
from benchgraph.core.layers import Layer, Span
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.core.wait_idle import wait_until_idle
from benchgraph.graph.ir import END, Graph
from benchgraph.graph.model import Model
from benchgraph.importers.pt2 import check_archive
from benchgraph.library import protocol
from benchgraph.library.remote import Remote, RemoteChain, RemoteLibrary, own_steps
from benchgraph.machine.target import current
from benchgraph.partition.ir import Partition, Policy
from benchgraph.peers.inference.client import Process, interpreter, process
from benchgraph.peers.inference.onnx_names import Names, read_names
from benchgraph.peers.inference.runtimes import EXPORTED, ONNX

KIND = "model"  # of its partitions
NARROW = (DType.bf16, DType.f16)


class ModelRuntime(RemoteLibrary):
    """A Library that runs models. All of one kind, environment and label share a process while it lives."""

    def __init__(self, kind: str, place: str = "", label: str = "", model: Model | None = None) -> None:
        self.kind, self._made_of, self._model = kind, (kind, place, label), model
        self.process: Process = process(kind, interpreter(kind, place), label, current().cores)
        self._compiled: Compiled | None = None

    def for_model(self, model: Model) -> ModelRuntime:
        return ModelRuntime(*self._made_of, model)

    @property
    def name(self) -> str:
        return self.kind

    @property
    def version(self) -> str:
        """With what it computes on: the provider or device."""
        return self.process.version

    @property
    def dumps_itself(self) -> bool:
        return False

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        """The whole graph. Raises Unavailable where it is not a model's, or that of a file which the runtime does not read."""
        runtime, model = self.process.runtime, self._model
        if model is None or model.source is None:
            what = f"{runtime.title} runs the file of a model, and this case has none that means the same"
            raise Unavailable(what, where=self.kind, fix=f"run a model as it is: --model --case=FILE{runtime.reads}")
        file = self._file(model.source)
        if not exists(file):
            what = f"{runtime.title} reads {runtime.reads}, and there is no {file.name} beside {model.source.name}"
            raise Unavailable(what, where=self.kind, fix="export the model in that format as well")
        if policy is not Policy.fused or graph != model.graph:
            raise Unavailable(f"{runtime.title} runs whole models alone", where=self.kind, fix="leave it out")
        work = tuple(op for op in graph.order if op.kind != END)
        mode = graph.engine_kind, graph.fpmath_mode, graph.fpmath_apply_to_int
        return (Partition(0, KIND, work, tuple(graph.inputs), tuple(graph.outputs), "", *mode),)

    def _file(self, source: Path) -> Path:
        """The case's file, or the one of the same name in the format that the runtime reads."""
        reads = self.process.runtime.reads
        return source if source.suffix.lower() == reads else source.with_suffix(reads)

    def compile(self, partition: Partition) -> Compiled:
        """Load the model's file. Raises Unimplemented, with what the runtime says, for one that it does not take."""
        if self._model is None or self._model.source is None:
            raise Unimplemented("there is no file to run", where=self.kind)
        if (file := self._file(self._model.source)).suffix.lower() == EXPORTED:
            with within(str(file)):
                check_archive(file)  # before PyTorch reads it, in which whatever the file brings along would run
        self._compiled = Compiled(self.process, partition, self._model, file)
        return self._compiled

    def compile_all(self, partitions: Sequence[Partition]) -> list[protocol.Compiled]:
        return [self.compile(p) for p in partitions]

    def sequence(self, steps: Sequence[protocol.Bound]) -> Chain:
        """The one step there is. Raises InvalidArguments for steps of another library."""
        (step,) = own_steps(steps, Bound)
        return Chain(step)

    def profiled(
        self, partitions: Sequence[Partition], inputs: Sequence[Sequence[Array]], outputs: Sequence[Sequence[Array]]
    ) -> Profiled | None:
        """What the runtime's own profiler tells; None if it does not tell layers."""
        (partition,) = partitions
        compiled = self._compiled if self._compiled is not None and self._compiled.partition is partition else self.compile(partition)
        bound = compiled.bind(inputs[0], outputs[0])
        bound.put()
        made = self.process.ask("profile", bound.number)
        return None if made is None else Profiled(bound, *made)


class Compiled(Remote):
    """A loaded model. inputs, outputs: the case's tensors, by positions of the file's ports. file: what runs."""

    process: Process

    def __init__(self, process: Process, partition: Partition, model: Model, file: Path) -> None:
        self.process, self.partition, self.file = process, partition, file
        tensors = {**model.unread, **{t.id: t for t in (*partition.inputs, *partition.outputs)}}
        ins, outs = ({name: tensors[id] for name, id in names.items()} for names in (model.inputs, model.outputs))
        number, known_ins, known_outs = process.ask("open", str(file))
        opened = Remote(process, number)
        self.inputs, self.outputs = self._matched(ins, known_ins), self._matched(outs, known_outs)
        if missing := [names[0] for port, names in enumerate(known_ins) if port not in self.inputs]:
            raise Unimplemented(f"{file.name} has inputs that the case lacks: {', '.join(missing)}", where=process.where)
        shapes = {port: t.known_shape for port, t in self.inputs.items()}
        made = process.ask("load", opened.number, partition.fpmath_mode, _floats(partition).value, shapes)
        number, self.compile_s, self.is_warm, settings, ran = made
        super().__init__(process, number)
        self.settings: tuple[str, ...] = tuple(settings)
        self.implementations = tuple(Implementation(*each) for each in ran)

    def _matched(self, ports: Mapping[str, LogicalTensor], known: Sequence[Sequence[str]]) -> dict[int, LogicalTensor]:
        """The tensors by positions of the file's ports. known: the names of each of these, which outputs of one value share.

        Raises Unimplemented.
        """
        places = {name: port for port, names in reversed(list(enumerate(known))) for name in names}
        if all(name in places for name in ports):
            return {places[name]: t for name, t in ports.items()}
        if len(ports) == len(known):
            return dict(enumerate(ports.values()))
        theirs = ", ".join(names[0] for names in known)
        raise Unimplemented(f"{self.file.name} has the ports {theirs}, where the case has {', '.join(ports)}", where=self.process.where)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Bound:
        arrays = zip((*self.partition.inputs, *self.partition.outputs), (*inputs, *outputs), strict=True)
        return Bound(self, {t.id: array for t, array in arrays})


class Bound(Remote):
    """A model on arrays of ours; each call copies its inputs to the other process and its outputs back. Weights are those of the file."""

    def __init__(self, compiled: Compiled, arrays: Mapping[int, Array]) -> None:
        self.compiled = compiled
        self._inputs, self._outputs = (
            {port: (t, arrays[t.id]) for port, t in ports.items() if t.id in arrays} for ports in (compiled.inputs, compiled.outputs)
        )  # inputs that nothing reads stay zero
        shapes = ({port: t.known_shape for port, t in ports.items()} for ports in (compiled.inputs, compiled.outputs))
        super().__init__(compiled.process, compiled.process.ask("bind", compiled.number, *shapes))

    def put(self) -> None:
        """Copy the inputs to the other process."""
        for port, (t, array) in self._inputs.items():
            self._window(t)[...] = array
            self.process.ask("put", self.number, port, t.dtype.numpy.name)

    def __call__(self) -> None:
        self.put()
        self.process.ask("execute", self.number)
        for port, (t, array) in self._outputs.items():
            window = self._window(t)
            self.process.ask("get", self.number, port, t.dtype.numpy.name)
            array[...] = window

    def _window(self, t: LogicalTensor) -> Array:
        """The shared memory as the tensor's elements, without gaps. Raises InvalidArguments for elements of less than a byte."""
        if t.dtype.is_packed:
            raise InvalidArguments(f"tensor {t.id} is of {t.dtype.value}, which no runtime has at a border", where=self.process.where)
        shape: Shape = t.known_shape
        nbytes = t.dtype.numpy.itemsize * t.type.elements
        return self.process.window(nbytes).view(t.dtype.numpy).reshape(shape)


class Chain(RemoteChain):
    """A model on buffers that stay in the other process."""

    def __init__(self, step: Bound) -> None:
        self.process, self.number, self._step = step.process, step.number, step
        step.put()

    @property
    def notes(self) -> Sequence[str]:
        return (", ".join(self._step.compiled.settings),)


class Profiled(Remote):
    """A model with the runtime's profiler on. A layer has the ops of the nodes, or makers of values, that the runtime names."""

    def __init__(self, bound: Bound, number: int, layers: Sequence[tuple[Sequence[str], str, str]]) -> None:
        super().__init__(bound.process, number)
        self._bound, named = bound, dict[str, list[int]]()  # bound: keeps its buffers
        for op in bound.compiled.partition.ops:
            named.setdefault(op.name, []).append(op.id)
        names = read_names(bound.compiled.file) if bound.compiled.process.runtime.reads == ONNX else Names({}, {})
        self.layers = tuple(_layer(named, [n for node in nodes for n in names.nodes(node, kind)], kind, ran) for nodes, kind, ran in layers)

    def run(self) -> Sequence[Span]:
        wait_until_idle()
        return [Span(*each) for each in self.process.ask("spans", self.number)]


def _layer(named: Mapping[str, Sequence[int]], nodes: Sequence[str], kind: str, implementation: str) -> Layer:
    """A runtime may put what it fused behind the name of a node: node_MatMul_33/MatMulAddFusion."""
    ops = tuple(dict.fromkeys(id for node in nodes for id in named.get(node) or named.get(node.rpartition("/")[0], ())))
    return Layer(ops, implementation=implementation) if ops else Layer((), 0, nodes[0], kind, implementation)


def _floats(partition: Partition) -> DType:
    """The narrowest floating-point dtype of the model's values."""
    found = {t.dtype for op in partition.ops for t in (*op.inputs, *op.outputs)}
    return next((dtype for dtype in NARROW if dtype in found), DType.f32)
