"""`benchgraph opt`: passes over text. Golden tests of passes are in tests/golden/opt."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.commands.opt import _known, read
from benchgraph.compile import compile_partition
from benchgraph.core.config import override
from benchgraph.core.dtypes import DType
from benchgraph.gir import passes as gir
from benchgraph.gir.build import from_partition
from benchgraph.gir.text import print_gir
from benchgraph.machine.table_file import FOLDER, lineage
from benchgraph.machine.table_file import read as read_table
from benchgraph.machine.target import ISAS, Target
from benchgraph.options.argv import parse
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.schedule.tuning import tuned
from benchgraph.tir import passes as tir
from tests.support.partitions import partition_of

GRAPH = """\
graph(%0: f32[4,8]) {
  %1: f32[4,8] = SoftMax(%0)
  return %1
}
"""
FUNCTION = """\
func f(x: f32[8], y: f32[8]) {
  for i in 8 {
    y[i + 0] = x[i]
  }
}
"""
MODEL = ("--isa=avx512_core", "--cores=2")


def run(*words: str, given: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["opt", *words], input=given)
    return result.exit_code, result.stdout, result.stderr


def test_a_pass_runs_over_graph_ir() -> None:
    code, out, _ = run("--pipeline=decompose", "-", given=GRAPH)
    assert code == 0
    assert "= _RowMax(%0) {axes=[1], keep_dims=true}\n" in out
    assert run("--pipeline=decompose", "-", given=out) == (0, out, "")


def test_a_pass_runs_over_every_function_of_tensor_ir() -> None:
    code, out, _ = run("--pipeline=simplify", "-", given=FUNCTION + FUNCTION.replace("func f", "func g"))
    assert code == 0
    assert out == (FUNCTION + FUNCTION.replace("func f", "func g")).replace("i + 0", "i")


def test_the_smallest_graph_is_reached() -> None:
    code, out, _ = run("--pipeline=gir,lower,tir", *MODEL, "-", given=GRAPH)
    assert code == 0
    assert out.startswith("func main(v0: f32[32], v1: f32[32]) v1 over v0 {")
    avx2 = run("--pipeline=gir,lower,tir", "--isa=avx2", "-", given=GRAPH)[1]
    assert ":+8" in avx2
    assert ":+16" not in avx2


def test_a_forced_schedule_that_the_target_does_not_have_is_said() -> None:
    """As in a dump of another machine: what the text says is done, and named."""
    (name, row), *_ = ((file.stem, row) for file in FOLDER.glob("*.toml") for row in read_table(file.stem).schedules if row.threads == 2)
    level = next(f.level for f in reversed(lineage(name)) if f.level)
    (problem,) = parse(shlex.split(row.case)).problems
    (partition,) = partitions(problem.graph(), Policy.fused)
    theirs = replace(partition, options=tuned(partition.options, Target(ISAS[level], 32 << 10, 1 << 20, cores=2, machine=name)))
    text = print_gir(from_partition(theirs))
    assert row.nest in text
    said = (
        f"benchgraph: opt: '{row.nest}' has the schedule of the machine table {name}, {row.ratio:.2f} times as fast as least cost, as the "
        "text forces it, and this target has no such row; take it out of forced=[...] for the target's own choice\n"
    )
    assert run("--pipeline=gir", f"--isa={level}", "-", given=text)[::2] == (0, said)
    assert run("--pipeline=gir", f"--isa={level}", f'--target=machine="{name}"', "-", given=text)[::2] == (0, "")
    assert run("--pipeline=decompose", f"--isa={level}", "-", given=text)[::2] == (0, "")  # which takes no schedule
    free, forced = (
        run("--pipeline=gir", f"--isa={level}", "-", given=given)[1] for given in (re.sub(r" forced=\[.*?\)\]", "", text), text)
    )
    assert free != re.sub(r" forced=\[.*?\)\]", "", forced)


def test_the_result_of_every_pass_is_shown_on_request() -> None:
    _, out, err = run("--pipeline=decompose,fold-constants", "--print-after-all", *MODEL, "-", given=GRAPH)
    assert err.split("# ---- after ")[1:] == [f"{name}\n{out}" for name in ("decompose", "fold-constants")]


def test_fields_of_the_machine_are_validated() -> None:
    words = ("--pipeline=decompose", "--isa=avx2", "--cores=3")
    want = Target(ISAS["avx2"], l1_bytes=32 << 10, l2_bytes=1 << 16, cores=3, emulated=frozenset({DType.s16}))
    assert read((*words, "--target=l2_bytes=65536, emulated=[s16]", "-")).target == want
    for said, what in {
        "l3=1": "it is no list of FIELD=VALUE: expected ')' or a field of Target: 'name=value'; fields: l1_bytes, l2_bytes, ",
        "machine=zen4": "it is no list of FIELD=VALUE: expected a string; fields: ",
        "l2_bytes=0": "l2_bytes is 0; give 1 or more",
        "cores=-1": "cores is -1; give 1 or more",
    }.items():
        code, _, err = run(*words, f"--target={said}", "-", given=GRAPH)
        assert code == 2
        assert f"opt: --target={said}: {what}" in err


@pytest.mark.parametrize("number", ["01", "9" * 5000])
def test_numbers_that_are_none_are_syntax_errors(number: str) -> None:
    code, _, err = run("--pipeline=decompose", "-", given=GRAPH.replace("SoftMax(%0)", f"SoftMax(%0) {{axis={number}}}"))
    assert code == 1
    assert "expected a number without leading zeros" in err


def test_the_passes_are_listed() -> None:
    out = run("--list")[1]
    assert re.search(r"\n  simplify +once more, after vectorise\n", out)
    assert all(f"  {p.name} " in out for p in (*gir.PIPELINE, *tir.PIPELINE))
    assert max(map(len, out.splitlines())) <= 80


def test_a_dumped_stage_is_a_file_to_begin_from(tmp_path: Path) -> None:
    """What the compiler makes of a case is what opt makes of its first stage."""
    with override(dump_dir=str(tmp_path), isa="portable"):
        compile_partition(partition_of(lambda b: b.op("MatMul", b.input((4, 8)), b.constant((8, 16)))))
        begin, *ends = (sorted(tmp_path.glob(f"*-{stage}.txt"))[0] for stage in ("gir", "schedule", "tir"))
        assert run("--pipeline=gir", str(begin))[1] == ends[0].read_text()
        assert run("--pipeline=gir,lower", str(begin))[1].startswith(ends[1].read_text())
    refused = run("--pipeline=gir", str(next(tmp_path.glob("*-partition.txt"))))
    assert refused[0] == 1
    assert "take a later stage, such as p0-01-gir.txt" in refused[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-",), "opt: no passes are named; add --pipeline=PASS[,PASS...]"),
        (("--pipeline=simplify",), "opt: 0 files are named"),
        (("--pipeline=simplfy", "-"), "opt: --pipeline=simplfy: no such pass; did you mean 'simplify'?"),
        (("--pipeline=simplify", "-"), "it is for Tensor IR, and there is Graph IR before it; put 'lower' before it"),
        (("--pipeline=decompose", "--isa=avx3", "-"), "opt: --isa: bad value 'avx3'"),
        (("--pipeline=decompose", "--core=2", "-"), "opt: --core: unknown option; did you mean '--cores'?"),
    ],
)
def test_invalid_words_are_refused(words: tuple[str, ...], message: str) -> None:
    code, out, err = run(*words, given=GRAPH)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "standard input:1:1: expected 'graph(' of Graph IR, or 'func' of Tensor IR"),
        (GRAPH.replace("(%0)\n", "(%0\n"), "standard input:3:3: expected ',' or ')'\n  return %1\n  ^"),
        (FUNCTION.replace("+ 0", "+ k"), "standard input:3:11: no tensor or loop variable is called 'k' here; declare it"),
        (FUNCTION.replace("in 8", "in 9"), "standard input: TIR function f: `y[i + 0] = x[i]`: "),
        (
            "; ModuleID = 'f'\ndefine void @f() {",
            "standard input: the text is LLVM IR, which comes after all passes; name the Tensor IR before",
        ),
        ("target triple = 'x86_64'\n", "standard input: the text is LLVM IR"),
        (
            GRAPH.replace("%1: f32[4,8]", "%1: f32[4,9]"),
            "standard input: `%1: f32[4,9] = SoftMax(%0)`: the op gives %1 the shape (4, 8), the text (4, 9); correct the shape",
        ),
        (GRAPH.replace("(%0)\n", "(%0) {axis=5}\n"), "standard input: `%1: f32[4,8] = SoftMax(%0) {axis=5}`: axis 5 is out of range"),
        (
            GRAPH.replace("SoftMax", "MatMul"),
            "`%1: f32[4,8] = MatMul(%0)`: the operands or attributes are not those of MatMul; 'benchgraph ops",
        ),
    ],
)
def test_broken_text_is_refused_with_its_place(text: str, message: str) -> None:
    code, _, err = run("--pipeline=simplify", "-", given=text)
    assert code == 1
    assert message in err


def test_a_pass_that_lacks_what_others_give_is_named() -> None:
    """Lowering needs the template parameters of a product, which schedule chooses."""
    text = GRAPH.replace("SoftMax(%0)", "MatMul(%0, %2)").replace("[4,8])", "[4,8], %2: f32[8,8])")
    code, _, err = run("--pipeline=decompose,make-views,fuse-fine,lower", *MODEL, "-", given=text)
    assert code == 1
    assert "opt: lower: the text is of another stage than this one works on; give the stage that stands before it in " in err


def test_ops_that_are_not_fused_are_not_lowered() -> None:
    code, _, err = run("--pipeline=lower", "-", given=GRAPH)
    assert code == 1
    assert "opt: lower: an op of the graph is in no fused op; put 'gir', all passes over Graph IR, before it" in err


def test_a_missing_file_is_named() -> None:
    assert run("--pipeline=simplify", "nowhere.txt")[2] == (
        "benchgraph: nowhere.txt: cannot read the file: No such file or directory; name the text of a stage, or - for standard input\n"
    )


def test_a_former_name_of_a_pass_is_its_new_name() -> None:
    p = next(p for p in (*gir.PIPELINE, *tir.PIPELINE) if p.former_names)
    assert _known(p.former_names[0]) == p.name
