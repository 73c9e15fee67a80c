"""Problem descriptors that are shapes: sizes joined by x, tensors by :, and a name: 128x512:512x256_n"BERT:ffn"."""

from __future__ import annotations

from dataclasses import dataclass, replace

MAX_NDIMS = 12  # DNNL_MAX_NDIMS


@dataclass(frozen=True)
class Shapes:
    """The shapes of a problem's tensors, in the driver's order, and its name."""

    shapes: tuple[tuple[int, ...], ...]
    name: str = ""

    def __str__(self) -> str:
        return ":".join(spelt(shape) for shape in self.shapes) + (f'_n"{self.name}"' if self.name else "")

    def with_mb(self, mb: int) -> Shapes:
        """With dim 0 of every tensor that has the batch there replaced; 0 keeps it. A dim 0 of 1 beside a larger one broadcasts."""
        batch = max(shape[0] for shape in self.shapes)
        return replace(self, shapes=tuple((mb, *s[1:]) if s[0] == batch else s for s in self.shapes)) if mb else self


def spelt(shape: tuple[int, ...]) -> str:
    """A shape as descriptors spell it."""
    return "x".join(map(str, shape))


def parse_shapes(text: str, least: int, most: int, example: str) -> Shapes:
    """Read a descriptor of `least` to `most` tensors. Raises ValueError saying what is wrong, at which character, and how to mend it."""
    sizes, has_name, name = text.partition("n")
    name = name.strip('"')
    if has_name and not name:
        raise ValueError(f"at character {len(sizes) + 1}: the name after 'n' is empty; write {example}_nNAME, or leave the n out")
    shapes, start = [], 0
    for tensor in sizes.removesuffix("_").split(":"):
        shapes.append(_shape(tensor, start, example))
        start += len(tensor) + 1
    if not least <= len(shapes) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        given = "1 tensor is" if len(shapes) == 1 else f"{len(shapes)} tensors are"
        fix = f"are needed; join them by ':', as in {example}" if most > 1 else f"is needed, as in {example}"
        raise ValueError(f"{given} given where {wanted} {fix}")
    return Shapes(tuple(shapes), name)


def _shape(text: str, start: int, example: str) -> tuple[int, ...]:
    """The sizes of one tensor, whose text starts behind `start` characters."""
    shape = list[int]()
    for size in text.split("x"):
        wrong = next((i for i, c in enumerate(size) if c not in "0123456789"), None)
        if wrong is not None:
            at = start + wrong + 1
            raise ValueError(f"at character {at}: '{size[wrong]}' is no digit; join sizes by 'x' and tensors by ':', as in {example}")
        if not size:
            raise ValueError(f"at character {start + 1}: a size is missing; write sizes as in {example}")
        shape.append(int(size))
        start += len(size) + 1
    if len(shape) > MAX_NDIMS:
        raise ValueError(f"at character {start - len(text)}: {len(shape)} sizes; oneDNN allows {MAX_NDIMS}")
    return tuple(shape)
