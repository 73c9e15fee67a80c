"""`benchgraph import`: the folder it writes, and the table of times."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.files import data_dir
from benchgraph.harness.bench import Bench
from benchgraph.options.argv import parse
from benchgraph.results.json_report import write
from benchgraph.results.mode import Mode
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

V1 = "onednn_verbose,v1,primitive,exec,cpu,"
MATMUL = f"{V1}matmul,jit:a,undef,src:f32:a:blocked:ab::f0 wei:f32:a:blocked:ab::f0 dst:f32:a:blocked:ab::f0,,,32x64:64x16,{{}}\n"
RELU = f"{V1}eltwise,jit:b,forward_training,data:f32::blocked:ab::f0,,alg:eltwise_relu alpha:0 beta:0,32x16,0.5\n"
RNN = f"{V1}rnn,ref,forward_training,src_layer:f32::blocked:abc::f0,,alg:vanilla_lstm,l1t5mb2,3.0\n"
LOG = "onednn_verbose,v1,info,oneDNN v3.13.2\n" + MATMUL.format("0.5") + RELU + "loss 0.1\n" + MATMUL.format("1.5") + RNN + MATMUL[:70]

BATCH = """\
# From torch.log by `benchgraph import`: 2 cases, in the order of the log
# oneDNN v3.13.2

# 2 executions, 2 ms, at least 0.5 each; jit:a; line 2
--matmul 32x64:64x16
# 1 execution, 0.5 ms, at least 0.5 each; jit:b; line 3
--eltwise 32x16
# not expressed: no driver runs the primitive rnn
# 1 execution, 3 ms, at least 3 each; ref; line 6
#   cpu,rnn,ref,forward_training,src_layer:f32::blocked:abc::f0,,alg:vanilla_lstm,l1t5mb2
# not expressed: line 7 of the log: it is cut off: it does not end with a time
#   onednn_verbose,v1,primitive,exec,cpu,matmul,jit:a,undef,src:f32:a:bloc
"""
TIMES = """\
4 executions of primitives: 5.5 ms

 ms  share  executions  primitive
  3  54.5%           1  rnn
  2  36.4%           2  matmul
0.5   9.1%           1  eltwise

 ms  share  executions  implementation
  3  54.5%           1  ref
  2  36.4%           2  jit:a
0.5   9.1%           1  jit:b

 ms  share  executions  mean  least            rate  case
  3  54.5%           1     3      3               -  not expressed: RNN
  2  36.4%           2     1    0.5  0.0655 GFLOP/s  --matmul 32x64:64x16
0.5   9.1%           1   0.5    0.5  0.00102 GFLOP/s  --eltwise 32x16
""".replace("RNN", RNN.removeprefix(V1.removesuffix("cpu,")).rpartition(",")[0])
SUMMARY = """\
torch.log: 7 lines, of which 1 are of other programs and 1 are remarks
  1 line not expressed: no driver runs the primitive rnn
  line 7 cannot be read: it is cut off: it does not end with a time
2 cases in out/batch, all times in out/times.txt
next: benchgraph --mode=P --batch=out/batch
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("torch.log").write_text(LOG)
    return tmp_path


def run(*words: str, code: int = 0, bench: Bench | None = None) -> str:
    done = CliRunner().invoke(main, list(words), obj=bench or Bench())
    assert done.exit_code == code, done.output
    return done.output


def test_a_log_becomes_a_batch_file_that_is_read_back(here: Path) -> None:
    run("import", "torch.log", "-o", "out")
    assert Path("out/batch").read_text() == BATCH
    assert [p.description for p in parse(["--batch=out/batch"]).problems] == ["--matmul 32x64:64x16", "--eltwise 32x16"]


def test_the_table_says_where_the_time_went() -> None:
    shown = run("import", "torch.log", "--output=out")
    assert Path("out/times.txt").read_text().split() == TIMES.split()
    assert shown.split() == (TIMES + SUMMARY).split()
    assert SUMMARY in shown


