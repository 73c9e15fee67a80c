"""Graph IR as text, which `gir/parse.py` reads back: `parse_gir(print_gir(g)) == g`. docs/ir-text.md has the grammar.

    graph(%0: f32[128,512], %1: f32[512,256] constant) {
      %3 = nest0(%1) {
        stage {
          %3: f32[512,256] Ba64b constant = Reorder(%1) at rows
        }
      }
      ...
      return %2
    }

One op a line, fused ops as blocks of stages. What equals its default is left out: attributes, row-major layouts, dense strides of inputs
and outputs, fields of stages and of their parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchgraph.core.attrs import NO_ATTRS, Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.fields import print_fields
from benchgraph.core.layout import plain
from benchgraph.core.tensor import TensorType, dense_strides
from benchgraph.core.tokens import print_value
from benchgraph.gir.ir import Constness, FusedOp, Graph, Literal, Op, Stage, Value, View
from benchgraph.ops import spec, with_defaults

# `constant`: fixed from run to run, `known`: compile-time constant
CONSTNESS = {"variable": Constness.variable, "constant": Constness.runtime, "known": Constness.compile}
_WORDS = {constness: word for word, constness in CONSTNESS.items()}
# How a value's fields are printed where they are not the usual ones, in this order.
_PRINTED: dict[str, Callable[[Any], str]] = {
    "layout": str,
    "constness": _WORDS.__getitem__,
    "strides": lambda strides: f"strides={'none' if strides is None else print_value(strides)}",
}
MOST_LISTED = 16  # a constant of more elements that are not all the same is printed as its bytes
# What has a syntax of its own; all other fields, whatever they are called, are `name=value`.
GRAPH_SYNTAX = "values", "nodes", "ins", "outs", "open_layouts"
FUSED_SYNTAX = "name", "stages", "ins", "outs"
STAGE_SYNTAX = "ops", "anchors"


def print_gir(g: Graph) -> str:
    lines = [f"graph({', '.join(_declared(g, v) for v in g.ins)}) {_fields(g, GRAPH_SYNTAX)}{{"]
    made = {*g.ins, *(v for op in g.ops for v in op.outs)}
    for v in g.values:
        if v.literal is not None:
            lines.append(f"  {_declared(g, v.id)} = const {_content(v.literal)}")
        elif v.view is not None:
            lines.append(f"  {_declared(g, v.id)} = {_view(v.view)}")
        elif v.id not in made:
            lines.append(f"  {_declared(g, v.id)}")
    for node in g.nodes:
        lines += _fused(g, node) if isinstance(node, FusedOp) else [f"  {print_op(g, node)}"]
    wanted = {v: f" in {layout or 'any layout'}" for v, layout in g.open_layouts}
    outs = ", ".join(f"%{v}{wanted.get(v, '')}" for v in g.outs)
    return "\n".join([*lines, f"  return {outs}", "}"])


def usual(v: Value, *, is_border: bool) -> Value:
    """The value with the fields that are not printed. is_border: an input or output whose layout is settled."""
    constness = Constness.variable if v.literal is None else Constness.compile
    strides = dense_strides(v.shape) if is_border and v.layout.is_plain else None
    return replace(v, layout=plain(len(v.shape)), constness=constness, strides=strides)


def _fields(record: object, syntax: tuple[str, ...], indent: str = "") -> str:
    return "".join(f"{field} " for field in print_fields(record, syntax, indent))


def _declared(g: Graph, id: int) -> str:
    v = g.value(id)
    is_border = id in g.ins or (id in g.outs and id not in dict(g.open_layouts))
    left_out = usual(v, is_border=is_border)
    said = (show(getattr(v, name)) for name, show in _PRINTED.items() if getattr(v, name) != getattr(left_out, name))
    return " ".join((f"%{id}: {print_type(v.type)}", *said))


def print_type(t: TensorType) -> str:
    return f"{t.dtype.value}[{','.join(map(str, t.shape))}]"


def _content(data: Literal) -> str:
    """One number where all elements are the same, a list of a few numbers, or the bytes."""
    bytes_each = data.dtype.numpy.itemsize
    size = len(data.raw) // bytes_each
    is_uniform = size > 0 and data.raw == data.raw[:bytes_each] * size
    elements = data.array.ravel()[: 1 if is_uniform else MOST_LISTED]
    if data.dtype.is_float:
        texts = [str(x) if data.dtype is DType.f32 else repr(float(x)) for x in elements]
    else:
        texts = [print_value(bool(x) if data.dtype is DType.boolean else int(x)) for x in elements]
    is_exact = not data.dtype.is_float or all(raw(float(t), data.dtype) == x.tobytes() for t, x in zip(texts, elements, strict=True))
    if not is_exact or (size > MOST_LISTED and not is_uniform):
        return f"0x{data.raw.hex()}"
    return texts[0] if is_uniform else f"[{', '.join(texts)}]"


def raw(value: float, dtype: DType) -> bytes:
    """The bytes of a constant's element."""
    return np.asarray(value).astype(dtype.numpy).tobytes()


def _view(view: View) -> str:
    return f"{'writes' if view.inverse else 'reads'} %{view.base} through {view.kind}{print_attrs(view.kind, view.attrs)}"


def print_attrs(kind: str, attrs: Attrs) -> str:
    """Attributes that differ from the op's defaults; `none` for one with a default that is not set."""
    schema, defaults = spec(kind).schema.attrs, with_defaults(kind, NO_ATTRS)
    changed = {k: v for k, v in attrs.items() if k not in defaults or Attrs({k: v}) != Attrs({k: defaults[k]})}
    f32 = {k for k in changed if k in schema and schema[k].type == "f32"}
    shown = {k: str(np.float32(attrs.real(k))) if k in f32 else print_value(v) for k, v in changed.items()}
    shown |= {k: "none" for k in defaults if k not in attrs}
    return f" {{{', '.join(f'{k}={v}' for k, v in shown.items())}}}" if shown else ""


def print_op(g: Graph, op: Op) -> str:
    outs = ", ".join(_declared(g, v) for v in op.outs)
    return f"{outs} = {op.kind}({_ids(op.ins)}){print_attrs(op.kind, op.attrs)}"


def _ids(ids: tuple[int, ...]) -> str:
    return ", ".join(f"%{id}" for id in ids)


def _fused(g: Graph, node: FusedOp) -> list[str]:
    tasks = f"  # tasks: {node.parameters.tasks}" if node.parameters is not None else ""
    head = f"  {_ids(node.outs)} = {node.name}({_ids(node.ins)}) {_fields(node, FUSED_SYNTAX)}{{{tasks}"
    return [head, *(line for stage in node.stages for line in _stage(g, stage)), "  }"]


def _stage(g: Graph, stage: Stage) -> list[str]:
    ops = (f"      {print_op(g, op)} at {anchor.value}" for op, anchor in zip(stage.ops, stage.anchors, strict=True))
    return [f"    stage {_fields(stage, STAGE_SYNTAX, '    ')}{{", *ops, "    }"]
