"""The main job on every instruction set that the CPU has, and with every thread runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.config import override
from benchgraph.core.errors import Unimplemented
from benchgraph.machine.target import ISAS, current
from benchgraph.runtime.threads import omp_functions

CASES = ("mlp.json", "attention.json", "pattern/layernorm_from_basics.json", "op/matmul_transposed.json")


def check(**settings: object) -> None:
    with override(**settings):
        result = CliRunner().invoke(main, ["--graph", *(f"--case={name}" for name in CASES)])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_set_computes_the_reference(isa: str) -> None:
    try:
        with override(isa=isa):
            current()
    except Unimplemented as lacking:
        pytest.skip(str(lacking))
    check(isa=isa)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_thread_runtime_computes_the_reference(threads: int, tmp_path: Path) -> None:
    """What is compiled for a number of threads is bound to each runtime, from a disk cache of this test's own."""
    for runtime in ("threadpool", "seq", *(["omp"] if omp_functions() else [])):
        check(runtime=runtime, threads=threads, cache_dir=str(tmp_path), disk_cache_capacity=64)
    if not omp_functions():
        pytest.skip("all but omp: no OpenMP library in this process or on this system")
