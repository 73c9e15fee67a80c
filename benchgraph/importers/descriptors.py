"""Memory descriptors and other parts of a line.

    src:f32:a:blocked:acdb::f0            name:dtype:properties:format kind:tag:strides:flags       3.5 and newer
    src_f32:a:blocked:acdb::f0            name_dtype:...                                            3.0 to 3.4
    src_f32::blocked:acdb:f0              without strides                                           older

properties: a: the layout was left to oneDNN (`any`); p: it is padded. strides: where the tag does not say them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from benchgraph.core.errors import Unimplemented
from benchgraph.importers.verbose_line import PrimitiveFields

UNDEF = "undef"
ROW_MAJOR, CHANNELS_LAST, ANY = "abx", "axb", "any"
_DTYPE = r"undef|data_type|f8_e4m3|f8_e5m2|f4_e2m1|f4_e3m0|e8m0|bf16|f16|f32|f64|s32|s64|s8|u8|s4|u4|boolean"
_NAME = re.compile(rf"(?P<name>[a-z]\w*?)[:_](?P<dtype>{_DTYPE}):(?P<rest>.*)")
_STRIDES = re.compile(r"\d+(?:x\d+)*")
_MASK = re.compile(r"_mask(\d+)")


class Inexpressible(Unimplemented):
    """A line is understood, but no line of a driver means the same."""


@dataclass(frozen=True)
class Memory:
    """A memory descriptor. mask: of a bias, the dims it has; '' for none."""

    name: str
    dtype: str
    properties: str
    kind: str
    tag: str
    strides: str
    mask: str = ""

    @property
    def is_there(self) -> bool:
        return self.dtype != UNDEF

    @property
    def is_chosen(self) -> bool:
        """Whether oneDNN chose the layout."""
        return "a" in self.properties or self.kind == ANY

    @property
    def is_blocked(self) -> bool:
        """Whether dims lie in blocks, which strides cannot say."""
        return any(c.isupper() or c.isdigit() for c in self.tag)

    @property
    def plain(self) -> str:
        """The tag, spelt for every rank where it is row-major or channels last."""
        letters = "abcdefghijkl"[: len(self.tag)]
        if self.tag == letters:
            return ROW_MAJOR
        return CHANNELS_LAST if len(letters) > 2 and self.tag == f"a{letters[2:]}b" else self.tag


@dataclass(frozen=True)
class Event:
    """The fields of a primitive, taken apart."""

    fields: PrimitiveFields

    @cached_property
    def memory(self) -> tuple[Memory, ...]:
        """Raises Inexpressible."""
        return tuple(memory(word) for word in self.fields.memory_descriptors.split())

    @cached_property
    def auxiliary(self) -> dict[str, str]:
        """The words `name:value`."""
        words = (word.partition(":") for word in self.fields.auxiliary.split())
        return {name: value for name, _, value in words}

    def all_of(self, *names: str) -> tuple[Memory, ...]:
        """The tensors with one of these names that are there, in order."""
        return tuple(m for m in self.memory if m.name in names and m.is_there)

    def one_of(self, *names: str) -> Memory:
        """The first tensor with the first of these names that there is. Raises Inexpressible."""
        found = next((m for name in names for m in self.memory if m.name == name and m.is_there), None)
        if found is None:
            raise Inexpressible(f"the line describes no {names[0]}")
        return found


def memory(word: str) -> Memory:
    """Raises Inexpressible for a word of another form."""
    found = _NAME.fullmatch(word)
    if found is None:
        raise Inexpressible(f"'{word}' is no memory descriptor")
    if found["dtype"] == UNDEF:
        return Memory(found["name"], UNDEF, "", "", "", "")
    parts = [*found["rest"].split(":"), "", "", ""]
    properties, kind, tag, strides = parts[:4]
    if kind not in ("blocked", ANY):
        raise Inexpressible(f"{found['name']} is of the format kind '{kind}', which tensors with strides are not")
    flags = _MASK.search(":".join(parts[3:]))
    strides = strides if _STRIDES.fullmatch(strides) else ""
    return Memory(found["name"], found["dtype"], properties, kind, tag, strides, flags[1] if flags else "")
