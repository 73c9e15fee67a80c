"""A function of another program as a value: what a Wildcard computes, and the text of its attribute `computes`.

The text is JSON, for example of a Gather along axis 1 whose indices are the op's second input:

    {"domain": "", "kind": "Gather", "opset": 18, "attrs": {"axis": 1}, "inputs": [0, 1], "outputs": [true]}

An input is the position of an operand of the op, null for one that is left out, or a small array that is known beforehand. outputs: which
of the function's results the op has. Integers are int64 inside of the function, and s32 in the graph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.errors import BenchgraphError, ParseError, within

Array: TypeAlias = NDArray[Any]

MOST_ELEMENTS = 64  # of an array in the text; larger ones are tensors
TYPES = ("float32", "float64", "int64", "int8", "uint8", "bool")


@dataclass(frozen=True)
class Literal:
    """An array that is known beforehand. dtype: one of TYPES. values: in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    values: tuple[float | int | bool, ...]

    @property
    def array(self) -> Array:
        return np.asarray(self.values, self.dtype).reshape(self.shape)

    @staticmethod
    def of(array: Array) -> Literal | None:
        """None for an array that is too large for a text, or of another type. Every integer type that int64 holds becomes it."""
        wide = array.astype(np.int64) if array.dtype in (np.int16, np.int32, np.uint16, np.uint32) else array
        if wide.size > MOST_ELEMENTS or wide.dtype.name not in TYPES:
            return None
        return Literal(wide.dtype.name, wide.shape, tuple(wide.ravel().tolist()))


Value: TypeAlias = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Literal
Input: TypeAlias = int | Literal | None


@dataclass(frozen=True)
class Function:
    """domain: '' is ONNX's own. inputs: positions of operands, arrays, or None. outputs: whether the op has that result."""

    kind: str
    opset: int
    attrs: Mapping[str, Value] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    outputs: tuple[bool, ...] = (True,)
    domain: str = ""

    @property
    def label(self) -> str:
        """Its kind, with the domain if that is not ONNX's."""
        return f"{self.domain}.{self.kind}" if self.domain else self.kind

    @property
    def text(self) -> str:
        """One line of JSON; `parse` gives an equal value."""
        return json.dumps(
            {
                "domain": self.domain,
                "kind": self.kind,
                "opset": self.opset,
                "attrs": {name: _json(value) for name, value in sorted(self.attrs.items())},
                "inputs": [_json(value) for value in self.inputs],
                "outputs": list(self.outputs),
            }
        )

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute. Raises TypeError for one that is no number."""
        return int(self.attrs.get(name, default))  # type: ignore[arg-type]

    def real(self, name: str, default: float = 0.0) -> float:
        return float(self.attrs.get(name, default))  # type: ignore[arg-type]

    def string(self, name: str, default: str = "") -> str:
        return str(self.attrs.get(name, default))

    def operands(self, arrays: tuple[Array, ...]) -> list[Array | None]:
        """The function's inputs, from the arrays of the op's."""
        return [arrays[i] if isinstance(i, int) else None if i is None else i.array for i in self.inputs]

    def port(self, operand: int) -> int:
        """The first input of the function that an operand of the op is."""
        return next((n for n, i in enumerate(self.inputs) if isinstance(i, int) and i == operand), -1)


def _json(value: Value | Input) -> Any:
    if isinstance(value, Literal):
        return {"dtype": value.dtype, "shape": list(value.shape), "values": list(value.values)}
    return list(value) if isinstance(value, tuple) else value


@lru_cache(maxsize=4096)
def parse(text: str) -> Function:
    """Raises ParseError, which names the part that is wrong."""
    with within("attribute computes"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as bad:
            raise _wrong(f"it is no JSON: {bad}") from bad
        try:
            return _function(found)
        except BenchgraphError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as bad:
            raise _wrong(f"a part is missing or of a wrong type: {bad}") from bad


def _wrong(what: str) -> ParseError:
    return ParseError(what, fix="import the model again")


def _function(found: Any) -> Function:
    if not isinstance(found, dict):
        raise _wrong("it is no object")
    for name, kind in (("kind", str), ("domain", str), ("opset", int), ("attrs", dict), ("inputs", list), ("outputs", list)):
        if not isinstance(found.get(name), kind):
            raise _wrong(f'"{name}" is missing or of a wrong type')
    if not all(isinstance(kept, bool) for kept in found["outputs"]):
        raise _wrong('"outputs" has something else than true and false')
    return Function(
        found["kind"],
        found["opset"],
        {name: _value(value) for name, value in found["attrs"].items()},
        tuple(map(_input, found["inputs"])),
        tuple(found["outputs"]),
        found["domain"],
    )


def _value(value: Any) -> Value:
    if isinstance(value, dict):
        return _literal(value)
    if isinstance(value, list) and all(isinstance(v, int | float | str) for v in value):
        return tuple(value)
    if isinstance(value, int | float | str):
        return value
    raise _wrong("a value in it is neither a number, a text nor a list of those")


def _input(value: Any) -> Input:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    if not isinstance(value, dict):
        raise _wrong('"inputs" has something else than positions, arrays and null')
    return _literal(value)


def _literal(value: dict[str, Any]) -> Literal:
    dtype, shape, values = value["dtype"], tuple(value["shape"]), tuple(value["values"])
    if dtype not in TYPES or not all(isinstance(size, int) and size >= 0 for size in shape) or prod(shape) != len(values):
        raise _wrong("an array in it has another dtype, or not as many values as its shape says")
    literal = Literal(dtype, shape, values)
    _ = literal.array  # whether numpy takes the values
    return literal
