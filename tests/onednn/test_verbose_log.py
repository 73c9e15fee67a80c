"""oneDNN's verbose log, as several versions write it."""

from __future__ import annotations

import pytest

from benchgraph.onednn import verbose_log
from benchgraph.onednn.library import OneDnn
from benchgraph.partition.ir import Policy
from tests.onednn.graphs import line

LINES = {
    "3.2": "onednn_verbose,create:cache_miss,cpu,matmul,brg:avx512_core,undef,src_f32:a:blocked:ab::f0,attr-scratchpad:user ,,4x8:8x2,0.1",
    "3.9": "onednn_verbose,v1,primitive,create:cache_hit,cpu,reorder,jit:uni,undef,src:f32::blocked:ab::f0,,,13x512,0.09",
}


def test_names_of_created_primitives_are_read() -> None:
    assert list(verbose_log.created(LINES.values())) == [("matmul", "brg:avx512_core"), ("reorder", "jit:uni")]


@pytest.mark.parametrize(
    "other",
    [
        "",
        "onednn_verbose",
        "onednn_verbose,v1,primitive,exec,cpu,matmul,brg:avx512_core,undef,src:f32",
        "onednn_verbose,v1,primitive,create_nested:cache_miss,cpu,matmul,brg:avx512_core,undef",
        "onednn_verbose,v1,primitive,create:dispatch,matmul,cpu,matmul,brg:avx512_core,undef,unsupported,x.cpp:12",
        "onednn_verbose,v1,graph,compile:cache_miss,cpu,1,matmul_post_ops,MatMul,,in0_f32:0",
        "onednn_verbose,v1,info,oneDNN v3.9.1 (commit 0)",
        "what a program prints, too",
    ],
)
def test_other_lines_are_left_out(other: str) -> None:
    assert list(verbose_log.created([other])) == []


def test_rejected_implementations_are_read_with_their_reasons() -> None:
    line = (
        "onednn_verbose,v1,primitive,create:dispatch,reduction,cpu,reduction,jit:avx10_1_512,undef,src:f32::blocked:abcd::f0,"
        "attr-scratchpad:user,alg:reduction_max p:0 eps:0,1x128x150x150:1x1x150x150,dimensionality reduction not possible,src/cpu/x.cpp:143"
    )
    assert list(verbose_log.rejected([line, *LINES.values()])) == [
        ("reduction", "jit:avx10_1_512", "dimensionality reduction not possible")
    ]


def test_a_compiled_partition_knows_its_implementations(real: OneDnn, capfd: pytest.CaptureFixture[str]) -> None:
    (partition,) = real.partitions(line("ReLU"), Policy.fused)
    compiled = real.compile(partition)
    assert [i.primitive for i in compiled.implementations] == ["eltwise"]
    assert capfd.readouterr().out == ""
