"""Rows of the table of numpy functions: elements taken, moved, repeated. None of them computes with a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchgraph.fallback.function import Array, Function, Literal
from benchgraph.fallback.row import NumpyOp, given, move


def integers(x: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in np.ravel(x))


def axes_of(f: Function, ins: list[Any], at: int) -> tuple[int, ...] | None:
    """The axes: input `at`, in older opsets an attribute; None if neither is there."""
    found = given(ins, at)
    found = f.attrs.get("axes") if found is None else found
    return None if found is None else integers(found)


def _axis(f: Function, default: int = 0) -> int:
    return f.integer("axis", default)


def checked(indices: Array, size: int) -> Array:
    """Indices, counted from the front. Raises IndexError beyond the axis."""
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise IndexError(f"index {indices.max() if indices.max() >= size else indices.min()} is beyond an axis of {size}")
    return np.where(indices < 0, indices + size, indices)


def _gathered(f: Function, ins: list[Any]) -> Any:
    x, indices = ins
    return np.take(x, checked(indices, x.shape[_axis(f)]), axis=_axis(f))


def _gathered_elements(f: Function, ins: list[Any]) -> Any:
    x, indices = ins
    axis = _axis(f) % x.ndim
    x = x[tuple(slice(0, n) if i != axis else slice(None) for i, n in enumerate(indices.shape))]
    return np.take_along_axis(x, checked(indices, x.shape[axis]), axis)


def _points(indices: Array, batch: int, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The coordinates that rows of indices give, after those of the batch."""
    depth = indices.shape[-1]
    own = [checked(indices[..., i], shape[batch + i]) for i in range(depth)]
    grid = np.meshgrid(*(np.arange(n) for n in indices.shape[:batch]), indexing="ij") if batch else []
    return tuple(g.reshape(g.shape + (1,) * (indices.ndim - 1 - batch)) for g in grid) + tuple(own)


def _gathered_nd(f: Function, ins: list[Any]) -> Any:
    x, indices = ins
    batch = f.integer("batch_dims", 0)
    return x[_points(indices, batch, x.shape)]


_AT: dict[str, Callable[..., None]] = {"add": np.add.at, "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at}


def _written(f: Function, x: Array, where: tuple[Any, ...], updates: Array) -> Array:
    """A copy with the updates written, or joined with what is there as the attribute reduction says."""
    result, how = x.copy(), f.string("reduction", "none")
    if how == "none":
        result[where] = updates
    else:
        _AT[how](result, where, updates)
    return result


def _scattered_nd(f: Function, ins: list[Any]) -> Any:
    x, indices, updates = ins
    return _written(f, x, _points(indices, 0, x.shape), updates)


def _scattered_elements(f: Function, ins: list[Any]) -> Any:
    x, indices, updates = ins
    axis = _axis(f) % x.ndim
    grid = list(np.meshgrid(*(np.arange(n) for n in indices.shape), indexing="ij"))
    grid[axis] = checked(indices, x.shape[axis])
    return _written(f, x, tuple(grid), updates)


def _sliced(f: Function, ins: list[Any]) -> Any:
    x, starts, ends = ins[0], integers(ins[1]), integers(ins[2])
    axes = axes_of(f, ins, 3) or tuple(range(len(starts)))
    steps = (1,) * len(starts) if given(ins, 4) is None else integers(ins[4])
    cut = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis]
        start, end = (v + size if v < 0 else v for v in (start, end))
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start, end = min(max(start, max(low, 0)), high), min(max(end, low), size)
        cut[axis] = slice(start, None if end < 0 else end, step)
    return x[tuple(cut)]


def _reshaped(f: Function, ins: list[Any]) -> Any:
    x, shape = ins[0], integers(ins[1])
    if not f.integer("allowzero", 0):
        shape = tuple(x.shape[i] if n == 0 else n for i, n in enumerate(shape))
    return x.reshape(shape)


def _flattened(f: Function, ins: list[Any]) -> Any:
    x, axis = ins[0], _axis(f, 1)
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return x.reshape(rows, -1) if x.size else x.reshape(rows, int(np.prod(x.shape[axis:], dtype=np.int64)))


def _squeezed(f: Function, ins: list[Any]) -> Any:
    return np.squeeze(ins[0], axes_of(f, ins, 1))


def _unsqueezed(f: Function, ins: list[Any]) -> Any:
    return np.expand_dims(ins[0], axes_of(f, ins, 1) or ())


def _transposed(f: Function, ins: list[Any]) -> Any:
    return np.transpose(ins[0], integers(f.attrs["perm"]) if "perm" in f.attrs else None)


