"""What benchdnn's primitive drivers take is taken, skipped with a reason, or announced as without effect; never an unknown option."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.errors import InvalidArguments, UsageError
from benchgraph.options.argv import parse
from benchgraph.options.problem import CannotExpress
from tests.drivers.problems import graph, kinds, problem
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

SHAPES = {
    "matmul": "4x8:8x6",
    "conv": "mb2_ic4oc6_ih8oh8kh3ph1",
    "deconv": "mb2_ic4oc6_ih8oh8kh3ph1",
    "ip": "mb2_ic4ih3iw2_oc6",
    "pool": "mb2_ic4_ih8oh8kh3ph1",
    "bnorm": "mb2_ic4ih8iw8",
    "lnorm": "4x8",
    "gnorm": "g2_mb2_ic4ih8iw8",
    "softmax": "4x8",
    "eltwise": "4x8",
    "binary": "4x8:4x8",
    "reduction": "4x8:1x8",
    "reorder": "4x8x3",
    "concat": "4x8:4x6",
    "sum": "4x8",
    "prelu": "4x8:1x8",
    "shuffle": "4x8",
    "sdpa": "1x2x4x8:1x2x8x6:1x2x6x4",
    "gated_mlp": "4x8x6",
    "resampling": "mb2ic4_ih8oh5",
}
ALL = tuple(SHAPES)

# options, for which drivers; what is made of them: '' for a graph, else the reason for which the case is skipped
TAKEN = [
    ("--attr-fpmath=strict,bf16:true,f16,tf32:0,any", ALL),
    ("--attr-dropout=0,0:7:any --attr-rounding-mode=dst:environment,src:environment+dst:environment", ALL),
    ("--attr-scales= --attr-zero-points= --attr-post-ops= --attr-dropout= --attr-precomputed-reductions=", ALL),
    ("--attr-scales=src:common:1+dst:0:1 --attr-zero-points=dst:common:0", ALL),
    ("--strides=::, --bia_mask=2,3 --runtime_dims_masks=,0,0:0 --encoding=,:: --grouped=", ("matmul",)),
    ("--strides=8x1:6x1:6x1,16x2::,:1x8:,::1x4", ("matmul",)),
    ("--cfg=f32,bf16bf16f32,u8s8u8,s8s8f32,bf16f32bf16", ("matmul", "conv")),
    ("--dir=FWD_B,FWD_D,FWD_I,BWD_D,BWD_W,BWD_WB --alg=DIRECT,auto", ("conv",)),
    ("--strides=256x64x8x1::,:36x9x3x1:384x64x8x1", ("conv",)),
    ("--dir=FWD_B,FWD_D,FWD_I,BWD_D,BWD_W,BWD_WB --cfg=f32,u8s8f32,bf16bf16bf16", ("deconv", "ip")),
    ("--alg=DIRECT,deconvolution_direct,auto --bia_dt=undef,f32 --wtag=any,oihw,hwio,abx", ("deconv",)),
    ("--stag=any,nchw,nhwc,axb --wtag=any,oihw,axb --dtag=any,ab,ba,nc", ("ip",)),
    ("--dir=FWD_D,FWD_I,BWD_D --alg=MAX,avg_np,AVG_P,pooling_max,pooling_avg_exclude_padding --tag=nchw,axb", ("pool",)),
    ("--dir=FWD_D,FWD_I,BWD_D,BWD_DW --flags=,C,H,S,CH,CHR,RA,ACH --tag=nchw,axb", ("bnorm",)),
    ("--dir=FWD_D,FWD_I --flags=GCH,GSR --dt=f32,s8 --strides=,300x64x8x1:,:256x64x8x1", ("bnorm",)),
    ("--dir=FWD_D,FWD_I,BWD_D,BWD_DW --flags=,C,H,CH,HC --tag=ab,ab:any,ba:ab --stat_tag=any,a --ss_dt=f32,bf16", ("lnorm",)),
    ("--dir=FWD_D,FWD_I --flags=,M,CM,CHM --tag=abx:axb", ("lnorm",)),
    ("--dir=FWD_D,FWD_I --flags=,C,H,CH --tag=abx,axb:any,abcd:axb --dt=f32,bf16:f32", ("gnorm",)),
    ("--strides=24x3x1:,:1x12x4,: --oflag=,none --cross-engine=none --runtime-dim-mask=0", ("reorder",)),
    ("--strides=8x1:8x1:8x1,::1x4 --alg=ADD,mul,MAX,min,DIV,SUB,GE,LE,SELECT", ("binary",)),
    ("--dt=u8:s8:f32 --attr-scales=wei:per_oc,src:common:0.25*+wei:per_oc:5*,src:host_scalar:0.5+wei:2,src:0:0.5", ("matmul",)),
    ("--dt=u8:s8:s8 --attr-scales=src:per_dim_1:f32+wei:per_dim_0:bf16:1x1,wei:per_oc:f16+dst:per_dim_1", ("matmul",)),
    ("--dt=u8:s8:s8 --attr-zero-points=src:common:2:s32+dst:host_scalar:-1:s8,src:per_dim_1+dst:common:1,wei:per_oc:s8", ("matmul",)),
    ("--dt=s8:s8:u8 --attr-scales=src:per_oc+wei:per_oc+dst:per_oc --attr-zero-points=src:per_dim_1+dst:per_dim_1", ("conv",)),
    ("--dt=s8 --attr-scales=src:per_dim_0+dst:per_dim_1,src:per_dim_2 --attr-zero-points=src:common:-1+dst:common:2", ("reorder",)),
    ("--dt=u8:s8:f32 --attr-scales=wei:per_ocic:f16:4x1,wei:per_ocic,src:per_tensor:f16:1x4+wei:per_oc", ("matmul",)),
    ("--dt=u8:s8:f32 --attr-zero-points=wei:per_tensor:u4,src:per_tensor:s8:1x2,wei:per_oc:s8:1x1", ("matmul",)),
    ("--dt=f16:u4:f16,f32:s4:f32 --attr-scales=,wei:per_oc:f16,wei:common:0.5,wei:per_ocic:bf16:2x1,wei:per_dim_01:f32:4x3", ("matmul",)),
    ("--dt=f16:s4:f16 --attr-scales=wei:per_ocic:f16:4x1 --attr-zero-points=,wei:per_ocic:s4:4x1,wei:common:2:s8", ("matmul",)),
    ("--attr-post-ops=relu,add:f32:common:any,mul:bf16:per_tensor:ab,sub:f32:3:ba,max:f32:per_dim_01,binary_min:f32:2", ("matmul",)),
    ("--attr-post-ops=add:f32:3:any:8x2,select:f32,select:f32.per_oc:common,select:bf16.per_tensor.ba:3.ab,prelu:3", ("matmul",)),
    ("--attr-post-ops=sum+tanh,sum:1:0:bf16,eltwise_gelu_erf,eltwise:clip_v2:0:1,exp,logistic,hardswish,add:f8_e5m2:per_oc", ("conv",)),
    ("--stag=ab,ba,abx,axb,any,undef,nc,cn,bax,aby", ("matmul",)),
    ("--stag=nchw,nhwc,cdba,axb,any --wtag=oihw,hwio,abcd,any --dtag=nhwc,acdb", ("conv",)),
    ("--stag=tnc,ntc,abc,bax,xba --dtag=ncw,nwc,acb", ("reorder",)),
    ("--alg=SOFTMAX,softmax_log,SOFTMAX_INF_AS_ZERO --axis=0,1,-1 --dir=FWD_D,FWD_I,BWD_D", ("softmax",)),
    ("--dir=FWD_D,BWD_D --alg=elu,elu_dst,relu_dst,logistic_dst,clip_v2,clip_v2_dst --alpha=0 --beta=0", ("eltwise",)),
    ("--alg=sum,mul,max,min,mean,norm_lp_max,norm_lp_power_p_sum --p=1,2 --eps=0", ("reduction",)),
    ("--sdt=f32,s8,bf16 --ddt=f32,u8 --stag=abx:axb,any --dtag=undef,axb --axis=1", ("concat",)),
    ("--sdt=f32:f32,s8:u8:f32 --ddt=f32,bf16 --stag=abx --dtag=undef --scales=1,0.5", ("sum",)),
    ("--dir=FWD_D,FWD_I,BWD_DW --sdt=f32:f32,bf16:f32 --stag=abx:any,axb:axb", ("prelu",)),
    ("--dir=FWD_D,BWD_D --dt=f32,s8 --tag=abx,axb --axis=0,1 --group=1,4", ("shuffle",)),
    ("--dir=FWD_I,FWD_D,BWD_D --mask=none,buffer,buffer_1d,causal:top_left --scale=mul,div --mdt=f32,f16 --kv_head_number=0,2", ("sdpa",)),
    ("--dt=f16,f32:f16:f16:f32 --qtag=abx,acbd --ktag=abdc --vtag=any --dtag=acbd --mask_type=buffer_2d --scale_type=none", ("sdpa",)),
    ("--dt=f16:u4:u4:u4:f16 --wtag=ba --attr-scales=wei:per_dim_01:f16:2x1+wei_up:common:2+wei_down:per_dim_1", ("gated_mlp",)),
    ("--dir=FWD_D,FWD_I,BWD_D --sdt=f32,u8 --ddt=f32,s8 --tag=abx,nhwc --alg=nearest,resampling_linear --mb=0,3", ("resampling",)),
    ("--stag=abc --wtag=cab --dtag=abc,abx --activation=swish,gelu_erf,gelu_tanh --mb=0,3", ("gated_mlp",)),
    ("--sdt=f32:f32,bf16:f32 --ddt=f32 --stag=abx:any,axb:any --dtag=any --strides=::", ("binary",)),
]  # fmt: skip
SKIPPED = [
    ("--attr-dropout=0.5", ALL, "Dropout takes its probability, seed and offset as inputs"),
    ("--attr-dropout=0.25:77:abx:1:true", ALL, "Dropout takes its probability, seed and offset as inputs"),
    ("--attr-rounding-mode=dst:stochastic", ALL, "no op rounds at random"),
    ("--attr-rounding-mode=diff_src:stochastic:3+diff_wei:environment", ALL, "no op rounds at random"),
    ("--attr-precomputed-reductions=src:per_tensor:s32:1x4", ALL, "no op takes sums that are known beforehand"),
    ("--dt=f64", ALL, "oneDNN Graph has no data type f64"),
    ("--dt=f4_e2m1", ALL, "oneDNN Graph has no data type f4_e2m1"),
    ("--attr-post-ops=sum:0.5", ALL, "a post-op with a scale or zero point of its own"),
    ("--attr-post-ops=linear:2:1", ALL, "no op multiplies by an attribute"),
    ("--attr-post-ops=add:f64:per_oc", ALL, "oneDNN Graph has no data type f64"),
    ("--attr-post-ops=add:f32:per_tensor:aB16b", ALL, "a blocked layout"),
    ("--attr-post-ops=ne:f32", ALL, "no op means ne"),
    ("--attr-post-ops=relu+dw_k3s1p1:s8", ("conv",), "a post-op with a convolution of its own"),
    ("--attr-post-ops=dw:k3s2p1:f32", ("conv",), "a post-op with a convolution of its own"),
    ("--attr-post-ops=add:f32:3:grouped", ("matmul",), "no tag of that name"),
    ("--runtime_dims_masks=1:0", ("matmul",), "a partition is compiled for sizes that are known"),
    ("--runtime-dim-mask=63", ("reorder",), "a partition is compiled for sizes that are known"),
    ("--encoding=csr+0.99::", ("matmul",), "tensors of oneDNN Graph are dense"),
    ("--encoding=:packed+0.5:", ("matmul",), "tensors of oneDNN Graph are dense"),
    ("--grouped=0:2:3+1", ("matmul",), "a product has one matrix for all rows of a batch entry"),
    ("--grouped=0:3:1,0,3", ("matmul",), "a product has one matrix for all rows of a batch entry"),
    ("--oflag=s8s8_comp:1+zp_comp:3", ("reorder",), "a tensor of oneDNN Graph carries nothing but its elements"),
    ("--cross-engine=cpu2gpu", ("reorder",), "there is one engine, the CPU"),
    ("--dt=u8:s8:u8 --attr-zero-points=src:common:1+dst:common:-2", ("matmul",), "and u8 has no -2; give 0 to 255"),
    ("--dt=f8_e4m3:f8_e4m3:f32 --attr-scales=wei:per_ocic:f32:4x1", ("matmul",), "no attribute holds numbers for groups of 4x1"),
    ("--dt=u8:s8:u8 --attr-scales=dst:per_tensor:f16:1x2", ("matmul",), "no attribute holds numbers for groups of 1x2"),
    ("--dt=u8:s8:u8 --attr-scales=dst:per_tensor", ("matmul",), "per_tensor of dst, which has 2 dims, is not one dim"),
    ("--dt=f32:s4:f32 --attr-scales=wei:mx:e8m0:4x1", ("matmul",), "no op computes scales and quantises by them"),
    ("--dt=f32:s4:f32 --attr-scales=wei:per_ocic:e8m0:4x1", ("matmul",), "oneDNN Graph has no data type e8m0"),
    ("--dt=f32:s4:f32 --attr-scales=wei:per_oc:f8_e4m3", ("matmul",), "DynamicDequantize takes none of f8_e4m3"),
    ("--dt=f32:s4:f32 --attr-zero-points=wei:per_oc:f32", ("matmul",), "DynamicDequantize takes none of f32"),
    ("--dt=f32:s4:f32 --attr-scales=wei:per_ocic:f32:4x1 --attr-zero-points=wei:per_oc", ("matmul",), "wei in different groups"),
    ("--dt=u8:s8:f32 --attr-scales=src:per_dim_3", ("matmul",), "per_dim_3 of src, which has 2 dims, is not one dim"),
    ("--bia-dt=f32 --bia-mask=99", ("matmul",), "--bia-mask=99: dst 4x6 has no dim 6, which 99 names; name its dims alone, counted from 0"),
    ("--attr-post-ops=add:f32:per_dim_7", ("matmul", "conv", "pool"), "has no dim 7, which per_dim_7 names"),
    ("--attr-post-ops=prelu:64", ("matmul", "conv"), "has no dim 6, which 64 names"),
    ("--attr-post-ops=select:f32:64", ("matmul", "conv"), "has no dim 6, which 64 names"),
    ("--dt=u8:s8:u8 --attr-scales=dst:mx:e8m0:1x32", ("matmul",), "no op computes scales and quantises by them"),
    ("--dt=u8:s8:u8 --attr-scales=dst:dynamic_fp:f8_e4m3:1x16", ("matmul",), "no op computes scales and quantises by them"),
    ("--dt=s8:s8:f32 --attr-scales=src:per_dim_0 --attr-zero-points=src:per_dim_1", ("matmul",), "scales along dim 0 and zero points"),
    ("--attr-scales=src:1", ("matmul",), "no op scales f32 src by an attribute"),
    ("--stag=AB16b16a", ("matmul",), "a blocked layout"),
    ("--stag=qrs", ("matmul", "conv", "softmax", "reorder", "reduction", "binary", "concat", "sum"), "no tag of that name"),
    ("--tag=abab", ("eltwise", "shuffle"), "no tag of that name"),
    ("--dir=BWD_DW", ("conv", "softmax", "eltwise"), "no op goes this way"),
    ("--alg=WINO", ("conv", "deconv"), "no op asks for an algorithm"),
    ("--dir=FWD_B", ("pool", "bnorm", "lnorm", "gnorm"), "no op goes this way"),
    ("--dir=BWD_DW", ("deconv", "ip", "gnorm"), "no op goes this way"),
    ("--dir=BWD_D", ("gnorm",), "no op goes this way"),
    ("--flags=G", ("bnorm",), "BatchNormInference always has a scale and a shift"),
    ("--flags=GC --dir=FWD_I", ("bnorm",), "BatchNormInference always has a scale and a shift"),
    ("--flags=GCH --dir=BWD_D", ("bnorm",), "no gradient takes the statistics for constants"),
    ("--flags=GCH", ("lnorm",), "no op takes the statistics of its rows"),
    ("--flags=M --dir=BWD_DW", ("lnorm",), "no op is the gradient of RMSNorm"),
    ("--flags=G", ("gnorm",), "GroupNorm computes its statistics"),
    ("--dt=u8:s8:f32 --attr-scales=wei:3", ("deconv",), "3 of wei is not one dim of weights"),
    ("--tag=nChw8c", ("pool", "bnorm", "gnorm"), "a blocked layout"),
    ("--cfg=f32_wino", ("conv",), "no op asks for an algorithm"),
    ("--cfg=u8s8s32", ("matmul", "conv"), "no op makes s32 of f32"),
    ("--alg=dynamic_quantize --p=0", ("reduction",), "no op computes scales and quantises by them"),
    ("--sdt=s8:s8 --ddt=s32", ("binary",), "no op makes s32"),
    ("--sdt=u2", ("reorder", "softmax", "reduction"), "oneDNN Graph has no data type u2"),
    ("--bia-dt=f64", ("matmul",), "oneDNN Graph has no data type f64"),
]
INERT = [
    "--inplace=true,false", "--impl=brg,jit", "--skip-impl=ref,x64:gemm", "--skip-impl=", "--ctx-init=auto", "--ctx-exe=8:0:1",
    "--attr-scratchpad=user", "--attr-acc-mode=strict,relaxed,f16", "--attr-deterministic=true", "--allow-enum-tags-only=0",
    "--fast-ref=0", "--mem-check=0", "--global-impl=ref", "--cpu-isa-hints=prefer_ymm", "--stream-kind=in_order",
]  # fmt: skip


@pytest.mark.parametrize("driver", ALL)
def test_what_has_a_meaning_becomes_a_graph(driver: str) -> None:
    for options, drivers in TAKEN:
        if driver in drivers:
            found = parse([f"--{driver}", *options.split(), SHAPES[driver]]).problems
            assert found
            for each in found:
                assert each.graph().ops, each.repro
                assert problem(*shlex.split(each.repro)).knobs == each.knobs


@pytest.mark.parametrize("driver", ALL)
def test_what_no_op_means_skips_the_case_with_the_reason(driver: str) -> None:
    for options, drivers, reason in SKIPPED:
        if driver in drivers:
            (found,) = parse([f"--{driver}", *options.split(), SHAPES[driver]]).problems
            with pytest.raises(CannotExpress) as bad:
                found.graph()
            assert reason in str(bad.value), found.repro
            assert problem(*shlex.split(found.repro)).knobs == found.knobs


@pytest.mark.parametrize("driver", ALL)
def test_what_changes_nothing_is_announced(driver: str) -> None:
    for option in INERT:
        line = parse([f"--{driver}", option, SHAPES[driver]])
        name = option.partition("=")[0]
        assert [note.startswith(f"{name} changes nothing: ") for note in line.notes] == [True], option
        assert line.problems == parse([f"--{driver}", SHAPES[driver]]).problems


def test_a_flag_that_changes_nothing_takes_no_word() -> None:
    for flag in ("--concise", "-c"):
        assert len(parse(["--softmax", flag, "4x8"]).problems) == 1


def test_options_of_primitives_alone_are_no_options_of_graph_as_in_benchdnn() -> None:
    for option in ("--impl=ref", "--inplace=true", "--attr-scratchpad=user", "--ctx-init=auto"):
        with pytest.raises(UsageError, match="unknown option"):
            parse(["--graph", option, "--case=a.json"])


@pytest.mark.parametrize("driver", ALL)
def test_a_typing_mistake_in_a_name_is_no_option(driver: str) -> None:
    for option in ("--atr-post-ops=relu", "--inplaec=true", "--skip_imp=ref"):
        with pytest.raises(UsageError, match=r"unknown option; did you mean '--(attr-post-ops|inplace|skip-impl)'\?"):
            parse([f"--{driver}", option, SHAPES[driver]])


def test_a_run_goes_on_past_what_is_skipped(tmp_path: Path) -> None:
    """Lines joined as in benchdnn's batch files: over several lines, with a backslash of its own between alternatives."""
    batch = tmp_path / "batch"
    batch.write_text(
        "--reset --dt=f32,f64 --skip-impl=ref --attr-post-ops=, \\\n    linear:2:1, \\\n    relu\n4x8:8x6 # the first\n"
        '--reset --stag=AB8a,ab 4x8:8x6_n"name:1"\n--reset --runtime_dims_masks=0:0,3:3 4x8:8x6\n'
    )
    done = CliRunner().invoke(main, ["--mode=L", "--matmul", f"--batch={batch}"], obj=fake_bench(FakeLibrary(Clock())))
    assert done.exit_code == 0
    assert [line.partition(":")[2].split(" ")[0] for line in done.stdout.splitlines()[:10]] == [
        *("LISTED", "SKIPPED", "LISTED"),
        *("SKIPPED", "SKIPPED", "SKIPPED"),
        *("SKIPPED", "LISTED"),
        *("LISTED", "SKIPPED"),
    ]
    assert done.stderr == "benchgraph: --skip-impl changes nothing: there is one implementation\n"


