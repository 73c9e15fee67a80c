"""A picture for browsers, laid out without Graphviz. The background is transparent, for light and dark pages."""

from __future__ import annotations

from xml.sax.saxutils import escape

from benchgraph.core.formats import runs
from benchgraph.core.printable import printable
from benchgraph.present.show.graph_drawing import Drawing, lay_out
from benchgraph.present.show.picture import INK, LINE, PARTITIONS, Box, Picture, RepeatedBlock, Wire, colour

FONT = 'font-family="Helvetica, Arial, sans-serif"'
LETTER = 6.8  # px, an upper estimate for a 12 px sans-serif
MOST_NUMBERS = 8  # partition numbers or ranges in a line of the legend
ROW, MARGIN, LINE_HEIGHT = 44.0, 24.0, 16.0


def svg(picture: Picture) -> str:
    """Ops are boxes, tensors labels on the lines between them. Dashed lines: the value stays inside its partition."""
    lines = {f"op{b.id}": picture.lines(b) for b in picture.boxes} | {f"t{w.id}": [_label(w)] for w in picture.wires}
    widths = {node: max(map(len, text)) * LETTER + 20 for node, text in lines.items()}
    edges = [(f"op{w.source}", f"t{w.id}") for w in picture.wires if w.source is not None]
    edges += [(f"t{w.id}", f"op{id}") for w in picture.wires for id in w.targets]
    drawing = lay_out(widths, edges)
    tops, heights = _rows(drawing, lines)
    legend = _legend_lines(picture)
    top = MARGIN + LINE_HEIGHT * (len(legend) + 2)
    body = [text for block in picture.repeated_blocks for text in _frame(block, picture, drawing, widths, tops, heights, top)]
    body += [_edge(drawing, edge, tops, heights, top, _is_dashed(picture, edge)) for edge in edges]
    body += [_box(b, lines[f"op{b.id}"], drawing, widths, heights, tops, top) for b in picture.boxes]
    body += [_tensor(w, drawing, widths, tops, heights, top) for w in picture.wires]
    title = ", ".join(part for part in (picture.title, picture.policy) if part)
    longest = max([len(title), *(len(line) for _, line in legend)]) * LETTER
    named = (
        max(drawing.centre[n] + widths[n] / 2 for n in (f"op{id}" for id in f.ids)) + 14 + len(str(f)) * LETTER
        for f in picture.repeated_blocks
    )
    width = max([longest, *named, *(drawing.centre[n] + widths[n] / 2 for n in widths)]) + 2 * MARGIN
    height = top + (tops[-1] + heights[-1] if tops else 0) + MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        '<defs><marker id="end" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">',
        f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>',
        f'<g {FONT} font-size="12">',
        _text(title, MARGIN, MARGIN, LINE, "start", bold=True),
        *_legend(legend),
        *body,
        "</g>",
        "</svg>",
    ])  # fmt: skip


def _label(w: Wire) -> str:
    return ("in " if w.source is None else "out " if w.is_output else "") + w.label


def _rows(drawing: Drawing, lines: dict[str, list[str]]) -> tuple[list[float], list[float]]:
    count = max(drawing.layer.values(), default=-1) + 1
    heights = [max(len(lines[n]) for n, i in drawing.layer.items() if i == row) * LINE_HEIGHT + 12 for row in range(count)]
    return [sum(heights[:row]) + ROW * row * 0.7 for row in range(count)], heights


def _is_dashed(picture: Picture, edge: tuple[str, str]) -> bool:
    tensor = next(node for node in edge if node.startswith("t"))
    return not next(w.crosses for w in picture.wires if f"t{w.id}" == tensor)


def _edge(drawing: Drawing, edge: tuple[str, str], tops: list[float], heights: list[float], top: float, dashed: bool) -> str:
    """A smooth line from the bottom of one layer to the top of the next, straight through the layers it crosses."""
    points = [(x + MARGIN, top + tops[row], top + tops[row] + heights[row]) for x, row in drawing.paths[edge]]
    (x, _, low), *rest = points
    path = [f"M{x:.1f},{low:.1f}"]
    for i, (x2, high, low2) in enumerate(rest):
        middle = (low + high) / 2
        path.append(f"C{x:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{high:.1f}")
        if i < len(rest) - 1:
            path.append(f"L{x2:.1f},{low2:.1f}")
        x, low = x2, low2
    style = ' stroke-dasharray="4 3"' if dashed else ""
    head = ' marker-end="url(#end)"' if edge[1].startswith("op") else ""
    return f'<path d="{" ".join(path)}" fill="none" stroke="{LINE}" stroke-width="1.4"{style}{head}/>'


