"""Lines as they stand in benchdnn's documentation and batch files, for drivers of one primitive: they are read, built or skipped, and run.

Numbers behind a line: its cases, and those that are skipped with a reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.options.argv import parse
from benchgraph.options.problem import CannotExpress
from benchgraph.options.repro import split_quoted

LINES: dict[str, list[tuple[str, int, int]]] = {
    "ip": [
        ('--dir=FWD_B,BWD_D,BWD_W --dt=bf16 mb112ic2048oc1000n"x"', 3, 0),
        (
            '--dir=BWD_D --attr-scales=dst:common:2.25* --attr-post-ops=sum:0.5+tanh mb112ic2048_ih1iw1_oc1000_n"resnet:ip1"',
            1,
            1,
        ),
        ('--dir=FWD_B,BWD_D,BWD_WB mb2ic1024_ih1iw1_oc1000n"googlenet_v1:loss3/classifier*1"', 3, 0),
        ("--dir=FWD_B --stag=any,axb --wtag=any,axb --dtag=any mb2ic16ih3iw3oc32", 4, 0),
        ('--cfg=u8s8u8,u8s8s32 --dir=FWD_I ic256ih6oc4096n"alexnet:fc6"', 2, 1),
        ("--dt=s8:s8:f32,u8:s8:s8 --dir=FWD_D --attr-scales=src:common:0.25+wei:per_oc ic64ih4oc10", 2, 0),
        ("--mb=0,3 --dir=FWD_D --attr-post-ops=,relu:0.5,gelu_tanh,add:f32:per_oc,linear:2:1 ic64oc2", 10, 2),
        ("--dt=f32 --dir=FWD_D --attr-fpmath=strict,bf16,tf32 mb16ic32oc64", 3, 0),
        ("--dt=bf16:bf16:f32,f32:bf16:bf16,f64 --dir=BWD_W --skip-impl=ref mb3ic5id2ih3iw4oc7", 3, 1),
        ('--stag=nchw,nhwc --wtag=oihw,ohwi --dtag=ab mb2ic512ih7oc4096n"vgg16:fc6"', 4, 0),
    ],
    "pool": [
        ("--alg=max,avg_np,avg_p --dir=FWD_I,BWD_D --tag=abx,axb ic64_iw32ow16_kw3_sw2_pw0", 12, 0),
        (
            "--dt=f32 --tag=nChw8c,nChw16c --dir=FWD_D,FWD_I,BWD_D --alg=max,avg_np,avg_p --mb=0,5"
            ' mb96ic768_ih17oh17_kh3sh1ph1n"googlenet_v3:ave_pool_mixed_4_pool"',
            36,
            36,
        ),
        ('--alg=max --dir=FWD_D,BWD_D ic64_ih112oh56_kh3sh2_ph0n"resnet_50:pool1"', 2, 0),
        ('--alg=avg_np ic2048_ih7oh1_kh7sh1_ph0n"resnet_50:pool5"', 1, 0),
        ("--alg=pooling_max,pooling_avg_include_padding --dt=bf16,f16 ic16_id8od4_kd2sd2_pd0", 4, 0),
        ("--dt=s8:s8,u8:u8,s8:f32,s32 --dir=FWD_I --tag=axb ic32_ih14oh7_kh2sh2_ph0", 4, 1),
        ("--alg=MAX,AVG_P --dir=FWD_D ic16_ih20oh8_kh4sh2ph0_dh1_iw20ow8_kw4sw2pw0_dw1", 2, 1),
        ("--alg=max,avg_np --dir=FWD_I --attr-post-ops=add:f32:per_oc,mul:f32:common+relu mb2ic16_ih10oh5kh3sh2ph1", 4, 0),
        ("--alg=avg_p --inplace=true --attr-scratchpad=user ic17ih5iw7oh3ow4kh2kw1sh2sw2ph0pw0", 1, 0),
        ('--mb=2 --dir=BWD_D --alg=avg_np,avg_p mb128_ic3_id4ih6iw5_od2oh6ow5_kd2kh3kw3_sd2sh1sw1_pd0ph1pw1_n"3d"', 2, 0),
    ],
    "bnorm": [
        ("--dir=FWD_D,BWD_DW --tag=abx,axb --flags=,S,G,SC mb96_ic64_ih112iw112", 16, 4),
        (
            "--dt=f32 --skip-impl=ref --tag=nChw8c,nChw16c --dir=FWD_D,BWD_D,BWD_DW --flags=SR,GS,S"
            ' mb96_ic192_ih71iw71_n"googlenet_v3:conv_4_4_batchnorm"',
            18,
            18,
        ),
        ("--dt=s8 --tag=ndhwc --dir=FWD_I --flags=GSR mb2_ic16_id4ih6iw6", 1, 0),
        ("--dir=FWD_I --flags=GCH,GCHR --inplace=true,false ic64ih56", 2, 0),
        ("--dt=bf16,f16 --dir=FWD_D,BWD_DW --flags=CH mb2ic32ih8", 4, 0),
        ("--dir=FWD_D,BWD_D --flags=CHA --tag=axb mb2ic16ih14eps0.001", 2, 0),
        ("--flags=,C,H,CH --check-alg=alg_1 --debug-check-ws=true mb4ic15", 4, 0),
        ('--mb=1 --dir=FWD_D --attr-post-ops=relu ic256ih14n"resnet_50:res4a"', 1, 0),
        ("--strides=,1024x64x8x1:1024x64x8x1 --tag=abx --flags=CH --dir=FWD_I mb2ic16ih8iw8", 2, 0),
        ("--dir=FWD_D --tag=ncw,nwc,abx,axb,any ic16iw9", 5, 0),
    ],
    "lnorm": [
        ("--dt=f32 --tag=tnc,ntc --stat_tag=tn,nt --dir=FWD_D,BWD_DW --flags=GCH,CH 8x32x1024", 16, 8),
        ("--dt=bf16:f32 --tag=tnc,ntc --stat_tag=tn,nt --dir=FWD_D,BWD_DW --flags=GCH,CH 8x32x1024", 16, 8),
        ("--dir=FWD_I --flags=M,CM 4x64", 2, 0),
        ("--flags=,C,H,CH --dir=FWD_D,BWD_D,BWD_DW 2x7x33", 12, 0),
        ("--ss_dt=f32,bf16,f16 --dt=bf16,f16 --flags=CH --dir=FWD_D,BWD_DW 3x5x16", 12, 0),
        ("--tag=abx:any,abx:abx,axb:axb --inplace=false 2x3x4x5", 3, 0),
        ("--dt=f32:s8,bf16:u8,s8:f32 --attr-scales=src:common:0.5*+dst:common:2* --dir=FWD_I 6x64", 3, 3),
        ("--dt=s8:u8 --attr-scales=src:common:0.5+dst:common:2 --dir=FWD_I --flags=CH 6x64", 1, 0),
        ("--dir=FWD_I --attr-post-ops=relu,add:f32:per_tensor,mul:f32:common --flags=CH 2x3x17", 3, 0),
        ('--stat_tag=any --tag=abx --flags=G --dir=FWD_I,BWD_D 128x768_n"bert"', 2, 2),
    ],
    "gnorm": [
        ('--dt=f32 --tag=abc,acb --dir=FWD_D,BWD_DW --flags=GCH,CH g5ic5iw10_n"gnorm_test_shape"', 8, 6),
        ('--dt=bf16:f32 --tag=abc,acb --dir=FWD_D,BWD_DW --flags=GCH,CH g5ic5iw10_n"gnorm_test_shape"', 8, 6),
        ("--dir=FWD_D,FWD_I --flags=,C,H,CH g32ic64ih14iw14", 8, 0),
        ("--tag=abx,axb,axb:any,abx:axb --flags=CH g4mb2ic16ih7", 4, 0),
        ("--dt=bf16,f16,f32:bf16 --dir=FWD_I --flags=CH g2ic16id3ih4iw5", 3, 0),
        ("--dir=FWD_I --dt=f32:s8 --attr-scales=dst:common:0.5 --flags=CH g2ic16iw7", 1, 0),
        ("--inplace=true,false --skip-impl=ref --flags=CH g8mb1ic32ih8eps0.00001", 1, 0),
        ("--attr-post-ops=relu,swish:1,add:f32:per_oc,linear:2:1 --dir=FWD_I g2ic8ih5", 4, 1),
        ("--mb=0,1,3 --dir=FWD_D g2ic8", 3, 0),
        ('--dir=BWD_D,BWD_DW g16ic16ih8_n"instance_norm"', 2, 2),
    ],
    "deconv": [
        ('--dir=FWD_B,BWD_D,BWD_WB --dt=f32 mb2_ic64oc32_ih14oh28kh4sh2ph1_n"up"', 3, 0),
        ("--dir=FWD_B,FWD_D --alg=direct --stag=any,axb --dtag=any,axb mb2ic16ih5oc8oh7kh3ph0", 8, 0),
        ("--dir=FWD_B --attr-post-ops=,sum:0.5,linear:2:1,add:f32,prelu:per_oc,mul:s8:per_oc+relu ic6ih5oc4oh11kh3sh2ph0", 6, 2),
        ("--dir=FWD_I --dt=s8:s8:f32,s8:s8:s32,u8:s8:u8 --attr-scales=,src:common:0.25,wei:per_oc ic16ih5oc8kh3", 9, 3),
        ("--dir=FWD_I --dt=u8:s8:u8 --attr-zero-points=,src:common:31+dst:common:15 ic16ih5oc8kh3", 2, 0),
        ("--dt=f64,f32,f16,bf16:bf16:u8 --dir=BWD_D,BWD_W,BWD_WB ic4ih5oc4oh9kh3sh2ph1", 12, 3),
        ("--alg=wino,deconvolution_direct --dir=FWD_D ic4ih5oc4oh5kh3ph1", 2, 1),
        ("--dir=FWD_D --attr-fpmath=bf16,tf32 --stag=any,axb --dtag=any,axb ic4ih5oc6kh3", 8, 0),
        ("--dir=FWD_D,BWD_D g4mb1ic4iw7oc4ow14kw4sw2pw1dw0", 2, 0),
        ('--mb=1 --skip-impl=ref,x64:gemm g1_mb2_ic6id3ih3iw3_oc5od5oh5ow5_kd3kh3kw3_sd1sh1sw1_pd0ph0pw0_dd0dh0dw0_n"3d"', 1, 0),
    ],
}


def batch(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "lines"
    path.write_text("\n".join(f"--reset {line}" for line in lines))
    return f"--batch={path}"


@pytest.mark.parametrize("driver", LINES)
def test_a_line_is_read_and_its_cases_are_built_or_skipped(driver: str, tmp_path: Path) -> None:
    assert len(LINES[driver]) >= 10
    for line, count, skipped in LINES[driver]:
        found = parse([f"--{driver}", batch(tmp_path, line)]).problems
        refused = 0
        for problem in found:
            (again,) = parse(split_quoted(problem.repro)).problems
            assert again.knobs == problem.knobs, problem.repro
            try:
                assert problem.graph().ops
            except CannotExpress:
                refused += 1
        assert (len(found), refused) == (count, skipped), line


SMALL = {"ip": (5, 8), "pool": (7,), "bnorm": (6,), "lnorm": (2, 5), "gnorm": (4, 5), "deconv": (4, 8)}


@pytest.mark.parametrize("driver", SMALL)
def test_lines_of_small_problems_run(driver: str, tmp_path: Path) -> None:
    lines = [LINES[driver][i] for i in SMALL[driver]]
    done = CliRunner().invoke(main, [f"--{driver}", batch(tmp_path, *(line for line, _, _ in lines))])
    skipped = sum(skipped for _, _, skipped in lines)
    total = sum(count for _, count, _ in lines)
    assert f"tests:{total} passed:{total - skipped} skipped:{skipped} " in done.output, done.output
