"""matmul: descriptors and options become the ops they mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.cli import main
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, InvalidShape
from benchgraph.graph import save
from benchgraph.options.problem import CannotExpress
from benchgraph.reference import evaluate
from tests.drivers.problems import graph, kinds, problem, shapes
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

sizes = st.integers(1, 9)


@st.composite
def descriptors(draw: st.DrawFn) -> str:
    """Products that fit, some with dst and a name."""
    m, k, n = draw(sizes), draw(sizes), draw(sizes)
    batch = draw(st.lists(sizes, max_size=3))
    src, wei = ([1 if draw(st.booleans()) else b for b in batch] for _ in range(2))
    shapes = [(*src, m, k), (*wei, k, n)]
    if draw(st.booleans()):
        shapes.append((*(max(a, b) for a, b in zip(src, wei, strict=True)), m, n))
    return ":".join("x".join(map(str, s)) for s in shapes) + draw(st.sampled_from(["", '_n"net:layer"']))


@given(descriptors())
def test_the_graph_has_the_shapes_of_the_descriptor_and_the_repro_line_makes_it_again(text: str) -> None:
    src, wei = (np.zeros([int(d) for d in t.split("x")]) for t in text.partition("_")[0].split(":")[:2])
    found = problem("--matmul", text)
    g = found.graph()
    assert [t.known_shape for t in g.inputs] == [src.shape, wei.shape]
    assert [t.known_shape for t in g.outputs] == [np.matmul(src, wei).shape]
    assert found.repro == f"--matmul {text}"
    assert problem(*found.repro.split()).graph() == g


def test_the_repro_line_says_every_option() -> None:
    words = ["--matmul", "--dt=u8:s8:f32", "--stag=ba", "--wtag=ab", "--dtag=ba", "--bia-dt=f32", "--bia-mask=3", "--mb=4"]
    words += ["--attr-scales=src:common:0.5+wei:per_oc", "--attr-zero-points=src:common:3", "--attr-post-ops=sum+relu:0.1", "2x3:3x4"]
    assert problem(*words).repro.split() == words


def test_options_may_be_spelt_with_underscores() -> None:
    assert problem("--matmul", "--bia_dt=f32", "--bia_mask=3", "2x3:3x4").repro == "--matmul --bia-dt=f32 --bia-mask=3 2x3:3x4"


def test_a_descriptor_may_be_given_as_a_case() -> None:
    assert problem("--matmul", "--case=2x3:3x4").repro == problem("--matmul", "--case", "2x3:3x4").repro == "--matmul 2x3:3x4"


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ([], ["MatMul"]),
        (["--bia-dt=f32"], ["MatMul"]),
        (["--dt=bf16", "--bia-dt=bf16"], ["MatMul"]),
        (["--dt=bf16:bf16:f32"], ["MatMul"]),
        (["--dt=bf16:bf16:f16"], ["MatMul", "TypeCast"]),
        (["--dt=bf16", "--bia-dt=f32"], ["MatMul", "Add", "TypeCast"]),
        (["--dt=bf16:f32:f32"], ["TypeCast", "MatMul"]),
        (["--dt=u8:s8:f32"], ["Dequantize", "Dequantize", "MatMul"]),
        (["--dt=f32:s4:f32"], ["DynamicDequantize", "MatMul"]),
        (["--dt=s8:s8:u8", "--attr-post-ops=relu"], ["Dequantize", "Dequantize", "MatMul", "ReLU", "Quantize"]),
        (["--attr-post-ops=sum+relu:0.1+mul:f32:per_oc"], ["MatMul", "Add", "LeakyReLU", "Multiply"]),
        (["--attr-post-ops=swish:1+prelu+clip:0:1"], ["MatMul", "Sigmoid", "Multiply", "PReLU", "Clamp"]),
        (["--dt=bf16", "--attr-post-ops=add:f32"], ["MatMul", "TypeCast", "Add", "TypeCast"]),
    ],
    ids=lambda value: " ".join(value) or "plain",
)
def test_options_become_ops(options: list[str], ops: list[str]) -> None:
    assert sorted(kinds("--matmul", *options, "4x8:8x6")) == sorted(ops)


@pytest.mark.parametrize(("mask", "shape"), [(1, (4, 1)), (2, (6,)), (3, (4, 6)), (0, (1,))])
def test_the_mask_says_which_dims_the_bias_has(mask: int, shape: tuple[int, ...]) -> None:
    ins, _ = shapes("--matmul", "--bia-dt=f32", f"--bia-mask={mask}", "4x8:8x6")
    assert ins[2] == shape


@pytest.mark.parametrize(
    ("text", "ins", "outs"),
    [
        ("4x8:8x6", [(9, 8), (8, 6)], [(9, 6)]),
        ("4x8:8x6:4x6", [(9, 8), (8, 6)], [(9, 6)]),
        ("2x4x8:2x8x6", [(9, 4, 8), (9, 8, 6)], [(9, 4, 6)]),
        ("2x4x8:1x8x6", [(9, 4, 8), (1, 8, 6)], [(9, 4, 6)]),
    ],
)
def test_mb_replaces_the_outermost_dim(text: str, ins: list[tuple[int, ...]], outs: list[tuple[int, ...]]) -> None:
    assert shapes("--matmul", "--mb=9", text) == (ins, outs)


def test_tags_become_strides_and_free_weights_are_constant() -> None:
    g = graph("--matmul", "--stag=ba", "--wtag=ba", "--dtag=ba", "--attr-post-ops=relu", "4x8:8x6")
    assert [t.strides for t in (*g.inputs, *g.outputs)] == [(1, 4), (1, 8), (1, 4)]
    assert not g.inputs[1].is_constant
    assert graph("--matmul", "4x8:8x6").inputs[1].is_constant


def test_scales_and_zero_points_become_attributes() -> None:
    options = ["--attr-scales=src:common:0.5+wei:per_oc+dst:common:4", "--attr-zero-points=src:common:3+dst:common:-1"]
    g = graph("--matmul", "--dt=u8:s8:s8", *options, "4x8:8x2")
    src, wei, dst = (op.attrs for op in g.ops if op.kind.endswith("uantize"))
    assert (src.reals("scales"), src.integers("zps")) == ((0.5,), (3,))
    assert (wei.reals("scales"), wei.integer("axis")) == ((0.25, 0.5), 1)
    assert (dst.reals("scales"), dst.integers("zps")) == ((4.0,), (-1,))


def test_results_are_of_the_dtype_asked_for() -> None:
    for name in ("f32", "bf16", "f16", "u8", "s8", "f8_e4m3"):
        (dst,) = graph("--matmul", f"--dt=f32:f32:{name}", "4x8:8x6").outputs
        assert dst.dtype is DType(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4x8:7x6", "src 4x8 has K=8, its last size, and weights 7x6 K=7, the one before the last; make them equal"),
        ("2x4x8:3x8x6", "batch dim 0 is 2 in src and 3 in the weights; make them equal, or one of them 1"),
        ("4x8:8x6:4x7", "dst is 4x7, but src and weights give 4x6; correct it, or leave it out"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidShape) as bad:
        graph("--matmul", text)
    assert str(bad.value) == f"{text}: {message}"


@pytest.mark.parametrize("text", ["4x8:2x8x6", "4:4"])
def test_tensors_have_the_same_rank_of_two_or_more(text: str) -> None:
    with pytest.raises(InvalidArguments) as bad:
        graph("--matmul", text)
    remedy = "the tensors have different numbers of sizes, or one; give each the same, 2 or more, as in 2x8x16:1x16x32"
    assert str(bad.value) == f"{text}: {remedy}"


def test_a_descriptor_that_cannot_be_read_costs_its_case_alone() -> None:
    done = CliRunner().invoke(main, ["--mode=L", "--matmul", "2x3:3y4", "2x3:3x4"], obj=fake_bench(FakeLibrary(Clock())))
    remedy = "join sizes by 'x' and tensors by ':', as in 128x512:512x256"
    assert done.output.splitlines()[:2] == [
        f"0:INVALID_ARGUMENTS (2x3:3y4: at character 6: 'y' is no digit; {remedy}) (0 ms) __REPRO: --mode=L --matmul 2x3:3y4",
        "1:LISTED (0 ms) __REPRO: --mode=L --matmul 2x3:3x4",
    ]
    assert done.exit_code == 1


NO_SCALE = "--attr-scales, --attr-zero-points: no op scales f32 src by an attribute; give it a quantised dtype, such as s8"
INEXPRESSIBLE = {
    "--dt=s32:f32:f32": "no op reads s32 src as numbers; use f32, bf16, f16, u8, s8, u4, s4 or f8",
    "--dt=s8:s8:s32": "no op makes s32 of f32; give another dtype to the result",
    "--attr-scales=src:common:2": NO_SCALE,
    "--dt=f8_e4m3:f32:f32 --attr-zero-points=src:common:2": "--attr-zero-points: f8_e4m3 has no zero point; leave it out",
    "--attr-post-ops=sum:0.5": "{}: a post-op with a scale or zero point of its own; leave it out",
    "--attr-post-ops=dw:k3s1p1": "{}: a post-op with a convolution of its own; leave it out",
    "--attr-post-ops=relu:0:0:2": "{}: no op scales a result by an attribute; leave the scale out",
    "--attr-post-ops=linear:2": "{}: no op multiplies by an attribute, as linear would need; use a binary op with a tensor",
    "--attr-post-ops=ge:f32": "{}: ge makes booleans, with which nothing can go on; compare with --binary --alg instead",
    "--attr-post-ops=gt:f32": "{}: no op means gt: of the comparisons there is GreaterEqual alone; use ge or le",
    "--attr-post-ops=tanh:2": "{}: tanh takes no alpha, but it is 2; leave alpha out",
    "--stag=aB16b": "{}: a blocked layout: oneDNN Graph's tensors have strides alone; use a plain tag",
}


@pytest.mark.parametrize("options", INEXPRESSIBLE)
def test_what_no_op_means_is_skipped_with_the_reason(options: str) -> None:
    words, reason = ["--matmul", *options.split(), "4x8:8x6"], INEXPRESSIBLE[options].format(options)
    with pytest.raises(CannotExpress) as bad:
        graph(*words)
    assert str(bad.value) == f"4x8:8x6: {reason}"
    done = CliRunner().invoke(main, words)
    assert done.output.startswith(f"0:SKIPPED (4x8:8x6: {reason}) (")
    assert done.exit_code == 0


def test_mode_p_shows_the_table_of_the_same_graph(tmp_path: Path) -> None:
    """Whether a graph comes from a descriptor or from a file, the harness measures and shows the same."""

    def table(*words: str) -> list[str]:
        bench = fake_bench(FakeLibrary(Clock()))
        done = CliRunner().invoke(main, ["--mode=P", "--fix-times-per-prb=2", *words], obj=bench)
        assert done.exit_code == 0, done.output
        lines = done.output.splitlines()
        return lines[lines.index(next(line for line in lines if line.startswith("policy / partition"))) :]

    words = ["--matmul", "--bia-dt=f32", "--attr-post-ops=relu", "128x512:512x256"]
    save(graph(*words), tmp_path / "same.json")
    mine = table(*words)
    assert [line.split()[0] for line in mine if "partition" in line][1:] == ["fused", "post_ops", "one_op_each"]
    assert mine == table("--graph", "--case", str(tmp_path / "same.json"))


def test_a_name_of_a_dump_is_that_of_the_problem(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--mode=I", f"--dump-dir={tmp_path}", "--matmul", '4x8:8x6_n"a/b"'])
    assert done.exit_code == 0, done.output
    assert [p.name for p in tmp_path.iterdir()] == ["0000-matmul-4x8-8x6_n-a-b-"]


@pytest.mark.parametrize(
    ("options", "attrs", "numbers"),
    [
        ("wei:per_ocic:f16:4x1", {"qtype": "per_group", "group_shape": (2, 4, 1)}, (1, 2, 6)),
        ("wei:per_tensor:f32:8x3", {"qtype": "per_group", "group_shape": (1, 8, 3)}, (2, 1, 2)),
        ("wei:per_dim_2:bf16:8x3", {"qtype": "per_group", "group_shape": (2, 8, 3)}, (1, 1, 2)),
        ("wei:per_oc", {"qtype": "per_channel", "axis": 2}, (6,)),
        ("wei:per_dim_1:f32:1x6", {"qtype": "per_channel", "axis": 1}, (8,)),
        ("wei:common:0.5", {"qtype": "per_tensor"}, (1,)),
    ],
)
def test_scales_of_groups_are_inputs(options: str, attrs: dict[str, object], numbers: tuple[int, ...]) -> None:
    """One number for a group of the dims that the policy names; the other dims are whole."""
    g = graph("--matmul", "--dt=f32:u4:f32", f"--attr-scales={options}", "--attr-zero-points=wei:common:1:u8", "2x4x8:2x8x6")
    (op,) = (op for op in g.ops if op.kind == "DynamicDequantize")
    assert {name: op.attrs.get(name) for name in attrs} == attrs
    _, scales, points = op.inputs
    dtype = options.split(":")[2] if options.count(":") > 1 and "common" not in options else "f32"
    assert (scales.known_shape, points.known_shape) == (numbers, numbers)
    assert (scales.dtype, points.dtype, op.outputs[0].dtype) == (DType(dtype), DType.u8, DType(dtype))
    assert all(t.is_constant for t in op.inputs), "weights and what belongs to them are known beforehand"


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(InvalidShape) as bad:
        graph("--matmul", "--dt=f32:u4:f32", "--attr-scales=wei:per_ocic:f32:3x1", "4x8:8x6")
    assert str(bad.value) == (
        "4x8:8x6: --attr-scales=wei:per_ocic:f32:3x1: groups of 3 do not divide dim 0 of wei 8x6; give a size that does"
    )


def test_groups_of_more_dims_than_there_are_are_refused() -> None:
    with pytest.raises(InvalidShape, match=r"--attr-scales=wei:per_ocic:f32:1x3x1: wei is 8x6, of 2 dims; name these alone"):
        graph("--matmul", "--dt=f32:u4:f32", "--attr-scales=wei:per_ocic:f32:1x3x1", "4x8:8x6")


def test_products_of_groups_are_those_of_numpy() -> None:
    """Weights times the scale of their group, less its zero point before."""
    rng = np.random.default_rng(0)
    words = ["--dt=f32:s8:f32", "--attr-scales=wei:per_ocic:f32:4x1", "--attr-zero-points=wei:per_ocic:s8:4x1"]
    g = graph("--matmul", *words, "4x8:8x6")
    src, wei, scales, points = sorted(g.inputs, key=lambda t: t.id)
    data = {t.id: rng.integers(-3, 4, t.known_shape).astype(t.dtype.numpy) for t in (src, wei, points)}
    data[scales.id] = rng.choice(np.array([0.25, 0.5, 2], np.float32), scales.known_shape)
    s, p = (np.repeat(data[t.id].astype(np.float64), 4, axis=0) for t in (scales, points))
    assert evaluate(g, data)[g.outputs[0].id] == pytest.approx(data[src.id] @ ((data[wei.id] - p) * s))
