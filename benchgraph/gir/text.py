"""Graph IR as text: one op a line, fused ops as blocks; deterministic."""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.gir.ir import Anchor, Constness, FusedOp, Graph, Op, Value


def print_gir(g: Graph) -> str:
    lines = ["graph(" + ", ".join(_declared(g.value(v)) for v in g.ins) + ") {"]
    for v in g.values:
        if v.literal is not None:
            lines.append(f"  {_declared(v)} = const {_content(v)}")
        elif v.view is not None:
            arrow = "writes" if v.view.inverse else "reads"
            lines.append(f"  {_declared(v)} = {arrow} %{v.view.base} through {v.view.kind}{_attrs(v.view.attrs)}")
    for node in g.nodes:
        lines += _fused(g, node) if isinstance(node, FusedOp) else ["  " + _op(g, node)]
    wanted = {v: f" in {layout or 'any layout'}" for v, layout in g.open_layouts}
    return "\n".join([*lines, "  return " + ", ".join(f"%{v}{wanted.get(v, '')}" for v in g.outs), "}"])


def _declared(v: Value) -> str:
    text = f"%{v.id}: {v.dtype.value}[{','.join(map(str, v.shape))}]"
    if not v.layout.is_plain:
        text += f" {v.layout}"
    return text + (" constant" if v.constness is Constness.runtime else "")


def _content(v: Value) -> str:
    assert v.literal is not None
    flat = v.literal.array.ravel()
    shown = ", ".join(f"{float(x):g}" for x in flat[:8])
    return shown if flat.size <= 8 else f"[{shown}, ...]"


def _attrs(attrs: Attrs) -> str:
    return " {" + ", ".join(f"{k}={list(v) if isinstance(v, tuple) else v}" for k, v in attrs.items()) + "}" if attrs else ""


def _op(g: Graph, op: Op) -> str:
    outs = ", ".join(_declared(g.value(v)) for v in op.outs)
    return f"{outs} = {op.kind}({', '.join(f'%{v}' for v in op.ins)}){_attrs(op.attrs)}"


def _task(node: FusedOp) -> str:
    p = node.parameters
    if p is None:
        return ""
    parts = f" in {p.l2_parts} parts" if p.l2_parts > 1 else ""
    columns = f", panel by panel{parts}" if p.panels_first else ", columns split too" if p.split_n else ""
    rows = p.batch // p.entry_groups * p.m if p.entry_groups else p.mb
    step = f" step={p.score_columns}" if p.score_columns else ""
    return f"  // mb={p.mb}{step}: {p.row_tasks} tasks of {rows} rows over {p.cores} cores{columns}"


def _fused(g: Graph, node: FusedOp) -> list[str]:
    outs = ", ".join(f"%{v}" for v in node.outs)
    lines = [f"  {outs} = {node.name}({', '.join(f'%{v}' for v in node.ins)}){_task(node)} {{"]
    for stage in node.stages:
        for op, anchor in zip(stage.ops, stage.anchors, strict=True):
            at = f"kernel nb={stage.nb}" if anchor is Anchor.kernel else anchor.value
            if stage.is_packing:
                at += f" cut along {', '.join('-' if c is None else f'{c.axis} by {c.unit}' for c in stage.cuts)}"
            if anchor is Anchor.kernel and stage.parameters is not None and stage.parameters.ks:
                at += f" wei in pieces of {stage.parameters.ks} x {stage.parameters.ns}"
            if stage.reduces_rows:
                at += ", adding to all rows" if anchor is Anchor.kernel else ", behind the last task"
            if stage.is_batch_invariant:
                at += f" along {','.join('-' if axis is None else str(axis) for axis in stage.along)}"
            lines.append(f"    {_op(g, op)}  // {at}")
    return [*lines, "  }"]
