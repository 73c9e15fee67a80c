"""Converts the layout of weights once: for inference to the B panels that products read, for training back.

The library chooses the panels: a Reorder to layout any prepares an operand. Concurrent readers keep the old Store; values and version stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.core.attrs import NO_ATTRS
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.tensor import LayoutType, LogicalTensor, Shape
from benchgraph.framework.counters import counters
from benchgraph.framework.kernel import Kernel
from benchgraph.framework.kernel_cache import Signature, cached, compiled_for
from benchgraph.framework.memory_desc import MemoryDesc, describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.graph.ir import Op
from benchgraph.library.engine import Engine
from benchgraph.library.partition import Partition
from benchgraph.ops import spec
from benchgraph.ops.layout_ops import REORDER


def panels(dtype: DType, shape: Shape, engine: Engine) -> MemoryDesc | None:
    """The library's layout for a product's weight of these dims; None if row-major is best."""
    flat = describe(dtype, shape)
    if len(shape) < 2 or 0 in shape or dtype.is_packed:
        return None

    def compiled() -> Kernel:
        src, dst = flat.logical(0), flat.logical(1)
        opened = LogicalTensor(1, dtype, shape, layout_type=LayoutType.any)
        return Kernel(Partition(Op(0, REORDER, NO_ATTRS, (src,), (dst,))), [src], [opened], engine)

    try:
        (desc,) = cached(Signature(("panels", flat, compiled_for(engine))), compiled).outputs
    except Unimplemented:
        return None
    return None if desc.is_plain else desc


def reads_panels(readers: Sequence[Op], id: int) -> bool:
    """Whether every op that reads tensor `id` is a product that takes it as its second operand, untransposed."""

    def takes(op: Op) -> bool:
        takes_panels = spec(op.kind).lowering.takes_panels(op.full_attrs)
        return all(port == 1 and takes_panels for port, t in enumerate(op.inputs) if t.id == id)

    return bool(readers) and all(map(takes, readers))


def prepack_(weight: NDArray, desc: MemoryDesc) -> bool:
    """Convert a weight for inference. False if it is a view, the user's memory, or not row-major: its other readers chose that layout."""
    if weight.is_view or weight.reused or weight.is_opaque or not weight.reorder_(desc):
        return False
    counters().weight_reorders += 1
    return True


def unpack_(weight: NDArray) -> bool:
    done = weight.to_default_()
    counters().weight_reorders += done
    return done
