"""The pipeline as a whole: it preserves what functions mean, and its order is sound."""

from __future__ import annotations

import pytest

from benchgraph.core.config import override
from benchgraph.tir.ir import Func, Module
from benchgraph.tir.passes import PIPELINE, Pass, check_order, run, run_func
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import VerifyError
from tests.tir.programs import PROGRAMS, TARGET, assert_same, relu


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_every_pass_preserves_meaning(program) -> None:
    original = program()
    stages: list[tuple[str, Func]] = []
    with override(verify=2):
        run_func(original, TARGET, lambda name, f: stages.append((name, f)))
    for _, f in stages:
        assert_same(f, original)
