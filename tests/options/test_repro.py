"""A repro line, given to the command again, is the same problem and no other."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.isa import ISA_CHOICES
from benchgraph.core.printable import HIDDEN, printable
from benchgraph.core.tensor import PropertyType
from benchgraph.graph.override import NewShape
from benchgraph.options.argv import parse
from benchgraph.options.batch import Lookup, tokenize
from benchgraph.options.knobs import Globals, knobs_of
from benchgraph.options.parsers import NOTHING, AttrTexts, PerId, shell_word
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.options.repro import normalise_quoting, split, split_quoted
from benchgraph.results.mode import Mode

GRAPH = load_driver("graph")
IDS = st.integers(0, 2**63)
DIMS = st.lists(st.integers(0, 99), max_size=4).map(tuple)
WORD = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)


@st.composite
def new_shapes(draw: st.DrawFn) -> NewShape:
    dims = draw(st.none() | DIMS)
    layouts = st.permutations("abcd").map("".join) | st.lists(st.integers(0, 999), min_size=1, max_size=4).map(tuple)
    return NewShape(dims, draw(layouts if dims is None else layouts | st.just("")))


def per_id(values: st.SearchStrategy[Any]) -> st.SearchStrategy[PerId]:
    return st.dictionaries(IDS, values, max_size=3).map(lambda d: PerId(tuple(sorted(d.items()))))


def attr_texts() -> st.SearchStrategy[AttrTexts]:
    values = WORD | st.lists(st.integers(-9, 9), min_size=1).map(lambda v: "x".join(map(str, v))) | st.just("1e-05")
    return st.dictionaries(WORD, values, min_size=1, max_size=3).map(lambda d: AttrTexts(tuple(sorted(d.items()))))


FLOATS = st.sampled_from([DType.f32, DType.bf16, DType.f16])
DTYPES = st.sampled_from([d for d in GRAPH_DTYPES if d is not DType.undef])
KNOBS: dict[str, st.SearchStrategy[Any]] = {
    "mb": st.integers(0, 10**6),
    "dt": st.just(NOTHING) | FLOATS | per_id(DTYPES),
    "op_kind": per_id(WORD),
    "tensor_property": per_id(st.sampled_from(PropertyType)),
    "in_shapes": per_id(new_shapes()),
    "op_attrs": per_id(attr_texts()),
    "attr_fpmath": st.sampled_from(["", "strict", "bf16:true", "any:false"]),
    "expected_n_partitions": st.integers(0, 99),
    "case": st.just("some/case.json"),
}
GLOBALS: dict[str, st.SearchStrategy[Any]] = {
    "mode": st.sampled_from(Mode),
    "mode_modifier": st.sampled_from(["", "P", "M", "MP"]),
    "policy": st.lists(st.sampled_from(["fused", "fused:no-coarse", "post_ops", "one_op_each"]), unique=True).map(tuple),
    "seed": st.integers(0, 99),
    "fill": st.sampled_from(["integers", "reals"]),
    "data": st.sampled_from(["", "in puts.npz"]),
    "repeats_per_prb": st.integers(1, 99),
    "memory_kind": st.sampled_from(["usm", "buffer", "usm_device", "usm_shared"]),
    "engine": st.just("cpu"),
    "library": st.sampled_from([("benchgraph",), ("onednn",), ("benchgraph", "onednn:/opt/libdnnl.so.3")]),
    "threads": st.integers(0, 99),
    "isa": st.sampled_from(ISA_CHOICES),
    "tuning": st.sampled_from(["", "tuning.json"]),
    "max_ms_per_prb": st.floats(10, 60000),
    "fix_times_per_prb": st.integers(0, 99),
    "cold_cache": st.sampled_from(["none", "wei", "all+tlb", "none+tlb:2G"]),
    "num_streams": st.integers(1, 9),
    "layers": st.sampled_from(["auto", "true", "false"]),
    "check_ref_impl": st.booleans(),
    "canonical": st.booleans(),
}


def problem(shared: dict[str, Any], own: dict[str, Any]) -> Problem:
    legal = {"mode_modifier": "P"} if shared.get("mode") is Mode.correctness else {}
    return Problem(0, GRAPH, Globals(**(shared | legal)), GRAPH.knobs(**own), None)


def test_no_knob_is_forgotten() -> None:
    assert list(KNOBS) == [f.name for f in fields(GRAPH.knobs)]
    assert [k.name for k in knobs_of(Globals).values() if k.repro or k.name == "canonical"] == list(GLOBALS)


@pytest.fixture(scope="module", autouse=True)
def _no_remedies() -> Iterator[None]:
    """The cases do not exist. Looking through all inputs for names like theirs would take longer than everything else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lookup, "_remedy", lambda *_: "")
        yield


@settings(max_examples=100)
@given(st.fixed_dictionaries(GLOBALS), st.fixed_dictionaries(KNOBS))
def test_a_repro_line_is_its_problem(shared: dict[str, Any], own: dict[str, Any]) -> None:
    first = problem(shared, own)
    (again,) = parse(split_quoted(first.repro)).problems
    assert again.knobs == first.knobs
    for k in knobs_of(Globals).values():
        if k.repro and first.globals.mode not in k.fixed_by:
            assert getattr(again.globals, k.name) == getattr(first.globals, k.name), k.option


