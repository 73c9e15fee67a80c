"""Lines of verbose logs as lines of batch files. The lines are those of real programs, with the version that wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchgraph.commands.import_ import work_of
from benchgraph.core.files import data_dir
from benchgraph.importers.attributes import policy
from benchgraph.importers.graph_lines import Dumps
from benchgraph.importers.log_cases import Case, cases_of
from benchgraph.importers.primitives import PRIMITIVES
from benchgraph.importers.verbose_file import read_log
from benchgraph.options.argv import parse
from benchgraph.options.plugins import names
from tests.support.table import all_hold

V1 = "onednn_verbose,v1,primitive,exec,cpu,"  # 3.5 and newer
OLD = "onednn_verbose,exec,cpu,"

EXPRESSED = {  # version and what is shown -> the line, what it becomes
    "3.12, a convolution whose layouts oneDNN chose": (
        f"{V1}convolution,jit:avx512_core,forward_training,src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:Acdb16a::f0 "
        "bia:f32:a:blocked:a::f0 dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,alg:convolution_direct,"
        "mb4_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,10.2",
        "--conv mb4_ic3oc16_ih32oh32kh3ph1",
    ),
    "3.12, groups": (
        f"{V1}convolution,jit_dw:avx512_core,backward_weights,src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:Abcde16a::f0 "
        "bia:undef::undef::: dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,alg:convolution_direct,"
        "g16mb4_ic16oc16_ih32oh16kh3sh2dh0ph1_iw32ow16kw3sw2dw0pw1,11.3",
        "--conv --dir=BWD_W mb4_g16_ic16oc16_ih32oh16kh3sh2ph1",
    ),
    "2.7, a bias of another type": (
        f"{OLD}convolution,jit:avx512_core_amx_bf16,forward_training,src_bf16::blocked:acdb:f0 wei_bf16:p:blocked:ABcd16b16a2b:f0 "
        "bia_f32::blocked:a:f0 dst_bf16::blocked:acdb:f0,attr-scratchpad:user ,alg:convolution_direct,"
        "mb7_ic2oc1_ih224oh111kh3sh2dh1ph1_iw224ow111kw3sw2dw1pw1,0.628906",
        "--conv --dt=bf16 --stag=axb --dtag=axb --bia-dt=f32 mb7_ic2oc1_ih224oh111kh3sh2dh1ph1",
    ),
    "1.x, post-ops": (
        "dnnl_verbose,exec,cpu,convolution,gemm:acl,forward_inference,src_f32::blocked:acdb:f0 wei_f32::blocked:acdb:f0 "
        "bia_undef::undef::f0 dst_f32::blocked:acdb:f0,post_ops:'eltwise_bounded_relu:6;';,alg:convolution_direct,"
        "mb1_ic256oc64_ih56oh56kh1sh1dh0ph0_iw56ow56kw1sw1dw0pw0,0.5",
        "--conv --dir=FWD_I --stag=axb --wtag=axb --dtag=axb --attr-post-ops=clip:0:6 mb1_ic256oc64_ih56oh56kh1ph0",
    ),
    "1.x, a product": (
        "dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,src_bf16::blocked:abc:f0 wei_bf16::blocked:bac:f0 dst_bf16::blocked:abc:f0,,,"
        "b8m52n64k52,0.417969",
        "--matmul --dt=bf16 --stag=abx --wtag=bac --dtag=abx 8x52x52:8x52x64",
    ),
    "3.2, post-ops and a bias with a mask": (
        f"{OLD}matmul,brg:avx512_core,undef,src_f32:a:blocked:ab::f0 wei_f32:ap:blocked:BA16a64b::f0 bia_f32:a:blocked:ab::f0_mask2 "
        "dst_f32:a:blocked:ab::f0,attr-scratchpad:user attr-post-ops:sum+eltwise_relu ,,13x31:31x65,0.0671387",
        "--matmul --bia-dt=f32 --attr-post-ops=sum+relu 13x31:31x65",
    ),
    "2.7, dst in the problem": (
        f"{OLD}matmul,brg:avx512_core_amx_int8,undef,src_s8::blocked:ab:f0 wei_s8:p:blocked:BA16a64b4a:f0 dst_s8::blocked:ab:f0,"
        "attr-scratchpad:user ,,1x322:322x68:1x68,7.66382",
        "--matmul --dt=s8 --stag=abx --dtag=abx 1x322:322x68:1x68",
    ),
    "3.13, quantisation": (
        f"{V1}matmul,brg_matmul:avx10_1_512,undef,src:u8::blocked:ab::f0 wei:s8:p:blocked:AB16a64b4a::f8:zpm2 "
        "bia:f32::blocked:ab::f0_mask2 dst:f32::blocked:ab::f0,attr-scratchpad:user attr-scales:src0:0:f32+wei:2:f32 "
        "attr-zero-points:src0:0:s32,,4x16:16x8,0.0310059",
        "--matmul --dt=u8:s8:f32 --stag=abx --dtag=abx --bia-dt=f32 --attr-scales=src:common:0.25+wei:per_dim_1 "
        "--attr-zero-points=src:common:1 4x16:16x8",
    ),
    "3.12, strides": (
        f"{V1}matmul,brg_matmul:avx10_1_512_amx,undef,src:bf16::blocked:ab:128x1:f0 wei:bf16::blocked:ab:96x1:f0 "
        "dst:bf16::blocked:ab::f0,attr-scratchpad:user,,64x64:64x32,13.76",
        "--matmul --dt=bf16 --dtag=abx --strides=128x1:96x1: 64x64:64x32",
    ),
    "3.13, a binary post-op": (
        f"{V1}matmul,jit,undef,src:f32::blocked:abcd::f0 wei:f32::blocked:abcd::f0 dst:f32:a:blocked:abcd::f0,attr-scratchpad:user "
        "attr-post-ops:binary_div:f32:0+binary_add:f32:9:abcd,,2x4x33x32:2x4x32x47,0.23",
        "--matmul --stag=abx --wtag=abx --attr-post-ops=div:f32:common+add:f32:9:abcd 2x4x33x32:2x4x32x47",
    ),
    "2.7, a scale of the result": (
        f"{OLD}inner_product,brgemm,forward_inference,src_u8::blocked:ab:f0 wei_s8::blocked:AB8b24a:f0 bia_undef::undef::f0 "
        "dst_f32::blocked:ab:f0,attr-oscale:0:0.5,,mb6ic16oc8,1.8",
        "--ip --dir=FWD_I --dt=u8:s8:f32 --stag=abx --dtag=abx --attr-scales=wei:common:0.5 mb6_ic16_oc8",
    ),
    "2.7, a factor of the result of a reorder": (
        f"{OLD}reorder,jit:uni,undef,src_f32::blocked:ab:f0 dst_s8::blocked:ab:f0,attr-oscale:0:4 ,,2x16,0.5",
        "--reorder --sdt=f32 --ddt=s8 --attr-scales=dst:common:0.25 2x16",
    ),
    "3.12, eltwise backward": (
        f"{V1}eltwise,jit:avx10_1_512_amx,backward_data,data:f32::blocked:abcd::f0 diff:f32::blocked:abcd::f0,attr-scratchpad:user,"
        "alg:eltwise_gelu_erf alpha:0 beta:0,4x8x4x4,32.0369",
        "--eltwise --dir=BWD_D --alg=gelu_erf 4x8x4x4",
    ),
    "3.13, the gradient from dst, in blocks": (
        f"{V1}eltwise,jit,backward_data,data:bf16::blocked:aBcd16b::f0 diff:bf16::blocked:aBcd16b::f0,,"
        "alg:eltwise_tanh_use_dst_for_bwd alpha:0 beta:0,4x8x4x4,1",
        "--eltwise --dir=BWD_D --dt=bf16 --tag=axb --alg=tanh_dst 4x8x4x4",
    ),
    "3.2, numbers": (
        f"{OLD}eltwise,jit:avx2,forward_inference,data_f32::blocked:abc::f0 diff_undef::undef:::,,alg:eltwise_relu alpha:1.2 beta:0,"
        "1x12x64,13.1912",
        "--eltwise --dir=FWD_I --alpha=1.2 1x12x64",
    ),
    "3.2, binary": (
        f"{OLD}binary,jit:uni,undef,src_f32::blocked:ab::f0 src_f32::blocked:ab::f0 dst_f32:a:blocked:ab::f0,attr-scratchpad:user "
        "attr-post-ops:eltwise_square ,alg:binary_sub,32x65:1x65,0.08",
        "--binary --sdt=f32:f32 --ddt=f32 --stag=abx --alg=sub --attr-post-ops=square 32x65:1x65",
    ),
    "3.13, select": (
        f"{V1}binary,ref:any,undef,src:f32::blocked:abcd::f0 src:f32::blocked:abcd::f0 src:s8::blocked:abcd::f0 "
        "dst:f32::blocked:abcd::f0,attr-scratchpad:user,alg:binary_select,2x4x3x7:1x1x1x1:2x1x3x7,0.64",
        "--binary --sdt=f32:f32 --ddt=f32 --stag=abx --dtag=abx --alg=select 2x4x3x7:1x1x1x1:2x1x3x7",
    ),
    "3.13, softmax": (
        f"{V1}softmax,jit:avx10_1_512,forward_inference,src:f32::blocked:abcd::f0 dst:u8:a:blocked:abcd::f0,attr-scratchpad:user "
        "attr-scales:dst:0:f32,alg:softmax_accurate axis:3,2x4x3x7,0.03",
        "--softmax --dir=FWD_I --sdt=f32 --ddt=u8 --axis=3 --attr-scales=dst:common:0.25 2x4x3x7",
    ),
    "3.13, reduction": (
        f"{V1}reduction,jit,undef,src:f32::blocked:abc::f0 dst:f32:a:blocked:abc::f0,,alg:reduction_norm_lp_sum p:2 eps:0,"
        "16x5x33:16x5x1,3",
        "--reduction --alg=norm_lp_sum --p=2 16x5x33:16x5x1",
    ),
    "3.12, a reorder": (
        f"{V1}reorder,jit:uni,undef,src:bf16::blocked:abcd::f0 dst:f32::blocked:acdb::f0,attr-scratchpad:user,,4x3x8x8,15.5",
        "--reorder --sdt=bf16 --ddt=f32 --dtag=axb 4x3x8x8",
    ),
    "3.12, a reorder of a broadcast tensor": (
        f"{V1}reorder,jit:uni,undef,src:f32::blocked:abcd:0x0x0x0:f0 dst:f32::blocked:abcd::f0,,,4x3x8x8,1",
        "--reorder --strides=0x0x0x0: 4x3x8x8",
    ),
    "3.13, a reorder that quantises by a scale of its src": (
        f"{V1}reorder,jit:uni,undef,src:f32::blocked:ab::f0 dst:u8::blocked:ab::f0,attr-scales:src0:0:f32 attr-zero-points:dst:0:s32,,"
        "4x16,0.002",
        "--reorder --sdt=f32 --ddt=u8 --attr-scales=dst:common:0.25 --attr-zero-points=dst:common:1 4x16",
    ),
    "3.13, pooling": (
        f"{V1}pooling,jit:avx512_core,forward_inference,src:f32::blocked:acdb::f0 dst:f32:a:blocked:acdb::f0,attr-scratchpad:user,"
        "alg:pooling_avg_exclude_padding,mb2ic33_ih14oh7kh3sh2dh0ph1_iw14ow7kw3sw2dw0pw1,0.16",
        "--pool --dir=FWD_I --tag=axb --alg=avg_np mb2_ic33_ih14oh7kh3sh2ph1",
    ),
    "3.13, layer normalisation": (
        f"{V1}layer_normalization,jit:uni,forward_inference,src:bf16::blocked:abc::f0 dst:bf16:a:blocked:abc::f0 stats:undef::undef::: "
        "scale:f32::blocked:a::f0 shift:f32::blocked:a::f0,attr-scratchpad:user,flags:CH,4x16x100,0.17",
        "--lnorm --dir=FWD_I --dt=bf16 --flags=CH 4x16x100",
    ),
    "3.13, batch normalisation": (
        f"{V1}batch_normalization,nspc_bnorm:any,forward_inference,data:f32::blocked:acdb::f0,attr-scratchpad:user,flags:GCH,"
        "mb2ic33ih9iw9,0.17",
        "--bnorm --dir=FWD_I --tag=axb --flags=GCH mb2_ic33ih9iw9",
    ),
    "3.13, group normalisation": (
        f"{V1}group_normalization,jit_group:uni,forward_training,src:f32::blocked:acdb::f0 dst:f32:a:blocked:acdb::f0,,flags:CH,"
        "g3mb2ic12ih5iw7,0.27",
        "--gnorm --tag=axb --flags=CH g3_mb2_ic12ih5iw7",
    ),
    "3.13, transposed convolution": (
        f"{V1}deconvolution,brg_deconv:avx512_core,forward_inference,src:f32:a:blocked:acdb::f0 wei:f32:ap:blocked:Acdb32a::f0 "
        "bia:f32:a:blocked:a::f0 dst:f32:a:blocked:acdb::f0,attr-scratchpad:user,alg:deconvolution_direct,"
        "mb2_ic16oc24_ih7oh14kh3sh2dh0ph1_iw7ow14kw3sw2dw0pw1,0.19",
        "--deconv mb2_ic16oc24_ih7oh14kh3sh2ph1",
    ),
    "3.13, concat": (
        f"{V1}concat,simple:any,undef,src:f32::blocked:acdb::f0 src:f32::blocked:acdb::f0 dst:f32::blocked:acdb::f0,"
        "attr-scratchpad:user,axis:1,4x8x5x7:4x3x5x7,0.27",
        "--concat --stag=axb --dtag=axb 4x8x5x7:4x3x5x7",
    ),
    "3.12, sum": (
        f"{V1}sum,simple:any,undef,src:f32::blocked:abcd::f0 src:f32::blocked:abcd::f0 dst:f32:a:blocked:abcd::f0,,,4x8x10x10,23.6",
        "--sum --sdt=f32:f32 --ddt=f32 --dtag=any 4x8x10x10",
    ),
    "3.13, resampling": (
        f"{V1}resampling,jit:avx10_1_512,forward_inference,src:f32::blocked:acdb::f0 dst:f32:a:blocked:acdb::f0,attr-scratchpad:user,"
        "alg:resampling_linear,mb2ic33_ih7oh14_iw9ow13,0.12",
        "--resampling --dir=FWD_I --tag=axb --alg=linear mb2ic33_ih7oh14_iw9ow13",
    ),
    "3.13, prelu": (
        f"{V1}prelu,jit_uni,forward_training,data:f32::blocked:acb::f0 wei:f32:a:blocked:acb::f0,attr-scratchpad:user,,"
        "4x33x5:1x33x1,0.08",
        "--prelu --sdt=f32 --stag=axb:any 4x33x5:1x33x1",
    ),
}  # fmt: skip
REFUSED = {  # what is shown -> the line, the reason
    "no driver": (
        f"{V1}rnn,brgemm,forward_training,src_layer:f32::blocked:abc::f0,,alg:vanilla_lstm,l1t5,1",
        "no driver runs the primitive rnn",
    ),
    "a blocked layout": (
        f"{V1}reorder,jit:uni,undef,src:f32::blocked:abcd::f0 dst:f32::blocked:Acdb16a::f0,,,16x3x3x3,0.1",
        "--dtag=Acdb16a: a blocked layout",
    ),
    "a microkernel": (
        "onednn_verbose,v1,ukernel,exec,cpu,brgemm,,undef,src:bf16::blocked:ab::f0 wei:bf16::blocked:ab::f0,,bs:1 beta:0,32x64:64x8,0.1",
        "no driver runs it alone",
    ),
    "an attribute": (f"{V1}eltwise,jit,forward,data:f32::blocked:ab::f0,attr-new:1,alg:eltwise_relu,4x8,1", "the attribute 'attr-new'"),
    "a format kind": (
        f"{V1}matmul,ref,undef,src:f32::sparse:csr::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,4x8:8x6,1",
        "src is of the format kind 'sparse'",
    ),
    "no descriptor": (f"{V1}eltwise,jit,forward,rubbish,,alg:eltwise_relu,4x8,1", "'rubbish' is no memory descriptor"),
    "a missing tensor": (f"{V1}matmul,ref,undef,src:f32::blocked:ab::f0,,,4x8:8x6,1", "the line describes no wei"),
    "sizes at run time": (
        f"{V1}matmul,ref,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,,,*x8:8x6,1",
        "sizes that are known at run time alone",
    ),
    "an algorithm": (f"{V1}eltwise,jit,forward,data:f32::blocked:ab::f0,,alg:eltwise_new,4x8,1", "--alg: bad value 'new'"),
    "a direction": (f"{V1}eltwise,jit,sideways,data:f32::blocked:ab::f0,,alg:eltwise_relu,4x8,1", "no direction is called sideways"),
    "strides without an option": (
        f"{V1}eltwise,jit,forward,data:f32::blocked:ab:16x1:f0,,alg:eltwise_relu,4x8,1",
        "data has strides 16x1, which the driver has no option for",
    ),
    "dropout": (
        f"{V1}eltwise,ref:any,forward_training,data:f32::blocked:ab::f0,attr-dropout:undef:s64:1:1,alg:eltwise_relu,4x8,1",
        "Dropout takes its probability",
    ),
}  # fmt: skip


def cases(folder: Path, text: str) -> list[Case]:
    log = folder / "log"
    log.write_text(text)
    return cases_of(read_log(log), Dumps(folder), work_of)


def test_lines_of_every_version_become_lines_of_the_drivers(tmp_path: Path) -> None:
    def check(line: str, want: str) -> None:
        (case,) = cases(tmp_path, line + "\n")
        assert (case.error, case.line) == (None, want)
        assert case.work is not None

    all_hold(check, EXPRESSED)


def test_what_becomes_a_line_is_read_back_as_the_same_line() -> None:
    def check(_: str, line: str) -> None:
        words = line.split()
        (problem,) = parse(words).problems
        assert problem.description == line

    all_hold(check, EXPRESSED)


def test_what_no_driver_means_has_a_reason(tmp_path: Path) -> None:
    def check(line: str, want: str) -> None:
        (case,) = cases(tmp_path, line + "\n")
        assert case.error is not None
        assert want in case.error.line
        assert case.logged[0].executed.count == 1

    all_hold(check, REFUSED)


def test_every_driver_of_primitives_has_a_row() -> None:
    """A new driver needs a row of the table; those of files, frameworks, random and whole graphs have no primitive."""
    without = {"framework", "fuzz", "gated_mlp", "graph", "model", "sdpa"}
    assert set(names("drivers")) - {row.driver for row in PRIMITIVES.values()} == without


def test_a_driver_that_is_not_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.importers.log_cases.names", lambda folder: ["graph"])
    (case,) = cases(tmp_path, EXPRESSED["3.13, prelu"][0])
    assert case.error is not None
    assert case.error.line == "there is no driver prelu"
    assert case.line.startswith("--prelu ")


def test_masks_have_benchdnns_names() -> None:
    assert [policy(mask) for mask in ("0", "1", "2", "3", "12", "common")] == [
        "common",
        "per_dim_0",
        "per_dim_1",
        "per_dim_01",
        "12",
        "common",
    ]


def test_layouts_and_implementations_of_one_problem_are_one_case(tmp_path: Path) -> None:
    line = f"{V1}eltwise,IMPL,forward,data:f32::blocked:TAG::f0,,alg:eltwise_relu alpha:0 beta:0,4x8x2x2,1"
    found = cases(tmp_path, "\n".join(line.replace("IMPL", impl).replace("TAG", tag) for impl, tag in (("a", "aBcd8b"), ("b", "acdb"))))
    assert [(case.line, len(case.logged)) for case in found] == [("--eltwise --tag=axb 4x8x2x2", 2)]


def test_repro_lines_round_trip(tmp_path: Path) -> None:
    lines = ["--matmul --dt=u8:s8:u8 --attr-scales=src:common:0.5+wei:per_oc 13x32:32x17", "--graph --mb=4 --case=mlp.json"]
    status = "0:PASSED (78 ms) __REPRO: --library=onednn --mode=P "
    found = cases(tmp_path, "".join(f"{status}{line}\n" for line in lines))
    assert [(case.line, case.error) for case in found] == [(line, None) for line in lines]


def test_a_repro_line_of_another_program_has_a_reason(tmp_path: Path) -> None:
    found = cases(
        tmp_path, '1:FAILED __REPRO: --rnn --prop=x l1t1\n1:FAILED __REPRO: --matmul "2x3\n2:FAILED __REPRO: --graph --case=no.json\n'
    )
    assert all(case.error for case in found)
    assert len(found) == 3


# ---- graphs ---------------------------------------------------------------------------------------------------------

GRAPH_LINE = (
    "benchgraph_verbose,v1,graph,exec,cpu,0,chain,a;b,,in0_f32:0:strided:variable:128x13:13s1 in1_f32:1:strided:constant:13x512:512s1 "
    "in2_f32:2:strided:constant:512:1 in3_f32:5:strided:constant:512x256:256s1 in4_f32:6:strided:constant:256:1 "
    "in5_f32:9:strided:constant:256x128:128s1 in6_f32:10:strided:constant:128:1 out0_f32:12:strided:undef:128x128:128s1,"
    "fpm:strict,{},benchgraph,7.6"
)


@pytest.mark.parametrize("scratchpad", ["jit:avx2", "scratchpad:library:64,matmul_t"])
def test_a_partition_is_the_dump_with_its_tensors(tmp_path: Path, scratchpad: str) -> None:
    dump = tmp_path / "graph-0-123.json"
    dump.write_text((data_dir("inputs") / "graph" / "mlp.json").read_text())
    (tmp_path / "graph-torn.json").write_text('{"graph": [')
    (case,) = cases(tmp_path, GRAPH_LINE.format(scratchpad))
    assert (case.line, case.error, case.file) == ("--graph --expected-n-partitions=0 --case=graph-0-123.json", None, dump)
    assert case.work is not None
    assert case.work.flops > 0


def test_a_partition_without_its_dump_says_how_to_get_one(tmp_path: Path) -> None:
    text = (data_dir("inputs") / "graph" / "mlp.json").read_text()
    (tmp_path / "graph-0-123.json").write_text(text.replace("128", "64"))
    (case,) = cases(tmp_path, GRAPH_LINE.format("jit:avx2"))
    assert case.error is not None
    assert "ONEDNN_GRAPH_DUMP=subgraph" in case.error.line
