"""A picture for terminals: a table per partition, in order of execution."""

from __future__ import annotations

from rich.table import Table

from benchgraph.core.formats import counted, ranges
from benchgraph.present.show.picture import Picture
from benchgraph.present.terminal import BETWEEN, columns, grid, printed, text_console

COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")


def text(picture: Picture) -> str:
    out = text_console(columns())
    ops = counted(len(picture.boxes) + sum(len(f.all) - len(f.ids) for f in picture.repeated_blocks), "op")
    partitions = counted(len(picture.partition_labels), "partition")
    out.print(f"{picture.title}: {ops}, {partitions} under {picture.policy}")
    for block in picture.repeated_blocks:
        size = counted(len(block.ids), "op")
        out.print(f"ops {ranges(block.all)} are {block.count} equal blocks of {size}; the first is shown, all of them with -v or --unfold")
    drawn = {box.partition for box in picture.boxes}
    for number, part in enumerate(picture.partition_labels):
        if number not in drawn:
            continue
        out.print()
        out.print(f"partition {number}: {part}", style=f"bold {COLOURS[number % len(COLOURS)]}")
        out.print(_table(picture, number, out.width))
    return printed(out)


def _table(picture: Picture, number: int, width: int) -> Table:
    """Attributes have a column of their own, or are below the kind on a narrow terminal."""
    heads, rows = ["op", "kind", "reads", "makes", "attributes"], list[list[str]]()
    given = {w.id: w.label for w in picture.wires if w.source is None}  # inputs of the graph are shown with their label, others by id
    for op in picture.boxes:
        if op.partition == number:
            reads = ", ".join(given.get(id, f"%{id}") for id in op.reads)
            makes = ", ".join(w.label + (" out" if w.is_output else "") for w in picture.wires if w.source == op.id)
            rows.append([str(op.id), op.kind + picture.repeat_suffix(op.id), reads, makes, " ".join(op.attrs)])
    if sum(max(map(len, column)) + BETWEEN for column in zip(heads, *rows, strict=True)) - BETWEEN > width:
        heads[1:] = ["kind; attributes", "reads", "makes"]
        rows = [[id, f"{kind}\n{attrs}".rstrip(), reads, makes] for id, kind, reads, makes, attrs in rows]
    table = grid()
    for name in heads:
        table.add_column(name, no_wrap=name in ("op", "kind"), overflow="fold", justify="right" if name == "op" else "left")
    for row in rows:
        table.add_row(*row)
    return table
