"""Graphs encoded with oneDNN's numbers, and features that old versions lack."""

from __future__ import annotations

import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.errors import InvalidGraphOp, Unavailable
from benchgraph.core.remarks import collected
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph.ir import Graph, Op
from benchgraph.onednn import messages
from benchgraph.onednn.encode import graph, tensor
from benchgraph.onednn.table import ATTRS, DTYPES, FIRST, KINDS, KNOWN, PROPERTIES
from benchgraph.ops import OPS
from tests.onednn.graphs import F32, line

OLD, NEW = FIRST, KNOWN


def op(kind: str, **attrs: object) -> Graph:
    return Graph((Op(7, kind, Attrs(attrs), (LogicalTensor(0, F32, (2, 3)),), (LogicalTensor(1, F32, (2, 3)),)),))


def attrs_of(source: Graph, version: tuple[int, int] = NEW) -> list[tuple[int, str, object]]:
    return list(graph(source, version).ops[0].attrs)


def test_the_tables_are_complete() -> None:
    assert set(KINDS) == set(OPS)
    assert [k.code for k in KINDS.values()] == list(range(88))
    assert {name for row in OPS.values() for name in row.schema.attrs} == set(ATTRS)
    assert set(DTYPES) == {d.value for d in GRAPH_DTYPES}
    assert set(PROPERTIES) == {p.value for p in PropertyType}


def test_numbers_are_those_of_the_header() -> None:
    """Some, read off dnnl_graph_types.h by eye: the first and last of every run."""
    assert [KINDS[k].code for k in ("Abs", "End", "MatMul", "Wildcard", "Pow", "GroupNorm", "Dropout")] == [0, 25, 39, 78, 82, 83, 87]
    want = {"alpha": 0x1, "momentum": 0x6, "scales": 0x20, "axis": 0x30, "groups": 0x32, "axes": 0x40, "zps": 0x4D, "group_shape": 0x4E}
    want |= {"exclude_pad": 0x60, "use_dst": 0x68, "auto_broadcast": 0x80, "mode": 0x84, "accumulation_mode": 0x88}
    assert {name: ATTRS[name].code for name in want} == want


def test_every_form_of_attribute() -> None:
    assert attrs_of(op("Elu", alpha=1.5)) == [(0x1, "f", 1.5)]
    assert attrs_of(op("SoftMax", axis=-1)) == [(0x30, "i", -1)]
    assert attrs_of(op("ReduceSum", axes=(0, 1), keep_dims=True)) == [(0x40, "is", (0, 1)), (0x61, "b", True)]
    assert attrs_of(op("Dequantize", scales=(0.5,), qtype="per_tensor")) == [(0x85, "s", "per_tensor"), (0x20, "fs", (0.5,))]


def test_an_attribute_of_another_type_is_refused_here() -> None:
    with pytest.raises(InvalidGraphOp, match=r"op 7: Elu: attribute alpha is \(1\.0,\), no float; give a float"):
        graph(op("Elu", alpha=(1.0,)), NEW)
    with pytest.raises(InvalidGraphOp, match="attribute axes is 1, no list"):
        graph(op("ReduceSum", axes=1), NEW)
    with pytest.raises(InvalidGraphOp, match="oneDNN has no attribute 'backend'"):
        graph(op("ReLU", backend="dnnl"), NEW)


def test_an_attribute_of_our_own_is_left_out_with_a_remark_where_it_says_something() -> None:
    for value, remarks in ((False, []), (True, ["oneDNN has no attribute 'propagate_nan': it runs ReLU as its own"])):
        with collected() as found:
            assert attrs_of(op("ReLU", propagate_nan=value)) == []
        assert found == remarks


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (op("GenIndex", axis=0), r"op 7: GenIndex: op kind GenIndex needs oneDNN 3\.7; this is 3\.2"),
        (op("GELU", mode="gelu_tanh"), r"op 7: GELU: attribute mode needs oneDNN 3\.9; this is 3\.2"),
        (op("MatMul", accumulation_mode="f16"), r"attribute accumulation_mode needs oneDNN 3\.11"),
        (Graph((), fpmath_mode="bf16", fpmath_apply_to_int=True), r"a math mode that holds for integers too needs oneDNN 3\.7"),
    ],
)
def test_missing_features_name_the_version_that_has_them(source: Graph, says: str) -> None:
    with pytest.raises(Unavailable, match=says):
        graph(source, OLD)
    graph(source, NEW)


def test_a_default_that_an_old_version_has_no_attribute_for_means_the_same_without_it() -> None:
    assert attrs_of(op("MatMul", accumulation_mode="strict"), OLD) == []
    assert attrs_of(op("SoftMax", mode="none", axis=1), OLD) == [(0x30, "i", 1)]
    assert attrs_of(op("MatMul", accumulation_mode="strict"), NEW) == [(0x88, "s", "strict")]


def test_tensors_that_an_old_version_has_not() -> None:
    with pytest.raises(Unavailable, match=r"dtype s4 needs oneDNN 3\.5; this is 3\.2"):
        tensor(LogicalTensor(0, DType.s4, (2,)), OLD)
    with pytest.raises(Unavailable, match=r"property host_scalar needs oneDNN 3\.9"):
        tensor(LogicalTensor(0, F32, (), property_type=PropertyType.host_scalar), OLD)


def test_strides_go_along_and_are_dense_where_none_are_given() -> None:
    assert tensor(LogicalTensor(3, F32, (2, 3)), OLD) == messages.Tensor(3, 3, (2, 3), (3, 1), 0)
    strided = LogicalTensor(3, DType.u8, (2, 3), (1, 2), property_type=PropertyType.constant)
    assert tensor(strided, OLD) == messages.Tensor(3, 6, (2, 3), (1, 2), 2)


def test_ops_go_in_the_order_of_execution() -> None:
    chained = line("ReLU", "Tanh")
    backwards = Graph(tuple(reversed(chained.ops)))
    assert [o.id for o in graph(backwards, OLD).ops] == [10, 11]
