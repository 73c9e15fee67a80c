"""Data of the user's for a case's inputs: --data=FILE.npz, FILE.safetensors, or a folder of .npy files.

An array is for the input whose id its name is (`7`), or `OP:PORT`: the name of an op that reads it, and oneDNN's name of the port, as in
`fc1:weights`. Inputs and weights of a model have its names, too. Inputs without an array keep the model's data, or those of --seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchgraph.core.array_files import is_numeric, read_arrays
from benchgraph.core.arrays import Array, put
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.core.files import exists
from benchgraph.core.printable import quoted
from benchgraph.core.remarks import remark
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.model import Model, Use
from benchgraph.ops import spec
from benchgraph.ops.spec.schema import port_of


def overwrite(model: Model, buffers: dict[int, Array], place: str, case: Path | None = None) -> None:
    """Write the user's data into the buffers of the graph's inputs. place: the value of --data, from the working directory, else from the
    folder of the case's file.

    Raises InvalidArguments for a file that cannot be read, an array that is for no input, or one that does not fit its tensor.
    """
    tensors = {t.id: t for t in model.graph.inputs}
    for id, (name, array) in _by_input(model, _read(place, case), place).items():
        put(buffers[id], tensors[id], converted(array, tensors[id], f"--data={place}: {quoted(name)}"))


def changes_weights(model: Model, place: str, case: Path | None) -> bool:
    """Whether the user's data are for tensors of which the model's own file has the data. Raises as `overwrite`."""
    names = names_of(model)
    return any(use.tensor in model.data for name in _read(place, case) for use in names.get(name, ()))


def _read(place: str, case: Path | None) -> dict[str, Array]:
    """The arrays of a file or folder, by name."""
    path = Path(place).expanduser()
    if case is not None and not exists(path) and exists(case.parent / path):
        path = case.parent / path
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        return {file.stem: array for file in files for array in read_arrays(file, f"--data={place}: {file.name}").values()}
    return read_arrays(path, f"--data={place}")


def names_of(model: Model) -> dict[str, tuple[Use, ...]]:
    """The names that arrays for the inputs of a model's graph may have, and where their elements go. The model's own come first."""
    graph = model.graph
    inputs = {t.id for t in graph.inputs}
    found: dict[str, tuple[Use, ...]] = {str(id): (Use(id),) for id in inputs}
    for op in graph.ops:
        for position, t in enumerate(op.inputs):
            if op.name and t.id in inputs:
                found.setdefault(f"{op.name}:{port_of(spec(op.kind).schema.inputs, position).name}", (Use(t.id),))
    found |= {name: uses for name, uses in model.parameters.items() if uses}
    return found | {name: (Use(id),) for name, id in model.inputs.items() if id in inputs}


def _by_input(model: Model, arrays: dict[str, Array], place: str) -> dict[int, tuple[str, Array]]:
    """Input -> its array, with the name. Arrays of other names are remarked on; with no other, they are an error."""
    known, where = names_of(model), f"--data={place}"
    found, strange = dict[int, tuple[str, Array]](), list[str]()
    for name, array in arrays.items():
        if name not in known:
            strange.append(name)
        for use in known.get(name, ()):
            part = _part(array, use, f"{where}: {quoted(name)}")
            other, same = found.get(use.tensor, (name, part))
            is_tied = {name, other} <= model.parameters.keys() and np.array_equal(part, same)
            if other != name and not is_tied:
                both = f"{quoted(other)} and {quoted(name)} are both for input {use.tensor}"
                raise InvalidArguments(both, where=where, fix="leave one of them out")
            found[use.tensor] = name, part
    if not found:
        what = f"no array is for an input of the graph: {_some(strange)}" if strange else "it has no arrays"
        raise InvalidArguments(what, where=where, fix=(strange and did_you_mean(strange[0], known)) or f"the inputs are {_some(known)}")
    if strange:
        remark(f"{where}: arrays for no input are not used: {_some(strange)}")
    return found


def _part(array: Array, use: Use, where: str) -> Array:
    """The elements of a tensor, from the array of a weight of which it has some."""
    if use.view is None:
        return array
    if array.shape != use.shape:
        raise InvalidArguments(f"its shape is {_shape(array.shape)}, that of the weight {_shape(use.shape)}", where=where, fix="reshape it")
    shape, strides, offset = use.view
    dense = np.ascontiguousarray(array)
    return np.ndarray(shape, dense.dtype, dense, offset * dense.itemsize, [s * dense.itemsize for s in strides])


def _some(names: Iterable[str]) -> str:
    shown = [quoted(name) for name in names]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} others" if len(shown) > 6 else "")


def converted(array: Array, t: LogicalTensor, where: str) -> Array:
    """The array as the tensor's elements; real numbers are rounded to its dtype."""
    if array.shape != t.known_shape:
        what = f"its shape is {_shape(array.shape)}, that of tensor {t.id} {_shape(t.known_shape)}"
        raise InvalidArguments(what, where=where, fix="reshape it, or run a case of this shape")
    if not is_numeric(array.dtype):
        raise InvalidArguments(f"it holds {array.dtype}, not numbers", where=where, fix="save numbers")
    if not t.dtype.is_float:
        least, most = t.dtype.range
        wide = array.astype(np.float64)
        strange = (wide != np.rint(wide)) | (wide < least) | (wide > most) | ~np.isfinite(wide)
        if strange.any():
            value = array[strange].flat[0]
            kind = "booleans" if t.dtype is DType.boolean else f"integers from {least:g} to {most:g}"
            raise InvalidArguments(f"tensor {t.id} is {t.dtype.value}, and {value} is not", where=where, fix=f"give {kind}")
    with np.errstate(over="ignore"):
        converted = array.astype(t.dtype.numpy)
    if t.dtype.is_float and (beyond := np.isfinite(array.astype(np.float64)) & ~np.isfinite(converted.astype(np.float64))).any():
        value, most = array[beyond].flat[0], t.dtype.range[1]
        raise InvalidArguments(f"{value} is beyond the range of {t.dtype.value}", where=where, fix=f"keep values within {most:g}")
    return converted


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "that of a scalar"