@settings(max_examples=50)
@given(st.fixed_dictionaries(KNOBS))
def test_defaults_are_left_out(own: dict[str, Any]) -> None:
    said = split_quoted(problem({}, own).repro)
    defaults = {k.option for k in knobs_of(GRAPH.knobs).values() if own[k.name] == k.default}
    assert said[0] == "--graph"
    assert not defaults & {word.partition("=")[0] for word in said}


def test_every_global_option_when_canonical() -> None:
    said = problem({"canonical": True}, {"case": "x.json"}).repro
    wanted = [k.option for k in knobs_of(Globals).values() if k.repro and k.default not in ("", ())]
    assert [word.partition("=")[0] for word in said.split(" ")] == [*wanted, "--graph", "--case"]
    assert "--mode=C --seed=0 --repeats-per-prb=1 --memory-kind=usm --engine=cpu " in said


def test_a_line_is_taken_apart() -> None:
    parts = split("--mode=P --threads=2 --graph --mb=8 --case=paper/mlp.json")
    assert (parts.options, parts.driver, parts.words) == (("--mode=P", "--threads=2"), "graph", ("--mb=8", "--case=paper/mlp.json"))
    assert (parts.case, parts.folder) == ("paper/mlp.json", ("paper",))
    assert split("--matmul 4x8:8x4").case == "4x8:8x4"
    assert split("--matmul 4x8:8x4").folder == ()


def test_the_identity_leaves_out_run_options_and_defaults() -> None:
    words = ["--mode=P", "--max-ms-per-prb=500", "--policy=fused", "--threads=2", "--seed=3", "--graph", "--mb=8", "--case=mlp.json"]
    for more in ([], ["--canonical"]):
        (problem,) = parse([*more, *words]).problems
        assert split(problem.repro).identity == "--seed=3 --threads=2 --graph --mb=8 --case=mlp.json"
    assert split("no driver at all").identity == "no driver at all"


# ---- lines for a shell -----------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=tuple(HIDDEN)), min_size=1, max_size=12)


def in_a_batch_file(line: str) -> list[str]:
    return [word.text for word in tokenize(line, "batch")]


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_words_are_quoted_for_a_shell_and_for_a_batch_file(words: list[str]) -> None:
    """A name in quotation marks may lose them, as it does in a shell."""
    line = " ".join(map(shell_word, words))
    assert shlex.split(line) == in_a_batch_file(line)
    assert [word.replace('"', "") for word in shlex.split(line)] == [word.replace('"', "") for word in words]


BYTES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)
)


@given(BYTES)
def test_any_name_of_a_file_is_quoted_in_one_line_and_read_again(name: str) -> None:
    line = shell_word(word := f"--case={name}".replace('"', ""))
    assert printable(line) == line
    for again in (split_quoted(line), in_a_batch_file(line)):
        assert list(map(os.fsencode, again)) == [os.fsencode(word)]


def test_a_shell_reads_what_is_quoted_by_its_bytes() -> None:
    word = "--case=\udcff\xe9 a\nb'\\$HOME\u202e.json"
    done = subprocess.run(["bash", "-c", f"printf %s {shell_word(word)}"], capture_output=True, check=True, env={"LC_ALL": "C"})
    assert done.stdout == os.fsencode(word)
    assert shell_word("--case=m\udcff.json") == "$'--case=m\\xff.json'"


@given(TEXT.filter(lambda name: name.strip('"')), TEXT)
def test_a_line_with_any_name_or_path_is_its_problem(name: str, path: str) -> None:
    for words in (["--matmul", f'2x3:3x4_n"{name}"'], ["--conv", f'ic3oc4ih8kh3_n"{name}"'], ["--graph", f"--case={path}"]):
        (first,) = parse(words).problems
        for again in (shlex.split(first.repro), in_a_batch_file(first.repro)):
            (found,) = parse(again).problems
            assert (found.driver, found.knobs, found.globals) == (first.driver, first.knobs, first.globals)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--graph", "--in-shapes=0:*ba+1:2x3*3x1", "--case=my case.json"], "--graph '--in-shapes=0:*ba+1:2x3*3x1' '--case=my case.json'"),
        (["--matmul", '2x3:3x4_n"BERT:ffn*2"'], '--matmul 2x3:3x4_n"BERT:ffn*2"'),
        (["--matmul", "2x3:3x4_n$HOME"], "--matmul '2x3:3x4_n\"$HOME\"'"),
        (["--graph", "--case=it's.json"], """--graph '--case=it'"'"'s.json'"""),
    ],
)
def test_special_characters_of_a_shell_are_quoted(words: list[str], line: str) -> None:
    (problem,) = parse(words).problems
    assert problem.repro == line
    assert subprocess.run(["sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1] == [
        word.replace('"', "") if "$" not in word else '2x3:3x4_n"$HOME"' for word in words
    ]


def test_lines_from_before_they_were_quoted_mean_the_same() -> None:
    old, new = "--graph --in-shapes=0:*ba --case=a.json", "--graph '--in-shapes=0:*ba' --case=a.json"
    assert split(old) == split(new)
    assert normalise_quoting(old) == normalise_quoting(new) == new
    assert split('--matmul 2x3:3x4_n"it\'s"').words == ("2x3:3x4_nit's",)
    assert split("--graph --case=it's.json").case == "it's.json"
