"""Primitive attributes as benchdnn's options. A log has no numbers for scales and zero points since oneDNN 3.0, but their masks.

attr-scales:src0:0:f32+wei:2:f32       --attr-scales=src:common:0.25+wei:per_dim_1
attr-post-ops:sum+binary_add:f32:2:ab  --attr-post-ops=sum+add:f32:per_dim_1:ab
attr-oscale:2:0                        --attr-scales=wei:per_dim_1      2.x; of a reorder src
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchgraph.importers.descriptors import Event, Inexpressible

SCALE, ZERO_POINT = "0.25", "1"  # where the log has a mask alone
# What changes nothing for a case here: see `inert` of the drivers
SILENT = ("attr-scratchpad", "attr-acc-mode", "attr-deterministic")
KEPT = ("attr-fpmath", "attr-rounding-mode", "attr-precomputed-reductions")  # as they are
OLD_NAMES = {"attr-fpmath_mode": "attr-fpmath", "attr-zp": "attr-zero-points", "post_ops": "attr-post-ops"}
FLOATS = ("f32", "bf16", "f16")
BOUNDED_RELU = "eltwise_bounded_relu"  # until 2.x: clip from 0 to alpha
_FAMILY = re.compile(r"^(?:eltwise|binary)_")
_BLOCKED = re.compile(r"[A-Z0-9]")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?\*?")


def attributes(event: Event) -> Iterator[str]:
    """The options. Raises Inexpressible for an attribute that is not known."""
    scales = list[str]()
    for word in event.fields.attributes.split():
        name, _, value = word.partition(":")
        name = OLD_NAMES.get(name, name)
        value = value.replace("'", "").replace(";", "+").strip("+")
        if name in SILENT or not value:
            continue
        if name in KEPT:
            yield f"--{name}={value}"
        elif name == "attr-scales":
            scales += (_entry(part, SCALE) for part in _of_reorder(event, value).split("+"))
        elif name == "attr-oscale":
            scales.append(_entry(_output_scale(event, value), SCALE))
        elif name == "attr-zero-points":
            yield f"--attr-zero-points={'+'.join(_entry(part, ZERO_POINT) for part in value.split('+'))}"
        elif name == "attr-post-ops":
            yield f"--attr-post-ops={'+'.join(_post_op(part) for part in value.split('+'))}"
        elif name == "attr-dropout":
            yield "--attr-dropout=0.5"  # its probability is an argument of the execution
        else:
            raise Inexpressible(f"the attribute '{name}' is not known")
    if scales:
        yield f"--attr-scales={'+'.join(scales)}"


def _of_reorder(event: Event, value: str) -> str:
    """A reorder to integers may scale its src, which is a float: that is a scale of dst, where Quantize has it."""
    return re.sub(r"\bsrc0?:", "dst:", value) if _quantises(event) else value


def _quantises(event: Event) -> bool:
    return event.fields.primitive == "reorder" and event.one_of("src").dtype in FLOATS and event.one_of("dst").dtype not in FLOATS


def _output_scale(event: Event, value: str) -> str:
    """2.x multiplied results by it. A reorder to integers divides by the scale of its dst, which is the reciprocal."""
    mask, _, number = value.partition(":")
    if not _quantises(event):
        return f"{'src' if event.fields.primitive == 'reorder' else 'wei'}:{value}"
    given = number.rstrip("*")
    return f"dst:{mask}:{1 / float(given):g}" if _NUMBER.fullmatch(number) and float(given) else f"dst:{mask}"


def policy(mask: str) -> str:
    """A mask of dims as benchdnn names it, where it has a name."""
    return {"0": "common", "1": "per_dim_0", "2": "per_dim_1", "3": "per_dim_01"}.get(mask, mask)


def _entry(text: str, number: str) -> str:
    """ARG:MASK[:NUMBER][:DT[:GROUPS]]; a log has either a number or a data type, by its version."""
    arg, mask, *rest = text.split(":")
    given = rest.pop(0).rstrip("*") if rest and _NUMBER.fullmatch(rest[0]) else ""
    if len(rest) == 1 and rest[0] in ("f32", "s32"):  # the data types that are meant where none is said
        rest = []
    named = policy(mask)
    return ":".join(("src" if arg == "src0" else arg, named, *([given or number] if named == "common" else []), *rest))


def _post_op(text: str) -> str:
    """Of binary post-ops and prelu the mask gets its name, and a layout that strides cannot say is left to the library."""
    name, *args = text.split(":")
    if name == BOUNDED_RELU:
        return f"clip:0:{args[0] if args else '0'}"
    is_binary = name.startswith("binary_")
    at = 1 if is_binary else 0
    if (is_binary or name == "prelu") and len(args) > at:
        args[at] = policy(args[at])
    if is_binary and len(args) > 2 and _BLOCKED.search(args[2]):
        args[2] = "any"
    return ":".join((_FAMILY.sub("", name), *args))
