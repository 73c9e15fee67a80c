"""JSON dumps of graphs and partitions: written on request, and usable as cases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from benchgraph import (
    DType,
    Engine,
    FpmathMode,
    Graph,
    GraphDumpMode,
    LayoutType,
    LogicalTensor,
    Op,
    Partition,
    Policy,
    Status,
    Stream,
    Tensor,
    __version__,
    set_dump_mode,
)
from benchgraph import graph as api
from benchgraph.cli import main
from benchgraph.core.config import override
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.files import data_dir
from benchgraph.library import dump
from benchgraph.partition.partitioner import partitions as cut
from benchgraph.reference import fill

BOTH = GraphDumpMode.graph | GraphDumpMode.subgraph
SRC, DST = LogicalTensor(0, DType.f32, (2, 3)), LogicalTensor(1, DType.f32, (2, 3))
CASES = ("mlp", "attention", "pattern/layernorm_from_basics")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dump, "_chosen", None)
    return tmp_path


def built(source: api.Graph) -> Graph:
    g = Graph(source.engine_kind, FpmathMode(source.fpmath_mode))
    for op in source.ops:
        g.add_op(op)
    g.finalize()
    return g


def relu(**more: object) -> Graph:
    return built(api.Graph((api.Op(0, "ReLU", inputs=(SRC,), outputs=(DST,)),), **more))  # type: ignore[arg-type]


def execute(partitions: tuple[Partition, ...], data: dict[int, NDArray[np.generic]]) -> dict[int, NDArray[np.generic]]:
    """Run them in order, wired by tensor ids."""
    engine, live = Engine(), dict(data)
    for p in partitions:
        compiled = p.compile(p.input_ports, p.output_ports, engine)
        outs = [Tensor(compiled.query_logical_tensor(t.id), engine) for t in p.output_ports]
        compiled.execute(Stream(engine), [Tensor(t, engine, live[t.id]) for t in p.input_ports], outs)
        live |= {t.logical.id: t.array for t in outs}
    return live


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", [Policy.fusion, Policy.debug])
def test_a_dumped_graph_is_the_same_graph(name: str, policy: Policy, directory: Path) -> None:
    """Dump, load, the same partitions and the same results."""
    source = api.infer_shapes(api.load(data_dir("inputs") / "graph" / f"{name}.json"))
    g = built(source)
    set_dump_mode(GraphDumpMode.graph)
    first = g.get_partitions(policy)
    loaded = api.load(directory / f"graph-{g.id}.json")
    assert loaded.ops == source.ops
    assert (loaded.fpmath_mode, loaded.version) == (source.fpmath_mode, __version__)
    second = built(loaded).get_partitions(policy)
    assert [(p.ops, p.input_ports, p.output_ports) for p in first] == [(p.ops, p.input_ports, p.output_ports) for p in second]
    data = fill(source, seed=1)
    a, b = execute(first, data), execute(second, data)
    assert all(np.array_equal(a[t.id], b[t.id]) for t in source.outputs)


def test_the_partitioned_graph_has_each_ops_partition(directory: Path) -> None:
    source = api.load(data_dir("inputs") / "graph" / "attention.json")
    g = built(source)
    set_dump_mode(GraphDumpMode.graph)
    partitions = g.get_partitions(Policy.post_ops)
    path = directory / f"graph-{g.id}-partitioning.json"
    home = {id: p.id for p in partitions for id in p.ops}
    for entry in json.loads(path.read_text())["graph"]:
        assert entry["attrs"]["partition_id"] == {"type": "s64", "value": home[entry["id"]]}
        assert entry["attrs"]["backend"] == {"type": "string", "value": "benchgraph"}
    assert api.load(path) == api.load(directory / f"graph-{g.id}.json"), "readers drop the bookkeeping"


def test_an_op_that_nobody_computes_goes_to_the_fake_backend(directory: Path) -> None:
    g = built(api.Graph((api.Op(0, "Wildcard", inputs=(SRC,), outputs=(DST,)),)))
    set_dump_mode(GraphDumpMode.graph)
    g.get_partitions()
    (entry,) = json.loads((directory / f"graph-{g.id}-partitioning.json").read_text())["graph"]
    assert entry["attrs"]["backend"]["value"] == "fake_backend"


def test_ports_repeat_as_they_are_read(directory: Path) -> None:
    ops = (api.Op(0, "Sigmoid", inputs=(SRC,), outputs=(DST,)), api.Op(1, "Multiply", inputs=(SRC, DST), outputs=(replace(DST, id=2),)))
    set_dump_mode(GraphDumpMode.graph)
    g = built(api.Graph(ops))
    g.get_partitions()
    top = json.loads((directory / f"graph-{g.id}.json").read_text())
    assert (top["input_ports"], top["output_ports"]) == ([0, 0], [2])


def test_a_compiled_partition_is_dumped_with_its_shapes(directory: Path) -> None:
    """One file per partition and set of shapes; each compiles and computes on its own."""
    unknown = replace(SRC, shape=None), replace(DST, shape=None)
    p = Partition(Op(0, "ReLU", inputs=[unknown[0]], outputs=[unknown[1]]))
    set_dump_mode(GraphDumpMode.subgraph)
    for shape in ((2, 3), (4, 5), (2, 3)):
        p.compile([replace(SRC, shape=shape)], [replace(DST, shape=None)], Engine())
    files = sorted(directory.iterdir())
    assert len(files) == 2
    assert all(re.fullmatch(rf"graph-{p.id}-\d+\.json", f.name) for f in files)
    assert {api.load(f).outputs[0].known_shape for f in files} == {(2, 3), (4, 5)}


@pytest.mark.parametrize("name", CASES)
def test_every_dump_is_a_case_of_the_graph_driver(name: str, directory: Path) -> None:
    source = api.load(data_dir("inputs") / "graph" / f"{name}.json")
    set_dump_mode(BOTH)
    for p in built(source).get_partitions(Policy.post_ops):
        p.compile(p.input_ports, p.output_ports, Engine())
    files = sorted(directory.iterdir())
    assert len(files) >= 3
    result = CliRunner().invoke(main, ["--graph", "--expected-n-partitions=0", *(f"--case={f}" for f in files)])
    assert f"tests:{len(files)} passed:{len(files)} " in result.output, result.output


def test_a_live_out_inside_a_partition_stays_an_output(directory: Path) -> None:
    """A partition's dump names its outputs, also one that the partition itself reads."""
    mid, out = LogicalTensor(2, DType.f32, (2, 3)), LogicalTensor(3, DType.f32, (2, 3))
    ops = (
        api.Op(0, "Exp", inputs=(SRC,), outputs=(mid,)),
        api.Op(1, "ReLU", inputs=(mid,), outputs=(out,)),
        api.Op(2, "End", inputs=(mid,)),
    )
    set_dump_mode(GraphDumpMode.subgraph)
    (p,) = (p for p in built(api.Graph(ops)).get_partitions() if p.is_supported)
    p.compile(p.input_ports, p.output_ports, Engine())
    (file,) = directory.iterdir()
    (again,) = cut(api.load(file), Policy.fusion)
    assert [t.id for t in again.outputs] == [t.id for t in p.output_ports] == [2, 3]


