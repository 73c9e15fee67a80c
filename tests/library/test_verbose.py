"""The verbose log: oneDNN's fields in oneDNN's order, on request only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchgraph import DType, Engine, FpmathMode, Graph, LogicalTensor, Op, Partition, PropertyType, Stream, Tensor, __version__
from benchgraph import graph as api
from benchgraph.cli import main
from benchgraph.core.attrs import Attrs
from benchgraph.core.config import override
from benchgraph.library import verbose
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.partition import ir

SRC = LogicalTensor(0, DType.f32, (5, 16))
WEI = LogicalTensor(1, DType.f32, (16, 9), property_type=PropertyType.constant)
ACC, DST = LogicalTensor(2, DType.f32), LogicalTensor(3, DType.f32)
ENGINE = Engine()

# a line's fields from the engine to the backend, for the graph of `partition`
ABOUT = (
    r"cpu,\d+,chain,scores;ReLU_901,,"
    r"in0_f32:0:strided:undef:5x16:16s1 in1_f32:1:strided:constant:16x9:9s1 out0_f32:3:strided:undef:5x9:9s1,"
    r"fpm:bf16,jit:\w+,benchgraph"
)
MS = r"\d+(\.\d+)?(e-\d+)?"
HEADER = (
    rf"benchgraph_verbose,v1,info,benchgraph v{re.escape(__version__)}",
    r"benchgraph_verbose,v1,info,cpu,runtime:(omp|threadpool|seq),nthr:\d+",
    r"benchgraph_verbose,v1,info,cpu,isa:\w+",
    r"benchgraph_verbose,v1,info,gpu,runtime:none",
    r"benchgraph_verbose,v1,info,graph,backend,0:benchgraph",
    r"benchgraph_verbose,v1,graph,info,template:operation,engine,partition_id,partition_kind,op_names,data_formats,logical_tensors,"
    r"fpmath_mode,implementation,backend,exec_time",
)

Lines = Callable[[], list[str]]


@pytest.fixture
def lines(capfd: pytest.CaptureFixture[str]) -> Iterator[Lines]:
    """lines(): what was logged since it was last asked, without the header."""
    verbose._write_header()
    capfd.readouterr()
    yield lambda: capfd.readouterr().out.splitlines()
    verbose._write_header.cache_clear()


def partition() -> Partition:
    g = Graph(fpmath_mode=FpmathMode.bf16)
    g.add_op(Op(900, "MatMul", "scores", inputs=[SRC, WEI], outputs=[ACC]))
    g.add_op(Op(901, "ReLU", inputs=[ACC], outputs=[DST]))
    g.finalize()
    return g.get_partitions()[0]


def execute(compiled: CompiledPartition) -> None:
    out = compiled.query_logical_tensor(3)
    compiled.execute(Stream(ENGINE), [Tensor(SRC, ENGINE), Tensor(WEI, ENGINE)], [Tensor(out, ENGINE)])


def test_compilations_are_logged_with_hit_or_miss(lines: Lines) -> None:
    with override(verbose=("create",)):
        for _ in range(2):
            execute(partition().compile([SRC, WEI], [DST], ENGINE))
    got = lines()
    assert len(got) == 2
    assert re.fullmatch(f"benchgraph_verbose,v1,graph,compile:cache_(miss|hit),{ABOUT},{MS}", got[0])
    assert re.fullmatch(f"benchgraph_verbose,v1,graph,compile:cache_hit,{ABOUT},{MS}", got[1])


def test_executions_are_logged_one_by_one(lines: Lines) -> None:
    with override(verbose=("exec",)):
        compiled = partition().compile([SRC, WEI], [DST], ENGINE)
        for _ in range(3):
            execute(compiled)
    got = lines()
    assert len(got) == 3
    assert all(re.fullmatch(f"benchgraph_verbose,v1,graph,exec,{ABOUT},{MS}", line) for line in got)
    assert f",{compiled.description.id}," in got[0]


def test_the_fields_are_those_the_template_names(lines: Lines) -> None:
    with override(verbose=("exec",)):
        execute(partition().compile([SRC, WEI], [DST], ENGINE))
    (line,) = lines()
    fields = line.removeprefix("benchgraph_verbose,v1,graph,").split(",")
    assert len(fields) == len(verbose.FIELDS.split(","))
    assert fields[3] == "chain"


def test_nothing_is_logged_unless_asked(lines: Lines) -> None:
    execute(partition().compile([SRC, WEI], [DST], ENGINE))
    assert lines() == []


def test_unlogged_calls_are_not_wrapped() -> None:
    """Not a check per execution: none."""

    def call() -> None: ...

    def about() -> str:
        raise AssertionError("nobody reads this")

    assert verbose.logged(call, about) is call


def test_the_header_comes_once_before_the_first_line(capfd: pytest.CaptureFixture[str]) -> None:
    verbose._write_header.cache_clear()
    for _ in range(2):
        verbose.log("exec", "x", 0.0015)
    got = capfd.readouterr().out.splitlines()
    assert len(got) == len(HEADER) + 2
    for line, want in zip(got, HEADER, strict=False):
        assert re.fullmatch(want, line)
    assert got[-2:] == ["benchgraph_verbose,v1,graph,exec,x,1.5"] * 2


def test_data_formats_are_listed_per_op_defaults_included() -> None:
    """An op without a format leaves its place empty; a partition without any leaves the field empty."""
    src, dst = replace(SRC, shape=(2, 3, 4, 5)), replace(DST, shape=(2, 3, 4, 5))
    bias = LogicalTensor(4, DType.f32, (5,))
    add, relu = api.Op(0, "BiasAdd", Attrs(), (src, bias), (dst,), "a,b;c d"), api.Op(1, "ReLU", Attrs(), (dst,), (replace(dst, id=5),))
    compiled = Partition(Op(0, "ReLU", inputs=[src], outputs=[dst])).compile([src], [dst], ENGINE)
    described = ir.Partition(7, "chain", (add, relu), (src, bias), (replace(dst, id=5),))
    text = verbose.describe(described, compiled.executable.code)
    assert text.startswith("cpu,7,chain,a_b_c_d;ReLU_1,data:NXC;,in0_f32:0:")
    second = ir.Partition(7, "single", (replace(add, attrs=Attrs(data_format="NCX")),), (src, bias), (dst,))
    assert ",a_b_c_d,data:NCX," in verbose.describe(second, compiled.executable.code)


def test_a_scalar_and_an_opaque_tensor_are_written() -> None:
    assert verbose._tensor(LogicalTensor(4, DType.s64, (), property_type=PropertyType.host_scalar)) == "s64:4:strided:host_scalar::"
    opaque = LogicalTensor(4, DType.bf16, (2, 3), layout_type=verbose.LayoutType.opaque, layout_id=18)
    assert verbose._tensor(opaque) == "bf16:4:opaque:undef:2x3:18"


def test_a_pools_executions_are_logged_too(lines: Lines) -> None:
    class Inline:
        num_threads = 2

        def parallel_for(self, n: int, task: Callable[[int], None]) -> None:
            for i in range(n):
                task(i)

    compiled = partition().compile([SRC, WEI], [DST], ENGINE)
    tensors = [Tensor(SRC, ENGINE), Tensor(WEI, ENGINE)], [Tensor(compiled.query_logical_tensor(3), ENGINE)]
    with override(verbose=("exec",)):
        compiled.execute(Stream(ENGINE, Inline()), *tensors)
    assert len(lines()) == 1


def test_the_command_line_logs_what_it_compiles_and_checks() -> None:
    with override(verbose=("create", "exec")):
        result = CliRunner().invoke(main, ["--graph", "--case=mlp.json"])
    logged = [line for line in result.output.splitlines() if line.startswith("benchgraph_verbose,v1,graph,") and "template" not in line]
    assert [line.split(",")[3] for line in logged] == ["compile:cache_miss", "exec", "exec"]
    assert ",matmul_0;relu_0;matmul_1;relu_1;matmul_2;relu_2,," in logged[0]


def test_a_measurement_is_not_disturbed_by_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.session.machine_of", lambda *_: None)  # which measures its peaks for mode P
    with override(verbose=("exec",)):
        result = CliRunner().invoke(main, ["--mode=P", "--fix-times-per-prb=1", "--policy=fused", "--graph", "--case=mlp.json"])
    assert result.exit_code == 0, result.output
