"""Rows and cells of tables of layers, shared by console tables, Markdown and pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from benchgraph.analysis.repeated_layers import LayerRow, folded, single
from benchgraph.core.formats import counted, metric, milliseconds, percent, runs, with_unit
from benchgraph.present.terminal import LABEL, fitting, grid, printed, text_console
from benchgraph.results.layers import LayerProfile, LayerTiming
from benchgraph.results.result import PolicyTiming, Result

# name: the layer; the others as they stand
HEADS = ("layer", "x", "ms", "% time", "each ms", "FLOP", "bytes", "% roof", "% busy", "part", "implementation")
MEANINGS = (
    "the principal op, and how many others are computed with it; * stands for the numbers of repeated blocks that are alike",
    "how many such layers there are",
    "median time of all of them, milliseconds per execution",
    "share of the time of all layers",
    "the fastest and the slowest one",
    "operations, by the op table",
    "bytes that must enter and leave",
    "share of the nearer roof: of the arithmetic peak, or bw of the bandwidth for so much memory",
    "share of the time of all threads in which they computed",
    "position of the partition",
    "what the library ran",
)
SHOWN_LAYERS = 24
# What a narrow terminal goes without, the first of these first
SPARE = ("implementation", "each ms", "% busy", "bytes", "part", "FLOP")


@dataclass(frozen=True)
class LayerCells:
    """A row: texts under HEADS, and what it stands for; None for several layers in one row."""

    cells: tuple[str, ...]
    row: LayerRow | None


def heading(t: PolicyTiming, profile: LayerProfile) -> str:
    """What the table is about, and whether to believe it."""
    otherwise = f", {with_unit(profile.plain_s)} otherwise" if profile.whole_s else ""
    sides = f"an execution takes {with_unit(profile.profiled_s)} profiled{otherwise}"
    if not profile.is_profiled:
        sides = f"each partition on its own; an execution takes {with_unit(profile.plain_s)}"
    partitions = {layer.partition for layer in profile.layers}
    implementations = {layer.implementation for layer in profile.layers}
    ran = f" on {implementations.pop()}" if len(implementations) == 1 else ""
    merged = sum(layer.nests > 1 for layer in profile.layers)
    apart = f" ({merged} of them several nests or stages that run as one loop)" if merged else ""
    what = f"{counted(len(profile.layers), 'layer')}{apart} of {counted(len(partitions), 'partition')}{ran}"
    return f"{t.policy}: {what}, together {with_unit(profile.sum_s)}; {sides}"


def layer_rows(r: Result, profile: LayerProfile, *, is_folded: bool, most: int | None = None) -> list[LayerCells]:
    """Folded: repeated blocks as one, what takes longest first, and after `most` of them one for all others. Else every layer, in order of
    execution."""
    if not is_folded:
        return [LayerCells(_cells(r, profile, row), row) for row in single(profile.layers)]
    rows = sorted(folded(profile.layers), key=lambda row: -row.seconds)
    shown = rows if most is None or len(rows) <= most else rows[:most]
    found = [LayerCells(_cells(r, profile, row), row) for row in shown]
    if others := rows[len(shown) :]:
        together = LayerRow(f"{counted(sum(row.count for row in others), 'other')}", tuple(x for row in others for x in row.layers))
        cells = together.name, str(together.count), milliseconds(together.seconds), percent(_share(profile, together))
        found.append(LayerCells((*cells, *[""] * (len(HEADS) - len(cells))), None))
    return found


def _cells(r: Result, profile: LayerProfile, row: LayerRow) -> tuple[str, ...]:
    each = "" if row.count == 1 else f"{milliseconds(row.least_s)}-{milliseconds(row.most_s)}"
    whole = row.together
    return (
        row.name + (f" +{len(row.first.names)}" if row.first.names else ""),
        "" if row.count == 1 else str(row.count),
        milliseconds(row.seconds),
        percent(_share(profile, row)),
        each,
        metric(whole.flops) if whole.flops else "-",
        metric(whole.bytes) if whole.bytes else "-",
        of_roof(r, row),
        percent(whole.busy) if whole.busy is not None else "-",
        " ".join(runs(row.partitions)),
        " + ".join(row.implementations),
    )


def _share(profile: LayerProfile, row: LayerRow) -> float:
    return sum(profile.share(layer) for layer in row.layers)


def of_roof(r: Result, row: LayerRow) -> str:
    """Of the nearer roof, for the layers of a row one after the other."""
    share = roof_share(r, row.layers)
    return "-" if share is None else percent(share) + (" bw" if r.roofline(row.first).bound == "bandwidth" else "")


def roof_share(r: Result, layers: Sequence[LayerTiming]) -> float | None:
    """The time that the nearer roofs would allow, as a share of that taken; None where there is no roof."""
    shares = [(layer.median_s, max(w.peak_share or 0.0, w.bandwidth_share or 0.0)) for layer in layers if (w := r.roofline(layer)).bound]
    taken = sum(seconds for seconds, _ in shares)
    return sum(seconds * share for seconds, share in shares) / taken if taken else None


def left_out(rows: Sequence[LayerCells]) -> frozenset[int]:
    """Columns that say nothing: without any text, or what `heading` says of all layers."""
    same = {HEADS.index("part"), HEADS.index("implementation")}
    texts = [{row.cells[column] for row in rows if row.row is not None} for column in range(len(HEADS))]
    return frozenset(column for column, found in enumerate(texts) if found <= {"", "-"} or (column in same and len(found) == 1))


def layer_table(r: Result, t: PolicyTiming, profile: LayerProfile, out: Console, *, is_folded: bool) -> Iterator[Table | str]:
    """Where the time of one policy goes, for a console. is_folded: as for `layer_rows`."""
    yield heading(t, profile)
    found = layer_rows(r, profile, is_folded=is_folded, most=SHOWN_LAYERS)
    dropped = left_out(found)
    columns = [i for i in range(len(HEADS)) if i not in dropped]
    texts = [[cells[i] for i in columns] for cells in (HEADS, *(row.cells for row in found))]
    spare = [columns.index(HEADS.index(head)) for head in SPARE if HEADS.index(head) in columns]
    kept = fitting(texts, out.width, spare, LABEL)
    table = grid(box.SIMPLE_HEAD if out.is_terminal else box.ASCII2)
    for i in kept:
        is_text = columns[i] in (0, HEADS.index("part"), HEADS.index("implementation"))
        table.add_column(texts[0][i], justify="left" if is_text else "right", no_wrap=i > 0, overflow="fold")
    for cells in texts[1:]:
        table.add_row(*(cells[i] for i in kept))
    yield table
    if is_folded and any(row.row is None or row.row.count > 1 for row in found):
        yield "alike layers of repeated blocks are one row; all of them with -v, and in --report=console:FILE"


def layer_text(r: Result, t: PolicyTiming, profile: LayerProfile) -> str:
    """The folded table as plain text, without the remark on options."""
    out = text_console(is_plain=True)
    title, table, *_ = layer_table(r, t, profile, out, is_folded=True)
    out.print(title)
    out.print(table)
    return printed(out)
