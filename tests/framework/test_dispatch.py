"""Single ops by the real library, in layouts of its own, and by numpy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.layout import Layout
from benchgraph.framework import dispatch
from benchgraph.framework.counters import counted
from benchgraph.framework.dispatch import Backend, invoke
from benchgraph.framework.fallback import fallback_compute
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.request import OpReq
from benchgraph.framework.temp_space import TempSpace
from benchgraph.graph import Op, sample_graph
from benchgraph.ops import OPS as ROWS
from benchgraph.ops import call_of
from benchgraph.ops.spec import OpSpec, Sample
from benchgraph.reference import fill
from tests.framework import matrix
from tests.framework.matrix import LAYOUTS, OPS, Shape, data, inputs, outs

BLOCKS = Layout((0, 1, 2, 3), ((1, 8),))


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("shape", [(24, 48), (2, 19, 5, 6)])
def test_states_and_requests_by_the_library(shape: Shape, kind: str) -> None:
    """I2 with compiled code in the place of the matrix' stand-in: every state, every request, the library computing in blocks."""
    n, function = OPS[kind]
    layouts = (None, *LAYOUTS[shape])
    seen = 0
    for layout, build in product(layouts, inputs(shape)):
        ins = [build(data(shape, seed)) for seed in (0, 1)][:n]
        for build_out, req in product(outs(shape)[:: 5 if layout else 3], OpReq):
            old, out = data(shape, 2), build_out(data(shape, 2))
            around = None if out.parent is None else out.around()
            with counted() as c:
                invoke(Op(0, kind), [i.array for i in ins], [out.array], req, backend=Backend.offload, layout=layout)
            assert c.offloaded == 1
            result = function(*(data(shape, seed) for seed in (0, 1)[:n]))
            want = {OpReq.null: old, OpReq.add_to: old + result}.get(req, result)
            np.testing.assert_array_equal(out.array.numpy(), want)
            assert around is None or (out.around() == around).all()
            seen += out.array.is_opaque or any(i.array.is_opaque for i in ins)
    assert seen > 50


@pytest.mark.parametrize("layout", [None, Layout((1, 0)), Layout((1, 0), ((1, 8),))], ids=str)
@pytest.mark.parametrize("kind", OPS)
def test_in_place_by_the_library(kind: str, layout: Layout | None) -> None:
    """The library says which inputs it may overwrite; where layouts agree it gets the memory itself."""
    shape, (n, function) = (24, 48), OPS[kind]
    for build in inputs(shape):
        x, y = build(data(shape, 0)), build(data(shape, 1))
        with counted() as c:
            invoke(Op(0, kind), [x.array, y.array][:n], [x.array], OpReq.write_inplace, backend=Backend.offload, layout=layout)
        np.testing.assert_array_equal(x.array.numpy(), function(*[data(shape, 0), data(shape, 1)][:n]))
        np.testing.assert_array_equal(y.array.numpy(), data(shape, 1))
        assert c.copies_back <= 1


def test_the_memory_itself_is_overwritten_where_layouts_agree() -> None:
    x = NDArray.of(data((24, 48), 0), layout=LAYOUTS[(24, 48)][1])
    with counted() as c:
        invoke(Op(0, "ReLU"), [x], [x], OpReq.write_inplace, layout=LAYOUTS[(24, 48)][1])
    assert (c.copies_back, c.reorders, c.temp_bytes) == (0, 0, 0)