def test_partitions_with_layouts_of_our_own_are_dumped_and_run_as_row_major(directory: Path) -> None:
    """A layout id means nothing outside the process; the driver takes such tensors as row-major."""
    src, w1, w2 = (LogicalTensor(i, DType.f32, shape) for i, shape in enumerate([(24, 96), (96, 128), (128, 8)]))
    mid, dst = LogicalTensor(3, DType.f32, (24, 128)), LogicalTensor(4, DType.f32)
    ops = (api.Op(0, "MatMul", inputs=(src, w1), outputs=(mid,)), api.Op(1, "MatMul", inputs=(mid, w2), outputs=(dst,)))
    first, second = built(api.Graph(ops)).get_partitions(Policy.debug)
    set_dump_mode(GraphDumpMode.subgraph)
    compiled = first.compile([src, w1], [replace(mid, layout_type=LayoutType.any)], Engine())
    between = compiled.query_logical_tensor(3)
    second.compile([between, w2], [dst], Engine())
    files = sorted(directory.iterdir(), key=lambda f: int(f.name.split("-")[1]))
    assert [api.load(f).inputs[0].layout_type for f in files] == [LayoutType.strided, LayoutType.opaque]
    assert api.load(files[1]).inputs[0].layout_id == between.get_layout_id()
    result = CliRunner().invoke(main, ["--graph", *(f"--case={f}" for f in files)])
    assert "tests:2 passed:2 " in result.output, result.output


