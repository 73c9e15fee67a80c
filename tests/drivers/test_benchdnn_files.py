"""Parts of benchdnn's documentation and input files, whose options hold from line to line, for drivers of several tensors.

Long lists of alternatives are shortened, and hashes in names. What no op means among alternatives (s32, blocks) is skipped, but some case
of every descriptor has a graph, and runs if it is small.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.graph import Graph
from benchgraph.options.argv import parse
from benchgraph.options.batch import tokenize
from benchgraph.options.problem import CannotExpress, Problem

LINES = {
    "concat": """
        --reset --sdt=bf16,f32 --ddt=f32 --stag=nChw16c:nChw16c,nchw:nchw --dtag=undef 16x16x16x16:16x32x16x16
        --reset --sdt=s32,s8 --ddt=u8 --stag=nhwc:nhwc:nhwc --dtag=nhwc --axis=2 8x8x3x5:8x8x7x5:8x8x0x5
        --reset --sdt=f32 --ddt=f32 --stag=nchw:nchw --dtag=nchw 16x16x16x16:16x32x16x16
        --reset --dtag=undef,any,abx,axb --stag=abx:abx,axb:axb --axis=1 2x16x3x4:2x16x3x4 3x5x5x17:3x4x5x17
        --reset --stag=abx:abx,axb:axb --axis=0 32x4x5x17:16x4x5x17 1x16x3x4:2x16x3x4
        --reset --stag=abx:abx:abx,axb:axb:axb --axis=1 6x48x3x4x5:6x32x3x4x5:6x16x3x4x5
        --reset --attr-scales=,msrc0:common:1.5,msrc0:common:1.5+msrc1:common:2.5 --stag=axb:axb:axb 6x48x3x4x5:6x31x3x4x5:6x16x3x4x5
        --reset --allow-enum-tags-only=0 --axis=0 --sdt=bf16 --ddt=bf16 --stag=abcd:abcd --dtag=abcd 1x23x72x72:1x23x72x72_n"f99eaa52*2"
        --reset --allow-enum-tags-only=0 --axis=1 --sdt=bf16 --ddt=bf16 --stag=ab:ab --dtag=ab 65536x1:65536x1_n"f74d88a1*8"
        --reset --allow-enum-tags-only=0 --axis=1 --sdt=bf16 --ddt=bf16 --stag=acdb:acdb:acdb --dtag=acdb 4x56x10x16:4x56x10x16:4x56x10x16
    """,
    "sum": """
        --reset --sdt=s8:s8:u8 --ddt=s32,f32 --stag=nhwc:nhwc:nhwc --dtag=nhwc --scales=2:4:1 16x16x3x5
        --reset --sdt=bf16:bf16,f32:f32 --ddt=f32 --stag=nChw16c:nChw16c,nchw:nchw --dtag=undef 16x16x16x16
        --reset --sdt=f32:f32,f32:s8,f32:u8,s8:u8 --ddt=f32,s8,u8 --dtag=undef,nchw,nhwc --stag=nhwc:nhwc 4x4x2x16 5x5x1x15
        --reset --ddt=f32,bf16 --sdt=bf16:bf16 --dtag=undef,nchw --stag=nchw:nchw 3x3x16x4
        --reset --ddt=f32,bf16 --sdt=bf16:bf16:bf16 --dtag=undef,ncdhw,ndhwc --stag=ncdhw:ndhwc:ncdhw --scales=2:0.25:0.5 16x2x6x4x3
        --reset --allow-enum-tags-only=0 --sdt=f32:f32:f32:f32 --ddt=f32 --stag=ab:ab:ab:ab --dtag=ab 256x1n"*4"
        --reset --allow-enum-tags-only=0 --sdt=f32:f32 --ddt=f32 --stag=acdeb:acdeb --dtag=acdeb 256x1x25x25x25n"*2"
        --reset --allow-enum-tags-only=0 --sdt=f32:f32 --ddt=f32 --stag=abcde:abcde --dtag=abcde 256x1x14x9x6n"*26"
        --reset --allow-enum-tags-only=0 --sdt=bf16:bf16:bf16:bf16:bf16 --ddt=bf16 --stag=ab:ab:ab:ab:ab --dtag=ab 128x200n"*254"
        --reset --allow-enum-tags-only=0 --sdt=bf16:bf16 --ddt=bf16 --stag=ab:ab --dtag=ab 64x179n"*22"
    """,
    "prelu": """
        --dir=BWD_DW --stag=abx:abx --sdt=f32:f32 256x128x7x7:1x128x1x1
        --dir=FWD_D,BWD_DW --sdt=f32:f32,bf16:bf16 --stag=abx:any,axb:any,abx:abx,axb:axb 3:3
        3:1
        3x64:3x64
        3x64x8:1x64x1
        3x64x8:3x1x8
        4x16x3x4:1x16x1x1_n"preli_ci_2d:1"
        4x16x3x4:4x1x1x4_n"preli_ci_2d:3"
        2x7x5x3x2:1x7x1x1x1
        2x7x5x3x2:2x1x5x1x2
    """,
    "resampling": """
        --sdt=f32 --ddt=f32 --tag=nChw8c,nhwc --dir=FWD_D,BWD_D --alg=nearest,linear --mb=2 mb96ic768_ih17oh34
        --reset --mb=2 --tag=abx,axb --alg=nearest,linear --dir=FWD_D --sdt=f32 --ddt=f32,s8 mb16ic64_iw32ow64
        mb4ic17_iw21ow17
        mb3ic16_ih3oh5_iw11ow11_n"resampling_ci_2d:0"
        mb4ic17_ih7oh6_iw14ow12_n"resampling_ci_2d:2"
        --dir=BWD_D --sdt=bf16 --ddt=bf16 mb2ic8_id2od4_ih8oh4_iw6ow12
        mb2ic9_id3od2_ih8oh5_iw7ow12
        --reset --allow-enum-tags-only=0 --dir=FWD_D --alg=nearest --sdt=f16 --ddt=f16 --tag=acdb mb2ic1280_ih8oh16_iw8ow16n"*1"
        --reset --allow-enum-tags-only=0 --dir=BWD_D --alg=linear --sdt=bf16 --ddt=bf16 --tag=acdb mb4ic56_ih10oh20_iw16ow32n"*3"
        --reset --allow-enum-tags-only=0 --dir=FWD_D --alg=linear --sdt=f32 --ddt=f32 --tag=acdb mb4ic48_ih20oh40_iw32ow64n"*3"
    """,
    "shuffle": """
        --dir=FWD_D --dt=f32,s32,s8,u8,bf16 --tag=nchw --group=4 --axis=2 1x68x56x56
        --reset --dir=FWD_D --dt=f32,s32,s8,u8 --tag=nchw,nhwc --group=4 --axis=1,2 1x68x56x56
        --dt=f32,s32,s8,u8 --tag=nchw,nhwc,nChw8c --group=4 --axis=1,2 1x136x56x56
        --dt=f32 --tag=ncdhw,ndhwc,nCdhw8c,nCdhw16c --group=4 --axis=1,3,4 1x272x2x56x56
        --dir=BWD_D --dt=f32 --tag=nchw,nhwc,nChw8c,nChw16c --group=4 --axis=1,2 1x272x56x56
        --reset --group=4 --dt=bf16 --dir=FWD_D --tag=abx,axb,aBx16b --axis=1 1x12x56x56 1x24x56x56 1x36x56x56 1x68x56x56
        --axis=1,2 1x68x56x56
        --dir=BWD_D --axis=1 1x12x56x56 1x24x56x56
        --reset --dt=f16 --dir=FWD_D --tag=abx,axb --axis=1 --group=4 1x12x56x56
        --dt=u8 --tag=ndhwc --axis=3 --group=4 1x272x2x56x56
    """,
    "sdpa": """
        --dt=f16 --mask_type=causal_top_left 1x12x128x64:1x12x64x128:1x12x128x64
        --dt=f16:f16:f16:f32 --scale_type=div 2x8x32x64:2x8x64x32:2x8x32x64
        --reset --dt=f16,bf16 1x1x4x8:1x1x8x4:1x1x4x8nSmall-D8
        --reset --mask=buffer_1d --dt=f16 1x4x32x64:1x2x64x32:1x2x32x64nGqa-H4-D64-S32
        --reset --dir=FWD_D --dt=bf16 2x8x64x64:2x8x64x64:2x8x64x64
        --reset --allow-enum-tags-only=0 --mask=causal:top_left --dt=bf16 --qtag=abcd --ktag=abcd --vtag=abcd --dtag=abcd
            4x16x128x128:4x16x128x128:4x16x128x128
        --reset --dt=f16 --dtag=acbd 1x8x1x32:1x2x32x6:1x2x6x3
        --reset --dt=f16 --mdt=f16 --mask=buffer --qtag=acbd --dtag=acbd 1x8x1x32:1x2x32x6:1x2x6x3
        --reset --dt=f16 --mask=causal_bottom_right --ktag=abdc 1x8x1x32:1x2x32x6:1x2x6x32
        --reset --dt=bf16 --qtag=acbd --dtag=acbd --scale=mul 1x32x1x128:1x8x128x68:1x8x68x128
    """,
    "gated_mlp": """
        --dt=f32:u4:u4:u4:f32 --attr-scales=wei:per_dim_1:f32+wei_up:per_dim_1:f32+wei_down:per_dim_1:f32 64x128x256
        --reset --dt=f32:u4:u4:u4:f32
            --attr-scales=wei:per_dim_01:f32:32x1+wei_up:per_dim_01:f32:32x1+wei_down:per_dim_01:f32:32x1
            --attr-zero-points=wei:per_dim_01:s4:32x1+wei_up:per_dim_01:s4:32x1+wei_down:per_dim_01:s4:32x1 64x128x256
        --reset --dt=f16 --activation=gelu_erf 64x128x256
        --reset --dt=f32,f16,bf16 --activation=swish,gelu_erf,gelu_tanh 32x32x32
        64x64x128
        32x128x32
        --reset --stag=abc --wtag=cab --dtag=abc 32x128x32
        --reset --dt=f16:u4:u4:u4:f16 --stag=ab --wtag=ba --dtag=ab --attr-fpmath=any:true
            --attr-scales=wei:per_dim_01:f16:128x1+wei_up:per_dim_01:f16:128x1+wei_down:per_dim_01:f16:128x1 64x128x4864
        --attr-scales=src:common:0.125+wei:per_dim_01:f16:128x1+wei_up:per_dim_01:f16:128x1+wei_down:per_dim_01:f16:128x1
            --dt=s8:u4:u4:u4:f16 64x128x256
        --attr-post-ops=binary_add:f16:2:ab 64x128x256
    """,
    "matmul": """
        --wtag=any,abc,acb --dt=bf16:s8:bf16,bf16:u8:bf16
        --attr-scales=wei:per_ocic:bf16:2x1 --attr-zero-points=,wei:per_ocic:u8:4x1
        --attr-fpmath=bf16:true 1x5x12:1x12x17 3x5x12:3x12x17 3x5x12:1x12x17
        --reset --dt=f32:s8:f32 --attr-fpmath=f16:true --attr-scales=wei:common:2,wei:per_oc,wei:per_ocic:f16
        --attr-zero-points=,wei:common:2,wei:per_oc,wei:per_ocic:s8 77x133:133x117 15x24x16:15x16x32 7x16x24x8:7x16x8x24
        --reset --dt=bf16:s4:bf16,bf16:u4:bf16 --wtag=any,abc,acb --attr-scales=wei:common:2,wei:per_oc:bf16,wei:per_ocic:bf16:32x1
        --attr-zero-points=wei:common:1:u8,wei:per_oc:u4,wei:per_ocic:s4,wei:per_ocic:s4:32x1 --attr-fpmath=bf16:true
        7x24x32:7x32x64 7x25x32:1x32x65 3x96x96:3x96x64 3x14x96:1x96x77
        --reset --wtag=any,ab,ba --dt=s8:s8:f16 --attr-scales=src:common:0.5:f32+wei:per_oc:f16 6x384:384x100
        --wtag=any,ab,ba --dt=s8:s4:f16 --attr-zero-points=wei:per_ocic:s4:128x1
        --attr-scales=src:per_oc:f16:1x32+wei:per_ocic:f16:128x1,src:per_ocic:f16:1x256+wei:per_ocic:f16:128x1 4x256:256x64 6x256:256x100
    """,
}


MOST = 220_000  # elements of what is run; of larger ones the graph is made


def problems(driver: str) -> list[Problem]:
    return list(parse([f"--{driver}", *(word.text for word in tokenize(LINES[driver], driver))]).problems)


@pytest.mark.parametrize("driver", LINES)
def test_some_case_of_every_descriptor_runs(driver: str, tmp_path: Path) -> None:
    expressed, chosen = dict[str, Graph](), list[str]()
    for problem in problems(driver):
        case = str(problem.knobs.case)
        try:
            graph = problem.graph()
        except CannotExpress:
            continue
        if case not in expressed and sum(prod(t.known_shape) for t in graph.inputs) <= MOST:
            chosen.append(problem.repro)
        expressed.setdefault(case, graph)
    assert chosen
    assert set(expressed) == {str(problem.knobs.case) for problem in problems(driver)}
    batch = tmp_path / "batch"
    batch.write_text("".join(f"--reset {line}\n" for line in chosen))
    done = CliRunner().invoke(main, [f"--batch={batch}"])
    assert f"tests:{len(chosen)} passed:{len(chosen)} " in done.output, done.output
