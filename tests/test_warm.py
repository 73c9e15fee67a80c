"""Compiling again, in this process or another, what was compiled before: from disk, and exactly the same."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import benchgraph
import benchgraph.compile as compiler
from benchgraph.cli import main
from benchgraph.compile import compile_partition, work
from benchgraph.core import config as settings
from benchgraph.core.attrs import Attrs
from benchgraph.core.canonical import canonical
from benchgraph.core.config import Config, compiling, config, override
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.layout import LAYOUTS, Layout
from benchgraph.core.remarks import collected
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType
from benchgraph.graph import GraphBuilder
from benchgraph.library.own_library import Benchgraph
from benchgraph.machine import table_file
from benchgraph.machine.target import ISAS, current
from benchgraph.measure import bandwidth, sampling
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.results.json_report import parse
from benchgraph.runtime import code, disk_cache, executable_cache, source_digest
from benchgraph.runtime.disk_cache import Store, store
from tests.support.architecture import MAY_IMPORT
from tests.support.sample_partition import partition, result

INPUTS = Path(__file__).parent.parent / "inputs" / "graph"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Store]:
    """A disk cache of this test's own."""
    disk_cache._opened.cache_clear()
    with override(cache_dir=str(tmp_path / "cache"), disk_cache_capacity=16):
        found = store()
        assert found is not None
        yield found


def test_tests_see_the_compiler_of_this_moment() -> None:
    """Mistakes that tests/faults puts into it must not be covered by what it made without them."""
    assert config().disk_cache_capacity == 0
    assert store() is None


