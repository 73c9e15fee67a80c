"""Arrays in files: .npz and .npy of numpy, .safetensors. Nothing in them is executed: pickled objects are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors

from benchgraph.core.arrays import Array
from benchgraph.core.errors import InvalidArguments

SUFFIXES = (".npz", ".safetensors")
SAFETENSORS = ".safetensors"
# safetensors' name of a dtype -> numpy's
_NUMPY = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16, "I32": np.int32, "U32": np.uint32, "I64": np.int64,
    "U64": np.uint64, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32, "F64": np.float64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_NAMES = {np.dtype(dtype): name for name, dtype in _NUMPY.items()}
ALIGNED = 8  # bytes to which the format aligns the arrays


def is_numeric(dtype: np.dtype[np.generic]) -> bool:
    """Whether the elements are numbers or booleans, ml_dtypes' included."""
    return dtype.kind in "biuf" or dtype in _NAMES


def read_arrays(path: Path, where: str) -> dict[str, Array]:
    """The arrays of a file, by name. where: what errors begin with. Raises InvalidArguments."""
    fix = f"give one that numpy or safetensors wrote ({', '.join(SUFFIXES)})"
    try:
        if path.suffix == SAFETENSORS:
            return dict(_safetensors(path.read_bytes()))
        if path.suffix == ".npy":
            return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False)}  # a false shape does not take memory
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as bad:
        raise InvalidArguments(f"cannot be read: {bad.strerror or bad}", where=where, fix=f"give a file ({', '.join(SUFFIXES)})") from bad
    except MemoryError as bad:
        raise InvalidArguments("an array in it is larger than memory", where=where, fix=fix) from bad
    except Exception as bad:  # readers of torn files raise anything
        why = str(bad).splitlines()[0] if str(bad) else type(bad).__name__
        what = "holds Python objects, or no arrays at all" if "pickle" in why else f"is not a file of arrays: {why}"
        raise InvalidArguments(what, where=where, fix=fix) from bad


def _safetensors(data: bytes) -> Iterator[tuple[str, Array]]:
    for name, entry in safetensors.deserialize(data):  # type: ignore[no-untyped-call]
        if (dtype := _NUMPY.get(entry["dtype"])) is None:
            raise ValueError(f"{name} is of type {entry['dtype']}, which no tensor has")
        yield name, np.frombuffer(entry["data"], dtype).reshape(entry["shape"])


def read_metadata(path: Path) -> dict[str, str]:
    """The texts that a .safetensors file has beside its arrays. Raises InvalidArguments."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return dict(file.metadata() or {})
    except Exception as bad:  # the reader's errors have no class in common
        raise InvalidArguments(f"is not a file of arrays: {bad}", where=str(path), fix="write it again") from bad


def write_safetensors(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write arrays of any dtype that tensors have, one after the other: the package's own function needs all of them twice in memory.

    The format: the length of the header in 8 bytes, the header as JSON, the arrays. Raises OSError.
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % ALIGNED)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
