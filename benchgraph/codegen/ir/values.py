"""Types and values of LLVM IR, and their text."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

_CACHED_LITERALS = 256  # indices, alignments and counts are below it


class Type:
    """Types of equal text are equal. count: lanes. element: the type of a lane. width: bits of an integer, else 0."""

    count, width = 1, 0

    def __init__(self, text: str) -> None:
        self.text = text
        self._vectors = dict[int, VectorType]()

    @property
    def element(self) -> Type:
        return self

    def lanes(self, count: int) -> VectorType:
        """The vector of so many; the same object every time."""
        known = self._vectors.get(count)
        if known is None:
            known = self._vectors[count] = VectorType(self, count)
        return known

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Type) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text})"


class VoidType(Type):
    def __init__(self) -> None:
        super().__init__("void")


class PointerType(Type):
    def __init__(self) -> None:
        super().__init__("ptr")


class FloatingType(Type):
    """float, half or bfloat. Only float has literals."""


class IntType(Type):
    """Calling it makes a literal; those of small numbers are cached."""

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width
        self._literals: dict[int, Constant] = {}

    def __call__(self, value: int) -> Constant:
        if not 0 <= value < _CACHED_LITERALS:
            return Constant(self, value)
        known = self._literals.get(value)
        if known is None:
            known = self._literals[value] = Constant(self, value)
        return known


class VectorType(Type):
    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"<{count} x {element.text}>")
        self.lane_type, self.count = element, count

    @property
    def element(self) -> Type:
        return self.lane_type


class ArrayType(Type):
    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"[{count} x {element.text}]")


class LiteralStructType(Type):
    def __init__(self, elements: Sequence[Type]) -> None:
        super().__init__(f"{{{', '.join(e.text for e in elements)}}}")
        self.elements = tuple(elements)


class FunctionType(Type):
    def __init__(self, return_type: Type, args: Sequence[Type]) -> None:
        super().__init__(f"{return_type.text} ({', '.join(a.text for a in args)})")
        self.return_type, self.args = return_type, tuple(args)


I1, PTR, VOID = IntType(1), PointerType(), VoidType()

# ---- values


class Value:
    """ref: its text as an operand, without its type. number: of an integer literal, None for others."""

    __slots__ = ("number", "ref", "type")

    def __init__(self, type: Type, ref: str, number: int | None = None) -> None:
        self.type, self.ref, self.number = type, ref, number

    def __str__(self) -> str:
        """Its text as an operand, with its type."""
        return f"{self.type.text} {self.ref}"


class Constant(Value):
    """value: a number, a list of them for a vector, or text: poison, zeroinitializer, splat (...)."""

    __slots__ = ("value",)

    def __init__(self, type: Type, value: int | float | str | Sequence[int | float]) -> None:
        self.value = value
        super().__init__(type, _literal(type, value), value if isinstance(value, int) and isinstance(type, IntType) else None)


class Argument(Value):
    """name and attributes may be changed until the argument is used."""

    __slots__ = ("attributes",)

    def __init__(self, type: Type, ref: str) -> None:
        super().__init__(type, ref)
        self.attributes = list[str]()

    @property
    def name(self) -> str:
        return self.ref[1:]

    @name.setter
    def name(self, name: str) -> None:
        self.ref = f"%{name}"


class Metadata:
    __slots__ = ("ref",)

    def __init__(self, ref: str) -> None:
        self.ref = ref


@dataclass(frozen=True)
class Memory:
    """Memory that an access touches. overlaps: names of the memories that it may alias, itself included; None: any.

    metadata: alias scopes that tell LLVM the same, appended to the instruction.
    """

    name: str
    overlaps: frozenset[str] | None
    metadata: str = ""


ANYWHERE = Memory("anywhere", None)  # may alias all memory
NOWHERE = Memory("nowhere", frozenset())  # of an instruction that accesses no memory


def _float(value: float) -> str:
    """An f32 literal in LLVM's notation: the bits of the same number in f64."""
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('Q', struct.pack('d', single))[0]:016x}"


def _literal(type: Type, value: int | float | str | Sequence[int | float]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return _float(value) if isinstance(type, FloatingType) else str(int(value))
    return f"<{', '.join(f'{type.element.text} {_literal(type.element, v)}' for v in value)}>"


@cache
def quoted(name: str) -> str:
    return '"' + "".join(c if c.isascii() and (c.isalnum() or c in " ._-$") else f"\\{b:02x}" for c in name for b in c.encode()) + '"'
