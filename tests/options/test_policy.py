"""Policies with compiler options: syntax, effect, and where they are reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.errors import UsageError
from benchgraph.core.options import Options
from benchgraph.core.remarks import collected
from benchgraph.gir import passes as gir_passes
from benchgraph.harness.partitioning import compile_all, partition_graph
from benchgraph.library import benchgraph_library
from benchgraph.library.own_library import FORMER_STAGES, FORMER_SWITCHES, SWITCHES, stages
from benchgraph.library.protocol import Compiled
from benchgraph.measure import bandwidth, sampling
from benchgraph.options.argv import parse
from benchgraph.options.knobs import ContenderSpec, Globals, knobs_of
from benchgraph.options.policy import PolicyChoice
from benchgraph.options.repro import split, split_quoted
from benchgraph.partition.ir import Policy
from benchgraph.results.json_report import parse as read_results
from benchgraph.results.mode import Mode
from benchgraph.runtime.executable import Executable
from benchgraph.tir import passes as tir_passes

MLP = "--case=mlp.json"


@pytest.mark.parametrize(
    ("text", "written", "off"),
    [
        ("fused", "fused", ()),
        ("fused:no-coarse", "fused:no-coarse", ("coarse",)),
        ("post_ops:no-vectorise+no-coarse+no-vectorise", "post_ops:no-coarse+no-vectorise", ("coarse", "vectorise")),
    ],
)
def test_a_policy_is_a_name_and_options_in_one_spelling(text: str, written: str, off: tuple[str, ...]) -> None:
    choice = PolicyChoice.read(text)
    assert (str(choice), choice.options) == (written, Options(off))
    assert PolicyChoice.read(written) == choice


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fusd:no-coarse", "bad value 'fusd:no-coarse'; did you mean 'fused'?"),
        ("fused:no-coarze", "'no-coarze' is no option of a policy; did you mean 'no-coarse'?"),
        (
            "fused:",
            "'' is no option of a policy; 'benchgraph list policies' shows them",
        ),
        ("fused:no-xyz", "'no-xyz' is no option of a policy; 'benchgraph list policies' shows them"),
        ("fused:coarse", "did you mean 'no-coarse'"),
    ],
)
def test_the_error_for_an_unknown_policy_lists_the_choices(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(["--graph", f"--policy={text}", MLP])


def test_a_former_name_of_a_switch_still_works_and_is_remarked_once() -> None:
    with collected() as remarks:
        choice = PolicyChoice.read("fused:no-turn+no-coarse+no-turn")
    assert str(choice) == "fused:no-coarse+no-transpose"
    assert remarks == ["no-turn is now no-transpose"]


def test_former_names_mean_one_present_name_each() -> None:
    """A former name that a pass still has, or that two passes had, would say two things."""
    former = [old for names in FORMER_STAGES.values() for old in set(names)]
    assert len(former) == len(set(former))
    assert not stages() & set(former)
    assert not FORMER_SWITCHES.keys() & SWITCHES.keys()
    both = {(old, p.switch) for p in (*gir_passes.PIPELINE, *tir_passes.PIPELINE) for old in p.former_switches}
    assert both == set(FORMER_SWITCHES.items())
    assert set(FORMER_SWITCHES.values()) <= SWITCHES.keys()


def test_the_help_names_every_switch() -> None:
    named = re.search(r"no-shrink: (.*)", knobs_of(Globals)["--policy"].help)
    assert named
    assert named[1].split(", ") == sorted(SWITCHES)


def test_passes_that_can_be_left_out_give_nothing_that_others_work_with() -> None:
    """shrunk only says whose turn it is: flatten-index takes tensors of any size."""
    given = {fact for p in (*gir_passes.PIPELINE, *tir_passes.PIPELINE) if p.switch for fact in p.gives}
    assert given == {"shrunk"}


def as_ours(compiled: Compiled) -> Executable:
    assert isinstance(compiled, Executable)
    return compiled


def executables(policy: str) -> list[Executable]:
    (problem,) = parse(["--graph", f"--policy={policy}", MLP]).problems
    library, spec = benchgraph_library(), ContenderSpec("benchgraph", policy, policy)
    return [as_ours(c) for c in compile_all(partition_graph(problem, problem.graph(), library, spec), library, policy)]


def parallel_regions(policy: str) -> int:
    """Parallel loops that main starts."""
    (executable,) = executables(policy)
    return len(re.findall(r'call void @"?benchgraph_parallel"?\([^@]*@"?main\.', executable.code.text))


def test_without_coarse_fusion_every_product_has_a_parallel_region_of_its_own() -> None:
    assert parallel_regions("fused") == 1
    assert parallel_regions("fused:no-coarse") == 3


@pytest.mark.parametrize("case", ["mlp.json", "attention.json", "pattern/layernorm_from_basics.json"])
@pytest.mark.parametrize("switch", SWITCHES)
def test_every_pass_can_be_left_out_and_the_results_are_right(switch: str, case: str) -> None:
    result = CliRunner().invoke(main, ["--graph", f"--policy=fused:no-{switch}", f"--case={case}"])
    assert result.exit_code == 0, result.output


def test_a_pass_left_out_is_in_no_dump(tmp_path: Path) -> None:
    CliRunner().invoke(main, ["--graph", "--policy=fused,fused:no-coarse", f"--dump-dir={tmp_path}", MLP])
    stages = {f.parent.name: f.stem.split("-", 2)[2] for f in tmp_path.rglob("*fuse-coarse.txt")}
    assert stages == {"fused": "fuse-coarse"}


def test_results_and_repro_lines_contain_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MIN_SAMPLE_S", 1e-6)  # nobody reads the times
    monkeypatch.setattr(bandwidth, "last_level_bytes", lambda: 1 << 20)
    file = tmp_path / "out.json"
    words = ["--graph", "--mode=P", "--fix-times-per-prb=2", "--policy=fused,fused:no-coarse", f"--report=json:{file}"]
    html = tmp_path / "out.html"
    assert CliRunner().invoke(main, [*words, MLP]).exit_code == 0
    (case,) = read_results(file.read_text()).cases
    assert [t.policy for t in case.result.timings] == ["fused", "fused:no-coarse"]
    assert "--policy=fused,fused:no-coarse" in case.repro
    assert "policy" not in split(case.repro).identity
    again = parse(split_quoted(case.repro)).problems[0].globals
    assert again.policies == ("fused", "fused:no-coarse")
    assert CliRunner().invoke(main, ["render", str(file), f"--report=html:{html}"]).exit_code == 0
    assert "fused:no-coarse" in html.read_text()
    compared = CliRunner().invoke(main, ["compare", str(file), str(file), "--report=csv"])
    assert ",fused:no-coarse," in compared.output


def test_other_libraries_have_no_options() -> None:
    both = Globals(library=("benchgraph", "onednn"), policy=("fused", "fused:no-coarse"), mode=Mode.performance)
    assert [s.label for s in both.contender_specs] == ["benchgraph:fused", "benchgraph:fused:no-coarse", "onednn:fused"]


def test_options_are_part_of_what_a_partition_is() -> None:
    (problem,) = parse(["--graph", MLP]).problems
    specs = [ContenderSpec("benchgraph", p, p) for p in ("fused", "fused:no-coarse")]
    one, other = (partition_graph(problem, problem.graph(), benchgraph_library(), spec)[0] for spec in specs)
    assert (one.ops, one.options) == (other.ops, Options()) != (one.ops, other.options)
    assert PolicyChoice(Policy.fused).options == one.options
