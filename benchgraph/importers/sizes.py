"""The sizes of a model's inputs: those of its file, and numbers for dims that the file leaves open, by --mb and --in-shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.core.printable import quoted
from benchgraph.core.tensor import Shape
from benchgraph.graph.override import BadOverride

Dim = int | str  # a number, or the name of an open dim; '' if it has none


@dataclass(frozen=True)
class Sizes:
    """The user's: mb is the size of an open dim 0, 0 if not given; in_shapes has the shapes of inputs by their names, and the sizes of
    open dims by theirs.
    """

    mb: int = 0
    in_shapes: tuple[tuple[str, Shape], ...] = ()


AS_IN_FILE = Sizes()


@dataclass(frozen=True)
class Bound:
    """shapes: of all inputs, by name. batch: --mb if an open dim took it, else 0. dims: sizes of open dims, by name."""

    shapes: Mapping[str, Shape]
    batch: int
    dims: Mapping[str, int] = field(default_factory=dict)


def bind(inputs: Mapping[str, Sequence[Dim]], sizes: Sizes, examples: Mapping[str, Shape] | None = None) -> Bound:
    """The shapes of a model's inputs. Open dims of one name have one size. examples: the sizes of open dims that nothing else gives.

    A shape of the user's replaces the file's whole, numbers included: a reader that cannot change those raises. Raises BadOverride for
    a name that is neither an input's nor an open dim's, for another rank and for two sizes of one dim, InvalidArguments for open dims
    without a number.
    """
    named = {name: shape for name, shape in sizes.in_shapes if name in inputs or not name.isdecimal()}  # others are tensor ids
    given = {name: shape for name, shape in named.items() if name in inputs}
    known = _dims({name: shape for name, shape in named.items() if name not in inputs}, inputs)
    for name, shape in given.items():
        dims = inputs[name]
        if len(shape) != len(dims):
            what = f"{len(shape)} dims, where the input has {len(dims)}"
            raise BadOverride(what, where=f"--in-shapes={name}", fix=_example(name, dims))
        for dim, size in zip(dims, shape, strict=True):
            if isinstance(dim, str) and dim and known.setdefault(dim, size) != size:
                what = f"its dim {dim} is {size}, and {known[dim]} elsewhere"
                raise BadOverride(what, where=f"--in-shapes={name}", fix="give one size to all dims of that name")
    firsts = [dims[0] for name, dims in inputs.items() if name not in given and dims and isinstance(dims[0], str) and dims[0] not in known]
    if sizes.mb:
        known |= {dim: sizes.mb for dim in firsts if dim}
    for name, example in (examples or {}).items():
        for dim, size in zip(inputs[name], example, strict=True):
            if isinstance(dim, str) and dim and size:
                known.setdefault(dim, size)
    shapes = {name: given[name] if name in given else _shape(name, dims, known, sizes.mb) for name, dims in inputs.items()}
    return Bound(shapes, sizes.mb if firsts else 0, known)


def _dims(named: Mapping[str, Shape], inputs: Mapping[str, Sequence[Dim]]) -> dict[str, int]:
    """The sizes that the user gives to open dims."""
    is_open = dict.fromkeys(dim for dims in inputs.values() for dim in dims if isinstance(dim, str) and dim)
    for name, shape in named.items():
        if name not in is_open:
            dims = f", its open dims are {', '.join(map(quoted, is_open))}" if is_open else ""
            fix = did_you_mean(name, [*inputs, *is_open]) or f"the inputs are {', '.join(map(quoted, inputs))}{dims}"
            raise BadOverride(f"the model has no input {quoted(name)}, and no open dim of that name", where="--in-shapes", fix=fix)
        if len(shape) != 1:
            raise BadOverride(f"{len(shape)} numbers for one dim", where=f"--in-shapes={name}", fix=f"give one, as in --in-shapes={name}:8")
    return {name: shape[0] for name, shape in named.items()}


def _shape(name: str, dims: Sequence[Dim], known: Mapping[str, int], mb: int) -> Shape:
    by_batch = mb or None
    found = [dim if isinstance(dim, int) else known.get(dim, None if position else by_batch) for position, dim in enumerate(dims)]
    if missing := [dim for dim, size in zip(dims, found, strict=True) if isinstance(dim, str) and size is None]:
        names = ", ".join(dim or "one without a name" for dim in missing)
        by_dim = "+".join(f"{dim}:8" for dim in dict.fromkeys(missing)) if all(missing) else ""
        fix = f"give each one, as in --in-shapes={by_dim}" if by_dim else _example(name, dims)
        raise InvalidArguments(f"dims without a number: {names}", where=f"input {quoted(name)}", fix=fix)
    return tuple(size for size in found if size is not None)


def _example(name: str, dims: Sequence[Dim]) -> str:
    shape = "x".join(str(dim or "8") for dim in dims) or "-"
    return f"give them, as in --in-shapes={name}:{shape}"
