"""Weights in files of their own, which a model names: whether it may read them, before it does. onnx checks them once more as it reads."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

from benchgraph.core.errors import InvalidArguments, ParseError, within
from benchgraph.core.files import real
from benchgraph.core.printable import is_hidden, quoted

AGAIN = "export it again"


def external_files(proto: Any, folder: Path, onnx: Any) -> set[Path]:
    """The files that the model names. folder: the model's, out of which none may lead.

    Raises InvalidArguments and ParseError for the first one that must not or cannot be read, each fault with its own remedy.
    """
    found = set[Path]()
    for t in chain(_tensors(proto.graph, onnx), *(_tensors_of(f.node, onnx) for f in proto.functions)):
        if t.data_location == onnx.TensorProto.EXTERNAL:
            with within(f"external data of {quoted(t.name)}"):
                found.add(_checked(t, {e.key: e.value for e in t.external_data}, folder, onnx))
    return found


def _tensors(graph: Any, onnx: Any) -> Iterator[Any]:
    """Of initialisers and of attributes, at any depth."""
    yield from graph.initializer
    for s in graph.sparse_initializer:
        yield from (s.values, s.indices)
    yield from _tensors_of(graph.node, onnx)


def _tensors_of(nodes: Iterable[Any], onnx: Any) -> Iterator[Any]:
    for node in nodes:
        for a in node.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                yield a.t
            if a.type == onnx.AttributeProto.SPARSE_TENSOR:
                yield from (a.sparse_tensor.values, a.sparse_tensor.indices)
            yield from a.tensors
            for inner in (*([a.g] if a.type == onnx.AttributeProto.GRAPH else []), *a.graphs):
                yield from _tensors(inner, onnx)


def _checked(t: Any, entry: Mapping[str, str], folder: Path, onnx: Any) -> Path:
    name = entry.get("location", "")
    file = _inside(name, folder)
    offset, length = (_count(key, entry.get(key, "0")) for key in ("offset", "length"))
    size, own = file.stat().st_size, (prod(t.dims) * _bits(t.data_type, onnx) + 7) // 8
    if length not in (0, own):
        raise ParseError(f"its length is {length} bytes, where its shape and type take {own}", fix=AGAIN)
    need = offset + own
    if need > size:
        what = f"{quoted(name)} is too short: {need} bytes are needed, and it has {size}"
        raise InvalidArguments(what, fix="copy the file again, as it may have been cut off; else export the model again")
    return file


def _inside(name: str, folder: Path) -> Path:
    """The file. Raises unless it is one in the folder of the model, by its own name."""
    if not name:
        raise ParseError("no file is named", fix=AGAIN)
    if any(map(is_hidden, name)):
        raise ParseError(f"the name of its file has control characters: {quoted(name)}", fix="do not use it, and ask who made it")
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts:
        what = f"{quoted(name)} leads out of the model's folder"
        raise InvalidArguments(what, fix="put the file beside the model, and export the model again there, or change the location in it")
    file = folder / name
    try:
        kind = file.lstat()
        if stat.S_ISLNK(kind.st_mode) or real(file.parent) != real(folder) / place.parent:
            raise InvalidArguments(f"{quoted(name)} is a link, or behind one", fix="put the file itself in its place")
        if not stat.S_ISREG(kind.st_mode):
            raise InvalidArguments(f"{quoted(name)} is no file, but a folder or a device", fix="put the file with the weights in its place")
        if kind.st_nlink > 1:
            raise InvalidArguments(f"{quoted(name)} is a hard link: it has another name as well", fix="put a copy of the file in its place")
        with file.open("rb"):
            return file
    except FileNotFoundError as bad:
        raise InvalidArguments(f"there is no file {quoted(name)} beside the model", fix="copy it there as well") from bad
    except OSError as bad:
        raise InvalidArguments(f"cannot read {quoted(name)}: {bad.strerror}", fix="change its name or its permissions") from bad


def _count(key: str, text: str) -> int:
    """A number of bytes. Raises ParseError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise ParseError(f"its {key} is {quoted(text)}, and no number of bytes", fix=AGAIN)
    return int(text)


def _bits(data_type: int, onnx: Any) -> int:
    """Of an element. Raises ParseError for a type that ONNX does not have, or not in such files."""
    types = onnx.TensorProto
    packed = {getattr(types, name): bits for name, bits in PACKED.items() if hasattr(types, name)}
    try:
        return packed.get(data_type) or 8 * int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize)
    except (KeyError, ValueError, TypeError) as bad:
        raise ParseError(f"its type is {data_type}, which ONNX does not have", fix=AGAIN) from bad


PACKED = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