def _joined(f: Function, ins: list[Any]) -> Any:
    return np.concatenate(ins, _axis(f))


def _parts(f: Function, ins: list[Any]) -> Any:
    x, axis, sizes = ins[0], _axis(f), given(ins, 1)
    if sizes is not None:
        return tuple(np.split(x, np.cumsum(integers(sizes))[:-1], axis))
    each = -(-x.shape[axis] // len(f.outputs))
    return tuple(np.split(x, [each * i for i in range(1, len(f.outputs))], axis))


def _expanded(f: Function, ins: list[Any]) -> Any:
    return np.broadcast_to(ins[0], np.broadcast_shapes(ins[0].shape, integers(ins[1])))


def _tiled(f: Function, ins: list[Any]) -> Any:
    return np.tile(ins[0], integers(ins[1]))


_PADS = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _padded(f: Function, ins: list[Any]) -> Any:
    x, pads, value = ins[0], integers(ins[1]), given(ins, 2)
    axes = [a % x.ndim for a in (axes_of(f, ins, 3) or range(x.ndim))]
    begin, end = dict(zip(axes, pads[: len(axes)], strict=True)), dict(zip(axes, pads[len(axes) :], strict=True))
    cut = tuple(slice(max(-begin.get(i, 0), 0), n - max(-end.get(i, 0), 0)) for i, n in enumerate(x.shape))
    width = [(max(begin.get(i, 0), 0), max(end.get(i, 0), 0)) for i in range(x.ndim)]
    mode = _PADS[f.string("mode", "constant")]
    pad: Any = np.pad
    return pad(x[cut], width, mode, **({"constant_values": 0 if value is None else np.ravel(value)[0]} if mode == "constant" else {}))


def _triangle(f: Function, ins: list[Any]) -> Any:
    diagonal = 0 if given(ins, 1) is None else integers(ins[1])[0]
    return (np.triu if f.integer("upper", 1) else np.tril)(ins[0], diagonal)


def _one_hot(f: Function, ins: list[Any]) -> Any:
    indices, depth, (off, on) = ins[0], integers(ins[1])[0], np.ravel(ins[2])
    axis = _axis(f, -1) % (indices.ndim + 1)
    wanted = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    steps = np.arange(depth).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    return np.where(wanted == steps, on, off)


def _filled(f: Function, ins: list[Any]) -> Any:
    value = f.attrs.get("value")
    return np.full(integers(ins[0]), value.array.reshape(()) if isinstance(value, Literal) else np.float32(0))


def _to_space(f: Function, ins: list[Any]) -> Any:
    x, size = ins[0], f.integer("blocksize")
    n, c, h, w = x.shape
    is_dcr = f.string("mode", "DCR") == "DCR"
    blocks = x.reshape((n, size, size, c // size**2, h, w) if is_dcr else (n, c // size**2, size, size, h, w))
    order = (0, 3, 4, 1, 5, 2) if is_dcr else (0, 1, 4, 2, 5, 3)
    return blocks.transpose(order).reshape(n, c // size**2, h * size, w * size)


def _to_depth(f: Function, ins: list[Any]) -> Any:
    x, size = ins[0], f.integer("blocksize")
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // size, size, w // size, size)
    order = (0, 3, 5, 1, 2, 4) if f.string("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.transpose(order).reshape(n, c * size**2, h // size, w // size)


MOVES: dict[str, NumpyOp] = {
    "Gather": move(_gathered, index=1),
    "GatherElements": move(_gathered_elements, index=1),
    "GatherND": move(_gathered_nd, index=1, indexed=lambda f: f.integer("batch_dims", 0)),
    "ScatterND": move(_scattered_nd, index=1, carries=(0, 2), indexed=lambda f: 0),
    "ScatterElements": move(_scattered_elements, index=1, carries=(0, 2)),
    "Slice": move(_sliced),
    "Reshape": move(_reshaped),
    "Flatten": move(_flattened),
    "Squeeze": move(_squeezed),
    "Unsqueeze": move(_unsqueezed),
    "Transpose": move(_transposed),
    "Identity": move(lambda f, ins: ins[0]),
    "Concat": move(_joined, carries=tuple(range(64))),
    "Split": move(_parts),
    "Expand": move(_expanded),
    "Tile": move(_tiled),
    "Pad": move(_padded, carries=(0, 2)),
    "Trilu": move(_triangle),
    "OneHot": move(_one_hot, carries=(2,)),
    "ConstantOfShape": move(_filled),
    "DepthToSpace": move(_to_space),
    "SpaceToDepth": move(_to_depth),
}
