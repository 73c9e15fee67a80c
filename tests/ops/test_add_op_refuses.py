"""add_op against every schema: each way in which an op can contradict its row, generated from the row, and the error message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from benchgraph import Graph, LogicalTensor, Status
from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.errors import BenchgraphError, InvalidDataType, InvalidGraphOp, Unimplemented
from benchgraph.graph import Op
from benchgraph.ops import OPS, call_of
from benchgraph.ops.spec import OpSpec, Port
from tests.support.table import by_row

WRONG_VALUE = {"bool": 3, "s64": "x", "f32": "x", "string": 1, "s64[]": "x", "f32[]": (True,)}


@dataclass(frozen=True)
class Mistake:
    """An op with one mistake, and the expected message."""

    op: Op
    error: type[BenchgraphError]
    message: str


def legal(row: OpSpec) -> Op:
    call = call_of(row.kind, row.testing.samples[0])
    ins = tuple(LogicalTensor(i, t.dtype, t.shape) for i, t in enumerate(call.ins))
    outs = tuple(LogicalTensor(100 + i, t.dtype, t.shape) for i, t in enumerate(call.outs))
    return Op(7, row.kind, row.testing.samples[0].attrs, ins, outs)


def missing_attributes(row: OpSpec) -> Iterator[Mistake]:
    for name, attr in row.schema.attrs.items():
        if attr.required:
            op = replace(legal(row), attrs=legal(row).attrs.without(name))
            yield Mistake(op, InvalidGraphOp, f"attribute '{name}' is missing; give it a value of type {attr.type}")


def attributes_of_the_wrong_type(row: OpSpec) -> Iterator[Mistake]:
    for name, attr in row.schema.attrs.items():
        value = WRONG_VALUE[attr.type]
        op = replace(legal(row), attrs=legal(row).attrs.updated(**{name: value}))
        yield Mistake(op, InvalidGraphOp, f"attribute '{name}' is {value!r}; give it a value of type {attr.type}")


def values_that_are_no_choice(row: OpSpec) -> Iterator[Mistake]:
    for name, attr in row.schema.attrs.items():
        if attr.choices:
            op = replace(legal(row), attrs=legal(row).attrs.updated(**{name: "zzzzz"}))
            yield Mistake(op, InvalidGraphOp, f"attribute '{name}' is 'zzzzz'; choose {' or '.join(attr.choices)}")


def unknown_attributes(row: OpSpec) -> Iterator[Mistake]:
    op = replace(legal(row), attrs=legal(row).attrs.updated(zzzzz=1))
    yield Mistake(op, InvalidGraphOp, "unknown attribute 'zzzzz'; it")


def wrong_counts(row: OpSpec) -> Iterator[Mistake]:
    op = legal(row)
    for side, ports, counts, limits in (
        ("inputs", row.schema.inputs, row.schema.num_inputs, row.schema.variadic_inputs),
        ("outputs", row.schema.outputs, row.schema.num_outputs, row.schema.variadic_outputs),
    ):
        least, most = limits or (min(counts, default=len(ports)), max(counts, default=len(ports)))
        have: tuple[LogicalTensor, ...] = getattr(op, side)
        some = have[0] if have else LogicalTensor(50, DType.f32, (2, 3))
        for n in ([least - 1] if least else []) + ([most + 1] if most < 1000 else []):
            extra = tuple(replace(some, id=200 + i) for i in range(n - len(have)))
            words = f"has {n} {side if n != 1 or limits else side.removesuffix('s')}; "
            yield Mistake(replace(op, **{side: (*have[:n], *extra)}), InvalidGraphOp, words)  # type: ignore[arg-type]


def forbidden_dtypes(row: OpSpec) -> Iterator[Mistake]:
    for side, ports in (("inputs", row.schema.inputs), ("outputs", row.schema.outputs)):
        tensors: tuple[LogicalTensor, ...] = getattr(legal(row), side)
        for i, t in enumerate(tensors):
            port = _port(ports, i)
            forbidden = [d for d in GRAPH_DTYPES if d not in row.schema.types.get(port.type, tuple(DType))]
            if forbidden:
                wrong = (*tensors[:i], replace(t, dtype=forbidden[0]), *tensors[i + 1 :])
                allowed = " or ".join(d.value for d in row.schema.types[port.type])
                says = f"{side.removesuffix('s')} {port.name} has dtype {forbidden[0].value}; use {allowed}"
                yield Mistake(replace(legal(row), **{side: wrong}), InvalidDataType, says)  # type: ignore[arg-type]


def dtypes_that_disagree(row: OpSpec) -> Iterator[Mistake]:
    """Ports of one type variable, the second of another allowed dtype. Within a port that repeats that is legal, and not implemented."""
    op = legal(row)
    ports = [("inputs", i, _port(row.schema.inputs, i)) for i in range(len(op.inputs))]
    ports += [("outputs", i, _port(row.schema.outputs, i)) for i in range(len(op.outputs))]
    for n, (side, i, port) in enumerate(ports):
        first = next((p for _, _, p in ports[:n] if p.type == port.type), None)
        tensors: tuple[LogicalTensor, ...] = getattr(op, side)
        other = [d for d in row.schema.types.get(port.type, ()) if d is not tensors[i].dtype]
        if first is not None and other:
            wrong = (*tensors[:i], replace(tensors[i], dtype=other[0]), *tensors[i + 1 :])
            repeats = side == "inputs" and i >= len(row.schema.inputs)
            says = f"{side.removesuffix('s')} {i if repeats else port.name} has dtype {other[0].value} where "
            yield Mistake(replace(op, **{side: wrong}), Unimplemented if repeats else InvalidDataType, says)  # type: ignore[arg-type]


def _port(ports: tuple[Port, ...], i: int) -> Port:
    return ports[min(i, len(ports) - 1)]


KINDS_OF_MISTAKE: tuple[Callable[[OpSpec], Iterator[Mistake]], ...] = (
    missing_attributes,
    attributes_of_the_wrong_type,
    values_that_are_no_choice,
    unknown_attributes,
    wrong_counts,
    forbidden_dtypes,
    dtypes_that_disagree,
)
CASES = [
    (row.kind, f"{row.kind}-{mistakes.__name__}-{i}", (mistake,))
    for row in OPS.values()
    for mistakes in KINDS_OF_MISTAKE
    for i, mistake in enumerate(mistakes(row))
]


@pytest.mark.parametrize("row", OPS.values(), ids=OPS.keys())
def test_what_the_schema_allows_is_added(row: OpSpec) -> None:
    """Without the mistake, the op is not refused."""
    assert Graph().add_op(legal(row)) is Status.success


@by_row(CASES)
def test_add_op_names_the_op_the_mistake_and_the_remedy(mistake: Mistake) -> None:
    g = Graph()
    with pytest.raises(BenchgraphError) as raised:
        g.add_op(mistake.op)
    assert type(raised.value) is mistake.error, mistake
    assert str(raised.value).startswith(f"op 7: {mistake.op.kind}: {mistake.message}"), mistake
    assert raised.value.fix
    assert g.add_op(mistake.op, allow_exception=False) is mistake.error.status
    assert g.add_op(
        replace(mistake.op, kind="End", attrs=OPS["End"].testing.samples[0].attrs, inputs=(LogicalTensor(0, DType.f32),), outputs=())
    )


def test_every_kind_of_mistake_is_made_often() -> None:
    """Each kind of mistake is generated for as many rows as can have it."""
    made = {m.__name__: sum(1 for row in OPS.values() if any(m(row))) for m in KINDS_OF_MISTAKE}
    assert made["unknown_attributes"] == len(OPS)
    assert made["wrong_counts"] >= len(OPS) - 1  # Wildcard takes any number
    assert made["forbidden_dtypes"] >= len(OPS) - 1  # and any dtype
    assert made["attributes_of_the_wrong_type"] == sum(1 for row in OPS.values() if row.schema.attrs)
    assert made["missing_attributes"] == sum(1 for row in OPS.values() if any(a.required for a in row.schema.attrs.values()))
    assert made["values_that_are_no_choice"] == sum(1 for row in OPS.values() if any(a.choices for a in row.schema.attrs.values()))
    assert made["dtypes_that_disagree"] > len(OPS) // 2
