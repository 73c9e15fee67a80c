"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from benchgraph.harness.blas_threads import use_one_thread
from benchgraph.machine.cpu_affinity import allowed_cpus
from tests.support.covering import left_out_combinations

if TYPE_CHECKING:
    from benchgraph.machine.target import Isa
    from benchgraph.tir.ir import Func

# Tests see the compiler of this moment, mistakes that they put into it included, and so do the processes that they start. What is about the
# disk cache takes a directory of its own.
os.environ["BENCHGRAPH_DISK_CACHE_CAPACITY"] = "0"
os.environ["BENCHGRAPH_COMPILE_JOBS"] = "1"  # and what it does to the compiler would not reach processes that compile

# Processes that tests start load bytecode. Without it each of them would compile the package's source for half a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

use_one_thread()  # numpy's: threads that wait for each other on the processors of other workers took minutes

# Most graphs of tests are too small to be worth two threads, whose mistakes they are to find all the same.
os.environ["BENCHGRAPH_PARALLEL"] = "always"

# Compiling makes garbage in few large heaps at a time. Python's default, 700 new objects, looks for it after each of them, among all that
# tests hold: for a twentieth of the suite's time.
gc.set_threshold(200_000, 5, 100)

# No test depends on how fast the machine is. Other examples are drawn in each run, so few of each test are enough in one.
settings.register_profile("untimed", deadline=None, max_examples=40)
settings.register_profile("exhaustive", deadline=None, max_examples=400)
settings.load_profile("untimed")

GOLDEN = Path(__file__).parent / "golden"
pytest_plugins = ["tests.support.postgresql"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--commands", action="store_true", help="run the commands of the README, docs/usage.md and docs/ci.md too: minutes")
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="test every sample of every op in every combination of dtypes, every shape of quantised products, every combination of "
        "parameters of tests that are marked `covering`, and ten times the examples that hypothesis draws: minutes",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--exhaustive"):
        settings.load_profile("exhaustive")
    config.addinivalue_line("markers", "covering(strength): run a selection of the combinations of parameters (tests/support/covering.py)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the combinations of parameters that a test marked `covering` does not need, without --exhaustive."""
    if config.getoption("--exhaustive"):
        return
    left_out = left_out_combinations(items)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The whole suite runs on all processors; a worker keeps to its part of the files, so what a module makes once is made once.

    One worker more than processors, as some tests wait for processes, servers and pages: on two processors 7 % less time.
    """
    if hasattr(config, "workerinput"):  # it is one of them
        return
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.getoption("numprocesses", 0) is None:
        config.option.numprocesses = len(allowed_cpus()) + 1 if allowed_cpus() else "auto"
    if config.getoption("numprocesses", None) and config.getoption("dist", "") == "no":
        config.option.dist = "worksteal"


def pytest_collection_finish() -> None:
    """Tests and what they import live as long as the session; garbage is not looked for among them."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _same_ir_same_object() -> Iterator[None]:
    """LLVM makes the object of an IR once, however many tests come to that IR; what it takes besides is what `compiler` tells.

    A seventh of its work is saved. A mistake that a test puts into the compiler is in the IR, or it is none of the code.
    """
    from benchgraph.runtime import code  # not before the environment is as above

    made, compiled = dict[bytes, bytes](), code.compile_object

    def once(text: str, isa: Isa, opt: int = code.OPTIMISED) -> bytes:
        key = sha256(f"{code.compiler_identity(isa, opt)}\n{text}".encode()).digest()
        if key not in made:
            made[key] = compiled(text, isa, opt)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "compile_object", once)
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """golden(text): the text must be that of tests/golden/<package>/<test file>/<test name>.txt; --update-golden writes it."""
    name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
    path = GOLDEN / Path(request.node.path).relative_to(GOLDEN.parent).with_suffix("") / f"{name}.txt"

    def check(got: str) -> None:
        text = got.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        if not path.exists():
            pytest.fail(f"no golden file {path}; run with --update-golden to write it:\n{text}")
        want = path.read_text()
        assert text == want, f"differs from {path}; if this is meant, run with --update-golden and review the diff"

    return check


@pytest.fixture
def inits(monkeypatch: pytest.MonkeyPatch) -> list[Func]:
    """The init functions that ran, one for each computation of constants."""
    from benchgraph.runtime.executable import Temporaries

    ran: list[Func] = []
    real = Temporaries.arguments

    def counted(self: Temporaries, buffers: Any, func: Func) -> Any:  # of an init: by who holds its constants' lock
        if func.name == "init":
            ran.append(func)
        return real(self, buffers, func)

    monkeypatch.setattr(Temporaries, "arguments", counted)
    return ran


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Activations of layout any are in blocks of 8 columns, as a library that prefers blocks would store them."""
    from benchgraph.core.layout import LAYOUTS
    from benchgraph.core.tensor import LayoutType, LogicalTensor
    from benchgraph.gir.layouts import packed
    from benchgraph.library.partition import Partition

    real, blocks = Partition.compile, LAYOUTS.id(packed(2, 8, 1))

    def compile(self: Partition, inputs: list[LogicalTensor], outputs: list[LogicalTensor], *rest: object) -> object:
        open_outputs = {t.id for t in outputs if t.layout_type is LayoutType.any and t.ndims == 2}.difference(self.description.prepared)
        opaque = [replace(t, layout_type=LayoutType.opaque, layout_id=blocks, strides=None) if t.id in open_outputs else t for t in outputs]
        return real(self, inputs, opaque, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Partition, "compile", compile)
