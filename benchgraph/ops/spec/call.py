"""One use of an op, and the names of types that all parts of a row share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType

Array: TypeAlias = NDArray[np.generic]
Types: TypeAlias = tuple[TensorType, ...]
Declared: TypeAlias = tuple[DType, Shape | None]  # dtype and shape of a tensor before shapes are inferred
F = (DType.f32, DType.bf16, DType.f16)  # the float types that most ops take (oneDNN Graph's operation reference)
TO_BF16 = frozenset({"bf16", "any"})  # math modes that let f32 operands be rounded to bf16, see `Semantics.follows_fpmath`


@dataclass(frozen=True)
class Call:
    """An op with known types: the argument of references, costs, thresholds and decompositions. attrs include the schema's defaults."""

    kind: str
    attrs: Attrs
    ins: Types
    outs: Types


Domain: TypeAlias = Callable[[Call, int, np.random.Generator], Array]  # (call, port, rng): data of an input port
