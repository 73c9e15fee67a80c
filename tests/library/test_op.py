"""Ops as users describe them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchgraph import DType, Graph, LogicalTensor, Op, Partition, Status
from benchgraph import graph as api
from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidArguments, InvalidGraphOp

SRC, WEI, DST = (LogicalTensor(i, DType.f32, (4, 4)) for i in range(3))


def test_at_once_and_piece_by_piece_are_the_same() -> None:
    at_once = Op(3, "MatMul", "scores", inputs=[SRC, WEI], outputs=[DST], transpose_b=True, transpose_a=False)
    pieces = Op(3, "MatMul", "scores").add_input(SRC).add_inputs([WEI]).add_output(DST).set_attr("transpose_b", True)
    assert at_once.described == pieces.set_attr("transpose_a", False).described
    assert at_once.described == api.Op(3, "MatMul", Attrs(transpose_a=False, transpose_b=True), (SRC, WEI), (DST,), "scores")


def test_it_changes_in_place_and_a_second_name_is_the_same_op() -> None:
    """As in C++, where a copy of an op shares it."""
    op = Op(3, "MatMul")
    other = op
    op.add_inputs([SRC, WEI])
    op.add_outputs([DST])
    op.set_attr("transpose_a", True)
    op.set_attr("transpose_a", False)
    assert other.described.inputs == (SRC, WEI)
    assert other.described.attrs == Attrs(transpose_a=False)


def test_the_default_name_is_kind_and_id() -> None:
    assert Op(3, "MatMul").name == "MatMul_3"


def test_a_graph_keeps_a_copy() -> None:
    g, op = Graph(), Op(3, "MatMul", inputs=[SRC, WEI], outputs=[DST])
    g.add_op(op)
    op.set_attr("no such attribute", 1).add_input(SRC)
    g.finalize()
    (partition,) = g.get_partitions()
    assert len(partition.input_ports) == 2


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (True, True),
        (np.True_, True),
        (3, 3),
        (np.int32(3), 3),
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        ("NXC", "NXC"),
        ([1, 2], (1, 2)),
        ((1, 0.5), (1.0, 0.5)),
        ([], ()),
        (np.array([1, 2]), (1, 2)),
        (np.array([0.5]), (0.5,)),
    ],
)
def test_attribute_values_become_the_graphs(given: object, kept: object) -> None:
    (value,) = Op(0, "Xyzzy").set_attr("x", given).described.attrs.values()
    assert (value, type(value)) == (kept, type(kept))


@pytest.mark.parametrize("value", [[True, False], "", None, {}, ["a"], [[1]], 1j, [1j], np.array([True])])
def test_a_value_of_no_attribute_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidArguments, match=r"op 0: MatMul: attribute 'x': the (value|string) is .*; "):
        Op(0, "MatMul").set_attr("x", value)
    with pytest.raises(InvalidArguments, match="attribute 'x'"):
        Op(0, "MatMul", x=value)


def test_a_value_of_the_wrong_attribute_type_is_found_by_the_graph() -> None:
    """A list for a single number is refused, where oneDNN takes its first element."""
    op = Op(0, "SoftMax", inputs=[SRC], outputs=[DST], axis=[1])
    with pytest.raises(InvalidGraphOp, match=r"op 0: SoftMax: attribute 'axis' is \(1,\); give it a value of type s64"):
        Graph().add_op(op)
    assert Graph().add_op(op, allow_exception=False) is Status.invalid_graph_op
    with pytest.raises(InvalidGraphOp, match="attribute 'axis'"):
        Partition(op)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Op(-1, "ReLU"), "op -1: the id is -1; use an integer from 0 to 18446744073709551615"),
        (lambda: Op("a", "ReLU"), "op 'a': the id is 'a'; use an integer"),  # type: ignore[arg-type]
        (lambda: Op(0, None), "op 0: the kind is None; use a string"),  # type: ignore[arg-type]
        (lambda: Op(0, "ReLU", None), "op 0: the name is None; use a string"),  # type: ignore[arg-type]
        (lambda: Op(0, "Add").add_inputs([SRC, 1]), "op 0: Add: input 1 is a int; give logical tensors"),  # type: ignore[list-item]
        (lambda: Op(0, "Add", outputs=[None]), "op 0: Add: output 0 is a NoneType; give logical tensors"),  # type: ignore[list-item]
    ],
)
def test_other_things_than_ops_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidArguments, match=says):
        make()
