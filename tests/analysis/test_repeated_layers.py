"""Repeated blocks as one row: by the numbers in names, where layers are alike."""

from __future__ import annotations

from benchgraph.analysis.repeated_layers import LayerRow, folded
from benchgraph.results.layers import LayerTiming


def layer(name: str, seconds: float = 1.0, shapes: str = "f32 8x8 -> f32 8x8", kinds: tuple[str, ...] = ("MatMul",)) -> LayerTiming:
    return LayerTiming(name, kinds, (0,), ("",) * (len(kinds) - 1), 0, "fast", shapes, 10, 4, (seconds,))


def rows(*layers: LayerTiming) -> dict[str, int]:
    found = folded(layers)
    assert sum(row.count for row in found) == len(layers)
    assert {id(each) for row in found for each in row.layers} == set(map(id, layers))
    return {row.name: row.count for row in found}


def test_blocks_of_an_encoder_are_one() -> None:
    names = [f"encoder.layer.{n}.attention.{part}" for n in range(12) for part in ("query", "key", "output.dense")]
    assert rows(*map(layer, names)) == {f"encoder.layer.*.attention.{part}": 12 for part in ("query", "key", "output.dense")}


def test_names_of_onnx_are_split_at_slashes() -> None:
    names = [f"/layer1/layer1.{n}/conv{part}/Conv" for n in range(2) for part in (1, 2)]
    assert rows(*map(layer, names)) == {"/layer1/layer1.*/conv1/Conv": 2, "/layer1/layer1.*/conv2/Conv": 2}


def test_layers_that_are_not_alike_stay_apart() -> None:
    wide = layer("layer1.0.conv1", shapes="f32 8x64 -> f32 8x8")
    fused = layer("layer1.3.conv1", kinds=("MatMul", "ReLU"))
    assert rows(wide, layer("layer1.1.conv1"), layer("layer1.2.conv1"), fused) == {
        "layer1.0.conv1": 1,
        "layer1.*.conv1": 2,
        "layer1.3.conv1": 1,
    }


def test_numbers_inside_of_words_are_names() -> None:
    assert rows(layer("fc1"), layer("fc2"), layer("a1.b"), layer("a2.b")) == {"fc1": 1, "fc2": 1, "a1.b": 1, "a2.b": 1}


def test_inner_blocks_are_opened_after_outer_ones() -> None:
    names = [f"stages.{s}.blocks.{b}.mlp" for s in range(2) for b in range(3)]
    assert rows(*map(layer, names)) == {"stages.*.blocks.*.mlp": 6}
    lone = [layer("stages.0.blocks.0.mlp"), layer("stages.1.blocks.1.mlp")]
    assert rows(*lone) == {"stages.0.blocks.0.mlp": 1, "stages.1.blocks.1.mlp": 1}


def test_ops_without_names_are_told_by_kind() -> None:
    assert rows(layer("MatMul#0"), layer("MatMul#7"), layer("MatMul#9", shapes="other")) == {"MatMul#*": 2, "MatMul#9": 1}


def test_a_row_has_the_sum_and_the_range_of_its_layers() -> None:
    row = LayerRow("a.*", (layer("a.0", 1.0), layer("a.1", 3.0), layer("a.2", 2.0)))
    assert (row.seconds, row.least_s, row.most_s, row.count) == (6.0, 1.0, 3.0, 3)
    assert (row.together.flops, row.together.bytes, row.together.samples_s, row.together.busy) == (30, 12, (6.0,), None)


def test_rows_are_in_order_of_their_first_layers() -> None:
    assert [row.name for row in folded([layer("in"), layer("b.0.x"), layer("b.0.y"), layer("b.1.x"), layer("b.1.y"), layer("out")])] == [
        "in",
        "b.*.x",
        "b.*.y",
        "out",
    ]
