"""Samples in further dtypes: a row's samples in every combination of dtypes that its schema and checks allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidDataType, InvalidGraphOp
from benchgraph.ops import call_of, check_op
from benchgraph.ops.spec import Call, Declared, OpSpec, Port, Sample


def ports_of(ports: tuple[Port, ...], count: int) -> tuple[Port, ...]:
    """The ports of `count` tensors; the last one repeats."""
    return tuple(ports[min(i, len(ports) - 1)] for i in range(count))


def variables(row: OpSpec, call: Call) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The type variable of each input and of each output."""
    return tuple(p.type for p in ports_of(row.schema.inputs, len(call.ins))), tuple(
        p.type for p in ports_of(row.schema.outputs, len(call.outs))
    )


def used(row: OpSpec, sample: Sample) -> set[tuple[str, DType]]:
    """The pairs of type variable and dtype that a sample shows."""
    call = call_of(row.kind, sample)
    ins, outs = variables(row, call)
    return set(zip((*ins, *outs), (t.dtype for t in (*call.ins, *call.outs)), strict=True))


def in_every_dtype(row: OpSpec) -> tuple[tuple[Sample, ...], ...]:
    """Every sample in every legal combination of dtypes; nothing where nothing is computed."""
    return () if row.lowering.unsupported else tuple(tuple(_every_dtype(row, s)) for s in row.testing.samples)


def retyped(row: OpSpec) -> tuple[Sample, ...]:
    """A selection of these: every fourth sample in one combination, and of any two type variables every pair of dtypes that is legal.

    A dtype is converted where it is read or written, whatever the third port's is. The pairs are spread over the samples. What comes out
    as a sample of the row itself is left out.
    """
    samples = [options for options in in_every_dtype(row) if options]
    by_dtypes: dict[tuple[tuple[DType, ...], ...], list[Sample]] = {}
    for s in (s for options in samples for s in options):
        by_dtypes.setdefault((s.dtypes, s.out_dtypes), []).append(s)
    chosen = [options[(i + 1) % len(options)] for i, options in enumerate(samples[::4])]
    shown = {pair for s in (*row.testing.samples, *chosen) for pair in _pairs(row, s)}
    for i, options in enumerate(by_dtypes.values()):
        if not _pairs(row, options[0]) <= shown:
            chosen.append(options[i % len(options)])
            shown |= _pairs(row, chosen[-1])
    own = [call_of(row.kind, s) for s in row.testing.samples]
    return tuple(s for s in chosen if call_of(row.kind, s) not in own)


def _pairs(row: OpSpec, sample: Sample) -> set[tuple[tuple[str, DType], ...]]:
    """Any two type variables with their dtypes; the one if there is one."""
    found = sorted(used(row, sample), key=lambda pair: (pair[0], pair[1].value))
    return set(combinations(found, min(2, len(found))))


def refused_variables(row: OpSpec) -> set[str]:
    """Type variables that no legal op can show: a check of the row refuses the one port they belong to, whatever its dtype."""
    call = call_of(row.kind, max(row.testing.samples, key=lambda s: _count(row, s)))
    ins: tuple[Declared, ...] = tuple((t.dtype, t.shape) for t in call.ins)
    found = set[str]()
    for port in row.schema.inputs[len(ins) :]:
        longer = [(*ins, (dtype, None)) for dtype in row.schema.types[port.type]]
        if not any(_is_legal(row, call, more) for more in longer):
            found.add(port.type)
        ins = longer[0]
    return found


def _count(row: OpSpec, sample: Sample) -> int:
    call = call_of(row.kind, sample)
    return len(call.ins) + len(call.outs)


def _every_dtype(row: OpSpec, sample: Sample) -> Iterator[Sample]:
    ins, outs = variables(row, call_of(row.kind, sample))
    names = sorted({*ins, *outs})
    for chosen in product(*(row.schema.types[v] for v in names)):
        dtype = dict(zip(names, chosen, strict=True))
        new = replace(sample, dtypes=tuple(dtype[v] for v in ins), out_dtypes=tuple(dtype[v] for v in outs))
        call = call_of(row.kind, new)
        if _is_legal(row, call, tuple((t.dtype, t.shape) for t in call.ins)):
            yield new


def _is_legal(row: OpSpec, call: Call, ins: tuple[Declared, ...]) -> bool:
    try:
        check_op(row.kind, call.attrs, ins, tuple(t.dtype for t in call.outs))
    except (InvalidDataType, InvalidGraphOp):
        return False
    return True
