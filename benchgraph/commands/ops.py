"""The op table: `benchgraph ops`, and one row in full with `benchgraph ops SoftMax` or `--kind=SoftMax`."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from benchgraph.core.errors import UsageError, within
from benchgraph.harness.command_words import need_no_options, own_options
from benchgraph.ops import OPS, call_of, spec
from benchgraph.ops.spec import Attr, LayoutOp, OpSpec, Port
from benchgraph.present.terminal import columns, grid, table_text

OPTIONS = ("--kind",)
WIDE_COLUMNS = 140  # columns below which a whole line does not fit


def ops(given: Sequence[str]) -> str:
    """The requested output. Raises UsageError, and NoSuchOpKind, with the nearest kind, for an unknown one."""
    rest = list[str]()
    kinds = [kind for _, kind in own_options("ops", OPTIONS, given, rest)]
    need_no_options("ops", rest, OPTIONS)
    kinds += rest
    if len(kinds) > 1:
        raise UsageError("one op kind at a time is shown", where=f"ops: {kinds[1]}", fix="leave the others out")
    with within("ops"):
        return in_full(kinds[0]) if kinds else overview()


def overview() -> str:
    """One line per op kind: role, dtypes of the first input, attributes, how it is compiled, number of samples.

    On a narrow terminal only kind, ports and attributes, wrapped between words.
    """
    if columns() < WIDE_COLUMNS:
        return _narrow(columns())
    table = grid()
    for name in ("kind", "role", "dtypes", "attributes", "compiled by", "samples"):
        table.add_column(name, no_wrap=name in ("kind", "role", "samples"), overflow="fold")
    for row in sorted(OPS.values(), key=lambda row: row.kind):
        dtypes = " ".join(_dtypes(row, row.schema.inputs[0])) if row.schema.inputs else ""
        table.add_row(
            row.kind, row.lowering.role.value, dtypes, " ".join(row.schema.attrs), _compiled_by(row), str(len(row.testing.samples))
        )
    return table_text(table, columns()) + f"\n{len(OPS)} op kinds"


def _narrow(width: int) -> str:
    table = grid()
    table.add_column("kind", no_wrap=True)
    table.add_column("inputs -> outputs; below them attributes")
    for row in sorted(OPS.values(), key=lambda row: row.kind):
        ports = " ".join([*(p.name for p in row.schema.inputs), "->", *(p.name for p in row.schema.outputs)])
        table.add_row(row.kind, "\n".join(filter(None, (ports, " ".join(row.schema.attrs)))))
    return table_text(table, width) + f"\n{len(OPS)} op kinds; more of each in a wider terminal, and by --kind=KIND"


def in_full(kind: str) -> str:
    """All of a row. Raises NoSuchOpKind, with the nearest kind, for an unknown one."""
    row = spec(kind)
    how = _compiled_by(row) if row.lowering.unsupported else f"compiled by {_compiled_by(row)}"
    lines = [f"{row.kind}: role {row.lowering.role.value}, category {row.lowering.category.value}, {how}"]
    lines += [f"  in   {_port(row, p)}" for p in row.schema.inputs] + [f"  out  {_port(row, p)}" for p in row.schema.outputs]
    lines += [f"  attr {name}: {_attr(a)}" for name, a in row.schema.attrs.items()]
    lines += [f"  attr {name}: {_attr(a)}, not oneDNN's" for name, a in row.schema.extensions.items()]
    lines += [f"  law  {law.name}" for law in row.testing.laws]
    for sample in row.testing.samples:
        shapes = ", ".join(str(list(shape)) for shape in sample.shapes)
        attrs = ", ".join(f"{k}={v}" for k, v in sample.attrs.items())
        allowed = "" if row.lowering.unsupported else f"; {row.semantics.threshold(call_of(kind, sample)):.3g} eps(f32) allowed"
        lines.append(f"  sample {shapes} {{{attrs}}}: {sample.why}{allowed}")
    return "\n".join(part for text in lines for part in _folded(text, columns()))


def _folded(text: str, width: int) -> list[str]:
    return wrap(text, width, subsequent_indent=" " * 9, drop_whitespace=True, break_long_words=False, break_on_hyphens=False)


def _compiled_by(row: OpSpec) -> str:
    if row.lowering.unsupported:
        return f"not compiled: {row.lowering.unsupported}"
    form = row.lowering.form
    ways = ["layout op" if isinstance(form, LayoutOp) else type(form).__name__.lower()] if form is not None else []
    return " after ".join([*ways, *(["decomposition"] if row.lowering.decompose is not None else [])])


def _dtypes(row: OpSpec, port: Port) -> tuple[str, ...]:
    return tuple(d.value for d in row.schema.types.get(port.type, ())) or ("any",)


def _port(row: OpSpec, port: Port) -> str:
    return f"{port.name}: {' '.join(_dtypes(row, port))} ({port.type})"


def _attr(a: Attr) -> str:
    need = "required" if a.required else "optional" if a.default is None else f"default {a.default!r}"
    allowed = f", {a.range.description}" if a.range is not None else ""
    return f"{a.type}, {need}{allowed}" + (f", one of {', '.join(a.choices)}" if a.choices else "")
