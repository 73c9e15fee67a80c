"""Kernels and whole partitions at level avx512_core_amx, on any processor with AVX512_BF16: amx_trap.c executes tile registers."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchgraph.core.config import environment, module_path
from benchgraph.core.isa import ISAS
from benchgraph.machine.target import missing
from tests.amx.emulated import CASES


def lacking() -> str:
    """Why they cannot run here, empty if they can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "the trap is written for Linux on x86-64"
    if missing(ISAS["avx512_core_bf16"]):
        return f"this CPU lacks {', '.join(missing(ISAS['avx512_core_bf16']))}"
    return "" if shutil.which("cc") else "there is no C compiler for the trap that stands in for tile registers"


def test_kernels_and_partitions_are_right(tmp_path: Path) -> None:
    """In a process of their own, which does not ask for the tile registers that the processor may have."""
    if reason := lacking():
        pytest.skip(reason)
    source, library = Path(__file__).with_name("amx_trap.c"), tmp_path / "amx_trap.so"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    env = environment({}, PYTHONPATH=module_path(), BENCHGRAPH_CACHE_DIR="off", BENCHGRAPH_PARALLEL="always")
    command = [sys.executable, "-m", "tests.amx.emulated", str(library)]
    done = subprocess.run(command, env=env, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, counts = done.stdout.splitlines()
    totals = [re.match(r"tests:(\d+) passed:(\d+) ", line) for line in lines if line.startswith("tests:")]
    assert len(totals) == len(CASES), done.stdout
    assert all(found is not None and found[1] == found[2] for found in totals), done.stdout
    executed = json.loads(counts)
    native = set() if missing(ISAS["avx512_core_amx"]) else {"ldtilecfg", "tilerelease"}  # which need no permission
    assert {kind for kind, count in executed.items() if count} | native == {*executed} - {"tdpbsud"}, executed
