"""Executing a compiled partition through the programming model: the way there runs a few functions of ours, and none of numpy's."""

from __future__ import annotations

import numpy as np

from benchgraph import DType, Engine, Graph, LogicalTensor, Op, Stream, Tensor
from tests.support.call_trace import python_calls

SRC, WEI = LogicalTensor(0, DType.f32, (5, 16)), LogicalTensor(1, DType.f32, (16, 9))
ACC, DST = LogicalTensor(2, DType.f32, (5, 9)), LogicalTensor(3, DType.f32, (5, 9))
ENGINE = Engine()


def test_execute_runs_no_numpy() -> None:
    """The last thing that runs is the native call of tests/runtime/test_executable.py; nothing before it is numpy's."""
    g = Graph()
    g.add_op(Op(0, "MatMul", inputs=[SRC, WEI], outputs=[ACC]))
    g.add_op(Op(1, "ReLU", inputs=[ACC], outputs=[DST]))
    g.finalize()
    (partition,) = g.get_partitions()
    compiled = partition.compile([SRC, WEI], [DST], ENGINE)
    rng = np.random.default_rng(0)
    src, wei = rng.random((5, 16), np.float32) - 0.5, rng.random((16, 9), np.float32)
    stream, ins, out = Stream(ENGINE), [Tensor(SRC, ENGINE, src), Tensor(WEI, ENGINE, wei)], Tensor(DST, ENGINE)
    compiled.execute(stream, ins, [out])
    out.array[...] = np.nan
    seen = python_calls(lambda: compiled.execute(stream, ins, [out]))
    np.testing.assert_allclose(out.array, np.maximum(src @ wei, 0), rtol=1e-5, atol=1e-6)
    assert seen[-1] == "benchgraph.runtime.executable.Bound.__call__"
    homes = {name.partition(".")[0] for name in seen}
    assert homes <= {"benchgraph", "builtins", "collections", "_thread", "tests"}


def test_the_list_would_show_numpy() -> None:
    """Functions of numpy by name; what `+` does on an array shows nowhere, hence the look into the code of Bound.__call__."""
    seen = python_calls(lambda: np.median(np.zeros(3)))
    assert any(name.startswith("numpy.") for name in seen)