# ---- what the new values mean ----------------------------------------------------------------------------------------


def test_numbers_along_a_dim_become_lists_of_it() -> None:
    options = ["--attr-scales=src:per_dim_0+wei:common:0.5+dst:per_oc", "--attr-zero-points=src:per_dim_0+wei:per_dim_1+dst:common:-1"]
    g = graph("--matmul", "--dt=u8:s8:s8", *options, "4x2:2x2")
    src, wei, dst = (op.attrs for op in g.ops if op.kind.endswith("uantize"))
    assert (src.integer("axis"), src.reals("scales"), src.integers("zps")) == (0, (0.25, 0.5, 1.0, 0.25), (1, 2, 3, 1))
    assert (wei.integer("axis"), wei.reals("scales"), wei.integers("zps")) == (1, (0.5, 0.5), (1, 2))
    assert (dst.integer("axis"), dst.reals("scales"), dst.integers("zps")) == (1, (0.25, 0.5), (-1, -1))


def test_the_math_mode_is_that_of_the_graph() -> None:
    g = graph("--matmul", "--attr-fpmath=bf16:true", "4x8:8x6")
    assert (g.fpmath_mode, g.fpmath_apply_to_int) == ("bf16", True)
    assert graph("--matmul", "--attr-fpmath=tf32", "4x8:8x6").fpmath_mode == "tf32"


