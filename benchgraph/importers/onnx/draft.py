"""A graph in the making: values by their names in the model, constants with their data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from benchgraph.core.arrays import Array
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidShape, OutOfMemory, Unimplemented
from benchgraph.core.formats import size
from benchgraph.core.free_memory import free_bytes
from benchgraph.core.printable import shortened
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph import GraphBuilder
from benchgraph.graph.model import Fallen, View
from benchgraph.importers.model_files import COPIES

DTYPES: Mapping[np.dtype[Any], DType] = {
    dtype.numpy: dtype
    for dtype in (DType.f32, DType.f16, DType.bf16, DType.f8_e4m3, DType.f8_e5m2, DType.s32, DType.s8, DType.u8, DType.boolean)
} | {np.dtype(np.int64): DType.s32, np.dtype(ml_dtypes.int4): DType.s4, np.dtype(ml_dtypes.uint4): DType.u4}
"""Of the arrays of a model. The graph's integers are of 32 bits: those of int64 must fit. Core's arrays of s4 and u4 are of bytes."""
U8 = 2
DATA_TYPES: Mapping[int, DType] = {
    1: DType.f32, U8: DType.u8, 3: DType.s8, 6: DType.s32, 7: DType.s32, 9: DType.boolean, 10: DType.f16, 16: DType.bf16,
    17: DType.f8_e4m3, 19: DType.f8_e5m2, 21: DType.u4, 22: DType.s4,
}  # fmt: skip
"""ONNX's TensorProto.DataType, as attributes and inputs have it."""
REQUIRED: Any = object()
NUMPY_RAISES = (ArithmeticError, LookupError, TypeError, ValueError)  # at attributes that a torn file gives a node
ALWAYS_FIT = 1 << 20  # bytes
MORE_MEMORY = "use a machine with more memory, or a smaller model"


class Unmapped(Unimplemented):
    """A node that no op of the library, nor a few of them, mean."""


class Misfit(Unmapped):
    """Operands whose sizes do not fit together, as an op's row says."""


