"""PyTorch's own ops, for functions of the domain `aten`: those of exported programs that no row here computes.

Their one attribute, arguments, is JSON: the op's arguments by name, in which "%2" stands for the function's input 2.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchgraph.core.errors import Unavailable, Unimplemented
from benchgraph.fallback.function import Array, Function

ATEN = "aten"  # the domain
ARGUMENTS = "arguments"
OPSET = 10  # of ATen, as torch.export counts
DTYPE = "dtype"
DROPOUT = "dropout_p"  # an argument of attention, which is random with it alone


def encoded(value: Any, position: dict[Any, int]) -> Any:
    """An argument as JSON has it; what says where a tensor lies is left out. position: of the inputs. Raises Unimplemented."""
    if value in position if value.__hash__ else False:
        return f"%{position[value]}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [encoded(v, position) for v in value]
    name = str(value)
    if name.startswith("torch.") and type(value).__name__ == DTYPE:
        return {DTYPE: name.removeprefix("torch.")}
    if type(value).__name__ in ("device", "layout", "memory_format"):
        return None
    raise Unimplemented(f"an argument is a {type(value).__name__}", fix="export the model without it")


def by_torch(f: Function, ins: Sequence[Array | None]) -> tuple[Array, ...]:
    """All results. Raises Unavailable without PyTorch, Unimplemented for an op that is not there, or that does more than compute."""
    try:
        import torch
    except ImportError as bad:
        what = f"only PyTorch computes {f.label}, and it is not installed"
        raise Unavailable(what, fix="pip install 'benchgraph[torch]'") from bad
    name, _, overload = f.kind.partition(".")
    op = getattr(getattr(torch.ops.aten, name, None), overload or "default", None)
    arguments = json.loads(f.string(ARGUMENTS, "{}"))
    draws = op is not None and torch.Tag.nondeterministic_seeded in op.tags and arguments.get(DROPOUT) != 0
    if op is None or op._schema.is_mutable or name == "from_file" or draws:
        raise Unimplemented(f"PyTorch {torch.__version__} has no such function as {f.label}", fix="export the model without it")
    tensors = [None if x is None else torch.from_numpy(np.array(x)) for x in ins]
    with torch.no_grad():
        found = op(**{n: _decoded(v, tensors, torch) for n, v in arguments.items()})
    return tuple(_array(x, torch) for x in (found if isinstance(found, tuple | list) else (found,)))


def _decoded(value: Any, tensors: Sequence[Any], torch: Any) -> Any:
    if isinstance(value, str) and value.startswith("%"):
        return tensors[int(value[1:])]
    if isinstance(value, list):
        return [_decoded(v, tensors, torch) for v in value]
    return getattr(torch, value[DTYPE]) if isinstance(value, dict) else value


def _array(x: Any, torch: Any) -> Array:
    """float64 and f32 as they are; narrow floats, which numpy lacks, as f32."""
    array: Array = (x.float() if x.dtype in (torch.bfloat16, torch.float16) else x).contiguous().numpy()
    return array
