"""Opaque layouts: chosen for outputs of layout `any`, read by the next partition as they are, converted by Reorder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph import Engine, Graph, LogicalTensor, Op, Partition, Policy, Stream, Tensor
from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.layout import BACKEND_ID, LAYOUTS, Layout, LayoutTable, layout_id, plain
from benchgraph.core.tensor import LayoutType, PropertyType, Shape, dense_strides
from benchgraph.gir.layouts import packed
from benchgraph.graph.build import GraphBuilder
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.ops import OPS
from benchgraph.ops.spec import OpSpec, Sample
from benchgraph.partition import ir
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill

ENGINE = Engine()
Values = dict[int, NDArray[np.generic]]


def tensor(id: int, *shape: int, constant: bool = False) -> LogicalTensor:
    kind = PropertyType.constant if constant else PropertyType.undef
    return LogicalTensor(id, DType.f32, shape, dense_strides(shape), property_type=kind)


def opened(t: LogicalTensor) -> LogicalTensor:
    return replace(t, layout_type=LayoutType.any, strides=None)


def opaque(t: LogicalTensor, layout: Layout) -> LogicalTensor:
    return replace(t, layout_type=LayoutType.opaque, layout_id=LAYOUTS.id(layout), strides=None)


def data(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(shape, np.float32) - 0.5


def stored(t: LogicalTensor, value: NDArray[np.generic]) -> Tensor:
    """A tensor with these elements, in whatever layout: blocks by numpy alone."""
    made = Tensor(t, ENGINE)
    if t.layout_type is not LayoutType.opaque:
        made.array[...] = value
        return made
    layout = LAYOUTS.layout(t.layout_id)
    sizes = dict(layout.blocks)
    pads = [(0, -d % sizes.get(axis, 1)) for axis, d in enumerate(value.shape)]
    padded = np.pad(value, pads, constant_values=99)  # what no layout shows must not matter
    split = padded.reshape([n for axis, d in enumerate(padded.shape) for n in (d // sizes.get(axis, 1), sizes.get(axis, 1))])
    order = [*(2 * axis for axis in layout.order), *(2 * axis + 1 for axis, _ in layout.blocks), *_ones(layout)]
    made.array[...] = np.ascontiguousarray(split.transpose(order)).view(np.uint8).reshape(-1)
    return made


def _ones(layout: Layout) -> list[int]:
    """Places of the inner sizes of axes without blocks, all 1."""
    return [2 * axis + 1 for axis in layout.order if axis not in dict(layout.blocks)]


def loaded(t: Tensor) -> NDArray[np.generic]:
    """The elements of a tensor in whatever layout."""
    if t.logical.layout_type is not LayoutType.opaque:
        return t.array
    layout, shape = LAYOUTS.layout(t.logical.layout_id), t.logical.known_shape
    sizes, at = dict(layout.blocks), np.indices(shape)
    index = [at[axis] // sizes.get(axis, 1) for axis in layout.order] + [at[axis] % size for axis, size in layout.blocks]
    return t.array.view(t.logical.dtype.numpy).reshape(layout.physical(shape))[tuple(index)]


def executed(c: CompiledPartition, inputs: list[Tensor], *out_ids: int) -> list[Tensor]:
    outs = [Tensor(c.query_logical_tensor(id), ENGINE) for id in out_ids]
    c.execute(Stream(ENGINE), inputs, outs)
    return outs


# ---- `any` becomes an opaque layout ----------------------------------------------------------------------------------

SRC, MID, DST = tensor(0, 70, 96), tensor(5, 70, 128), tensor(9, 70, 64)
WEI = tensor(1, 96, 128, constant=True), tensor(2, 128, 64, constant=True)


def mlp(policy: Policy) -> tuple[Partition, ...]:
    """Two products with post-ops: tensors 3, 4 and 5 lie between, 8 too when every op is alone."""
    g = Graph()
    g.add_op(Op(10, "MatMul", inputs=(SRC, WEI[0]), outputs=(replace(MID, id=3),)))
    g.add_op(Op(11, "ReLU", inputs=(replace(MID, id=3),), outputs=(replace(MID, id=4),)))
    g.add_op(Op(12, "Tanh", inputs=(replace(MID, id=4),), outputs=(MID,)))
    g.add_op(Op(13, "MatMul", inputs=(MID, WEI[1]), outputs=(replace(DST, id=8),)))
    g.add_op(Op(14, "ReLU", inputs=(replace(DST, id=8),), outputs=(DST,)))
    g.finalize()
    return g.get_partitions(policy)


def run_chain(policy: Policy, *, between: LayoutType) -> tuple[NDArray[np.generic], dict[int, LogicalTensor]]:
    """The result of the MLP, partition by partition, and what passed between the partitions."""
    described = {t.id: t for t in (SRC, *WEI)}
    tensors = {t.id: stored(t, data(t.id, *t.known_shape)) for t in (SRC, *WEI)}
    for p in mlp(policy):
        ins = [described[t.id] for t in p.input_ports]
        outs = [t if t.id == DST.id or between is LayoutType.strided else opened(t) for t in p.output_ports]
        c = p.compile(ins, outs, ENGINE)
        for t in outs:
            described[t.id] = c.query_logical_tensor(t.id)
            tensors[t.id] = Tensor(described[t.id], ENGINE)
        c.execute(Stream(ENGINE), [tensors[t.id] for t in ins], [tensors[t.id] for t in outs])
    return tensors[DST.id].array, {id: t for id, t in described.items() if id not in (SRC.id, DST.id, *(w.id for w in WEI))}


def bits_equal_the_strided_chain(policy: Policy, *, is_plain: bool) -> None:
    strided, _ = run_chain(policy, between=LayoutType.strided)
    opaque, between = run_chain(policy, between=LayoutType.any)
    np.testing.assert_array_equal(opaque, strided)
    assert all(t.layout_type is LayoutType.opaque and LAYOUTS.layout(t.layout_id).is_plain is is_plain for t in between.values())


@pytest.mark.parametrize("policy", [Policy.post_ops, Policy.one_op_each])
def test_a_chain_of_layout_any_is_bit_equal_to_the_strided_one(policy: Policy) -> None:
    """The first partition chooses, the second reads what it chose: rows, which products stream."""
    bits_equal_the_strided_chain(policy, is_plain=True)


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("policy", [Policy.post_ops, Policy.one_op_each])
def test_a_chain_through_blocks_is_bit_equal_to_the_strided_one(policy: Policy) -> None:
    bits_equal_the_strided_chain(policy, is_plain=False)


def test_an_id_names_the_backend_and_a_layout_once() -> None:
    first, second = (mlp(Policy.post_ops)[0].compile([SRC, WEI[0]], [opened(MID)], ENGINE) for _ in range(2))
    ids = [c.query_logical_tensor(MID.id).layout_id for c in (first, second)]
    assert ids[0] == ids[1]
    assert ids[0] & 15 == BACKEND_ID
    assert second.from_cache


def test_size_and_layout_are_queried_and_nothing_else_of_an_opaque_tensor() -> None:
    out = mlp(Policy.post_ops)[0].compile([SRC, WEI[0]], [opened(MID)], ENGINE).query_logical_tensor(MID.id)
    assert (out.get_mem_size(), out.get_layout_id(), out.shape) == (70 * 128 * 4, out.layout_id, (70, 128))
    with pytest.raises(InvalidArguments, match="only strided layouts have strides"):
        out.get_strides()
    memory = Tensor(out, ENGINE)
    assert (memory.array.dtype, memory.array.shape) == (np.uint8, (out.nbytes,))
    with pytest.raises(InvalidArguments, match="tensor 5: its layout is opaque; let a Reorder"):
        _ = memory.elements


@pytest.mark.parametrize("is_read", [False, True])
def test_what_a_reorder_makes_is_packed_unless_the_graph_reads_it(is_read: bool) -> None:
    """An operand that the user prepares, for a product in another graph; ops of this one read rows."""
    wei, packed_wei = tensor(1, 96, 128), tensor(2, 96, 128)
    g = Graph()
    g.add_op(Op(10, "Reorder", inputs=(wei,), outputs=(packed_wei,)))
    if is_read:
        g.add_op(Op(11, "SoftMax", inputs=(packed_wei,), outputs=(tensor(3, 96, 128),)))
    g.finalize()
    out = g.get_partitions(Policy.one_op_each)[0].compile([wei], [opened(packed_wei)], ENGINE).query_logical_tensor(2)
    assert out.layout_type is LayoutType.opaque
    assert LAYOUTS.layout(out.layout_id).is_plain is is_read


# ---- Reorder: the way in and out -------------------------------------------------------------------------------------

LAYOUTS_OF_MID = [None, packed(2, 64, 1), packed(2, 16, 1), packed(2, 48, 1)]


def reorder(src: LogicalTensor, dst: LogicalTensor) -> CompiledPartition:
    p = Partition(Op(20, "Reorder", inputs=(tensor(src.id, *src.known_shape),), outputs=(tensor(dst.id, *dst.known_shape),)))
    return p.compile([src], [dst], ENGINE)


@pytest.mark.parametrize("to", LAYOUTS_OF_MID, ids=str)
@pytest.mark.parametrize("of", LAYOUTS_OF_MID, ids=str)
def test_reorder_converts_between_all_layouts(of: Layout | None, to: Layout | None) -> None:
    """Strided and opaque both ways, padding included (48 does not divide 130)."""
    src, dst = tensor(0, 7, 130), tensor(1, 7, 130)
    src, dst = (t if layout is None else opaque(t, layout) for t, layout in ((src, of), (dst, to)))
    value = data(3, 7, 130)
    (out,) = executed(reorder(src, dst), [stored(src, value)], 1)
    np.testing.assert_array_equal(loaded(out), value)


def test_reorder_of_a_strided_tensor_with_gaps_into_blocks() -> None:
    src = LogicalTensor(0, DType.f32, (5, 2, 64), (1, 400, 6))
    dst = opaque(tensor(1, 5, 2, 64), packed(3, 16, 1))
    value = data(4, 5, 2, 64)
    (out,) = executed(reorder(src, dst), [stored(src, value)], 1)
    np.testing.assert_array_equal(loaded(out), value)


# ---- prepacked weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("n", [64, 100, 128, 200])
def test_a_weight_prepacked_by_the_user_is_used_as_it_is(n: int, is_constant: bool) -> None:
    """A Reorder to `any` gives the panels of the product; no packing at compile, init or execution, and equal results."""
    wei, dst = tensor(1, 96, n, constant=is_constant), tensor(3, 70, n)
    reordered = reorder(replace(wei, id=0), opened(wei))
    packed = replace(reordered.query_logical_tensor(1), property_type=wei.property_type)
    assert packed.layout_type is LayoutType.opaque
    assert packed.get_mem_size() >= 96 * n * 4
    (weights,) = executed(reordered, [stored(replace(wei, id=0), data(1, 96, n))], 1)
    p = Partition(Op(30, "MatMul", inputs=(SRC, wei), outputs=(dst,)))
    ours, theirs = p.compile([SRC, tensor(1, 96, n, constant=True)], [dst], ENGINE), p.compile([SRC, packed], [dst], ENGINE)
    assert theirs.executable.module.init is None or n == 64, "64 columns are one panel, so the packed weight is the plain one"
    assert not theirs.executable.signature.constants or n == 64
    assert theirs.get_scratchpad_logical_tensor().get_mem_size() == 0
    src = stored(SRC, data(0, 70, 96))
    (want,) = executed(ours, [src, stored(wei, data(1, 96, n))], 3)
    (got,) = executed(theirs, [src, Tensor(packed, ENGINE, weights.array)], 3)
    np.testing.assert_array_equal(got.array, want.array)


def test_a_transposed_weight_is_prepacked_by_a_transposition() -> None:
    given, wei, dst = tensor(0, 128, 96), tensor(1, 96, 128), tensor(3, 70, 128)
    c = Partition(Op(20, "StaticTranspose", inputs=(given,), outputs=(wei,), order=[1, 0])).compile([given], [opened(wei)], ENGINE)
    packed, value = c.query_logical_tensor(1), data(1, 128, 96)
    assert not LAYOUTS.layout(packed.layout_id).is_plain
    (weights,) = executed(c, [stored(given, value)], 1)
    product = Partition(Op(30, "MatMul", inputs=(SRC, wei), outputs=(dst,))).compile([SRC, packed], [dst], ENGINE)
    (out,) = executed(product, [stored(SRC, data(0, 70, 96)), weights], 3)
    np.testing.assert_allclose(out.array, data(0, 70, 96) @ value.T, rtol=1e-4, atol=1e-4)


# ---- every op, whatever layout it is given ---------------------------------------------------------------------------


def samples() -> list[pytest.ParameterSet]:
    """The first two samples of every row that have a f32 tensor of two dims to put in blocks."""
    chosen = []
    for row in OPS.values():
        fit = [
            s
            for s in row.testing.samples
            if not row.lowering.unsupported and any(len(s_) >= 2 and 0 not in s_ for s_ in s.shapes) and not s.dtypes
        ]
        chosen += [pytest.param(row, s, id=f"{row.kind}-{i}") for i, s in enumerate(fit[:2])]
    return chosen


def in_blocks(t: LogicalTensor, size: int) -> LogicalTensor:
    fits = t.dtype is DType.f32 and t.ndims >= 2 and 0 not in t.known_shape
    return opaque(t, packed(t.ndims, size, 1)) if fits else t


@pytest.mark.parametrize(("row", "sample"), samples())
def test_every_op_reads_and_writes_blocks(row: OpSpec, sample: Sample) -> None:
    """Converted inside where it cannot be otherwise; blocks of 4 fall in the middle of everything."""
    b = GraphBuilder()
    outs = tuple(sample.out_dtypes) or (None,) * max(1, min(row.schema.num_outputs or (len(row.schema.outputs),)))
    b.append(row.kind, tuple(b.input(s) for s in sample.shapes), sample.attrs, outs)
    g = b.graph()
    values = fill(g, seed=1)
    (p,) = partitions(g, Policy.one_op_each)
    want = evaluate(g, values)
    changed = {t.id: in_blocks(t, 4) for t in (*p.inputs, *p.outputs)}
    got = results(described(p, changed), values)
    for t in p.outputs:
        assert compare(got[t.id], want[t.id], t.dtype, max(tolerance(g), 1e-6)).ok, t


def described(p: ir.Partition, tensors: dict[int, LogicalTensor]) -> ir.Partition:
    def swap(ts: tuple[LogicalTensor, ...]) -> tuple[LogicalTensor, ...]:
        return tuple(tensors.get(t.id, t) for t in ts)

    ops = tuple(replace(op, inputs=swap(op.inputs), outputs=swap(op.outputs)) for op in p.ops)
    return replace(p, ops=ops, inputs=swap(p.inputs), outputs=swap(p.outputs))


def results(p: ir.Partition, values: Values) -> Values:
    e = compile_partition(p)
    ins, outs = [stored(t, values[t.id]) for t in p.inputs], [Tensor(t, ENGINE) for t in p.outputs]
    arrays = [
        [t.array.view(t.logical.dtype.numpy).reshape(s.shape) if t.logical.is_bytes else t.array for t, s in zip(ts, shapes, strict=True)]
        for ts, shapes in ((ins, e.signature.inputs), (outs, e.signature.outputs))
    ]
    e.bind(*arrays)()
    return {t.logical.id: loaded(t).copy() for t in outs}


# ---- what does not fit -----------------------------------------------------------------------------------------------


def relu() -> Partition:
    return Partition(Op(40, "ReLU", inputs=(tensor(0, 4, 128),), outputs=(tensor(1, 4, 128),)))


@pytest.mark.parametrize(
    ("id", "says"),
    [
        (2, "layout id 2 is of backend 2, not 1"),
        (0, "layout id 0 is of backend 0, not 1"),
        (1 << 40 | 1, "no layout has the id"),
        (-15, "no layout has the id"),
    ],
)
def test_ids_of_others_are_refused(id: int, says: str) -> None:
    """2.3: an opaque input comes from the same backend."""
    foreign = replace(tensor(0, 4, 128), layout_type=LayoutType.opaque, layout_id=id, strides=None)
    with pytest.raises(InvalidArguments, match=says):
        relu().compile([foreign], [tensor(1, 4, 128)], ENGINE)
    with pytest.raises(InvalidArguments, match=says):
        Tensor(foreign, ENGINE)


def test_a_layout_for_other_dims_is_refused() -> None:
    with pytest.raises(InvalidArguments, match=r"layout \d+ is for 3 dims, tensor 0 has 2; use the layout id of a tensor with as many"):
        relu().compile([opaque(tensor(0, 4, 128), packed(3, 16, 1))], [tensor(1, 4, 128)], ENGINE)


def test_any_is_for_outputs() -> None:
    with pytest.raises(InvalidArguments, match="tensor 0: dims or layout of an input are unknown; give all dims and a strided or opaque"):
        relu().compile([opened(tensor(0, 4, 128))], [tensor(1, 4, 128)], ENGINE)


def test_execution_wants_the_layout_of_compile() -> None:
    blocks = opaque(tensor(0, 4, 128), packed(2, 64, 1))
    c = relu().compile([blocks], [tensor(1, 4, 128)], ENGINE)
    out = Tensor(tensor(1, 4, 128), ENGINE)
    strided = stored(tensor(0, 4, 128), data(0, 4, 128))
    with pytest.raises(InvalidArguments, match=r"tensor 0 is compiled as f32\[4, 128\] opaque\(\d+\), this one is f32\[4, 128\] strided"):
        c.execute(Stream(ENGINE), [strided], [out])
    with pytest.raises(InvalidArguments, match="tensor 0 is compiled as"):
        c.execute(Stream(ENGINE), [stored(opaque(tensor(0, 4, 128), packed(2, 32, 1)), data(0, 4, 128))], [out])


def test_memory_of_an_opaque_tensor_is_bytes() -> None:
    t = opaque(tensor(0, 4, 100), packed(2, 64, 1))
    assert t.get_mem_size() == 4 * 128 * 4
    memory = np.zeros(t.nbytes, np.uint8)
    assert Tensor(t, ENGINE, memory).array is memory
    for bad in (np.zeros((4, 100), np.float32), np.zeros(t.nbytes - 1, np.uint8), np.zeros(2 * t.nbytes, np.uint8)[::2]):
        with pytest.raises(InvalidArguments, match=f"array of shape .* for an opaque layout; give {t.nbytes} contiguous bytes"):
            Tensor(t, ENGINE, bad)


def test_a_plain_opaque_tensor_and_a_strided_one_are_the_same_memory() -> None:
    t = tensor(0, 4, 128)
    c = relu().compile([opaque(t, plain(2))], [opened(tensor(1, 4, 128))], ENGINE)
    (out,) = executed(c, [stored(t, data(0, 4, 128))], 1)
    np.testing.assert_array_equal(loaded(out), np.maximum(data(0, 4, 128), 0))


# ---- is_equal --------------------------------------------------------------------------------------------------------

T = tensor(0, 4, 128)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (T, opaque(T, plain(2)), True),
        (T, opaque(T, packed(2, 64, 1)), False),
        (T, opaque(T, packed(2, 128, 1)), True),
        (tensor(0, 1, 128), opaque(tensor(0, 1, 128), packed(2, 64, 1)), True),
        (opaque(T, Layout((1, 0))), replace(T, strides=(1, 4)), True),
        (opaque(T, Layout((1, 0))), T, False),
        (opaque(T, packed(2, 64, 1)), opaque(T, packed(2, 64, 1)), True),
        (opaque(T, packed(2, 64, 1)), opaque(T, packed(2, 32, 1)), False),
        (opaque(T, packed(2, 64, 1)), opaque(replace(T, id=1), packed(2, 64, 1)), False),
        (opened(T), opened(T), True),
        (opened(T), T, False),
        (opened(T), opaque(T, plain(2)), False),
        (T, replace(T, layout_type=LayoutType.opaque, layout_id=3, strides=None), False),
        (replace(T, layout_type=LayoutType.undef, strides=None), T, False),
    ],
)
def test_is_equal(a: LogicalTensor, b: LogicalTensor, equal: bool) -> None:
    """2.2: strided against opaque is equal where the elements lie in the same places; any and undef equal only themselves."""
    assert a.is_equal(b) is b.is_equal(a) is equal


# ---- the table -------------------------------------------------------------------------------------------------------


def test_threads_share_one_table() -> None:
    table = LayoutTable()
    wanted = [packed(2, 1 + k % 10, 1) for k in range(800)]
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(table.id, wanted))
    assert len(table) == len(set(ids)) == 10
    assert all(table.layout(id) == layout for id, layout in zip(ids, wanted, strict=True))


@pytest.mark.parametrize(("shape", "row_major"), [((4, 64), True), ((4, 128), False), ((1, 128), True), ((4, 50), False), ((1, 50), False)])
def test_layouts_equivalent_to_row_major_have_its_id(shape: Shape, row_major: bool) -> None:
    """The same physical layout, the same id: one block, or one row of blocks; 50 columns leave a gap after 64."""
    assert (layout_id(packed(2, 64, 1), shape) == LAYOUTS.id(plain(2))) is row_major
