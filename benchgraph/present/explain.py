"""An explanation for terminals, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from rich.console import Console
from rich.table import Table

from benchgraph.core.formats import counted
from benchgraph.explain import Arenas, Explanation, Nest, StageReport
from benchgraph.present.terminal import columns, grid, printed, table_text, text_console

MOST = 100  # columns: longer lines are hard to read
NBSP = "\N{NO-BREAK SPACE}"
WHEN = {"init": "once, by init", "main": "at every execution"}


def text(repro: str, policy: str, partitions: Sequence[Explanation]) -> str:
    out = text_console(min(columns(), MOST))
    _paragraph(out, repro)
    out.print(f"policy {policy}: {counted(len(partitions), 'partition')}")
    for number, e in enumerate(partitions):
        _partition(out, number, e)
    return printed(out)


def _partition(out: Console, number: int, e: Explanation) -> None:
    out.print()
    out.print(f"partition {number}: {e.kind}, {counted(len(e.ops), 'op')}", style="bold")
    _paragraph(out, " ".join(e.ops), "  ")
    out.print(f"  compiled for {e.isa} and {counted(e.threads, 'thread')} in {e.compile_s * 1e3:.0f} ms")
    for nest in e.nests:
        out.print()
        _nest(out, nest)
    out.print()
    _memory(out, e)


# ---- nests -----------------------------------------------------------------------------------------------------------


def _nest(out: Console, nest: Nest) -> None:
    chosen = next((s.chosen for s in nest.sections if s.chosen is not None), None)
    tasks = ""
    if chosen is not None:
        cores = "one core, since it is too short for more" if nest.is_serial else counted(chosen.parameters["cores"], "core")
        tasks = f": {counted(chosen.derived['tasks'], 'task')} for {cores}"
    out.print(f"  {nest.name}, {WHEN[nest.when]}{tasks}", style="bold")
    _paragraph(out, "reads " + ", ".join(nest.reads), "    ")
    _paragraph(out, "writes " + ", ".join(nest.writes), "    ")
    for values, what in ((nest.next_entry, "next batch entry"), (nest.next_rows, "next task's rows")):
        if values:
            _paragraph(out, f"prefetches {', '.join(values)} of the {what}", "    ")
    for why in nest.schedules:
        _paragraph(out, f"schedule {why}", "    ")
    for i, section in enumerate(nest.sections):
        _section(out, section, i)
    for other, why in nest.apart:
        _paragraph(out, f"ends before {other}: {why}", "    ")


def _section(out: Console, section: StageReport, number: int) -> None:
    table = grid()
    for name in (f"stage {number}", "makes", "anchor"):
        table.add_column(name, overflow="fold")
    for op in section.ops:
        table.add_row(op.kind, op.makes, op.anchor)
    _indented(out, table)
    if section.chosen is not None:
        given, derived = section.chosen.parameters, section.chosen.derived
        _paragraph(out, f"problem {section.chosen.problem}", "      ")
        blocks = f"MPN={derived['MPN']} row blocks x NPN={derived['NPN']} column blocks"
        inner = f"MSN={derived['MSN']} NSN={derived['NSN']} KSN={derived['KSN']}"
        _paragraph(out, f"MB={given['mb']} NB={given['nb']}; {blocks}; {inner}", "      ")
        for reason in section.chosen.reasons:
            value = section.chosen.parameters.get(reason.parameter)
            _paragraph(out, f"{reason.parameter}{'' if value is None else f'={value}'}: {reason.text}", "        ")
    for op in section.ops:
        if op.begins:
            _paragraph(out, f"{op.kind} begins here: {op.begins}", "      ")


# ---- memory ----------------------------------------------------------------------------------------------------------


def _memory(out: Console, e: Explanation) -> None:
    out.print("  passes", style="bold")
    table = grid()
    for name in ("pass", "ms", "changed", "shared temporaries", "per thread"):
        table.add_column(name, justify="left" if name in ("pass", "changed") else "right", no_wrap=name == "pass", overflow="fold")
    for step in e.passes:
        change = "left out" if step.is_off else "yes" if step.is_changed else ""
        sizes = ("" if n is None else _bytes(n) for n in (step.shared_bytes, step.thread_bytes))
        table.add_row(step.name, f"{step.seconds * 1e3:.2f}", change, *sizes)
    _indented(out, table)
    if e.buffers:
        out.print("  temporaries of main", style="bold")
        table = grid()
        for name in ("buffer", "memory", "at full shape", "as it is", "offset"):
            table.add_column(name, justify="left" if name in ("buffer", "memory") else "right", no_wrap=name == "buffer", overflow="fold")
        for b in e.buffers:
            full = _bytes(b.full_bytes) if b.full_bytes else "split off"
            table.add_row(b.name, b.scope, full, _bytes(b.nbytes), str(b.offset))
        _indented(out, table)
    for a in e.arenas:
        _paragraph(out, f"peak of {a.function}: {_peak(a)}", "  ")
    if e.constants:
        kept = ", ".join(f"{k.name} {_bytes(k.nbytes)} by {k.maker}" for k in e.constants)
        _paragraph(out, f"constants: {_bytes(sum(k.nbytes for k in e.constants))}: {kept}", "  ")
    for i, o in e.inplace:
        _paragraph(out, f"in place: output {o} may lie over input {i}", "  ")


def _peak(a: Arenas) -> str:
    if not a.peak_bytes:
        return "no temporaries"
    saved = f", {_bytes(a.peak_bytes_without_reuse)} if no buffers shared bytes" if a.peak_bytes_without_reuse > a.peak_bytes else ""
    return f"{_bytes(a.peak_bytes)} = {_bytes(a.shared_bytes)} shared + {a.threads} threads x {_bytes(a.thread_bytes)}{saved}"


def _bytes(n: int) -> str:
    """As 512 B, 6.5 KiB, 2.1 MiB."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} B"


# ---- lines -----------------------------------------------------------------------------------------------------------


def _paragraph(out: Console, line: str, indent: str = "") -> None:
    """A wrapped paragraph; further lines are indented by two more columns."""
    unbroken = line.replace(": ", f":{NBSP}")  # keeps a value and its type on one line
    for part in wrap(unbroken, out.width, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False):
        out.print(part.replace(NBSP, " "), soft_wrap=True)


def _indented(out: Console, table: Table) -> None:
    for line in table_text(table, out.width - 4).splitlines():
        out.print("    " + line, soft_wrap=True)
