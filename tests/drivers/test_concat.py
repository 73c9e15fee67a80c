"""concat: sources of any number become one Concat along --axis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drivers.problems import assert_refused, assert_round_trip, evaluated, graph, kinds, shapes


@st.composite
def descriptors(draw: st.DrawFn) -> tuple[int, list[tuple[int, ...]]]:
    """An axis, and sources that differ along it."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    axis = draw(st.integers(0, len(shape) - 1))
    along = draw(st.lists(st.integers(0, 5), min_size=2, max_size=5))
    return axis, [(*shape[:axis], size, *shape[axis + 1 :]) for size in along]


@given(descriptors())
def test_the_sources_add_up_along_the_axis(found: tuple[int, list[tuple[int, ...]]]) -> None:
    axis, sources = found
    text = ":".join("x".join(map(str, shape)) for shape in sources)
    words = ["--concat", *([f"--axis={axis}"] if axis != 1 else []), text]
    assert_round_trip(*words)
    dst = tuple(sum(s[axis] for s in sources) if dim == axis else size for dim, size in enumerate(sources[0]))
    assert shapes(*words) == (sources, [dst])


def test_the_sources_lie_one_after_the_other() -> None:
    data = [np.full(shape, i) for i, shape in enumerate([(2, 3, 2), (2, 1, 2), (2, 2, 2)])]
    (dst,) = evaluated(["--concat", "2x3x2:2x1x2:2x2x2"], *data)
    assert dst.tolist() == np.concatenate(data, axis=1).tolist()


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "Concat"),
        ("--sdt=bf16 --ddt=f32", "Concat TypeCast"),
        ("--sdt=s8 --ddt=u8", "Dequantize Dequantize Concat Quantize"),
        ("--dt=u4:f32", "DynamicDequantize DynamicDequantize Concat"),
        ("--attr-post-ops=relu", "Concat ReLU"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert kinds("--concat", *options.split(), "2x4:2x8") == ops.split()


def test_each_source_has_its_scale_and_layout() -> None:
    words = ["--stag=ab:ba", "--dtag=ba", "--sdt=s8", "--attr-scales=msrc0:common:2+msrc1:common:4"]
    g = graph("--concat", *words, "2x4:2x8")
    assert [t.strides for t in (*g.inputs, *g.outputs)] == [(4, 1), (1, 2), (1, 2)]
    assert [op.attrs.reals("scales") for op in g.ops if op.kind == "Dequantize"] == [(2.0,), (4.0,)]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("2x3:2x3x1", "2x3 and 2x3x1 have different numbers of sizes; give each source as many"),
        ("2x3:4x3", "dim 0 is 2 in source 0 and 4 in source 1, and --axis=1; make the sizes equal, or join along that dim"),
        ("--axis=2 2x3:2x3", "--axis=2 of sources of 2 dims; give 0 to 1"),
        ("--axis=-1 2x3:2x3", "--axis=-1 of sources of 2 dims; give 0 to 1"),
        ("--stag=ab:ab:ab 2x3:2x3", "--stag=ab:ab:ab: 3 values for 2 sources; give one for all sources, or 2 joined by ':'"),
        ("2x3", "1 tensor is given where 2 to 64 are needed; join them by ':', as in 8x64x56x56:8x128x56x56"),
        ("--sdt=s32 2x3:2x3", "no op reads s32 msrc0 as numbers; use f32, bf16, f16, u8, s8, u4, s4 or f8"),
        (
            "--attr-scales=msrc0:common:1.5 2x3:2x3",
            "--attr-scales, --attr-zero-points: no op scales f32 msrc0 by an attribute; give it a quantised dtype, such as s8",
        ),
    ],
)
def test_what_does_not_fit_or_no_op_means_is_refused(words: str, reason: str) -> None:
    assert_refused(reason, "--concat", *words.split())
