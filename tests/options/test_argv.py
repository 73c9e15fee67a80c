"""The command line: the state that each case sees, and errors."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.errors import InvalidArguments, UsageError
from benchgraph.harness.command_words import select_cases
from benchgraph.importers.model import MODEL_SUFFIXES
from benchgraph.options.argv import CASE_FILES, parse
from benchgraph.options.plugins import load_driver, names
from benchgraph.results.mode import Mode
from benchgraph.results.result import Shard


def repros(*words: str) -> list[str]:
    return [p.repro for p in parse(list(words)).problems]


@pytest.mark.parametrize(
    "words",
    [
        ["--graph", "--case=a.json"],
        ["--driver", "graph", "--case", "a.json"],
        ["--driver=graph", "--case=a.json"],
        ["--graph", "--mb", "0", "--expected-n-partitions", "1", "--case=a.json"],
    ],
)
def test_every_spelling_means_the_same(words: list[str]) -> None:
    assert repros(*words) == ["--graph --case=a.json"]


def test_each_case_runs_with_the_options_before_it() -> None:
    words = ["--graph", "--mb=4", "--case=a.json", "--mb=8", "--expected-n-partitions=0", "--case=b.json"]
    assert repros(*words) == ["--graph --mb=4 --case=a.json", "--graph --mb=8 --expected-n-partitions=0 --case=b.json"]


# ---- options behind the last case ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    [
        "--mode=P", "--mode-modifier=P", "--policy=post_ops", "--seed=3,4", "--fill=reals", "--repeats-per-prb=2", "--memory-kind=buffer",
        "--library=onednn", "--threads=1,2", "--isa=avx2", "--tuning=t.json", "--max-ms-per-prb=50", "--fix-times-per-prb=3",
        "--cold-cache=all", "--num-streams=2", "--start=1", "--match=b.json", "--shard=2/2", "--fail-fast", "-v3", "--verbose=3",
        "--perf-template=csv", "--jobs=2", "--timeout=9", "--report=json:out.json", "--resume=out.json", "--history=h.db", "--commit=abc",
        "--summary=no-failures", "--canonical", "--dump-dir=dump", "--engine=cpu",
    ],
)  # fmt: skip
def test_a_shared_option_holds_wherever_it_stands(word: str, tmp_path: Path) -> None:
    """In front of the driver, of the cases, behind them, behind a batch file: the same problems and the same settings of the run."""
    (tmp_path / "batch").write_text("--case=a.json --case=b.json")
    cases, batch = ["--case=a.json", "--case=b.json"], [f"--batch={tmp_path / 'batch'}"]
    first = parse([word, "--graph", *cases])
    for words in (["--graph", word, *cases], ["--graph", *cases, word], ["--graph", *batch, word], [word, "--graph", *batch]):
        line = parse(words)
        assert (line.globals, line.planned) == (first.globals, first.planned), words
        assert [(p.index, p.globals, p.knobs) for p in line.problems] == [(p.index, p.globals, p.knobs) for p in first.problems], words


def test_options_before_a_case_keep_their_values() -> None:
    words = ["--graph", "--case=a.json", "--mode=L", "--case=b.json", "--mode=P", "--seed=7", "--mode=I"]
    assert repros(*words) == ["--mode=I --seed=7 --graph --case=a.json", "--mode=L --seed=7 --graph --case=b.json"]
    assert repros("--graph", "--case=a.json", "--mode=L", "--case=b.json") == ["--graph --case=a.json", "--mode=L --graph --case=b.json"]


@pytest.mark.parametrize("word", ["--match=b.json", "--start=1", "--fail-fast", "-v1", "--dump-dir=d", "--shard=2/2", "--canonical"])
def test_how_the_run_is_done_holds_for_the_cases_before_it_too(word: str) -> None:
    between, first = parse(["--graph", "--case=a.json", word, "--case=b.json"]), parse([word, "--graph", "--case=a.json", "--case=b.json"])
    assert [p.globals for p in between.problems] == [p.globals for p in first.problems]


def test_a_shared_option_at_the_end_of_a_batch_file_holds_for_its_cases(tmp_path: Path) -> None:
    (tmp_path / "batch").write_text("--case=a.json\n--mode=P")
    assert repros("--graph", f"--batch={tmp_path / 'batch'}") == ["--mode=P --graph --case=a.json"]
    more = ["--graph", f"--batch={tmp_path / 'batch'}", "--case=b.json"]
    assert repros(*more) == ["--graph --case=a.json", "--mode=P --graph --case=b.json"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mb=9"], "--mb=9: no case stands behind it; move it in front of the case: a case has the options before it"),
        (["--mb", "9"], "--mb=9: no case stands behind it; move it in front of the case: a case has the options before it"),
        (
            ["--dt=bf16", "--mode=P", "--mb=9"],
            "--dt=bf16: no case stands behind it, nor behind --mb=9; move it in front of the case: a case has the options before it",
        ),
        (["--matmul"], "--matmul: no case stands behind it; move it in front of the case: a case has the options before it"),
    ],
)
def test_a_case_option_with_no_case_behind_it_is_refused(words: list[str], message: str) -> None:
    for before in (["--graph", "--case=a.json"], ["--graph", "--batch=test_paper"]):
        with pytest.raises(UsageError) as bad:
            parse([*before, *words])
        assert str(bad.value) == message


def test_a_case_option_at_the_end_of_a_batch_file_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "batch").write_text("--case=a.json\n--mb=9")
    with pytest.raises(UsageError) as bad:
        parse(["--graph", f"--batch={tmp_path / 'batch'}"])
    assert str(bad.value).startswith(f"{tmp_path / 'batch'}:2: --mb=9: no case stands behind it; ")
    assert len(parse(["--graph", f"--batch={tmp_path / 'batch'}", "--case=b.json"]).problems) == 2


def test_an_option_that_restores_a_default_needs_no_case() -> None:
    assert repros("--graph", "--mb=4", "--case=a.json", "--mb=", "--reset") == ["--graph --mb=4 --case=a.json"]


def test_a_match_of_a_batch_file_holds_up_to_reset_and_the_command_lines_narrows_it(tmp_path: Path) -> None:
    (tmp_path / "batch").write_text("--match==a --case=a1 --case=a2 --case=b1 --reset --case=b2")
    batch = f"--batch={tmp_path / 'batch'}"
    assert repros("--graph", batch) == ["--graph --case=a1", "--graph --case=a2", "--graph --case=b2"]
    assert repros("--graph", batch, "--match=2") == repros("--match=2", "--graph", batch) == ["--graph --case=a2", "--graph --case=b2"]


def test_a_problem_knows_the_innermost_batch_file_that_it_stands_in(tmp_path: Path) -> None:
    (tmp_path / "inner").write_text("--matmul 2x3:3x4")
    (tmp_path / "outer").write_text(f"--batch={tmp_path}/inner --reset --matmul 4x5:5x6")
    problems = parse([f"--batch={tmp_path}/outer", "--matmul", "6x7:7x8"]).problems
    assert [p.batch for p in problems] == ["inner", "outer", ""]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--case=a.json", "--mb=4"], ["--graph --mb=4 --case=a.json"]),
        (["--case=a.json", "--mb=4", "--graph"], ["--graph --mb=4 --case=a.json"]),
        (["--mb=1", "--case=a.json", "--mb=2", "--case=b.json"], ["--graph --mb=1 --case=a.json", "--graph --mb=2 --case=b.json"]),
        (["2x3:3x4", "--driver", "matmul", "--dt=bf16", "--mode=L"], ["--mode=L --matmul --dt=bf16 2x3:3x4"]),
        (["--batch=test_paper", "--mb=8", "--match=mlp_1"], ["--graph --mb=32 --case=paper/mlp_1.json"]),
        (["--matmul", "2x3:3x4", "--softmax", "4x5", "--axis=0"], ["--matmul 2x3:3x4", "--softmax --axis=0 4x5"]),
    ],
)
def test_behind_a_command_options_of_the_driver_hold_as_the_shared_ones_do(words: list[str], lines: list[str]) -> None:
    found = [p.repro for p in select_cases("show", words).problems]
    assert found[: len(lines)] == lines


# ---- state -----------------------------------------------------------------------------------------------------------


def test_descriptors_need_no_option_and_see_the_options_before_them() -> None:
    words = ["--matmul", "--dt=f32,bf16", "2x3:3x4", "--dt=f16", '5x6:6x7_n"a=b"', "--graph", "--case=a.json"]
    assert repros(*words) == [
        "--matmul 2x3:3x4",
        "--matmul --dt=bf16 2x3:3x4",
        '--matmul --dt=f16 5x6:6x7_n"a=b"',
        "--graph --case=a.json",
    ]


def test_reset_restores_the_driver_and_keeps_the_globals() -> None:
    words = ["--mode=P", "--graph", "--seed=3", "--mb=4", "--case=a.json", "--reset", "--case=b.json"]
    assert repros(*words) == ["--mode=P --seed=3 --graph --mb=4 --case=a.json", "--mode=P --seed=3 --graph --case=b.json"]


def test_an_empty_value_restores_the_default() -> None:
    assert repros("--graph", "--mb=4", "--mode=P", "--mb=", "--mode=", "--case=a.json") == ["--graph --case=a.json"]


OF_MACHINE = ("--library", "--isa", "--threads", "--tuning", "--cluster", "--where")
OF_CASES = ("--shard", "--match", "--start", "--resume", "--jobs", "--timeout", "--data")
OF_FILES = ("--report", "--history", "--commit", "--save-failures", "--dump-dir")


@pytest.mark.parametrize("option", [*OF_MACHINE, *OF_CASES, *OF_FILES])
def test_an_empty_value_on_the_command_line_is_an_error_where_it_would_mislead(option: str, tmp_path: Path) -> None:
    """It is that of a variable that is not set: then another library or machine, or all cases, would be tested, or nothing be written."""
    message = rf"^{option}: a value is missing, as of a variable that is not set; give .*, or leave the option out$"
    with pytest.raises(UsageError, match=message):
        parse([f"{option}=", "--graph", "--case=a.json"])
    (tmp_path / "batch").write_text(f"{option}=\n--case=a.json\n")
    assert repros("--graph", f"--batch={tmp_path / 'batch'}") == ["--graph --case=a.json"]


def test_comma_lists_multiply_and_the_driver_varies_fastest() -> None:
    assert repros("--graph", "--mb=1,2", "--threads=1,2", "--case=a.json") == [
        "--threads=1 --graph --mb=1 --case=a.json",
        "--threads=1 --graph --mb=2 --case=a.json",
        "--threads=2 --graph --mb=1 --case=a.json",
        "--threads=2 --graph --mb=2 --case=a.json",
    ]


def test_the_loops_nest_as_in_benchdnn() -> None:
    """Shapes, attributes, partition counts, math modes, op kinds, properties, dtypes, batches, from the outermost to the innermost."""
    options = {
        "--mb": ("0", "2"), "--dt": ("f16", "bf16"), "--tensor-property": ("1:undef", "1:constant"), "--op-kind": ("0:Add", "0:Divide"),
        "--attr-fpmath": ("strict", "any"), "--expected-n-partitions": ("0", "2"), "--op-attrs": ("0:a:1", "0:a:2"),
        "--in-shapes": ("0:1", "0:2"),
    }  # fmt: skip
    words = [f"{option}={','.join(alternatives)}" for option, alternatives in options.items()]
    problems = parse(["--graph", *words, "--case=a.json"]).problems
    assert len(problems) == 2 ** len(options)
    for bit, (option, (first, second)) in enumerate(options.items()):
        values = [f" {option}={second} " in p.repro for p in problems]
        assert values == [bool(i >> bit & 1) for i in range(len(problems))], (option, first)


def test_an_empty_alternative_is_the_default() -> None:
    assert repros("--graph", "--op-attrs=,0:strides:4x4", "--mb=2,", "--case=a.json") == [
        "--graph --mb=2 --case=a.json",
        "--graph --case=a.json",
        "--graph --mb=2 --op-attrs=0:strides:4x4 --case=a.json",
        "--graph --op-attrs=0:strides:4x4 --case=a.json",
    ]


def test_a_map_of_dtypes_replaces_one_for_all() -> None:
    assert repros("--graph", "--dt=f16", "--dt=3:bf16+0:f32", "--case=a.json") == ["--graph --dt=0:f32+3:bf16 --case=a.json"]


def test_modifiers_add_up_until_they_are_taken_back() -> None:
    words = ["--mode=R", "--mode-modifier=P", "--mode-modifier=m", "--graph", "--case=a.json", "--mode-modifier=", "--case=a.json"]
    assert repros(*words) == ["--mode=R --mode-modifier=MP --graph --case=a.json", "--mode=R --graph --case=a.json"]


def test_modes_that_leave_out_the_reference() -> None:
    words = ["--mode=R", "--case=a", "--mode=F", "--case=a", "--mode=S", "--case=a", "--mode=P", "--case=a", "--mode=B", "--case=a"]
    assert [p.globals.has_no_reference for p in parse(["--graph", *words]).problems] == [True, True, True, False, False]


def test_options_that_modes_determine_are_refused() -> None:
    f, s = parse(["--graph", "--max-ms-per-prb=77", "--mode=F", "--case=a", "--mode=S", "--case=a"]).problems
    assert (f.globals.budget_ms, s.globals.fixed_times) == (10, 1)
    assert f.repro == "--mode=F --graph --case=a"


@pytest.mark.parametrize("flag", ["--canonical", "--fail-fast"])
def test_flags_may_leave_out_their_value(flag: str) -> None:
    name = flag.removeprefix("--").replace("-", "_")
    spellings = ([flag], [f"{flag}=1"], [flag, "true"], [flag, "--mb=2"])
    assert [getattr(parse(["--graph", *words]).globals, name) for words in spellings] == [True] * 4
    assert getattr(parse([flag, "false"]).globals, name) is False


def test_match_and_shard_leave_cases_out_and_keep_their_numbers() -> None:
    def chosen(*words: str) -> list[int]:
        return [p.index for p in parse([*words, "--graph", "--mb=1,2,3,4", "--case=a.json", "--case=b.json"]).problems]

    assert chosen("--match=mb=[23].*b.json") == [5, 6]
    assert [chosen(f"--shard={i}/3") for i in (1, 2, 3)] == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert chosen("--match=a.json", "--shard=2/2") == [1, 3]
    with pytest.raises(UsageError, match="--match and --shard leave none of 1 cases; widen them"):
        parse(["--match=zzz", "--graph", "--case=a.json"])


def test_shards_of_one_run_know_that_they_are() -> None:
    def shard(*words: str) -> Shard | None:
        return parse([*words, "--graph", "--mb=1,2,3,4", "--case=a.json", "--case=b.json"]).shard

    first, second = shard("--shard=1/3"), shard("--shard=2/3")
    assert first is not None
    assert second is not None
    assert (first.part, first.parts, first.cases) == (1, 3, 8)
    assert second == replace(first, part=2)
    chosen = shard("--shard=1/3", "--match=mb=[23].*b.json")
    assert chosen is not None
    assert (chosen.cases, chosen.batch != first.batch) == (2, True)
    assert [shard(), shard("--shard=1/1")] == [None, None]
    other = shard("--shard=1/3", "--seed=2")
    assert other is not None
    assert other.batch != first.batch


def test_options_without_effect_are_accepted_with_one_remark() -> None:
    line = parse(["--fast-ref=true", "--fast-ref", "false", "--graph", "--mem-check=false", "--case=a.json"])
    assert line.problems[0].repro == "--graph --case=a.json"
    assert line.notes == (
        "--fast-ref changes nothing: the reference is numpy's",
        "--mem-check changes nothing: whether a case fits into memory is always checked",
    )


def test_policies_are_a_list_measured_together() -> None:
    (problem,) = parse(["--graph", "--policy=fused,one_op_each", "--case=a.json"]).problems
    assert problem.globals.policies == ("fused", "one_op_each")
    assert problem.repro == "--policy=fused,one_op_each --graph --case=a.json"


def test_mode_p_measures_all_policies_and_mode_c_checks_the_product() -> None:
    c, p = parse(["--graph", "--case=a.json", "--mode=p", "--case=a.json"]).problems
    assert (c.globals.mode, c.globals.policies) == (Mode.correctness, ("fused",))
    assert (p.globals.mode, p.globals.policies) == (Mode.performance, ("fused", "post_ops", "one_op_each"))


def test_indices_count_problems() -> None:
    assert [p.index for p in parse(["--graph", "--mb=1,2", "--case=a.json", "--case=b.json"]).problems] == [0, 1, 2, 3]


def test_verbosity_has_short_forms() -> None:
    assert [parse([w]).globals.verbose for w in ("-v", "-v1", "-v3", "--verbose=2")] == [1, 1, 3, 2]


def test_reports_add_up() -> None:
    line = parse(["--report=json:a.json", "--report", "console"])
    assert line.globals.report == (("json", "a.json"), ("console", ""))


def test_max_ms_is_clamped_as_in_benchdnn() -> None:
    assert [parse([f"--max-ms-per-prb={ms}"]).globals.max_ms_per_prb for ms in ("1", "1e9", "42.5")] == [10, 60000, 42.5]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grahp"], "--grahp: unknown option; did you mean '--graph'?"),
        (["--graph", "--mbb=4"], "--mbb: unknown option; did you mean '--mb'?"),
        (["--graph", "--zzzzzzzz=4"], "--zzzzzzzz: unknown option; see 'benchgraph --help'"),
        (["--softmax", "--alpha=1"], "--alpha: unknown option; it is one of --eltwise"),
        (["--graph=mlp.json"], "--graph: a driver takes no value; write '--graph --case=FILE'"),
        (["--driver=grap"], "no driver named 'grap'; did you mean 'graph'?"),
        (["--mb=4"], "--mb: this option belongs to a driver; name the driver first, as in '--driver graph'"),
        (["mlp.json"], "mlp.json: a word that is not an option; write: benchgraph --driver graph --case=mlp.json"),
        (["a b=c"], "a b: a word that is not an option; write: benchgraph --driver graph '--case=a b=c'"),
        (["--graph", "mlp.json"], "mlp.json: a word that is not an option; did you mean '--case=mlp.json'?"),
        (["--graph", "--mb"], "--mb: a value is missing; write '--mb=VALUE'"),
        (["--graph", "--mb", "--case=a.json"], "--mb: a value is missing; write '--mb=VALUE'"),
        (["--graph", "a b"], "a b: a word that is not an option; did you mean '--case=a b'?"),
        (["--graph", ""], "an empty word, as of a variable that is not set; leave it out"),
        (["--batch="], "--batch: a value is missing; write '--batch=VALUE'"),
        (["--driver="], "--driver: a value is missing; write '--driver=VALUE'"),
        (["--graph", "--reset=1"], "--reset: it takes no value; write '--reset'"),
        (["--graph", "--case="], "--case: a value is missing; write '--case=VALUE'"),
        (["--matmul", "--case="], "--case: a value is missing; write '--case=VALUE'"),
        (["--graph", "--mb=four"], "--mb: bad value 'four'; give a non-negative integer"),
        (["--graph", "--mb=-4"], "--mb: bad value '-4'; give a non-negative integer"),
        (["--mode=X"], "--mode: bad value 'X'; choose one of L, I, R, C, B, P, F, S"),
        (["--policy=fussed"], "--policy: bad value 'fussed'; did you mean 'fused'?"),
        (["--max-ms-per-prb=long"], "--max-ms-per-prb: bad value 'long'; give a number"),
        (["--summary=none"], "--summary: bad value 'none'; combine failures, impl, impl-csv by +, each perhaps with no- in front"),
        (["--report=jsn:x"], "--report: no report named 'jsn'; did you mean 'json'?"),
        (["--graph", "--in-shape=0:2x3"], "--in-shape: unknown option; did you mean '--in-shapes'?"),
        (
            ["--graph", "--in-shapes=0:2x3:acdb"],
            "--in-shapes: bad value '0:2x3:acdb'; write SHAPE, *TAG, *STRIDES or both, as in 2x3x4*acb; - is the shape of a scalar",
        ),
        (["--graph", "--op-kind=Add"], "--op-kind: bad value 'Add'; write ID:VALUE, several joined by +, as in 0:Add+3:undef"),
        (
            ["--memory-kind=umn"],
            "--memory-kind: bad value 'umn'; did you mean 'usm'?",
        ),
        (
            ["--engine=gpu"],
            "--engine: bad value 'gpu'; engine gpu with index 0 is not registered in the system, which has 0 of that kind; use cpu",
        ),
        (["--mode=F", "--max-ms-per-prb=50"], "--max-ms-per-prb: mode F settles this itself; use --mode=P with it"),
        (["--mode=S", "--fix-times-per-prb=5"], "--fix-times-per-prb: mode S settles this itself; use --mode=P with it"),
        (
            ["--mode-modifier=M", "--graph", "--case=a.json"],
            "--case: mode C compares with a reference, which modifier M leaves out; leave out "
            "--mode-modifier=M, or choose a mode other than C",
        ),
        (["--mode-modifier=X"], "--mode-modifier: bad value 'X'; combine letters of P, M"),
        (["--perf-template=%tim%"], "--perf-template: bad value '%tim%'; unknown token %tim%; did you mean 'time'?"),
        (["--perf-template=100%"], "--perf-template: bad value '100%'; '%' is no token; write %NAME%, as in %-time%"),
        (
            ["--cold-cache=some"],
            "--cold-cache: bad value 'some'; give none, wei or all, perhaps with +tlb or +tlb:SIZE, as in all+tlb:1G",
        ),
        (
            ["--cold-cache=custom+tlb"],
            "--cold-cache: bad value 'custom+tlb'; custom means data that are named in benchdnn's own source; choose wei or all",
        ),
        (["--shard=0/2"], "--shard: bad value '0/2'; give I/N with I from 1 to N, as in 2/3"),
        (["--match=["], "--match: bad value '['; not a regular expression: unterminated character set at position 0"),
        (["--isa=avx"], "--isa: bad value 'avx'; did you mean 'avx2'?"),
        (["--summary=no-failure"], "--summary: bad value 'no-failure'; did you mean 'no-failures'?"),
        (["--report=:x"], "--report: bad value ':x'; give NAME or NAME:FILE"),
    ],
)
def test_invalid_words_are_refused_with_a_remedy(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as bad:
        parse(words)
    assert str(bad.value) == message


def test_a_case_beside_a_file_found_before_is_found_and_its_repro_line_finds_it_again(tmp_path: Path) -> None:
    (tmp_path / "case.json").touch()
    (tmp_path / "batch").write_text("--graph --case=case.json")
    (problem,) = parse([f"--batch={tmp_path / 'batch'}"]).problems
    assert problem.file == tmp_path / "case.json"
    assert problem.repro == f"--graph --case={tmp_path / 'case.json'}"
    assert parse(problem.repro.split()).problems[0].file == problem.file


def test_a_packaged_batch_names_its_driver() -> None:
    problems = parse(["--batch=test_paper"]).problems
    assert problems[0].repro == "--graph --mb=32 --case=paper/mlp_1.json"
    assert all(p.file is not None for p in problems)


def test_a_missing_case_waits_for_its_turn() -> None:
    (problem,) = parse(["--graph", "--case=paper/mlp1.json"]).problems
    with pytest.raises(InvalidArguments, match=r"paper/mlp1\.json: no such file; did you mean 'paper/mlp_1\.json'"):
        problem.graph()


def test_a_file_where_a_descriptor_is_due_is_told_how_to_run(tmp_path: Path) -> None:
    """Whether it exists or not: by its suffix; another file that exists is taken for a batch."""
    batch = tmp_path / "my batch"
    batch.touch()
    commands = {
        "mlp.json": "--graph --case=mlp.json",
        "a b.JSON": "--graph '--case=a b.JSON'",
        "r.onnx": "--model --case=r.onnx",
        "r.pt2": "--model --case=r.pt2",
    }
    for name in (n for n in names("drivers") if not load_driver(n).reads_files):
        for text, command in (commands | {str(batch): f"--{name} '--batch={batch}'"}).items():
            (problem,) = parse([f"--{name}", f"--case={text}"]).problems
            with pytest.raises(InvalidArguments) as bad:
                problem.graph()
            what = f"a file, and the cases of --{name} are descriptors, as {load_driver(name).example}"
            assert str(bad.value) == f"{text}: {what}; write: benchgraph {command}"


def test_a_misplaced_file_is_told_how_to_run_by_the_same_command() -> None:
    (problem,) = parse(["--matmul", "mlp.json"], command="show").problems
    with pytest.raises(InvalidArguments, match=r"; write: benchgraph show --graph --case=mlp\.json$"):
        problem.graph()


def test_the_files_that_are_cases_are_those_that_models_are_read_from() -> None:
    assert set(CASE_FILES) == set(MODEL_SUFFIXES)


@pytest.mark.parametrize("text", ['{"graph": []}', '\n [{"id": 0}]'])
def test_a_json_file_is_no_batch_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "mlp.json").write_text(text)
    with pytest.raises(UsageError) as bad:
        parse(["--graph", f"--batch={tmp_path}/mlp.json"])
    assert str(bad.value) == f"{tmp_path}/mlp.json: no batch file: it is JSON; run a case by: benchgraph --graph --case={tmp_path}/mlp.json"


def test_a_missing_batch_file_ends_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match="nowhere: no such file; looked in ") as bad:
        parse(["--graph", "--batch=nowhere"])
    assert isinstance(bad.value, UsageError)


def test_errors_in_a_batch_file_say_the_line(tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    batch.write_text("--graph\n\n  --mbb=4\n")
    with pytest.raises(UsageError) as bad:
        parse([f"--batch={batch}"])
    assert str(bad.value) == f"{batch}:3: --mbb: unknown option; did you mean '--mb'?"


def test_batch_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("--batch=b")
    (tmp_path / "b").write_text("--batch=a")
    with pytest.raises(UsageError, match="batch files include each other: a -> b -> a"):
        parse(["--graph", f"--batch={tmp_path / 'a'}"])


def test_state_passes_through_batch_files(tmp_path: Path) -> None:
    (tmp_path / "inner").write_text("--mb=7")
    (tmp_path / "outer").write_text("--batch=inner --case=a.json")
    assert repros("--graph", f"--batch={tmp_path / 'outer'}", "--case=b.json") == [
        "--graph --mb=7 --case=a.json",
        "--graph --mb=7 --case=b.json",
    ]
