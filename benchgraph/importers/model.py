"""Reads a model from any file that can hold one: ONNX, torch.export, our own JSON with data beside it.

The readers of others' formats need the extras of their names, and are imported when there is such a file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchgraph.core.errors import InvalidArguments, within
from benchgraph.core.files import need_no_device
from benchgraph.core.free_memory import need_memory_for
from benchgraph.graph.model import Model
from benchgraph.importers.model_files import COPIES, data_file, read_model_files
from benchgraph.importers.sizes import AS_IN_FILE, Sizes

__all__ = ["Model", "read_model"]


def read_model(path: Path, sizes: Sizes = AS_IN_FILE) -> Model:
    """The model of a file; by its suffix, else by its first bytes. sizes: numbers for dims that it leaves open.

    Raises BenchgraphError, beginning with the path, for a file that cannot be read, and for a model that cannot be expressed.
    """
    with within(str(path)):
        reader = READERS.get(path.suffix.lower()) or _by_content(path)
        need_memory_for({path, data_file(path)} if reader is _own else {path}, COPIES)
    return reader(path, sizes)


def _own(path: Path, sizes: Sizes) -> Model:
    return read_model_files(path)


def _onnx(path: Path, sizes: Sizes) -> Model:
    from benchgraph.importers.onnx.model import read_onnx

    return read_onnx(path, sizes)


def _pt2(path: Path, sizes: Sizes) -> Model:
    from benchgraph.importers.pt2 import read_pt2

    return read_pt2(path, sizes)


Reader = Callable[[Path, Sizes], Model]
READERS: dict[str, Reader] = {".json": _own, ".onnx": _onnx, ".pt2": _pt2}
MODEL_SUFFIXES = tuple(READERS)
_BEGINS: dict[bytes, Reader] = {b"{": _own, b"PK\3\4": _pt2}


def _by_content(path: Path) -> Reader:
    """Raises InvalidArguments."""
    try:
        need_no_device(path)
        with path.open("rb") as file:
            head = file.read(64).lstrip()
    except OSError as bad:
        raise InvalidArguments(f"cannot read it: {bad.strerror or bad}", fix="name a file") from bad
    for begin, reader in _BEGINS.items():
        if head.startswith(begin):
            return reader
    raise InvalidArguments("no model that can be read", fix=f"name a file of one of these kinds: {', '.join(READERS)}")
