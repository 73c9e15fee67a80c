"""A picture for Graphviz, in the colours of the SVG; every label has the partition's number."""

from __future__ import annotations

from benchgraph.present.show.picture import LINE, Picture, colour


def dot(picture: Picture) -> str:
    """Ops are boxes in one cluster per partition, tensors edges between them; inputs and outputs end at plain text."""
    lines = [
        "digraph benchgraph {",
        f'  label={_quoted(f"{picture.title}, {picture.policy}")}; labelloc=t; bgcolor=transparent; fontcolor="{LINE}";',
        '  fontname="Helvetica"; node [fontname="Helvetica" shape=box style="rounded,filled" fontcolor="#111111"];',
        f'  edge [fontname="Helvetica" fontsize=10 color="{LINE}" fontcolor="{LINE}"];',
    ]
    lines += [f'  op{op.id} [label={_quoted(*picture.lines(op))} fillcolor="{colour(op.partition)}"];' for op in picture.boxes]
    for i, block in enumerate(picture.repeated_blocks):
        ops = " ".join(f"op{id};" for id in block.ids)
        lines.append(f'  subgraph cluster_repeated{i} {{ label={_quoted(str(block))}; color="{LINE}"; fontcolor="{LINE}"; {ops} }}')
    for w in picture.wires:
        begin = f"op{w.source}" if w.source is not None else f"in{w.id}"
        if w.source is None:
            lines.append(f'  in{w.id} [label="in %{w.id}" shape=plaintext style="" fontcolor="{LINE}"];')
        if w.is_output:
            lines.append(f'  out{w.id} [label="out %{w.id}" shape=plaintext style="" fontcolor="{LINE}"];')
        ends = [*(f"op{id}" for id in w.targets), *([f"out{w.id}"] if w.is_output else [])]
        style = "" if w.crosses else " style=dashed"
        lines += [f"  {begin} -> {end} [label={_quoted(w.label)}{style}];" for end in ends]
    return "\n".join([*lines, "}"])


def _quoted(*lines: str) -> str:
    escaped = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