@pytest.mark.parametrize("channels", range(1, 18))
def test_padded_channels(channels: int) -> None:
    """I15 (B13): blocks of 8 that the channels do not fill, poison in the rest, through ops that go along and across the blocks."""
    shape = (2, channels, 3, 5)
    x, y = (matrix.poisoned(NDArray.of(data(shape, seed), layout=BLOCKS)) for seed in (0, 1))
    both = np.concatenate([data(shape, 0), data(shape, 1)], axis=1)
    joined = NDArray.empty((2, 2 * channels, 3, 5))
    invoke(Op(0, "Concat", Attrs(axis=1)), [x, y], [joined], layout=BLOCKS)
    np.testing.assert_array_equal(joined.numpy(), both)
    total = NDArray.empty(shape)
    invoke(Op(0, "Add"), [x, y], [total], layout=BLOCKS)
    np.testing.assert_array_equal(total.numpy(), data(shape, 0) + data(shape, 1))
    shares = NDArray.empty(shape)
    invoke(Op(0, "SoftMax", Attrs(axis=1)), [x], [shares], layout=BLOCKS)
    np.testing.assert_allclose(shares.numpy().sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(joined.slice(1, 2).numpy(), both[1:2])


def test_memory_grows_for_padded_blocks_and_a_reused_one_does_not() -> None:
    """R3: 3 channels in blocks of 8 need more memory than the array has; where others share it, the result is copied instead."""
    values = data((24, 3, 4, 4), 0)
    x, own = NDArray.of(values), NDArray.empty(values.shape)
    reused = NDArray.empty((1152,)).as_array(values.shape, DType.f32)
    for out, copies in ((own, 0), (reused, 1)):
        with counted() as c:
            invoke(Op(0, "ReLU"), [x], [out], layout=BLOCKS)
        assert c.copies_back == copies
        assert out.is_opaque is (copies == 0)
        np.testing.assert_array_equal(out.numpy(), np.maximum(values, 0))


# ---- every op --------------------------------------------------------------------------------------------------------


def samples() -> list[pytest.ParameterSet]:
    rows = [row for row in ROWS.values() if row.schema.outputs and not row.schema.variadic_outputs and not row.lowering.unsupported]
    return [pytest.param(row, row.testing.samples[0], id=row.kind) for row in rows]


@pytest.mark.parametrize(("row", "sample"), samples())
def test_every_op_by_numpy_is_the_op_tables_reference(row: OpSpec, sample: Sample) -> None:
    """I11: on arrays in blocks where they have two dims; dtypes are those of the sample."""
    g, call = sample_graph(row, sample), call_of(row.kind, sample)
    values, ins = fill(g, seed=1), []
    for t in g.ops[0].inputs:
        fits = t.ndims >= 2 and 0 not in t.known_shape and not t.dtype.is_packed
        layout = Layout((1, 0, *range(2, t.ndims)), ((1, 4),)) if fits else None
        ins.append(NDArray.of(values[t.id], t.dtype, f"tensor {t.id}", layout))
    dst = [NDArray.empty(t.shape, t.dtype, f"output {k}") for k, t in enumerate(call.outs)]
    want = row.semantics.reference(call, tuple(_exact(a.numpy()) for a in ins))
    invoke(Op(0, row.kind, sample.attrs), ins, dst, backend=Backend.fallback)
    for a, w in zip(dst, want, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_array_equal(a.numpy(), w.astype(a.dtype.numpy))


def test_numpy_runs_what_the_library_has_no_code_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is kept for the report; offload alone refuses. (There is no such op in the table: the refusal is made.)"""

    def refuse(*_: object) -> None:
        raise Unimplemented("no code for it", where="compile")

    monkeypatch.setattr(dispatch, "Kernel", refuse)
    x, y = NDArray.of(data((4, 6), 0), name="x"), NDArray.empty((4, 6), name="y")
    with pytest.raises(Unimplemented, match="no code for it"):
        invoke(Op(0, "ReLU"), [x], [y], backend=Backend.offload)
    with counted() as c:
        invoke(Op(0, "ReLU"), [x], [y])
    assert c.fallbacks == {"op 0: ReLU": "no code for it"}
    np.testing.assert_array_equal(y.numpy(), np.maximum(data((4, 6), 0), 0))


@pytest.mark.parametrize("out", [0, 1])
def test_results_that_are_the_inputs_themselves(out: int) -> None:
    """A kernel that returns its inputs' memory: the first output is written over what the second one is."""
    a, b = NDArray.of(data((2, 3), 0), name="a"), NDArray.of(data((2, 3), 1), name="b")
    with TempSpace().op("swap") as scope:
        fallback_compute(Op(0, "swap"), [a, b], [a, b], [OpReq.write_inplace] * 2, scope, lambda ins: (ins[1], ins[0]))
    np.testing.assert_array_equal((a, b)[out].numpy(), data((2, 3), 1 - out))


def _exact(a: np.ndarray) -> np.ndarray:
    return a if a.dtype.kind in "biu" else a.astype(np.float64)
