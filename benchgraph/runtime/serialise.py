"""Executables as bytes: a description in JSON, then the objects, the IR of each (deflated), and the literals.

    length of the JSON (4 bytes, little endian), JSON, sections whose lengths the JSON lists

The bytes were written and checked by this version of the compiler for the same user (disk_cache.py). Only the objects are executed.
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
from benchgraph.machine.target import Target
from benchgraph.runtime.code import Unit
from benchgraph.runtime.executable import Executable, Signature, UnlinkedExecutable
from benchgraph.runtime.jit import link_to_runtime
from benchgraph.tir.build import seq
from benchgraph.tir.ir import Func, InplacePair, Module, Scope, Shared, Tensor

Json: TypeAlias = Mapping[str, Any]
_LENGTH_BYTES = 4


def to_bytes(e: UnlinkedExecutable) -> bytes:
    """The bytes that `from_bytes` reads."""
    s = e.signature
    literals = [None if data is None else np.ascontiguousarray(data).tobytes() for data in s.literals]
    texts = (zlib.compress(unit.text.encode(), 1) for unit in e.units)
    sections = [*(unit.object for unit in e.units), *texts, *(data for data in literals if data is not None)]
    numbers: dict[Tensor, int] = {}  # functions and the signature share most of their tensors: each is written once
    description = {
        "main": _func_to_json(e.module.main, numbers),
        "init": None if e.module.init is None else _func_to_json(e.module.init, numbers),
        "inputs": _numbers(s.inputs, numbers),
        "outputs": _numbers(s.outputs, numbers),
        "constants": _numbers(s.constants, numbers),
        "has_literal": [data is not None for data in literals],
        "init_inputs": s.init_inputs,
        "layouts": [(layout.order, layout.blocks) for layout in e.layouts],
        "prescribed": e.prescribed,
        "init_digest": e.init_digest,
        "units": len(e.units),
        "sections": [len(data) for data in sections],
        "tensors": [_tensor_to_json(t) for t in numbers],
    }
    text = json.dumps(description, separators=(",", ":")).encode()
    return b"".join((len(text).to_bytes(_LENGTH_BYTES, "little"), text, *sections))


def from_bytes(data: bytes, target: Target, begin: float, *, is_warm: bool = True) -> Executable:
    """The executable, linked to the configured thread runtime.

    begin: when compiling or loading began, by time.perf_counter(). is_warm: False if another process has just compiled it.
    """
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    d: Json = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
    sections, at = [], _LENGTH_BYTES + length
    for size in d["sections"]:
        sections.append(data[at : at + size])
        at += size
    count = d["units"]
    units = [Unit(object, partial(_inflated, text)) for object, text in zip(sections[:count], sections[count : 2 * count], strict=True)]
    literals = iter(sections[2 * count :])
    tensors = [_tensor(t) for t in d["tensors"]]
    signature = Signature(
        inputs=tuple(tensors[i] for i in d["inputs"]),
        outputs=tuple(tensors[i] for i in d["outputs"]),
        constants=tuple(tensors[i] for i in d["constants"]),
        literals=tuple(np.frombuffer(next(literals), np.uint8) if has else None for has in d["has_literal"]),
        init_inputs=tuple(d["init_inputs"]),
    )
    module = Module(_func(d["main"], tensors), None if d["init"] is None else _func(d["init"], tensors))
    layouts = tuple(Layout(tuple(order), tuple((axis, size) for axis, size in blocks)) for order, blocks in d["layouts"])
    code, prescribed = link_to_runtime(units, target), tuple(d["prescribed"])
    took_s = time.perf_counter() - begin
    return Executable(code, module, signature, took_s, layouts, prescribed, init_digest=d["init_digest"], is_warm=is_warm)


def _inflated(text: bytes) -> str:
    return zlib.decompress(text).decode()


def _members(value: Tensor | Func | InplacePair | Shared) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _numbers(tensors: Iterable[Tensor], numbers: dict[Tensor, int]) -> list[int]:
    """The number of each tensor in `numbers`, which new ones are added to."""
    return [numbers.setdefault(t, len(numbers)) for t in tensors]


def _tensor_to_json(t: Tensor) -> Json:
    return {**_members(t), "dtype": t.dtype.value, "scope": t.scope.value}


def _tensor(d: Json) -> Tensor:
    made = {"dtype": DType(d["dtype"]), "scope": Scope(d["scope"]), "shape": tuple(d["shape"]), "strides": tuple(d["strides"])}
    return Tensor(**{**d, **made})


def _func_to_json(f: Func, numbers: dict[Tensor, int]) -> Json:
    """All fields but the body, which is not needed once there is an object."""
    pairs, shared = [_members(o) for o in f.inplace], [_members(o) for o in f.shared]
    known = {**_members(f), "params": _numbers(f.params, numbers), "inplace": pairs, "shared": shared}
    return {name: value for name, value in known.items() if name != "body"}


def _func(d: Json, tensors: Sequence[Tensor]) -> Func:
    params, inplace = tuple(tensors[i] for i in d["params"]), tuple(InplacePair(**o) for o in d["inplace"])
    shared = tuple(Shared(**{**o, "names": tuple(o["names"])}) for o in d["shared"])
    made = {"params": params, "inplace": inplace, "prefetched": tuple(d["prefetched"]), "shared": shared, "body": seq()}
    return Func(**{**d, **made})