def test_nothing_is_written_unless_asked(directory: Path) -> None:
    (p,) = relu().get_partitions()
    p.compile([SRC], [DST], Engine())
    assert not list(directory.iterdir())


def test_the_environment_asks_and_the_function_overrules_it(directory: Path) -> None:
    with override(dump=("graph",)):
        g = relu()
        g.get_partitions()
        assert {f.name for f in directory.iterdir()} == {f"graph-{g.id}.json", f"graph-{g.id}-partitioning.json"}
        set_dump_mode(GraphDumpMode.none)
        relu().get_partitions()
        assert len(list(directory.iterdir())) == 2
    with override(dump=("graph", "subgraph")):
        assert dump.dump_mode() is GraphDumpMode.none
        dump._chosen = None
        assert dump.dump_mode() == BOTH


def test_the_command_line_dumps_too(directory: Path) -> None:
    """Of each case its graph, the cut of each policy, and each partition; ops of the same shapes do not share a file."""
    words = ["--mode=I", "--policy=fused,post_ops", "--graph", "--case=op/relu.json", "--case=op/abs.json"]
    with override(dump=("graph", "subgraph")):
        result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    files = {f.name: api.load(f) for f in directory.iterdir()}
    by_index = {name for name in files if not re.fullmatch(r"graph-\d+-\d{6,}\.json", name)}
    cuts = {f"graph-{i}-{policy}-partitioning.json" for i in (0, 1) for policy in ("fused", "post_ops")}
    assert by_index == {"graph-0.json", "graph-1.json", *cuts}
    assert [files[f"graph-{i}.json"].ops[0].kind for i in (0, 1)] == ["ReLU", "Abs"]
    assert len(files.keys() - by_index) == 4
    assert len({name.split("-")[2] for name in files.keys() - by_index}) == 2, "two policies have one partition, two ops have not"


def test_the_command_line_refuses_a_folder_that_takes_no_dump(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/proc")
    with override(dump=("graph",)):
        result = CliRunner().invoke(main, ["--mode=I", "--graph", "--case=op/relu.json"])
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert result.output.startswith("benchgraph: BENCHGRAPH_DUMP: cannot write the file: ")


@pytest.mark.parametrize("modes", [4, -1, 7, "graph", None])
def test_bits_that_are_no_mode_are_refused(modes: object) -> None:
    with pytest.raises(InvalidArguments, match=r"set_dump_mode: the dump mode is .*; use GraphDumpMode.none, GraphDumpMode.subgraph, "):
        set_dump_mode(modes)  # type: ignore[arg-type]
    assert set_dump_mode(modes, allow_exception=False) is Status.invalid_arguments  # type: ignore[arg-type]
    assert set_dump_mode(BOTH) is Status.success


def test_a_directory_that_cannot_be_written_to_is_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = directory / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    set_dump_mode(GraphDumpMode.graph)
    with pytest.raises(InvalidArguments, match=r"graph-\d+.json: cannot write the file: No such file or directory; run in a directory"):
        relu().get_partitions()