def test_of_long_tables_the_terminal_gets_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.commands.import_.SHOWN", 1)
    shown = run("import", "torch.log", "-o", "out")
    assert re.search(r"^ *2.5 +45.5% +3 +2 others$", shown, re.M)
    assert "others" not in Path("out/times.txt").read_text()


def test_a_log_without_a_case_is_a_failure(here: Path) -> None:
    Path("rnn.log").write_text(RNN)
    said = run("import", "rnn.log", "-o", "out", code=1)
    assert "1 line not expressed: no driver runs the primitive rnn\n0 cases in out/batch" in said


def test_the_batch_runs() -> None:
    run("import", "torch.log", "-o", "out")
    assert "passed:2" in run("--batch=out/batch")


def test_a_replay_stands_beside_the_log_with_shares_of_the_roof() -> None:
    from benchgraph.results.json_report import parse as parse_report
    from benchgraph.results.json_report import render

    run("import", "torch.log", "-o", "out")
    run("--mode=P", "--batch=out/batch", "--report=json:out.json", bench=fake_bench(FakeLibrary(Clock())))
    results = parse_report(Path("out.json").read_text())
    assert (results.mode, results.machine is not None) == (Mode.performance, True)
    assert results.machine is not None
    peaks = replace(results.machine, peak_flops={"f32": 1e9}, memory_bandwidth=1e12)
    write("out.json", render(replace(results, machine=peaks)))
    shown = run("import", "torch.log", "-o", "out", "--replay=out.json")
    head, row = re.findall(r"^.*(?:% roof|--matmul).*$", shown, re.M)
    assert head.split()[-4:] == ["%", "roof", "replay", "case"]
    assert row.split()[7] == "6.6%"  # 65,536 operations in 1 ms of a peak of 1 GFLOP/s
    assert float(row.split()[8]) == pytest.approx(results.cases[0].result.timings[0].timing.median_s * 1e3, rel=1e-3)


def test_graphs_of_partitions_are_copied_beside_the_batch(here: Path) -> None:
    tensors = (
        "in0_f32:0:strided:variable:128x13:13s1 in1_f32:1:strided:constant:13x512:512s1 in2_f32:2:strided:constant:512:1 "
        "in3_f32:5:strided:constant:512x256:256s1 in4_f32:6:strided:constant:256:1 in5_f32:9:strided:constant:256x128:128s1 "
        "in6_f32:10:strided:constant:128:1 out0_f32:12:strided:undef:128x128:128s1"
    )
    Path("graph-7-123.json").write_text((data_dir("inputs") / "graph" / "mlp.json").read_text())
    Path("torch.log").write_text(f"onednn_verbose,v1,graph,exec,cpu,7,chain,a,,{tensors},fpm:strict,matmul_t,dnnl_backend,2\n")
    shown = run("import", "torch.log", "-o", "out")
    assert "1 execution of partitions" in shown
    Path("graph-7-123.json").unlink()
    assert "passed:1" in run("--batch=out/batch")


REFUSED = {
    "no log": (["-o", "out"], 2, "import: 0 files are named; name one log or model"),
    "no folder": (["torch.log"], 2, "import: no folder is named; add -o DIR"),
    "an option": (["torch.log", "--out=x"], 2, "import: --out: unknown option; did you mean '--output'?"),
    "no file": (["absent.log", "-o", "out"], 1, "absent.log: cannot read it: No such file or directory; name a file"),
    "no folder there": (["torch.log", "-o", "torch.log"], 2, "import: --output=torch.log: cannot write the file"),
    "a replay of a model": (["m.onnx", "-o", "out", "--replay=a.json"], 2, "import: --replay: a model has no times; leave it out"),
    "no report": (["torch.log", "-o", "out", "--replay=absent.json"], 2, "import: --replay=absent.json: cannot read it"),
    "no JSON": (["torch.log", "-o", "out", "--replay=torch.log"], 1, "import: --replay=torch.log: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_one_line(name: str) -> None:
    words, code, message = REFUSED[name]
    shown = run("import", *words, code=code)
    assert message in shown
    assert shown.count("\n") == 1
