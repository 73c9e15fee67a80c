"""The API graph: order, producers, outputs, and errors of invalid graphs."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidDataType, InvalidGraph, InvalidGraphOp, Status
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph import Graph, Op, check


def tensor(id: int, dtype: DType = DType.f32) -> LogicalTensor:
    return LogicalTensor(id, dtype, (2, 3), (3, 1))


def relu(id: int, src: int, dst: int) -> Op:
    return Op(id, "ReLU", inputs=(tensor(src),), outputs=(tensor(dst),))


def add(id: int, a: int, b: int, dst: int) -> Op:
    return Op(id, "Add", inputs=(tensor(a), tensor(b)), outputs=(tensor(dst),))


def ids(ops: tuple[Op, ...]) -> list[int]:
    return [op.id for op in ops]


def test_order_puts_producers_first() -> None:
    assert ids(Graph((relu(2, 12, 13), relu(1, 11, 12), relu(0, 10, 11))).order) == [0, 1, 2]


def test_order_keeps_the_given_order_of_a_sorted_graph() -> None:
    ops = (relu(5, 0, 1), relu(3, 0, 2), add(9, 1, 2, 3), relu(1, 0, 4))
    assert Graph(ops).order == ops


def test_order_of_a_long_chain_needs_no_recursion() -> None:
    chain = tuple(relu(i, i, i + 1) for i in reversed(range(3000)))
    assert ids(Graph(chain).order) == list(range(3000))


def test_a_cycle_is_an_error_that_names_its_ops() -> None:
    g = Graph((relu(7, 0, 1), add(1, 1, 4, 2), relu(2, 2, 3), relu(3, 3, 4)))
    with pytest.raises(InvalidGraph, match=r"op 1: Add: the ops form a cycle .*: 1 -> 3 -> 2 -> 1; a graph must be acyclic") as bad:
        check(g)
    assert bad.value.status is Status.invalid_graph


def test_an_op_that_reads_its_own_output_is_a_cycle() -> None:
    with pytest.raises(InvalidGraph, match=r"op 4: ReLU: .*: 4 -> 4;"):
        check(Graph((relu(4, 1, 1),)))


def test_two_producers_are_an_error_that_names_both() -> None:
    with pytest.raises(InvalidGraph, match="op 1: ReLU: ops 0 and 1 both produce tensor 11; give each output its own tensor id"):
        check(Graph((relu(0, 10, 11), relu(1, 10, 11))))


def test_an_op_id_used_twice_is_an_error() -> None:
    with pytest.raises(InvalidGraphOp, match="op 3: ReLU: op id 3 is used twice; give every op its own id"):
        check(Graph((relu(3, 10, 11), relu(3, 11, 12))))


def test_one_tensor_with_two_dtypes_is_an_error() -> None:
    cast = Op(1, "ReLU", inputs=(tensor(11, DType.bf16),), outputs=(tensor(12, DType.bf16),))
    with pytest.raises(InvalidDataType, match="op 1: ReLU: tensor 11 is bf16 here but f32 in op 0: ReLU; describe"):
        check(Graph((relu(0, 10, 11), cast)))


def test_inputs_are_tensors_without_a_producer() -> None:
    g = Graph((add(0, 5, 3, 6), add(1, 6, 3, 7)))
    assert [t.id for t in g.inputs] == [5, 3]


def test_consumers_name_an_op_once_even_if_it_reads_a_tensor_twice() -> None:
    assert ids(Graph((add(0, 5, 5, 6),)).consumers[5]) == [0]


def test_unused_tensors_leave_the_graph() -> None:
    g = Graph((relu(0, 10, 11), relu(1, 11, 12), relu(2, 11, 13)))
    assert [t.id for t in g.outputs] == [12, 13]


def test_end_and_output_ports_mark_interior_tensors_as_outputs() -> None:
    chain = (relu(0, 10, 11), relu(1, 11, 12), relu(2, 12, 13))
    marked = Graph((*chain, Op(3, "End", inputs=(tensor(11),))))
    assert [t.id for t in marked.outputs] == [11, 13]
    assert [t.id for t in Graph(chain, output_ports=(12,)).outputs] == [12, 13]


def test_with_tensors_exchanges_every_use() -> None:
    g = Graph((relu(0, 10, 11), add(1, 10, 11, 12)))
    new = LogicalTensor(10, DType.f32, (2, 3), (3, 1), property_type=PropertyType.constant)
    changed = g.with_tensors({10: new})
    assert changed.ops[0].inputs == (new,)
    assert changed.ops[1].inputs == (new, tensor(11))


def test_graphs_are_hashable() -> None:
    assert len({Graph((relu(0, 10, 11),)), Graph((relu(0, 10, 11),))}) == 1
