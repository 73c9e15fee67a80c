"""Repeated blocks of a graph are drawn once."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.present.show.dot import dot
from benchgraph.present.show.picture import Picture, draw
from benchgraph.present.show.repeated_blocks import with_repeats_collapsed
from benchgraph.present.show.svg import svg
from benchgraph.present.show.text import text
from benchgraph.results.sketch import OpSketch, Sketch


def perceptron(layers: int, *, odd: int = -1, cut: bool = True, skip: int = -1) -> Picture:
    """Layers of MatMul, Add and ReLU. odd: a layer of another width; cut: a partition each, or one for all; skip: the last op reads its
    result too."""
    ops, tensors, inputs, last = list[OpSketch](), {0: "%0 f32 8x64 ab"}, [0], 0
    for layer in range(layers):
        id = 10 * (layer + 1)
        width = 32 if layer == odd else 64
        tensors |= {id: f"%{id} f32 64x{width} ab constant", id + 1: f"%{id + 1} f32 {width} a constant"}
        tensors |= {id + n: f"%{id + n} f32 8x{width} ab" for n in (2, 3, 4)}
        inputs += [id, id + 1]
        ops.append(OpSketch(3 * layer, "MatMul", "", (), (last, id), (id + 2,)))
        ops.append(OpSketch(3 * layer + 1, "Add", "", (), (id + 2, id + 1), (id + 3,)))
        ops.append(OpSketch(3 * layer + 2, "ReLU", "", (), (id + 3,), (id + 4,)))
        last = id + 4
    tensors[1] = "%1 f32 8x64 ab"
    ops.append(OpSketch(3 * layers, "Add", "", (), (last, 10 * (skip + 1) + 4 if skip >= 0 else last), (1,)))
    sketch = Sketch(tuple(ops), tensors, tuple(inputs), (1,))
    ids = [op.id for op in ops]
    partitions = [ids[i : i + 3] for i in range(0, len(ids), 3)] if cut else [ids]
    parts = ["post_ops, 3 ops"] * layers + ["single, 1 op"] if cut else [f"chain, {len(ids)} ops"]
    return draw(sketch, partitions, parts, "case", "fused")


@pytest.mark.parametrize("cut", [True, False])
def test_layers_that_are_alike_are_drawn_once(cut: bool) -> None:
    found = with_repeats_collapsed(perceptron(16, cut=cut))
    (block,) = found.repeated_blocks
    assert (block.ids, block.count, block.all) == ((0, 1, 2), 16, tuple(range(48)))
    assert [b.id for b in found.boxes] == [0, 1, 2, 48]
    assert found.boxes[-1].reads == (14, 14)  # of the last layer, drawn as the first
    assert [w.id for w in found.wires] == [0, 10, 11, 12, 13, 14, 1]
    assert next(w for w in found.wires if w.id == 14).targets == (48,)
    assert str(block) == "x16: ops 0-47 (48)"


def test_a_layer_that_differs_is_not_folded() -> None:
    found = with_repeats_collapsed(perceptron(13, odd=6))
    assert [block.all for block in found.repeated_blocks] == [tuple(range(18)), tuple(range(21, 39))] or len(found.repeated_blocks) == 2
    drawn = {b.id for b in found.boxes}
    assert {18, 19, 20} <= drawn
    assert not any({18, 19, 20} & set(block.all) for block in found.repeated_blocks)


def test_a_layer_that_is_read_from_far_ends_a_block() -> None:
    found = with_repeats_collapsed(perceptron(12, skip=5))
    for block in found.repeated_blocks:
        assert block.all[-1] == 17 or 17 not in block.all  # op 17 makes what the last op reads, too
    assert 17 in {b.id for b in found.boxes} or any(block.all[-1] == 17 for block in found.repeated_blocks)
    assert len(found.repeated_blocks) == 2


def test_few_layers_stay_as_they_are() -> None:
    picture = perceptron(2)
    assert with_repeats_collapsed(picture) is picture


def test_attributes_and_partitions_tell_blocks_apart() -> None:
    picture = perceptron(12)
    parts = tuple("single, 3 ops" if i == 4 else part for i, part in enumerate(picture.partition_labels))
    assert len(with_repeats_collapsed(Picture("", "", picture.boxes, picture.wires, parts)).repeated_blocks) == 2


def words(text: str) -> list[str]:
    """Lines of text in an SVG."""
    return [t.text or "" for t in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]


def test_every_format_has_the_count_of_repeated_blocks() -> None:
    found = with_repeats_collapsed(perceptron(16))
    drawn = words(svg(found))
    assert "x16: ops 0-47 (48)" in drawn
    assert "p0  0: MatMul x16" in drawn
    assert "p0-p15: post_ops, 3 ops each" in drawn
    assert 'label="x16: ops 0-47 (48)"' in dot(found)
    assert 'op0 [label="p0  0: MatMul x16' in dot(found)
    said = text(found)
    assert said.startswith("case: 49 ops, 17 partitions under fused\n")
    assert "ops 0-47 (48) are 16 equal blocks of 3 ops" in said
    assert re.findall(r"partition (\d+):", said) == ["0", "16"]


def test_the_legend_has_a_line_for_what_is_alike_where_colours_come_again() -> None:
    """Partitions of two kinds by turns: a line for each of them would be longer than the picture."""
    picture = perceptron(40)
    kinds = tuple("chain, 3 ops" if i % 2 else "single, 1 op" for i in range(len(picture.partition_labels) - 1))
    found = words(svg(with_repeats_collapsed(replace(picture, partition_labels=(*kinds, "not executed, 1 op")))))
    assert "p0 p2 p4 p6 p8 p10 p12 p14 … (20): single, 1 op each" in found
    assert "p1 p3 p5 p7 p9 p11 p13 p15 … (20): chain, 3 ops each" in found
    assert "p40: not executed, 1 op" in found


def test_the_legend_has_every_partition_where_each_has_its_colour() -> None:
    found = words(svg(perceptron(3)))
    assert [f"p{i}: post_ops, 3 ops" for i in range(3)] == [line for line in found if line.startswith(("p0:", "p1:", "p2:"))]


def test_show_draws_repeated_blocks_once_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.json").write_text(deep(12))

    def show(*words: str) -> str:
        result = CliRunner().invoke(main, ["show", "--expected-n-partitions=0", "--policy=one_op_each", *words, "--case=deep.json"])
        assert result.exit_code == 0, result.output
        return result.output

    assert "are 12 equal blocks of 2 ops" in show()
    for word in ("-v", "--unfold"):
        assert len(re.findall(r"partition \d+:", show(word))) == 24
    assert show("--format=svg").count("<g id=") < show("--unfold", "--format=svg").count("<g id=") / 6


def deep(layers: int) -> str:
    """A graph of MatMul and ReLU, as oneDNN dumps it."""

    def tensor(id: int, shape: list[int]) -> dict[str, object]:
        dense = {"stride": [shape[1], 1], "layout_type": "strided", "property_type": "undef"}
        return {"id": id, "dtype": "f32", "shape": shape, **dense}

    ops, last = list[dict[str, object]](), 0
    for layer in range(layers):
        id = 3 * layer + 1
        a, w, m, out = tensor(last, [4, 8]), tensor(id, [8, 8]), tensor(id + 1, [4, 8]), tensor(id + 2, [4, 8])
        ops.append({"id": 2 * layer, "name": "", "kind": "MatMul", "attrs": {}, "inputs": [a, w], "outputs": [m]})
        ops.append({"id": 2 * layer + 1, "name": "", "kind": "ReLU", "attrs": {}, "inputs": [m], "outputs": [out]})
        last = id + 2
    ports = {"input_ports": [0, *(3 * i + 1 for i in range(layers))], "output_ports": [last]}
    return json.dumps({"version": "3.0.0", "engine_kind": "cpu", "fpmath_mode": "strict", **ports, "graph": ops})
