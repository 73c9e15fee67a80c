"""A processor with AVX512_BF16: this one if it is, or one with AVX-512 whose missing instructions bf16_trap.c executes."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchgraph.codegen import intrinsics
from benchgraph.core.config import override
from benchgraph.core.isa import ISAS
from benchgraph.machine import target
from benchgraph.machine.target import missing

BF16, BELOW = ISAS["avx512_core_bf16"], ISAS["avx512_core_vnni"]
KINDS = ("vdpbf16ps", "vcvtneps2bf16", "vcvtne2ps2bf16")  # as the counters of bf16_trap.c are numbered
CPUS = ("host", "znver5", "sapphirerapids")  # whose costs LLVM goes by; the features are this processor's and BF16


@dataclass(frozen=True)
class Cpu:
    """The processor. trap: the library that executes what it lacks, None if that is nothing."""

    trap: ctypes.CDLL | None

    def executed(self) -> dict[str, int]:
        """How many of each instruction have been trapped."""
        return {name: 0 if self.trap is None else int(self.trap.bf16_trap_count(kind)) for kind, name in enumerate(KINDS)}

    @contextmanager
    def executes(self, *kinds: str) -> Iterator[None]:
        """The block executes these of the instructions and no others, which a processor that has them cannot tell."""
        before = self.executed()
        yield
        counts = {name: count - before[name] for name, count in self.executed().items()}
        assert self.trap is None or {name for name, count in counts.items() if count} == set(kinds), counts


def lacking() -> str:
    """Why there is no such processor here, empty if there is."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "the trap is written for Linux on x86-64"
    if missing(BELOW):
        return f"this CPU lacks {', '.join(missing(BELOW))}"
    if missing(BF16) and not shutil.which("cc"):
        return "this CPU lacks AVX512_BF16, and there is no C compiler for the trap that stands in for it"
    return ""


@pytest.fixture(scope="session")
def trap(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL | None:
    """The library, None where the processor needs none."""
    if reason := lacking():
        pytest.skip(reason)
    if not missing(BF16):
        return None
    source, file = Path(__file__).with_name("bf16_trap.c"), tmp_path_factory.mktemp("trap") / "bf16_trap.so"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-mfma", "-shared", "-fPIC", "-o", file, source], check=True)
    library = ctypes.CDLL(str(file))
    library.bf16_trap_count.restype = ctypes.c_ulong
    return library


@pytest.fixture
def cpu(trap: ctypes.CDLL | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cpu]:
    """The processor, at level avx512_core_bf16 unless a test goes below. Outside of tests nothing raises the level."""
    flags = target._cpu_flags()
    monkeypatch.setattr(target, "_cpu_flags", lambda: flags | {"avx512_bf16"})
    if trap is not None:
        assert trap.bf16_trap_install()
    try:
        with override(isa=BF16.name):
            yield Cpu(trap)
    finally:
        if trap is not None:
            trap.bf16_trap_remove()


@pytest.fixture(params=CPUS)
def tuned_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """LLVM schedules for each of these, with the features that can be executed here: those named later win."""
    described = intrinsics.machine_arguments
    if request.param != "host":
        monkeypatch.setattr(intrinsics, "machine_arguments", lambda isa, *more: replace(described(isa, *more), cpu=request.param))
    return str(request.param)