@dataclass(frozen=True)
class Node:
    """A node of the model. inputs: names, '' for one that is left out."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    name: str = ""

    @property
    def label(self) -> str:
        """The node in messages: its name, else what it makes."""
        return f"node {self.name or self.outputs[0]!r} ({self.kind})"

    def get(self, name: str, default: Any = REQUIRED) -> Any:
        """An attribute. Raises Unmapped for one that is missing."""
        if name not in self.attrs and default is REQUIRED:
            raise Unmapped(f"it has no attribute {name}")
        return self.attrs.get(name, default)

    def has(self, i: int) -> bool:
        return i < len(self.inputs) and bool(self.inputs[i])


Row: TypeAlias = Callable[["Draft", Node], LogicalTensor]


class Draft:
    """known: values that do not depend on the inputs. data: the arrays of the graph's constants, by tensor id. cut: of those that are parts
    of another one, that one and the view of it that they are, as `Use` has it. readers: of each value, the kinds of the nodes that read
    it, '' for a result of the model. name: of ops from now on.
    """

    def __init__(self, *, has_users_sizes: bool = False) -> None:
        """has_users_sizes: inputs have sizes of the user's, so that a node whose operands do not fit together is an error."""
        self.name, self._has_users_sizes = "", has_users_sizes
        self.b = GraphBuilder()
        self.known = dict[str, Array]()
        self.data = dict[int, Array]()
        self.cut = dict[int, tuple[int, View]]()
        self.fallen = list[Fallen]()
        self.readers = defaultdict[str, list[str]](list)
        self._tensors = dict[str, LogicalTensor]()
        self._made_for = dict[str, int]()  # of what is made for each reader: the one that has the tensor
        self._again = dict[str, Callable[[], LogicalTensor]]()
        self._reader = 0

    def begin(self, name: str) -> None:
        """The ops from now on are of another node, whose name they have."""
        self.name = name
        self._reader += 1

    def define(self, name: str, t: LogicalTensor) -> None:
        self._tensors[name] = t

    def is_read(self, name: str) -> bool:
        """Whether an op has read the value as a tensor."""
        return name in self._tensors

    def define_for_each(self, name: str, make: Callable[[], LogicalTensor]) -> None:
        """A value that is made anew for each node that reads it."""
        own = self.name

        def again() -> LogicalTensor:
            before, self.name = self.name, own
            try:
                return make()
            finally:
                self.name = before

        self._tensors[name], self._again[name] = make(), again

    def is_known(self, name: str) -> bool:
        return name in self.known

    def tensor(self, node: Node, i: int) -> LogicalTensor:
        """Input i of a node as a tensor: a value of the graph, or a constant with its data. Raises Unmapped for one that is not there."""
        if not node.has(i):
            raise Unmapped(f"it has no input {i}")
        return self.named(node.inputs[i])

    def named(self, name: str) -> LogicalTensor:
        if name not in self._tensors and name not in self.known:
            raise Unmapped(f"no node makes {name!r}")
        if name not in self._tensors:
            self._tensors[name] = self.literal(self.known[name])
        if name in self._again and self._made_for.setdefault(name, self._reader) != self._reader:
            self._tensors[name], self._made_for[name] = self._again[name](), self._reader
        return self._tensors[name]

    def tensors(self, node: Node) -> tuple[LogicalTensor, ...]:
        """All inputs."""
        return tuple(self.tensor(node, i) for i in range(len(node.inputs)) if node.has(i))

    def array(self, node: Node, i: int, default: Array | None = None) -> Array:
        """Input i of a node, if it does not depend on the model's inputs. Raises Unmapped."""
        if not node.has(i):
            if default is None:
                raise Unmapped(f"it has no input {i}")
            return default
        if node.inputs[i] not in self.known:
            raise Unmapped(f"input {i}, {node.inputs[i]!r}, is known at run time alone")
        return self.known[node.inputs[i]]

    def integers(self, node: Node, i: int) -> tuple[int, ...]:
        return tuple(int(x) for x in np.ravel(self.array(node, i)))

    def scalar(self, node: Node, i: int, default: float) -> float:
        """Raises Unmapped for an array of several elements."""
        found = self.array(node, i, np.asarray(default))
        if found.size != 1:
            raise Unmapped(f"input {i} has {found.size} elements; the library's attribute is one number")
        return float(found.reshape(()))

    def literal(self, value: Any, dtype: DType | None = None) -> LogicalTensor:
        """A constant. value: may be a view that repeats elements. dtype: else that of an array; Python's numbers are f32.

        Raises Unmapped for data that no tensor of a graph holds, OutOfMemory for what does not fit into memory.
        """
        array = np.asarray(value, None if isinstance(value, np.ndarray) else np.float32)
        dtype = dtype or DTYPES.get(array.dtype)
        if dtype is None:
            raise Unmapped(f"a constant of {array.dtype}, which no tensor of a graph holds", fix="export it in f32")
        need_room(array.size * dtype.numpy.itemsize)
        if dtype is DType.s32 and array.size and (array.min() < -(2**31) or array.max() >= 2**31):
            raise Unmapped("a constant with integers of more than 32 bits", fix="export it with smaller ones")
        t = self.b.constant(array.shape, dtype)
        self.data[t.id] = np.asarray(array.astype(dtype.numpy, copy=False), order="C")  # s4 and u4 take a byte each
        return t

    def cast(self, t: LogicalTensor, dtype: DType) -> LogicalTensor:
        """A tensor of floats in another float type; between bf16 and f16 by f32."""
        if t.dtype is dtype:
            return t
        if t.id in self.data:
            return self.literal(self.data[t.id], dtype)
        if DType.f32 not in (t.dtype, dtype):
            t = self.op("TypeCast", t, dtype=DType.f32)
        return self.op("TypeCast", t, dtype=dtype)

    def statistics(self, node: Node, i: int) -> LogicalTensor:
        """Input i as norms take scales, biases, means and variances: not in f16."""
        t = self.tensor(node, i)
        return self.cast(t, DType.f32) if t.dtype is DType.f16 else t

    def attempt(self, row: Row, node: Node, *, for_each: bool = False) -> str:
        """Append what a row makes of a node, and define its result, perhaps for each reader anew. Returns why the row refuses it, having
        appended nothing; '' if not. Raises Misfit for sizes of the user's.
        """
        ops, data, before = self.b.count, len(self.data), (dict(self._tensors), dict(self._made_for))
        try:
            if for_each:
                self.define_for_each(node.outputs[0], lambda: row(self, node))
            else:
                self.define(node.outputs[0], row(self, node))
        except (Unmapped, *NUMPY_RAISES) as bad:
            lack = bad if isinstance(bad, Unmapped) else Unmapped(f"its attributes do not fit its operands: {one_line(bad)}")
            if isinstance(lack, Misfit) and self._has_users_sizes:
                raise
            self.b.drop(ops)
            self.data = dict(islice(self.data.items(), data))
            self._tensors, self._made_for = before
            return f"{lack.where}: {lack.what}" if lack.where else lack.what
        return ""

    def op(self, kind: str, *ins: LogicalTensor, **attrs: Any) -> LogicalTensor:
        """Append an op. Raises Unmapped for what its row does not take."""
        try:
            return self.b.op(kind, *ins, name=self.name, **attrs)
        except BenchgraphError as bad:
            made = Misfit if isinstance(bad, InvalidShape) else Unmapped
            raise made(bad.what, where=kind, fix=bad.fix) from bad


def need_room(nbytes: int) -> None:
    """Raise OutOfMemory where so many bytes do not fit into memory, in the file's form and in the graph's."""
    if nbytes > ALWAYS_FIT and COPIES * nbytes > (free := free_bytes()):
        what = f"not enough RAM: {size(COPIES * nbytes)} are needed for what is computed beforehand, {size(free)} are free"
        raise OutOfMemory(what, fix=MORE_MEMORY)


def type_name(data_type: int, onnx: Any) -> str:
    """ONNX's name of a TensorProto.DataType; its number where it has none."""
    known = onnx.TensorProto.DataType
    return str(known.Name(data_type)) if data_type in known.values() else f"UNKNOWN({data_type})"


def one_line(bad: Exception) -> str:
    """What onnx or numpy say, whose messages have several lines."""
    return shortened(" ".join(str(bad).split()), 400) or type(bad).__name__


def shape_of(t: LogicalTensor) -> Shape:
    return t.known_shape


def axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front. Raises Unmapped for one that is not there."""
    if any(not -rank <= a < rank for a in axes):
        raise Unmapped(f"axes {tuple(axes)} of {rank} dims")
    return tuple(sorted(a % rank for a in axes))
