"""Broadcasting of shapes: as in numpy, one-way, and none."""

from __future__ import annotations

from itertools import zip_longest

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.spec import Attr, Infer

AUTO_BROADCAST = Attr("string", default="numpy", choices=("none", "numpy"))


def broadcast(a: Shape, b: Shape, names: tuple[str, str] = ("src_0", "src_1")) -> Shape:
    """The numpy rule: right-aligned, dims equal or one of them 1. Raises InvalidShape naming both operands and the first dim that differs.

    >>> broadcast((4, 1, 5), (3, 1))
    (4, 3, 5)
    """
    dims: list[int] = []
    for back, (x, y) in enumerate(zip_longest(reversed(a), reversed(b), fillvalue=1), start=1):
        if x != y and 1 not in (x, y):
            what = f"{names[0]} {a} and {names[1]} {b} do not broadcast: dim {-back} is {x} against {y}"
            raise InvalidShape(what, fix="dims must be equal or 1, counted from the right")
        dims.append(y if x == 1 else x)
    return tuple(reversed(dims))


def broadcast_to(a: Shape, target: Shape, name: str, target_name: str) -> None:
    """One-way: `a` must broadcast to `target` without changing it. Raises InvalidShape."""
    fits = len(a) <= len(target) and all(x in (1, y) for x, y in zip(reversed(a), reversed(target), strict=False))
    if not fits:
        what = f"{name} {a} does not broadcast to {target_name} {target}"
        raise InvalidShape(what, fix=f"each dim of {name}, counted from the right, must be 1 or equal")


def infer_broadcast(*names: str) -> Infer:
    """Shape inference of ops with an auto_broadcast attribute, whose inputs have these names."""

    def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
        if attrs.get("auto_broadcast") == "none":
            return (equal(ins, names),)
        shape, so_far = ins[0].shape, names[0]
        for t, name in zip(ins[1:], names[1:], strict=True):
            shape = broadcast(shape, t.shape, (so_far, name))
            so_far = f"{so_far} with {name}"
        return (shape,)

    return infer


def equal(ins: tuple[TensorType, ...], names: tuple[str, ...]) -> Shape:
    """The shape of all inputs, which must be equal (auto_broadcast none). Raises InvalidShape."""
    for t, name in zip(ins, names, strict=True):
        if t.shape != ins[0].shape:
            what = f"{names[0]} {ins[0].shape} and {name} {t.shape} differ while auto_broadcast is none"
            raise InvalidShape(what, fix="make the shapes equal or set auto_broadcast to numpy")
    return ins[0].shape