def test_the_second_compilation_is_warm_and_the_same(kept: Store) -> None:
    p = partition()
    first, second = compile_partition(p), compile_partition(p)
    assert (first.is_warm, second.is_warm) == (False, True)
    assert (kept.hits[executable_cache.EXECUTABLE], kept.misses[executable_cache.EXECUTABLE]) == (1, 1)
    assert first.module.init is not None
    assert any(data is not None for data in first.signature.literals), "the case has no table"
    for f in fields(first.module.main):
        if f.name != "body":
            assert getattr(second.module.main, f.name) == getattr(first.module.main, f.name)
            assert getattr(second.module.init, f.name) == getattr(first.module.init, f.name)
    for name in ("inputs", "outputs", "constants", "init_inputs"):
        assert getattr(second.signature, name) == getattr(first.signature, name)
    for ours, theirs in zip(first.signature.literals, second.signature.literals, strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or ours.tobytes() == theirs.tobytes()
    for name in ("layouts", "inplace", "scratchpad_bytes", "init_digest"):
        assert getattr(second, name) == getattr(first, name)
    assert [u.object for u in second.code.units] == [u.object for u in first.code.units]
    assert second.code.text == first.code.text
    assert second.code.threads == first.code.threads
    np.testing.assert_array_equal(result(second, p), result(first, p))


@pytest.mark.parametrize("case", ["mlp.json", "attention.json", "quantised_mlp.json"])
def test_a_warm_case_computes_what_the_first_one_did(kept: Store, case: str) -> None:
    p = partitions(benchgraph.graph.load(INPUTS / case), Policy.fused)[0]
    rng = np.random.default_rng(2)
    ins = [rng.integers(0, 3, t.known_shape).astype(t.dtype.numpy) for t in p.inputs]
    found = []
    for is_warm in (False, True):
        e = compile_partition(p)
        assert e.is_warm == is_warm
        outs = [np.zeros(t.known_shape, t.dtype.numpy) for t in p.outputs]
        e.bind(ins, outs)()
        found.append(outs)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_loops_are_fused_for_is_kept(kept: Store) -> None:
    """LayerNorm's gradients read what L2 does not hold in two nests."""
    b, x = GraphBuilder(), (4096, 512)
    ins = [b.input(shape) for shape in (x, x, x[:1], x[:1], x[1:], x[1:])]
    b.outs("LayerNormBackward", *ins, dtypes=(None,) * 3)
    (p,) = partitions(b.graph(), Policy.fused)
    first, second = compile_partition(p), compile_partition(p)
    assert (first.is_warm, second.is_warm) == (False, True)
    assert first.module.main.shared
    assert second.module.main.shared == first.module.main.shared


CHILD = """
from benchgraph.runtime import code
made, compiled = [], code.compile_object
code.compile_object = lambda *about: made.append(about) or compiled(*about)  # before anybody else takes it from there
from tests.support.sample_partition import partition, result
from benchgraph.cli import main
from benchgraph.compile import compile_partition
from benchgraph.runtime.disk_cache import store
p = partition()
e = compile_partition(p)
print(e.is_warm, store().hits["executable"], store().misses["executable"], result(e, p).sum(), len(made))
"""


def child(directory: Path, capacity: str = "16", **settings: str) -> list[str]:
    env = {**os.environ, "BENCHGRAPH_CACHE_DIR": str(directory), "BENCHGRAPH_DISK_CACHE_CAPACITY": capacity, **settings}
    run = subprocess.run([sys.executable, "-c", CHILD], env=env, capture_output=True, text=True, check=True, cwd=INPUTS.parent.parent)
    return run.stdout.split()


@pytest.mark.parametrize("runtime", ["threadpool", "seq"])
def test_a_second_process_starts_warm(tmp_path: Path, runtime: str) -> None:
    """And makes no code at all: that of the thread runtime is kept too."""
    first, second = (child(tmp_path / "cache", BENCHGRAPH_RUNTIME=runtime, BENCHGRAPH_THREADS="2") for _ in range(2))
    assert first[:3] == ["False", "0", "1"]
    assert second[:3] == ["True", "1", "0"]
    assert first[3] == second[3]
    assert (int(first[4]) > 0, int(second[4])) == (True, 0)


def test_a_torn_executable_is_compiled_again(kept: Store) -> None:
    p = partition()
    want = result(compile_partition(p), p)
    (path,) = kept.directory.rglob(f"{executable_cache.EXECUTABLE}-*")
    path.write_bytes(path.read_bytes()[:-100])
    again = compile_partition(p)
    assert not again.is_warm
    np.testing.assert_array_equal(result(again, p), want)
    assert compile_partition(p).is_warm


def test_a_cache_that_cannot_be_written_only_costs_time(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    p = partition()
    with collected() as remarks:
        assert [compile_partition(p).is_warm for _ in range(2)] == [False, False]
    assert len(remarks) == 1
    assert "No space left on device" in remarks[0]


@pytest.fixture
def open_to_all(tmp_path: Path) -> Iterator[Path]:
    """The configured cache, to which others may write."""
    disk_cache._opened.cache_clear()
    tmp_path.chmod(0o777)
    with override(cache_dir=str(tmp_path), disk_cache_capacity=16):
        yield tmp_path
    disk_cache._opened.cache_clear()


@pytest.mark.parametrize("words", ["--mode=C", "--mode=S", "--mode=I", "--jobs=2"])
def test_a_run_says_once_on_stderr_that_its_cache_cannot_be_used(open_to_all: Path, words: str) -> None:
    done = CliRunner().invoke(main, [*words.split(), "--graph", "--case=mlp.json", "--case=mlp.json"])
    assert done.exit_code == 0
    assert "no disk cache" not in done.stdout
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"benchgraph: no disk cache: other users may write to {open_to_all} (chmod go-w it); ")


def test_a_program_is_warned_that_its_cache_cannot_be_used(open_to_all: Path) -> None:
    with pytest.warns(RuntimeWarning, match="benchgraph: no disk cache: other users may write to"):
        assert not compile_partition(partition()).is_warm


# ---- what the key is made of ----------------------------------------------------------------------------------------


def key(p: Partition, **given: object) -> str:
    found = executable_cache.cache_entry(compiler.work(p, given.pop("open_outputs", ())), given.pop("target", current()))  # type: ignore[arg-type]
    assert found is not None
    return found.key


def another(value: object) -> object:
    """A value of the same type that is not this one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case Attrs():
            return value.updated(new=1)
        case Enum():
            return next(v for v in type(value) if v is not value)
        case tuple():
            return (*value, *(value[:1] or ("x",)))
        case frozenset():
            return value | {"x"}
        case None:
            return 1
    raise TypeError(value)


def variants(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """The frozen value with one field changed, for every field of it and of what it holds."""
    if isinstance(value, tuple):
        for i, v in enumerate(value[:2]):
            for where, changed in variants(v, f"{path}[{i}]"):
                yield where, (*value[:i], changed, *value[i + 1 :])
        yield path, another(value)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            for where, changed in variants(getattr(value, f.name), f"{path}.{f.name}"):
                copy = object.__new__(type(value))
                for each in fields(value):
                    object.__setattr__(copy, each.name, changed if each.name == f.name else getattr(value, each.name))
                yield where, copy
    else:
        yield path, another(value)


@pytest.mark.parametrize("value", [partition(), current()], ids=["partition", "target"])
def test_every_field_of_what_compile_takes_is_part_of_the_text(value: object) -> None:
    own, seen = canonical(value), dict[str, str]()
    for where, changed in variants(value):
        seen[where] = canonical(changed)
        assert seen[where] != own, f"{where} is forgotten"
    assert len(set(seen.values())) == len(seen)
    assert len(seen) >= len(fields(value))  # type: ignore[arg-type]


def test_text_tells_numbers_apart_that_are_equal() -> None:
    one_by_one = (1, 1.0, True, "1", 0.1, 0.1 + 2**-56, 0.0, -0.0)
    in_rows = [*((v,) for v in one_by_one), (1, 2), (12,), (1.0, 1), (1, 1.0), (1.0, 1.0), (1, True), ()]
    texts = [canonical(Attrs(axis=v)) for v in (*one_by_one, *in_rows)]
    assert len(set(texts)) == len(texts)


def test_values_without_text_are_refused_and_not_kept(kept: Store) -> None:
    with pytest.raises(TypeError, match="a ndarray has no canonical text"):
        canonical((1, np.ones(3)))
    assert executable_cache.cache_entry((object(),), current()) is None


def test_the_key_is_the_same_for_the_same_and_ignores_what_only_names_the_partition(kept: Store) -> None:
    assert key(partition()) == key(partition()) == key(replace(partition(), id=77))


def moved(p: Partition, by: int) -> Partition:
    """The same work in another place of a graph: other ids of tensors and ops, other names."""

    def tensors(found: tuple[LogicalTensor, ...]) -> tuple[LogicalTensor, ...]:
        return tuple(replace(t, id=t.id * 3 + by) for t in found)

    ops = tuple(replace(op, id=op.id + by, name=f"layer {by}", inputs=tensors(op.inputs), outputs=tensors(op.outputs)) for op in p.ops)
    prepared = tuple(id * 3 + by for id in p.prepared)
    return replace(p, id=by, ops=ops, inputs=tensors(p.inputs), outputs=tensors(p.outputs), prepared=prepared)


def test_layers_that_are_alike_are_one_work(kept: Store) -> None:
    p = partition()
    other = moved(p, 50)
    assert key(other) == key(p)
    assert work(other, [t.id for t in other.outputs]) == work(p, [t.id for t in p.outputs]) != work(p, ())
    first, second = compile_partition(p), compile_partition(other)
    assert (first.is_warm, second.is_warm) == (False, True)
    for made, asked in ((first, p), (second, other)):
        with pytest.raises(InvalidArguments, match=rf"bind: input 0 \(tensor {asked.inputs[0].id}\)"):
            made.bind([np.zeros(1, np.uint8) for _ in asked.inputs], [np.zeros(1, np.uint8) for _ in asked.outputs])


def test_whatever_else_differs_is_another_work() -> None:
    p, same = partition(), re.compile(r"\.id|\.ops\[\d\]\.(id|name)|\.prepared")  # its outputs that are in demand are `open_outputs`
    seen = 0
    for where, changed in variants(p):
        if where.endswith("property_type"):  # undef is variable
            continue
        with suppress(AttributeError):  # no partition: a string for a tensor
            assert (work(changed, ()) == work(p, ())) == bool(same.fullmatch(where)), where
            seen += 1
    assert seen > 40


def test_constness_counts_and_an_unsaid_property_is_variable() -> None:
    p = partition()
    src = next(t for t in p.inputs if not t.is_constant)

    def said(property: PropertyType) -> object:
        other = replace(src, property_type=property)
        ins = tuple(other if t.id == src.id else t for t in p.inputs)
        return work(replace(p, ops=p.graph.with_tensors({src.id: other}).ops, inputs=ins), ())

    assert said(PropertyType.undef) == said(PropertyType.variable) != said(PropertyType.constant)


def test_which_operands_are_one_tensor_counts() -> None:
    def squared(*, is_one: bool) -> Partition:
        b = GraphBuilder()
        x, y = b.input((4, 4)), b.input((4, 4))
        b.op("Multiply", x, x if is_one else y)
        return partitions(b.graph(), Policy.fused)[0]

    assert work(squared(is_one=True), ()) != work(squared(is_one=False), ())


@pytest.mark.parametrize(
    "other",
    [
        lambda p: key(partition(columns=41)),
        lambda p: key(partition(negative=0.25)),
        lambda p: key(p, open_outputs=[p.outputs[0].id]),
        lambda p: key(p, target=replace(current(), cores=current().cores + 1)),
        lambda p: key(p, target=replace(current(), l2_bytes=1)),
        lambda p: key(p, target=replace(current(), isa=ISAS["portable"])),
    ],
)
def test_the_key_changes_with_what_changes_the_code(kept: Store, other: Callable[[Partition], str]) -> None:
    assert other(partition()) != key(partition())


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (code.llvmlite, "__version__", "0.0"),
        (code.llvm, "llvm_version_info", (1, 2, 3)),
        (code, "PASSES", code.PASSES[1:]),
        (executable_cache, "FORMAT", 0),
        (executable_cache.np, "__version__", "0.0"),
        (executable_cache.ml_dtypes, "__version__", "0.0"),
    ],
)
def test_another_version_finds_nothing(kept: Store, monkeypatch: pytest.MonkeyPatch, module: object, name: str, value: object) -> None:
    compile_partition(partition())
    monkeypatch.setattr(module, name, value)
    executable_cache._versions.cache_clear()
    try:
        assert not compile_partition(partition()).is_warm
    finally:
        executable_cache._versions.cache_clear()


def test_a_new_setting_is_part_of_the_key_unless_it_is_named(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Later(Config):
        tiles: int = 4

    assert compiling(Later(tiles=5)) == compiling(Config()) | {"tiles": 5}
    before = key(partition())
    monkeypatch.setattr(settings, "_current", Later(**vars(config())))
    assert key(partition()) != before


def test_settings_that_are_named_exist() -> None:
    assert {f.name for f in fields(Config)} >= settings._IRRELEVANT_TO_CODE


def test_layouts_count_not_their_ids(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are given in the order in which a process meets layouts."""
    p = partition()

    def opaque(layout: Layout) -> Partition:
        (src, *rest), id = p.inputs, LAYOUTS.id(layout)
        blocked = replace(src, layout_type=LayoutType.opaque, layout_id=id, strides=None)
        return replace(p, ops=p.graph.with_tensors({src.id: blocked}).ops, inputs=(blocked, *rest))

    first, other = Layout((1, 0), ((1, 16),)), Layout((1, 0), ((1, 8),))
    found = [key(opaque(first)), key(opaque(other))]
    monkeypatch.setattr(LAYOUTS, "_ids", {})
    monkeypatch.setattr(LAYOUTS, "_layouts", [])
    assert [key(opaque(other)), key(opaque(first))] == found[::-1]
    assert len({*found, key(p)}) == 3


# ---- the compiler's own sources -------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "package"
    shutil.copytree(Path(benchgraph.__file__).parent / "tir", root / "tir", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "harness").mkdir()
    (root / "harness" / "run.py").write_text("a = 1\n")
    return root


LATER_NS = 1 << 62


def digest(kept: Store, package: Path) -> str:
    source_digest._digest.cache_clear()
    found = source_digest._digest(kept, package, LATER_NS)
    assert found is not None
    return found


def test_the_digest_is_that_of_the_contents(kept: Store, package: Path) -> None:
    before = digest(kept, package)
    assert digest(kept, package) == before
    assert kept.hits["sources"] == 1, "the second time nothing is read"
    path = package / "tir" / "ir.py"
    path.touch()
    assert digest(kept, package) == before
    (package / "harness" / "run.py").write_text("a = 2\n")
    assert digest(kept, package) == before
    text = path.read_text()
    status = path.stat()
    path.write_text(text.replace("a", "b", 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # same size, same time
    changed = digest(kept, package)
    assert changed != before
    path.write_text(text)
    assert digest(kept, package) == before
    (package / "tir" / "new.py").write_text("")
    assert digest(kept, package) not in (before, changed)


def test_sources_that_changed_under_a_process_keep_it_from_the_disk(kept: Store, package: Path) -> None:
    source_digest._digest.cache_clear()
    with collected() as remarks:
        assert source_digest._digest(kept, package, (package / "tir" / "ir.py").stat().st_ctime_ns) is None
    assert remarks == ["no disk cache: the compiler's source files have changed since this process began"]


def test_another_digest_finds_nothing(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_partition(partition())
    monkeypatch.setattr(executable_cache, "compiler_digest", lambda store: "another")
    again = compile_partition(partition())
    assert not again.is_warm
    assert kept.hits[code.OBJECT] >= 1, "the same IR was made, so LLVM has not run again"
    monkeypatch.setattr(executable_cache, "compiler_digest", lambda store: None)
    assert [compile_partition(partition()).is_warm for _ in range(2)] == [False, False]


def test_all_that_compiles_is_digested() -> None:
    packages, todo = set[str](), ["compile"]
    while todo:
        package = todo.pop()
        packages.add(package)
        todo += [r for r in (*MAY_IMPORT[package], "core") if r not in packages]
    root = Path(benchgraph.__file__).parent
    files = {path.split("/")[0].removesuffix(".py") for path, *_ in source_digest._files(root)}
    assert packages <= files
    assert "harness" not in files


# ---- what goes past the disk ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"print_after": ("tir",)}, {"debug": 4}, {"verify": 2}])
def test_what_shows_or_checks_stages_compiles(kept: Store, asked: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    compile_partition(partition())
    with override(**asked):
        assert not compile_partition(partition()).is_warm
    assert ("after tir" in capsys.readouterr().err) == ("verify" not in asked)
    assert compile_partition(partition()).is_warm


def test_dumps_are_written_of_what_is_on_disk_too(kept: Store, tmp_path: Path) -> None:
    compile_partition(partition())
    with override(dump_dir=str(tmp_path / "dump")):
        compile_partition(partition())
    assert len(list((tmp_path / "dump").glob("*.ll"))) == 8  # of kernels, packing, main and init, each as emitted and as optimised


def test_the_texts_of_a_warm_executable_are_there(kept: Store) -> None:
    first, second = (compile_partition(partition()).code for _ in range(2))
    assert (second.optimized_ir(), second.assembly()) == (first.optimized_ir(), first.assembly())


def test_the_log_tells_a_compilation_from_a_reading(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with override(verbose=("create",)):
        for _ in range(2):
            Benchgraph().compile(partition())
    lines = [line.split(",")[3] for line in capsys.readouterr().out.splitlines() if "compile:" in line]
    assert lines == ["compile:cache_miss", "compile:disk_hit"]


def test_mode_p_says_which_compile_times_are_of_warm_starts(kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.session.machine_of", lambda *_: None)  # which measures its peaks for mode P
    monkeypatch.setattr(sampling, "MIN_SAMPLE_S", 1e-6)  # nobody reads the times
    monkeypatch.setattr(bandwidth, "last_level_bytes", lambda: 1 << 20)
    found = []
    for name in ("first.json", "second.json"):
        arguments = ["--mode=P", "--fix-times-per-prb=1", f"--report=json:{tmp_path / name}", "--graph", f"--case={INPUTS / 'mlp.json'}"]
        assert CliRunner().invoke(main, arguments).exit_code == 0
        (case,) = parse((tmp_path / name).read_text()).cases
        found.append({t.policy: t.is_warm for t in case.result.timings})
    assert set(found[0].values()) == {False}
    assert set(found[1].values()) == {True}


def test_what_compiles_reads_nothing_besides_its_arguments() -> None:
    """Else there would be something that decides about code and is not in the key: then give it a setting, or a field of Options."""
    root, readers = Path(benchgraph.__file__).parent, {"open", "read_text", "read_bytes", "config", "getenv", "loadtxt", "fromfile"}
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for package in ("ops", "partition", "gir", "lower", "tir", "codegen")
        for path in (root / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in readers
    ]
    assert not found


def test_code_is_that_of_a_machine_table(kept: Store, tmp_path: Path) -> None:
    """Of its contents, if it is a file: another process may have written it anew."""
    mine = tmp_path / "mine.toml"
    built_in = "zen4" if current().machine != "zen4" else "zen5"  # not the one that this machine has anyway
    text = '[machine]\nbase = "zen4"\n[sources]\nhere = "a test"\n[rates]\nclock_ghz = { value = 3.0, source = "here" }\n'
    kinds = list[bool]()
    for name, contents in (("", text), (built_in, text), (str(mine), text), (str(mine), text.replace("3.0", "4.0")), (str(mine), text)):
        mine.write_text(contents)
        table_file.read.cache_clear()
        with override(machine_table=name):
            kinds.append(compile_partition(partition()).is_warm)
    assert kinds == [False, False, False, False, True]