def test_strides_lie_as_they_are_given() -> None:
    g = graph("--matmul", "--strides=16x2:1x10:12x1", "4x8:8x6")
    assert [t.strides for t in (*g.inputs, *g.outputs)] == [(16, 2), (1, 10), (12, 1)]
    assert [t.is_constant for t in g.inputs] == [False, False]
    g = graph("--reorder", "--strides=:2x8", "4x8")
    assert [t.strides for t in (*g.inputs, *g.outputs)] == [(8, 1), (2, 8)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--strides=8x1:: --stag=ba", "--stag, --strides=8x1::: both the tag ba and strides for one tensor; leave one of them out"),
        ("--strides=8::", "--strides: 1 strides for a tensor of 2 dims, 4x8; give 2"),
    ],
)
def test_strides_that_do_not_fit_cost_the_case(words: str, message: str) -> None:
    with pytest.raises(InvalidArguments) as bad:
        graph("--matmul", *words.split(), "4x8:8x6")
    assert str(bad.value) == f"4x8:8x6: {message}"


def test_older_configurations_are_data_types() -> None:
    assert graph("--matmul", "--cfg=u8s8f32", "4x8:8x6") == graph("--matmul", "--dt=u8:s8:f32", "4x8:8x6")
    assert graph("--conv", "--cfg=bf16bf16bf16", SHAPES["conv"]) == graph("--conv", "--dt=bf16", SHAPES["conv"])


def test_select_as_a_post_op_keeps_the_value_where_its_condition_holds() -> None:
    assert kinds("--matmul", "--attr-post-ops=select:f32.per_oc:common", "4x8:8x6") == ["MatMul", "Select"]
    shapes = [t.known_shape for t in graph("--matmul", "--attr-post-ops=select:f32.per_oc:1", "4x8:8x6").inputs[2:]]
    assert sorted(shapes) == [(1, 6), (4, 1)]