def _box(b: Box, lines: list[str], drawing: Drawing, widths: dict[str, float], heights: list[float], tops: list[float], top: float) -> str:
    """As tall as its layer, so that lines meet it."""
    node = f"op{b.id}"
    x, row, width = drawing.centre[node] + MARGIN, drawing.layer[node], widths[node]
    y, height = top + tops[row], heights[row]
    shape = f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" fill="{colour(b.partition)}"/>'
    first, *rest = lines
    texts = [_text(first, x, y + LINE_HEIGHT + 2, INK, "middle", bold=True)]
    texts += [_text(line, x, y + LINE_HEIGHT * (i + 2) + 2, INK, "middle") for i, line in enumerate(rest)]
    title = f"<title>{escape(printable(b.name))}</title>" if b.name else ""
    return f'<g id="{node}">{title}{shape}{"".join(texts)}</g>'


def _tensor(w: Wire, drawing: Drawing, widths: dict[str, float], tops: list[float], heights: list[float], top: float) -> str:
    node = f"t{w.id}"
    row = drawing.layer[node]
    y = top + tops[row] + heights[row] / 2 + 4
    return f'<g id="{node}">{_text(_label(w), drawing.centre[node] + MARGIN, y, LINE, "middle")}</g>'


def _frame(
    block: RepeatedBlock, picture: Picture, drawing: Drawing, widths: dict[str, float], tops: list[float], heights: list[float], top: float
) -> list[str]:
    """A frame around the ops of a block with its count; nothing if it would contain other ops."""
    mine = {f"op{id}" for id in block.ids}
    left, right = (f(drawing.centre[n] + s * widths[n] / 2 for n in mine) for f, s in ((min, -1), (max, 1)))
    rows = [drawing.layer[n] for n in mine]
    others = (n for n in (f"op{b.id}" for b in picture.boxes) if n not in mine and min(rows) <= drawing.layer[n] <= max(rows))
    if any(drawing.centre[n] + widths[n] / 2 > left and drawing.centre[n] - widths[n] / 2 < right for n in others):
        return []
    x, y, width = left + MARGIN - 8, top + tops[min(rows)] - 8, right - left + 16
    height = tops[max(rows)] + heights[max(rows)] - tops[min(rows)] + 16
    shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8" fill="none" stroke="{LINE}" stroke-width="2"/>'
    return [shape, _text(str(block), x + width + 6, y + 14, LINE, "start", bold=True)]


def _legend_lines(picture: Picture) -> list[tuple[int | None, str]]:
    """A line for each partition as long as colours are distinct, else one for all partitions of one description.

    Each with the partition whose colour it shows, None for several.
    """
    if len(picture.partition_labels) <= len(PARTITIONS):
        return [(i, f"p{i}: {part}") for i, part in enumerate(picture.partition_labels)]
    by_part = dict[str, list[int]]()
    for i, part in enumerate(picture.partition_labels):
        by_part.setdefault(part, []).append(i)
    return [(ids[0], f"p{ids[0]}: {part}") if len(ids) == 1 else (None, f"{_numbers(ids)}: {part} each") for part, ids in by_part.items()]


def _numbers(ids: list[int]) -> str:
    """`p0-p2 p6 p9`; the first of many, with their count."""
    ranges_ = runs(ids, "p")
    return " ".join(ranges_) if len(ranges_) <= MOST_NUMBERS else f"{' '.join(ranges_[:MOST_NUMBERS])} … ({len(ids)})"


def _legend(legend: list[tuple[int | None, str]]) -> list[str]:
    lines = list[str]()
    for i, (number, line) in enumerate(legend):
        y = MARGIN + LINE_HEIGHT * (i + 1)
        if number is not None:
            lines.append(f'<rect x="{MARGIN}" y="{y - 9:.1f}" width="10" height="10" rx="2" fill="{colour(number)}"/>')
        lines.append(_text(line, MARGIN + 16, y, LINE, "start"))
    return lines


def _text(text: str, x: float, y: float, ink: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}"{weight}>{escape(printable(text))}</text>'
