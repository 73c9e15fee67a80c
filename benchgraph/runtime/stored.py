"""An executable as bytes and back: a description in JSON, then the objects, the IR that each was made of (deflated), and the literals.

    length of the JSON (4 bytes, little endian), JSON, sections whose lengths the JSON lists

What stands here was made and checked by this version of the compiler on behalf of the same user (disk.py): nothing in it is run but the
objects.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.core.target import Target
from benchgraph.runtime.executable import Executable, Signature, Unlinked
from benchgraph.runtime.jit import Unit, bind
from benchgraph.tir.build import seq
from benchgraph.tir.ir import Func, InplacePair, Scope, Tensor
from benchgraph.tir.module import Module

Json: TypeAlias = Mapping[str, Any]
_LENGTH_BYTES = 4


def to_bytes(e: Unlinked) -> bytes:
    """All that `from_bytes` needs."""
    s = e.signature
    literals = [None if data is None else np.ascontiguousarray(data).tobytes() for data in s.literals]
    texts = (zlib.compress(unit.text.encode(), 1) for unit in e.units)
    sections = [*(unit.object for unit in e.units), *texts, *(data for data in literals if data is not None)]
    places: dict[Tensor, int] = {}  # functions and the signature share most of their tensors: each is told once
    description = {
        "main": _func_to_json(e.module.main, places),
        "init": None if e.module.init is None else _func_to_json(e.module.init, places),
        "inputs": _places(s.inputs, places),
        "outputs": _places(s.outputs, places),
        "constants": _places(s.constants, places),
        "has_literal": [data is not None for data in literals],
        "init_inputs": s.init_inputs,
        "layouts": [(layout.order, layout.blocks) for layout in e.layouts],
        "computes": e.computes,
        "units": len(e.units),
        "sections": [len(data) for data in sections],
        "tensors": [_tensor_to_json(t) for t in places],
    }
    text = json.dumps(description, separators=(",", ":")).encode()
    return b"".join((len(text).to_bytes(_LENGTH_BYTES, "little"), text, *sections))


def from_bytes(data: bytes, target: Target, begin: float, *, is_warm: bool = True) -> Executable:
    """The executable, linked to the configured thread runtime.

    begin: since when it has taken time, by time.perf_counter(). is_warm: False for what has just been compiled, by another process.
    """
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    d: Json = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
    sections, at = [], _LENGTH_BYTES + length
    for size in d["sections"]:
        sections.append(data[at : at + size])
        at += size
    count = d["units"]
    units = [Unit(object, partial(_inflated, text)) for object, text in zip(sections[:count], sections[count : 2 * count], strict=True)]
    left = iter(sections[2 * count :])
    tensors = [_tensor(t) for t in d["tensors"]]
    signature = Signature(
        inputs=tuple(tensors[i] for i in d["inputs"]),
        outputs=tuple(tensors[i] for i in d["outputs"]),
        constants=tuple(tensors[i] for i in d["constants"]),
        literals=tuple(np.frombuffer(next(left), np.uint8) if has else None for has in d["has_literal"]),
        init_inputs=tuple(d["init_inputs"]),
    )
    module = Module(_func(d["main"], tensors), None if d["init"] is None else _func(d["init"], tensors))
    layouts = tuple(Layout(tuple(order), tuple((axis, size) for axis, size in blocks)) for order, blocks in d["layouts"])
    code = bind(units, target)
    return Executable(code, module, signature, time.perf_counter() - begin, layouts, computes=d["computes"], is_warm=is_warm)


def _inflated(text: bytes) -> str:
    return zlib.decompress(text).decode()


def _members(value: Tensor | Func | InplacePair) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _places(tensors: Iterable[Tensor], places: dict[Tensor, int]) -> list[int]:
    """Where each is in `places`, which grows."""
    return [places.setdefault(t, len(places)) for t in tensors]


def _tensor_to_json(t: Tensor) -> Json:
    return {**_members(t), "dtype": t.dtype.value, "scope": t.scope.value}


def _tensor(d: Json) -> Tensor:
    return Tensor(
        **{**d, "dtype": DType(d["dtype"]), "scope": Scope(d["scope"]), "shape": tuple(d["shape"]), "strides": tuple(d["strides"])}
    )


def _func_to_json(f: Func, places: dict[Tensor, int]) -> Json:
    """All but the body, which nobody needs once there is an object."""
    known = {**_members(f), "params": _places(f.params, places), "inplace": [_members(o) for o in f.inplace]}
    return {name: value for name, value in known.items() if name != "body"}


def _func(d: Json, tensors: Sequence[Tensor]) -> Func:
    params, inplace = tuple(tensors[i] for i in d["params"]), tuple(InplacePair(**o) for o in d["inplace"])
    return Func(**{**d, "params": params, "inplace": inplace, "body": seq()})
